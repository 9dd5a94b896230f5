//! Zeroed private memory for buffers and pools: whole pages, aligned to a page, or to 2 MiB if it is that long.
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

/// Bytes outside the heap; unmapped when dropped.
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
    /// Maps `len_bytes`, rounded up to whole pages: aligned to 2 MiB if it is that long, otherwise to a page.
    ///
    /// # Errors
    /// Zero bytes; or more than half of the memory that is available (or that the cgroup leaves), reported before anything is
    /// mapped; or too few maps, addresses or memory. After an error nothing remains mapped.
    pub fn new(len_bytes: usize, config: &MapConfig) -> Result<Region> {
        whole_pages(ON, len_bytes, sys::page_size(), 1)?;
        Region::part(len_bytes, config)
    }

    /// One of several regions that were checked together ([`check_all`](super::check_all)): determining the available memory
    /// reads a dozen files.
    pub(crate) fn part(len_bytes: usize, config: &MapConfig) -> Result<Region> {
        let len = round_up(ON, len_bytes, sys::page_size(), 1)?;
        let mapping =
            Mapping::anonymous(len, sys::page_for(len)).map_err(|error| refused(ON, len, error))?;
        if config.huge_pages {
            // A kernel without huge pages refuses. Small pages are fine, and `huge_pages` reports it.
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

    /// Faults in its first `len` bytes now, instead of when they are touched: at most one huge page.
    pub(crate) fn populate_beginning(&self, len: usize) -> Result<()> {
        let len = len.next_multiple_of(sys::page_size());
        let len = len.min(sys::HUGE_PAGE).min(self.mapping.len());
        populate(ON, &self.mapping, 0..len)
    }

    /// The first byte, page-aligned. Valid for reads and writes of `len()` bytes while the region lives. During
    /// such an access the bytes must not be borrowed through the region.
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.start()
    }

    /// Which huge pages it has now; without `populate` they appear as the memory is touched.
    /// Reads `/proc/self/smaps`, so it is not for a hot path.
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
        // SAFETY: the mapping is ours, has this length, is initialised (zeroed by the kernel), and is borrowed with us.
        unsafe { slice::from_raw_parts(self.mapping.start().as_ptr(), self.mapping.len()) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the exclusive borrow makes the bytes ours alone.
        unsafe { slice::from_raw_parts_mut(self.mapping.start().as_ptr(), self.mapping.len()) }
    }
}
