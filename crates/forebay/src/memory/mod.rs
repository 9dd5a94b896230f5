//! Memory that knows what it is: a mirror for rings, a region for buffers and pools; and a queue of bytes for one thread.
//!
//! The first two are mapped here, through `sys` only, and given back when dropped. Sizes are bytes, rounded up to whole pages
//! and reported. What the kernel gave is asked of the kernel, never assumed. Read [`Mirror`] first, then
//! `ring::spsc`, which lives on it.
//!
//! ```text
//!  Mirror:  │ a b c d … y z │ a b c d … y z │   one memory, two views: any len bytes from any place lie in one piece
//!  Region:  │ 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 │   zeroed private bytes, aligned to a page or to 2 MiB
//! ```
//!
//! # Misuse
//!
//! A forgotten value (`mem::forget`) leaks its mapping, nothing else. In a forked child a [`Region`] is a private copy; a
//! [`Mirror`] and a [`Fifo`] are not mapped there, so the child gets `SIGSEGV` where it touches their bytes, and must not drop
//! them: it might unmap what it mapped at that address since. No call here is async-signal-safe.

mod copy;
mod fifo;
mod fill;
mod lines;
mod mirror;
mod region;
mod seldom;

#[cfg(all(test, not(miri)))]
mod tests;

pub(crate) use copy::{copy_in, copy_out};
pub use fifo::Fifo;
pub(crate) use fill::{Filled, Reservation, Vacant, halves};
pub(crate) use lines::{LINE, can_evict, evict, fetch_to_read, fetch_to_write, ticks};
pub use mirror::Mirror;
pub(crate) use mirror::settle_views;
pub use region::Region;
pub(crate) use seldom::seldom;

use crate::{Error, Result, sys};

/// What to ask of the kernel for a mapping.
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
    /// Make every page present at once (the default), so that no first touch stops a thread later.
    pub populate: bool,
    /// Ask for pages of 2 MiB where the length reaches that; a mirror is then rounded up to whole ones.
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
    /// They were not asked for.
    NotAsked,
    /// They were asked for, and the kernel maps none.
    Refused,
    /// So many bytes of the memory are mapped by huge pages; in a mirror, in both views.
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

/// Below this a size is nowhere absurd, and asking would cost more than mapping.
const NEVER_ABSURD: usize = 1 << 20;

/// Checks that all of `len` bytes may be asked for, where they are mapped in parts or only later.
pub(crate) fn check_all(on: &str, len: usize) -> Result<()> {
    whole_pages(on, len, sys::page_size(), 1).map(drop)
}

/// Bytes of memory that are available now: the machine's, or what the cgroup leaves if that is less. `None` where the kernel does
/// not say.
pub(crate) fn available() -> Option<usize> {
    sys::available_memory()
}

/// Checks a size before anything is touched and rounds it up to whole pages; `views` is how often it is mapped.
fn whole_pages(on: &str, len: usize, page: usize, views: usize) -> Result<usize> {
    let rounded = round_up(on, len, page, views)?;
    if rounded > NEVER_ABSURD
        && let Some(available) = sys::available_memory()
        && rounded > available / 2
    {
        return Err(Error::new(on, mapping(len)).advise(format!(
            "Ask for at most half of what is available now, {} of {available} bytes, or raise the cgroup's limit",
            available / 2
        )));
    }
    Ok(rounded)
}

fn mapping(len: usize) -> String {
    format!("mapping {len} bytes")
}

/// A size in whole pages, if there are addresses for that; whether there is memory is not asked.
fn round_up(on: &str, len: usize, page: usize, views: usize) -> Result<usize> {
    let tried = || mapping(len);
    if len == 0 {
        return Err(Error::new(on, tried()).advise("Ask for at least one byte"));
    }
    len.checked_next_multiple_of(page)
        .filter(|rounded| {
            rounded
                .checked_mul(views)
                .is_some_and(|all| all <= isize::MAX as usize)
        })
        .ok_or_else(|| {
            Error::new(on, tried()).advise("Ask for less: no address space is that large")
        })
}

/// Makes `part` of a mapping present, also on kernels before 5.14, which cannot do it on request.
pub(crate) fn populate(
    on: &str,
    mapping: &sys::Mapping,
    part: std::ops::Range<usize>,
) -> Result<()> {
    populate_by(on, mapping, part, sys::Advice::Populate)
}

/// As [`populate`], by [`Populate`](sys::Advice::Populate), or by [`PopulateRead`](sys::Advice::PopulateRead) where the
/// mapping is to be read only.
pub(crate) fn populate_by(
    on: &str,
    mapping: &sys::Mapping,
    part: std::ops::Range<usize>,
    how: sys::Advice,
) -> Result<()> {
    match mapping.advise(part.clone(), how) {
        // An old kernel populates when the pages are touched: later, but not wrong.
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
            "The file size limit holds for this memory, too: ask for less, or raise `ulimit -f`"
        }
        _ => "Check `ulimit -a` and the limits of the cgroup",
    };
    Error::new(on, format!("mapping {len} bytes"))
        .because(error)
        .advise(advice)
}
