//! Counts of the packets of a file.

use crate::port::{Frame, Unreadable};

/// The number of packets that were skipped, and the first one.
#[derive(Default)]
pub(super) struct SkippedPackets {
    packets: u64,
    first: String,
}

impl SkippedPackets {
    pub fn add(&mut self, what: String) {
        if self.packets == 0 {
            self.first = what;
        }
        self.packets += 1;
    }

    pub fn report(&self) -> Unreadable<'_> {
        Unreadable {
            packets: self.packets,
            first: &self.first,
        }
    }
}

/// Packet counts, and what putting the last frame back needs.
#[derive(Default)]
pub(super) struct Counters {
    /// Frames the budget still allows.
    pub budget: usize,
    pub packets: u64,
    /// The drops that packets record, by interface.
    pub drops: Vec<u64>,
    /// Of the last frame: the length of its record, its interface, and the drops it records. 0: there is none to put back.
    pub record_len: usize,
    interface: u32,
    dropped_before: u64,
}

impl Counters {
    #[inline(always)]
    pub fn take(&mut self, frame: &Frame<'_>, record_len: usize) {
        self.budget -= 1;
        self.packets += 1;
        self.record_len = record_len;
        self.interface = frame.interface;
        self.dropped_before = frame.dropped_before;
        if frame.dropped_before > 0 {
            self.count_drops();
        }
    }

    #[cold]
    fn count_drops(&mut self) {
        let interface = self.interface as usize;
        if self.drops.len() <= interface {
            self.drops.resize(interface + 1, 0);
        }
        // Wrapping, so that putting a frame back is exact whatever a malformed file records.
        self.drops[interface] = self.drops[interface].wrapping_add(self.dropped_before);
    }

    pub fn put_back(&mut self) {
        self.budget = 0;
        self.record_len = 0;
        self.packets -= 1;
        if self.dropped_before > 0 {
            let sum = &mut self.drops[self.interface as usize];
            *sum = sum.wrapping_sub(self.dropped_before);
        }
    }
}
