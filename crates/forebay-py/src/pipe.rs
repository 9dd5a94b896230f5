//! Bytes and fixed-size elements from one thread to another.

use crate::{
    error::{Code, Failure},
    filter::bytes_of,
    process::{Own, full, limit, receive, wait},
};
use forebay::stream::{End, Reader, Writer, stream};
use pyo3::{
    prelude::*,
    types::{PyByteArray, PyTuple},
};
use std::time::Duration;

/// A stream of elements of `unit` bytes each. One thread at a time uses each end.
struct Ends {
    writer: Own<Writer>,
    reader: Own<Reader>,
    capacity: usize,
    unit: usize,
}

impl Ends {
    /// `name`: of the ends, in messages.
    fn new(name: [&'static str; 2], capacity: usize, unit: usize) -> Result<Ends, Failure> {
        let bytes = capacity.checked_mul(unit).filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or_else(|| {
            Failure::new(
                Code::Invalid,
                format!("{capacity} elements of {unit} bytes: not a size"),
            )
        })?;
        let (writer, reader) = stream(bytes)?;
        Ok(Ends {
            writer: Own::new(name[0], writer),
            reader: Own::new(name[1], reader),
            capacity,
            unit,
        })
    }

    /// Puts in as many whole elements of `bytes` as fit within the time limit; returns their number.
    fn push(&self, py: Python<'_>, bytes: &[u8], seconds: Option<f64>) -> Result<usize, Failure> {
        let (unit, limit) = (self.unit, limit(seconds)?);
        if !bytes.len().is_multiple_of(unit) {
            let text = format!(
                "{} bytes are no whole elements of {unit} bytes",
                bytes.len()
            );
            return Err(Failure::new(Code::Invalid, text));
        }
        let mut pushed = 0;
        let mut step = |slice: Duration| {
            self.writer.with(|writer| {
                let left = &bytes[pushed..];
                let room = match slice.is_zero() {
                    true => writer.available_capacity(),
                    false => writer.wait_vacant_timeout(unit, slice).unwrap_or(0),
                };
                if writer.is_over() {
                    return Err(Failure::new(
                        Code::Closed,
                        "the reader is gone, or the stream has ended",
                    ));
                }
                pushed += writer.push_slice(&left[..left.len().min(room / unit * unit)]);
                Ok((pushed == bytes.len()).then_some(()))
            })
        };
        let done = match step(Duration::ZERO) {
            Ok(None) => wait(py, limit, step),
            done => done,
        };
        match done {
            Err(failure @ Failure::Python(_)) => Err(failure), // Ctrl-C
            _ if pushed > 0 => Ok(pushed / unit),
            Err(failure) => Err(failure),
            Ok(Some(())) => Ok(0),
            Ok(None) => Err(full(limit)),
        }
    }

    /// Takes up to `max` elements out, and waits for the first one. `None`: the stream has ended.
    fn pop<'py>(
        &self,
        py: Python<'py>,
        max: usize,
        seconds: Option<f64>,
    ) -> Result<Option<Bound<'py, PyByteArray>>, Failure> {
        let unit = self.unit;
        if max == 0 {
            return Err(Failure::new(Code::Invalid, "max: at least one element"));
        }
        let ready = |reader: &mut Reader, slice| {
            let is_filled = reader.wait_filled_timeout(unit, slice).is_ok();
            let end = reader.end();
            // What came before the end may have come after the wait.
            let is_filled = is_filled || reader.bytes_buffered() >= unit;
            match (is_filled, end) {
                (true, _) => Ok(Some(true)),
                (false, Some(End::Closed)) => Ok(Some(false)),
                (false, Some(End::WriterGone)) => Err(Failure::new(
                    Code::Closed,
                    "the writer is gone, and did not close the stream",
                )),
                (false, Some(_)) => Err(Failure::new(Code::Io, "the stream ended with an error")),
                (false, None) => Ok(None),
            }
        };
        let len = |reader: &Reader| {
            let bytes = reader.bytes_buffered().min(max.saturating_mul(unit));
            bytes / unit * unit
        };
        receive(
            py,
            seconds,
            || {
                self.reader.with(|reader| {
                    let is_ready = ready(reader, Duration::ZERO)?;
                    let take = |is_ready: bool| {
                        is_ready.then(|| {
                            PyByteArray::new_with(py, len(reader), |target| {
                                reader.pop_slice(target);
                                Ok(())
                            })
                        })
                    };
                    Ok(is_ready.map(take).map(Option::transpose).transpose()?)
                })
            },
            |slice| {
                self.reader.with(|reader| {
                    let is_ready = ready(reader, slice)?;
                    Ok(is_ready.map(|is_ready| {
                        is_ready.then(|| {
                            let mut bytes = vec![0; len(reader)];
                            reader.pop_slice(&mut bytes);
                            bytes
                        })
                    }))
                })
            },
            |bytes: Option<Vec<u8>>| Ok(bytes.map(|bytes| PyByteArray::new(py, &bytes))),
        )
    }

    /// Ends the stream: what is in it can still be read. Later calls change nothing.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        if let Some(mut writer) = self.writer.take_wait(py)? {
            writer.close();
        }
        Ok(())
    }
}

/// A stream of bytes from one thread to another, which can end or fail. `capacity` is in bytes.
#[pyclass(frozen, module = "forebay")]
pub struct Stream(Ends);

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (capacity = 1 << 16))]
    fn new(capacity: usize) -> Result<Stream, Failure> {
        let name = ["the stream's writer", "the stream's reader"];
        Ok(Stream(Ends::new(name, capacity, 1)?))
    }

    /// Writes the bytes of any object with the buffer protocol; returns how many: all, or fewer after `timeout` seconds.
    ///
    /// Raises `Full`, `TimedOut` or `Closed` if not even one byte was written.
    #[pyo3(signature = (data, timeout = None))]
    fn write(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> Result<usize, Failure> {
        self.0.push(py, &bytes_of(data)?, timeout)
    }

    /// Reads up to `max` bytes, and waits for the first one. Empty at the end, once the stream was closed.
    ///
    /// Raises `Empty`, `TimedOut`, or `Closed` if the writer is gone without a `close`.
    #[pyo3(signature = (max = 1 << 16, timeout = None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        max: usize,
        timeout: Option<f64>,
    ) -> Result<Bound<'py, PyByteArray>, Failure> {
        let read = self.0.pop(py, max, timeout)?;
        Ok(read.unwrap_or_else(|| PyByteArray::new(py, &[])))
    }

    /// Ends the stream: its content is complete, and can still be read.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        self.0.close(py)
    }

    /// Ends the stream with an error, which the reader gets after its content.
    fn fail(&self) -> Result<(), Failure> {
        self.0.writer.with(|writer| {
            writer.set_error();
            Ok(())
        })
    }

    /// Bytes that it holds at most.
    #[getter]
    fn capacity(&self) -> usize {
        self.0.capacity
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> Result<(), Failure> {
        self.close(py)
    }
}

/// A ring of elements of one size, from one thread to another. `capacity` is in elements.
///
/// `dtype` is a type of numpy, also a structured one: `pop` then returns arrays. Or it is the size of an element in bytes: `pop` then returns
/// bytearrays.
#[pyclass(frozen, module = "forebay")]
pub struct Ring {
    ends: Ends,
    dtype: Option<Py<PyAny>>,
}

impl Ring {
    /// The bytes of elements. An array has to have the type of the ring, since its bytes alone do not show it.
    fn checked(&self, elements: &Bound<'_, PyAny>) -> Result<(), Failure> {
        let (Some(dtype), Ok(given)) = (&self.dtype, elements.getattr("dtype")) else {
            return Ok(());
        };
        match given.eq(dtype.bind(elements.py()))? {
            true => Ok(()),
            false => {
                let text = format!("elements of {given}, in a ring of {dtype}");
                Err(Failure::new(Code::Invalid, text))
            }
        }
    }
}

#[pymethods]
impl Ring {
    #[new]
    fn new(py: Python<'_>, capacity: usize, dtype: &Bound<'_, PyAny>) -> Result<Ring, Failure> {
        let (unit, dtype) = match dtype.extract::<usize>() {
            Ok(unit) => (unit, None),
            Err(_) => {
                let dtype = py.import("numpy")?.call_method1("dtype", (dtype,))?;
                if dtype.getattr("hasobject")?.is_truthy()? {
                    let text = "dtype: elements that refer to objects cannot be copied as bytes";
                    return Err(Failure::new(Code::Invalid, text));
                }
                (dtype.getattr("itemsize")?.extract()?, Some(dtype.unbind()))
            }
        };
        let name = ["the ring's producer", "the ring's consumer"];
        let ends = Ends::new(name, capacity, unit)?;
        Ok(Ring { ends, dtype })
    }

    /// Puts elements in: an array of numpy, or bytes; returns how many: all, or fewer after `timeout` seconds.
    ///
    /// Raises `Full`, `TimedOut` or `Closed` if not even one was put in.
    #[pyo3(signature = (elements, timeout = None))]
    fn push(
        &self,
        py: Python<'_>,
        elements: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> Result<usize, Failure> {
        self.checked(elements)?;
        match elements.call_method0("tobytes") {
            Ok(bytes) => self.ends.push(py, &bytes_of(&bytes)?, timeout),
            Err(_) => self.ends.push(py, &bytes_of(elements)?, timeout),
        }
    }

    /// Takes up to `max` elements out, and waits for the first one; None at the end, once the ring was closed.
    ///
    /// Raises `Empty`, `TimedOut`, or `Closed` if the producer is gone without a `close`.
    #[pyo3(signature = (max = 1024, timeout = None))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        max: usize,
        timeout: Option<f64>,
    ) -> Result<Option<Bound<'py, PyAny>>, Failure> {
        let Some(bytes) = self.ends.pop(py, max, timeout)? else {
            return Ok(None);
        };
        Ok(Some(match &self.dtype {
            None => bytes.into_any(),
            Some(dtype) => py
                .import("numpy")?
                .call_method1("frombuffer", (bytes, dtype))?,
        }))
    }

    /// Ends the ring: what is in it can still be taken out.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        self.ends.close(py)
    }

    /// Elements that it holds at most.
    #[getter]
    fn capacity(&self) -> usize {
        self.ends.capacity
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> Result<(), Failure> {
        self.close(py)
    }
}
