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
    /// The first packet in memory, or published later, at or after this time, in nanoseconds since the Unix epoch. The packets after
    /// it are all delivered, also those of another interface with earlier times.
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
    /// Set in the value of an end that a tap has passed. Times reach it in 2262.
    const PASSED: u64 = 1 << 63;

    /// An end at this time.
    pub fn at(time_ns: u64) -> End {
        End(Arc::new(AtomicU64::new(time_ns.min(End::PASSED - 1))))
    }

    /// An end that a tap has passed.
    #[cfg(test)]
    pub(crate) fn passed() -> End {
        End(Arc::new(AtomicU64::new(End::PASSED)))
    }

    /// Moves the end to this time, unless it is later already; `false`: a tap has passed it, and it cannot be moved.
    pub fn extend(&self, time_ns: u64) -> bool {
        let later = |end: u64| (end < End::PASSED).then_some(end.max(time_ns.min(End::PASSED - 1)));
        // Relaxed, here and below: nothing else is published by it.
        self.0.fetch_update(Relaxed, Relaxed, later).is_ok()
    }

    /// If this time is after the end, makes it final and returns it.
    pub(super) fn pass(&self, time_ns: u64) -> Option<u64> {
        let pass = |end: u64| (time_ns > (end & !End::PASSED)).then_some(end | End::PASSED);
        let passed = self.0.fetch_update(Relaxed, Relaxed, pass);
        passed.ok().map(|end| end & !End::PASSED)
    }
}

/// Settings of a tap.
#[derive(Clone, Debug)]
pub struct TapConfig {
    /// The first packet.
    pub begin: Begin,
    /// The tap delivers no packet after this time, and ends soon after it: 10 ms after the first later packet, or 300 ms if there are
    /// several interfaces, whose packets arrive out of order. If no packet arrives, it ends 300 ms after this time. `None`: it ends
    /// with the capture that publishes the packets.
    ///
    /// Exception: packets in memory with times later than now are delivered. The clock was set back after them.
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
