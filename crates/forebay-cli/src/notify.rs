//! Reports to the service manager, as `sd_notify(3)` does: one datagram each to the socket that `NOTIFY_SOCKET` names.
//!
//! A capture reports progress from its own thread. If that thread is stuck, the watchdog of the service manager hears nothing, and
//! restarts the service. Without a service manager, nothing happens here.

use anyhow::{Context, Result};
use std::{
    env,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// How often the state is described.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// The connection with the service manager. Clones share it.
#[derive(Clone)]
pub struct Manager {
    socket: Option<Arc<UnixDatagram>>,
    /// The time after which the service manager restarts the service, unless it hears from it.
    watchdog: Option<Duration>,
    /// Relaxed: it publishes only itself.
    is_stopping: Arc<AtomicBool>,
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
            is_stopping: Arc::default(),
        })
    }

    /// How often the watchdog has to hear of progress.
    pub fn progress_every(&self) -> Option<Duration> {
        self.watchdog.map(|time| time / 4)
    }

    /// Packets are being captured.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// The capture ends. The watchdog ends here: the service manager has another limit for the time until the end.
    pub fn stopping(&self) {
        if self.socket.is_some() && !self.is_stopping.swap(true, Relaxed) {
            self.send("STOPPING=1\nWATCHDOG_USEC=0");
        }
    }

    /// A report that is not accepted at once is dropped: a capture does not wait for the service manager.
    fn send(&self, text: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(text.as_bytes());
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
        if let Some(every) = self.manager.watchdog
            && now >= self.watchdog_at
            && !self.manager.is_stopping.load(Relaxed)
        {
            text += "WATCHDOG=1\n";
            self.watchdog_at = now + every / 2;
        }
        if now >= self.status_at {
            text += &format!("STATUS={}\n", status().replace('\n', " "));
            self.status_at = now + STATUS_EVERY;
        }
        if !text.is_empty() {
            self.manager.send(&text);
        }
    }
}
