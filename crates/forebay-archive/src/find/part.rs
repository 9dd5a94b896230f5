//! A file that gets its name once it is whole.

use crate::table::unique;
use anyhow::{Context, Result};
use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::{MetadataExt, fchown},
    path::{Path, PathBuf},
};

/// Links that are followed.
const MAX_LINKS: usize = 40;

/// A file that is being written beside the place where it will be. If it is dropped before [`finish`](PartFile::finish), it is removed.
#[derive(Debug)]
pub struct PartFile {
    part: PathBuf,
    path: PathBuf,
    /// There is a file with this name.
    is_old: bool,
    /// It belongs to another user, and must go on to.
    is_foreign: bool,
}

impl PartFile {
    /// Creates `PATH.PID.part`. There is no part if `path` is a pipe or a device, leads to an open file of this process (`/dev/stdout`), or
    /// is a file in a folder that cannot be written: these are opened themselves.
    ///
    /// # Errors
    /// The file cannot be created, or there is one that cannot be written.
    pub fn create(path: &Path) -> Result<(File, Option<PartFile>)> {
        let creating = || format!("{}: creating it", path.display());
        let old = fs::metadata(path).ok();
        let end = end_of_links(path);
        let opened = match (&old, &end) {
            (None, _) => None,
            // The program that opened it may have written to it, or may go on to.
            (Some(_), None) => Some(File::options().append(true).open(path)),
            (Some(_), Some(_)) => Some(File::options().write(true).open(path)),
        };
        let opened = opened.transpose().with_context(creating)?;
        let is_whole = old.as_ref().is_none_or(fs::Metadata::is_file);
        let (path, opened) = match (end, opened) {
            (Some(end), opened) if is_whole => (end, opened),
            (_, Some(opened)) => return Ok((opened, None)),
            (_, None) => (path.to_owned(), None),
        };
        let (file, part) = match (create_beside(&path), opened) {
            (Ok(created), _) => created,
            (Err(error), Some(opened)) if is_refused(&error) => {
                opened.set_len(0).with_context(creating)?;
                return Ok((opened, None));
            }
            (Err(error), _) => return Err(error).with_context(creating),
        };
        let mut part = PartFile {
            part,
            path,
            is_old: old.is_some(),
            is_foreign: false,
        };
        if let Some(old) = old {
            let new = file.metadata().with_context(creating)?;
            let is_foreign = (old.uid(), old.gid()) != (new.uid(), new.gid());
            part.is_foreign =
                is_foreign && fchown(&file, Some(old.uid()), Some(old.gid())).is_err();
            file.set_permissions(old.permissions())
                .with_context(creating)?;
        }
        Ok((file, Some(part)))
    }

    /// Gives the file its name, and replaces the one that had it. If that one belongs to another user, or cannot be replaced because it is
    /// mounted, its content is replaced.
    ///
    /// # Errors
    /// The file cannot be renamed or copied.
    pub fn finish(mut self) -> Result<()> {
        let renamed = match self.is_foreign {
            true => Err(ErrorKind::PermissionDenied.into()),
            false => fs::rename(&self.part, &self.path),
        };
        let Err(error) = renamed else {
            return Ok(());
        };
        if !self.is_old {
            let creating = || format!("{}: creating it", self.path.display());
            return Err(error).with_context(creating);
        }
        copy(&self.part, &self.path).with_context(|| {
            // Now the part is the only whole file.
            let part = std::mem::take(&mut self.part);
            format!(
                "{}: replacing its content by that of {}, which stays",
                self.path.display(),
                part.display()
            )
        })
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.part); // after `finish` it is not there
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut to = File::options().write(true).truncate(true).open(to)?;
    io::copy(&mut from, &mut to).map(|_| ())
}

/// Creates a file in the folder of this one.
fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let create = |part: PathBuf| -> io::Result<(File, PathBuf)> {
        let file = File::options().write(true).create_new(true).open(&part)?;
        Ok((file, part))
    };
    let mut part = path.to_owned().into_os_string();
    part.push(format!(".{}.part", std::process::id()));
    match create(part.into()) {
        // In another container, a process that was killed may have had the same number.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::AlreadyExists | ErrorKind::InvalidFilename
            ) =>
        {
            create(path.with_file_name(format!(".{}.part", unique())))
        }
        created => created,
    }
}

/// Whether nothing can be created in the folder.
fn is_refused(error: &io::Error) -> bool {
    use ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// Where links lead, also if nothing is there. `None`: to an open file of a process, whose name is not known.
fn end_of_links(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        if fs::canonicalize(&folder).is_ok_and(|it| it.starts_with("/proc")) {
            return None;
        }
        match fs::read_link(&path) {
            Ok(to) => path = folder.join(to),
            Err(_) => break,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testing::folder::Folder;
    use std::{io::Write, os::fd::AsRawFd, os::unix::fs::symlink};

    /// Writes a file.
    fn written(path: &str, text: &str) {
        let (mut file, part) = PartFile::create(Path::new(path)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        part.map_or(Ok(()), PartFile::finish).unwrap();
    }

    fn names(folder: &Folder) -> Vec<String> {
        let name = |it: io::Result<fs::DirEntry>| it.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = fs::read_dir(folder.path("")).unwrap().map(name).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_part_of_a_killed_process_and_a_long_name_are_no_obstacle() {
        let folder = Folder::new();
        let [path, long] = [folder.path("a.pcapng"), folder.path(&"n".repeat(255))];
        let left = format!("{path}.{}.part", std::process::id());
        fs::write(&left, "of another process").unwrap();
        for path in [&path, &long] {
            written(path, "packets");
            assert_eq!(fs::read_to_string(path).unwrap(), "packets");
        }
        assert_eq!(fs::read_to_string(&left).unwrap(), "of another process");
        assert_eq!(names(&folder).len(), 3);
    }

    #[test]
    fn an_open_file_of_the_process_and_the_end_of_a_link_are_written() {
        let folder = Folder::new();
        let path = folder.path("open");
        let mut open = File::create(&path).unwrap();
        open.write_all(b"before ").unwrap();
        let descriptor = format!("/dev/fd/{}", open.as_raw_fd());
        written(&descriptor, "after");
        assert_eq!(fs::read_to_string(&path).unwrap(), "before after");
        // It has no name any more, so nothing can be renamed to it.
        fs::remove_file(&path).unwrap();
        written(&descriptor, "!");
        assert_eq!(open.metadata().unwrap().len(), 13);

        symlink("to", folder.path("link")).unwrap();
        for text in ["nothing was there", "replaced"] {
            written(&folder.path("link"), text);
            assert_eq!(fs::read_to_string(folder.path("to")).unwrap(), text);
        }
        assert_eq!(names(&folder), ["link", "to"]);
    }

    #[test]
    fn the_owner_of_a_file_stays_and_its_content_is_replaced_if_that_is_necessary() {
        let folder = Folder::new();
        let path = folder.path("a");
        fs::write(&path, "longer than what follows").unwrap();
        let is_root = std::os::unix::fs::chown(&path, Some(12_345), None).is_ok();
        let about = || fs::metadata(&path).unwrap();
        let before = about();
        written(&path, "renamed");
        assert_eq!((about().uid(), about().gid()), (before.uid(), before.gid()));
        assert_eq!(is_root, about().uid() == 12_345);

        let (mut file, part) = PartFile::create(Path::new(&path)).unwrap();
        let mut part = part.unwrap();
        file.write_all(b"copied").unwrap();
        part.is_foreign = true;
        let before = about();
        part.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "copied");
        assert_eq!((about().ino(), about().uid()), (before.ino(), before.uid()));
        assert_eq!(names(&folder), ["a"]);
    }
}
