//! Queues of messages of any length: many senders and many receivers, in threads and in processes.

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use crate::{
    border::{self, Place, Versioned, answer, items, items_mut, limit, number, put_versioned},
    ends::{destroy, give_both, give_one},
    failure::{Code, Failure, Result},
    handles::{Handle, exclusive, shared},
    loans::{self, OwnedBurst, OwnedMessage, OwnedReservation},
};
use forebay::queue::{
    QueueConfig, Receiver, RecvError, SendError, Sender, Stats, StatsError, Watch, WhenFull,
    queue_with,
};
use std::{
    ffi::{c_int, c_void},
    os::fd::AsFd,
    sync::Arc,
    time::Duration,
};

/// The sending end of a queue. All threads may use it at the same time.
pub struct forebay_sender(());

/// The receiving end of a queue. All threads may use it at the same time.
pub struct forebay_receiver(());

/// A descriptor that is readable once a queue has a message, or room. One thread at a time may use it.
pub struct forebay_watch(());

/// A message that the program holds, or several.
pub struct forebay_loan(());

/// Room in a queue that the program holds.
pub struct forebay_reservation(());

impl Handle for forebay_sender {
    type Object = Arc<Sender>;
}

impl Handle for forebay_receiver {
    type Object = Arc<Receiver>;
}

impl Handle for forebay_watch {
    type Object = Watch;
}

/// One message, or a burst.
#[allow(dead_code)] // It is held until it is dropped.
pub enum Loaned {
    Message(OwnedMessage),
    Burst(OwnedBurst),
}

impl Handle for forebay_loan {
    type Object = Loaned;
}

impl Handle for forebay_reservation {
    /// `None` once it is committed.
    type Object = Option<OwnedReservation>;
}

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

/// Bytes of the program.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_bytes {
    pub data: *const c_void,
    pub len: usize,
}

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

/// Room for a message in the queue. It is valid until it is committed or abandoned.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_room {
    pub data: *mut c_void,
    pub len: usize,
    /// The number that the message will have in the queue.
    pub sequence: u64,
}

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

impl From<SendError> for Failure {
    fn from(error: SendError) -> Failure {
        match error {
            SendError::Full => Code::Full.into(),
            SendError::TimedOut => Code::TimedOut.into(),
            SendError::Closed => Code::Closed.into(),
            SendError::TooLong { .. } => Failure::new(Code::TooLong, error.to_string()),
            _ => Failure::new(Code::Damaged, error.to_string()),
        }
    }
}

impl From<RecvError> for Failure {
    fn from(error: RecvError) -> Failure {
        match error {
            RecvError::Empty => Code::Empty.into(),
            RecvError::TimedOut => Code::TimedOut.into(),
            RecvError::Closed => Code::Closed.into(),
            RecvError::TooSmall { .. } => Failure::new(Code::TooLong, error.to_string()),
            _ => Failure::new(Code::Damaged, error.to_string()),
        }
    }
}

impl From<StatsError> for Failure {
    fn from(error: StatsError) -> Failure {
        let code = match error {
            StatsError::Held => Code::TimedOut,
            _ => Code::Damaged,
        };
        Failure::new(code, error.to_string())
    }
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

fn sender<R>(
    handle: *const forebay_sender,
    body: impl FnOnce(&Arc<Sender>) -> Result<R>,
) -> Result<R> {
    shared(handle, body)?
}

fn receiver<R>(
    handle: *const forebay_receiver,
    body: impl FnOnce(&Arc<Receiver>) -> Result<R>,
) -> Result<R> {
    shared(handle, body)?
}

/// Makes a queue between threads, and stores its ends. `options` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_queue_create(
    options: *const forebay_queue_options,
    sender: *mut *mut forebay_sender,
    receiver: *mut *mut forebay_receiver,
) -> c_int {
    answer(|| {
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
        let ends = (Arc::new(sender), Arc::new(receiver));
        give_both::<forebay_sender, forebay_receiver>(ends, places)
    })
}

/// Makes another sending end. A queue between threads closes when its last sending end is destroyed.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_clone(
    handle: *mut forebay_sender,
    clone: *mut *mut forebay_sender,
) -> c_int {
    answer(|| {
        let place = Place::new(clone, "clone")?;
        give_one(
            sender(handle, |it| Ok(Arc::new(Sender::clone(it))))?,
            &place,
        )
    })
}

/// Sends a copy of a message. With a time limit of 0 it never waits: `FOREBAY_FULL`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_send(
    handle: *mut forebay_sender,
    message: *const c_void,
    len: usize,
    timeout_ns: i64,
) -> c_int {
    answer(|| {
        let message: &[u8] = items(message.cast(), len, "message")?;
        sender(handle, |it| {
            within!(timeout_ns, it, send, try_send, send_timeout, message)?;
            Ok(0)
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
    answer(|| {
        let place = Place::new(reservation, "reservation")?;
        let room = Place::new(room, "room")?;
        let reserve = |it: &Arc<Sender>| {
            loans::reservation(it, |it| {
                within!(timeout_ns, it, reserve, try_reserve, reserve_timeout, len)
            })
        };
        let mut reserved = sender(handle, |it| Ok(reserve(it)?))?;
        let described = forebay_room {
            data: reserved.as_mut_ptr().cast(),
            len: reserved.len(),
            sequence: reserved.sequence(),
        };
        give_one(Some(reserved), &place)?;
        room.put(described);
        Ok(0)
    })
}

/// Sends the message that the program has filled in, and ends the reservation.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_reservation_commit(handle: *mut forebay_reservation) -> c_int {
    answer(|| {
        let reserved = exclusive(handle, Option::take)?;
        destroy(handle)?;
        reserved.ok_or(Code::Misuse)?.commit();
        Ok(0)
    })
}

/// Ends the reservation without a message: receivers pass over it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_reservation_abandon(handle: *mut forebay_reservation) -> c_int {
    answer(|| destroy(handle))
}

/// The longest message that the queue accepts, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_largest(handle: *mut forebay_sender) -> isize {
    answer(|| sender(handle, |it| Ok(it.largest() as isize)))
}

/// Closes the queue for all ends: receivers get what is in it, and then `FOREBAY_CLOSED`. Calls that wait return.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_close(handle: *mut forebay_sender) -> c_int {
    answer(|| {
        sender(handle, |it| {
            it.close();
            Ok(0)
        })
    })
}

/// Stores the counts of the queue.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_stats(
    handle: *mut forebay_sender,
    stats: *mut forebay_queue_stats,
) -> c_int {
    answer(|| put_stats(sender(handle, |it| Ok(it.stats()?))?, stats))
}

fn put_stats(it: Stats, stats: *mut forebay_queue_stats) -> Result<c_int> {
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
    put_versioned(stats, counts, "stats")?;
    Ok(0)
}

/// Makes a watch that reports room for a message of `len` bytes. `FOREBAY_UNSUPPORTED` or `FOREBAY_INVALID`: the queue is shared between
/// processes.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_watch(
    handle: *mut forebay_sender,
    len: usize,
    watch: *mut *mut forebay_watch,
) -> c_int {
    answer(|| {
        let place = Place::new(watch, "watch")?;
        give_one(sender(handle, |it| Ok(it.watch(len)?))?, &place)
    })
}

/// Ends this end.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sender_destroy(handle: *mut forebay_sender) -> c_int {
    answer(|| destroy(handle))
}

/// Makes another receiving end. A queue between threads refuses messages once its last receiving end is destroyed.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_clone(
    handle: *mut forebay_receiver,
    clone: *mut *mut forebay_receiver,
) -> c_int {
    answer(|| {
        let place = Place::new(clone, "clone")?;
        give_one(
            receiver(handle, |it| Ok(Arc::new(Receiver::clone(it))))?,
            &place,
        )
    })
}

/// Copies the next message into a buffer of `room` bytes, and returns its length. `received` may be null. With a time limit of 0 it never
/// waits: `FOREBAY_EMPTY`. `FOREBAY_TOO_LONG`: the message stays in the queue, and `received` has its length.
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
    answer(|| {
        let (message, place) = (Place::new(message, "message")?, Place::new(loan, "loan")?);
        let take = |it: &Arc<Receiver>| {
            loans::message(it, |it| {
                within!(timeout_ns, it, take, try_take, take_timeout)
            })
        };
        let taken = receiver(handle, |it| Ok(take(it)?))?;
        let described = forebay_message {
            data: taken.as_ptr().cast(),
            len: taken.len(),
            sequence: taken.sequence(),
            redelivered: taken.is_redelivered().into(),
            reserved: 0,
        };
        give_one(Loaned::Message(taken), &place)?;
        message.put(described);
        Ok(0)
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
        let take = |it: &Arc<Receiver>| {
            loans::burst(it, |it| {
                within!(
                    timeout_ns,
                    it,
                    take_burst,
                    try_take_burst,
                    take_burst_timeout,
                    max
                )
            })
        };
        let taken = receiver(handle, |it| Ok(take(it)?))?;
        let mut some = 0;
        for (place, (sequence, bytes)) in messages.iter_mut().zip(taken.messages()) {
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
    answer(|| destroy(handle))
}

/// The longest message that the queue accepts, in bytes: a buffer of this size has room for each.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_largest(handle: *mut forebay_receiver) -> isize {
    answer(|| receiver(handle, |it| Ok(it.largest() as isize)))
}

/// Closes the queue for all ends, as `forebay_sender_close` does.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_close(handle: *mut forebay_receiver) -> c_int {
    answer(|| {
        receiver(handle, |it| {
            it.close();
            Ok(0)
        })
    })
}

/// Stores the counts of the queue.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_stats(
    handle: *mut forebay_receiver,
    stats: *mut forebay_queue_stats,
) -> c_int {
    answer(|| put_stats(receiver(handle, |it| Ok(it.stats()?))?, stats))
}

/// Makes a watch that reports messages. `FOREBAY_UNSUPPORTED` or `FOREBAY_INVALID`: the queue is shared between processes.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_watch(
    handle: *mut forebay_receiver,
    watch: *mut *mut forebay_watch,
) -> c_int {
    answer(|| {
        let place = Place::new(watch, "watch")?;
        give_one(receiver(handle, |it| Ok(it.watch()?))?, &place)
    })
}

/// Ends this end.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_receiver_destroy(handle: *mut forebay_receiver) -> c_int {
    answer(|| destroy(handle))
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
    answer(|| {
        exclusive(handle, |it| it.disarm())?;
        Ok(0)
    })
}

/// The descriptor for `forebay_watch_arm`. It belongs to the watch: do not read or close it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_watch_descriptor(handle: *mut forebay_watch) -> c_int {
    answer(|| Ok(exclusive(handle, |it| number(it.as_fd()))?))
}

/// Ends the watch.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_watch_destroy(handle: *mut forebay_watch) -> c_int {
    answer(|| destroy(handle))
}
