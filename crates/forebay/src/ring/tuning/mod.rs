//! Two strategies that raise the throughput of [`spsc`](super::spsc), and without which it works as well: when an end loads the other
//! end's position, and whether the consumer evicts the cache lines that it has read.

pub(super) mod backoff;
pub(super) mod line_flush;
