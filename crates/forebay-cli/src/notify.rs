//! Reports to the service manager, as `sd_notify(3)` does: one datagram each to the socket that `NOTIFY_SOCKET` names.
//!
//! A capture reports progress from its own thread. If that thread is stuck, the watchdog of the service manager hears nothing, and
//! restarts the service. Without a service manager, nothing happens here.

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    env,
    io::ErrorKind,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// How often the state is described.
const STATUS_EVERY: Duration = Duration::from_secs(5);
/// How long the end of a capture waits for a service manager that accepts nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// The connection with the service manager. Clones share it.
#[derive(Clone)]
pub struct Manager {
    socket: Option<Arc<UnixDatagram>>,
    /// The time after which the service manager restarts the service, unless it hears from it.
    watchdog: Option<Duration>,
    /// `READY=1` was not accepted yet. Relaxed, as below: it publishes only itself.
    owes_ready: Arc<AtomicBool>,
    is_stopping: Arc<AtomicBool>,
    /// Held while it is reported, so that the last attempt does not rely on one that fails.
    sends_stopping: Arc<Mutex<()>>,
}

impl Manager {
    /// Connects with the service manager, if there is one.
    ///
    /// # Errors
    /// There is one, and it cannot be reached.
    pub fn connect() -> Result<Manager> {
        let socket = match env::var("NOTIFY_SOCKET") {
            Ok(name) if !name.is_empty() => {
                let socket = open(&name);
                let context =
                    || format!("NOTIFY_SOCKET={name}: the service manager cannot be reached");
                Some(Arc::new(socket.with_context(context)?))
            }
            _ => None,
        };
        let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
        let is_for_us =
            number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|&time| time > 0 && is_for_us);
        Ok(Manager {
            watchdog: watchdog
                .filter(|_| socket.is_some())
                .map(Duration::from_micros),
            socket,
            owes_ready: Arc::default(),
            is_stopping: Arc::default(),
            sends_stopping: Arc::default(),
        })
    }

    /// How often the watchdog has to hear of progress.
    pub fn progress_every(&self) -> Option<Duration> {
        self.watchdog.map(|time| time / 4)
    }

    /// Packets are being captured. If the service manager does not accept this now, [`Heartbeat`] tries again.
    pub fn ready(&self) {
        let is_sent = self.send("READY=1", Duration::ZERO);
        self.owes_ready.store(!is_sent, Relaxed);
    }

    /// A stop was requested. It does not wait for the service manager; [`ended`](Self::ended) tries again.
    pub fn stopping(&self) {
        self.stop(Duration::ZERO);
    }

    /// The capture ends: nothing is captured any more, so that the caller may wait for the service manager, for at most
    /// [`PATIENCE`].
    pub fn ended(&self) {
        self.stop(PATIENCE);
    }

    /// The watchdog ends here, because the service manager has another limit for the time until the end. Until this is accepted,
    /// the heartbeat goes on.
    fn stop(&self, patience: Duration) {
        let text = "STOPPING=1\nWATCHDOG_USEC=0";
        let _sends = self.sends_stopping.lock();
        if !self.is_stopping.load(Relaxed) && self.send(text, patience) {
            self.is_stopping.store(true, Relaxed);
        }
    }

    /// Whether the service manager accepts the text within `patience`, or is not there at all. If its queue is full, it does not.
    fn send(&self, text: &str, patience: Duration) -> bool {
        let Some(socket) = &self.socket else {
            return true;
        };
        let deadline = Instant::now() + patience;
        loop {
            match socket.send(text.as_bytes()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                sent => return sent.is_ok(),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let left = Timespec::try_from(left).ok();
            let _ = poll(&mut [PollFd::new(socket, PollFlags::OUT)], left.as_ref());
        }
    }
}

fn open(name: &str) -> std::io::Result<UnixDatagram> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// What the thread of the capture reports.
pub struct Heartbeat {
    manager: Manager,
    /// When the watchdog, and the description of the state, are due.
    watchdog_at: Instant,
    status_at: Instant,
}

impl Heartbeat {
    pub fn new(manager: Manager) -> Self {
        let now = Instant::now();
        Heartbeat {
            manager,
            watchdog_at: now,
            status_at: now,
        }
    }

    /// The capture made progress. `status` describes it in a line.
    pub fn beat(&mut self, status: impl FnOnce() -> String) {
        if self.manager.socket.is_none() {
            return;
        }
        let now = Instant::now();
        let mut text = String::new();
        let owes_ready = self.manager.owes_ready.load(Relaxed);
        if owes_ready {
            text += "READY=1\n";
        }
        let mut watchdog_at = self.watchdog_at;
        if let Some(every) = self.manager.watchdog
            && now >= self.watchdog_at
            && !self.manager.is_stopping.load(Relaxed)
        {
            text += "WATCHDOG=1\n";
            watchdog_at = now + every / 2;
        }
        let mut status_at = self.status_at;
        if now >= self.status_at {
            text += &format!("STATUS={}\n", status().replace('\n', " "));
            status_at = now + STATUS_EVERY;
        }
        // What is not accepted is due again at the next beat.
        if !text.is_empty() && self.manager.send(&text, Duration::ZERO) {
            (self.watchdog_at, self.status_at) = (watchdog_at, status_at);
            if owes_ready {
                self.manager.owes_ready.store(false, Relaxed);
            }
        }
    }
}
