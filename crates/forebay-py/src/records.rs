//! Files of records that survive a crash.

use crate::{
    error::{Code, Failure},
    filter::bytes_of,
    process::{Own, limit, wait},
};
use forebay::{
    Error,
    records::{self, Records},
    store::{Closing, FileConfig, Stage, StoreConfig},
};
use pyo3::{
    prelude::*,
    types::{PyByteArray, PyBytes, PyDict, PyList, PyTuple},
};
use std::{fs::File, path::PathBuf};

/// Appends records to a file, in blocks with numbers and check sums. After a crash, the file has every block up to the last whole one.
///
/// Opens the file, or makes it. `found` is the number of records that it had. `max_record`: bytes of the longest record.
#[pyclass(frozen, module = "forebay")]
pub struct Appender {
    records: Own<Records<[u8]>>,
    /// A close that Ctrl-C interrupted.
    closing: Own<Option<Closing>>,
    found: u64,
    max_record: usize,
}

impl Appender {
    /// Appends records, waiting for room. Returns the number of records appended so far.
    fn put<'a>(&self, new: impl Iterator<Item = &'a [u8]>, longest: usize) -> Result<u64, Failure> {
        if longest > self.max_record {
            let text = format!("a record of {longest} bytes: at most {}", self.max_record);
            return Err(Failure::new(Code::TooLong, text));
        }
        self.records.with(|records| {
            for record in new {
                records.append(record)?;
            }
            Ok(records.totals().accepted)
        })
    }
}

#[pymethods]
impl Appender {
    #[new]
    #[pyo3(signature = (path, *, max_record = 1 << 16))]
    fn new(py: Python<'_>, path: PathBuf, max_record: usize) -> Result<Appender, Failure> {
        let config = StoreConfig {
            record_bytes: max_record.saturating_add(4), // with its length
            ..StoreConfig::default()
        };
        let opened = py.detach(|| Records::open_append(&path, &FileConfig::default(), &config));
        let (records, found) = opened?;
        Ok(Appender {
            records: Own::new("the appender", records),
            closing: Own::new("the appender", None),
            found: found.records,
            max_record,
        })
    }

    /// Appends one record: any object with the buffer protocol. Returns the number of records appended so far. Raises `TooLong`.
    fn append(&self, py: Python<'_>, record: &Bound<'_, PyAny>) -> Result<u64, Failure> {
        let record = bytes_of(record)?;
        py.detach(|| self.put(std::iter::once(&*record), record.len()))
    }

    /// Appends each element of an array of numpy, of any dtype, as one record. Returns the number of records appended so far.
    fn append_array(&self, py: Python<'_>, array: &Bound<'_, PyAny>) -> Result<u64, Failure> {
        let size: usize = array.getattr("dtype")?.getattr("itemsize")?.extract()?;
        let bytes = array.call_method0("tobytes")?;
        let bytes = bytes_of(&bytes)?;
        py.detach(|| self.put(bytes.chunks_exact(size.max(1)), size))
    }

    /// Waits until everything appended so far is *written*, which survives the end of this process, or *durable*, which survives a power
    /// cut. Raises `TimedOut`.
    #[pyo3(signature = (*, durable = false, timeout = None))]
    fn flush(&self, py: Python<'_>, durable: bool, timeout: Option<f64>) -> Result<(), Failure> {
        let stage = if durable {
            Stage::Durable
        } else {
            Stage::Written
        };
        let reached = wait(py, limit(timeout)?, |slice| {
            self.records.with(|records| {
                records.flush()?;
                let reached = records.wait_for(stage, slice)?;
                Ok((reached >= stage).then_some(()))
            })
        })?;
        reached.ok_or_else(|| Failure::new(Code::TimedOut, "the records are not written yet"))
    }

    /// The records that the file had when it was opened.
    #[getter]
    fn found(&self) -> u64 {
        self.found
    }

    /// The counts so far: records `accepted`, `written` and `durable`.
    fn counts<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let totals = self.records.with(|records| Ok(records.totals()))?;
        let counts = PyDict::new(py);
        counts.set_item("accepted", totals.accepted)?;
        counts.set_item("written", totals.written)?;
        counts.set_item("durable", totals.durable)?;
        Ok(counts)
    }

    /// Writes and syncs what is left, and closes the file. After Ctrl-C, call it again. Further calls change nothing.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        let mut left = match self.records.take()? {
            Some(records) => Some(py.detach(|| records.close())),
            None => self.closing.with(|closing| Ok(closing.take()))?,
        };
        if left.is_none() {
            return Ok(());
        }
        let finished = wait(py, None, |slice| {
            let Some(closing) = left.take() else {
                return Ok(None);
            };
            match closing.wait(slice) {
                Ok(finished) => Ok(Some(finished)),
                Err(again) => {
                    left = Some(again);
                    Ok(None)
                }
            }
        });
        self.closing.with(|closing| {
            *closing = left;
            Ok(())
        })?;
        match finished?.and_then(|finished| finished.error) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> Result<(), Failure> {
        self.close(py)
    }
}

/// Reads a file of records: a list of bytes, or with `dtype` an array of numpy with one element for each record.
///
/// Raises `Invalid` if a record has another size than an element of `dtype`.
///
/// Returns the records and None, or the whole ones and the reason why the rest of the file cannot be relied on.
#[pyfunction]
#[pyo3(signature = (path, dtype = None))]
pub fn read_records<'py>(
    py: Python<'py>,
    path: PathBuf,
    dtype: Option<&Bound<'py, PyAny>>,
) -> Result<(Bound<'py, PyAny>, Option<String>), Failure> {
    let opened = py.detach(|| File::open(&path));
    let file = opened
        .map_err(|error| Error::new(path.display().to_string(), "opening it").because(error))?;
    let mut reader = records::Reader::new(file);
    let (list, joined) = (PyList::empty(py), PyByteArray::new(py, &[]));
    let dtype = match dtype {
        None => None,
        Some(dtype) => {
            let dtype = py.import("numpy")?.call_method1("dtype", (dtype,))?;
            let size: usize = dtype.getattr("itemsize")?.extract()?;
            Some((dtype, size))
        }
    };
    while let Some(block) = py.detach(|| reader.next_block())? {
        py.check_signals()?;
        match &dtype {
            None => {
                for record in block.records() {
                    list.append(PyBytes::new(py, record))?;
                }
            }
            Some((_, size)) => {
                let mut records = Vec::new();
                for record in block.records() {
                    if record.len() != *size {
                        let text = format!(
                            "{}: a record of {} bytes: an element of dtype has {size}",
                            path.display(),
                            record.len()
                        );
                        return Err(Failure::new(Code::Invalid, text));
                    }
                    records.extend_from_slice(record);
                }
                joined.call_method1("extend", (PyBytes::new(py, &records),))?;
            }
        }
    }
    let cut = reader.finish()?.cut;
    let cut = cut.map(|cut| format!("{} from byte {} on", cut.fault, cut.at));
    let found = match dtype {
        None => list.into_any(),
        Some((dtype, _)) => py
            .import("numpy")?
            .call_method1("frombuffer", (joined, dtype))?,
    };
    Ok((found, cut))
}
