//! Ends a running fetch, from a signal handling thread or from any other thread.

use std::{
    net::{Shutdown, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A handle on a fetch. Clones control the same fetch.
///
/// Data received by then is not written any more, and [`get`](super::get) fails with the number of bytes written. A fetch that is
/// looking up a host, connecting or waiting for the output reacts only after that operation.
///
/// ```
/// let stop = forebay_io::http::Stop::default();
/// let elsewhere = stop.clone();
/// std::thread::spawn(move || elsewhere.stop()).join().unwrap();
/// assert!(stop.is_stopped());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    is_stopped: bool,
    socket: Option<TcpStream>,
}

impl Stop {
    /// Ends the fetch, now or as soon as it begins.
    pub fn stop(&self) {
        let mut inner = self.lock();
        inner.is_stopped = true;
        inner.shut_down();
    }

    /// Whether a stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// Sets the socket that the fetch waits for from now on.
    pub(super) fn watch(&self, socket: &TcpStream) {
        let mut inner = self.lock();
        // If no descriptor is available, the time limit still ends the wait.
        inner.socket = socket.try_clone().ok();
        if inner.is_stopped {
            inner.shut_down();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No operation here can be half done, so a panic elsewhere must not prevent a stop.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn shut_down(&self) {
        if let Some(socket) = &self.socket {
            // Fails if the server has already closed the connection.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}
