//! The files of a series on disk: created under a temporary name, renamed when complete, removed for newer ones.

use super::{
    super::{
        compress::CompressedSink,
        disk_space::{SpaceLimit, SpaceSink},
        paths::{free_name, is_in_use, is_taken, is_there, packed, part, remove, sync_folder},
        reports::Reports,
        retention::Retention,
    },
    config::Rotation,
    names::Names,
};
use crate::repair::{folder_of, rename_to_new};
use forebay::{
    Error, Result,
    store::{FileConfig, FileSink, Series, Sink, resolve, written_elsewhere},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub(in crate::session) struct SeriesFiles {
    reports: Reports,
    retention: Retention,
    space: Option<SpaceLimit>,
    /// The base name, whose ending selects the compression.
    base: PathBuf,
    /// Whether existing files may be replaced.
    replaces: bool,
    keep_files: u64,
    /// Limit for the complete files: the total limit, less the size reserved for the file being written.
    keep_bytes: u64,
    /// The final name of the file being written.
    name: PathBuf,
    /// The name that was registered for it, and its temporary name.
    ordered: PathBuf,
    part: PathBuf,
    /// Whether it has its final name. A failure after the renaming can be retried.
    is_named: bool,
    syncs: bool,
    pub(super) sync_folder: fn(&Path) -> io::Result<()>,
}

impl SeriesFiles {
    pub(super) fn new(
        rotation: &Rotation,
        reports: Reports,
        retention: Retention,
        space: Option<SpaceLimit>,
        syncs: bool,
    ) -> Self {
        let each = rotation.bytes.unwrap_or(0);
        let keep_bytes = rotation.keep_bytes.map(|all| all.saturating_sub(each));
        SeriesFiles {
            reports,
            base: rotation.path.clone(),
            replaces: rotation.names == Names::Numbered,
            keep_files: rotation.keep_files.unwrap_or(u64::MAX),
            keep_bytes: keep_bytes.unwrap_or(u64::MAX),
            retention,
            space,
            name: PathBuf::new(),
            ordered: PathBuf::new(),
            part: PathBuf::new(),
            is_named: false,
            syncs,
            sync_folder,
        }
    }

    /// Creates the file that was registered. Returns its final name.
    fn make(&self) -> Result<(PathBuf, Box<dyn Sink>)> {
        let ordered = self.reports.ordered();
        // Our own thread may be about to give a file of a killed capture this name.
        let mut names = self.retention.hold_once_finished(&part(&ordered));
        if self.replaces && self.retention.is_ring() {
            self.retention.remove_replaced(&mut names, &ordered)?;
        }
        loop {
            let mut name = ordered.clone();
            // A name that contains a time is used for one file only.
            if !self.replaces && is_taken(&name) {
                name = free_name(&name);
            }
            refuse_foreign_links(&name)?;
            refuse_what_is_no_file(&name)?;
            let part = part(&name);
            if self.replaces {
                refuse_if_written(&part)?;
                // The temporary file is a remainder of a capture that was killed. A ring also needs the space of the file that it
                // replaces.
                remove(&part)?;
                if self.retention.is_ring() {
                    remove(&name)?;
                }
            }
            let made = FileSink::create_new(&part, &name, &FileConfig::default());
            let is_there_by_now = match &made {
                Err(error) => error.raw_os_error() == Some(libc::EEXIST),
                // From here on no other capture can use that name, but another one may have done so before.
                Ok(_) => is_there(&name),
            };
            if self.replaces || !is_there_by_now {
                return Ok((name, made?));
            }
            // Another capture took the name first, so this one uses the next.
            if made.is_ok() {
                remove(&part)?;
            }
        }
    }

    /// Renames the complete file to its final name. `false`: the file was empty, and was removed.
    fn give_name(&mut self) -> Result<bool> {
        let part = self.part.clone();
        let name = self.name.display().to_string();
        let failed = |cause| {
            let tried = format!("giving {} its final name", part.display());
            let error = Error::new(name.clone(), tried).because(cause);
            error.advise("The file is complete under its temporary name")
        };
        let there = fs::symlink_metadata(&part).map_err(failed)?;
        let len = there.len();
        if len == 0 {
            // The disk was full before the first byte: an empty file is not a capture file.
            fs::remove_file(&part).map_err(failed)?;
            return Ok(false);
        }
        if let Some(name) = self.reports.take_renamed().filter(|_| !self.replaces) {
            self.name.clone_from(&name);
            self.ordered = name;
        }
        refuse_what_is_no_file(&self.name)?;
        if self.replaces && self.retention.compresses() {
            // Remove the compressed file of an earlier capture before this one's is created.
            remove(&packed(&self.name))?;
        }
        if self.replaces {
            fs::rename(&part, &self.name).map_err(failed)?;
        } else {
            // A file that appeared meanwhile keeps its name, and this one gets the next.
            while let Err(cause) = rename_to_new(&part, &self.name) {
                if cause.kind() != io::ErrorKind::AlreadyExists {
                    return Err(failed(cause));
                }
                self.name = free_name(&self.ordered);
            }
        }
        self.is_named = true;
        self.retention.add(&self.name, len);
        Ok(true)
    }
}

impl Series for SeriesFiles {
    fn open(&mut self, _number: u64) -> Result<Box<dyn Sink>> {
        self.retention.make_room(self.keep_files, self.keep_bytes)?;
        let (name, sink) = self.make()?;
        let sink = SpaceSink::over(sink, self.space.as_ref());
        let sink = CompressedSink::over(sink, &self.base, &self.reports)?;
        self.part = part(&name);
        self.ordered = name.clone();
        self.name = name;
        self.is_named = false;
        self.reports.opened();
        Ok(sink)
    }

    fn complete(&mut self, _number: u64) -> Result<()> {
        if !self.is_named && !self.give_name()? {
            return Ok(());
        }
        if self.syncs {
            (self.sync_folder)(&self.name).map_err(|cause| {
                let tried = "making its final name durable";
                Error::new(self.name.display().to_string(), tried).because(cause)
            })?;
        }
        Ok(())
    }
}

/// Checks that no other capture is writing a numbered file of this series. Another capture may be at any number, and none of its
/// files is replaced while it runs.
///
/// # Errors
/// Another capture is writing such a file.
pub(super) fn refuse_another(rotation: &Rotation) -> Result<()> {
    let Ok(there) = fs::read_dir(folder_of(&rotation.path)) else {
        return Ok(());
    };
    let paths = there.flatten().map(|entry| entry.path());
    let mut parts = paths.filter(|path| path.extension().is_some_and(|it| it == "part"));
    parts.try_for_each(|part| match rotation.replaces(&part) {
        true => refuse_if_written(&part),
        false => Ok(()),
    })
}

/// A file is locked while it is written, and the lock ends with its process. This distinguishes it from a remainder of a killed
/// capture.
fn refuse_if_written(part: &Path) -> Result<()> {
    if is_in_use(part) {
        return Err(written_elsewhere(part));
    }
    Ok(())
}

/// Rejects a folder that is reached through a link of another user.
fn refuse_foreign_links(path: &Path) -> Result<()> {
    let failed = |cause| Error::new(path.display().to_string(), "creating the file").because(cause);
    resolve(folder_of(path)).map(drop).map_err(failed)
}

/// Rejects anything except files and symbolic links. A symbolic link is replaced, never followed.
fn refuse_what_is_no_file(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(it) if !it.is_file() && !it.is_symlink() => {
            let what = "a series of files can replace only regular files";
            Err(Error::new(path.display().to_string(), what).advise("Choose another name"))
        }
        _ => Ok(()),
    }
}
