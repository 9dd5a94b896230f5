//! Names of capture files while they are written, once they are complete and after compression; and whether another process uses a file.

use crate::repair::folder_of;
use forebay::{Error, Result};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Appends `more` directly to `path`.
pub(super) fn behind(path: &Path, more: impl AsRef<OsStr>) -> PathBuf {
    let mut name: OsString = path.into();
    name.push(more);
    name.into()
}

/// The name of `path` after compression.
pub(super) fn packed(path: &Path) -> PathBuf {
    behind(path, ".zst")
}

/// The name of the file `name` until it is complete.
pub(super) fn part(name: &Path) -> PathBuf {
    behind(name, ".part")
}

/// Whether a file has this name, or has it before or after compression. A name and that name with `.zst` are only together in use for
/// one file while it is compressed, so that after a kill the compressed file is known to be a copy of the other one.
pub(super) fn is_taken(name: &Path) -> bool {
    let is_zstd = name.extension().is_some_and(|it| it == "zst");
    let original = is_zstd.then(|| name.with_extension(""));
    let names = [packed(name), name.into()];
    // Checked in the order in which another capture renames, so that a file cannot be missed in between.
    let mut names = names.into_iter().chain(original);
    names.any(|name| is_there(&part(&name)) || is_there(&name))
}

/// Whether anything has this name, including a dangling symbolic link.
pub(super) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The next name for a file whose own name is in use.
pub(super) fn free_name(name: &Path) -> PathBuf {
    let others = (1u64..).map(|number| behind(name, format!(".{number}")));
    let mut free = others.filter(|other| !is_taken(other));
    free.next().unwrap_or_else(|| name.into())
}

/// Opens a file to test its lock, for writing if that is permitted: NFS asks for it. It is not followed if it is a link, and a FIFO is
/// not waited for.
pub(super) fn open_unfollowed(path: &Path) -> io::Result<File> {
    let open = |writes| {
        let mut options = File::options();
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        options
            .read(true)
            .write(writes)
            .custom_flags(flags)
            .open(path)
    };
    open(true).or_else(|cause| match cause.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => open(false),
        _ => Err(cause),
    })
}

/// Whether another process has this file locked, or another thread of this one. If not, `file` has the lock until it is closed. On a
/// file system without locks, no file is locked. If the lock cannot be tested for another reason, the file counts as locked.
pub(super) fn is_locked(file: &File) -> bool {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) | Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => false,
        Err(_) => true,
    }
}

/// Whether a process writes, repairs or compresses the file. A file that cannot be opened to test that is in use, too.
pub(super) fn is_in_use(path: &Path) -> bool {
    match open_unfollowed(path) {
        Ok(file) => is_locked(&file),
        // A link is not followed, and a folder is not opened for writing: neither is a file of a capture.
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => false,
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::IsADirectory
        ),
    }
}

/// Removes a file; `false`: it was missing. A symbolic link itself is removed.
pub(super) fn remove(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => {
            let what = "removing it for a newer file";
            Err(Error::new(path.display().to_string(), what).because(error))
        }
        Ok(()) => Ok(true),
    }
}

/// Makes the name durable. A folder without read permission cannot be opened, and is skipped.
pub(super) fn sync_folder(name: &Path) -> io::Result<()> {
    File::open(folder_of(name)).map_or(Ok(()), |folder| folder.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testing::folder::Folder;
    use rustix::fs::{Mode, OFlags, fcntl_getfl};

    #[test]
    fn locks_are_tested_on_descriptors_that_could_write_and_a_failed_test_means_in_use() {
        let folder = Folder::new();
        let path = PathBuf::from(folder.file("a.part", "capture"));
        let file = open_unfollowed(&path).unwrap();
        assert!(fcntl_getfl(&file).unwrap().contains(OFlags::RDWR));
        assert!(!is_locked(&file), "this locks it");
        assert!(is_in_use(&path));
        drop(file);
        assert!(!is_in_use(&path));
        // Like NFS on a descriptor that cannot write, the kernel refuses to lock this one.
        let place = rustix::fs::open(&path, OFlags::PATH, Mode::empty()).unwrap();
        assert!(is_locked(&File::from(place)));
    }
}
