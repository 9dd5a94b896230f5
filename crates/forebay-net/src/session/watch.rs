//! What is watched while a session runs: when to report, how fast it goes, who falls behind.

use super::{Behind, Config, Progress};
use std::time::Duration;

/// At this fill level of the store's buffers a warning is due, and below the other it is over.
const HIGH_WATERMARK: f64 = 0.75;
const LOW_WATERMARK: f64 = 0.5;

/// When to report, how fast it goes, and whether the writer falls behind.
pub(super) struct Watch {
    pub began: u64,
    pub every: u64,
    /// When the next report is due.
    pub next: u64,
    /// When the session is to stop.
    pub stop_at: u64,
    pub is_time_up: bool,
    is_warned: bool,
    /// The last report, and when it was.
    last: (u64, Progress),
}

impl Watch {
    pub fn new(began: u64, config: &Config) -> Self {
        let every = config
            .progress_every
            .as_nanos()
            .clamp(1, u64::MAX as u128 / 4) as u64;
        let stop_after = config.stop_after.map_or(u64::MAX, |after| {
            u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)
        });
        Watch {
            began,
            every,
            next: began + every,
            stop_at: began.saturating_add(stop_after),
            is_time_up: false,
            is_warned: false,
            last: (began, Progress::default()),
        }
    }

    /// When there is something to look at, whatever comes.
    pub fn next_look(&self) -> u64 {
        match self.is_time_up {
            true => self.next,
            false => self.next.min(self.stop_at),
        }
    }

    /// Puts the rates since the last report into this one. Gives a warning when the store's
    /// buffers pass the high watermark: before drops, not after.
    pub fn measure(&mut self, now: u64, progress: &mut Progress) -> Option<Behind> {
        let (then, last) = &self.last;
        let seconds = (now - then).max(1) as f64 / 1e9;
        let rate = |this: u64, last: u64| this.saturating_sub(last) as f64 / seconds;
        progress.packets_per_second = rate(progress.taken, last.taken);
        progress.bits_per_second = rate(progress.wire_bytes, last.wire_bytes) * 8.0;
        let came = rate(progress.accepted_bytes, last.accepted_bytes);
        let went = rate(progress.written_bytes, last.written_bytes);
        self.last = (now, progress.clone());
        if progress.fill < LOW_WATERMARK {
            self.is_warned = false;
        }
        if self.is_warned || progress.fill < HIGH_WATERMARK {
            return None;
        }
        self.is_warned = true;
        let lag = (came - went).max(0.0);
        let room = progress.vacant_bytes as f64;
        Some(Behind {
            fill: progress.fill,
            bytes_per_second: lag,
            room_for: (lag > 0.0).then(|| Duration::from_secs_f64((room / lag).min(1e6))),
        })
    }
}
