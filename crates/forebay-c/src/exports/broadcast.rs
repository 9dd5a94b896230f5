//! Messages from one producer to any number of readers, also in other processes. The producer never waits: a slow reader loses messages,
//! and learns how many.

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use crate::{
    border::{self, Place, Versioned, answer, descriptor, done, items, items_mut, limit, number},
    ends::{destroy, give_one},
    failure::Result,
    handles::{exclusive, handles},
};
use forebay::error::Code;
use forebay::ring::broadcast::{BroadcastConfig, Producer, Reader, RecvError, Watch};
use std::{
    ffi::{c_int, c_void},
    os::fd::AsFd,
    time::Duration,
};

/// The end of a broadcast that sends. One thread at a time may use it.
pub struct forebay_broadcast_sender(());

/// An end of a broadcast that receives. One thread at a time may use it.
pub struct forebay_broadcast_reader(());

handles!(forebay_broadcast_sender => Producer, forebay_broadcast_reader => ReaderAndWatch);

/// A reader, and its watch once the program asks for it.
pub struct ReaderAndWatch {
    reader: Reader,
    watch: Option<Watch>,
}

impl ReaderAndWatch {
    fn watch(&mut self) -> Result<&mut Watch> {
        if self.watch.is_none() {
            self.watch = Some(self.reader.watch()?);
        }
        Ok(self.watch.as_mut().ok_or(Code::Panic)?)
    }
}

/// Settings of a broadcast. Zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_broadcast_options {
    /// `sizeof(struct forebay_broadcast_options)`.
    pub size: usize,
    /// Bytes for messages; 0 is 1 MiB.
    pub data_bytes: usize,
    /// Number of messages that are kept, rounded up to a power of two; 0 is 8192.
    pub messages: usize,
}

// SAFETY: `repr(C)`, a size first, and numbers.
unsafe impl Versioned for forebay_broadcast_options {
    const SIZES: &'static [usize] = &[24];
}

/// A message that was received, or why there is none.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_broadcast_received {
    /// `FOREBAY_TOO_LONG`: the bytes that the buffer needs.
    pub len: usize,
    /// The number of the message.
    pub sequence: u64,
    /// `FOREBAY_OVERRUN`: how many messages were lost.
    pub lost: u64,
}

fn sender<R>(
    handle: *const forebay_broadcast_sender,
    body: impl FnOnce(&mut Producer) -> Result<R>,
) -> Result<R> {
    exclusive(handle, body)?
}

fn reader<R>(
    handle: *const forebay_broadcast_reader,
    body: impl FnOnce(&mut Reader) -> Result<R>,
) -> Result<R> {
    exclusive(handle, |it| body(&mut it.reader))?
}

/// Makes a broadcast, and stores its sending end. `options` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_broadcast_create(
    options: *const forebay_broadcast_options,
    sender: *mut *mut forebay_broadcast_sender,
) -> c_int {
    done(|| {
        let place = Place::new(sender, "sender")?;
        let options = border::options(options)?;
        let default = BroadcastConfig::default();
        let or = |number: usize, default: usize| if number == 0 { default } else { number };
        let config = BroadcastConfig {
            data_bytes: or(options.data_bytes, default.data_bytes),
            messages: or(options.messages, default.messages),
            ..default
        };
        give_one(Producer::new(&config)?, &place)
    })
}

/// Sends a copy of a message to all readers, wakes those that wait, and returns its number.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_broadcast_send(
    handle: *mut forebay_broadcast_sender,
    message: *const c_void,
    len: usize,
) -> i64 {
    answer(|| {
        let message: &[u8] = items(message.cast(), len, "message")?;
        sender(handle, |it| Ok(it.send(&[message])? as i64))
    })
}

/// The longest message, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_broadcast_largest(handle: *mut forebay_broadcast_sender) -> isize {
    answer(|| sender(handle, |it| Ok(it.largest() as isize)))
}

/// The descriptor by which readers in other processes attach. It belongs to the sending end: do not close it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_broadcast_descriptor(handle: *mut forebay_broadcast_sender) -> c_int {
    answer(|| sender(handle, |it| Ok(number(it.memory()))))
}

/// Ends the sending end. Readers get what is kept, and then `FOREBAY_CLOSED`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_broadcast_sender_destroy(handle: *mut forebay_broadcast_sender) -> c_int {
    done(|| destroy(handle))
}

/// Attaches a reader by a descriptor, also one from a process that is not trusted. It begins at the next message. The library duplicates
/// the descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_broadcast_attach(
    number: c_int,
    reader: *mut *mut forebay_broadcast_reader,
) -> c_int {
    done(|| {
        let place = Place::new(reader, "reader")?;
        let reader = Reader::attach(descriptor(number)?)?;
        give_one(
            ReaderAndWatch {
                reader,
                watch: None,
            },
            &place,
        )
    })
}

/// Copies the next message into a buffer of `room` bytes, and returns its length. `received` may be null. `FOREBAY_OVERRUN`: messages were
/// lost, and the next call continues after them. `FOREBAY_TOO_LONG`: the message stays.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_broadcast_receive(
    handle: *mut forebay_broadcast_reader,
    buffer: *mut c_void,
    room: usize,
    timeout_ns: i64,
    received: *mut forebay_broadcast_received,
) -> isize {
    answer(|| {
        let place = Place::optional(received);
        let buffer: &mut [u8] = items_mut(buffer.cast(), room, "buffer")?;
        reader(handle, |it| {
            let answer = match limit(timeout_ns) {
                None => it.recv(buffer),
                Some(Duration::ZERO) => it.try_recv(buffer),
                Some(limit) => it.recv_timeout(buffer, limit),
            };
            let (len, sequence, lost) = match &answer {
                Ok(it) => (it.len, it.sequence, 0),
                Err(RecvError::TooSmall { needed }) => (*needed, 0, 0),
                Err(RecvError::Overrun { lost }) => (0, 0, *lost),
                Err(_) => (0, 0, 0),
            };
            if let Some(place) = place {
                place.put(forebay_broadcast_received {
                    len,
                    sequence,
                    lost,
                });
            }
            answer?;
            Ok(len as isize)
        })
    })
}

/// Continues at the oldest message that is kept, and returns its number.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_broadcast_seek_oldest(handle: *mut forebay_broadcast_reader) -> i64 {
    answer(|| reader(handle, |it| Ok(it.seek_oldest() as i64)))
}

/// Continues at the next message that is sent, and returns its number.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_broadcast_seek_newest(handle: *mut forebay_broadcast_reader) -> i64 {
    answer(|| reader(handle, |it| Ok(it.seek_newest() as i64)))
}

/// Prepares a wait for a message in `poll`. 1: there is none yet; wait until the descriptor is readable, and try again. 0: there is one, or
/// the sending end is gone; do not wait. The first call starts a thread, which ends after the reader.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_broadcast_reader_arm(handle: *mut forebay_broadcast_reader) -> c_int {
    answer(|| {
        exclusive(handle, |it| {
            it.watch()?;
            let ReaderAndWatch { reader, watch } = it;
            Ok(watch.as_mut().is_some_and(|watch| watch.arm(reader)).into())
        })?
    })
}

/// The descriptor for `forebay_broadcast_reader_arm`. It belongs to the reader: do not read or close it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_broadcast_reader_descriptor(
    handle: *mut forebay_broadcast_reader,
) -> c_int {
    answer(|| exclusive(handle, |it| Ok(number(it.watch()?.as_fd())))?)
}

/// Ends the reader.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_broadcast_reader_destroy(handle: *mut forebay_broadcast_reader) -> c_int {
    done(|| destroy(handle))
}
