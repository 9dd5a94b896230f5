//! Lock-free rings, from one producer to one consumer or to any number of readers.
//!
//! - [`spsc`]: elements of one type, from one producer to one consumer. Each element is received once.
//! - `broadcast`: messages from one producer to any number of readers, also in other processes. Each reader receives all messages,
//!   except those that it was too slow for. (Cargo feature `shared`, on by default.)
//! - [`kernel`]: one end of a ring whose other end is the kernel.
//!
//! ```text
//!            head (the consumer's)          tail (the producer's)
//!              │                              │
//!  │  vacant   │ filled: one slice, also      │  vacant, one slice too  │
//!  │           │ when it wraps (mirror)       │                         │
//!  positions only count up: tail − head is the length, capacity − length is the number of vacant slots
//! ```
//!
//! Private modules that [`spsc`] consists of: `cursor` (the positions and their memory orderings), `slots` (the memory), `state` (how
//! a ring ends) and `tuning` (two strategies that raise the throughput; to understand the ring, leave it out).

#[cfg(feature = "shared")]
pub mod broadcast;
mod cursor;
pub mod kernel;
mod slots;
pub mod spsc;
pub(crate) mod state;
mod tuning;

pub(crate) use slots::ONE_VIEW;
