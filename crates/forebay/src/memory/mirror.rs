//! One memory, mapped twice, back to back: what wraps around the end is still in one piece.
//!
//! It owns a `sys::Mapping` of two views and hands out bytes of it; it imports `sys`. Read `ring::slots` next.
//!
//! ```text
//!   base                     base + len                base + 2·len
//!     │  first view              │  second view             │
//!     │ 0 1 2 3 4 5 … len-1      │ 0 1 2 3 4 5 … len-1      │     byte i of one is byte i of the other
//!                        ╰── a view from here ──╯                  up to len bytes from any place, one slice
//! ```
//!
//! **Two views.** The compiler may take `base[i]` and `base[i + len]` for different bytes; it did, and returned a stale
//! value (`tests/two_views.rs` shows it). So we say: a store through one view is a write to the other by somebody
//! else, which shows at the next point that the compiler cannot see through. `settle_views` is such a point.
#![allow(unsafe_code)]

use super::{HugePages, MapConfig, populate, refused, whole_pages};
use crate::{
    Result,
    sys::{self, Advice, Mapping},
};
use std::{ops::Range, ptr::NonNull, slice};

const ON: &str = "mirrored memory";

/// The point at which writes through one view of the memory at `base` show in the other. No instruction.
///
/// The assembly gets the address and may touch memory for all the compiler knows; so no value read before it is used
/// for a read behind it, and no write passes it.
#[inline(always)]
pub(crate) fn settle_views(base: *const u8) {
    #[cfg(not(miri))]
    // SAFETY: a comment is no instruction: no register is changed, no stack used.
    unsafe {
        std::arch::asm!("/* {0} */", in(reg) base, options(nostack, preserves_flags));
    }
    #[cfg(miri)]
    let _ = base; // one view there: see `ring::slots`
}

/// Memory seen twice. [`len`](Mirror::len) bytes, zeroed, private to this process and not passed on by fork.
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
    /// Costs two maps of the process and twice the length in addresses.
    ///
    /// # Errors
    /// Zero bytes; more than half of the memory that is available (or that the cgroup leaves), before anything is
    /// touched; no maps, addresses, files or memory left. Nothing stays behind.
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
            // Works where shmem_enabled is "never", too; where it does not, small pages serve.
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

    /// Makes the pages of these bytes present in both views, where that was left for later. Whoever touches them meanwhile
    /// makes them present as well.
    ///
    /// ```
    /// use forebay::memory::{MapConfig, Mirror};
    /// let mirror = Mirror::new(1 << 20, &MapConfig { populate: false, ..MapConfig::default() })?;
    /// mirror.populate(0..1 << 16)?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// No memory is left.
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

    /// Bytes of memory: what was asked for, rounded up. Never 0.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // a mirror is never empty
    pub fn len(&self) -> usize {
        self.len
    }

    /// The first byte of the first view. Valid for reads and writes of `2 * len()` bytes while the mirror lives.
    ///
    /// The compiler takes the two views for different memory: between a write through one and an access through the
    /// other, code of one thread needs a point that the compiler cannot see through, such as an empty `asm!` that is
    /// given this address. [`view`](Mirror::view) and [`view_mut`](Mirror::view_mut) have it.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.start()
    }

    /// Which huge pages both views have now. Reads `/proc/self/smaps`: not for a hot path.
    pub fn huge_pages(&self) -> HugePages {
        if !self.huge_pages_asked {
            return HugePages::NotAsked;
        }
        let first = self.mapping.huge_bytes(0..self.len);
        let second = self.mapping.huge_bytes(self.len..2 * self.len);
        HugePages::from_bytes(first.min(second))
    }

    /// `len` bytes from byte `at` on, across the end where need be.
    ///
    /// # Panics
    /// If `at >= self.len()` or `len > self.len()`.
    #[inline]
    pub fn view(&self, at: usize, len: usize) -> &[u8] {
        let start = self.place(at, len);
        // SAFETY: `place` checked that the bytes lie in the two views; they are initialised (zeroed by the kernel), and
        // the shared borrow of the mirror keeps writers out.
        unsafe { slice::from_raw_parts(start, len) }
    }

    /// `len` bytes from byte `at` on, across the end where need be, to write.
    ///
    /// # Panics
    /// If `at >= self.len()` or `len > self.len()`.
    #[inline]
    pub fn view_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        let start = self.place(at, len);
        // SAFETY: `place` checked that the bytes lie in the two views and none is there twice (len <= self.len()); the
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
        settle_views(base);
        base.wrapping_add(at)
    }
}
