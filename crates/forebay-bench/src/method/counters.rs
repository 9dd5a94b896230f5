//! What the processor counts of this thread, where the machine lets it be read: many guests do not.

use perf_event::{Builder, Counter, events::Hardware};

/// Counts cache misses of the thread that began it.
pub struct Misses(Option<Counter>);

impl Misses {
    /// Begins to count.
    pub fn begin() -> Misses {
        let begun = Builder::new(Hardware::CACHE_MISSES)
            .build()
            .and_then(|mut counter| counter.enable().map(|()| counter));
        Misses(begun.ok())
    }

    /// How many there were; `None` where this machine does not tell.
    pub fn end(mut self) -> Option<u64> {
        self.0.as_mut()?.read().ok()
    }
}
