//! Memory that one side writes and the other can only read, as words: for lanes and broadcast rings.
//!
//! Every access is an atomic load or store of 8 bytes. A concurrent write by the other process is therefore not a data race
//! here, and no `&[u8]` ever shows bytes that can change.
//!
//! ```text
//!  Ours:    word ◀── store           mapped writable, permanently by this process alone (`sys::sealed`)
//!  Theirs:  word ───▶ load, Relaxed  mapped read-only
//! ```
//!
//! Loads are Relaxed, followed by a fence where they need to acquire: the standard library allows only Relaxed loads for
//! atomics in read-only memory.
#![allow(unsafe_code)]

use crate::sync::atomic::{
    AtomicU64,
    Ordering::{self, Acquire, Relaxed},
    fence,
};
#[cfg(not(loom))]
use crate::sys::Mapping;
use std::fmt;

/// Bytes of a word.
pub(crate) const WORD: usize = size_of::<u64>();

/// Words at the start of a mapping.
struct Words {
    #[cfg(not(loom))]
    mapping: Mapping,
    #[cfg(loom)]
    words: crate::sync::Arc<Vec<AtomicU64>>,
    /// The cells that loom checks for races: it does not report races of copies by atomics.
    #[cfg(loom)]
    cells: crate::sync::Arc<Vec<loom::cell::UnsafeCell<()>>>,
}

impl Words {
    #[inline(always)]
    fn all(&self) -> &[AtomicU64] {
        #[cfg(loom)]
        return &self.words;
        #[cfg(not(loom))]
        {
            let start = self.mapping.start().as_ptr().cast::<AtomicU64>();
            // SAFETY: these are whole pages that stay mapped while `self` lives, and stay present (sealed and allocated). They
            // are page-aligned, and any bytes are a valid word. All changes are atomic, or come from another process.
            unsafe { std::slice::from_raw_parts(start, self.mapping.len() / WORD) }
        }
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Words({})", self.all().len())
    }
}

/// Memory that only this side writes.
#[derive(Debug)]
pub(crate) struct Ours(Words);

/// Memory that only the other side writes: any values, at any time.
#[derive(Debug)]
pub(crate) struct Theirs(Words);

impl Ours {
    #[cfg(not(loom))]
    pub(crate) fn new(mapping: Mapping) -> Ours {
        Ours(Words { mapping })
    }

    /// Number of words.
    pub(crate) fn len(&self) -> usize {
        self.0.all().len()
    }

    /// # Panics
    /// Here and below, if the index is out of range.
    #[inline(always)]
    pub(crate) fn store(&self, at: usize, value: u64, ordering: Ordering) {
        self.0.all()[at].store(value, ordering);
    }

    /// Copies `bytes` to the words from `at` on, and fills the last word up with zeros.
    #[inline]
    pub(crate) fn copy_in(&self, at: usize, bytes: &[u8]) {
        let words = &self.0.all()[at..][..bytes.len().div_ceil(WORD)];
        #[cfg(loom)]
        self.0.cells[at..][..words.len()]
            .iter()
            .for_each(|cell| cell.with_mut(|_| ()));
        let (whole, rest) = bytes.as_chunks::<WORD>();
        // Relaxed, here and below: publishing the message orders them.
        for (word, bytes) in words.iter().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
        if !rest.is_empty() {
            let mut last = [0; WORD];
            last[..rest.len()].copy_from_slice(rest);
            words[whole.len()].store(u64::from_ne_bytes(last), Relaxed);
        }
    }
}

impl Theirs {
    #[cfg(not(loom))]
    pub(crate) fn new(mapping: Mapping) -> Theirs {
        Theirs(Words { mapping })
    }

    /// Number of words.
    pub(crate) fn len(&self) -> usize {
        self.0.all().len()
    }

    /// # Panics
    /// Here and below, if the index is out of range.
    #[inline(always)]
    pub(crate) fn load(&self, at: usize) -> u64 {
        self.0.all()[at].load(Relaxed) // Relaxed: only its value matters, or the caller fences
    }

    /// Loads a value, and acquires what was stored before it, if it was stored with Release.
    #[inline(always)]
    pub(crate) fn load_acquire(&self, at: usize) -> u64 {
        let value = self.load(at);
        fence(Acquire);
        value
    }

    /// Copies the words from `at` on to `bytes`, loading each word once.
    #[inline]
    pub(crate) fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        let words = &self.0.all()[at..][..bytes.len().div_ceil(WORD)];
        #[cfg(loom)]
        self.0.cells[at..][..words.len()]
            .iter()
            .for_each(|cell| cell.with(|_| ()));
        let (whole, rest) = bytes.as_chunks_mut::<WORD>();
        for (word, bytes) in words.iter().zip(&mut *whole) {
            *bytes = word.load(Relaxed).to_ne_bytes(); // Relaxed: the caller acquired the message
        }
        if !rest.is_empty() {
            let last = words[whole.len()].load(Relaxed).to_ne_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }
}

/// Both sides of `words` words, for models.
#[cfg(loom)]
pub(crate) fn both(words: usize) -> (Ours, Theirs) {
    use crate::sync::Arc;
    let cells = Arc::new((0..words).map(|_| Default::default()).collect());
    let words = Arc::new((0..words).map(|_| AtomicU64::new(0)).collect());
    let both = || Words {
        words: Arc::clone(&words),
        cells: Arc::clone(&cells),
    };
    (Ours(both()), Theirs(both()))
}

/// Both sides of `words` words, in whole pages, for tests.
#[cfg(all(test, not(loom)))]
pub(crate) fn both(words: usize) -> (Ours, Theirs) {
    use crate::sys::{page_size, sealed};
    let len = (words * WORD).next_multiple_of(page_size());
    let (file, mine) = sealed::make(len).unwrap();
    (
        Ours::new(mine),
        Theirs::new(sealed::map(&file, len).unwrap()),
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_come_out_as_they_went_in() {
        let (ours, theirs) = both(512);
        let bytes: Vec<u8> = (0..100).collect();
        for len in 0..bytes.len() {
            ours.copy_in(7, &bytes[..len]);
            let mut got = vec![0xFF; len];
            theirs.copy_out(7, &mut got);
            assert_eq!(got, bytes[..len]);
        }
    }
}
