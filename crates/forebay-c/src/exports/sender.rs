//! The sending end of a queue, between threads or between processes.

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use super::watch::{STATS_LIMIT, forebay_queue_stats, forebay_watch, put_stats, within};
use crate::{
    border::{Place, answer, done, items, limit},
    ends::{destroy, give_one, take_back},
    failure::Result,
    handles::{handles, shared},
};
use forebay::queue::{OwnedReservedMessage, Sender};
use std::{
    ffi::{c_int, c_void},
    time::Duration,
};

/// The sending end of a queue. All threads may use it at the same time.
pub struct forebay_sender(());

/// Room in a queue that the program holds.
pub struct forebay_reservation(());

handles!(forebay_sender => Sender, forebay_reservation => OwnedReservedMessage);

/// Bytes of the program.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_bytes {
    pub data: *const c_void,
    pub len: usize,
}

/// Room for a message in the queue. It is valid until it is committed or abandoned.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_room {
    pub data: *mut c_void,
    pub len: usize,
    /// The number that the message will have in the queue.
    pub sequence: u64,
}

fn sender<R>(handle: *const forebay_sender, body: impl FnOnce(&Sender) -> Result<R>) -> Result<R> {
    shared(handle, body)?
}

/// Makes another sending end. A queue between threads closes when its last sending end is destroyed.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_clone(
    handle: *mut forebay_sender,
    clone: *mut *mut forebay_sender,
) -> c_int {
    done(|| {
        let place = Place::new(clone, "clone")?;
        give_one(sender(handle, |it| Ok(it.clone()))?, &place)
    })
}

/// Sends a copy of a message. With a time limit of 0 it does not wait for room (`FOREBAY_FULL`), but for up to 10 ms for a thread that has
/// a lock of the queue (`FOREBAY_TIMED_OUT`).
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_send(
    handle: *mut forebay_sender,
    message: *const c_void,
    len: usize,
    timeout_ns: i64,
) -> c_int {
    done(|| {
        let message: &[u8] = items(message.cast(), len, "message")?;
        sender(handle, |it| {
            Ok(within!(
                timeout_ns,
                it,
                send,
                try_send,
                send_timeout,
                message
            )?)
        })
    })
}

/// Sends copies of as many of `count` messages as there is room for, in order, without waiting, and returns their number.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_send_burst(
    handle: *mut forebay_sender,
    messages: *const forebay_bytes,
    count: usize,
) -> isize {
    answer(|| {
        let messages = items(messages, count, "messages")?.iter();
        let messages = messages.map(|it| items::<u8>(it.data.cast(), it.len, "messages"));
        let messages = messages.collect::<Result<Vec<_>>>()?;
        sender(handle, |it| Ok(it.try_send_burst(&messages)? as isize))
    })
}

/// Lends room for a message of `len` bytes in the queue, to be filled in place and sent by `forebay_reservation_commit`. Receivers get the
/// messages in the order of reservations, so that later messages wait for this one.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_reserve(
    handle: *mut forebay_sender,
    len: usize,
    timeout_ns: i64,
    room: *mut forebay_room,
    reservation: *mut *mut forebay_reservation,
) -> c_int {
    done(|| {
        let place = Place::new(reservation, "reservation")?;
        let room = Place::new(room, "room")?;
        let mut reserved = sender(handle, |it| {
            let reserved = within!(timeout_ns, it, reserve, try_reserve, reserve_timeout, len)?;
            Ok(reserved.into_owned())
        })?;
        let described = forebay_room {
            data: reserved.as_mut_ptr().cast(),
            len: reserved.len(),
            sequence: reserved.sequence(),
        };
        give_one(reserved, &place)?;
        room.put(described);
        Ok(())
    })
}

/// Sends the message that the program has filled in, and ends the reservation. `FOREBAY_BUSY`: another call used the handle, and the
/// reservation stays.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_reservation_commit(handle: *mut forebay_reservation) -> c_int {
    done(|| {
        take_back(handle)?.commit();
        Ok(())
    })
}

/// Ends the reservation without a message: receivers pass over it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_reservation_abandon(handle: *mut forebay_reservation) -> c_int {
    done(|| destroy(handle))
}

/// The longest message that the queue accepts, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_largest(handle: *mut forebay_sender) -> isize {
    answer(|| sender(handle, |it| Ok(it.largest() as isize)))
}

/// Closes the queue for all ends: receivers get what is in it, and then `FOREBAY_CLOSED`. Calls that wait return.
/// It waits while a stopped process holds a lock of the queue.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_close(handle: *mut forebay_sender) -> c_int {
    done(|| {
        sender(handle, |it| {
            it.close();
            Ok(())
        })
    })
}

/// Stores the counts of the queue. `FOREBAY_TIMED_OUT`: a stopped process has held a lock of the queue for a second.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_stats(
    handle: *mut forebay_sender,
    stats: *mut forebay_queue_stats,
) -> c_int {
    done(|| {
        put_stats(
            sender(handle, |it| Ok(it.stats_timeout(STATS_LIMIT)?))?,
            stats,
        )
    })
}

/// Makes a watch that reports room for a message of `len` bytes. For a queue between processes it starts a thread, which ends after the
/// watch.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_watch(
    handle: *mut forebay_sender,
    len: usize,
    watch: *mut *mut forebay_watch,
) -> c_int {
    done(|| {
        let place = Place::new(watch, "watch")?;
        give_one(sender(handle, |it| Ok(it.watch(len)?))?, &place)
    })
}

/// Ends this end.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_destroy(handle: *mut forebay_sender) -> c_int {
    done(|| destroy(handle))
}
