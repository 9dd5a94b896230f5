//! `SPOOL/.forebay-ship`: the identity of the spool, the sensor that owns it, and the files that were sent and not freed.
//!
//! Its lines have fixed lengths, so changing them needs no room. Only the first write does. If the disk is full before that, the state is
//! kept in memory, with an identity that the next `ship` computes, too. Then only the oldest file is sent, so that the next `ship` knows
//! which file may be in the archive.

use anyhow::{Context, Result, bail, ensure};
use forebay::store::lock_output;
use sha2::{Digest, Sha256};
use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

const NAME: &str = ".forebay-ship";
/// Where the second line begins, the sensor.
const OWNER_AT: u64 = 33;
/// Where the lines of files begin.
const SENDING_AT: u64 = OWNER_AT + 65;
/// The length of these lines.
const SENDING_LEN: usize = 110;
/// Their number: files that may be in the archive and are still in the spool.
pub const MAX_SENDING: usize = 16;

/// The locked state of a spool.
pub(super) struct State {
    folder: PathBuf,
    /// 32 hexadecimal digits that only this spool has.
    pub(super) id: String,
    /// Empty: no sensor owns the spool yet.
    owner: String,
    /// The files that were sent. Some may be gone.
    sending: Vec<String>,
    /// No archive knows the identity yet.
    is_new: bool,
    /// The disk was full, so it is not written yet.
    is_in_memory: bool,
    /// The file, or the folder if there was no room for a file.
    lock: File,
}

impl State {
    /// Opens and locks it. What this creates is removed again unless it is [kept](State::keep).
    pub(super) fn open(folder: &Path, sensor: &str) -> Result<State> {
        let name = folder.display();
        let mut lock = open_and_lock(folder)?;
        let mut text = String::new();
        if lock.metadata()?.is_file() {
            lock.read_to_string(&mut text)
                .with_context(|| format!("{name}: reading {NAME}"))?;
        }
        let mut lines = text.lines().map(str::trim);
        let mut line = || lines.next().unwrap_or_default().to_owned();
        let (id, owner) = (line(), line());
        let sending = (0..MAX_SENDING).map(|_| line()).collect();
        if !owner.is_empty() && owner != sensor {
            bail!(
                "{name}: is the spool of the sensor {owner}: use --sensor {owner}. Its files would be stored twice as those of {sensor}. To \
                 rename the sensor, ship everything first, then remove {name}/{NAME}"
            );
        }
        let is_new = !(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let mut state = State {
            folder: folder.into(),
            id,
            owner,
            sending,
            is_new,
            is_in_memory: false,
            lock,
        };
        if is_new {
            state.id = crate::table::unique();
            match state.write() {
                Err(error) if is_full(&error) => state.id = lasting_id(folder)?,
                written => written.with_context(|| format!("{name}: writing {NAME}"))?,
            }
        }
        Ok(state)
    }

    /// Writes it as a whole.
    fn write(&mut self) -> io::Result<()> {
        self.is_in_memory = true;
        if !self.lock.metadata()?.is_file() {
            self.lock = open_and_lock(&self.folder).map_err(io::Error::other)?;
        }
        let mut text = format!("{}\n{:<64}\n", self.id, self.owner);
        for mark in &self.sending {
            text += &format!("{mark:<SENDING_LEN$}\n");
        }
        let written = self.lock.write_all_at(text.as_bytes(), 0);
        let written = written.and_then(|()| self.lock.sync_all());
        match written {
            Ok(()) => self.is_in_memory = false,
            Err(_) => drop(self.lock.set_len(0)), // a part of it means nothing
        }
        written
    }

    /// Writes it if the disk was full. `true`: it is written.
    pub(super) fn write_late(&mut self) -> bool {
        !self.is_in_memory || self.write().is_ok()
    }

    /// The disk was full, so it is not written yet.
    pub(super) fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    /// Whether a sensor owns the spool.
    pub(super) fn is_bound(&self) -> bool {
        !self.owner.is_empty()
    }

    /// Takes this identity if it is that of the folder: a `ship` on a full disk used it, and was killed before it could write it.
    /// `oldest`: the file that it may have sent.
    pub(super) fn adopt(&mut self, id: &str, oldest: Option<String>) -> Result<bool> {
        if self.is_bound() || lasting_id(&self.folder)? != id {
            return Ok(false);
        }
        self.keep();
        self.id = id.into();
        self.sending[0] = oldest.unwrap_or_default();
        match self.write() {
            Err(error) if !is_full(&error) => {
                let folder = self.folder.display();
                Err(error).with_context(|| format!("{folder}: writing {NAME}"))
            }
            _ => Ok(true),
        }
    }

    /// An archive may know the identity from now on, so it stays.
    pub(super) fn keep(&mut self) {
        self.is_new = false;
    }

    /// Gives the spool to a sensor.
    pub(super) fn bind(&mut self, sensor: &str) -> Result<()> {
        if self.is_bound() {
            return Ok(());
        }
        self.keep();
        self.owner = sensor.into();
        if self.is_in_memory {
            self.write_late();
            return Ok(());
        }
        self.put(format!("{sensor:<64}"), OWNER_AT)
    }

    /// Writes a line in place.
    fn put(&self, line: String, at: u64) -> Result<()> {
        let written = self.lock.write_all_at(line.as_bytes(), at);
        let written = written.and_then(|()| self.lock.sync_data());
        written.with_context(|| format!("{}: writing {NAME}", self.folder.display()))
    }

    /// Whether this file may be in the archive.
    pub(super) fn has(&self, mark: &str) -> bool {
        self.sending.iter().any(|it| it == mark)
    }

    /// Notes a file that is being sent. `there`: the files of the spool.
    pub(super) fn add(&mut self, mark: String, there: &HashSet<String>) -> Result<()> {
        self.keep();
        if self.has(&mark) {
            return Ok(());
        }
        let unused = self.check(there)?;
        let at = SENDING_AT + (unused * (SENDING_LEN + 1)) as u64;
        self.put(format!("{mark:<SENDING_LEN$}\n"), at)?;
        self.sending[unused] = mark;
        Ok(())
    }

    /// A line for another file.
    pub(super) fn check(&mut self, there: &HashSet<String>) -> Result<usize> {
        let folder = self.folder.clone();
        ensure!(
            self.write_late(),
            "{}: the disk is full, also for {NAME}: only the oldest file is sent before there is room",
            folder.display()
        );
        let unused = self.sending.iter().position(|it| !there.contains(it));
        unused.with_context(|| {
            format!(
                "{}: {MAX_SENDING} files may be in the archive and could not be freed; no other one is sent before that",
                folder.display()
            )
        })
    }

    /// The oldest file of the spool. On a full disk every `ship` sends this one first, also one that was killed.
    pub(super) fn oldest(&mut self, mark: String, there: &HashSet<String>) {
        if self.is_in_memory && !self.sending.iter().any(|it| there.contains(it)) {
            self.sending[0] = mark;
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if self.is_new {
            let _ = fs::remove_file(self.folder.join(NAME));
        }
    }
}

/// Opens and locks the file, or the folder if the disk has no room for a new file.
fn open_and_lock(folder: &Path) -> Result<File> {
    let path = folder.join(NAME);
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let (file, is_locked) = match options.open(&path) {
        Err(error) if is_full(&error) => {
            let folder = File::open(folder)?;
            let is_locked = folder.try_lock().is_ok();
            (folder, is_locked)
        }
        file => {
            let file = file.with_context(|| {
                let folder = folder.display();
                format!("{folder}: opening the spool. Create the folder, or correct its name")
            })?;
            // The `ship` that had the lock may have removed the file.
            let inode = |it: io::Result<fs::Metadata>| it.map(|it| it.ino()).ok();
            let is_locked =
                lock_output(&file).is_ok() && inode(fs::metadata(&path)) == inode(file.metadata());
            (file, is_locked)
        }
    };
    let folder = folder.display();
    ensure!(
        is_locked,
        "{folder}: another `ship` works on this spool. End it first"
    );
    Ok(file)
}

/// An identity that a folder has without writing it down.
fn lasting_id(folder: &Path) -> Result<String> {
    let about = fs::metadata(folder)?;
    let created = about.created().ok();
    let created = created.and_then(|it| it.duration_since(SystemTime::UNIX_EPOCH).ok());
    let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let path = folder.canonicalize()?;
    let whole = format!("{machine} {} {} {created:?}", path.display(), about.ino());
    let mut id = crate::segment::hex(&Sha256::digest(whole));
    id.truncate(32);
    Ok(id)
}

/// Whether there was no room on a disk.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}
