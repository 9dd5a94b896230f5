//! Zeroed private memory for buffers and pools: whole pages, aligned to a page, or to 2 MiB from there on.
//!
//! It owns a `sys::Mapping` and lends its bytes; it imports `sys`. Read `store` next, whose buffers are regions.
#![allow(unsafe_code)]

use super::{HugePages, MapConfig, populate, refused, round_up, whole_pages};
use crate::{
    Result,
    sys::{self, Advice, Mapping},
};
use std::{
    ops::{Deref, DerefMut},
    ptr::NonNull,
    slice,
};

const ON: &str = "memory region";

/// Bytes of our own, outside the heap; given back when dropped.
///
/// ```
/// use forebay::memory::{MapConfig, Region};
/// let mut region = Region::new(10_000, &MapConfig::default())?;
/// assert_eq!(region.len() % 4096, 0); // whole pages
/// region[9_999] = 1;
/// assert_eq!(region.iter().map(|&byte| u32::from(byte)).sum::<u32>(), 1);
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Region {
    mapping: Mapping,
    huge_pages_asked: bool,
}

impl Region {
    /// Maps `len_bytes`, rounded up to whole pages: aligned to 2 MiB if that long, else to a page.
    ///
    /// # Errors
    /// Zero bytes; more than half of the memory that is available (or that the cgroup leaves), before anything is
    /// touched; no maps, addresses or memory left. Nothing stays behind.
    pub fn new(len_bytes: usize, config: &MapConfig) -> Result<Region> {
        whole_pages(ON, len_bytes, sys::page_size(), 1)?;
        Region::part(len_bytes, config)
    }

    /// One of several that were checked together ([`check_all`](super::check_all)): asking how much memory there is
    /// reads a dozen files.
    pub(crate) fn part(len_bytes: usize, config: &MapConfig) -> Result<Region> {
        let len = round_up(ON, len_bytes, sys::page_size(), 1)?;
        let align = if len >= sys::HUGE_PAGE {
            sys::HUGE_PAGE
        } else {
            sys::page_size()
        };
        let mapping = Mapping::anonymous(len, align).map_err(|error| refused(ON, len, error))?;
        if config.huge_pages {
            // A kernel without huge pages refuses; small ones serve, and `huge_pages` tells.
            let _ = mapping.advise(0..len, Advice::Huge);
        }
        if config.populate {
            populate(ON, &mapping, 0..len)?;
        }
        Ok(Region {
            mapping,
            huge_pages_asked: config.huge_pages,
        })
    }

    /// Makes its first `len` bytes present now, instead of when they are touched: at most as much as one huge page.
    pub(crate) fn populate_beginning(&self, len: usize) -> Result<()> {
        let len = len.next_multiple_of(sys::page_size());
        let len = len.min(sys::HUGE_PAGE).min(self.mapping.len());
        populate(ON, &self.mapping, 0..len)
    }

    /// The first byte, page-aligned. Valid for reads and writes of `len()` bytes while the region lives, beside which
    /// nobody may borrow the bytes through the region.
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.start()
    }

    /// Which huge pages it has now; without `populate` they come as it is touched.
    /// Reads `/proc/self/smaps`: not for a hot path.
    pub fn huge_pages(&self) -> HugePages {
        if !self.huge_pages_asked {
            return HugePages::NotAsked;
        }
        HugePages::from_bytes(self.mapping.huge_bytes(0..self.mapping.len()))
    }
}

impl Deref for Region {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is ours, as long as it says, initialised (zeroed by the kernel), and borrowed with us.
        unsafe { slice::from_raw_parts(self.mapping.start().as_ptr(), self.mapping.len()) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the exclusive borrow makes the bytes ours alone.
        unsafe { slice::from_raw_parts_mut(self.mapping.start().as_ptr(), self.mapping.len()) }
    }
}
