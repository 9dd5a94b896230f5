//! Messages between threads and processes.

use crate::{
    error::{Code, Failure},
    filter::bytes_of,
    process::{Own, full, limit, or_end, receive, wait},
    watch::Watch,
};
use forebay::queue::{
    Receiver, RecvError, SendError, Sender, WhenFull,
    shared::{self, AfterDeath, Shared, SharedQueueConfig},
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyTuple},
};
use std::{
    borrow::Cow,
    os::fd::{AsFd, AsRawFd},
    sync::Arc,
    time::Duration,
};

/// How long the counts wait for a process that was stopped while it held a lock.
const STATS_LIMIT: Duration = Duration::from_secs(1);

/// A queue of messages, which are bytes: any number of threads and processes send and receive.
///
/// `Queue()` is for the threads of this process. `Queue.create(name)` and `Queue.attach(name)` join processes of one user, in Python, Rust
/// or C. Any of them may be killed at any time. `capacity` is in bytes; a message takes its length, rounded up to a multiple of 8, plus 16.
///
/// `when_full`: `"wait"`, `"refuse"` (`send` raises `Full`) or `"drop-oldest"`. `after_death`: a message that a process had taken when it died
/// is delivered again (`"redeliver"`) or only counted (`"abandon"`).
#[pyclass(frozen, module = "forebay")]
pub struct Queue {
    ends: Own<Arc<Ends>>,
    name: Option<String>,
}

struct Ends {
    sender: Sender,
    receiver: Receiver,
    shared: Shared,
}

impl Queue {
    fn of(shared: Shared, name: Option<String>) -> Queue {
        let ends = Ends {
            sender: shared.sender(),
            receiver: shared.receiver(),
            shared,
        };
        Queue {
            ends: Own::new("the queue", Arc::new(ends)),
            name,
        }
    }
}

fn config(
    capacity: usize,
    when_full: &str,
    after_death: &str,
) -> Result<SharedQueueConfig, Failure> {
    let unknown = |name: &str, value: &str, known: &str| {
        Failure::new(Code::Invalid, format!("{name}: {value} is none of {known}"))
    };
    Ok(SharedQueueConfig {
        capacity_bytes: capacity,
        when_full: match when_full {
            "wait" => WhenFull::Wait,
            "refuse" => WhenFull::Refuse,
            "drop-oldest" => WhenFull::DropOldest,
            other => return Err(unknown("when_full", other, "wait, refuse, drop-oldest")),
        },
        after_death: match after_death {
            "redeliver" => AfterDeath::Redeliver,
            "abandon" => AfterDeath::Abandon,
            other => return Err(unknown("after_death", other, "redeliver, abandon")),
        },
    })
}

/// Nothing was received because there is nothing yet, which time may change.
fn awaited<T>(received: Result<T, RecvError>) -> Result<Option<T>, Failure> {
    match received {
        Ok(it) => Ok(Some(it)),
        Err(RecvError::Empty | RecvError::TimedOut) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[pymethods]
impl Queue {
    #[new]
    #[pyo3(signature = (capacity = 1 << 20, *, when_full = "wait"))]
    fn new(capacity: usize, when_full: &str) -> Result<Queue, Failure> {
        let config = config(capacity, when_full, "redeliver")?;
        Ok(Queue::of(shared::create_nameless(&config)?, None))
    }

    /// Makes a queue under a name of 1 to 100 letters, digits, dots, dashes and underscores. It stays until `remove`. Raises `Exists`.
    #[staticmethod]
    #[pyo3(signature = (name, capacity = 1 << 20, *, when_full = "wait", after_death = "redeliver"))]
    fn create(
        name: String,
        capacity: usize,
        when_full: &str,
        after_death: &str,
    ) -> Result<Queue, Failure> {
        let config = config(capacity, when_full, after_death)?;
        Ok(Queue::of(shared::create(&name, &config)?, Some(name)))
    }

    /// Joins the queue with this name. Raises `NotFound`.
    #[staticmethod]
    fn attach(name: String) -> Result<Queue, Failure> {
        Ok(Queue::of(shared::attach(&name)?, Some(name)))
    }

    /// Removes the name of a queue. Processes that use the queue keep it.
    #[staticmethod]
    fn remove(name: &str) -> Result<(), Failure> {
        Ok(shared::remove(name)?)
    }

    /// The names of this user's queues.
    #[staticmethod]
    fn names() -> Result<Vec<String>, Failure> {
        Ok(shared::list()?)
    }

    /// Sends a message: any object with the buffer protocol. Waits for room, for up to `timeout` seconds.
    ///
    /// Raises `Full` (`timeout` is 0, or the queue refuses), `TimedOut`, `Closed` or `TooLong`.
    #[pyo3(signature = (message, timeout = None))]
    fn send(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> Result<(), Failure> {
        let ends = self.ends.share()?;
        let message = bytes_of(message)?;
        match ends.sender.try_send(&message) {
            Err(SendError::Full | SendError::TimedOut) if timeout != Some(0.0) => {}
            sent => return Ok(sent?),
        }
        let limit = limit(timeout)?;
        let sent = wait(py, limit, |slice| {
            match self.ends.share()?.sender.send_timeout(&message, slice) {
                Err(SendError::TimedOut) => Ok(None),
                sent => Ok(Some(sent?)),
            }
        })?;
        sent.ok_or_else(|| full(limit))
    }

    /// Sends many messages, faster than one by one, and returns how many were sent: all, or fewer after `timeout` seconds.
    ///
    /// Raises as `send`, if not even the first one was sent.
    #[pyo3(signature = (messages, timeout = None))]
    fn send_many(
        &self,
        py: Python<'_>,
        messages: Vec<Bound<'_, PyAny>>,
        timeout: Option<f64>,
    ) -> Result<usize, Failure> {
        let limit = limit(timeout)?;
        let messages: Vec<Cow<'_, [u8]>> =
            messages.iter().map(bytes_of).collect::<PyResult<_>>()?;
        let mut sent = 0;
        let mut step = |slice: Duration| {
            let ends = self.ends.share()?; // until `detach`
            loop {
                let left = &messages[sent..];
                let Some(first) = left.first() else {
                    return Ok(Some(()));
                };
                match ends.sender.try_send_burst(left) {
                    Ok(some) => sent += some,
                    Err(SendError::Full | SendError::TimedOut) if slice.is_zero() => {
                        return Ok(None);
                    }
                    Err(SendError::Full | SendError::TimedOut) => {
                        match ends.sender.send_timeout(first, slice) {
                            Ok(()) => sent += 1,
                            Err(SendError::TimedOut) => return Ok(None),
                            Err(error) => return Err(error.into()),
                        }
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let done = match step(Duration::ZERO) {
            Ok(None) => wait(py, limit, step),
            done => done,
        };
        match (sent, done) {
            (0, Err(failure)) => Err(failure),
            (0, Ok(None)) => Err(full(limit)),
            // Ctrl-C is not swallowed.
            (_, Err(failure @ Failure::Python(_))) => Err(failure),
            _ => Ok(sent),
        }
    }

    /// Receives the next message. Waits for it, for up to `timeout` seconds.
    ///
    /// Raises `Empty` (`timeout` is 0), `TimedOut`, or `Closed` once the queue is closed and empty.
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
            || {
                let ends = self.ends.share()?;
                awaited(ends.receiver.try_take().map(|message| object(&message)))
            },
            |slice| {
                let ends = self.ends.share()?; // until `detach`
                let taken = ends.receiver.take_timeout(slice);
                awaited(taken.map(|message| message.to_vec()))
            },
            |message| Ok(object(&message)),
        )
    }

    /// Receives up to `max` messages, faster than one by one. Waits for the first one as `recv` does.
    #[pyo3(signature = (max = 256, timeout = None))]
    fn recv_many<'py>(
        &self,
        py: Python<'py>,
        max: usize,
        timeout: Option<f64>,
    ) -> Result<Vec<Bound<'py, PyBytes>>, Failure> {
        if max == 0 {
            return Err(Failure::new(
                Code::Invalid,
                "max: a burst has at least one message",
            ));
        }
        let object = |message: &[u8]| PyBytes::new(py, message);
        receive(
            py,
            timeout,
            || {
                let ends = self.ends.share()?;
                let burst = awaited(ends.receiver.try_take_burst(max))?;
                let objects =
                    burst.map(|burst| burst.iter().map(|(_, message)| object(message)).collect());
                Ok(objects)
            },
            |slice| {
                let ends = self.ends.share()?; // until `detach`
                let burst = awaited(ends.receiver.take_burst_timeout(max, slice))?;
                let copied =
                    burst.map(|burst| burst.iter().map(|(_, message)| message.to_vec()).collect());
                Ok(copied)
            },
            |messages: Vec<Vec<u8>>| Ok(messages.iter().map(|message| object(message)).collect()),
        )
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyBytes>>, Failure> {
        or_end(self.recv(py, None))
    }

    /// `async for message in queue`: until the queue is closed and empty.
    fn __aiter__<'py>(this: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let module = this.py().import("forebay._async")?;
        module.call_method1("messages", (this,))
    }

    /// For `async for`: a descriptor that signals messages and the end.
    fn _watch(this: Py<Self>) -> Result<Watch, Failure> {
        let ended = this.get().ends.ended()?;
        let mut watch = this.get().ends.share()?.receiver.watch()?;
        Ok(Watch::new(ended, move || {
            this.get().ends.share()?;
            Ok(watch.arm().then(|| watch.as_fd().as_raw_fd()))
        }))
    }

    /// Closes the queue for all senders, in all processes. Receivers get what is left in it, and then `Closed`.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        let ends = self.ends.share()?;
        py.detach(|| ends.sender.close());
        Ok(())
    }

    /// Leaves the queue, which stays as it is for others. `with` does this at its end. Further calls change nothing. Threads and tasks
    /// that wait at this object get `Misuse`.
    fn detach(&self, py: Python<'_>) -> Result<(), Failure> {
        self.ends.take_wait(py).map(drop)
    }

    /// The counts of the queue; the sum of the next five is `reserved`.
    fn stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let ends = self.ends.share()?;
        let stats = py.detach(|| ends.receiver.stats_timeout(STATS_LIMIT))?;
        let counts = PyDict::new(py);
        for (name, count) in [
            ("reserved", stats.reserved),
            ("received", stats.received),
            ("queued", stats.queued),
            ("dropped", stats.dropped),
            ("aborted", stats.aborted),
            ("torn", stats.torn),
            ("redelivered", stats.redelivered),
            ("abandoned", stats.abandoned),
        ] {
            counts.set_item(name, count)?;
        }
        Ok(counts)
    }

    /// The number of processes that use the queue.
    #[getter]
    fn processes(&self) -> Result<usize, Failure> {
        Ok(self.ends.share()?.shared.processes())
    }

    /// Bytes of the longest message that fits.
    #[getter]
    fn largest(&self) -> Result<usize, Failure> {
        Ok(self.ends.share()?.sender.largest())
    }

    /// Bytes of memory for messages.
    #[getter]
    fn capacity(&self) -> Result<usize, Failure> {
        Ok(self.ends.share()?.sender.capacity_bytes())
    }

    /// The name; None for a queue of one process.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// A queue with a name is passed to other processes by it.
    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<(Bound<'py, PyAny>, (String,)), Failure> {
        let Some(name) = self.name.clone() else {
            let text = "a queue without a name is for one process; make one with Queue.create";
            return Err(Failure::new(Code::Misuse, text));
        };
        Ok((py.get_type::<Queue>().getattr("attach")?, (name,)))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> Result<(), Failure> {
        self.detach(py)
    }

    fn __repr__(&self) -> String {
        match &self.name {
            Some(name) => format!("<forebay.Queue {name}>"),
            None => "<forebay.Queue>".into(),
        }
    }
}
