//! Hardware counters of this thread. Many virtual machines have none.

use perf_event::{
    Builder, Counter,
    events::{Event, Hardware, Raw},
};
use std::fs;

/// Counts cache misses of the thread that began it.
pub struct Misses(Option<Counter>);

/// Counts blocked store-forwards of the thread that began it: loads of bytes that are in pending stores and cannot be forwarded
/// from them, so the load waits until all of these stores have completed. See *A Tale of Two Copies*.
pub struct Blocked(Option<Counter>);

/// The maker of a processor, and its event: Intel's `ld_blocks.store_forward`, AMD's bad status 2 on Zen.
const BLOCKED: [(&str, u64); 2] = [("GenuineIntel", 0x0203), ("AuthenticAMD", 0x0224)];

fn begin(event: impl Event) -> Option<Counter> {
    let mut counter = Builder::new(event).build().ok()?;
    counter.enable().ok()?;
    Some(counter)
}

fn end(counter: Option<Counter>) -> Option<u64> {
    counter?.read().ok()
}

impl Misses {
    /// Begins to count.
    pub fn begin() -> Misses {
        Misses(begin(Hardware::CACHE_MISSES))
    }

    /// The count; `None` if this machine has no such counter.
    pub fn end(self) -> Option<u64> {
        end(self.0)
    }
}

impl Blocked {
    /// Begins to count.
    pub fn begin() -> Blocked {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let event = BLOCKED.iter().find(|(maker, _)| cpuinfo.contains(maker));
        Blocked(event.and_then(|&(_, event)| begin(Raw::new(event))))
    }

    /// The count; `None` if this machine has no such counter.
    pub fn end(self) -> Option<u64> {
        end(self.0)
    }
}

/// Page faults of this thread so far that needed no disk, as the kernel counts them on every machine.
pub fn page_faults() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    // The name in parentheses may contain spaces: the fields after it begin with the third.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let faults = fields.split_whitespace().nth(7);
    faults.and_then(|count| count.parse().ok()).unwrap_or(0)
}
