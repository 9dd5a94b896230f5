//! The spool: the folder in which a capture finishes its files, and from which they are shipped.
//!
//! ```text
//!  SPOOL/NAME.part          being written; taken over by the rules of `repair` if no process has it open
//!  SPOOL/NAME               finished, waits
//!  SPOOL/shipped/NAME       in the archive, kept for `--keep-local`
//!  SPOOL/failed/NAME        nothing in it can be read
//!  SPOOL/dropped/….json     what was removed before it was shipped; itself shipped to the archive
//!  SPOOL/.forebay-ship      the identity of the spool; locked by the `ship` that works on it
//! ```
//! The state of a file is the folder in which it is, so there is no journal: each step is a rename or a removal.

use anyhow::{Context, Result, bail};
use forebay::store::{lock_output, open_existing};
use forebay_net::{file::Plain, repair::Examined};
use std::{
    fs::{self, File, Metadata},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

const SHIPPED: &str = "shipped";
const FAILED: &str = "failed";
pub(super) const DROPPED: &str = "dropped";

/// A locked spool.
pub struct Spool {
    folder: PathBuf,
    /// 32 hexadecimal digits that only this spool has.
    pub id: String,
    /// Holds the lock.
    _lock: File,
}

/// A finished file.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its path.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    modified: SystemTime,
    /// Device, inode, length, time of the last change.
    version: (u64, u64, u64, i64, i64),
}

fn version(about: &Metadata) -> (u64, u64, u64, i64, i64) {
    (
        about.dev(),
        about.ino(),
        about.len(),
        about.mtime(),
        about.mtime_nsec(),
    )
}

impl Finished {
    fn of(path: PathBuf, about: &Metadata) -> Finished {
        Finished {
            bytes: about.len(),
            modified: about.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            version: version(about),
            path,
        }
    }

    /// The name without the folder.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Opens it and locks it, so that no capture writes to it meanwhile. `None`: it is in use, or gone.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(&self) -> io::Result<Option<File>> {
        let opened = open_existing(&self.path, File::options().read(true).write(true));
        match opened {
            Ok(file) => Ok(lock_output(&file).is_ok().then_some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // Another user's file: only its owner can lock it.
            Err(_) => File::open(&self.path).map(Some),
        }
    }

    /// Whether the path still leads to the file that was found.
    pub fn is_unchanged(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|about| version(&about) == self.version)
    }
}

/// Whether a capture file may have this name.
fn is_capture(name: &str) -> bool {
    let plain = name
        .strip_suffix(".gz")
        .or_else(|| name.strip_suffix(".zst"))
        .unwrap_or(name);
    let endings = [".pcapng", ".pcap", ".cap"];
    // Numbers after the ending: those of tcpdump (a.pcap1), and of a capture whose name was taken (a.pcapng.1).
    let unnumbered = plain.trim_end_matches(|it: char| it.is_ascii_digit());
    let plain = match unnumbered.strip_suffix('.') {
        Some(unnumbered) if unnumbered.len() + 1 < plain.len() => unnumbered,
        _ => unnumbered,
    };
    !name.starts_with('.') && endings.iter().any(|ending| plain.ends_with(ending))
}

impl Spool {
    /// Opens and locks a spool.
    ///
    /// # Errors
    /// The folder does not exist or is read-only, or another `ship` works on it.
    pub fn open(folder: &Path) -> Result<Spool> {
        let name = folder.display();
        let path = folder.join(".forebay-ship");
        let mut options = File::options();
        let opened = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let mut lock = opened.with_context(|| {
            format!("{name}: opening the spool. Create the folder, or correct its name")
        })?;
        if lock_output(&lock).is_err() {
            bail!("{name}: another `ship` works on this spool. End it first");
        }
        let mut id = String::new();
        lock.read_to_string(&mut id)
            .with_context(|| format!("{name}: reading .forebay-ship"))?;
        let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_id {
            id = crate::table::unique();
            let written = lock
                .set_len(0)
                .and_then(|()| lock.seek(SeekFrom::Start(0)))
                .and_then(|_| lock.write_all(id.as_bytes()))
                .and_then(|()| lock.sync_all());
            written.with_context(|| format!("{name}: writing .forebay-ship"))?;
        }
        Ok(Spool {
            folder: folder.into(),
            id,
            _lock: lock,
        })
    }

    /// A new file without a name in the spool, which vanishes with the process.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn scratch(&self) -> Result<File> {
        let path = self.folder.join(".forebay-ship.packing");
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path);
        let file = file.and_then(|file| fs::remove_file(&path).map(|()| file));
        file.with_context(|| format!("{}: creating a file to pack into", self.folder.display()))
    }

    /// The finished files, the oldest first. Takes over what a killed capture left.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn finished(&self) -> Result<Vec<Finished>> {
        for path in files_in(&self.folder)? {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if let Some(end) = name.strip_suffix(".part").filter(|name| is_capture(name)) {
                // It fails while a process writes the file, and with a file that has no whole header yet.
                let _ = take_over(&path, &self.folder.join(end));
            }
        }
        finished_in(&self.folder)
    }

    /// Removes a file that is in the archive, or keeps it in `shipped`.
    ///
    /// # Errors
    /// It changed meanwhile, or cannot be removed.
    pub fn free(&self, file: &Finished, keep: bool) -> Result<()> {
        if !file.is_unchanged() {
            bail!(
                "{}: changed while it was shipped, and stays",
                file.path.display()
            );
        }
        match keep {
            true => self.move_to(SHIPPED, file),
            false => fs::remove_file(&file.path)
                .with_context(|| format!("{}: removing it", file.path.display())),
        }
    }

    /// Puts a file aside that cannot be read at all.
    ///
    /// # Errors
    /// It cannot be moved.
    pub fn set_aside(&self, file: &Finished) -> Result<()> {
        self.move_to(FAILED, file)
    }

    fn move_to(&self, folder: &str, file: &Finished) -> Result<()> {
        let folder = self.folder.join(folder);
        let (_, inode, _, seconds, _) = file.version;
        let mut to = folder.join(file.name());
        if to.exists() {
            to = folder.join(format!("{seconds}-{inode}-{}", file.name()));
        }
        let moved = fs::create_dir_all(&folder).and_then(|()| fs::rename(&file.path, &to));
        moved.with_context(|| format!("{}: moving it to {}", file.path.display(), folder.display()))
    }

    /// Removes the oldest kept files until the rest is within the limits.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn trim_kept(&self, limit: Keep) -> Result<()> {
        let folder = self.folder.join(SHIPPED);
        if !folder.exists() {
            return Ok(());
        }
        let kept = finished_in(&folder)?;
        let mut bytes: u64 = kept.iter().map(|it| it.bytes).sum();
        for file in kept {
            let is_over = match limit {
                Keep::Nothing => true,
                Keep::Bytes(max) => bytes > max,
                Keep::For(time) => file.modified.elapsed().is_ok_and(|age| age > time),
            };
            if is_over {
                let _ = fs::remove_file(&file.path);
                bytes -= file.bytes;
            }
        }
        Ok(())
    }

    /// Removes a file that was not shipped, and leaves a record of it first.
    ///
    /// # Errors
    /// The record cannot be written; then the file stays.
    pub fn drop_unshipped(&self, file: &Finished, record: &str) -> Result<()> {
        let folder = self.folder.join(DROPPED);
        let (_, inode, _, seconds, nanoseconds) = file.version;
        let path = folder.join(format!("{seconds}.{nanoseconds:09}-{inode}.json"));
        let part = path.with_extension("part");
        let written = fs::create_dir_all(&folder).and_then(|()| {
            let mut to = File::create(&part)?;
            to.write_all(record.as_bytes())?;
            to.sync_all()?;
            fs::rename(&part, &path)?;
            File::open(&folder)?.sync_all()
        });
        written.with_context(|| format!("{}: recording a dropped file", folder.display()))?;
        fs::remove_file(&file.path).with_context(|| format!("{}: removing it", file.path.display()))
    }

    /// The records of dropped files that are not in the archive yet.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn dropped(&self) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join(DROPPED);
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let mut paths = files_in(&folder)?;
        paths.retain(|path| path.extension().is_some_and(|it| it == "json"));
        Ok(paths)
    }
}

/// What is kept of files that were shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// The newest files, up to this length in all.
    Bytes(u64),
    /// Files that are younger than this.
    For(Duration),
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = || -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?;
        entries.map(|entry| Ok(entry?.path())).collect()
    };
    read().with_context(|| format!("{}: reading this folder", folder.display()))
}

/// The finished capture files of a folder, the oldest first.
pub(crate) fn finished_in(folder: &Path) -> Result<Vec<Finished>> {
    let mut found = Vec::new();
    for path in files_in(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !is_capture(&name) {
            continue;
        }
        // Links are not followed. A file may have vanished: a capture removes the oldest ones of its series.
        if let Ok(about) = fs::symlink_metadata(&path)
            && about.is_file()
            && about.len() > 0
        {
            found.push(Finished::of(path, &about));
        }
    }
    found.sort_by(|a, b| (a.modified, &a.path).cmp(&(b.modified, &b.path)));
    Ok(found)
}

/// Finishes what a killed capture left: cuts it after its last whole packet and gives it its final name.
fn take_over(part: &Path, end: &Path) -> Result<()> {
    let lock = open_existing(part, File::options().read(true).write(true))?;
    lock_output(&lock)?;
    drop(lock);
    let examined = Examined::of(part)?;
    if !examined.is_whole() {
        examined.cut()?;
    }
    // Never replaces a file: a link fails if the name exists.
    fs::hard_link(part, end)?;
    fs::remove_file(part)?;
    Ok(())
}

/// Counts the packets of a file, up to a fault.
pub(crate) fn packets(path: &Path) -> u64 {
    use forebay_net::port::{Port, Wake};
    let Ok(mut file) = forebay_net::file::File::open(path) else {
        return 0;
    };
    loop {
        match file.receive(4096) {
            Ok(mut burst) => while burst.next_frame().is_some() {},
            Err(_) => break,
        }
        if matches!(file.arm(), Ok(Wake::End) | Err(_)) {
            break;
        }
    }
    file.counts().received
}

/// Opens the uncompressed bytes of a finished file.
pub(super) fn plain(file: &File) -> io::Result<Plain> {
    let mut again = file.try_clone()?;
    again.seek(SeekFrom::Start(0))?;
    Plain::new(again)
}
