//! Supervises the two threads: reports counts periodically, and gives up when nothing moves.
//!
//! ```text
//!   poll(reports, filled, drained) until the next report or the watchdog ─▶ observe, abandon ─▶ both ended? return
//! ```

use super::{config::PipeConfig, control::Control, counts::Counts, pace::until, summary::Progress};
use forebay::time::Clock;
use rustix::event::{PollFd, PollFlags, poll};
use std::{os::fd::AsFd, sync::atomic::Ordering::Relaxed, time::Duration};

pub(super) struct Supervisor<'a> {
    clock: &'a Clock,
    control: &'a Control,
    counts: &'a Counts,
    capacity: u64,
    began: u64,
    /// The interval of reports in nanoseconds, if any; and the time of the next one.
    every: Option<u64>,
    next: u64,
    /// The time of the last report, and the bytes and lines written by then.
    last: (u64, u64, u64),
    /// The maximum time without progress, in nanoseconds.
    watchdog: Option<u64>,
}

impl<'a> Supervisor<'a> {
    pub fn new(
        config: &PipeConfig,
        clock: &'a Clock,
        control: &'a Control,
        counts: &'a Counts,
    ) -> Self {
        let ns = |time: Duration| time.as_nanos().clamp(1, u64::MAX as u128 / 4) as u64;
        let began = clock.now();
        let every = config.progress_every.map(ns);
        Supervisor {
            clock,
            control,
            counts,
            capacity: config.capacity_bytes as u64,
            began,
            every,
            next: began + every.unwrap_or(0),
            last: (began, 0, 0),
            watchdog: config.watchdog.map(ns),
        }
    }

    /// Runs until both threads have ended. Returns whether the watchdog gave up.
    pub fn run(mut self, observe: &mut dyn FnMut(&Progress)) -> bool {
        let mut has_stalled = false;
        loop {
            let both = [&self.counts.filled, &self.counts.drained];
            let working: Vec<_> = both.into_iter().filter(|flag| !flag.is_raised()).collect();
            if working.is_empty() {
                break;
            }
            let reports = self.control.reports();
            let flags = working.into_iter().chain([reports]);
            let fds = flags.map(|flag| PollFd::from_borrowed_fd(flag.as_fd(), PollFlags::IN));
            let report = self.every.map(|_| self.next);
            let watchdog = self.watchdog.map(|limit| self.moved_at() + limit);
            let timeout = report.into_iter().chain(watchdog).min();
            let timeout = timeout.map(|time| until(time, self.clock));
            // An interruption is treated as a wake-up.
            let _ = poll(&mut fds.collect::<Vec<_>>(), timeout.as_ref());
            if reports.clear() {
                observe(&self.progress(true));
            }
            let now = self.clock.now();
            if let Some(every) = self.every
                && now >= self.next
            {
                observe(&self.progress(false));
                self.next = now + every;
            }
            has_stalled |= self.has_stalled(now);
        }
        if self.every.is_some() {
            observe(&self.progress(false));
        }
        has_stalled
    }

    /// Gives up if no byte has moved for too long.
    fn has_stalled(&mut self, now: u64) -> bool {
        let still = now.saturating_sub(self.moved_at());
        let stalls = self.watchdog.is_some_and(|limit| still >= limit);
        if stalls && !self.control.is_abandoned() {
            self.control.abandon();
            return true;
        }
        false
    }

    /// When bytes last moved, or the start if none have.
    fn moved_at(&self) -> u64 {
        self.counts.moved_at.load(Relaxed).max(self.began)
    }

    fn progress(&mut self, asked: bool) -> Progress {
        let now = self.clock.now();
        let (bytes_read, bytes_written) = self.counts.now();
        let lines_written = self.counts.lines.load(Relaxed);
        let (then, bytes_before, lines_before) = self.last;
        let seconds = (now - then).max(1) as f64 / 1e9;
        if !asked {
            self.last = (now, bytes_written, lines_written);
        }
        Progress {
            elapsed: Duration::from_nanos(now - self.began),
            asked,
            bytes_read,
            bytes_written,
            bytes_per_second: (bytes_written - bytes_before) as f64 / seconds,
            lines_written,
            lines_per_second: (lines_written - lines_before) as f64 / seconds,
            // The content of the intermediate pipes counts as well.
            fill: ((bytes_read - bytes_written) as f64 / self.capacity as f64).min(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::AtomicU64;
    use super::*;
    use forebay::sync::Signal;

    #[test]
    fn the_watchdog_counts_from_the_last_byte_and_not_from_its_own_last_check() {
        let clock = Clock::virtual_time();
        let control = Control::new().unwrap();
        let counts = Counts {
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            moved_at: AtomicU64::new(0),
            filled: Signal::new().unwrap(),
            drained: Signal::new().unwrap(),
        };
        let config = PipeConfig {
            watchdog: Some(Duration::from_secs(100)),
            ..PipeConfig::default()
        };
        let mut supervisor = Supervisor::new(&config, &clock, &control, &counts);
        clock.sleep(Duration::from_secs(1));
        counts.count_read(10, clock.now());
        clock.sleep(Duration::from_secs(1));
        counts.count_written(10, clock.now());
        clock.sleep(Duration::from_secs(98));
        assert!(!supervisor.has_stalled(clock.now()));
        clock.sleep(Duration::from_secs(2));
        assert!(supervisor.has_stalled(clock.now()));
        assert!(control.is_abandoned());
    }
}
