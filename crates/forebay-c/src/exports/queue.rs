//! Queues of messages of any length between threads: many senders and many receivers.

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use super::{receiver::forebay_receiver, sender::forebay_sender};
use crate::{
    border::{self, Place, Versioned, done},
    ends::give_both,
    failure::{Failure, Result},
};
use forebay::queue::{QueueConfig, WhenFull, queue_with};
use std::ffi::c_int;

/// What a full queue does with another message.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum forebay_when_full {
    /// The sender waits, as long as its time limit says.
    FOREBAY_WAIT = 0,
    /// The queue refuses the message.
    FOREBAY_REFUSE = 1,
    /// The queue discards its oldest messages, and counts them.
    FOREBAY_DROP_OLDEST = 2,
}

/// Settings of a queue. Zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_queue_options {
    /// `sizeof(struct forebay_queue_options)`.
    pub size: usize,
    /// Bytes for messages, rounded up to a page; 0 is 1 MiB.
    pub capacity_bytes: usize,
    /// One of `enum forebay_when_full`.
    pub when_full: u32,
    /// Not 0: the memory is not faulted in when the queue is made, but when it is used first. Only for queues between threads.
    pub lazy: u32,
    /// Not 0: pages of 2 MiB. Only for queues between threads.
    pub huge_pages: u32,
    /// Not 0: what a dead process had taken and not released is not delivered again. Only for queues between processes.
    pub at_most_once: u32,
}

// SAFETY: `repr(C)`, a size first, and numbers.
unsafe impl Versioned for forebay_queue_options {
    const SIZES: &'static [usize] = &[32];
}

pub fn when_full(number: u32) -> Result<WhenFull> {
    match number {
        0 => Ok(WhenFull::Wait),
        1 => Ok(WhenFull::Refuse),
        2 => Ok(WhenFull::DropOldest),
        _ => Err(Failure::invalid(
            "`when_full` is none of enum forebay_when_full",
        )),
    }
}

/// Makes a queue between threads, and stores its ends. `options` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_queue_create(
    options: *const forebay_queue_options,
    sender: *mut *mut forebay_sender,
    receiver: *mut *mut forebay_receiver,
) -> c_int {
    done(|| {
        let places = (
            Place::new(sender, "sender")?,
            Place::new(receiver, "receiver")?,
        );
        let options = border::options(options)?;
        if options.at_most_once != 0 {
            return Err(Failure::invalid(
                "`at_most_once` is for queues between processes",
            ));
        }
        let (sender, receiver) = queue_with(&QueueConfig {
            capacity_bytes: match options.capacity_bytes {
                0 => QueueConfig::default().capacity_bytes,
                some => some,
            },
            when_full: when_full(options.when_full)?,
            populate: options.lazy == 0,
            huge_pages: options.huge_pages != 0,
        })?;
        let ends = (sender, receiver);
        give_both::<forebay_sender, forebay_receiver>(ends, places)
    })
}
