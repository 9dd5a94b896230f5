//! Memory that other processes can map for reading, divided into parts of equal length.
//!
//! ```text
//!  Parts   │ part 0 │ part 1 │ part 2 │ …     one memory, sealed: nothing else can ever write it (`sys::sealed`)
//! ```
//! Each part is handed out once. Its bytes are then used like those of a private mapping: readers have mapped the memory elsewhere,
//! which is other memory to the compiler (docs/decisions/38).
#![allow(unsafe_code)]

use super::{HugePages, check_all, populate, refused};
use crate::{
    Result,
    sys::{self, Advice, Mapping, sealed},
};
use std::{os::fd::OwnedFd, ptr::NonNull, sync::Arc};

const ON: &str = "shared buffers";

/// Makes `count` parts of at least `bytes` each, and a descriptor of their memory. All of it is allocated now.
///
/// # Errors
/// More than half of the available memory, or not enough descriptors, mappings or memory.
pub(crate) fn mapped_parts(bytes: usize, count: usize) -> Result<(OwnedFd, Vec<Part>)> {
    let each = bytes.checked_next_multiple_of(sys::page_size());
    let all = each.and_then(|each| each.checked_mul(count));
    let (each, all) = (each.unwrap_or(usize::MAX), all.unwrap_or(usize::MAX));
    check_all(ON, all)?;
    let failed = |error| refused(ON, all, error);
    let (file, mapping) = sealed::make("forebay-buffers", all).map_err(failed)?;
    mapping.advise(0..all, Advice::DontFork).map_err(failed)?;
    populate(ON, &mapping, 0..all)?; // the pages exist; now this process has them mapped
    let mapping = Arc::new(mapping);
    let part = |number| Part {
        mapping: mapping.clone(),
        each,
        number,
    };
    Ok((file, (0..count).map(part).collect()))
}

/// Bytes that only the owner of this value writes.
#[derive(Debug)]
pub(crate) struct Part {
    mapping: Arc<Mapping>,
    each: usize,
    number: usize,
}

impl Part {
    /// Its first byte, page-aligned. Valid for reads and writes of `len()` bytes while the part lives.
    pub fn base(&self) -> NonNull<u8> {
        // SAFETY: `number` is below the number of parts, and the mapping has all parts.
        unsafe { self.mapping.start().add(self.number * self.each) }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.each
    }

    /// Its number, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Which huge pages it has now.
    pub fn huge_pages(&self) -> HugePages {
        let start = self.number * self.each;
        HugePages::from_bytes(self.mapping.huge_bytes(start..start + self.each))
    }
}
