//! The counts that `pcap_stats` returned last, for a call that cannot ask the device: a signal handler may interrupt a call that holds it.

use crate::abi::Stats;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

#[derive(Default)]
pub struct LastCounts {
    is_known: AtomicBool,
    received: AtomicU32,
    dropped: AtomicU32,
    interface_dropped: AtomicU32,
}

impl LastCounts {
    pub fn note(&self, stats: Stats) {
        // Each count by itself is right at some time; together they need not be of the same time.
        self.received.store(stats.received, Relaxed);
        self.dropped.store(stats.dropped, Relaxed);
        self.interface_dropped
            .store(stats.interface_dropped, Relaxed);
        self.is_known.store(true, Release);
    }

    /// `None`: the handle has no device.
    pub fn get(&self) -> Option<Stats> {
        self.is_known.load(Acquire).then(|| Stats {
            received: self.received.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            interface_dropped: self.interface_dropped.load(Relaxed),
        })
    }
}
