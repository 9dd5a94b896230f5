//! File operations for the store that the standard library lacks.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{
        AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, StatxFlags, fallocate, flock,
        fstatfs, open, statfs, statx,
    },
    net::SendFlags,
};
use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd},
    path::Path,
    time::Duration,
};

/// Whether the file system reports that it bypasses the page cache for writes in steps of `block`
/// (`STATX_DIOALIGN`, Linux 6.1). tmpfs, for example, accepts `O_DIRECT` but does not bypass the cache.
pub(crate) fn writes_direct(file: &File, block: usize) -> bool {
    let what = StatxFlags::DIOALIGN;
    let fits = |align: u32| align > 0 && block.is_multiple_of(align as usize);
    statx(file, c"", AtFlags::EMPTY_PATH, what).is_ok_and(|stat| {
        let is_told = stat.stx_mask & what.bits() != 0;
        is_told && fits(stat.stx_dio_offset_align) && fits(stat.stx_dio_mem_align)
    })
}

/// Whether the file system only exists in memory, so that a write is only a copy (tmpfs, ramfs).
pub(crate) fn is_in_memory(file: &File) -> bool {
    const TMPFS: u32 = 0x0102_1994;
    const RAMFS: u32 = 0x8584_58f6;
    fstatfs(file).is_ok_and(|of| matches!(of.f_type as u32, TMPFS | RAMFS))
}

/// Locks the file for this open file description, until it is closed (`flock(2)`). `false`: another description has the lock.
pub(crate) fn lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(cause) => Err(cause.into()),
    }
}

/// Whether `path` is on a file system of processes (`/proc`).
pub(crate) fn is_in_proc(path: &Path) -> bool {
    const PROC: u32 = 0x9fa0;
    let folder = path.parent().unwrap_or(path);
    statfs(folder).is_ok_and(|of| of.f_type as u32 == PROC)
}

/// Makes the file system allocate `len` bytes from `from` on, without changing the file's length.
pub(crate) fn allocate(file: &File, from: u64, len: u64) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::KEEP_SIZE, from, len)?)
}

/// Opens the same pipe through a new description that does not block. Setting the flag on the description that was passed in
/// would change it for every process that shares it.
pub(crate) fn reopen_without_blocking(pipe: &File) -> Option<File> {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).ok().map(File::from)
}

/// Sends to a socket without blocking and without `SIGPIPE`.
pub(crate) fn send(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(rustix::net::send(socket, bytes, flags)?)
}

/// Waits for up to `limit` until `file` may accept bytes; returns whether it may.
pub(crate) fn wait_writable(file: &impl AsFd, limit: Duration) -> io::Result<bool> {
    let timeout = Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos() as i64,
    };
    match poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
