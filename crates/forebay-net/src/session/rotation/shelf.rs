//! Where the files of a series stand: made under a name of their own, named when complete, removed for newer ones.

use super::{
    Names, Register, Rotation,
    kept::{Kept, packed, part, remove},
    names::behind,
};
use forebay::{
    Error, Result,
    store::{FileConfig, FileSink, Series, Sink},
};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

pub(in crate::session) struct Shelf {
    register: Register,
    kept: Kept,
    /// Names may be those of files that are there.
    replaces: bool,
    keep_files: u64,
    /// Of complete files: what is left for them when the one being written has its size.
    keep_bytes: u64,
    /// What the file being written is going to be called.
    name: PathBuf,
    /// It is called so: what failed behind that can be tried again.
    is_named: bool,
    syncs: bool,
    pub(super) sync_folder: fn(&Path) -> io::Result<()>,
}

impl Shelf {
    pub(super) fn new(rotation: &Rotation, register: Register, kept: Kept, syncs: bool) -> Self {
        let each = rotation.bytes.unwrap_or(0);
        let keep_bytes = rotation.keep_bytes.map(|all| all.saturating_sub(each));
        Shelf {
            register,
            replaces: rotation.names == Names::Numbered,
            keep_files: rotation.keep_files.unwrap_or(u64::MAX),
            keep_bytes: keep_bytes.unwrap_or(u64::MAX),
            kept,
            name: PathBuf::new(),
            is_named: false,
            syncs,
            sync_folder,
        }
    }

    /// A name of a time is given to one file only.
    fn free(&self, name: PathBuf) -> PathBuf {
        let is_taken = |name: &Path| {
            let packed = packed(name);
            let is_packed =
                self.kept.compresses() && (is_there(&packed) || is_there(&part(&packed)));
            is_packed || is_there(name) || is_there(&part(name))
        };
        if self.replaces || !is_taken(&name) {
            return name;
        }
        let others = (1u64..).map(|number| behind(&name, format!(".{number}")));
        let mut free = others.filter(|other| !is_taken(other));
        free.next().unwrap_or(name)
    }

    /// Gives the complete file its name; `false`: there is none, because not a byte was written.
    fn give_name(&mut self) -> Result<bool> {
        let part = part(&self.name);
        let failed = |cause| {
            let tried = format!("giving {} its final name", part.display());
            let error = Error::new(self.name.display().to_string(), tried).because(cause);
            error.advise("What is written is whole, under that name")
        };
        let len = fs::symlink_metadata(&part).map_err(failed)?.len();
        if len == 0 {
            // The disk was full before its first byte: that is no capture file.
            fs::remove_file(&part).map_err(failed)?;
            return Ok(false);
        }
        refuse_what_is_no_file(&self.name)?;
        if self.replaces && self.kept.compresses() {
            // That of an earlier capture, before anybody makes the one of this file.
            remove(&packed(&self.name))?;
        }
        fs::rename(&part, &self.name).map_err(failed)?;
        self.is_named = true;
        self.kept.add(&self.name, len);
        Ok(true)
    }
}

impl Series for Shelf {
    fn open(&mut self, _number: u64) -> Result<Box<dyn Sink>> {
        self.kept.make_room(self.keep_files, self.keep_bytes)?;
        let name = self.free(self.register.ordered());
        refuse_what_is_no_file(&name)?;
        let part = part(&name);
        if self.replaces {
            // What a capture left that was killed; and a ring has no room for what it replaces.
            remove(&part)?;
            if self.kept.is_ring() {
                remove(&name)?;
            }
        }
        let sink = FileSink::create_new(&part, &name, &FileConfig::default())?;
        self.name = name;
        self.is_named = false;
        self.register.opened();
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

/// Also where it is a link that leads nowhere.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// A link is as good as a file here: it is replaced, never followed.
fn refuse_what_is_no_file(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(it) if !it.is_file() && !it.is_symlink() => {
            let what = "several files cannot go to what is no file";
            Err(Error::new(path.display().to_string(), what).advise("Choose another name"))
        }
        _ => Ok(()),
    }
}

/// Makes the name durable; a folder that may be written but not read cannot be opened for that.
pub(super) fn sync_folder(name: &Path) -> io::Result<()> {
    let folder = match name.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder).map_or(Ok(()), |folder| folder.sync_all())
}
