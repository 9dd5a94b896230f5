//! What both ends of a queue have: counts, and a descriptor to wait on.

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use crate::{
    border::{Versioned, answer, done, number, put_versioned},
    ends::destroy,
    failure::Result,
    handles::{exclusive, handles},
};
use forebay::queue::{Stats, Watch};
use std::{ffi::c_int, os::fd::AsFd, time::Duration};

/// A descriptor that is readable once a queue has a message, or room. One thread at a time may use it.
pub struct forebay_watch(());

handles!(forebay_watch => Watch);

/// The counts of a queue: `reserved = received + dropped + aborted + torn + queued`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_queue_stats {
    /// `sizeof(struct forebay_queue_stats)`.
    pub size: usize,
    pub reserved: u64,
    pub received: u64,
    /// Discarded because the queue was full.
    pub dropped: u64,
    /// Reserved, and abandoned.
    pub aborted: u64,
    /// Their sender died while it filled them.
    pub torn: u64,
    pub queued: u64,
    /// Delivered again, since a process died.
    pub redelivered: u64,
    /// Taken by a process that died, and not delivered again.
    pub abandoned: u64,
    pub used_bytes: u64,
}

// SAFETY: `repr(C)`, a size first, and numbers.
unsafe impl Versioned for forebay_queue_stats {
    const SIZES: &'static [usize] = &[80];
}

/// Calls the form without a limit, without waiting, or with a limit.
macro_rules! within {
    ($timeout_ns:expr, $end:ident, $forever:ident, $try:ident, $for:ident $(, $argument:expr)*) => {
        match limit($timeout_ns) {
            None => $end.$forever($($argument),*),
            Some(Duration::ZERO) => $end.$try($($argument),*),
            Some(limit) => $end.$for($($argument,)* limit),
        }
    };
}

pub(super) use within;

/// A process that is stopped may hold a lock of the queue.
pub const STATS_LIMIT: Duration = Duration::from_secs(1);

pub fn put_stats(it: Stats, stats: *mut forebay_queue_stats) -> Result<()> {
    let counts = forebay_queue_stats {
        size: size_of::<forebay_queue_stats>(),
        reserved: it.reserved,
        received: it.received,
        dropped: it.dropped,
        aborted: it.aborted,
        torn: it.torn,
        queued: it.queued,
        redelivered: it.redelivered,
        abandoned: it.abandoned,
        used_bytes: it.used_bytes as u64,
    };
    put_versioned(stats, counts, "stats")
}

/// Prepares a wait in `poll`. 1: there is nothing yet; wait until the descriptor is readable, and try again. 0: there is something, or the
/// queue is closed; do not wait.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_watch_arm(handle: *mut forebay_watch) -> c_int {
    answer(|| Ok(exclusive(handle, |it| c_int::from(it.arm()))?))
}

/// Cancels the request for a signal; one may still be sent.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_watch_disarm(handle: *mut forebay_watch) -> c_int {
    done(|| Ok(exclusive(handle, |it| it.disarm())?))
}

/// The descriptor for `forebay_watch_arm`. It belongs to the watch: do not read or close it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_watch_descriptor(handle: *mut forebay_watch) -> c_int {
    answer(|| Ok(exclusive(handle, |it| number(it.as_fd()))?))
}

/// Ends the watch.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_watch_destroy(handle: *mut forebay_watch) -> c_int {
    done(|| destroy(handle))
}
