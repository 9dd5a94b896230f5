//! A burst of packets as Python sees it: columns, and the bytes of each packet.

use crate::{
    arrow,
    column::{array, view},
    error::{Code, Failure},
    packets::{Field, Packets},
};
use pyo3::{
    exceptions::{PyBufferError, PyIndexError},
    prelude::*,
    types::{PyCapsule, PyDict, PyList, PySlice, PyTuple},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Packets that were received together, as columns: one element a packet.
///
/// Columns are numpy arrays, or memoryviews where numpy is not installed. The bytes of the packets stay where the source received them.
/// For an interface, that is a part of its ring, which fills up while bursts are kept: `detach` returns it.
#[pyclass(frozen, module = "forebay")]
pub struct Burst(Mutex<Option<Arc<Packets>>>);

impl Burst {
    pub fn new(packets: Packets) -> Burst {
        Burst(Mutex::new(Some(Arc::new(packets))))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Packets>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The packets. A clone counts as a view of the burst.
    pub fn packets(&self) -> Result<Arc<Packets>, Failure> {
        let packets = self.lock().clone();
        let packets =
            packets.ok_or_else(|| Failure::new(Code::Misuse, "the burst was released"))?;
        packets.check()?;
        Ok(packets)
    }

    fn column<'py>(&self, py: Python<'py>, field: Field) -> Result<Bound<'py, PyAny>, Failure> {
        let packets = self.packets()?;
        let column = py.detach(|| packets.column(field));
        Ok(array(py, &column, field.format())?)
    }
}

fn viewed() -> PyErr {
    PyBufferError::new_err("views of the payload exist: delete them first")
}

#[pymethods]
impl Burst {
    /// Arrival times in nanoseconds since 1970, int64: `burst.time.view("datetime64[ns]")` are numpy's times.
    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        self.column(py, Field::Time)
    }

    /// Captured bytes of each packet, uint32.
    #[getter]
    fn length<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        self.column(py, Field::Length)
    }

    /// Bytes that each packet had on the wire, uint32.
    #[getter]
    fn wire_length<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        self.column(py, Field::WireLength)
    }

    /// The number of each packet's interface, an index of `interfaces`, uint32.
    #[getter]
    fn interface<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        self.column(py, Field::Interface)
    }

    /// 1: received; 2: sent by this machine; 0: unknown; uint8.
    #[getter]
    fn direction<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        self.column(py, Field::Direction)
    }

    /// Packets that the source lost directly before each one, uint64.
    #[getter]
    fn dropped<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        self.column(py, Field::Dropped)
    }

    /// Where each packet begins in `payload`, int64.
    #[getter]
    fn offset<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        self.column(py, Field::Offset)
    }

    /// A hash of each packet's flow, uint64: the same for both directions of a conversation, and for other files, processes and machines.
    /// Of two conversations it nearly always differs. 0: the packet has no addresses.
    ///
    /// It is that of the two addresses, the protocol, and the ports of TCP, UDP and SCTP. Later fragments have no ports. For ICMP, an echo and
    /// its reply have the same hash. Computed from the packets' bytes when it is read first.
    #[getter]
    fn hash<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        self.column(py, Field::Hash)
    }

    /// The bytes of the packets, a read-only memoryview: packet `i` is `payload[offset[i]:offset[i] + length[i]]`, and `burst[i]`.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        Ok(view(py, &self.packets()?.payload(), "B")?)
    }

    /// The interfaces that `interface` numbers: dicts with `name`, `link_type` (the number in capture files) and `snaplen`.
    #[getter]
    fn interfaces<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyList>, Failure> {
        let list = PyList::empty(py);
        for interface in self.packets()?.interfaces.iter() {
            let entry = PyDict::new(py);
            entry.set_item("name", &interface.name)?;
            entry.set_item("link_type", interface.link.0)?;
            entry.set_item("snaplen", interface.snaplen)?;
            list.append(entry)?;
        }
        Ok(list)
    }

    /// Gives the memory back now. Every later use of the burst raises `Misuse`.
    ///
    /// Raises BufferError, and changes nothing, while a view of the payload exists: a packet, or an array made of it.
    fn release(&self) -> PyResult<()> {
        let mut packets = self.lock();
        match &*packets {
            Some(shared) if Arc::strong_count(shared) > 1 => Err(viewed()),
            _ => {
                *packets = None;
                Ok(())
            }
        }
    }

    /// Copies the bytes out of the memory of the source, to keep the burst for longer. Columns stay valid, except
    /// `offset`: read that one again.
    ///
    /// Raises BufferError, and changes nothing, while a view of the payload exists.
    fn detach(&self) -> Result<(), Failure> {
        let shared = self.packets()?;
        if !shared.batch.is_borrowed() {
            return Ok(());
        }
        let mut packets = self.lock();
        drop(shared);
        let Some(shared) = packets.take() else {
            return Ok(()); // another thread released it
        };
        match Arc::try_unwrap(shared) {
            Ok(borrowed) => {
                *packets = Some(Arc::new(borrowed.detach()));
                Ok(())
            }
            Err(shared) => {
                *packets = Some(shared);
                Err(viewed().into())
            }
        }
    }

    fn __len__(&self) -> Result<usize, Failure> {
        Ok(self.packets()?.batch.len())
    }

    /// The bytes of a packet as a memoryview.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: isize,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let packets = self.packets()?;
        let at = match index < 0 {
            true => index.checked_add_unsigned(packets.batch.len()),
            false => Some(index),
        };
        let at = at.and_then(|at| usize::try_from(at).ok());
        let Some(at) = at.filter(|at| *at < packets.batch.len()) else {
            let text = format!("packet {index} of a burst of {}", packets.batch.len());
            return Err(PyIndexError::new_err(text).into());
        };
        let range = packets.range(at);
        let slice = PySlice::new(py, range.start as isize, range.end as isize, 1);
        Ok(view(py, &packets.payload(), "B")?.get_item(slice)?)
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        match self.release() {
            // The traceback of the exception in flight refers to views.
            Err(_) if exception.get_item(0).is_ok_and(|kind| !kind.is_none()) => Ok(()),
            released => released,
        }
    }

    /// Whether the bytes are in memory of the source. If not, they were copied once.
    #[getter]
    fn is_borrowed(&self) -> Result<bool, Failure> {
        Ok(self.packets()?.batch.is_borrowed())
    }

    /// The packets as a stream of Arrow's C interface, which pyarrow, polars and duckdb take. The payload is not copied.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyCapsule>, Failure> {
        let _ = requested_schema; // a producer may ignore it
        let packets = self.packets()?;
        arrow::stream(py, std::iter::once(Ok(packets)))
    }

    fn __repr__(&self) -> String {
        match &*self.lock() {
            Some(packets) => format!("<forebay.Burst: {} packets>", packets.batch.len()),
            None => "<forebay.Burst: released>".into(),
        }
    }
}
