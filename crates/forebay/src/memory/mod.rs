//! Memory mappings: a mirror for rings, and a region for buffers and pools.
//!
//! Sizes are in bytes, rounded up to whole pages; each mapping reports its actual size. Dropping a mirror or a region unmaps it.
//!
//! ```text
//!  Mirror:  │ a b c d … y z │ a b c d … y z │   one memory, two views: any len bytes from any position are contiguous
//!  Region:  │ 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 │   zeroed private bytes, aligned to a page or to 2 MiB
//! ```
//!
//! # Misuse
//!
//! A forgotten value (`mem::forget`) only leaks its mapping. In a forked child, a [`Region`] is a private copy. A [`Mirror`] is not
//! mapped in the child. A child that touches the bytes of a mirror gets `SIGSEGV`. A child that drops a mirror may unmap other memory,
//! which it has mapped at the same address since. No call here is async-signal-safe.

mod cold_path;
mod copy;
mod fill;
mod lines;
mod mirror;
#[cfg(all(feature = "shared", not(loom)))]
mod parts;
mod past_caches;
mod region;
#[cfg(feature = "shared")]
pub(crate) mod words;

#[cfg(all(test, not(miri)))]
mod tests;

pub(crate) use cold_path::cold_path;
pub use copy::copy_lines;
pub(crate) use copy::{copy_in, copy_out};
#[cfg(all(feature = "shared", not(loom)))]
pub(crate) use fill::halves_of;
pub(crate) use fill::{Filled, Reservation, Vacant, halves};
pub(crate) use lines::{LINE, can_evict, evict, fetch_to_read, fetch_to_write, ticks};
pub use mirror::Mirror;
pub(crate) use mirror::view_barrier;
#[cfg(all(feature = "shared", not(loom)))]
pub(crate) use parts::{Part, mapped_parts};
pub use region::Region;

use crate::{Error, Result, sys};

/// Bytes of available memory: what the machine has, or what the limits of its cgroup leave if that is less.
///
/// `None` if the kernel does not report it.
///
/// ```
/// if let Some(bytes) = forebay::memory::available() {
///     println!("{} MiB are available", bytes >> 20);
/// }
/// ```
pub fn available() -> Option<usize> {
    sys::available_memory()
}

/// Settings of a mapping.
///
/// ```
/// use forebay::memory::{MapConfig, Region};
/// let config = MapConfig { huge_pages: true, ..MapConfig::default() };
/// let region = Region::new(4 << 20, &config)?;
/// println!("{:?}", region.huge_pages()); // Got { bytes: 4194304 }, or Refused
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapConfig {
    /// Fault every page in at once (the default), so that no thread pays for it later.
    pub populate: bool,
    /// Ask for pages of 2 MiB if the length is that large; a mirror is then rounded up to whole ones.
    pub huge_pages: bool,
}

impl Default for MapConfig {
    fn default() -> Self {
        MapConfig {
            populate: true,
            huge_pages: false,
        }
    }
}

/// Which huge pages a mapping got, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// They were not requested.
    NotAsked,
    /// They were requested, but the kernel maps none.
    Refused,
    /// This many bytes of the memory are mapped by huge pages; in a mirror, in both views.
    Got {
        /// 1 to the length, a multiple of 2 MiB unless the kernel joined maps.
        bytes: usize,
    },
}

impl HugePages {
    fn from_bytes(bytes: usize) -> HugePages {
        match bytes {
            0 => HugePages::Refused,
            bytes => HugePages::Got { bytes },
        }
    }
}

/// Smaller sizes are plausible on any machine, and checking them would cost more than mapping.
const NEVER_ABSURD: usize = 1 << 20;

/// Checks the total of `len` bytes that are mapped in parts, or later.
pub(crate) fn check_all(on: &str, len: usize) -> Result<()> {
    whole_pages(on, len, sys::page_size(), 1).map(drop)
}

/// Checks a size before anything is mapped and rounds it up to whole pages; `views` is the number of mappings of it.
fn whole_pages(on: &str, len: usize, page: usize, views: usize) -> Result<usize> {
    let rounded = round_up(on, len, page, views)?;
    if rounded > NEVER_ABSURD
        && let Some(available) = sys::available_memory()
        && rounded > available / 2
    {
        return Err(Error::invalid(on, mapping(len)).advise(format!(
            "Ask for at most half of what is available now, {} of {available} bytes, or raise the cgroup's limit",
            available / 2
        )));
    }
    Ok(rounded)
}

fn mapping(len: usize) -> String {
    format!("mapping {len} bytes")
}

/// Rounds a size up to whole pages, if there are addresses for that. Does not check whether there is memory.
fn round_up(on: &str, len: usize, page: usize, views: usize) -> Result<usize> {
    let tried = || mapping(len);
    if len == 0 {
        return Err(Error::invalid(on, tried()).advise("Ask for at least one byte"));
    }
    len.checked_next_multiple_of(page)
        .filter(|rounded| {
            rounded
                .checked_mul(views)
                .is_some_and(|all| all <= isize::MAX as usize)
        })
        .ok_or_else(|| {
            Error::invalid(on, tried()).advise("Ask for less: no address space is that large")
        })
}

/// Faults in `part` of a mapping. Kernels before 5.14 cannot do it on request: there it does nothing.
pub(crate) fn populate(
    on: &str,
    mapping: &sys::Mapping,
    part: std::ops::Range<usize>,
) -> Result<()> {
    populate_by(on, mapping, part, sys::Advice::Populate)
}

/// Like [`populate`], by [`Populate`](sys::Advice::Populate), or by [`PopulateRead`](sys::Advice::PopulateRead) if the
/// mapping will only be read.
pub(crate) fn populate_by(
    on: &str,
    mapping: &sys::Mapping,
    part: std::ops::Range<usize>,
    how: sys::Advice,
) -> Result<()> {
    match mapping.advise(part.clone(), how) {
        // An old kernel faults the pages in when they are touched: later, but correctly.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        answer => answer.map_err(|error| {
            Error::new(on, format!("populating {} bytes", part.len()))
                .because(error)
                .advise("Ask for less, free memory, or raise the cgroup's limit")
        }),
    }
}

/// The error of a mapping that the kernel refused.
pub(crate) fn refused(on: &str, len: usize, error: std::io::Error) -> Error {
    let advice = match error.raw_os_error() {
        Some(libc::ENOMEM) => {
            "The process has no maps or address space left: drop some, or raise vm.max_map_count or `ulimit -v`"
        }
        Some(libc::EMFILE | libc::ENFILE) => {
            "Too many files are open: close some, or raise `ulimit -n`"
        }
        Some(libc::EFBIG) => {
            "The file size limit also applies to this memory: ask for less, or raise `ulimit -f`"
        }
        _ => "Check `ulimit -a` and the limits of the cgroup",
    };
    Error::new(on, format!("mapping {len} bytes"))
        .because(error)
        .advise(advice)
}
