//! How many threads read a file, in which pieces.

use std::thread::available_parallelism;

/// Bytes of a window: it stays in a second-level cache while it is read, walked and filtered.
pub(super) const WINDOW_BYTES: usize = 256 << 10;

/// More threads do not help, because one thread takes the matching packets.
const MAX_THREADS: usize = 4;

/// How a file is read by several threads.
#[derive(Clone, Debug)]
pub struct ParallelConfig {
    /// Threads that read, 1 or more.
    pub threads: usize,
    /// Bytes of one window, 1 to 1 GiB.
    pub window_bytes: usize,
}

impl Default for ParallelConfig {
    /// One thread for each processor, up to four, and windows of 256 KiB.
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        ParallelConfig {
            threads: processors.min(MAX_THREADS),
            window_bytes: WINDOW_BYTES,
        }
    }
}
