//! Repairs capture files with a damaged end: finds the end of the last whole packet, and truncates the file there.
//!
//! ```text
//!  FILE   │ header │ packet │ packet │ packet │ pac      a crash, a full disk, zeros allocated ahead
//!                                             ╵
//!  FILE   │ header │ packet │ packet │ packet │
//!  FILE.cut                                   │ pac      the removed bytes, unless all of them are zero
//! ```
//! One pass with the normal capture reader finds the place: all blocks and packets that the reader accepts are kept. A compressed file
//! consists of gzip members or zstd frames; forebay writes one for each buffer. Such a file is truncated after the last whole member
//! or frame, if this one ends with a whole packet.

use crate::{file::File, port::Port, sys};
use forebay::{
    Error, Result,
    store::{lock_output, open_existing},
};
use rustix::{
    fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with},
    io::Errno,
};
use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    os::{
        fd::AsFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::atomic::AtomicU64,
    time::{Duration, Instant},
};

/// How much of a capture file is whole.
///
/// ```
/// use forebay_net::{open, repair::Examined, session::{SessionConfig, Control, Output, Session}};
///
/// let path = std::env::temp_dir().join(format!("repair-{}.pcapng", std::process::id()));
/// # let names = ["sim:clock=virtual,count=10".parse()?];
/// # let clock = open::clock(&names)?;
/// # let ports = open::ports(&names, &Default::default(), &clock)?;
/// # let output = Output::File(path.clone());
/// # Session::open(ports, output, SessionConfig::default(), clock, Control::new()?)?.run(&mut |_| {});
/// let mut bytes = std::fs::read(&path).unwrap(); // ten packets of 60 bytes, and statistics
/// bytes.truncate(bytes.len() - 150);
/// std::fs::write(&path, bytes).unwrap();
///
/// let torn = Examined::of(&path)?;
/// assert!(torn.packets < 10 && !torn.is_whole());
/// let rest = torn.cut()?.expect("a rest with data");
/// assert!(Examined::of(&path)?.is_whole());
/// assert_eq!(std::fs::metadata(&rest).unwrap().len(), torn.bytes - torn.whole_bytes);
/// # std::fs::remove_file(path).unwrap();
/// # std::fs::remove_file(rest).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Examined {
    /// The path.
    pub path: PathBuf,
    /// The length of the file.
    pub bytes: u64,
    /// The length up to the end of its last whole block, or packet. In a compressed file: up to the end of its last whole gzip member
    /// or zstd frame.
    pub whole_bytes: u64,
    /// The number of whole packets.
    pub packets: u64,
    /// The fault after them, and its offset.
    pub fault: Option<Error>,
    /// The fault is that the file ends too early: what follows the whole packets is the beginning of another one.
    is_torn: bool,
    version: Version,
    /// It is another user's file, so the system does not report whether a process has it open for writing.
    is_untold: bool,
}

/// How long a file that is in use is tried again. A program that is being started has the files open of the process that starts it,
/// until the kernel has loaded it: milliseconds, on a busy machine more.
const STARTS: Duration = Duration::from_millis(500);

/// Tries again for that long while this would block.
fn patiently(limit: Duration, tried: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match tried() {
            Err(busy) if busy.kind() == io::ErrorKind::WouldBlock && began.elapsed() < limit => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

/// The identity of a file's contents: device, inode, length, and time of the last change in seconds and nanoseconds.
type Version = (u64, u64, u64, i64, i64);

fn version(about: &fs::Metadata) -> Version {
    let (seconds, nanoseconds) = (about.mtime(), about.mtime_nsec());
    (about.dev(), about.ino(), about.len(), seconds, nanoseconds)
}

impl Examined {
    /// Reads a file to its end, or to the first fault.
    ///
    /// # Errors
    /// * The file cannot be read.
    /// * It is not a regular file, or it is not a capture file.
    /// * It is compressed, and no gzip member or zstd frame before the fault ends with a whole packet.
    /// * A process has it open for writing.
    pub fn of(path: impl AsRef<Path>) -> Result<Examined> {
        Examined::with(path.as_ref(), &AtomicU64::new(0))
    }

    /// Like [`of`](Examined::of). Adds the bytes that it has read to `work`, for a display.
    ///
    /// # Errors
    /// As [`of`](Examined::of).
    pub fn with(path: &Path, work: &AtomicU64) -> Result<Examined> {
        let name = path.display().to_string();
        let failed = |what: &'static str| {
            let name = name.clone();
            move |cause: io::Error| Error::new(name, what).because(cause)
        };
        // Nonblocking: opening a FIFO without a writer must not wait. It is rejected below.
        let mut options = fs::OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let handle = options.open(path).map_err(failed("opening it"))?;
        let about = handle.metadata().map_err(failed("reading its metadata"))?;
        if !about.is_file() {
            return Err(Error::new(name, "is not a regular file and cannot be cut"));
        }
        let without_writers = || match sys::has_writers(handle.as_fd())? {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => Ok(()),
        };
        let is_untold = match patiently(STARTS, without_writers).map_err(|error| error.kind()) {
            Ok(()) => false,
            Err(io::ErrorKind::WouldBlock) => {
                return Err(Error::new(name, "another process is writing it")
                    .advise("Stop that process first"));
            }
            // On a file system without leases no writers are detected.
            Err(kind) => kind == io::ErrorKind::PermissionDenied,
        };
        let again = handle.try_clone().map_err(failed("reading it"))?;
        let mut file = File::start(handle, name.clone())?;
        let read = file.each_frame(work, |_| {});
        let fault = read.err();
        if let Some(cause) = fault.as_ref().and_then(Error::cause) {
            let cause = io::Error::new(cause.kind(), cause.to_string());
            return Err(failed("reading it")(cause));
        }
        let is_torn = file.is_torn();
        let mut packets = file.counts().received;
        let whole_bytes = match (file.compression(), &fault) {
            (None, _) => file.offset(),
            (Some(_), None) => about.len(),
            (Some(compression), Some(_)) => {
                let whole = file.whole_compressed();
                packets = packets_before(whole, again, &name).ok_or_else(|| {
                    let what = format!(
                        "is compressed with {compression}, and no whole piece of it ends with a whole packet"
                    );
                    Error::new(&name, what).advise("Decompress as much of it as possible first")
                })?;
                whole
            }
        };
        if whole_bytes == 0 {
            return Err(Error::new(
                name,
                "has no whole header: nothing can be recovered",
            ));
        }
        Ok(Examined {
            path: path.to_owned(),
            bytes: about.len(),
            whole_bytes,
            packets,
            fault,
            is_torn,
            version: version(&about),
            is_untold,
        })
    }

    /// Whether there is nothing to cut.
    pub fn is_whole(&self) -> bool {
        self.fault.is_none()
    }

    /// Cuts the file after its last whole block. First the rest is copied to a file next to it with `.cut` appended to the name,
    /// and its path is returned. A rest of only zeros is not copied. All of this is durable when the call returns.
    ///
    /// # Errors
    /// * A process has the file open.
    /// * It is another user's file. Only that user and root can detect that no process is writing it.
    /// * It changed since it was read, or another file has its name now.
    /// * The file for the rest already exists, with other contents.
    /// * Writing fails.
    ///
    /// After an error the file is unchanged.
    pub fn cut(&self) -> Result<Option<PathBuf>> {
        self.cut_and(true, false)
    }

    /// Like [`cut`](Examined::cut), for a file that only captures write: they lock it. Does not keep the beginning of an incomplete
    /// packet, which the end of the file cut off.
    pub(crate) fn cut_torn_end(&self) -> Result<Option<PathBuf>> {
        self.cut_and(!self.is_torn, true)
    }

    /// Whether `about` describes the file that was read, unchanged.
    pub(crate) fn is_of(&self, about: &fs::Metadata) -> bool {
        version(about) == self.version
    }

    fn cut_and(&self, keeps: bool, writers_lock: bool) -> Result<Option<PathBuf>> {
        let failed = |what: &'static str| {
            move |cause: io::Error| Error::new(self.path.display().to_string(), what).because(cause)
        };
        let refused = |what: &str| Error::new(self.path.display().to_string(), what);
        let untold = || {
            refused("is another user's: cannot detect whether a process is writing it")
                .advise("Run this as that user, or as root")
        };
        if self.is_untold && !writers_lock {
            return Err(untold());
        }
        let mut options = fs::OpenOptions::new();
        let file = open_existing(&self.path, options.read(true).write(true));
        let mut file = file.map_err(failed("opening it for writing"))?;
        lock_output(&file).map_err(failed("locking it"))?;
        // Without locks on this file system, only the lease would have shown a writer.
        if self.is_untold && flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(untold());
        }
        // From here on, opening the file waits until it is closed here, except on file systems without leases.
        if let Err(cause) = patiently(STARTS, || sys::keep_others_out(file.as_fd()))
            && cause.kind() == io::ErrorKind::WouldBlock
        {
            let error = refused("another process has it open");
            return Err(error.advise("Close it there first"));
        }
        let about = file.metadata().map_err(failed("reading its metadata"))?;
        if !self.is_of(&about) {
            return Err(refused("changed since it was read, and was not cut"));
        }
        let seek = file.seek(SeekFrom::Start(self.whole_bytes));
        seek.map_err(failed("seeking to the cut"))?;
        let rest = match !keeps || is_zero(&file).map_err(failed("reading it"))? {
            true => None,
            false => Some(self.save(&mut file)?),
        };
        file.set_len(self.whole_bytes)
            .map_err(failed("cutting it"))?;
        file.sync_all().map_err(failed("making the cut durable"))?;
        Ok(rest)
    }

    /// Copies the bytes after the whole part to a new file. A repair that is killed leaves either a temporary file, which the next one
    /// replaces, or all of these bytes.
    fn save(&self, file: &mut fs::File) -> Result<PathBuf> {
        let [path, part] = [".cut", ".cut.part"].map(|ending| {
            let mut name = self.path.clone().into_os_string();
            name.push(ending);
            PathBuf::from(name)
        });
        let copied = self.copy_rest(file, &part);
        let saved = copied.and_then(|()| match rename_to_new(&part, &path) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {
                match has_same_bytes(&part, &path)? {
                    true => fs::remove_file(&part), // that repair was killed before it cut the file
                    false => Err(cause),
                }
            }
            answer => answer,
        });
        // Sync the folder too. Otherwise a power failure could lose the copy's name after the cut.
        let synced = saved.and_then(|()| fs::File::open(folder_of(&path))?.sync_all());
        match synced {
            Ok(()) => Ok(path),
            Err(cause) => {
                let _ = fs::remove_file(&part);
                let tried = "saving the part to cut off";
                let advice = match cause.kind() {
                    io::ErrorKind::AlreadyExists => "It is from an earlier repair. Move it away",
                    _ => "",
                };
                let error = Error::new(path.display().to_string(), tried);
                Err(error.because(cause).advise(advice))
            }
        }
    }

    /// Makes a durable copy of the bytes after the whole part. The lock on the file keeps other repairs from writing to it.
    fn copy_rest(&self, file: &mut fs::File, to: &Path) -> io::Result<()> {
        match fs::remove_file(to) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
        let mut options = fs::OpenOptions::new();
        let mut copy = options.write(true).create_new(true).mode(0o600).open(to)?;
        file.seek(SeekFrom::Start(self.whole_bytes))?;
        io::copy(file, &mut copy)?;
        copy.sync_all()
    }
}

/// The packets in the first `len` bytes of a compressed file; `None`: they do not end with a whole packet.
fn packets_before(len: u64, mut file: fs::File, name: &str) -> Option<u64> {
    file.seek(SeekFrom::Start(0)).ok()?;
    let mut file = File::start_up_to(file, name.into(), len).ok()?;
    file.each_frame(&AtomicU64::new(0), |_| {}).ok()?;
    Some(file.counts().received)
}

/// Whether both are regular files with the same contents.
fn has_same_bytes(one: &Path, other: &Path) -> io::Result<bool> {
    let [first, second] = [one.symlink_metadata()?, other.symlink_metadata()?];
    if !second.is_file() || first.len() != second.len() {
        return Ok(false);
    }
    let [mut one, mut other] = [fs::File::open(one)?, fs::File::open(other)?].map(BufReader::new);
    loop {
        let (here, there) = (one.fill_buf()?, other.fill_buf()?);
        let len = here.len().min(there.len());
        if len == 0 {
            return Ok(here.len() == there.len());
        }
        if here[..len] != there[..len] {
            return Ok(false);
        }
        one.consume(len);
        other.consume(len);
    }
}

/// Renames a file to an unused name.
///
/// # Errors
/// The name is in use (`AlreadyExists`), or the file cannot be renamed.
pub(crate) fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // File systems without that flag (man 2 rename).
        Err(Errno::INVAL | Errno::NOSYS) => {}
        answer => return Ok(answer?),
    }
    match fs::hard_link(from, to) {
        Ok(()) => return fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) => {}
    }
    // File systems without links, too: reserve the name with an empty file first.
    fs::File::create_new(to)?;
    fs::rename(from, to)
}

/// The folder of `path`.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Whether only zeros follow, from here to the end.
fn is_zero(mut file: &fs::File) -> io::Result<bool> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        match file.read(&mut bytes) {
            Ok(0) => return Ok(true),
            Ok(n) if bytes[..n].iter().all(|&byte| byte == 0) => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testing::folder::Folder;
    use std::cell::Cell;

    /// A classic file without packets, and with a damaged end.
    fn damaged() -> (Folder, PathBuf, Vec<u8>) {
        let folder = Folder::new();
        let path = folder.join("a.pcap");
        let mut bytes = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0];
        bytes.resize(16, 0);
        bytes.extend([0, 0, 4, 0, 1, 0, 0, 0]); // snapshot length, link type
        bytes.extend([1; 30]);
        fs::write(&path, &bytes).unwrap();
        (folder, path, bytes)
    }

    #[test]
    fn a_repair_that_was_killed_does_not_keep_later_ones_from_succeeding() {
        let (_folder, path, bytes) = damaged();
        let rest = path.with_extension("pcap.cut");
        let part = path.with_extension("pcap.cut.part");
        // Killed while it copied, and between the copy and the cut.
        for (left, content) in [(&part, &bytes[24..30]), (&rest, &bytes[24..])] {
            fs::write(&path, &bytes).unwrap();
            fs::write(left, content).unwrap();
            let examined = Examined::of(&path).unwrap();
            assert_eq!(examined.cut().unwrap().as_ref(), Some(&rest));
            assert_eq!(fs::read(&rest).unwrap(), bytes[24..]);
            assert_eq!(fs::read(&path).unwrap(), bytes[..24]);
            assert!(!part.exists());
            fs::remove_file(&rest).unwrap();
        }
        // This one holds something else.
        fs::write(&path, &bytes).unwrap();
        fs::write(&rest, [2; 30]).unwrap();
        let refused = Examined::of(&path).unwrap().cut().unwrap_err().to_string();
        assert!(refused.contains("earlier repair"), "{refused}");
        assert_eq!(fs::read(&rest).unwrap(), [2; 30]);
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert!(!part.exists());
    }

    #[test]
    fn a_file_that_is_in_use_is_tried_again_for_a_while() {
        let tries = Cell::new(0);
        let busy_twice = || {
            tries.set(tries.get() + 1);
            match tries.get() {
                1 | 2 => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        };
        patiently(Duration::MAX, busy_twice).unwrap();
        assert_eq!(tries.get(), 3);
        patiently(
            Duration::MAX,
            || Err(io::ErrorKind::PermissionDenied.into()),
        )
        .unwrap_err();
        // The test holds it open for longer.
        let (_folder, path, _) = damaged();
        let _writer = fs::File::options().append(true).open(&path).unwrap();
        let refused = Examined::of(&path).unwrap_err().to_string();
        assert!(refused.contains("is writing it"), "{refused}");
    }

    #[test]
    fn a_file_that_took_the_name_meanwhile_is_left_alone() {
        let (_folder, path, torn) = damaged();
        let examined = Examined::of(&path).unwrap();
        assert_eq!((examined.packets, examined.whole_bytes), (0, 24));
        let other = path.with_extension("other");
        let whole = vec![7; torn.len()];
        fs::write(&other, &whole).unwrap();
        fs::rename(&other, &path).unwrap();
        let refused = examined.cut().unwrap_err().to_string();
        assert!(refused.contains("changed since it was read"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
}
