//! Where the files of a series stand: made under a name of their own, named when complete, removed for newer ones.

use super::{Names, Register, Rotation, names::behind};
use forebay::{
    Error, Result,
    store::{FileConfig, FileSink, Series, Sink, SyncPolicy},
};
use std::{
    collections::VecDeque,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

pub(in crate::session) struct Shelf {
    register: Register,
    /// Names may be those of files that are there.
    replaces: bool,
    keep_files: u64,
    keep_bytes: u64,
    file_bytes: u64,
    /// Complete files with their sizes, oldest first, where it matters.
    kept: VecDeque<(PathBuf, u64)>,
    /// What the file being written is going to be called.
    name: PathBuf,
    syncs: bool,
}

impl Shelf {
    pub fn new(rotation: &Rotation, register: Register, sync: SyncPolicy) -> Self {
        Shelf {
            register,
            replaces: rotation.names == Names::Numbered,
            keep_files: rotation.keep_files.unwrap_or(u64::MAX),
            keep_bytes: rotation.keep_bytes.unwrap_or(u64::MAX),
            file_bytes: rotation.bytes.unwrap_or(0),
            kept: VecDeque::new(),
            name: PathBuf::new(),
            syncs: sync != SyncPolicy::None,
        }
    }

    fn is_ring(&self) -> bool {
        self.keep_files.min(self.keep_bytes) < u64::MAX
    }

    /// Removes the oldest files, so that there is room for another one.
    fn make_room(&mut self) -> Result<()> {
        let bytes = |kept: &VecDeque<(PathBuf, u64)>| kept.iter().map(|(_, len)| len).sum::<u64>();
        while self.kept.len() as u64 >= self.keep_files
            || bytes(&self.kept).saturating_add(self.file_bytes) > self.keep_bytes
        {
            let Some((oldest, _)) = self.kept.front() else {
                break;
            };
            remove(oldest)?;
            self.register.removed(oldest);
            self.kept.pop_front();
        }
        Ok(())
    }

    /// A name of a time is given to one file only.
    fn free(&self, name: PathBuf) -> PathBuf {
        let is_taken = |name: &Path| is_there(name) || is_there(&part(name));
        if self.replaces || !is_taken(&name) {
            return name;
        }
        let others = (1u64..).map(|number| behind(&name, format!(".{number}")));
        let mut free = others.filter(|other| !is_taken(other));
        free.next().unwrap_or(name)
    }
}

impl Series for Shelf {
    fn open(&mut self, _number: u64) -> Result<Box<dyn Sink>> {
        self.make_room()?;
        let name = self.free(self.register.ordered());
        refuse_what_is_no_file(&name)?;
        let part = part(&name);
        if self.replaces {
            // What a capture left that was killed; and a ring has no room for what it replaces.
            remove(&part)?;
            if self.is_ring() {
                remove(&name)?;
            }
        }
        let sink = FileSink::create_new(&part, &name, &FileConfig::default())?;
        self.name = name;
        self.register.opened();
        Ok(sink)
    }

    fn complete(&mut self, _number: u64) -> Result<()> {
        let part = part(&self.name);
        let failed = |cause| {
            let tried = format!("giving {} its final name", part.display());
            Error::new(self.name.display().to_string(), tried).because(cause)
        };
        let len = fs::symlink_metadata(&part).map_err(failed)?.len();
        if len == 0 {
            // The disk was full before its first byte: that is no capture file.
            return fs::remove_file(&part).map_err(failed);
        }
        refuse_what_is_no_file(&self.name)?;
        fs::rename(&part, &self.name).map_err(failed)?;
        if self.syncs {
            sync_folder(&self.name).map_err(failed)?;
        }
        if self.is_ring() {
            self.kept.push_back((self.name.clone(), len));
        }
        self.register.finished(&self.name);
        Ok(())
    }
}

fn part(name: &Path) -> PathBuf {
    behind(name, ".part")
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

/// Where nothing is, nothing is to be done. A link is removed itself.
fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let what = "removing it for a newer file";
            Err(Error::new(path.display().to_string(), what).because(error))
        }
        _ => Ok(()),
    }
}

/// Makes the name durable; a folder that may be written but not read cannot be opened for that.
fn sync_folder(name: &Path) -> io::Result<()> {
    let folder = match name.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder).map_or(Ok(()), |folder| folder.sync_all())
}
