//! Finds a file without following links that a stranger made.
//!
//! Each folder on the way is opened from the one before, so that what was checked is what is used, whatever happens to the names
//! meanwhile.

use rustix::{
    fd::OwnedFd,
    fs::{FileType, Mode, OFlags, Stat, fstat, fstatfs, openat, readlinkat},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::AsRawFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Component, Path, PathBuf},
};

/// The same as the kernel's limit.
pub(super) const MAX_LINKS: usize = 40;

/// Where a path leads to.
pub(super) struct Place {
    /// The folder, and the name in it.
    pub folder: OwnedFd,
    pub name: OsString,
    /// What is there, opened with `O_PATH`.
    pub found: Option<OwnedFd>,
    /// The name is one that a link named.
    pub is_linked: bool,
}

impl Place {
    /// A path that leads here whatever happens to the names meanwhile, or `path` if `/proc` is missing.
    pub fn path(&self, path: &Path) -> PathBuf {
        let fd = self.folder.as_raw_fd();
        let folder = PathBuf::from(format!("/proc/self/fd/{fd}"));
        match folder.is_dir() {
            true => folder.join(&self.name),
            false => path.into(),
        }
    }
}

/// Finds where `path` leads to, through links.
///
/// # Errors
/// A folder on the way is missing, or a link belongs to neither root nor this user.
pub(super) fn find(path: &Path) -> io::Result<Place> {
    const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    const ANY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
    let none = Mode::empty();
    let root = || openat(rustix::fs::CWD, "/", FOLDER, none);
    // The current folder may be closed to this user.
    let begin = if path.is_absolute() { "/" } else { "." };
    let mut folder = openat(rustix::fs::CWD, begin, FOLDER, none)?;
    // The names that are left, the next one last, and whether a link named them.
    let mut left = Vec::new();
    names(path, false, &mut left);
    let mut links = 0;
    let is_folder = path.as_os_str().as_bytes().ends_with(b"/");
    loop {
        let Some((name, is_linked)) = left.pop() else {
            // The path is a folder, such as `/` or `..`.
            let found = Some(folder.try_clone()?);
            let name = OsString::from(".");
            return Ok(Place {
                folder,
                name,
                found,
                is_linked: false,
            });
        };
        if name == "/" {
            folder = root()?;
            continue;
        }
        let next = match openat(&folder, &name, ANY | OFlags::NOFOLLOW, none) {
            Err(Errno::NOENT) if left.is_empty() => {
                // As the kernel does, which makes no folder.
                if is_folder {
                    return Err(Errno::ISDIR.into());
                }
                return Ok(Place {
                    folder,
                    name,
                    found: None,
                    is_linked,
                });
            }
            next => next?,
        };
        let about = fstat(&next)?;
        if FileType::from_raw_mode(about.st_mode).is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP.into());
            }
            refuse_foreign_link(&name, &about, &fstat(&folder)?)?;
            if !is_in_proc(&folder) {
                let target = readlinkat(&next, "", Vec::new())?.into_bytes();
                let target = PathBuf::from(OsString::from_vec(target));
                names(&target, true, &mut left);
                continue;
            }
        }
        // A link in /proc leads to a file, not to a name.
        let next = match is_in_proc(&folder) {
            true => openat(&folder, &name, ANY, none)?,
            false => next,
        };
        if left.is_empty() {
            if is_folder && !FileType::from_raw_mode(fstat(&next)?.st_mode).is_dir() {
                return Err(Errno::NOTDIR.into());
            }
            return Ok(Place {
                folder,
                name,
                found: Some(next),
                is_linked,
            });
        }
        folder = next;
    }
}

/// Puts the names of `path` in front of those that are left.
fn names(path: &Path, is_linked: bool, left: &mut Vec<(OsString, bool)>) {
    let names = path
        .components()
        .rev()
        .filter(|it| *it != Component::CurDir);
    left.extend(names.map(|it| (it.as_os_str().to_owned(), is_linked)));
}

fn is_in_proc(folder: &OwnedFd) -> bool {
    const PROC: u32 = 0x9fa0;
    fstatfs(folder).is_ok_and(|of| of.f_type as u32 == PROC)
}

/// The user whose number files have if their owner is unknown in this user namespace (`/proc/sys/kernel/overflowuid`).
const OVERFLOW: u32 = 65_534;

/// Whether this may be a folder of the root of another user namespace, such as the host's `/dev`, which no other user may write.
fn is_of_unmapped_root(folder: &Stat) -> bool {
    const OF_OTHERS: u32 = 0o022;
    let map = std::fs::read_to_string("/proc/self/uid_map");
    let is_whole = |map: String| map.split_whitespace().eq(["0", "0", "4294967295"]);
    folder.st_uid == OVERFLOW && folder.st_mode & OF_OTHERS == 0 && !map.map_or(true, is_whole)
}

/// Refuses a link that belongs to neither root nor this user: its owner can change where it leads to.
pub(super) fn refuse_foreign_link(name: &OsStr, link: &Stat, folder: &Stat) -> io::Result<()> {
    let owner = link.st_uid;
    let trusted = [0, rustix::process::geteuid().as_raw()];
    if trusted.contains(&owner) || owner == OVERFLOW && is_of_unmapped_root(folder) {
        return Ok(());
    }
    let name = name.display();
    let what = format!(
        "{name} is a link of another user (number {owner}). Name the file that it leads to, or remove it"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}
