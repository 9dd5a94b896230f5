//! Where a tap begins and ends.

use forebay::time::Clock;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// The first packet of a tap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// The first packet that is published from now on.
    #[default]
    Newest,
    /// The oldest packet that is still in memory.
    Oldest,
    /// The first packet in memory, or published later, at or after this time, in nanoseconds since the Unix epoch.
    At(u64),
}

/// When a tap ends, in nanoseconds since the Unix epoch. It can be moved while the tap is read.
///
/// ```
/// use forebay_net::share::End;
/// let end = End::at(1_000);
/// assert!(end.extend(2_000) && end.extend(1_500)); // still 2000
/// ```
#[derive(Clone, Debug)]
pub struct End(Arc<AtomicU64>);

impl End {
    /// The value of an end that a tap has passed.
    const PASSED: u64 = u64::MAX;

    /// An end at this time.
    pub fn at(time_ns: u64) -> End {
        End(Arc::new(AtomicU64::new(time_ns.min(End::PASSED - 1))))
    }

    /// Moves the end to this time, unless it is later already; `false`: the tap has ended.
    pub fn extend(&self, time_ns: u64) -> bool {
        let later =
            |end: u64| (end != End::PASSED).then_some(end.max(time_ns.min(End::PASSED - 1)));
        // Relaxed, here and below: nothing else is published by it.
        self.0.fetch_update(Relaxed, Relaxed, later).is_ok()
    }

    /// Whether this time is after the end, which then cannot be moved any more.
    pub(super) fn has_passed(&self, time_ns: u64) -> bool {
        let end = self.0.load(Relaxed);
        let is_later = end == End::PASSED || time_ns > end;
        let passed = |end: u64| (time_ns > end).then_some(End::PASSED);
        is_later && (end == End::PASSED || self.0.fetch_update(Relaxed, Relaxed, passed).is_ok())
    }
}

/// Settings of a tap.
#[derive(Clone, Debug)]
pub struct TapConfig {
    /// The first packet.
    pub begin: Begin,
    /// The tap ends before the first packet after this time, and at the latest 300 ms after it. `None`: it ends with the capture
    /// that publishes the packets.
    pub end: Option<End>,
    /// How often an idle tap looks for new packets.
    pub poll_every: Duration,
    /// The clock of the session that reads the tap.
    pub clock: Clock,
}

impl Default for TapConfig {
    /// From the newest packet to the end of the share; looks every 10 ms.
    fn default() -> Self {
        TapConfig {
            begin: Begin::Newest,
            end: None,
            poll_every: Duration::from_millis(10),
            clock: Clock::real(),
        }
    }
}
