//! The receiving end of a queue, between threads or between processes.

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use super::watch::{STATS_LIMIT, forebay_queue_stats, forebay_watch, put_stats, within};
use crate::{
    border::{Place, answer, done, items_mut, limit},
    ends::{destroy, give_one},
    failure::{Failure, Result},
    handles::{handles, shared},
};
use forebay::queue::{OwnedBurst, OwnedMessage, Receiver, RecvError};
use std::{
    ffi::{c_int, c_void},
    time::Duration,
};

/// The receiving end of a queue. All threads may use it at the same time.
pub struct forebay_receiver(());

/// A message that the program holds, or several.
pub struct forebay_loan(());

handles!(forebay_receiver => Receiver);

/// One message, or a burst.
pub enum Loaned {
    Message(OwnedMessage),
    Burst(OwnedBurst),
}

handles!(forebay_loan => Loaned);

/// A message that was received.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_received {
    /// `FOREBAY_TOO_LONG`: the bytes that the buffer needs.
    pub len: usize,
    /// The number of the message in the queue.
    pub sequence: u64,
    /// 1: the message was delivered before, to a process that died.
    pub redelivered: u32,
    pub reserved: u32,
}

/// A message in the queue. It is valid until its loan is released.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_message {
    pub data: *const c_void,
    pub len: usize,
    /// The number of the message in the queue.
    pub sequence: u64,
    /// 1: the message was delivered before, to a process that died. Always 0 in a burst.
    pub redelivered: u32,
    pub reserved: u32,
}

fn receiver<R>(
    handle: *const forebay_receiver,
    body: impl FnOnce(&Receiver) -> Result<R>,
) -> Result<R> {
    shared(handle, body)?
}

/// Makes another receiving end. A queue between threads refuses messages once its last receiving end is destroyed.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_clone(
    handle: *mut forebay_receiver,
    clone: *mut *mut forebay_receiver,
) -> c_int {
    done(|| {
        let place = Place::new(clone, "clone")?;
        give_one(receiver(handle, |it| Ok(it.clone()))?, &place)
    })
}

/// Copies the next message into a buffer of `room` bytes, and returns its length. `received` may be null. With a time limit of 0 it does
/// not wait for a message (`FOREBAY_EMPTY`), but for up to 10 ms for a thread that has a lock of the queue (`FOREBAY_TIMED_OUT`). `FOREBAY_TOO_LONG`: the message stays in the queue, and `received` has its length.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_receive(
    handle: *mut forebay_receiver,
    buffer: *mut c_void,
    room: usize,
    timeout_ns: i64,
    received: *mut forebay_received,
) -> isize {
    answer(|| {
        let place = Place::optional(received);
        let buffer: &mut [u8] = items_mut(buffer.cast(), room, "buffer")?;
        receiver(handle, |it| {
            let answer = within!(timeout_ns, it, recv, try_recv, recv_timeout, buffer);
            let (len, sequence, redelivered) = match &answer {
                Ok(it) => (it.len, it.sequence, it.redelivered),
                Err(RecvError::TooSmall { needed }) => (*needed, 0, false),
                Err(_) => (0, 0, false),
            };
            if let Some(place) = place {
                place.put(forebay_received {
                    len,
                    sequence,
                    redelivered: redelivered.into(),
                    reserved: 0,
                });
            }
            answer?;
            Ok(len as isize)
        })
    })
}

/// Lends the next message in place. Its room is reused once the loan is released, and all room before it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_take(
    handle: *mut forebay_receiver,
    timeout_ns: i64,
    message: *mut forebay_message,
    loan: *mut *mut forebay_loan,
) -> c_int {
    done(|| {
        let (message, place) = (Place::new(message, "message")?, Place::new(loan, "loan")?);
        let taken = receiver(handle, |it| {
            Ok(within!(timeout_ns, it, take, try_take, take_timeout)?.into_owned())
        })?;
        let described = forebay_message {
            data: taken.as_ptr().cast(),
            len: taken.len(),
            sequence: taken.sequence(),
            redelivered: taken.is_redelivered().into(),
            reserved: 0,
        };
        give_one(Loaned::Message(taken), &place)?;
        message.put(described);
        Ok(())
    })
}

/// Lends up to `max` messages in place, and returns their number. It waits for the first one. They have one loan.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_take_burst(
    handle: *mut forebay_receiver,
    timeout_ns: i64,
    messages: *mut forebay_message,
    max: usize,
    loan: *mut *mut forebay_loan,
) -> isize {
    answer(|| {
        let place = Place::new(loan, "loan")?;
        let messages = items_mut(messages, max, "messages")?;
        if max == 0 {
            return Err(Failure::invalid("`max` is 0"));
        }
        let taken = receiver(handle, |it| {
            let burst = within!(
                timeout_ns,
                it,
                take_burst,
                try_take_burst,
                take_burst_timeout,
                max
            )?;
            Ok(burst.into_owned())
        })?;
        let mut some = 0;
        for (place, (sequence, bytes)) in messages.iter_mut().zip(taken.iter()) {
            *place = forebay_message {
                data: bytes.as_ptr().cast(),
                len: bytes.len(),
                sequence,
                redelivered: 0,
                reserved: 0,
            };
            some += 1;
        }
        give_one(Loaned::Burst(taken), &place)?;
        Ok(some)
    })
}

/// Gives back what was taken from a queue. The ends may be destroyed before or after it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_loan_release(handle: *mut forebay_loan) -> c_int {
    done(|| destroy(handle))
}

/// The longest message that the queue accepts, in bytes: a buffer of this size has room for each.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_largest(handle: *mut forebay_receiver) -> isize {
    answer(|| receiver(handle, |it| Ok(it.largest() as isize)))
}

/// Closes the queue for all ends, as `forebay_sender_close` does.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_close(handle: *mut forebay_receiver) -> c_int {
    done(|| {
        receiver(handle, |it| {
            it.close();
            Ok(())
        })
    })
}

/// Stores the counts of the queue, as `forebay_sender_stats` does.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_stats(
    handle: *mut forebay_receiver,
    stats: *mut forebay_queue_stats,
) -> c_int {
    done(|| {
        put_stats(
            receiver(handle, |it| Ok(it.stats_timeout(STATS_LIMIT)?))?,
            stats,
        )
    })
}

/// Makes a watch that reports messages. For a queue between processes it starts a thread, which ends after the watch.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_watch(
    handle: *mut forebay_receiver,
    watch: *mut *mut forebay_watch,
) -> c_int {
    done(|| {
        let place = Place::new(watch, "watch")?;
        give_one(receiver(handle, |it| Ok(it.watch()?))?, &place)
    })
}

/// Ends this end.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_destroy(handle: *mut forebay_receiver) -> c_int {
    done(|| destroy(handle))
}
