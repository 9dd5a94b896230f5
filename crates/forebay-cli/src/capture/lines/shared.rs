//! What the session's thread and the thread that writes lines know of each other.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64},
};

/// Published by one thread and read by the other, each value on its own: relaxed.
#[derive(Default)]
pub struct Shared {
    /// Bytes that the writing thread has taken from the queue.
    pub taken: AtomicU64,
    /// Packets that the session has shown to the feeder, set when the session ends.
    pub offered: AtomicU64,
    /// Packets whose lines are written.
    pub printed: AtomicU64,
    /// The reader of standard output has left, or it cannot be written.
    pub is_over: AtomicBool,
    /// The user does not want the remaining lines.
    pub is_abandoned: AtomicBool,
    /// The last lines of the session's thread, and the number of their packets. They follow what is in the queue.
    pub last: Mutex<(Vec<u8>, u64)>,
}
