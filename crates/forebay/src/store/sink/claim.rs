//! Opens an output that may exist already: refuses another user's file, and a file that another process writes.
//!
//! The kernel refuses `O_CREAT` on another user's file or FIFO in a folder where anybody may create files
//! (`fs.protected_regular`, `fs.protected_fifos`; proc(5)). This module opens existing files without `O_CREAT`, so that a
//! dangling link is never followed. It therefore makes the same check itself, whatever these settings are.

use super::walk;
use crate::sys::file as sys;
use rustix::io::Errno;
use std::{
    fs::{File, Metadata, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

/// Creates `path` with mode 0600, or opens the existing file with [`open_existing`]. The file is not truncated.
///
/// ```
/// let path = std::env::temp_dir().join(format!("forebay-doc-claim-{}", std::process::id()));
/// let mut options = std::fs::OpenOptions::new();
/// let file = forebay::store::open_output(&path, options.write(true))?;
/// forebay::store::lock_output(&file)?;
/// let again = forebay::store::open_output(&path, options.write(true))?;
/// assert!(forebay::store::lock_output(&again).is_err());
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The file cannot be created or opened; or an error of [`open_existing`].
pub fn open_output(path: impl AsRef<Path>, options: &OpenOptions) -> io::Result<File> {
    let path = path.as_ref();
    let place = walk::find(path)?;
    // Nothing is created through a link: what it names may be a choice of its owner.
    if place.found.is_none() && !place.is_linked {
        // The kernel follows no link when it has to create a new file.
        let mut options = options.clone();
        let created = options.create_new(true).mode(0o600).open(place.path(path));
        match created {
            Err(there) if there.kind() == io::ErrorKind::AlreadyExists => {}
            answer => return answer,
        }
    }
    open_existing(path, options)
}

/// Opens an existing file, following links, and creates nothing. `options` are the open options.
///
/// A regular file of this user that every user may write gets mode 0600, so that nobody else can change what is written into it.
///
/// # Errors
/// * The file cannot be opened.
/// * It is a regular file or a FIFO of another user, in a folder where others may create files, such as /tmp, and that user does
///   not own the folder.
/// * A link on the way belongs to neither root nor this user.
pub fn open_existing(path: impl AsRef<Path>, options: &OpenOptions) -> io::Result<File> {
    let path = path.as_ref();
    // Check the opened file, not the name, which may lead elsewhere a moment later. And do not wait for a FIFO that has no
    // reader.
    let place = walk::find(path)?.found.ok_or(Errno::NOENT)?;
    let place = File::from(place);
    let about = place.metadata()?;
    let link = PathBuf::from(format!("/proc/self/fd/{}", place.as_raw_fd()));
    let Ok(real) = std::fs::read_link(&link) else {
        return open_without_proc(path, &about, options);
    };
    refuse_foreign(&about, &real)?;
    let file = options.open(&link)?;
    let is_ours = about.uid() == rustix::process::geteuid().as_raw();
    if about.is_file() && is_ours && about.mode() & 0o002 != 0 {
        // If this fails, the mode is no worse than before.
        let _ = file.set_permissions(PermissionsExt::from_mode(0o600));
    }
    Ok(file)
}

fn open_without_proc(path: &Path, about: &Metadata, options: &OpenOptions) -> io::Result<File> {
    refuse_foreign(about, &path.canonicalize()?)?;
    let file = options.open(path)?;
    let is_same = is_same_file(about, &file.metadata()?);
    is_same.then_some(file).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the file was replaced while it was opened",
        )
    })
}

fn refuse_foreign(about: &Metadata, real: &Path) -> io::Result<()> {
    if !about.is_file() && !about.file_type().is_fifo() {
        return Ok(());
    }
    // A file without a name, such as a pipe, is in no folder.
    let Some(folder) = real.parent().and_then(|folder| folder.metadata().ok()) else {
        return Ok(());
    };
    refuse_foreign_in(&folder, about)
}

/// Whether a file in `folder` belongs to another user than root, this user and the owner of the folder, and anybody could have created it
/// there, as in `/tmp`.
///
/// ```
/// let [folder, program] = ["/tmp", "/proc/self/exe"].map(|it| std::fs::metadata(it).unwrap());
/// assert!(!forebay::store::is_foreign_in(&folder, &program)); // it is ours
/// ```
pub fn is_foreign_in(folder: &Metadata, about: &Metadata) -> bool {
    const STICKY: u32 = 0o1000;
    const OF_GROUP: u32 = 0o020;
    const OF_ALL: u32 = 0o002;
    let mode = folder.mode();
    let is_open_to_all = mode & OF_ALL != 0 || mode & STICKY != 0 && mode & OF_GROUP != 0;
    let trusted = [0, rustix::process::geteuid().as_raw(), folder.uid()];
    is_open_to_all && !trusted.contains(&about.uid())
}

fn refuse_foreign_in(folder: &Metadata, about: &Metadata) -> io::Result<()> {
    if is_foreign_in(folder, about) {
        let what = format!(
            "it belongs to another user (number {}), in a folder where anybody may create files. Remove it, or choose another name",
            about.uid()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    Ok(())
}

pub(crate) fn is_same_file(one: &Metadata, two: &Metadata) -> bool {
    (one.dev(), one.ino()) == (two.dev(), two.ino())
}

/// The process that has locked a file for writing (`flock(2)`), as `/proc/locks` lists it; `None` if none has, or if the kernel does not
/// show it, as for processes of another PID namespace.
pub(super) fn writer_of(about: &Metadata) -> Option<u32> {
    // The kernel gives the list in pieces, and a lock that is released between two of them hides another one.
    (0..3).find_map(|_| listed_writer_of(about))
}

fn listed_writer_of(about: &Metadata) -> Option<u32> {
    let (major, minor) = (
        rustix::fs::major(about.dev()),
        rustix::fs::minor(about.dev()),
    );
    let place = format!("{major:02x}:{minor:02x}:{}", about.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let kind = [words.next()?, words.next()?, words.next()?];
        let (pid, at) = (words.next()?, words.next()?);
        let is_it = kind == ["FLOCK", "ADVISORY", "WRITE"] && at == place;
        is_it.then(|| pid.parse().ok()).flatten()
    })
}

/// Locks a regular file for writing, until the last descriptor of this opening is closed. Other files are not locked, and no file
/// is locked on a file system without locks.
///
/// # Errors
/// Another opening of the file holds the lock.
pub fn lock_output(file: &File) -> io::Result<()> {
    if !file.metadata()?.is_file() {
        return Ok(());
    }
    // On a file system without locks nobody else has one either.
    if sys::lock(file).unwrap_or(true) {
        return Ok(());
    }
    let pid = file.metadata().ok().and_then(|about| writer_of(&about));
    let pid = pid.map_or(String::new(), |pid| format!(" (pid {pid})"));
    let what = format!(
        "another process writes this file{pid}. Choose another name, or end that process first"
    );
    Err(io::Error::new(io::ErrorKind::ResourceBusy, what))
}
