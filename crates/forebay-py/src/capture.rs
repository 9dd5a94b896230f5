//! `read` and `capture`: the packets of a source, burst by burst.

use crate::{
    arrow,
    burst::Burst,
    error::{Code, Failure},
    filter::parsed,
    packets::Packets,
    process::{Own, limit, wait},
    watch::Watch,
};
use forebay::Error;
use forebay_net::{
    Ledger, Next,
    capture::Stopper,
    open::{Name, Options},
    port::Interface,
};
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyDict, PyTuple},
};
use std::{
    os::fd::AsRawFd,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

/// An open source of packets: `for burst in capture`. Make it with `read` or `capture`, and close it with `with` or `close`.
#[pyclass(frozen, module = "forebay")]
pub struct Capture {
    shared: Arc<Shared>,
    path: Option<PathBuf>,
    stopper: Stopper,
    timeout: Option<Duration>,
}

/// The source, which one thread at a time uses, and its counts, which any thread may ask for.
struct Shared {
    source: Own<Source>,
    /// A thread asks for the counts while another one uses the source, which answers after its step.
    is_asked: AtomicBool,
    answer: Mutex<Option<Ledger>>,
    /// The counts at the end.
    closed: Mutex<Option<Ledger>>,
}

impl Shared {
    /// Takes a step with the source.
    fn with<R>(&self, step: impl FnOnce(&mut Source) -> Result<R, Failure>) -> Result<R, Failure> {
        self.source.with(|source| {
            let done = step(source);
            if self.is_asked.swap(false, SeqCst) {
                *lock(&self.answer) = Some(source.ledger());
            }
            done
        })
    }

    fn counts(&self, py: Python<'_>) -> Result<Ledger, Failure> {
        let begun = Instant::now();
        *lock(&self.answer) = None;
        loop {
            if let Some(counts) = *lock(&self.closed) {
                return Ok(counts);
            }
            match self.source.with(|source| Ok(source.ledger())) {
                // Or a thread closes it, and the counts at the end follow.
                Err(_) if self.source.check().is_ok() && begun.elapsed() < MAX_ANSWER => {}
                counts => return counts,
            }
            self.is_asked.store(true, SeqCst);
            py.detach(|| std::thread::sleep(Duration::from_millis(1)));
            if let Some(counts) = lock(&self.answer).take() {
                return Ok(counts);
            }
        }
    }
}

/// How long a thread waits for the counts. A step takes less.
const MAX_ANSWER: Duration = Duration::from_secs(5);

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Source {
    capture: forebay_net::Capture,
    interfaces: Arc<[Interface]>,
    is_file: bool,
    /// What `find` found, or why it failed, for the next call that takes it.
    found: Option<Result<Found, Failure>>,
}

/// What one step of waiting found: packets, or the end of the source.
type Found = Option<Packets>;

impl Source {
    /// Waits for a burst for up to `timeout`, and leaves it for `next`. Whether there is one, or the end, or a failure.
    fn find(&mut self, timeout: Duration) -> bool {
        self.found = self.next(timeout).transpose();
        self.found.is_some()
    }

    /// The counts so far. What no call has taken does not count as taken.
    fn ledger(&mut self) -> Ledger {
        let mut ledger = self.capture.ledger();
        if let Some(Ok(Some(packets))) = &self.found {
            ledger.counted -= packets.batch.len() as u64;
            ledger.unread += packets.batch.len() as u64;
        }
        ledger
    }

    /// Waits for a burst for up to `timeout`.
    fn next(&mut self, timeout: Duration) -> Result<Option<Found>, Failure> {
        if let Some(found) = self.found.take() {
            return found.map(Some);
        }
        Ok(match self.capture.take_batch(timeout)? {
            Next::Ready(batch) => {
                // Those of a file may follow later.
                if self.interfaces.len() != self.capture.interfaces().len() {
                    self.interfaces = self.capture.interfaces().into();
                }
                let packets = Packets::new(batch, self.interfaces.clone(), self.is_file);
                Some(Some(packets))
            }
            Next::TimedOut => None,
            _ => Some(None),
        })
    }
}

impl Capture {
    fn open(
        py: Python<'_>,
        name: &Name,
        options: &Options,
        timeout: Option<f64>,
    ) -> Result<Capture, Failure> {
        let timeout = limit(timeout)?;
        let capture = py.detach(|| forebay_net::Capture::with(name, options))?;
        let stopper = capture.stopper();
        let interfaces = capture.interfaces().into();
        let source = Source {
            capture,
            interfaces,
            is_file: matches!(name, Name::File(_)),
            found: None,
        };
        Ok(Capture {
            path: match name {
                Name::File(path) => Some(path.clone()),
                _ => None,
            },
            shared: Arc::new(Shared {
                source: Own::new("the capture", source),
                is_asked: AtomicBool::new(false),
                answer: Mutex::new(None),
                closed: Mutex::new(None),
            }),
            stopper,
            timeout,
        })
    }
}

fn late() -> Failure {
    Failure::new(Code::TimedOut, "no packet came within the time limit")
}

/// The next burst for a reader that does not hold the interpreter: only a wait needs it.
fn streamed(shared: &Shared, limit: Option<Duration>) -> Result<Found, Failure> {
    let next = |slice| shared.with(|source| source.next(slice));
    if let Some(found) = next(Duration::ZERO)? {
        return Ok(found);
    }
    let found = Python::try_attach(|py| wait(py, limit, next));
    let ending = || Failure::new(Code::Interrupted, "the interpreter exits");
    found.ok_or_else(ending)??.ok_or_else(late)
}

/// Reads a capture file, pcap or pcapng, plain or compressed with gzip or zstd. `-` is standard input.
///
/// `filter` is an expression in libpcap's language: only packets that match it are returned.
#[pyfunction]
#[pyo3(signature = (path, filter = None))]
pub fn read(py: Python<'_>, path: PathBuf, filter: Option<&str>) -> Result<Capture, Failure> {
    let options = Options {
        filter: parsed(filter)?,
        ..Options::default()
    };
    Capture::open(py, &Name::File(path), &options, None)
}

/// Captures from an interface (`eth0`, `any`, `xdp:eth0`), a share of another capture (`share:NAME`), another machine (`ssh:HOST/eth0`) or
/// the simulated card (`sim`).
///
/// `timeout`: seconds to wait for a burst; then the iteration raises `TimedOut`, and can go on. Without it, it waits without end.
/// `snaplen`: bytes of each packet that are needed. `ring_bytes`: the size of the ring in which the source receives packets.
#[pyfunction]
#[pyo3(signature = (name, filter = None, *, timeout = None, snaplen = None, promiscuous = true, ring_bytes = None))]
pub fn capture(
    py: Python<'_>,
    name: &str,
    filter: Option<&str>,
    timeout: Option<f64>,
    snaplen: Option<u32>,
    promiscuous: bool,
    ring_bytes: Option<u64>,
) -> Result<Capture, Failure> {
    let mut options = Options {
        filter: parsed(filter)?,
        promiscuous,
        ring_bytes,
        ..Options::default()
    };
    if let Some(snaplen) = snaplen {
        let max = forebay_net::port::MAX_SNAPLEN;
        if !(1..=max).contains(&snaplen) {
            let text = format!("snaplen: {snaplen} is not between 1 and {max}");
            return Err(Failure::new(Code::Invalid, text));
        }
        options.snaplen = snaplen;
    }
    Capture::open(py, &name.parse()?, &options, timeout)
}

#[pymethods]
impl Capture {
    /// Waits for the next burst, for up to `timeout` seconds; returns None at the end of the source. Raises `TimedOut`.
    #[pyo3(signature = (timeout = None))]
    fn next_burst(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
    ) -> Result<Option<Py<Burst>>, Failure> {
        let limit = limit(timeout)?.or(self.timeout);
        match wait(py, limit, |slice| {
            self.shared.with(|source| source.next(slice))
        })? {
            Some(Some(packets)) => Ok(Some(Py::new(py, Burst::new(packets))?)),
            Some(None) => Ok(None),
            None => Err(late()),
        }
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> Result<Option<Py<Burst>>, Failure> {
        self.next_burst(py, None)
    }

    /// `async for burst in capture`: until the end of the source.
    fn __aiter__<'py>(this: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let module = this.py().import("forebay._async")?;
        module.call_method1("bursts", (this,))
    }

    #[getter]
    fn _timeout(&self) -> Option<f64> {
        self.timeout.map(|timeout| timeout.as_secs_f64())
    }

    /// Of the file that it reads.
    #[getter]
    fn _path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    /// For `async for` over a file: waits for a burst, the end or a failure, which the next call then takes.
    fn _find(&self, py: Python<'_>) -> Result<(), Failure> {
        wait(py, None, |slice| {
            let is_found = self.shared.with(|source| Ok(source.find(slice)))?;
            Ok(is_found.then_some(()))
        })?;
        Ok(())
    }

    /// For `async for`: a descriptor that signals packets and the end.
    fn _watch(this: Py<Self>) -> Result<Watch, Failure> {
        let ended = this.get().shared.source.ended()?;
        let descriptor = (this.get().shared).with(|source| {
            let descriptor = source.capture.descriptor()?;
            // Two tasks cannot wait for one number.
            let own = descriptor.try_clone_to_owned();
            Ok(own.map_err(|error| Error::new("the capture", "watching it").because(error))?)
        })?;
        Ok(Watch::new(ended, move || {
            let is_armed = (this.get().shared)
                .with(|source| Ok(source.found.is_none() && source.capture.arm()?))?;
            Ok(is_armed.then(|| descriptor.as_raw_fd()))
        }))
    }

    /// Ends the capture, from any thread: bursts of packets that were received before still follow, then the end.
    fn stop(&self) -> Result<(), Failure> {
        self.shared.source.check()?; // a forked child shares its descriptor
        self.stopper.stop();
        Ok(())
    }

    /// Closes the source, and returns its counts: `counts`. Further calls return the same.
    fn close<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        self.stop()?;
        if let Some(mut source) = self.shared.source.take_wait(py)? {
            let finished = py.detach(|| source.capture.finish());
            *lock(&self.shared.closed) = Some(source.ledger()); // also if the end failed
            finished?;
        }
        self.counts(py)
    }

    /// The counts of packets so far, also while another thread waits for packets, and of all once the capture is closed. Then
    /// `received == written + counted + filtered + unread + sum(dropped.values())`, if none is None, which is an unknown count.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let ledger = self.shared.counts(py)?;
        let dropped = PyDict::new(py);
        for (cause, count) in ledger.dropped.by_cause() {
            dropped.set_item(cause, count)?;
        }
        let counts = PyDict::new(py);
        counts.set_item("received", ledger.received)?;
        counts.set_item("written", ledger.written)?;
        counts.set_item("counted", ledger.counted)?;
        counts.set_item("filtered", ledger.filtered)?;
        counts.set_item("unread", ledger.unread)?;
        counts.set_item("dropped", dropped)?;
        counts.set_item("interface_dropped", ledger.interface_dropped)?;
        Ok(counts)
    }

    /// The packets that are left, as a stream of Arrow's C interface. The payload of a file is not copied; that of an interface is,
    /// since its ring would fill up. `timeout`, Ctrl-C and `stop` end the wait for packets.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyCapsule>, Failure> {
        let _ = requested_schema; // a producer may ignore it
        let shared = self.shared.clone();
        let limit = self.timeout;
        let next = move || match streamed(&shared, limit) {
            // A table keeps all of them, and a ring that is not returned would stop.
            Ok(Some(packets)) if packets.is_in_ring() => Some(Ok(packets.detach().into())),
            Ok(Some(packets)) => Some(Ok(packets.into())),
            Ok(None) => None,
            Err(failure) => Some(Err(failure)),
        };
        arrow::stream(py, std::iter::from_fn(next))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> Result<(), Failure> {
        self.close(py).map(drop)
    }

    fn __repr__(&self) -> String {
        let name = (self.shared.source).with(|source| Ok(format!("{:?}", source.capture)));
        name.map_or_else(
            |_| "<forebay.Capture>".into(),
            |name| format!("<forebay.{name}>"),
        )
    }
}
