//! The spool: the folder in which a capture finishes its files, and from which they are shipped.
//!
//! ```text
//!  SPOOL/NAME.part          being written; taken over by the rules of `repair` if no process has it open
//!  SPOOL/NAME               finished, waits
//!  SPOOL/shipped/NAME       in the archive, kept for `--keep-local`
//!  SPOOL/failed/NAME        nothing in it can be read
//!  SPOOL/dropped/….json     what was removed before it was shipped; itself shipped to the archive
//!  SPOOL/.forebay-ship      the identity of the spool, its sensor, and files that were sent and not freed; locked by the `ship` that works on it
//!  SPOOL/.forebay-reserve   room for the records of dropped files if the disk is full
//! ```
//! The state of a file is the folder in which it is, so there is no journal: each step is a rename or a removal.

use anyhow::{Context, Result, bail};
use forebay::store::{lock_output, open_existing};
use forebay_net::{file::Plain, repair::Examined};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File, Metadata},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

const SHIPPED: &str = "shipped";
const FAILED: &str = "failed";
pub(super) const DROPPED: &str = "dropped";

/// Where the last lines of `.forebay-ship` begin. Its lines have fixed lengths, so changing them needs no room on a full disk.
const SENDING_AT: u64 = 33 + 65;
/// The length of these lines.
const SENDING_LEN: usize = 110;
/// Their number: files that may be in the archive and are still in the spool.
pub const MAX_SENDING: usize = 16;
/// A capture locks a file directly after it has created it. Empty files that are younger are not touched.
const NEW: Duration = Duration::from_secs(10);
/// Bytes that are kept for records of dropped files.
const RESERVE_BYTES: usize = 64 << 10;

/// A locked spool.
pub struct Spool {
    folder: PathBuf,
    /// 32 hexadecimal digits that only this spool has.
    pub id: String,
    /// The files that were sent, in the form of [`Finished::mark`]. Some may be gone.
    sending: Vec<String>,
    /// The files that were there when the folder was listed last, in the same form, without those that have left it since.
    there: HashSet<String>,
    /// The files in `shipped`, and their lengths.
    kept: BTreeMap<(SystemTime, PathBuf), u64>,
    kept_bytes: u64,
    /// `.forebay-ship`, with the lock.
    lock: File,
}

/// A finished file.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its path.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// When it was changed last.
    pub modified: SystemTime,
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
        name_of(&self.path)
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

    /// What distinguishes this file from all others of the spool.
    pub(super) fn mark(&self) -> String {
        let (device, inode, len, seconds, nanoseconds) = self.version;
        format!("{device} {inode} {len} {seconds} {nanoseconds}")
    }

    /// The name of the record that says that this file was dropped.
    fn record_name(&self) -> String {
        let (_, inode, _, seconds, nanoseconds) = self.version;
        format!("{seconds}.{nanoseconds:09}-{inode}.json")
    }

    /// Whether a compressed copy of it exists or is being written, which replaces it.
    pub fn is_being_compressed(&self) -> bool {
        let beside = |ending: &str| {
            let mut name = self.path.clone().into_os_string();
            name.push(ending);
            Path::new(&name).exists()
        };
        [".zst", ".zst.part", ".gz", ".gz.part"]
            .iter()
            .any(|it| beside(it))
    }

    /// Whether the path still leads to the file that was found.
    pub fn is_unchanged(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|about| version(&about) == self.version)
    }
}

/// The name of a file without its folder.
pub(super) fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
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
    /// Opens and locks the spool of a sensor.
    ///
    /// # Errors
    /// The folder does not exist or is read-only, another `ship` works on it, or it is the spool of another sensor.
    pub fn open(folder: &Path, sensor: &str) -> Result<Spool> {
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
        let mut text = String::new();
        lock.read_to_string(&mut text)
            .with_context(|| format!("{name}: reading .forebay-ship"))?;
        let mut lines = text.lines().map(str::trim);
        let mut line = || lines.next().unwrap_or_default().to_owned();
        let (mut id, owner) = (line(), line());
        let sending: Vec<String> = (0..MAX_SENDING).map(|_| line()).collect();
        if !owner.is_empty() && owner != sensor {
            bail!(
                "{name}: is the spool of the sensor {owner}. Its files would be stored twice as those of {sensor}: use --sensor {owner}, or \
                 another folder. To rename the sensor, ship everything first, then remove {}",
                path.display()
            );
        }
        let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_id || owner.is_empty() {
            if !is_id {
                id = crate::table::unique();
            }
            let lines = format!("{:<SENDING_LEN$}\n", "").repeat(MAX_SENDING);
            let text = format!("{id}\n{sensor:<64}\n{lines}");
            let written = lock
                .write_all_at(text.as_bytes(), 0)
                .and_then(|()| lock.sync_all());
            written.with_context(|| format!("{name}: writing .forebay-ship"))?;
        }
        let mut spool = Spool {
            folder: folder.into(),
            id,
            sending,
            there: HashSet::new(),
            kept: BTreeMap::new(),
            kept_bytes: 0,
            lock,
        };
        spool.finish_drops()?;
        spool.list()?;
        spool.reserve();
        Ok(spool)
    }

    /// Notes that this file is being sent. From then on it may be in the archive, so it must not be dropped and counted again.
    ///
    /// # Errors
    /// It cannot be written, or too many files were sent that are still there.
    pub fn mark(&mut self, file: &Finished) -> Result<()> {
        let mark = file.mark();
        if self.sending.contains(&mark) {
            return Ok(());
        }
        let name = self.folder.display();
        let unused = self.unused()?;
        let line = format!("{mark:<SENDING_LEN$}\n");
        let at = SENDING_AT + (unused * (SENDING_LEN + 1)) as u64;
        let written = self.lock.write_all_at(line.as_bytes(), at);
        written
            .and_then(|()| self.lock.sync_data())
            .with_context(|| format!("{name}: writing .forebay-ship"))?;
        self.sending[unused] = mark;
        Ok(())
    }

    /// A line that no file needs which is still there.
    fn unused(&self) -> Result<usize> {
        let mut lines = self.sending.iter();
        let unused = lines.position(|it| !self.there.contains(it));
        unused.with_context(|| {
            format!(
                "{}: {MAX_SENDING} files may be in the archive and could not be freed; no other one is sent before that",
                self.folder.display()
            )
        })
    }

    /// Checks that this file can be [marked](Spool::mark).
    ///
    /// # Errors
    /// Too many files were sent that are still there.
    pub fn check_mark(&self, file: &Finished) -> Result<()> {
        match self.is_marked(file) {
            true => Ok(()),
            false => self.unused().map(|_| ()),
        }
    }

    /// The finished files, without taking over any.
    fn list(&mut self) -> Result<Vec<Finished>> {
        let files = finished_in(&self.folder)?;
        self.there = files.iter().map(Finished::mark).collect();
        Ok(files)
    }

    /// Whether this file may be in the archive.
    pub fn is_marked(&self, file: &Finished) -> bool {
        self.sending.contains(&file.mark())
    }

    /// Keeps some room. Without it, a full disk could not be relieved.
    fn reserve(&self) {
        let path = self.folder.join(".forebay-reserve");
        let is_there = fs::metadata(&path).is_ok_and(|it| it.len() == RESERVE_BYTES as u64);
        if !is_there && fs::write(&path, vec![b' '; RESERVE_BYTES]).is_err() {
            let _ = fs::remove_file(&path); // the disk is full: later
        }
    }

    /// Removes files that were recorded as dropped by a `ship` that was killed before it removed them.
    fn finish_drops(&self) -> Result<()> {
        let recorded = self.dropped()?;
        let recorded: Vec<_> = recorded.iter().filter_map(|it| it.file_name()).collect();
        if recorded.is_empty() {
            return Ok(());
        }
        for file in finished_in(&self.folder)? {
            if recorded.contains(&file.record_name().as_ref()) {
                fs::remove_file(&file.path).with_context(|| {
                    format!(
                        "{}: removing it: it is recorded as dropped",
                        file.path.display()
                    )
                })?;
            }
        }
        Ok(())
    }

    /// A new file without a name, which vanishes with the process: in the spool, or in the system's folder for temporary files.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn scratch(&self, in_spool: bool) -> Result<File> {
        let path = match in_spool {
            true => self.folder.join(".forebay-ship.packing"),
            false => std::env::temp_dir().join(format!("forebay-ship-{}", crate::table::unique())),
        };
        if in_spool {
            let _ = fs::remove_file(&path); // of a `ship` that was killed
        }
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path);
        let file = file.and_then(|file| fs::remove_file(&path).map(|()| file));
        file.with_context(|| format!("{}: creating a file to pack into", path.display()))
    }

    /// The finished files, the oldest first. Takes over what a killed capture left; `failed` is called with the error of each file with
    /// which this is not possible.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn finished(&mut self, failed: &mut dyn FnMut(anyhow::Error)) -> Result<Vec<Finished>> {
        for path in files_in(&self.folder)? {
            let name = name_of(&path);
            if let Some(end) = name.strip_suffix(".part").filter(|name| is_capture(name)) {
                let taken = take_over(&path, &self.folder.join(end));
                let taken = taken.with_context(|| {
                    format!("{}: finishing what a killed capture left", path.display())
                });
                if let Err(error) = taken {
                    failed(error);
                }
            }
        }
        let mut files = self.list()?;
        // Those that may be in the archive first: until they are freed, it is not known where their packets are.
        files.sort_by_key(|it| !self.is_marked(it));
        Ok(files)
    }

    /// Removes a file that is in the archive, or keeps it in `shipped` and trims what is kept.
    ///
    /// # Errors
    /// It changed meanwhile, or cannot be removed.
    pub fn free(&mut self, file: &Finished, keep: Keep) -> Result<()> {
        if !file.is_unchanged() {
            bail!(
                "{}: changed while it was shipped, and stays",
                file.path.display()
            );
        }
        if keep == Keep::Nothing {
            let removed = fs::remove_file(&file.path);
            removed.with_context(|| format!("{}: removing it", file.path.display()))?;
            self.there.remove(&file.mark());
            return Ok(());
        }
        let path = self.move_to(SHIPPED, file)?;
        self.kept_bytes += file.bytes;
        if let Some(gone) = self.kept.insert((file.modified, path), file.bytes) {
            self.kept_bytes -= gone;
        }
        self.trim(keep);
        Ok(())
    }

    /// Puts a file aside that cannot be read at all.
    ///
    /// # Errors
    /// It cannot be moved.
    pub fn set_aside(&mut self, file: &Finished) -> Result<()> {
        self.move_to(FAILED, file).map(|_| ())
    }

    fn move_to(&mut self, folder: &str, file: &Finished) -> Result<PathBuf> {
        let folder = self.folder.join(folder);
        let (_, inode, _, seconds, _) = file.version;
        let mut to = folder.join(file.name());
        if to.exists() {
            to = folder.join(format!("{seconds}-{inode}-{}", file.name()));
        }
        let moved = fs::create_dir_all(&folder).and_then(|()| fs::rename(&file.path, &to));
        moved.with_context(|| {
            format!("{}: moving it to {}", file.path.display(), folder.display())
        })?;
        self.there.remove(&file.mark());
        Ok(to)
    }

    /// Lists the kept files, and removes the oldest ones until the rest is within the limits.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn trim_kept(&mut self, limit: Keep) -> Result<()> {
        let folder = self.folder.join(SHIPPED);
        if !folder.exists() {
            return Ok(());
        }
        let kept = finished_in(&folder)?.into_iter();
        self.kept = kept.map(|it| ((it.modified, it.path), it.bytes)).collect();
        self.kept_bytes = self.kept.values().sum();
        self.trim(limit);
        Ok(())
    }

    fn trim(&mut self, limit: Keep) {
        while let Some(oldest) = self.kept.first_entry() {
            let (modified, path) = oldest.key();
            let is_over = match limit {
                Keep::Nothing => true,
                Keep::Bytes(max) => self.kept_bytes > max,
                Keep::For(time) => modified.elapsed().is_ok_and(|age| age > time),
            };
            if !is_over {
                return;
            }
            let _ = fs::remove_file(path);
            self.kept_bytes -= oldest.remove();
        }
    }

    /// Removes a file that was not shipped, and leaves a record of it first.
    ///
    /// # Errors
    /// The record cannot be written; then the file stays.
    pub fn drop_unshipped(&self, file: &Finished, record: &str) -> Result<()> {
        let folder = self.folder.join(DROPPED);
        let path = folder.join(file.record_name());
        let part = path.with_extension("part");
        let write = || {
            fs::create_dir_all(&folder)?;
            let mut to = File::create(&part)?;
            to.write_all(record.as_bytes())?;
            to.sync_all()?;
            fs::rename(&part, &path)?;
            File::open(&folder)?.sync_all()
        };
        let written = write().or_else(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                fs::remove_file(self.folder.join(".forebay-reserve"))?;
                write()
            }
            _ => Err(error),
        });
        written.with_context(|| format!("{}: recording a dropped file", folder.display()))?;
        let removed = fs::remove_file(&file.path);
        // After a power cut it must not be there again when its record has left the spool.
        let _ = File::open(&self.folder).and_then(|folder| folder.sync_all());
        if removed.is_err() {
            let _ = fs::remove_file(&path); // it stays, so it is not counted as dropped
        }
        self.reserve();
        removed.with_context(|| format!("{}: removing it", file.path.display()))
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
    // A capture that was killed while it compressed a file leaves both: the packed one waits until its original is gone.
    let names: HashSet<PathBuf> = found.iter().map(|it| it.path.clone()).collect();
    found.retain(|it| {
        let is_packed = it
            .path
            .extension()
            .is_some_and(|it| it == "zst" || it == "gz");
        !is_packed || !names.contains(&it.path.with_extension(""))
    });
    found.sort_by(|a, b| (a.modified, &a.path).cmp(&(b.modified, &b.path)));
    Ok(found)
}

/// Finishes what a killed capture left: cuts it after its last whole packet and gives it its final name. A file that a process writes
/// stays.
fn take_over(part: &Path, end: &Path) -> Result<()> {
    let is_new = |about: &Metadata| {
        let changed = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        about.len() == 0 && changed.elapsed().map_or(true, |age| age < NEW)
    };
    // Locking it before its capture does would leave it without a lock later.
    if fs::symlink_metadata(part).is_ok_and(|about| is_new(&about)) {
        return Ok(());
    }
    let lock = match open_existing(part, File::options().read(true).write(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        lock => lock?,
    };
    if lock_output(&lock).is_err() {
        return Ok(());
    }
    let is_packed = end.extension().is_some_and(|it| it == "zst" || it == "gz");
    // An incomplete copy that `--compress` was writing, or a file without a packet.
    if lock.metadata()?.len() == 0 || (is_packed && end.with_extension("").exists()) {
        fs::remove_file(part)?;
        return Ok(());
    }
    // A `ship` was killed after it had given the file its final name.
    let identity = |about: Metadata| (about.dev(), about.ino());
    if fs::symlink_metadata(end).is_ok_and(|it| {
        lock.metadata()
            .is_ok_and(|lock| identity(lock) == identity(it))
    }) {
        fs::remove_file(part)?;
        return Ok(());
    }
    drop(lock);
    let examined = Examined::of(part)?;
    if !examined.is_whole() {
        examined.cut()?;
    }
    // Never replaces a file: a link fails if the name exists.
    fs::hard_link(part, end).with_context(|| format!("naming it {}", end.display()))?;
    fs::remove_file(part)?;
    Ok(())
}

/// Files that are in a spool and in no count, by kind: the number and the bytes of each.
pub(crate) fn others_in(folder: &Path) -> Result<Vec<(&'static str, u64, u64)>> {
    let mut kinds = vec![("unfinished", 0, 0), ("cut", 0, 0), ("failed", 0, 0)];
    let mut add = |kind: usize, path: &Path| {
        if let Ok(about) = fs::symlink_metadata(path)
            && about.is_file()
        {
            kinds[kind].1 += 1;
            kinds[kind].2 += about.len();
        }
    };
    for path in files_in(folder)? {
        match path.extension().and_then(|it| it.to_str()) {
            Some("part") => add(0, &path),
            Some("cut") => add(1, &path),
            _ => {}
        }
    }
    if let Ok(failed) = files_in(&folder.join(FAILED)) {
        failed.iter().for_each(|path| add(2, path));
    }
    Ok(kinds)
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

/// The packets of a file and the SHA-256 of its uncompressed bytes; `None`: it is gone.
pub(crate) fn contents(path: &Path) -> Option<(u64, String)> {
    let file = File::open(path).ok()?;
    let mut hash = Sha256::new();
    // Of a damaged file only the packets count: it is not in the archive as it is.
    let _ = plain(&file).and_then(|mut bytes| io::copy(&mut bytes, &mut hash));
    Some((packets(path), crate::segment::hex(&hash.finalize())))
}

/// Opens the uncompressed bytes of a finished file.
pub(super) fn plain(file: &File) -> io::Result<Plain> {
    let mut again = file.try_clone()?;
    again.seek(SeekFrom::Start(0))?;
    Plain::new(again)
}
