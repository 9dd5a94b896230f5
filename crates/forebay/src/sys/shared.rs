//! System calls for memory shared between processes: making its file, and locks that end with a process.
#![allow(unsafe_code)]

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use std::{
    fmt,
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd},
    path::Path,
};

/// Why a file is not accessible to this user only.
#[derive(Debug)]
pub(crate) enum Foreign {
    /// It is not a regular file.
    Kind,
    /// It belongs to another user.
    Owner { theirs: u32, ours: u32, mode: u32 },
    /// It belongs to this user, but its permissions let other users open it.
    Open { mode: u32 },
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Foreign::Kind => f.write_str("it is not a regular file"),
            Foreign::Owner { theirs, ours, mode } => write!(
                f,
                "it belongs to user {theirs} (mode {mode:04o}), and this is user {ours}"
            ),
            Foreign::Open { mode } => write!(f, "others may open it (mode {mode:04o})"),
        }
    }
}

/// Whether `file` is a regular one that belongs to the effective user, and that no other user may open.
pub(crate) fn is_private(file: &File) -> io::Result<Result<(), Foreign>> {
    let stat = rustix::fs::fstat(file)?;
    let (theirs, ours) = (stat.st_uid, rustix::process::geteuid().as_raw());
    let mode = stat.st_mode & 0o7777;
    Ok(if !FileType::from_raw_mode(stat.st_mode).is_file() {
        Err(Foreign::Kind)
    } else if theirs != ours {
        Err(Foreign::Owner { theirs, ours, mode })
    } else if mode & 0o077 != 0 {
        Err(Foreign::Open { mode })
    } else {
        Ok(())
    })
}

/// Makes a file of `len` bytes in `folder` that [`name`] names later. If that never happens, the file vanishes.
pub(crate) fn file_without_name_yet(folder: &Path, len: usize) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)?;
    rustix::fs::ftruncate(&file, len as u64)?;
    Ok(file.into())
}

/// Gives a file its name; fails if the name is taken.
pub(crate) fn name(file: &File, path: &Path) -> io::Result<()> {
    let this = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, this, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
    Ok(())
}

/// Opens the same file through a new open file description, since locks belong to descriptions.
pub(crate) fn reopen(file: &impl AsFd, how: OFlags) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(rustix::fs::open(path, how | OFlags::CLOEXEC, Mode::empty())?.into())
}

fn byte(at: u32) -> libc::flock {
    // SAFETY: a plain C structure, for which zeros are valid.
    let mut byte: libc::flock = unsafe { std::mem::zeroed() };
    byte.l_type = libc::F_WRLCK as i16;
    byte.l_whence = libc::SEEK_SET as i16;
    byte.l_start = i64::from(at);
    byte.l_len = 1;
    byte
}

/// Locks byte `at` of `file` for this description until it is closed. The kernel closes it when the process dies. Returns
/// whether the byte was free.
pub(crate) fn lock_byte(file: &File, at: u32) -> io::Result<bool> {
    // SAFETY: the structure lives as long as the call.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &byte(at)) };
    if answer == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        error => Err(error),
    }
}

/// How many of the first 4 Gi bytes of `file` other descriptions have locked; at most `max`.
pub(crate) fn count_locked_bytes(file: &File, max: usize) -> usize {
    let mut count = 0;
    let mut ranges = vec![(0, i64::from(u32::MAX) + 1)];
    while let Some((begin, end)) = ranges.pop().filter(|_| count < max) {
        let mut asked = byte(0);
        (asked.l_start, asked.l_len) = (begin, end - begin);
        // SAFETY: the structure lives as long as the call, which may write to it.
        let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut asked) };
        // The kernel reports any of the locks in the range.
        let at = asked.l_start;
        if answer == 0 && asked.l_type != libc::F_UNLCK as i16 && (begin..end).contains(&at) {
            count += 1;
            let rest = [(begin, at), (at + 1, end)];
            ranges.extend(rest.into_iter().filter(|(begin, end)| begin < end));
        }
    }
    count
}

/// Whether another description has locked byte `at` of `file`. Also true if the kernel does not report it.
pub(crate) fn is_byte_locked(file: &File, at: u32) -> bool {
    let mut asked = byte(at);
    // SAFETY: the structure lives as long as the call, which may write to it.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut asked) };
    answer != 0 || asked.l_type != libc::F_UNLCK as i16
}
