//! Memory that one side writes and the other can only read, as words: for lanes and broadcast rings.
//!
//! Every load is an atomic one of 8 bytes. A concurrent write by the other process is therefore not a data race here, and no
//! `&[u8]` ever shows bytes that can change.
//!
//! ```text
//!  Ours:    word ◀── store           mapped writable, permanently by this process alone (`sys::sealed`)
//!  Theirs:  word ───▶ load, Relaxed  mapped read-only
//! ```
//!
//! The writer can wake readers that sleep on a word. The kernel compares the word's low half, so readers need not write anything.
//!
//! Loads are Relaxed, followed by a fence where they need to acquire: the standard library allows only Relaxed loads for
//! atomics in read-only memory.
#![allow(unsafe_code)]

use super::lines::{LINE, fetch_to_write};
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{self, Acquire, Relaxed},
    fence,
};
#[cfg(not(loom))]
use crate::sys::Mapping;
use std::{fmt, ops::Range, time::Duration};

/// Bytes of a word.
pub(crate) const WORD: usize = size_of::<u64>();

/// The length of all `parts` in bytes; `usize::MAX` if it is even more.
#[inline(always)]
pub(crate) fn total(parts: &[&[u8]]) -> usize {
    let add = |sum: usize, part: &&[u8]| sum.saturating_add(part.len());
    parts.iter().fold(0, add)
}

/// Words at the start of a mapping.
struct Words {
    /// That of `_owner`, one load closer.
    #[cfg(not(loom))]
    mapping: std::mem::ManuallyDrop<Mapping>,
    #[cfg(not(loom))]
    _owner: crate::sync::Arc<Mapping>,
    #[cfg(loom)]
    words: crate::sync::Arc<Vec<AtomicU64>>,
    #[cfg(loom)]
    asleep: crate::sync::Arc<crate::sync::Asleep>,
    /// The cells that loom checks for races: it does not report races of copies by atomics.
    #[cfg(loom)]
    cells: crate::sync::Arc<Vec<loom::cell::UnsafeCell<()>>>,
}

impl Words {
    #[cfg(not(loom))]
    fn over(mapping: crate::sync::Arc<Mapping>) -> Words {
        Words {
            mapping: mapping.alias(),
            _owner: mapping,
        }
    }

    #[inline(always)]
    fn all(&self) -> &[AtomicU64] {
        #[cfg(loom)]
        return &self.words;
        #[cfg(not(loom))]
        {
            let start = self.mapping.start().as_ptr().cast::<AtomicU64>();
            // SAFETY: these are whole pages that stay mapped while `self` lives, and that the kernel cannot remove (sealed; allocated now or at the first access). They
            // are page-aligned, and any bytes are a valid word. All changes are atomic, or come from another process, or from `gather`, which is exclusive.
            unsafe { std::slice::from_raw_parts(start, self.mapping.len() / WORD) }
        }
    }
}

/// A word's low half, for the kernel to compare.
#[cfg(not(loom))]
fn low_half(word: &AtomicU64) -> &std::sync::atomic::AtomicU32 {
    let halves = std::ptr::from_ref(word).cast::<std::sync::atomic::AtomicU32>();
    let low = halves.wrapping_add(usize::from(cfg!(target_endian = "big")));
    // SAFETY: it is inside the word, lives as long as the word, and any bytes are valid. Only the kernel accesses it as a half.
    unsafe { &*low }
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
        Ours(Words::over(mapping.into()))
    }

    /// Number of words.
    #[cfg_attr(not(feature = "lanes"), allow(dead_code))]
    pub(crate) fn len(&self) -> usize {
        self.0.all().len()
    }

    /// # Panics
    /// Here and below, if the index is out of range.
    #[inline(always)]
    pub(crate) fn store(&self, at: usize, value: u64, ordering: Ordering) {
        self.0.all()[at].store(value, ordering);
    }

    /// Prefetches the cache lines of these words, which will be written soon. Words out of range are ignored.
    #[inline]
    pub(crate) fn fetch(&self, words: Range<usize>) {
        let Range { start, end } = self.0.all().get(words).unwrap_or(&[]).as_ptr_range();
        let mut line = start;
        while line < end {
            fetch_to_write(line);
            line = line.wrapping_add(LINE / WORD);
        }
    }

    /// Wakes the readers that sleep on the word, in all processes, up to 1024 of them. Call it after changing the word.
    pub(crate) fn wake_all(&self, at: usize) {
        let _word = &self.0.all()[at];
        #[cfg(not(loom))]
        crate::sys::futex_wake_all(low_half(_word));
        #[cfg(loom)]
        self.0.asleep.wake_all();
    }

    /// Copies `parts`, one directly after another, to the words from `at` on. What the last word holds after them is unspecified.
    /// Readers may load these words at the same time.
    ///
    /// This is a plain copy, which takes half as long as stores of words: in this process, only this exclusive reference writes the
    /// mapping, and nothing else reads it. A reader in this process has mapped the memory elsewhere; to the compiler, that is other
    /// memory, which the machine changes (docs/decisions/38). Loom and Miri see one memory and therefore get words.
    #[inline(always)]
    #[cfg(not(any(loom, miri)))]
    pub(crate) fn gather(&mut self, at: usize, parts: &[&[u8]]) {
        let words = &self.0.all()[at..][..total(parts).div_ceil(WORD)];
        let mut to = words.as_ptr().cast_mut().cast::<u8>();
        for part in parts {
            // SAFETY: `part.len()` bytes from `to` on are inside `words`, which have room for all parts: atomics in a mapping that is
            // writable. The part cannot be in that mapping, to which there is no other reference. Nothing else in this process
            // accesses it, as `self` is exclusive.
            unsafe { super::copy_in(part.as_ptr(), to, part.len()) };
            to = to.wrapping_add(part.len());
        }
    }

    #[cfg(any(loom, miri))]
    pub(crate) fn gather(&mut self, at: usize, parts: &[&[u8]]) {
        let bytes = parts.concat();
        let (whole, rest) = bytes.as_chunks::<WORD>();
        let mut last = [0; WORD];
        last[..rest.len()].copy_from_slice(rest);
        let last = (!rest.is_empty()).then_some(last);
        for (at, bytes) in (at..).zip(whole.iter().copied().chain(last)) {
            self.store(at, u64::from_ne_bytes(bytes), Relaxed); // Relaxed: publishing the message orders them
        }
    }

    /// Copies `bytes` to the words from `at` on, and fills the last word up with zeros.
    #[inline]
    #[cfg_attr(not(feature = "lanes"), allow(dead_code))]
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
        Theirs(Words::over(mapping.into()))
    }

    /// The same memory for another thread; it stays mapped until both are dropped.
    #[cfg(not(loom))]
    pub(crate) fn share(&self) -> Theirs {
        Theirs(Words::over(crate::sync::Arc::clone(&self.0._owner)))
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

    /// Sleeps while the low half of the word is that of `expected`, until woken or for up to `limit`; false only after the
    /// limit. It may return early.
    pub(crate) fn sleep(&self, at: usize, expected: u64, limit: Option<Duration>) -> bool {
        let word = &self.0.all()[at];
        #[cfg(not(loom))]
        return crate::sys::futex_wait(low_half(word), expected as u32, limit, true);
        #[cfg(loom)]
        (self.0.asleep).sleep(|| word.load(Relaxed) == expected, limit) // Relaxed: like the kernel's own check
    }

    /// Moves the sleepers of the word to the queue of `own`, as a hostile reader can. Returns how many.
    #[cfg(all(test, not(any(loom, miri))))]
    pub(crate) fn steal_sleepers(&self, at: usize, own: &std::sync::atomic::AtomicU32) -> usize {
        let flags = rustix::thread::futex::Flags::empty();
        let word = low_half(&self.0.all()[at]);
        rustix::thread::futex::requeue(word, flags, 0, i32::MAX.cast_unsigned(), own).unwrap()
    }

    /// Copies the words from `at` on to `bytes`, loading each word once. The other side must not write them meanwhile.
    #[inline]
    #[cfg_attr(not(feature = "lanes"), allow(dead_code))]
    pub(crate) fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        #[cfg(loom)]
        self.0.cells[at..][..bytes.len().div_ceil(WORD)]
            .iter()
            .for_each(|cell| cell.with(|_| ()));
        self.snapshot(at, bytes);
    }

    /// Like [`copy_out`](Theirs::copy_out), but the other side may write the words meanwhile. The caller then checks whether it
    /// has, and if so, discards the bytes.
    #[inline]
    pub(crate) fn snapshot(&self, at: usize, bytes: &mut [u8]) {
        let words = &self.0.all()[at..][..bytes.len().div_ceil(WORD)];
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

#[cfg(not(loom))]
impl Theirs {
    /// As [`snapshot`](Theirs::snapshot), of the bytes from byte `at` on.
    pub(crate) fn snapshot_bytes(&self, at: usize, bytes: &mut [u8]) {
        let (word, inside) = (at / WORD, at % WORD);
        let first = match inside {
            0 => 0,
            _ => (WORD - inside).min(bytes.len()),
        };
        let (begin, rest) = bytes.split_at_mut(first);
        if first > 0 {
            let loaded = self.load(word).to_ne_bytes();
            begin.copy_from_slice(&loaded[inside..inside + first]);
        }
        self.snapshot(word + usize::from(inside > 0), rest);
    }
}

/// Both sides of `words` words, for models.
#[cfg(loom)]
pub(crate) fn both(words: usize) -> (Ours, Theirs) {
    use crate::sync::Arc;
    let (asleep, cells) = (
        Arc::default(),
        Arc::new((0..words).map(|_| Default::default()).collect()),
    );
    let words = Arc::new((0..words).map(|_| AtomicU64::new(0)).collect());
    let both = || Words {
        words: Arc::clone(&words),
        asleep: Arc::clone(&asleep),
        cells: Arc::clone(&cells),
    };
    (Ours(both()), Theirs(both()))
}

/// Both sides of `words` words, for tests under Miri.
#[cfg(all(test, miri))]
pub(crate) fn both(words: usize) -> (Ours, Theirs) {
    let page = crate::sys::page_size();
    let mapping = Mapping::anonymous((words * WORD).next_multiple_of(page), page).unwrap();
    let mapping = crate::sync::Arc::new(mapping);
    let theirs = Theirs(Words::over(mapping.clone()));
    (Ours(Words::over(mapping)), theirs)
}

/// Both sides of `words` words, in whole pages, for tests.
#[cfg(all(test, not(any(loom, miri))))]
pub(crate) fn both(words: usize) -> (Ours, Theirs) {
    use crate::sys::{page_size, sealed};
    let len = (words * WORD).next_multiple_of(page_size());
    let (file, mine) = sealed::make("test", len).unwrap();
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

    #[test]
    fn bytes_from_any_place_are_copied() {
        let (ours, theirs) = both(512);
        let bytes: Vec<u8> = (0..100).collect();
        ours.copy_in(2, &bytes);
        for at in 0..20 {
            for len in 0..50 {
                let mut got = vec![0xFF; len];
                theirs.snapshot_bytes(2 * WORD + at, &mut got);
                assert_eq!(got, bytes[at..at + len]);
            }
        }
    }

    #[test]
    fn parts_of_any_length_come_out_joined() {
        let (mut ours, theirs) = both(512);
        let bytes: Vec<u8> = (1..=60).collect();
        let step = if cfg!(miri) { 3 } else { 1 };
        for first in (0..20).step_by(step) {
            for second in (first..40).step_by(step) {
                let parts = [
                    &bytes[..first],
                    &[],
                    &bytes[first..second],
                    &bytes[second..],
                ];
                ours.store(3, 0, Relaxed);
                ours.store(11, u64::MAX, Relaxed);
                ours.gather(3, &parts);
                let mut got = [0; 60];
                theirs.snapshot(3, &mut got);
                assert_eq!(got[..], bytes, "{first} {second}");
                assert_eq!(theirs.load(11), u64::MAX);
            }
        }
    }
}
