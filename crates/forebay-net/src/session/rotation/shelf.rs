//! Where the files of a series stand: made under a name of their own, named when complete, removed for newer ones.

use super::{
    Names, Register, Rotation,
    kept::{Kept, packed, part, remove, rename_to_new},
    names::{behind, folder},
};
use forebay::{
    Error, Result,
    store::{FileConfig, FileSink, Series, Sink},
};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
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
    /// What it was ordered to be called, and what it is called while it is written.
    ordered: PathBuf,
    part: PathBuf,
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
            ordered: PathBuf::new(),
            part: PathBuf::new(),
            is_named: false,
            syncs,
            sync_folder,
        }
    }

    /// A name of a time is given to one file only.
    fn free(&self, name: PathBuf) -> PathBuf {
        if self.replaces || !self.is_taken(&name) {
            return name;
        }
        self.numbered(name)
    }

    /// The next name for a finished file whose own was taken while it was written.
    fn next_free(&self) -> PathBuf {
        self.numbered(self.ordered.clone())
    }

    fn numbered(&self, name: PathBuf) -> PathBuf {
        let others = (1u64..).map(|number| behind(&name, format!(".{number}")));
        let mut free = others.filter(|other| !self.is_taken(other));
        free.next().unwrap_or(name)
    }

    fn is_taken(&self, name: &Path) -> bool {
        let packed = packed(name);
        let is_packed = self.kept.compresses() && (is_there(&part(&packed)) || is_there(&packed));
        // In the order in which another capture names it, or it might be seen as neither.
        is_packed || is_there(&part(name)) || is_there(name)
    }

    /// Makes the file that is ordered; says what it is going to be called.
    fn make(&self) -> Result<(PathBuf, Box<dyn Sink>)> {
        loop {
            let name = self.free(self.register.ordered());
            refuse_what_is_no_file(&name)?;
            let part = part(&name);
            if self.replaces {
                refuse_if_written(&part)?;
                // What a capture left that was killed; and a ring has no room for what it replaces.
                remove(&part)?;
                if self.kept.is_ring() {
                    remove(&name)?;
                }
            }
            let made = FileSink::create_new(&part, &name, &FileConfig::default());
            let is_there_by_now = match &made {
                Err(error) => error.raw_os_error() == Some(libc::EEXIST),
                // From here on nobody else gives that name; until here somebody may have.
                Ok(_) => is_there(&name),
            };
            if self.replaces || !is_there_by_now {
                return Ok((name, made?));
            }
            // Another capture was faster, and this one takes the next name.
            if made.is_ok() {
                remove(&part)?;
            }
        }
    }

    /// Gives the complete file its name; `false`: there is none, because not a byte was written.
    fn give_name(&mut self) -> Result<bool> {
        let part = self.part.clone();
        let name = self.name.display().to_string();
        let failed = |cause| {
            let tried = format!("giving {} its final name", part.display());
            let error = Error::new(name.clone(), tried).because(cause);
            error.advise("What is written is whole, under that name")
        };
        let there = fs::symlink_metadata(&part).map_err(failed)?;
        let len = there.len();
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
        if self.replaces {
            fs::rename(&part, &self.name).map_err(failed)?;
        } else {
            // A file that appeared meanwhile keeps its name, and this one gets the next.
            while let Err(cause) = rename_to_new(&part, &self.name) {
                if cause.kind() != io::ErrorKind::AlreadyExists {
                    return Err(failed(cause));
                }
                self.name = self.next_free();
            }
        }
        self.is_named = true;
        self.kept.add(&self.name, len);
        Ok(true)
    }
}

impl Series for Shelf {
    fn open(&mut self, _number: u64) -> Result<Box<dyn Sink>> {
        self.kept.make_room(self.keep_files, self.keep_bytes)?;
        let (name, sink) = self.make()?;
        self.part = part(&name);
        self.ordered = name.clone();
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

/// Of numbered files another capture may be at any: none of them is replaced while it is under way.
///
/// # Errors
/// There is one.
pub(super) fn refuse_another(rotation: &Rotation) -> Result<()> {
    let Ok(there) = fs::read_dir(folder(&rotation.path)) else {
        return Ok(());
    };
    let paths = there.flatten().map(|entry| entry.path());
    let mut parts = paths.filter(|path| path.extension().is_some_and(|it| it == "part"));
    parts.try_for_each(|part| match rotation.replaces(&part) {
        true => refuse_if_written(&part),
        false => Ok(()),
    })
}

/// A file is locked while it is written, and the lock goes with its process: so it can be told from what a killed capture left.
fn refuse_if_written(part: &Path) -> Result<()> {
    let answer = open(part).map(|file| flock(file, FlockOperation::NonBlockingLockExclusive));
    if let Ok(Err(Errno::WOULDBLOCK)) = answer {
        let what = "another capture is writing it";
        let error = Error::new(part.display().to_string(), what);
        return Err(error.advise("Give each capture names of its own"));
    }
    Ok(())
}

fn open(part: &Path) -> io::Result<File> {
    let mut options = File::options();
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    options.read(true).custom_flags(flags).open(part)
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
    File::open(folder(name)).map_or(Ok(()), |folder| folder.sync_all())
}
