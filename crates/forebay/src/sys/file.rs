//! What the store asks of files, beyond the standard library.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{AtFlags, Mode, OFlags, StatxFlags, open, statx},
};
use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

/// The alignment that writes past the page cache need, where the file system says that it really
/// does them (`STATX_DIOALIGN`, Linux 6.1); `None` otherwise, tmpfs included, which accepts
/// `O_DIRECT` and only caches.
pub(crate) fn direct_alignment(file: &File) -> Option<u32> {
    let what = StatxFlags::DIOALIGN;
    let stat = statx(file, c"", AtFlags::EMPTY_PATH, what).ok()?;
    let has_it = stat.stx_mask & what.bits() != 0 && stat.stx_dio_offset_align != 0;
    has_it.then(|| stat.stx_dio_offset_align.max(stat.stx_dio_mem_align))
}

/// The same pipe through a description of its own that does not block: setting the flag on the
/// one we were handed would change it for everybody who shares it.
pub(crate) fn reopen_without_blocking(pipe: &File) -> Option<File> {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).ok().map(File::from)
}

/// Waits until `file` may take bytes, for `limit` at most.
pub(crate) fn wait_writable(file: &impl AsFd, limit: Duration) -> io::Result<()> {
    let timeout = Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos() as i64,
    };
    match poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
