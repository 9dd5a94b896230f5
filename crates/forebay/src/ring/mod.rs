//! Rings: bounded queues between one producer and one consumer, lock-free, every slot usable.
//!
//! [`spsc`] is the typed ring. `cursor` has the positions and their orderings, `looker` how long to pause before a look, `evictor`
//! what a consumer does with lines that it has read, `slots` the memory, `state` the end. This room imports `memory` and `sync`.
//! Read [`spsc`] first, then `cursor`.
//!
//! ```text
//!            head (the consumer's)          tail (the producer's)
//!              │                              │
//!  │  vacant   │ filled: one slice, also      │  vacant, one slice too  │
//!  │           │ when it wraps (mirror)       │                         │
//!  positions run freely; tail − head is the length, capacity − length the vacant slots
//! ```

mod cursor;
mod evictor;
mod looker;
mod slots;
pub mod spsc;
pub(crate) mod state;

pub(crate) use slots::ONE_VIEW;
