//! `--control`, `--metrics` and `--metrics-file`: watching and steering a capture while it runs.
//!
//! ```text
//!  session's thread ── Publisher ─▶ latest snapshot ◀── one thread serves: control socket · metrics · file
//!                   ◀── session::Control: finish, rotate, flush, trigger ──┘
//! ```
//! - The session's thread does no I/O for this and never waits: it fills the snapshot four times a second (`snapshot`).
//! - Clients are served by one thread (`server`), which never blocks on any of them. Each has limits (`connection`).
//! - `desk` holds the answers, `metrics` the text for Prometheus, `http` the requests for it, `file` the textfile collector's file.
//!
//! All sockets are bound before the sandbox is entered. From then on the thread only calls `ppoll`, `accept4`, `getsockopt`, `read`,
//! `sendto`, `close`, `futex`, `clock_gettime`, `mmap` and `munmap` (memory), `getpid` and `geteuid`; for the file also `openat`,
//! `write` and `rename`, in the folder of that file only; at the end `statx` and `unlink`, in the folder of the control socket.

mod connection;
mod desk;
mod file;
mod http;
mod metrics;
mod scrapers;
mod server;
mod snapshot;
#[cfg(test)]
mod tests;

pub use desk::About;
pub use snapshot::Publisher;

use super::request::Request;
use crate::{
    control::place::{self, Bound},
    output, privileges,
};
use anyhow::{Context, Result};
use desk::Desk;
use file::MetricsFile;
use forebay::sync::Signal;
use forebay_net::session::{Control, Summary};
use nix::unistd::geteuid;
use rustix::io::ioctl_fionbio;
use serde_json::Value;
use server::Server;
use snapshot::Latest;
use std::{net::TcpListener, sync::Arc, thread::JoinHandle};

/// The sockets that the flags ask for, bound but not served yet.
pub struct Sockets {
    control: Option<Bound>,
    metrics: Option<TcpListener>,
    owner: u32,
}

impl Sockets {
    /// Binds them, before privileges are dropped. A port that is in use is left out of a `request` that also has a file, see
    /// [`Request::goes_on`].
    ///
    /// # Errors
    /// A socket cannot be bound.
    pub fn bind(request: &mut Request) -> Result<Sockets> {
        let control = request.watched.control.as_deref();
        let control = control.map(|name| Bound::new(&place::path_of(name)?));
        let control = control.transpose()?;
        let metrics = match request.watched.metrics {
            None => None,
            Some(address) => match TcpListener::bind(address) {
                Ok(listener) => Some(listener),
                Err(error) => {
                    let code = error.raw_os_error();
                    let what = format!("--metrics {address}: cannot listen there");
                    request.goes_on(code, anyhow::Error::new(error).context(what))?;
                    request.watched.metrics = None;
                    None
                }
            },
        };
        let listeners = [
            control
                .as_ref()
                .map(|bound| &bound.listener as &dyn std::os::fd::AsFd),
            metrics.as_ref().map(|listener| listener as _),
        ];
        for listener in listeners.into_iter().flatten() {
            ioctl_fionbio(listener.as_fd(), true).context("a socket cannot be prepared")?;
        }
        Ok(Sockets {
            control,
            metrics,
            owner: geteuid().as_raw(),
        })
    }

    /// Starts serving; `None`: no flag asks for it.
    ///
    /// # Errors
    /// The file of the metrics cannot be written, or the system has no more threads or descriptors.
    pub fn serve(
        self,
        request: &Request,
        about: About,
        control: Control,
    ) -> Result<Option<Operate>> {
        let file = request.watched.metrics_file.clone().map(MetricsFile::new);
        if self.control.is_none() && self.metrics.is_none() && file.is_none() {
            return Ok(None);
        }
        let store_bytes = about.store.map_or(0, |store| store.limit_bytes as u64);
        let latest = Latest::default();
        let patience = request.watched.metrics_wait;
        let mut desk = Desk::new(about, latest.clone(), control, patience);
        if let Some(listener) = &self.metrics {
            let address = listener.local_addr().context("--metrics")?;
            desk.metrics = Some(address);
            if !request.is_quiet {
                output::note(format_args!("metrics at http://{address}/metrics"));
            }
            if !address.ip().is_loopback() {
                output::warning(format_args!(
                    "--metrics {address}: every machine that reaches this address can read the metrics"
                ));
            }
        }
        let ended = Arc::new(Signal::new()?);
        let mut server = Server {
            desk,
            control: self.control,
            metrics: self.metrics,
            file,
            ended: ended.clone(),
            announces: !request.is_quiet,
            owner: self.owner,
        };
        if let Some(file) = &mut server.file {
            server.desk.write(file)?;
        }
        let thread = std::thread::Builder::new().name("forebay-operate".into());
        let thread = thread.spawn(move || {
            // It parses what strangers send.
            if server.file.is_none()
                && let Err(error) = privileges::drop_files()
            {
                output::warning(output::causes(&error));
            }
            server.run();
        });
        Ok(Some(Operate {
            publisher: Publisher::new(latest, store_bytes),
            ended,
            thread: thread.context("cannot start a thread for --control and --metrics")?,
        }))
    }
}

/// The served sockets of a running capture.
pub struct Operate {
    pub publisher: Publisher,
    ended: Arc<Signal>,
    thread: JoinHandle<()>,
}

impl Operate {
    /// Publishes the final counts, and waits until those that want them have them.
    pub fn finish(self, summary: &Summary, object: Value, exit_code: u8) {
        self.publisher.end(summary, object, exit_code);
        self.ended.raise();
        // Its panic was printed; the capture is complete.
        let _ = self.thread.join();
    }
}
