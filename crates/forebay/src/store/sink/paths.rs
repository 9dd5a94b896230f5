//! Resolves links safely in shared folders, and reports errors of `close(2)`.
//!
//! In a folder like `/tmp` another user can create a link under the name that the program is about to write to. The kernel
//! refuses to follow it only if `fs.protected_symlinks` is set and the folder is sticky, and never when the link is read as text
//! (`readlink(2)`). [`resolve`] always refuses.

use super::walk::{self, MAX_LINKS, refuse_foreign_link};
use crate::sys;
use rustix::fs::{lstat, stat};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Follows the symbolic links at the end of `path` and returns the path of the target, which need not exist. Also checks the links on
/// the way to it.
///
/// A link in `/proc`, which `/dev/stdout` leads to, is returned as it is: its target has no path.
///
/// ```
/// use forebay::store::resolve;
/// let path = std::env::temp_dir().join(format!("forebay-doc-resolve-{}", std::process::id()));
/// std::os::unix::fs::symlink("elsewhere", &path)?;
/// assert_eq!(resolve(&path)?, path.with_file_name("elsewhere"));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// `PermissionDenied` for a link that belongs to neither root nor this user. Otherwise as `readlink(2)`.
pub fn resolve(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let mut path = path.as_ref().to_owned();
    match walk::find(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for _ in 0..MAX_LINKS {
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {}
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
            Err(error) => return Err(error),
        }
        if sys::file::is_in_proc(&path) {
            return Ok(path);
        }
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = stat(folder.unwrap_or(Path::new(".")))?;
        refuse_foreign_link(
            path.file_name().unwrap_or_default(),
            &lstat(&path)?,
            &folder,
        )?;
        let target = fs::read_link(&path)?;
        // An absolute target replaces the whole path.
        path.pop();
        path.push(target);
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// Closes `file` and reports the error of `close(2)`: on network file systems and with quotas it can be that of an earlier write.
///
/// ```
/// forebay::store::close(std::fs::File::open("/dev/null")?)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// As `close(2)`. The descriptor is closed in any case.
pub fn close(file: File) -> io::Result<()> {
    sys::close(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testing::folder::Folder;

    #[test]
    fn links_are_followed_to_the_end_and_not_in_a_circle() {
        let folder = Folder::new();
        let link = |name: &str, target: &str| {
            let link = folder.join(name);
            std::os::unix::fs::symlink(target, &link).unwrap();
            link
        };
        link("second", "end");
        assert_eq!(
            resolve(link("first", "second")).unwrap(),
            folder.join("end")
        );
        let circle = resolve(link("round", "round")).unwrap_err();
        assert_eq!(circle.raw_os_error(), Some(libc::ELOOP));
        let proc = link("stdout", "/proc/self/fd/1");
        assert_eq!(resolve(&proc).unwrap(), Path::new("/proc/self/fd/1"));
    }
}
