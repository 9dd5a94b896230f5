//! Shows how much of a file is read, while another thread reads it.

use super::{
    escape::plain,
    printer::{finish, hide, show, start},
    progress::reading,
    time_left::TimeLeft,
};
use std::{
    io::{IsTerminal, stderr},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Sender, channel},
    },
    thread::{JoinHandle, spawn},
    time::{Duration, Instant},
};

/// Nothing is shown for work that is done sooner.
const EVERY: Duration = Duration::from_millis(250);

/// A display that ends when this is dropped.
pub struct Meter {
    done: Arc<AtomicU64>,
    ends: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Meter {
    /// For `all` units of work on this file, on standard error if that is a terminal.
    pub fn new(path: &Path, all: u64) -> Meter {
        let name = path.file_name().unwrap_or_default();
        let name = plain(&name.to_string_lossy()).into_owned();
        let done = Arc::new(AtomicU64::new(0));
        let mut ends = None;
        if all > 0 && stderr().is_terminal() {
            let (sender, ended) = channel();
            let done = done.clone();
            let thread = spawn(move || {
                let (began, left) = (Instant::now(), TimeLeft::default());
                while ended.recv_timeout(EVERY) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    let share = (done.load(Relaxed) as f64 / all as f64).min(1.0);
                    let elapsed = began.elapsed();
                    // The threads that print are started when they are needed.
                    if start(false).is_ok() {
                        show(|columns| reading(&name, (share, &left), elapsed, columns));
                    }
                }
            });
            ends = Some((sender, thread));
        }
        Meter { done, ends }
    }

    /// What counts the work that is done.
    pub fn done(&self) -> &AtomicU64 {
        &self.done
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.ends.take() {
            drop(sender);
            let _ = thread.join();
            hide();
            finish();
        }
    }
}
