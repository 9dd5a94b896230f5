//! Messages from processes that are not trusted.
#![allow(unsafe_code)]

use crate::{
    error::{Code, Failure},
    filter::bytes_of,
    process::{Own, full, limit, or_end, receive, wait},
    watch::Watch,
};
use forebay::{
    Error,
    queue::lanes::{self, Ending, LanesConfig, RecvError, SendError, Sender},
};
use pyo3::{
    IntoPyObjectExt,
    prelude::*,
    types::{PyBytes, PyTuple},
};
use std::{
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::Arc,
    time::{Duration, Instant},
};

/// Receives messages through lanes: each sender writes to separate memory, in which the hub believes nothing. So senders need not be trusted.
/// They may be in Python, Rust, C or C++. Threads may share a hub.
///
/// `max_peers`: senders at a time. `max_lane_bytes`: bytes of a lane.
#[pyclass(frozen, module = "forebay")]
pub struct Hub(Own<Arc<lanes::Hub>>);

/// The sender's number, and the length of its message in the buffer, or how its lane ended.
type Received = (u64, Result<usize, Ending>);

/// A duplicate of a socket: an object of Python's, or the number of its descriptor.
fn duplicate(socket: &Bound<'_, PyAny>) -> Result<UnixStream, Failure> {
    let number: i32 = match socket.extract() {
        Ok(number) => number,
        Err(_) => socket.call_method0("fileno")?.extract()?,
    };
    if number < 0 {
        let text = format!("{number} is not an open socket");
        return Err(Failure::new(Code::Invalid, text));
    }
    // SAFETY: the descriptor is Python's, which keeps it open during this call, or the call fails. It is only duplicated.
    let given = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(own(given)?.into())
}

fn own(fd: BorrowedFd<'_>) -> Result<OwnedFd, Failure> {
    let own = fd.try_clone_to_owned();
    Ok(own.map_err(|error| Error::new("the socket", "duplicating it").because(error))?)
}

/// The next message of any lane, or the end of a lane. `None`: there is none within `slice`.
fn next(
    hub: &lanes::Hub,
    buffer: &mut Vec<u8>,
    slice: Duration,
) -> Result<Option<Received>, Failure> {
    let end = Instant::now() + slice;
    loop {
        let received = match slice.is_zero() {
            true => hub.try_recv(buffer),
            false => {
                let left = end.saturating_duration_since(Instant::now());
                hub.recv_timeout(buffer, left)
            }
        };
        return match received {
            Ok(received) => Ok(Some((received.peer.number(), Ok(received.len)))),
            Err(RecvError::Ended { peer, ending, .. }) => Ok(Some((peer.number(), Err(ending)))),
            Err(RecvError::Empty | RecvError::TimedOut) => Ok(None),
            Err(RecvError::TooSmall { needed, .. }) => {
                buffer.resize(needed, 0);
                continue;
            }
            Err(error) => Err(error.into()),
        };
    }
}

#[pymethods]
impl Hub {
    #[new]
    #[pyo3(signature = (*, max_peers = 64, max_lane_bytes = 1 << 20))]
    fn new(max_peers: usize, max_lane_bytes: usize) -> Result<Hub, Failure> {
        let config = LanesConfig {
            max_peers,
            max_lane_bytes,
        };
        Ok(Hub(Own::new(
            "the hub",
            Arc::new(lanes::Hub::new(&config)?),
        )))
    }

    /// Accepts the sender at the other end of a connected Unix stream socket, and returns its number. The socket is duplicated: close yours.
    ///
    /// Waits for up to `timeout` seconds for the sender to make its lane; Ctrl-C does not end this wait. Raises `TimedOut`, `Closed` or `Damaged`.
    #[pyo3(signature = (socket, timeout = 10.0))]
    fn accept(
        &self,
        py: Python<'_>,
        socket: &Bound<'_, PyAny>,
        timeout: f64,
    ) -> Result<u64, Failure> {
        let (hub, socket) = (self.0.share()?, duplicate(socket)?);
        let limit = limit(Some(timeout))?.unwrap_or(Duration::MAX);
        let peer = py.detach(|| hub.accept_timeout(socket, limit))?;
        Ok(peer.number())
    }

    /// Receives the next message of any sender, `(number of the sender, bytes)`. Waits for it, for up to `timeout` seconds.
    ///
    /// At the end of a lane it returns, once and after the messages of this sender, its number and an exception instead of bytes:
    /// `Closed`, or `Damaged` if the sender broke the protocol. Other lanes go on.
    ///
    /// Raises `Empty` (`timeout` is 0), `TimedOut`, or `Closed` once the hub is closed.
    #[pyo3(signature = (timeout = None))]
    fn recv<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> Result<Bound<'py, PyTuple>, Failure> {
        let object = |(peer, message): (u64, Result<&[u8], Ending>)| {
            let message = match message {
                Ok(message) => PyBytes::new(py, message).into_any(),
                Err(ending) => PyErr::from(Failure::from(ending)).into_bound_py_any(py)?,
            };
            (peer, message).into_pyobject(py)
        };
        receive(
            py,
            timeout,
            || {
                let (hub, mut buffer) = (self.0.share()?, vec![0; 2048]);
                let found = next(&hub, &mut buffer, Duration::ZERO)?;
                let found = found.map(|(peer, len)| object((peer, len.map(|len| &buffer[..len]))));
                Ok(found.transpose()?)
            },
            |slice| {
                let (hub, mut buffer) = (self.0.share()?, vec![0; 2048]);
                let found = next(&hub, &mut buffer, slice)?;
                Ok(found.map(|(peer, len)| {
                    buffer.truncate(*len.as_ref().unwrap_or(&0));
                    (peer, len.map(|_| buffer))
                }))
            },
            |(peer, message)| object((peer, message.as_deref().map_err(|ending| *ending))),
        )
    }

    /// Ends the lane of this sender, with the messages in it. Raises `NotFound`.
    fn expel(&self, peer: u64) -> Result<(), Failure> {
        let hub = self.0.share()?;
        let lanes = hub.stats();
        let lane = lanes.iter().find(|lane| lane.peer.number() == peer);
        match lane.and_then(|lane| hub.expel(lane.peer)) {
            Some(_) => Ok(()),
            None => {
                let text = format!("peer {peer}: the hub has no such lane");
                Err(Failure::new(Code::NotFound, text))
            }
        }
    }

    /// Ends all lanes. Calls that wait, and later ones, raise `Closed`.
    fn close(&self) -> Result<(), Failure> {
        self.0.share()?.close();
        Ok(())
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyTuple>>, Failure> {
        or_end(self.recv(py, None))
    }

    /// `async for peer, message in hub`: until the hub is closed.
    fn __aiter__<'py>(this: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let module = this.py().import("forebay._async")?;
        module.call_method1("messages", (this,))
    }

    /// For `async for`: a descriptor that signals messages and the end.
    fn _watch(this: Py<Self>) -> Result<Watch, Failure> {
        let ended = this.get().0.ended()?;
        let descriptor = own(this.get().0.share()?.as_fd())?;
        Ok(Watch::new(ended, move || {
            let is_armed = this.get().0.share()?.arm();
            Ok(is_armed.then(|| descriptor.as_raw_fd()))
        }))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) -> Result<(), Failure> {
        self.close()
    }
}

/// Sends messages to the hub at the other end of a connected Unix stream socket, which is duplicated: close yours.
///
/// `capacity`: bytes of the lane; a message takes its length, rounded up to a multiple of 8, plus 8. Waits for up to `timeout` seconds for the
/// hub to accept it; Ctrl-C does not end this wait. Raises `TimedOut`, `Closed` or `Damaged`.
#[pyclass(frozen, module = "forebay")]
pub struct Lane(Own<Sender>);

#[pymethods]
impl Lane {
    #[new]
    #[pyo3(signature = (socket, capacity = 1 << 16, timeout = 10.0))]
    fn new(
        py: Python<'_>,
        socket: &Bound<'_, PyAny>,
        capacity: usize,
        timeout: f64,
    ) -> Result<Lane, Failure> {
        let socket = duplicate(socket)?;
        let limit = limit(Some(timeout))?.unwrap_or(Duration::MAX);
        let attached = py.detach(|| Sender::attach_timeout(socket, capacity, limit));
        Ok(Lane(Own::new("the lane", attached?)))
    }

    /// Sends a message: any object with the buffer protocol. Waits for room, for up to `timeout` seconds.
    ///
    /// Raises `Full` (`timeout` is 0), `TimedOut`, `TooLong`, `Closed` if the hub is gone, or `Damaged` if it broke the protocol.
    #[pyo3(signature = (message, timeout = None))]
    fn send(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> Result<(), Failure> {
        let (message, limit) = (bytes_of(message)?, limit(timeout)?);
        let step = |slice: Duration| {
            self.0.with(|sender| {
                let sent = match slice.is_zero() {
                    true => sender.try_send(&message),
                    false => sender.send_timeout(&message, slice),
                };
                match sent {
                    Ok(()) => Ok(Some(())),
                    Err(SendError::Full | SendError::TimedOut) => Ok(None),
                    Err(error) => Err(error.into()),
                }
            })
        };
        let sent = match step(Duration::ZERO)? {
            None if limit != Some(Duration::ZERO) => wait(py, limit, step)?,
            sent => sent,
        };
        sent.ok_or_else(|| full(limit))
    }

    /// Bytes of the longest message that fits.
    #[getter]
    fn largest(&self) -> Result<usize, Failure> {
        self.0.with(|sender| Ok(sender.largest()))
    }

    /// Ends the lane: the hub receives what is in it, and then the end.
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
