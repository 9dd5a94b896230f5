//! How the outside ends a fetch that is under way: from the thread of signals, or any other. It imports nothing.

use std::{
    net::{Shutdown, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A handle on a fetch; clones talk to the same one.
///
/// What has come until then is not written any more, and [`get`](super::get) fails, saying how much was. While it looks a host
/// up, connects or waits for the output, it takes notice only behind that.
///
/// ```
/// let stop = forebay_net::http::Stop::default();
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

    /// Whether that was asked for.
    pub fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// From here on the fetch waits for this socket.
    pub(super) fn watch(&self, socket: &TcpStream) {
        let mut inner = self.lock();
        // Without a descriptor left for it, the time limit still ends the wait.
        inner.socket = socket.try_clone().ok();
        if inner.is_stopped {
            inner.shut_down();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here can be half done: a panic elsewhere is no reason not to stop.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn shut_down(&self) {
        if let Some(socket) = &self.socket {
            // Fails where the server ended the connection already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}
