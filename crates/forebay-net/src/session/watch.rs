//! Periodic checks of a running session: when to report, at which rate packets arrive, and whether the writer is too slow.

use super::{
    config::SessionConfig,
    summary::{Behind, Progress},
};
use std::{collections::VecDeque, time::Duration};

/// Fill level of the store's buffers that causes a warning, and the level at which it is reset.
const HIGH_WATERMARK: f64 = 0.75;
const LOW_WATERMARK: f64 = 0.5;

/// Rates are averages over this time. A kernel delivers packets in blocks, ten a second: a quarter of a second contains two or
/// three of them, which would show as 4/5 or 6/5 of the rate.
const WINDOW: u64 = 2_000_000_000;
/// The number of counts kept of that time.
const SAMPLES: u64 = 8;

/// The time of the next report, the rates, and the warning about a slow writer.
pub(super) struct Watch {
    pub began: u64,
    pub every: u64,
    /// When the next report is due.
    pub next: u64,
    /// When the session has to stop.
    pub stop_at: u64,
    pub is_time_up: bool,
    is_warned: bool,
    /// Counts with their times: the newest last, and at the front the one that rates are computed from.
    samples: VecDeque<Sample>,
}

/// Counts at one time.
#[derive(Clone, Copy, Default)]
struct Sample {
    at: u64,
    taken: u64,
    wire_bytes: u64,
    accepted_bytes: u64,
    written_bytes: u64,
}

impl Sample {
    fn of(progress: &Progress, at: u64) -> Self {
        Sample {
            at,
            taken: progress.taken,
            wire_bytes: progress.wire_bytes,
            accepted_bytes: progress.accepted_bytes,
            written_bytes: progress.written_bytes,
        }
    }

    /// The increase per second of the selected count since `earlier`.
    fn rate(&self, earlier: &Sample, count: impl Fn(&Sample) -> u64) -> f64 {
        let seconds = (self.at - earlier.at).max(1) as f64 / 1e9;
        count(self).saturating_sub(count(earlier)) as f64 / seconds
    }
}

impl Watch {
    pub fn new(began: u64, config: &SessionConfig) -> Self {
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
            samples: VecDeque::from([Sample {
                at: began,
                ..Sample::default()
            }]),
        }
    }

    /// The latest time of the next check, even without packets.
    pub fn next_look(&self) -> u64 {
        match self.is_time_up {
            true => self.next,
            false => self.next.min(self.stop_at),
        }
    }

    /// Sets the rates of the last two seconds in a report. Returns a warning when the store's buffers pass the high watermark,
    /// which is before drops occur.
    pub fn measure(&mut self, now: u64, progress: &mut Progress) -> Option<Behind> {
        let this = Sample::of(progress, now);
        while let Some(second) = self.samples.get(1)
            && second.at + WINDOW <= now
        {
            self.samples.pop_front();
        }
        let first = self.samples.front().copied().unwrap_or_default();
        let last = self.samples.back().copied().unwrap_or_default();
        progress.packets_per_second = this.rate(&first, |it| it.taken);
        progress.bits_per_second = this.rate(&first, |it| it.wire_bytes) * 8.0;
        // For the warning, the rate since the last sample counts.
        let came = this.rate(&last, |it| it.accepted_bytes);
        let went = this.rate(&last, |it| it.written_bytes);
        if now >= last.at + WINDOW / SAMPLES {
            self.samples.push_back(this);
        }
        if progress.fill < LOW_WATERMARK {
            self.is_warned = false;
        }
        if self.is_warned || progress.fill < HIGH_WATERMARK {
            return None;
        }
        self.is_warned = true;
        let lag = (came - went).max(0.0);
        let space = progress.vacant_bytes as f64;
        Some(Behind {
            fill: progress.fill,
            bytes_per_second: lag,
            room_for: (lag > 0.0).then(|| Duration::from_secs_f64((space / lag).min(1e6))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The rates that reports show while `rate` packets per second arrive in ten blocks per second, as from a kernel.
    fn rates(rate: u64, report_every_ms: u64) -> Vec<f64> {
        let mut watch = Watch::new(0, &SessionConfig::default());
        let times = (1..=20_000 / report_every_ms).map(|at| at * report_every_ms);
        let mut rates = Vec::new();
        for at in times {
            let mut progress = Progress {
                taken: at / 100 * rate / 10,
                ..Progress::default()
            };
            watch.measure(at * MS, &mut progress);
            rates.push(progress.packets_per_second);
        }
        rates
    }

    #[test]
    fn a_steady_rate_is_shown_as_it_is() {
        for every in [1, 10, 250, 260, 1000, 5000] {
            let shown = rates(50, every);
            let is_steady = |rate: &&f64| (47.0..=53.0).contains(*rate);
            let settled = shown.iter().skip((2000 / every) as usize);
            let steady = settled.clone().filter(is_steady).count();
            assert_eq!(steady, settled.count(), "every {every} ms: {shown:?}");
        }
    }

    #[test]
    fn a_report_between_two_others_changes_no_rate() {
        let mut watch = Watch::new(0, &SessionConfig::default());
        for at in 1..100 {
            for (between, taken) in [(0, 250 * at), (1, 250 * at + 1)] {
                let mut progress = Progress {
                    taken,
                    ..Progress::default()
                };
                watch.measure((at * 250 + between) * MS, &mut progress);
                let rate = progress.packets_per_second;
                assert!((rate - 1000.0).abs() < 1.0, "{rate}");
            }
        }
    }
}
