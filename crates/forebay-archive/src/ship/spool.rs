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
//!  SPOOL/.dropped …         a file that was dropped on a full disk without this room; its name has the record
//! ```
//! The state of a file is the folder in which it is, so there is no journal: each step is a rename or a removal.

use super::{
    dropped::{Dropped, files_in},
    state::{MAX_SENDING, State},
};
use crate::archive::BadRequest;
use anyhow::{Context, Result, bail, ensure};
use forebay::store::{lock_output, open_existing};
use forebay_net::{file::Plain, repair::Examined};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File, Metadata},
    io::{self, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

const SHIPPED: &str = "shipped";
const FAILED: &str = "failed";

/// A capture locks a file directly after it has created it. Empty files that are younger are not touched.
const NEW: Duration = Duration::from_secs(10);

/// A locked spool.
pub struct Spool {
    folder: PathBuf,
    state: State,
    dropped: Dropped,
    /// The files that were there when the folder was listed last, in the form of [`Finished::mark`], without those that have left it since.
    there: HashSet<String>,
    /// The files in `shipped`, and their lengths.
    kept: BTreeMap<(SystemTime, PathBuf), u64>,
    kept_bytes: u64,
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
    /// Opens and locks the spool of a sensor. What this creates is removed again unless the spool is [kept](Spool::keep).
    ///
    /// # Errors
    /// The name of the sensor is malformed, the folder does not exist or is read-only, another `ship` works on it, or it is the spool of
    /// another sensor.
    pub fn open(folder: &Path, sensor: &str) -> Result<Spool> {
        ensure!(
            crate::segment::is_sensor_name(sensor),
            BadRequest(format!(
                "{sensor}: cannot be the name of a sensor. Use up to 64 letters, digits, dots, dashes and underscores"
            ))
        );
        let mut spool = Spool {
            state: State::open(folder, sensor)?,
            dropped: Dropped::of(folder),
            folder: folder.into(),
            there: HashSet::new(),
            kept: BTreeMap::new(),
            kept_bytes: 0,
        };
        spool.finish_drops()?;
        spool.list()?;
        Ok(spool)
    }

    /// What distinguishes this spool from all others.
    pub(super) fn id(&self) -> &str {
        &self.state.id
    }

    /// Whether the sensor owns the spool.
    pub(super) fn is_bound(&self) -> bool {
        self.state.is_bound()
    }

    /// An archive may know the identity of the spool from now on, so it stays.
    pub fn keep(&mut self) {
        self.state.keep();
    }

    /// Takes this identity if it is that of the folder. `false`: it is not.
    ///
    /// # Errors
    /// The spool cannot be read or written.
    pub(super) fn adopt(&mut self, id: &str) -> Result<bool> {
        let oldest = self.list()?.first().map(Finished::mark);
        self.state.adopt(id, oldest)
    }

    /// Gives the spool to a sensor.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn bind(&mut self, sensor: &str) -> Result<()> {
        self.dropped.reserve();
        self.state.bind(sensor)
    }

    /// Notes that this file is being sent. From then on it may be in the archive, so it must not be dropped and counted again.
    ///
    /// # Errors
    /// It cannot be written, or too many files were sent that are still there.
    pub fn mark(&mut self, file: &Finished) -> Result<()> {
        self.state.add(file.mark(), &self.there)
    }

    /// Checks that this file can be [marked](Spool::mark).
    ///
    /// # Errors
    /// Too many files were sent that are still there, or the disk is full.
    pub fn check_mark(&mut self, file: &Finished) -> Result<()> {
        match self.is_marked(file) {
            true => Ok(()),
            false => self.state.check(&self.there).map(|_| ()),
        }
    }

    /// Whether another file than the marked ones cannot be marked.
    pub(super) fn is_all_marked(&self, marked: usize) -> bool {
        self.state.is_in_memory() || marked >= MAX_SENDING
    }

    /// The finished files, without taking over any.
    fn list(&mut self) -> Result<Vec<Finished>> {
        let files = finished_in(&self.folder)?;
        self.there = files.iter().map(Finished::mark).collect();
        if let Some(oldest) = files.first() {
            self.state.oldest(oldest.mark(), &self.there);
        }
        Ok(files)
    }

    /// Whether this file may be in the archive.
    pub fn is_marked(&self, file: &Finished) -> bool {
        self.state.has(&file.mark())
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
    pub fn drop_unshipped(&mut self, file: &Finished, record: &str) -> Result<()> {
        let name = file.record_name();
        self.dropped.remove(&file.path, &name, record)?;
        self.there.remove(&file.mark());
        self.state.write_late();
        self.dropped.reserve();
        Ok(())
    }

    /// The records of dropped files that are not in the archive yet.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn dropped(&self) -> Result<Vec<PathBuf>> {
        self.dropped.list()
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
