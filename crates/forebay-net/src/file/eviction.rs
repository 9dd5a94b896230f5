//! Removes what was read of a very large file from the kernel's page cache, so that reading it does not displace the pages of other
//! files and programs.
//!
//! ```text
//!  regions │ removed │ kept: was cached │ being read │ already asked │ not asked yet │
//! ```
//! A region is removed when reading has passed it, and only if none of it was cached before. The kernel is asked for that one region
//! ahead, because it reads ahead itself. Where it does not answer (before Linux 6.5, or a file that belongs to another user and that we
//! may not write), everything stays in the cache.

use crate::sys;
use rustix::{
    fs::{Advice, fadvise},
    system::sysinfo,
};
use std::{fs::File, num::NonZeroU64, os::fd::AsFd};

/// Bytes of a region, more than the kernel reads ahead: up to 16 MiB has been seen, twice the setting of the disk.
const REGION_BYTES: NonZeroU64 = NonZeroU64::new(32 << 20).unwrap();

/// A file stays in the cache, for the next reader, if it is smaller than the memory of the machine divided by this.
const SHARE_OF_MEMORY: u64 = 4;

pub(super) struct Eviction {
    /// The region that is being read.
    region: u64,
    /// Whether some of it, and of the next region, was cached before.
    was_cached: [bool; 2],
}

impl Eviction {
    /// Of a file that will be read from `offset` on; `None`: it is small enough to stay in the cache.
    pub fn of(file: &File, len: u64, offset: u64) -> Option<Eviction> {
        let memory = sysinfo();
        let memory = (memory.totalram as u64).saturating_mul(memory.mem_unit.into());
        (len > memory / SHARE_OF_MEMORY).then(|| Eviction::begin(file, offset))
    }

    fn begin(file: &File, offset: u64) -> Eviction {
        let region = offset / REGION_BYTES;
        Eviction {
            region,
            was_cached: [is_cached(file, region), is_cached(file, region + 1)],
        }
    }

    /// Reading continues at this offset.
    pub fn move_to(&mut self, file: &File, offset: u64) {
        *self = Eviction::begin(file, offset);
    }

    /// The file was read up to this offset.
    pub fn read_to(&mut self, file: &File, offset: u64) {
        while offset / REGION_BYTES > self.region {
            self.remove(file);
            self.region += 1;
            self.was_cached = [self.was_cached[1], is_cached(file, self.region + 1)];
        }
    }

    /// The file was read to its end.
    pub fn finish(self, file: &File) {
        self.remove(file);
    }

    /// The kernel leaves pages that were not written to the disk yet, or that a program has mapped.
    fn remove(&self, file: &File) {
        if !self.was_cached[0] {
            let begin = self.region * REGION_BYTES.get();
            // Advice only.
            let _ = fadvise(file, begin, Some(REGION_BYTES), Advice::DontNeed);
        }
    }
}

/// Whether some of the region is in the cache, or may be.
fn is_cached(file: &File, region: u64) -> bool {
    let begin = region * REGION_BYTES.get();
    sys::cached_pages(file.as_fd(), begin, REGION_BYTES.get()).is_none_or(|pages| pages > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testing::folder::Folder;
    use std::{io::Read, os::unix::fs::FileExt};

    const REGIONS: u64 = 4;
    /// Pages of a region, where they are small.
    const REGION_PAGES: u64 = REGION_BYTES.get() / 4096;

    fn cached(file: &File, region: u64) -> Option<u64> {
        let begin = region * REGION_BYTES.get();
        sys::cached_pages(file.as_fd(), begin, REGION_BYTES.get())
    }

    #[test]
    fn only_pages_that_reading_brought_into_the_cache_leave_it() {
        let folder = Folder::new();
        let len = REGIONS * REGION_BYTES.get() - 12_345;
        let file = File::create_new(folder.path("large")).unwrap();
        // A hole: reading it fills the cache, and the disk has nothing to do.
        file.set_len(len).unwrap();
        let mut file = File::open(folder.path("large")).unwrap();
        let is_out = |_| {
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            (0..REGIONS).all(|region| cached(&file, region) == Some(0))
        };
        // A page that the kernel is using stays, so this is repeated.
        if !(0..1000).any(is_out) {
            // Not a fault of the machine: temporary files may be in memory.
            println!("skipped: needs a kernel with cachestat(2), and temporary files on a disk");
            return;
        }
        // Another reader uses a part of region 2.
        let middle = 2 * REGION_BYTES.get() + REGION_BYTES.get() / 2;
        file.read_exact_at(&mut [0; 4096], middle).unwrap();

        let mut eviction = Eviction::begin(&file, 0);
        let mut bytes = vec![0; 256 << 10];
        let mut offset = 0;
        loop {
            let read = file.read(&mut bytes).unwrap();
            if read == 0 {
                break;
            }
            offset += read as u64;
            eviction.read_to(&file, offset);
        }
        eviction.finish(&file);
        assert_eq!(offset, len);
        for region in [0, 1, 3] {
            let pages = cached(&file, region).unwrap();
            assert!(pages < REGION_PAGES / 8, "{pages} pages of region {region}");
        }
        assert!(cached(&file, 2) > Some(0), "what was cached stays");
    }
}
