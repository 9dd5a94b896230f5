//! Opening an output that may be there already, so that nobody else's file is written and no file by two processes at once.
//!
//! The kernel refuses `O_CREAT` on another user's file or FIFO in a folder where anybody may make files
//! (`fs.protected_regular`, `fs.protected_fifos`; proc(5)). What is there is opened here without `O_CREAT`, because a link that leads nowhere is
//! not to be followed, so the same check is made here, whatever these settings say.

use crate::sys::file as sys;
use rustix::fs::{Mode, OFlags};
use std::{
    fs::{File, Metadata, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

/// Makes `path` with mode 0600, or opens what is there with [`open_existing`]. Nothing is emptied.
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
/// It cannot be made or opened; or those of [`open_existing`].
pub fn open_output(path: &Path, options: &OpenOptions) -> io::Result<File> {
    // The kernel follows no link where it is to make a new file.
    match options.clone().create_new(true).mode(0o600).open(path) {
        Err(there) if there.kind() == io::ErrorKind::AlreadyExists => open_existing(path, options),
        answer => answer,
    }
}

/// Opens what is there, wherever a link leads, and makes nothing. `options` say how.
///
/// A regular file of ours that every user may write gets mode 0600: what is written into it is nobody else's to change.
///
/// # Errors
/// It cannot be opened; or it is a regular file or a FIFO of another user, in a folder with the sticky bit where others may make files,
/// such as /tmp, and the folder's owner is another one too.
pub fn open_existing(path: &Path, options: &OpenOptions) -> io::Result<File> {
    // What is checked is what is opened: a name may lead elsewhere a moment later. And a FIFO without a reader is not waited for.
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let place = File::from(place);
    let about = place.metadata()?;
    let link = PathBuf::from(format!("/proc/self/fd/{}", place.as_raw_fd()));
    let Ok(real) = std::fs::read_link(&link) else {
        return open_without_proc(path, options);
    };
    refuse_foreign(&about, &real)?;
    let file = options.open(&link)?;
    let is_ours = about.uid() == rustix::process::geteuid().as_raw();
    if about.is_file() && is_ours && about.mode() & 0o002 != 0 {
        // Refused, it is no worse than it was.
        let _ = file.set_permissions(PermissionsExt::from_mode(0o600));
    }
    Ok(file)
}

fn open_without_proc(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let before = path.metadata()?;
    refuse_foreign(&before, &path.canonicalize()?)?;
    let file = options.open(path)?;
    let is_same = is_same_file(&before, &file.metadata()?);
    is_same
        .then_some(file)
        .ok_or_else(|| io::Error::new(io::ErrorKind::PermissionDenied, "it was replaced meanwhile"))
}

fn refuse_foreign(about: &Metadata, real: &Path) -> io::Result<()> {
    if !about.is_file() && !about.file_type().is_fifo() {
        return Ok(());
    }
    // What has no name, such as a pipe, lies in no folder.
    let Some(folder) = real.parent().and_then(|folder| folder.metadata().ok()) else {
        return Ok(());
    };
    refuse_foreign_in(&folder, about)
}

/// Refuses what lies in `folder`, if another user put it there and anybody could have.
pub(super) fn refuse_foreign_in(folder: &Metadata, about: &Metadata) -> io::Result<()> {
    const STICKY: u32 = 0o1000;
    const OF_OTHERS: u32 = 0o022;
    let is_open_to_all = folder.mode() & STICKY != 0 && folder.mode() & OF_OTHERS != 0;
    let us = rustix::process::geteuid().as_raw();
    if is_open_to_all && about.uid() != us && about.uid() != folder.uid() {
        let what = format!(
            "it belongs to another user (number {}), in a folder where anybody may make files. Remove it, or choose another name",
            about.uid()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    Ok(())
}

pub(crate) fn is_same_file(one: &Metadata, two: &Metadata) -> bool {
    (one.dev(), one.ino()) == (two.dev(), two.ino())
}

/// Locks a regular file for writing, until the last descriptor of this opening is closed. What is no regular file is not locked, and
/// nothing is where the file system has no locks.
///
/// # Errors
/// Somebody else has locked it.
pub fn lock_output(file: &File) -> io::Result<()> {
    if !file.metadata()?.is_file() {
        return Ok(());
    }
    // Where there are no locks, nobody else has one either.
    if sys::lock(file).unwrap_or(true) {
        return Ok(());
    }
    let what = "another process is writing it. Choose another name, or end that first";
    Err(io::Error::new(io::ErrorKind::ResourceBusy, what))
}
