//! The system calls of this crate: mapping memory, sleeping on a word, and reading how much memory is left.
//!
//! [`Mapping`] owns address space and unmaps it when dropped. All other code uses that type instead of `mmap`.
//!
//! ```text
//!  reserve (PROT_NONE, 2 × len, aligned)   ┌─────────────────────────────┐  one mapping
//!  first view  (MAP_FIXED, memfd at 0)     ┌──────────────┬ ─ ─ ─ ─ ─ ─ ─┐  two mappings
//!  second view (MAP_FIXED, memfd at 0)     ┌──────────────┬──────────────┐  two mappings, both of the same pages
//! ```
#![allow(unsafe_code)]

pub(crate) mod file;
#[cfg(not(any(loom, miri)))] // models fence on both sides
pub(crate) mod membarrier;
#[cfg(all(feature = "lanes", not(loom)))] // a model is one process
pub(crate) mod passing;
#[cfg(all(feature = "shared", not(loom)))]
pub(crate) mod sealed;
#[cfg(all(feature = "shared", not(loom)))]
pub(crate) mod shared;
pub(crate) mod stdio;

use std::{
    fs,
    io::{self, BufRead},
    mem::ManuallyDrop,
    ops::Range,
    os::fd::IntoRawFd,
    path::{Path, PathBuf},
    ptr::{self, NonNull},
    sync::atomic::AtomicU32,
    time::Duration,
};

use rustix::{
    fd::AsRawFd,
    fs::{MemfdFlags, SealFlags},
    thread::futex,
};

/// The bytes that one entry of the second page-table level maps on x86-64 and aarch64.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// The size of a page, read at run time: 4096 on x86-64, up to 65536 on aarch64.
pub(crate) fn page_size() -> usize {
    rustix::param::page_size()
}

/// The page size that suits `len` bytes of memory: large memory is aligned to huge pages.
pub(crate) fn page_for(len: usize) -> usize {
    match len < HUGE_PAGE {
        true => page_size(),
        false => HUGE_PAGE,
    }
}

/// The protection of memory that this process reads and writes.
pub(crate) const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// The processor on which this thread runs; the scheduler may move the thread at any time.
#[cfg(not(any(loom, miri)))]
pub(crate) fn current_cpu() -> u32 {
    rustix::thread::sched_getcpu() as u32
}

/// Closes `file` and reports errors of `close`, such as one of a delayed write.
pub(crate) fn close(file: fs::File) -> io::Result<()> {
    // SAFETY: the descriptor is owned and given up here, so it is closed once. On Linux it is free even after an error.
    let answer = unsafe { libc::close(file.into_raw_fd()) };
    match answer {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        },
    }
}

/// Requests for a part of a [`Mapping`]. None of them changes a byte.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Advice {
    /// Make every page present and writable now, and return an error if there is not enough memory.
    Populate,
    /// Map every page that is present now for reading: for read-only mappings.
    #[cfg_attr(any(loom, not(feature = "lanes")), allow(dead_code))]
    PopulateRead,
    /// Exclude it from children made by fork.
    DontFork,
    /// Use huge pages when a page is first touched.
    Huge,
    /// Collapse the pages into huge ones now.
    Collapse,
}

/// Address space that this value owns, readable and writable, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is plain memory without ties to a thread; `Mapping` itself never accesses its bytes.
unsafe impl Send for Mapping {}
// SAFETY: the methods with `&self` only read the two fields or make system calls on the range.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed private memory: `len` bytes (whole pages) aligned to `align` (a power of two, at least a page).
    pub(crate) fn anonymous(len: usize, align: usize) -> io::Result<Mapping> {
        Mapping::aligned(len, align, READ_WRITE)
    }

    /// `len` bytes (whole pages) of zeroed memory mapped twice, back to back: `2 * len` bytes, two mappings.
    pub(crate) fn mirrored(len: usize, align: usize) -> io::Result<Mapping> {
        let file =
            rustix::fs::memfd_create("forebay", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, len as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Mapping::mirrored_file(&file, 0, len, align)
    }

    /// `len` bytes of `file` from byte `from` on (whole pages, both) mapped twice, back to back, readable and writable.
    pub(crate) fn mirrored_file(
        file: &impl AsRawFd,
        from: usize,
        len: usize,
        align: usize,
    ) -> io::Result<Mapping> {
        let twice = len.checked_mul(2).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Mapping::aligned(twice, align, libc::PROT_NONE)?;
        for view in [0, len] {
            // The pointer stays inside the reservation, since view + len <= 2 * len.
            let at = mapping.start.as_ptr().wrapping_add(view);
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            // SAFETY: MAP_FIXED replaces only pages of the reservation, which `mapping` owns and which are not in use yet.
            unsafe { map(at, len, READ_WRITE, flags, file.as_raw_fd(), from) }?;
        }
        Ok(mapping)
    }

    /// The same range once more, to keep beside a shared owner: dropping it unmaps nothing.
    #[cfg_attr(any(loom, not(feature = "shared")), allow(dead_code))]
    pub(crate) fn alias(&self) -> ManuallyDrop<Mapping> {
        let (start, len) = (self.start, self.len);
        ManuallyDrop::new(Mapping { start, len })
    }

    /// The first `len` bytes of `file` (whole pages), shared with all processes that map them. From the size of a huge page on,
    /// they are aligned to one.
    #[cfg_attr(any(loom, not(feature = "shared")), allow(dead_code))]
    pub(crate) fn of_file(file: &impl AsRawFd, len: usize, protection: i32) -> io::Result<Mapping> {
        let mapping = Mapping::aligned(len, page_for(len), libc::PROT_NONE)?;
        let (start, flags) = (mapping.start.as_ptr(), libc::MAP_SHARED | libc::MAP_FIXED);
        // SAFETY: MAP_FIXED replaces only pages of the reservation, which `mapping` owns and which are not in use yet.
        unsafe { map(start, len, protection, flags, file.as_raw_fd(), 0) }?;
        Ok(mapping)
    }

    /// Maps more than needed, then unmaps the parts before and after the aligned range: one mapping remains.
    fn aligned(len: usize, align: usize, protection: i32) -> io::Result<Mapping> {
        let slack = align - page_size();
        let whole = len.checked_add(slack).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses the address of a fresh mapping, so it replaces no other mapping.
        let start = unsafe { map(ptr::null_mut(), whole, protection, flags, -1, 0) }?;
        let mut mapping = Mapping { start, len: whole };
        let before = mapping.start.as_ptr().align_offset(align).min(slack);
        mapping.trim(before, len)?;
        Ok(mapping)
    }

    fn trim(&mut self, before: usize, len: usize) -> io::Result<()> {
        let start = self.start.as_ptr();
        let behind = self.len - before - len;
        // SAFETY: the end of our own fresh mapping, which is not in use yet.
        unsafe { unmap(start.wrapping_add(before + len), behind) }?;
        self.len -= behind;
        // SAFETY: the beginning of our own fresh mapping, which is not in use yet.
        unsafe { unmap(start, before) }?;
        // SAFETY: `before` is less than the length, so the sum stays inside the mapping.
        self.start = unsafe { self.start.add(before) };
        self.len -= before;
        Ok(())
    }

    /// Address of the first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes of address space: twice the memory in a mirrored mapping.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Advises the kernel about `part` (bytes from the start, on page boundaries).
    pub(crate) fn advise(&self, part: Range<usize>, advice: Advice) -> io::Result<()> {
        assert!(part.start <= part.end && part.end <= self.len);
        if cfg!(miri) {
            return Ok(()); // Miri has no `madvise`, and advice changes no byte
        }
        /// From linux/include/uapi/asm-generic/mman-common.h; since Linux 6.1, not yet in libc.
        const MADV_COLLAPSE: i32 = 25;
        let advice = match advice {
            Advice::Populate => libc::MADV_POPULATE_WRITE,
            Advice::PopulateRead => libc::MADV_POPULATE_READ,
            Advice::DontFork => libc::MADV_DONTFORK,
            Advice::Huge => libc::MADV_HUGEPAGE,
            Advice::Collapse => MADV_COLLAPSE,
        };
        let at = self.start.as_ptr().wrapping_add(part.start);
        // SAFETY: the range is ours (asserted above), and no advice changes the contents of its bytes.
        let answer = unsafe { libc::madvise(at.cast(), part.end - part.start, advice) };
        match answer {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// How many bytes of `part` the kernel maps by huge pages now, according to `/proc/self/smaps`.
    ///
    /// The kernel merges neighbouring mappings of one kind. The result is then a lower bound: the huge pages of the merged
    /// mapping less those that may belong to the neighbours.
    pub(crate) fn huge_bytes(&self, part: Range<usize>) -> usize {
        let start = self.start.as_ptr() as usize;
        let (first, last) = (start + part.start, start + part.end);
        let Ok(smaps) = fs::File::open("/proc/self/smaps") else {
            return 0;
        };
        let (mut overlap, mut foreign, mut huge) = (0, 0, 0);
        // The kernel walks each mapping before it prints it, in the order of addresses; a small buffer allows stopping early.
        let smaps = io::BufReader::with_capacity(4096, smaps);
        for line in smaps.lines().map_while(Result::ok) {
            if let Some((from, to)) = address_range(&line) {
                if from >= last {
                    break;
                }
                overlap = to.min(last).saturating_sub(from.max(first));
                foreign = (to - from) - overlap;
            } else if overlap > 0
                && ["AnonHugePages:", "ShmemPmdMapped:"]
                    .iter()
                    .any(|f| line.starts_with(f))
            {
                huge += (number(&line) << 10).saturating_sub(foreign);
            }
        }
        huge
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: we own the range, and pointers into it do not outlive this value.
        let answer = unsafe { unmap(self.start.as_ptr(), self.len) };
        debug_assert!(answer.is_ok(), "{answer:?}");
    }
}

/// Maps `len` bytes, and returns the address of the first one.
///
/// By libc, like `unmap`, instead of rustix's own system calls: sanitizers intercept libc's functions.
///
/// # Safety
/// With `MAP_FIXED`, the range consists of whole pages of one of our mappings that are not in use.
unsafe fn map(
    at: *mut u8,
    len: usize,
    protection: i32,
    flags: i32,
    file: i32,
    from: usize,
) -> io::Result<NonNull<u8>> {
    // SAFETY: the caller's promise.
    let start = unsafe { libc::mmap(at.cast(), len, protection, flags, file, from as i64) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory.into())
}

/// Unmaps addresses; does nothing if `len` is 0.
///
/// # Safety
/// The range consists of whole pages of one of our mappings that are no longer in use.
unsafe fn unmap(at: *mut u8, len: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    if len > 0 && unsafe { libc::munmap(at.cast(), len) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Starts writing `len` bytes of a file from `from` on to the device, as far as they are only in the page cache. With `wait`,
/// returns when they are written. The file's length and other metadata still need a sync.
pub(crate) fn write_back(file: &fs::File, from: u64, len: u64, wait: bool) -> io::Result<()> {
    let start = libc::SYNC_FILE_RANGE_WRITE;
    let flags = match wait {
        true => libc::SYNC_FILE_RANGE_WAIT_BEFORE | start | libc::SYNC_FILE_RANGE_WAIT_AFTER,
        false => start,
    };
    let (from, len) = (from.cast_signed(), len.cast_signed());
    // SAFETY: an open descriptor and numbers; no memory is passed.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), from, len, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Parses the header of a mapping in smaps: `7f0000000000-7f0000200000 rw-s …`.
fn address_range(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split_whitespace().next()?.split_once('-')?;
    let hexadecimal = |text| usize::from_str_radix(text, 16).ok();
    Some((hexadecimal(from)?, hexadecimal(to)?))
}

/// The first number in `Name:   123 kB`, or 0 if there is none.
fn number(line: &str) -> usize {
    let word = line.split_whitespace().find_map(|word| word.parse().ok());
    word.unwrap_or(0)
}

/// Bytes of available memory: the machine's, or what the cgroup's limits leave if that is less.
///
/// `None` if the kernel does not report it.
pub(crate) fn available_memory() -> Option<usize> {
    if cfg!(miri) {
        return None; // it warns of every file in /proc
    }
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let machine = number(line) << 10;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let rest = groups
        .lines()
        .filter_map(|line| cgroup_rest(line, Path::new("/sys/fs/cgroup")));
    Some(rest.fold(machine, usize::min))
}

/// Memory that one line of `/proc/self/cgroup` leaves, under the limits of its group and of all groups above it.
fn cgroup_rest(line: &str, root: &Path) -> Option<usize> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?);
    // Version 2 has one hierarchy without a name; version 1 has one for memory, in a separate folder.
    let (root, limit, usage) = match controllers {
        "" => (root.to_path_buf(), "memory.max", "memory.current"),
        names if names.split(',').any(|name| name == "memory") => (
            root.join("memory"),
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
        ),
        _ => return None,
    };
    // In a container the path may be the host's and not exist here. Then only the root of the mount counts.
    let group: PathBuf = root.join(group.trim_start_matches('/'));
    group
        .ancestors()
        .take_while(|folder| folder.starts_with(&root))
        .filter_map(|folder| {
            let limit: usize = read_word(&folder.join(limit))?;
            let usage: usize = read_word(&folder.join(usage))?;
            let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
            // Pages of files are charged, too, but the kernel reclaims them when memory is needed.
            let lists = stat.lines().filter(|line| {
                line.starts_with("inactive_file ") || line.starts_with("active_file ")
            });
            let files: usize = lists.map(number).sum();
            Some(limit.saturating_sub(usage.saturating_sub(files)))
        })
        .min()
}

/// The number in a file; `None` for "max" or if there is no such file.
fn read_word(path: &Path) -> Option<usize> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg_attr(loom, allow(dead_code))] // models have their own sleep
fn futex_flags(between_processes: bool) -> futex::Flags {
    match between_processes {
        true => futex::Flags::empty(),
        false => futex::Flags::PRIVATE,
    }
}

/// Sleeps while `word` holds `expected`, until [`futex_wake`] or the time limit; false only after the time limit.
/// `between_processes`: whether threads of other processes may wake it.
///
/// It may also return early without a reason, so the caller must check again.
#[cfg_attr(loom, allow(dead_code))] // as above
pub(crate) fn futex_wait(
    word: &AtomicU32,
    expected: u32,
    limit: Option<Duration>,
    between_processes: bool,
) -> bool {
    // A limit beyond the kernel's range means no limit.
    let limit = limit.and_then(|limit| rustix::time::Timespec::try_from(limit).ok());
    let flags = futex_flags(between_processes);
    futex::wait(word, flags, expected, limit.as_ref()) != Err(rustix::io::Errno::TIMEDOUT)
}

/// Wakes one sleeper of `word`, which sleeps with the same `between_processes`.
#[cfg_attr(loom, allow(dead_code))] // as above
pub(crate) fn futex_wake(word: &AtomicU32, between_processes: bool) {
    // It fails only for a bad address, which a reference never is.
    let _ = futex::wake(word, futex_flags(between_processes), 1);
}

/// Sleepers that one call wakes. Waking thousands takes tens of milliseconds, and a hostile reader can have that many threads.
#[cfg(all(feature = "shared", not(loom)))]
const MAX_WOKEN: u32 = 1024;

/// Wakes the sleepers of `word` in all processes, up to 1024 of them.
#[cfg(all(feature = "shared", not(loom)))]
pub(crate) fn futex_wake_all(word: &AtomicU32) {
    let _ = futex::wake(word, futex_flags(true), MAX_WOKEN); // as above
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "reads /proc")]
    fn the_machine_says_how_much_memory_is_left() {
        assert!(available_memory().is_some_and(|bytes| bytes > HUGE_PAGE));
    }

    #[test]
    #[cfg_attr(miri, ignore = "real files")]
    fn a_cgroup_and_those_above_it_limit_what_is_left() {
        let root = forebay_testing::folder::Folder::new();
        let inner = root.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        fs::write(inner.join("memory.current"), "10\n").unwrap();
        fs::write(root.join("a/memory.max"), "1000\n").unwrap();
        fs::write(root.join("a/memory.current"), "700\n").unwrap();
        fs::write(
            root.join("a/memory.stat"),
            "anon 5\ninactive_file 100\nactive_file 50\n",
        )
        .unwrap();
        assert_eq!(cgroup_rest("0::/a/b", &root), Some(450));
        assert_eq!(cgroup_rest("0::/elsewhere", &root), None);
        assert_eq!(cgroup_rest("3:cpuset:/a", &root), None);
        fs::create_dir_all(root.join("memory/c")).unwrap();
        fs::write(root.join("memory/c/memory.limit_in_bytes"), "90\n").unwrap();
        fs::write(root.join("memory/c/memory.usage_in_bytes"), "100\n").unwrap();
        assert_eq!(cgroup_rest("4:memory:/c", &root), Some(0));
    }

    #[test]
    fn an_aligned_mapping_gives_its_slack_back() {
        let mapping = Mapping::anonymous(HUGE_PAGE, HUGE_PAGE).unwrap();
        assert_eq!(mapping.start().as_ptr() as usize % HUGE_PAGE, 0);
        assert_eq!(mapping.len(), HUGE_PAGE);
    }
}
