//! One memory, mapped twice, back to back: data that wraps around the end is still contiguous.
//!
//! ```text
//!   base                     base + len                base + 2·len
//!     │  first view              │  second view             │
//!     │ 0 1 2 3 4 5 … len-1      │ 0 1 2 3 4 5 … len-1      │     byte i of one is byte i of the other
//!                        ╰── a view from here ──╯                  up to len bytes from any place, one slice
//! ```
//!
//! **Two views.** The compiler may treat `base[i]` and `base[i + len]` as different bytes. It did, and returned a stale value
//! (`tests/two_views.rs` shows it). The rule is therefore: a store through one view is like a write by another thread to the
//! other view. It becomes visible at the next point that the compiler cannot analyse. `view_barrier` is such a point.
#![allow(unsafe_code)]

use super::{HugePages, MapConfig, populate, refused, whole_pages};
use crate::{
    Result,
    sys::{self, Advice, Mapping},
};
use std::{ops::Range, ptr::NonNull, slice};

const ON: &str = "mirrored memory";

/// The point at which writes through one view of the memory at `base` become visible in the other. No instruction.
///
/// The assembly gets the address, and the compiler must assume that it accesses the memory. So no value read before it is
/// reused for a read after it, and no write is moved across it.
#[inline(always)]
pub(crate) fn view_barrier(base: *const u8) {
    #[cfg(not(miri))]
    // SAFETY: a comment is no instruction: no register is changed, no stack used.
    unsafe {
        std::arch::asm!("/* {0} */", in(reg) base, options(nostack, preserves_flags));
    }
    #[cfg(miri)]
    let _ = base; // this build has one view: see `ring::slots`
}

/// Memory with two views: [`len`](Mirror::len) bytes, zeroed, private to this process and not inherited by fork.
///
/// ```
/// use forebay::memory::{MapConfig, Mirror};
/// let mut mirror = Mirror::new(1, &MapConfig::default())?;
/// let len = mirror.len(); // one page
/// mirror.view_mut(len - 2, 4).copy_from_slice(b"wrap");
/// assert_eq!(mirror.view(len - 2, 4), b"wrap");
/// assert_eq!(mirror.view(0, 2), b"ap");
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Mirror {
    mapping: Mapping,
    len: usize,
    huge_pages_asked: bool,
}

impl Mirror {
    /// Maps `len_bytes`, rounded up to whole pages (with huge pages, from 2 MiB on, to whole huge pages).
    ///
    /// Uses two memory maps of the process and twice the length in addresses.
    ///
    /// # Errors
    /// Zero bytes; or more than half of the memory that is available (or that the cgroup leaves), reported before anything is
    /// mapped; or too few maps, addresses, files or memory. After an error nothing remains mapped.
    pub fn new(len_bytes: usize, config: &MapConfig) -> Result<Mirror> {
        let huge = config.huge_pages && len_bytes >= sys::HUGE_PAGE;
        let unit = if huge {
            sys::HUGE_PAGE
        } else {
            sys::page_size()
        };
        let len = whole_pages(ON, len_bytes, unit, 2)?;
        let mapping = Mapping::mirrored(len, unit).map_err(|error| refused(ON, len, error))?;
        let advise = |part, advice| {
            mapping
                .advise(part, advice)
                .map_err(|error| refused(ON, len, error))
        };
        advise(0..2 * len, Advice::DontFork)?;
        if config.populate || huge {
            populate(ON, &mapping, 0..len)?;
        }
        if huge {
            // Works even if shmem_enabled is "never". If it does not work, small pages are fine.
            let _ = mapping.advise(0..len, Advice::Collapse);
        }
        if config.populate || huge {
            populate(ON, &mapping, len..2 * len)?;
        }
        Ok(Mirror {
            mapping,
            len,
            huge_pages_asked: config.huge_pages,
        })
    }

    /// Faults in the pages of these bytes, in both views, if that was not done at creation. Other threads may touch them
    /// meanwhile.
    ///
    /// ```
    /// use forebay::memory::{MapConfig, Mirror};
    /// let mirror = Mirror::new(1 << 20, &MapConfig { populate: false, ..MapConfig::default() })?;
    /// mirror.populate(0..1 << 16)?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not enough memory.
    ///
    /// # Panics
    /// If the range is not within [`len`](Mirror::len).
    pub fn populate(&self, bytes: Range<usize>) -> Result<()> {
        assert!(
            bytes.start <= bytes.end && bytes.end <= self.len,
            "populating {bytes:?} of a mirror of {}",
            self.len
        );
        let page = sys::page_size();
        let (start, end) = (bytes.start / page * page, bytes.end.next_multiple_of(page));
        [0, self.len]
            .into_iter()
            .filter(|_| start < end)
            .try_for_each(|view| populate(ON, &self.mapping, view + start..view + end))
    }

    /// Length in bytes: the requested size, rounded up. Never 0.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // a mirror is never empty
    pub fn len(&self) -> usize {
        self.len
    }

    /// The first byte of the first view. Valid for reads and writes of `2 * len()` bytes while the mirror lives.
    ///
    /// The compiler treats the two views as different memory. Between a write through one and an access through the other, code
    /// of one thread needs a point that the compiler cannot analyse, such as an empty `asm!` with this address as input.
    /// [`view`](Mirror::view) and [`view_mut`](Mirror::view_mut) contain one.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.start()
    }

    /// Which huge pages both views have now. Reads `/proc/self/smaps`, so it is not for a hot path.
    pub fn huge_pages(&self) -> HugePages {
        if !self.huge_pages_asked {
            return HugePages::NotAsked;
        }
        let first = self.mapping.huge_bytes(0..self.len);
        let second = self.mapping.huge_bytes(self.len..2 * self.len);
        HugePages::from_bytes(first.min(second))
    }

    /// `len` bytes starting at byte `at`, across the end if necessary.
    ///
    /// # Panics
    /// If `at >= self.len()` or `len > self.len()`.
    #[inline]
    pub fn view(&self, at: usize, len: usize) -> &[u8] {
        let start = self.place(at, len);
        // SAFETY: `place` checked that the bytes are in the two views. They are initialised (zeroed by the kernel), and the
        // shared borrow of the mirror excludes writers.
        unsafe { slice::from_raw_parts(start, len) }
    }

    /// `len` bytes starting at byte `at`, across the end if necessary, to write.
    ///
    /// # Panics
    /// If `at >= self.len()` or `len > self.len()`.
    #[inline]
    pub fn view_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        let start = self.place(at, len);
        // SAFETY: `place` checked that the bytes are in the two views and that none is there twice (len <= self.len()). The
        // exclusive borrow of the mirror makes them ours alone.
        unsafe { slice::from_raw_parts_mut(start, len) }
    }

    #[inline]
    fn place(&self, at: usize, len: usize) -> *mut u8 {
        assert!(
            at < self.len && len <= self.len,
            "{len} bytes at {at} of a mirror of {}",
            self.len
        );
        let base = self.base().as_ptr();
        view_barrier(base);
        base.wrapping_add(at)
    }
}
