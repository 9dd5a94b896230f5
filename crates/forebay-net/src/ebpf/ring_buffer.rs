//! A ring buffer of the kernel (`BPF_MAP_TYPE_RINGBUF`): a program in the kernel fills it with records, and this process empties it.
//!
//! ```text
//!   │ consumer │ producer │ data │ the same data │     pages of the map: no record wraps
//!     ours       the kernel's: we can only read them
//!
//!   record:  │ length and flags, 8 bytes │ bytes … │ up to a multiple of 8 │
//! ```
//!
//! **Ownership.** The bytes from the consumer's position to the producer's belong to the kernel until the header of their record says that
//! it is whole, and then to this process until [`RingBuffer::release`] moves the consumer's position. The positions, and the edges in the
//! code, are those of [`forebay::ring::kernel`]. A position or a length of the kernel is checked before bytes are touched.
//!
//! Two more words are in a map that both sides write to. One counts the records that had no room. The other says whether the process sleeps.
#![allow(unsafe_code)]

use super::{KernelCounters, MAP_CREATE, MAP_TYPE_RINGBUF, SLOT_BYTES, bpf_descriptor, pair};
use crate::sys::Mapping;
use forebay::ring::kernel::{self, Damaged, End, RECORD_HEADER_BYTES, ReadOnly, Record};
use std::{
    fmt, io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    ptr::NonNull,
    slice,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
};

/// Where the two words lie in [`RingBuffer::words`].
pub(crate) const LOST: i16 = 0;
pub(crate) const ASLEEP: i16 = SLOT_BYTES as i16;

/// What is wrong with the kernel's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordDamage {
    Positions(Damaged),
    /// A record that ends after the last one.
    Length {
        span: usize,
        filled: usize,
    },
}

impl fmt::Display for RecordDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordDamage::Positions(damaged) => damaged.fmt(f),
            RecordDamage::Length { span, filled } => {
                write!(f, "a record of {span} bytes is in {filled} filled ones")
            }
        }
    }
}

/// The consumer's end.
#[derive(Debug)]
pub(crate) struct RingBuffer {
    map: OwnedFd,
    words: KernelCounters,
    /// The page with the consumer's position.
    ours: Mapping,
    /// The page with the producer's position, and the data twice.
    theirs: Mapping,
    data_at: usize,
    end: End,
    /// Bytes of the records that were handed out since the last release, and of those before the last of them.
    taken: usize,
    before_last: usize,
}

impl RingBuffer {
    /// A buffer of this size, a power of two of at least a page.
    pub(crate) fn new(bytes: u32) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let attributes = [pair(MAP_TYPE_RINGBUF, 0), pair(0, bytes), 0];
        // SAFETY: names no memory.
        let map = unsafe { bpf_descriptor(MAP_CREATE, &attributes) }?;
        let ours = Mapping::of(map.as_fd(), page)?;
        let len = page + 2 * bytes as usize;
        let theirs = Mapping::read_only(map.as_fd(), len, page as u64)?;
        Ok(RingBuffer {
            words: KernelCounters::new()?,
            map,
            ours,
            theirs,
            data_at: page,
            end: End::consumer(bytes),
            taken: 0,
            before_last: 0,
        })
    }

    /// The map into which a program puts records.
    pub(crate) fn map(&self) -> i32 {
        self.map.as_raw_fd()
    }

    /// The map with the words that a program counts in, and reads.
    pub(crate) fn words(&self) -> i32 {
        self.words.map.as_raw_fd()
    }

    /// Records that had no room since the buffer was made.
    pub(crate) fn lost(&self) -> u64 {
        self.words.slot(LOST as usize / SLOT_BYTES).load(Relaxed) // publishes only itself
    }

    /// Asks the program to make the descriptor readable after its next record. Look at [`is_empty`](RingBuffer::is_empty) once more before
    /// sleeping.
    pub(crate) fn before_sleep(&self) {
        let word = self.words.slot(ASLEEP as usize / SLOT_BYTES);
        // SAFETY: the first four bytes of the word, aligned and mapped as long as `self`. Both sides use only these four, atomically.
        let word = unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) };
        kernel::before_sleep(word); // WAKE
    }

    fn producer(&self) -> &AtomicUsize {
        // SAFETY: the first word of a mapping (page-aligned, longer than a word) that lives as long as `self`. The kernel stores it
        // whole, and here it is only loaded, which needs no writable memory.
        unsafe { AtomicUsize::from_ptr(self.theirs.base().as_ptr().cast()) }
    }

    fn consumer(&self) -> &AtomicUsize {
        // SAFETY: as above. The page is writable, and only this process stores the word, and only through this atomic.
        unsafe { AtomicUsize::from_ptr(self.ours.base().as_ptr().cast()) }
    }

    /// Whether it has records that were there at the last look at the producer's position.
    pub(crate) fn has_known(&self) -> bool {
        self.end.cached_available() > self.taken
    }

    /// Whether it has no record, also none that is being filled in.
    ///
    /// # Errors
    /// The kernel's position is impossible, now or earlier.
    pub(crate) fn is_empty(&mut self) -> Result<bool, RecordDamage> {
        let wanted = self.taken + 1;
        Ok(self.known(wanted)? < wanted)
    }

    /// Bytes after the consumer's position: `wanted` or more if there are as many.
    fn known(&mut self, wanted: usize) -> Result<usize, RecordDamage> {
        // SAFETY: as in `producer`, which cannot be called while `end` is borrowed.
        let producer = unsafe { AtomicUsize::from_ptr(self.theirs.base().as_ptr().cast()) };
        let known = self.end.available(&ReadOnly(producer), wanted); // PUBLISH
        known.map_err(RecordDamage::Positions)
    }

    /// The record this far after the consumer's position, and its bytes. `None`: there is none, or a program is still filling it in.
    #[inline]
    fn at(&mut self, offset: usize) -> Result<Option<(Record, NonNull<u8>)>, RecordDamage> {
        let filled = self.known(offset + 1)?.saturating_sub(offset);
        if filled == 0 {
            return Ok(None);
        }
        // Below the size of the buffer, and a multiple of 8, as all spans are.
        let at = self.data_at + self.end.slot(offset);
        // SAFETY: within the mapping, which holds the data twice.
        let header = unsafe { self.theirs.base().add(at) };
        // SAFETY: aligned, as above, and mapped as long as `self`. The kernel exchanges it whole, and here it is only loaded.
        let word = unsafe { AtomicU32::from_ptr(header.as_ptr().cast()) };
        let Some(record) = kernel::committed(word) else {
            return Ok(None); // COMMIT
        };
        let span = record.span();
        if span > filled {
            return Err(RecordDamage::Length { span, filled });
        }
        // SAFETY: the span is not longer than the buffer, so it ends within the second view; and it begins with a header.
        let bytes = unsafe { header.add(RECORD_HEADER_BYTES) };
        Ok(Some((record, bytes)))
    }

    /// The next record that is whole. `None`: there is none, or a program is still filling it in.
    ///
    /// # Errors
    /// The kernel's side is damaged.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, RecordDamage> {
        while let Some((record, bytes)) = self.at(self.taken)? {
            self.before_last = self.taken;
            self.taken += record.span();
            if !record.is_discarded {
                // SAFETY: `at` has checked the length. The program has finished the record (COMMIT), and the kernel overwrites it only
                // after `release`, which takes `&mut self`; the slice borrows `self`.
                let bytes = unsafe { slice::from_raw_parts(bytes.as_ptr(), record.len) };
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// The number of records that [`next`](RingBuffer::next) would return now.
    ///
    /// # Errors
    /// The kernel's side is damaged.
    pub(crate) fn waiting(&mut self) -> Result<u64, RecordDamage> {
        let (mut offset, mut count) = (self.taken, 0);
        while let Some((record, _)) = self.at(offset)? {
            offset += record.span();
            count += u64::from(!record.is_discarded);
        }
        Ok(count)
    }

    /// Puts the last record back, if one was handed out since the last release.
    pub(crate) fn put_back(&mut self) {
        self.taken = self.before_last;
    }

    /// Gives the records that were handed out back to the kernel.
    pub(crate) fn release(&mut self) {
        // A damaged end knows of no bytes.
        if self.taken > 0 && self.taken <= self.end.cached_available() {
            self.end.advance(self.taken);
            self.end.publish(self.consumer()); // CREDIT
        }
        (self.taken, self.before_last) = (0, 0);
    }

    /// Its size in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.end.capacity()
    }

    /// The share that is filled now.
    pub(crate) fn fill_level(&self) -> f64 {
        // Relaxed: a number to report; no record is read because of it.
        let filled = self.producer().load(Relaxed);
        let filled = filled.wrapping_sub(self.end.position() as usize);
        filled.min(self.capacity()) as f64 / self.capacity() as f64
    }
}

impl AsFd for RingBuffer {
    /// Readable when there are records.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
