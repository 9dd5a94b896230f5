//! Views of ends, for the operations that `forebay_inline.h` has inline, and memory that is mapped twice.
//!
//! A view holds an end's addresses and its position. Any function of the same end may be called meanwhile: the position in shared memory
//! is the truth, and each side continues from there.

#![allow(unsafe_code)] // The names are this library's.
#![allow(non_camel_case_types)] // These, too.

use super::{
    ring::{self, forebay_ring_consumer, forebay_ring_producer},
    stream::{self, forebay_stream_reader, forebay_stream_writer},
};
use crate::{
    border::{Place, done},
    ends::{give_one, take_back},
    failure::{Failure, Result},
    handles::handles,
};
use forebay::{
    memory::{MapConfig, Mirror},
    ring::spsc::RawEnd,
};
use std::{
    ffi::{c_int, c_void},
    sync::atomic::{AtomicU32, AtomicUsize},
};

/// The addresses and words of an end. Only the functions of `forebay_inline.h` use its fields.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct forebay_end {
    /// The byte at `position`, in the first of two views of the memory.
    pub at: *mut u8,
    /// Where the second view begins.
    pub seam: *mut u8,
    /// Bytes of a view.
    pub seam_bytes: usize,
    /// Bytes pushed or popped so far; wraps.
    pub position: usize,
    /// The first position that the end may not use, as far as it knows.
    pub limit: usize,
    /// What is added to the other end's position to get the limit.
    pub ahead: usize,
    /// This end's position, shared.
    pub mine: *mut usize,
    /// The other end's position, shared.
    pub theirs: *const usize,
    /// Not 0: the other end may wait.
    pub bell: *const u32,
    /// Not 0: the ring or stream has ended.
    pub state: *const u32,
}

// The words of Rust's atomics are plain words.
const _: () = assert!(
    size_of::<AtomicUsize>() == size_of::<usize>() && size_of::<AtomicU32>() == size_of::<u32>()
);

impl From<RawEnd> for forebay_end {
    fn from(raw: RawEnd) -> forebay_end {
        forebay_end {
            at: raw.at,
            seam: raw.seam,
            seam_bytes: raw.seam_bytes,
            position: raw.position,
            limit: raw.limit,
            ahead: raw.ahead,
            mine: raw.mine.cast_mut().cast(),
            theirs: raw.theirs.cast(),
            bell: raw.bell.cast(),
            state: raw.state.cast(),
        }
    }
}

/// A view of an end that pushes elements.
#[repr(C)]
pub struct forebay_ring_producer_view {
    pub end: forebay_end,
    pub handle: *mut forebay_ring_producer,
}

/// A view of an end that pops elements.
#[repr(C)]
pub struct forebay_ring_consumer_view {
    pub end: forebay_end,
    pub handle: *mut forebay_ring_consumer,
}

/// A view of an end that writes bytes.
#[repr(C)]
pub struct forebay_stream_writer_view {
    pub end: forebay_end,
    pub handle: *mut forebay_stream_writer,
}

/// A view of an end that reads bytes.
#[repr(C)]
pub struct forebay_stream_reader_view {
    pub end: forebay_end,
    pub handle: *mut forebay_stream_reader,
}

fn same_size(given: usize, element: usize) -> Result<()> {
    match given == element {
        true => Ok(()),
        false => Err(Failure::invalid(format!(
            "the ring's elements have {element} bytes, not {given}"
        ))),
    }
}

/// Fills a view of this end, for `forebay_ring_push_inline`, and wakes the consumer if it waits for what the view has pushed. The view is
/// valid until the end is destroyed. `FOREBAY_INVALID`: the elements have another size.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_producer_sync(
    handle: *mut forebay_ring_producer,
    element_size: usize,
    view: *mut forebay_ring_producer_view,
) -> c_int {
    done(|| {
        let place = Place::new(view, "view")?;
        ring::producer(handle, |it| {
            same_size(element_size, it.element)?;
            let end = it.end.raw().into();
            place.put(forebay_ring_producer_view { end, handle });
            Ok(())
        })
    })
}

/// Fills a view of this end, for `forebay_ring_pop_inline`, and wakes the producer if it waits for what the view has popped. The view is
/// valid until the end is destroyed. `FOREBAY_INVALID`: the elements have another size.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring_consumer_sync(
    handle: *mut forebay_ring_consumer,
    element_size: usize,
    view: *mut forebay_ring_consumer_view,
) -> c_int {
    done(|| {
        let place = Place::new(view, "view")?;
        ring::consumer(handle, |it| {
            same_size(element_size, it.element)?;
            let end = it.end.raw().into();
            place.put(forebay_ring_consumer_view { end, handle });
            Ok(())
        })
    })
}

/// Fills a view of this end, for `forebay_stream_push_inline`, and wakes the reader if it waits for what the view has pushed. The view is
/// valid until the end is destroyed.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_writer_sync(
    handle: *mut forebay_stream_writer,
    view: *mut forebay_stream_writer_view,
) -> c_int {
    done(|| {
        let place = Place::new(view, "view")?;
        stream::writer(handle, |it| {
            let end = it.raw().into();
            place.put(forebay_stream_writer_view { end, handle });
            Ok(())
        })
    })
}

/// Fills a view of this end, for `forebay_stream_peek_inline`, and wakes the writer if it waits for what the view has popped. The view is
/// valid until the end is destroyed.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_stream_reader_sync(
    handle: *mut forebay_stream_reader,
    view: *mut forebay_stream_reader_view,
) -> c_int {
    done(|| {
        let place = Place::new(view, "view")?;
        stream::reader(handle, |it| {
            let end = it.raw().into();
            place.put(forebay_stream_reader_view { end, handle });
            Ok(())
        })
    })
}

/// Memory that is mapped twice, one view after the other: what is written at an offset is also at that offset plus `view_bytes`.
pub struct forebay_mirror(());

handles!(forebay_mirror => Mirror);

/// Makes such memory of at least `len` bytes, all zero. `base` is its start, `view_bytes` the length of a view: whole pages. One thread
/// at a time may use it, or threads that agree.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_mirror_create(
    len: usize,
    mirror: *mut *mut forebay_mirror,
    base: *mut *mut c_void,
    view_bytes: *mut usize,
) -> c_int {
    done(|| {
        let place = Place::new(mirror, "mirror")?;
        let (start, bytes) = (
            Place::new(base, "base")?,
            Place::new(view_bytes, "view_bytes")?,
        );
        let memory = Mirror::new(len, &MapConfig::default())?;
        start.put(memory.base().as_ptr().cast());
        bytes.put(memory.len());
        give_one::<forebay_mirror>(memory, &place)
    })
}

/// Unmaps the memory. Nothing may use it any more.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_mirror_destroy(mirror: *mut forebay_mirror) -> c_int {
    done(|| take_back(mirror).map(drop))
}
