//! A stream of bytes between two threads, which can end or fail.

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use crate::{
    border::{self, Place, Versioned, answer, done, items, items_mut, limit, number, text},
    ends::{destroy, give_both},
    failure::{Failure, Result, remember},
    handles::{exclusive, handles},
};
use forebay::{
    Error,
    error::Code,
    ring::spsc::ForeignEnd,
    stream::{End, Reader, StreamConfig, WaitError, Writer, stream_with},
    sync::Eventfd,
};
use std::{
    ffi::{c_char, c_int, c_void},
    ops::{Deref, DerefMut},
    os::fd::AsFd,
    time::Duration,
};

/// The end of a stream that writes. One thread at a time may use it.
pub struct forebay_stream_writer(());

/// The end of a stream that reads. One thread at a time may use it.
pub struct forebay_stream_reader(());

handles!(forebay_stream_writer => Output);

/// The end that writes.
pub struct Output {
    end: ForeignEnd<Writer<Eventfd>>,
    /// The position up to which room was lent.
    reserved: u64,
}

impl Deref for Output {
    type Target = ForeignEnd<Writer<Eventfd>>;

    fn deref(&self) -> &Self::Target {
        &self.end
    }
}

impl DerefMut for Output {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.end
    }
}

handles!(forebay_stream_reader => ForeignEnd<Reader<Eventfd>>);

/// Settings of a stream. Zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_stream_options {
    /// `sizeof(struct forebay_stream_options)`.
    pub size: usize,
    /// Bytes, all usable; 0 is 65536.
    pub capacity_bytes: usize,
    /// Not 0: the memory is not faulted in when the stream is made, but when it is used first.
    pub lazy: u32,
    /// Not 0: pages of 2 MiB, if the stream is that large.
    pub huge_pages: u32,
}

// SAFETY: `repr(C)`, a size first, and numbers.
unsafe impl Versioned for forebay_stream_options {
    const SIZES: &'static [usize] = &[24];
}

/// How a stream has ended.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum forebay_stream_end {
    /// It has not.
    FOREBAY_STREAM_OPEN = 0,
    /// The writer closed it: the content is complete.
    FOREBAY_STREAM_CLOSED = 1,
    /// Either end has set an error.
    FOREBAY_STREAM_FAILED = 2,
    /// The writer was destroyed without closing: bytes may be missing.
    FOREBAY_STREAM_WRITER_GONE = 3,
}

/// A closed stream, with the reason if there is one.
fn closed(reason: Option<&Error>) -> Failure {
    match reason {
        Some(reason) => {
            let mut failure = Failure::from(reason.clone());
            failure.code = Code::Closed;
            failure
        }
        None => Code::Closed.into(),
    }
}

/// What a writer returns that accepts nothing.
fn refusal(writer: &Writer<Eventfd>) -> Failure {
    match writer.is_over() {
        true => closed(writer.error()),
        false => Code::Full.into(),
    }
}

/// What a reader returns that has nothing.
fn ended(reader: &Reader<Eventfd>) -> Failure {
    match reader.end().is_some() && reader.bytes_buffered() == 0 {
        true => closed(reader.error()),
        false => Code::Empty.into(),
    }
}

/// The reason that the program gives: a code below 0 and a text, or neither.
fn reason(code: c_int, reason: *const c_char) -> Result<Option<Error>> {
    let reason = match reason.is_null() {
        true => "",
        false => text(reason, "reason")?,
    };
    match (code, Code::from_number(code)) {
        (0, _) if reason.is_empty() => Ok(None),
        (_, Some(code)) => Ok(Some(match reason {
            "" => code.into(),
            reason => Error::coded(code, "", reason),
        })),
        _ => Err(Failure::invalid("`code` is none of enum forebay_code")),
    }
}

/// Stores the code of the reason; its text becomes the last error.
fn keep(reason: Option<&Error>, place: &Place<c_int>) -> Result<()> {
    place.put(reason.map_or(0, |reason| reason.code().number()));
    if let Some(reason) = reason {
        remember(reason.clone().into());
    }
    Ok(())
}

pub(super) fn writer<R>(
    handle: *const forebay_stream_writer,
    body: impl FnOnce(&mut Output) -> Result<R>,
) -> Result<R> {
    exclusive(handle, |it| {
        it.catch_up(); // with what a view has done
        body(it)
    })?
}

pub(super) fn reader<R>(
    handle: *const forebay_stream_reader,
    body: impl FnOnce(&mut ForeignEnd<Reader<Eventfd>>) -> Result<R>,
) -> Result<R> {
    exclusive(handle, |it| {
        it.catch_up(); // with what a view has done
        body(it)
    })?
}

/// Makes a stream, and stores its ends. `options` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_create(
    options: *const forebay_stream_options,
    writer: *mut *mut forebay_stream_writer,
    reader: *mut *mut forebay_stream_reader,
) -> c_int {
    done(|| {
        let places = (Place::new(writer, "writer")?, Place::new(reader, "reader")?);
        let options = border::options(options)?;
        let ends = stream_with(&StreamConfig {
            capacity_bytes: match options.capacity_bytes {
                0 => StreamConfig::default().capacity_bytes,
                some => some,
            },
            populate: options.lazy == 0,
            huge_pages: options.huge_pages != 0,
        })?;
        let (writer, reader) = ends;
        let writer = Output {
            end: ForeignEnd::new(writer),
            reserved: 0,
        };
        let ends = (writer, ForeignEnd::new(reader));
        give_both::<forebay_stream_writer, forebay_stream_reader>(ends, places)
    })
}

/// Pushes as many bytes as there is room for, and returns their number. `FOREBAY_FULL`: there is no room now. `FOREBAY_CLOSED`: the
/// stream accepts no more.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_push(
    handle: *mut forebay_stream_writer,
    bytes: *const c_void,
    len: usize,
) -> isize {
    answer(|| {
        writer(handle, |it| {
            match it.push_slice(items(bytes.cast(), len, "bytes")?) {
                0 if len > 0 => Err(refusal(it)),
                pushed => Ok(pushed as isize),
            }
        })
    })
}

/// Waits until there is room for at least one byte, and returns for how many. `FOREBAY_CLOSED`: the stream accepts no more.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_wait_vacant(
    handle: *mut forebay_stream_writer,
    timeout_ns: i64,
) -> isize {
    answer(|| {
        writer(handle, |it| {
            let limit = limit(timeout_ns);
            let vacant = match limit {
                Some(limit) => it.wait_vacant_timeout(1, limit),
                None => Ok(it.wait_vacant(1)),
            };
            match vacant {
                Ok(vacant @ 1..) => Ok(vacant as isize),
                Err(WaitError::TimedOut) if limit != Some(Duration::ZERO) => {
                    Err(Code::TimedOut.into())
                }
                _ => Err(refusal(it)),
            }
        })
    })
}

/// Lends up to `count` bytes of room to be filled in place, and returns their number. They are published by `forebay_stream_commit`, and
/// valid until the next call with this end.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_reserve(
    handle: *mut forebay_stream_writer,
    count: usize,
    room: *mut *mut c_void,
) -> isize {
    answer(|| {
        let place = Place::new(room, "room")?;
        writer(handle, |it| {
            let mut vacant = it.reserve(count);
            let len = vacant.len();
            place.put(vacant.as_mut_ptr().cast());
            it.reserved = it.bytes_pushed() + len as u64;
            match len {
                0 if count > 0 => Err(refusal(it)),
                len => Ok(len as isize),
            }
        })
    })
}

/// Publishes the first `count` bytes of the room that was reserved. `FOREBAY_INVALID`: there are fewer.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_commit(handle: *mut forebay_stream_writer, count: usize) -> c_int {
    done(|| {
        writer(handle, |it| {
            if count as u64 > it.reserved.saturating_sub(it.bytes_pushed()) {
                return match it.is_over() {
                    true => Err(refusal(it)),
                    false => Err(Failure::invalid("more bytes than were reserved")),
                };
            }
            let vacant = it.reserve(count);
            if vacant.len() < count {
                return Err(refusal(it)); // lent room stays vacant until the stream has ended
            }
            vacant.commit(count);
            Ok(())
        })
    })
}

/// Ends the stream: the reader gets what is in it, and then the end.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_close(handle: *mut forebay_stream_writer) -> c_int {
    done(|| {
        writer(handle, |it| {
            it.close();
            Ok(())
        })
    })
}

/// Ends the stream with an error: the reader gets what is in it, and then the error. Its reason is a code below 0, and a text that may be
/// null; or 0 and null for no reason. The first reason stays.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_fail(
    handle: *mut forebay_stream_writer,
    code: c_int,
    text: *const c_char,
) -> c_int {
    done(|| {
        let reason = reason(code, text)?;
        writer(handle, |it| {
            match reason {
                Some(reason) => it.fail(reason),
                None => it.set_error(),
            }
            Ok(())
        })
    })
}

/// Stores the code of the reason for which either end failed the stream; 0 without one. `forebay_last_error` then has its text.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_writer_reason(
    handle: *mut forebay_stream_writer,
    reason: *mut c_int,
) -> c_int {
    done(|| {
        let place = Place::new(reason, "reason")?;
        writer(handle, |it| keep(it.error(), &place))
    })
}

/// The number of bytes for which there is room.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_vacant(handle: *mut forebay_stream_writer) -> isize {
    answer(|| writer(handle, |it| Ok(it.available_capacity() as isize)))
}

/// The number of bytes pushed since the stream was made.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_pushed(handle: *mut forebay_stream_writer) -> i64 {
    answer(|| writer(handle, |it| Ok(it.bytes_pushed() as i64)))
}

/// Prepares a wait for room in `poll`. 1: there is none yet; wait until the descriptor is readable (not writable), and try again. 0: there
/// is room, or the stream has ended; do not wait.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_writer_arm(handle: *mut forebay_stream_writer) -> c_int {
    answer(|| writer(handle, |it| Ok(c_int::from(it.arm()))))
}

/// The descriptor for `forebay_stream_writer_arm`. It belongs to the end: do not read or close it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_writer_descriptor(handle: *mut forebay_stream_writer) -> c_int {
    answer(|| writer(handle, |it| Ok(number(it.as_fd()))))
}

/// Ends this end. Without `forebay_stream_close` before, the reader gets `FOREBAY_STREAM_WRITER_GONE`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_writer_destroy(handle: *mut forebay_stream_writer) -> c_int {
    done(|| destroy(handle))
}

/// Lends all bytes in the stream, and returns their number. They are one array, stay in the stream until `forebay_stream_consume`, and
/// are valid until the next call with this end. `FOREBAY_EMPTY`: there is none now. `FOREBAY_CLOSED`: there will be none any more; see
/// `forebay_stream_ending`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_peek(
    handle: *mut forebay_stream_reader,
    bytes: *mut *const c_void,
) -> isize {
    answer(|| {
        let place = Place::new(bytes, "bytes")?;
        reader(handle, |it| {
            let filled = it.peek();
            let len = filled.len();
            place.put(filled.as_ptr().cast());
            match len {
                0 => Err(ended(it)),
                len => Ok(len as isize),
            }
        })
    })
}

/// Releases the first `count` bytes, and returns how many there were.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_consume(
    handle: *mut forebay_stream_reader,
    count: usize,
) -> isize {
    answer(|| reader(handle, |it| Ok(it.consume(count) as isize)))
}

/// Pops up to `len` bytes into `target`, and returns their number.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_pop(
    handle: *mut forebay_stream_reader,
    target: *mut c_void,
    len: usize,
) -> isize {
    answer(|| {
        reader(handle, |it| {
            match it.pop_slice(items_mut(target.cast(), len, "target")?) {
                0 if len > 0 => Err(ended(it)),
                popped => Ok(popped as isize),
            }
        })
    })
}

/// Waits until there is at least one byte, and returns how many there are. `FOREBAY_CLOSED`: there will be none any more.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_wait_filled(
    handle: *mut forebay_stream_reader,
    timeout_ns: i64,
) -> isize {
    answer(|| {
        reader(handle, |it| {
            let limit = limit(timeout_ns);
            let filled = match limit {
                Some(limit) => it.wait_filled_timeout(1, limit),
                None => Ok(it.wait_filled(1)),
            };
            match filled {
                Ok(filled @ 1..) => Ok(filled as isize),
                Err(WaitError::TimedOut) if limit != Some(Duration::ZERO) => {
                    Err(Code::TimedOut.into())
                }
                _ => Err(ended(it)),
            }
        })
    })
}

/// How the stream has ended: one of `enum forebay_stream_end`. Bytes may still be in it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_ending(handle: *mut forebay_stream_reader) -> c_int {
    answer(|| {
        reader(handle, |it| {
            Ok(match it.end() {
                None => forebay_stream_end::FOREBAY_STREAM_OPEN,
                Some(End::Closed) => forebay_stream_end::FOREBAY_STREAM_CLOSED,
                Some(End::Failed) => forebay_stream_end::FOREBAY_STREAM_FAILED,
                Some(End::WriterGone) => forebay_stream_end::FOREBAY_STREAM_WRITER_GONE,
            } as c_int)
        })
    })
}

/// Ends the stream with an error: the writer can push no more. The reason is as in `forebay_stream_fail`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_reader_fail(
    handle: *mut forebay_stream_reader,
    code: c_int,
    text: *const c_char,
) -> c_int {
    done(|| {
        let reason = reason(code, text)?;
        reader(handle, |it| {
            match reason {
                Some(reason) => it.fail(reason),
                None => it.set_error(),
            }
            Ok(())
        })
    })
}

/// Stores the code of the reason for which either end failed the stream; 0 without one. `forebay_last_error` then has its text.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_reader_reason(
    handle: *mut forebay_stream_reader,
    reason: *mut c_int,
) -> c_int {
    done(|| {
        let place = Place::new(reason, "reason")?;
        reader(handle, |it| keep(it.error(), &place))
    })
}

/// The number of bytes in the stream.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_buffered(handle: *mut forebay_stream_reader) -> isize {
    answer(|| reader(handle, |it| Ok(it.bytes_buffered() as isize)))
}

/// The number of bytes popped or released since the stream was made.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_popped(handle: *mut forebay_stream_reader) -> i64 {
    answer(|| reader(handle, |it| Ok(it.bytes_popped() as i64)))
}

/// Prepares a wait for bytes in `poll`. 1: there are none yet; wait until the descriptor is readable, and try again. 0: there are some,
/// or the stream has ended; do not wait.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_reader_arm(handle: *mut forebay_stream_reader) -> c_int {
    answer(|| reader(handle, |it| Ok(c_int::from(it.arm()))))
}

/// The descriptor for `forebay_stream_reader_arm`. It belongs to the end: do not read or close it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_reader_descriptor(handle: *mut forebay_stream_reader) -> c_int {
    answer(|| reader(handle, |it| Ok(number(it.as_fd()))))
}

/// Ends this end. The writer can push no more.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_reader_destroy(handle: *mut forebay_stream_reader) -> c_int {
    done(|| destroy(handle))
}
