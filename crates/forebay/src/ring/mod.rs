//! Rings, lock-free: from one producer to one consumer, or to any number of readers.
//!
//! [`spsc`] is the typed ring to one consumer, which uses every slot. `broadcast` publishes messages to readers, also in other processes; a
//! slow reader misses messages (cargo feature `shared`, on by default). [`kernel`] is one end of a ring whose other end is the
//! kernel. The parts of [`spsc`]:
//!
//! - `cursor`: the positions and their orderings
//! - `backoff`: how long to pause before loading the other side's position
//! - `line_flush`: whether the consumer evicts the cache lines that it has read
//! - `slots`: the memory
//! - `state`: how a ring ends
//!
//! ```text
//!            head (the consumer's)          tail (the producer's)
//!              │                              │
//!  │  vacant   │ filled: one slice, also      │  vacant, one slice too  │
//!  │           │ when it wraps (mirror)       │                         │
//!  positions are free-running; tail − head is the length, capacity − length is the number of vacant slots
//! ```

mod backoff;
#[cfg(feature = "shared")]
pub mod broadcast;
mod cursor;
pub mod kernel;
mod line_flush;
mod slots;
pub mod spsc;
pub(crate) mod state;

pub(crate) use slots::ONE_VIEW;
