//! Messages to any number of readers, which may be too slow.

use crate::{
    error::Failure,
    filter::bytes_of,
    process::{Own, or_end, receive},
    watch::Watch,
};
use forebay::{
    Error,
    ring::broadcast::{BroadcastConfig, Producer, Reader, RecvError},
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyTuple},
};
use std::{
    fs::File,
    os::fd::{AsFd, AsRawFd},
    time::{Duration, Instant},
};

/// The producer of a broadcast: each message goes to all readers, in this and in other processes. It never waits for them: a reader
/// that is too slow loses messages, and learns how many.
///
/// `capacity`: bytes for messages. `messages`: their largest number.
#[pyclass(frozen, module = "forebay")]
pub struct Broadcast(Own<Producer>);

#[pymethods]
impl Broadcast {
    #[new]
    #[pyo3(signature = (capacity = 1 << 20, messages = 8192))]
    fn new(capacity: usize, messages: usize) -> Result<Broadcast, Failure> {
        let config = BroadcastConfig {
            data_bytes: capacity,
            messages,
            ..BroadcastConfig::default()
        };
        Ok(Broadcast(Own::new(
            "the broadcast",
            Producer::new(&config)?,
        )))
    }

    /// Publishes a message, wakes the readers that wait, and returns its number. Raises `TooLong`.
    fn send(&self, message: &Bound<'_, PyAny>) -> Result<u64, Failure> {
        let message = bytes_of(message)?;
        self.0.with(|producer| {
            let number = producer.publish(&[&message])?;
            producer.wake();
            Ok(number)
        })
    }

    /// A new reader, which begins at the next message.
    fn reader(&self) -> Result<BroadcastReader, Failure> {
        self.0
            .with(|producer| Ok(BroadcastReader::of(producer.reader()?)))
    }

    /// The descriptor of the memory, for readers in other processes: `forebay.BroadcastReader(fd)`. It stays open while the producer is.
    fn fileno(&self) -> Result<i32, Failure> {
        self.0.with(|producer| Ok(producer.memory().as_raw_fd()))
    }

    /// Ends the broadcast: readers get what is left, and then `Closed`.
    fn close(&self) -> Result<(), Failure> {
        self.0.take().map(drop)
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) -> Result<(), Failure> {
        self.close()
    }
}

/// A reader of a broadcast: `BroadcastReader(fd)` with the descriptor that the process of the producer sent, which may be closed then.
///
/// `lost` counts the messages that were overwritten before this reader had received them.
#[pyclass(frozen, module = "forebay")]
pub struct BroadcastReader(Own<Received>);

struct Received {
    reader: Reader,
    buffer: Vec<u8>,
}

impl BroadcastReader {
    fn of(reader: Reader) -> BroadcastReader {
        let received = Received {
            reader,
            buffer: vec![0; 2048],
        };
        BroadcastReader(Own::new("the reader", received))
    }
}

impl Received {
    /// The next message, in the buffer. Messages that were lost are passed over: they are counted.
    fn next(&mut self, slice: Duration) -> Result<Option<&[u8]>, Failure> {
        let end = Instant::now() + slice;
        loop {
            let received = match slice.is_zero() {
                true => self.reader.try_recv(&mut self.buffer),
                false => {
                    let left = end.saturating_duration_since(Instant::now());
                    self.reader.recv_timeout(&mut self.buffer, left)
                }
            };
            match received {
                Ok(received) => return Ok(Some(&self.buffer[..received.len])),
                Err(RecvError::Empty | RecvError::TimedOut) => return Ok(None),
                Err(RecvError::TooSmall { .. }) => self.buffer.resize(self.reader.largest(), 0),
                Err(RecvError::Overrun { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[pymethods]
impl BroadcastReader {
    #[new]
    fn new(fd: i32) -> Result<BroadcastReader, Failure> {
        let name = format!("/proc/self/fd/{fd}");
        let opened = File::open(&name);
        let memory = opened.map_err(|error| Error::new(name, "opening it").because(error))?;
        Ok(BroadcastReader::of(Reader::attach(memory.into())?))
    }

    /// Receives the next message. Waits for it, for up to `timeout` seconds.
    ///
    /// Raises `Empty` (`timeout` is 0), `TimedOut`, or `Closed` once the producer is closed and all is received.
    #[pyo3(signature = (timeout = None))]
    fn recv<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> Result<Bound<'py, PyBytes>, Failure> {
        let object = |message: &[u8]| PyBytes::new(py, message);
        receive(
            py,
            timeout,
            || (self.0).with(|received| Ok(received.next(Duration::ZERO)?.map(object))),
            |slice| (self.0).with(|received| Ok(received.next(slice)?.map(<[u8]>::to_vec))),
            |message| Ok(object(&message)),
        )
    }

    /// Messages that this reader has lost.
    #[getter]
    fn lost(&self) -> Result<u64, Failure> {
        self.0.with(|received| Ok(received.reader.stats().lost))
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyBytes>>, Failure> {
        or_end(self.recv(py, None))
    }

    /// `async for message in reader`: until the producer is closed.
    fn __aiter__<'py>(this: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let module = this.py().import("forebay._async")?;
        module.call_method1("messages", (this,))
    }

    /// For `async for`: a descriptor that signals messages and the end.
    fn _watch(this: Py<Self>) -> Result<Watch, Failure> {
        let ended = this.get().0.ended()?;
        let watch = (this.get().0).with(|received| Ok(received.reader.watch()?));
        let mut watch = watch?;
        Ok(Watch::new(ended, move || {
            let is_armed = (this.get().0).with(|received| Ok(watch.arm(&received.reader)))?;
            Ok(is_armed.then(|| watch.as_fd().as_raw_fd()))
        }))
    }

    /// Leaves the broadcast. `with` does this at its end. Threads and tasks that wait get `Misuse`.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        self.0.take_wait(py).map(drop)
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> Result<(), Failure> {
        self.close(py)
    }
}
