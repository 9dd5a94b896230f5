//! Hardware counters of this thread. Many virtual machines have none.

use perf_event::{
    Builder, Counter,
    events::{Event, Hardware, Raw},
};
use std::fs;

/// Counts something that the thread that began it does.
pub struct Count(Option<Counter>);

/// The maker of a processor, and its event: Intel's `ld_blocks.store_forward`, AMD's bad status 2 on Zen.
const BLOCKED: [(&str, u64); 2] = [("GenuineIntel", 0x0203), ("AuthenticAMD", 0x0224)];

impl Count {
    /// Begins to count cache misses.
    pub fn misses() -> Count {
        Count(begin(Hardware::CACHE_MISSES))
    }

    /// Begins to count blocked store-forwards: loads of bytes that are in pending stores and cannot be forwarded from them, so
    /// the load waits until all of these stores have completed. See *A Tale of Two Copies*.
    pub fn blocked() -> Count {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let event = BLOCKED.iter().find(|(maker, _)| cpuinfo.contains(maker));
        Count(event.and_then(|&(_, event)| begin(Raw::new(event))))
    }

    /// The count; `None` if this machine has no such counter.
    pub fn end(self) -> Option<u64> {
        self.0?.read().ok()
    }
}

fn begin(event: impl Event) -> Option<Counter> {
    let mut counter = Builder::new(event).build().ok()?;
    counter.enable().ok()?;
    Some(counter)
}

/// Page faults of this thread so far that needed no disk, as the kernel counts them on every machine.
pub fn page_faults() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    // The name in parentheses may contain spaces: the fields after it begin with the third.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let faults = fields.split_whitespace().nth(7);
    faults.and_then(|count| count.parse().ok()).unwrap_or(0)
}
