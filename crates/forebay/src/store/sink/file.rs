//! A regular file that the store created or emptied.
//!
//! ```text
//!  written                                      │ allocated ahead │
//!  ├── aligned: O_DIRECT ──┼── else: page cache ─┤                 │      cut off at the end
//! ```
//! If a buffer begins or ends within a page of the file, these bytes go through the page cache, and the whole pages between them do not. A buffer
//! with less than 256 KiB of whole pages goes through it as a whole.
//!
//! While the store has a backlog, everything goes through the page cache. It continues to do so until the device was asked to
//! write most of what the cache holds. No byte is written both ways, except those of a direct write that failed.

use super::{
    Sink, StreamSink,
    claim::{is_same_file, open_output, writer_of},
};
use crate::{
    Error, Result,
    error::Code,
    store::buffer::BLOCK,
    sys::{self as kernel, file as sys},
};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// How a file is written.
///
/// ```
/// use forebay::store::{FileConfig, FileSink, Sink};
/// let path = std::env::temp_dir().join(format!("forebay-doc-file-{}", std::process::id()));
/// let config = FileConfig { allocate_bytes: 1 << 20, ..FileConfig::default() };
/// let mut sink = FileSink::create(&path, &config)?;
/// assert_eq!(sink.write(b"first", 0).unwrap(), 5);
/// assert_eq!(std::fs::metadata(&path).unwrap().len(), 5); // allocated space is not content
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileConfig {
    /// Write whole buffers past the page cache, if the file system supports it.
    pub direct: bool,
    /// Bytes to allocate at a time, ahead of what is written; 0 for none. The file then has fewer and larger extents. What is
    /// left of the last allocation is freed at the end. If allocation fails, the file is written without it.
    pub allocate_bytes: u64,
}

impl Default for FileConfig {
    /// Past the page cache, with nothing allocated ahead.
    fn default() -> Self {
        FileConfig {
            direct: true,
            allocate_bytes: 0,
        }
    }
}

/// A regular file, written at exact offsets. It has two descriptors: one bypasses the page cache if the file system reports that
/// it can (`STATX_DIOALIGN`).
pub struct FileSink {
    file: File,
    direct: Option<File>,
    /// Where it was created, and its name in messages.
    path: PathBuf,
    name: PathBuf,
    /// The target if the path is a link: its folder has to be synced.
    folder: PathBuf,
    is_folder_synced: bool,
    allocate_bytes: u64,
    /// The file system has allocated space up to this offset.
    allocated: u64,
    cached: Cached,
    /// The end of the last direct write.
    direct_end: u64,
    /// Direct writes take too long.
    is_behind: bool,
}

/// What was written through the page cache, and how much of it the device has.
///
/// ```text
///  │ the device has it │ the device was asked to take it │ only in the page cache │
///                    taken                            started                    end
/// ```
/// Data written past the cache may lie in between; it needs no writeback.
#[derive(Clone, Copy, Default)]
struct Cached {
    taken: u64,
    started: u64,
    end: u64,
    /// The file system does not support starting writeback.
    is_refused: bool,
}

/// Fewer bytes than this are written through the page cache as a whole, if a part of them has to be.
const SPLIT_BYTES: usize = 256 << 10;

/// Bytes that the device is asked to write at a time.
const PIECE: u64 = 8 << 20;

/// Once more than this was started and is not known to be on the device, wait for the oldest piece. This bounds what is left to
/// do at a sync or at the end, and keeps the device busy.
const ON_ITS_WAY: u64 = 64 << 20;

impl Cached {
    fn wrote(&mut self, at: u64, taken: usize) {
        if self.left() == 0 {
            (self.taken, self.started) = (at, at);
        }
        // After a failed sync, earlier data may be written again.
        self.taken = self.taken.min(at);
        self.started = self.started.min(at);
        self.end = self.end.max(at + taken as u64);
    }

    fn cut(&mut self, len: u64) {
        self.end = self.end.min(len);
        self.started = self.started.min(len);
        self.taken = self.taken.min(len);
    }

    /// Whether much of it has not yet been passed to the device.
    fn has_to_start(&self) -> bool {
        !self.is_refused && self.end - self.started >= PIECE
    }

    fn left(&self) -> u64 {
        self.end - self.taken
    }

    fn start(&mut self, file: &File) -> io::Result<()> {
        if self.has_to_start() {
            kernel::write_back(file, self.started, PIECE, false)?;
            self.started += PIECE;
        }
        if self.started - self.taken > ON_ITS_WAY {
            self.wait(file)?;
        }
        Ok(())
    }

    fn wait(&mut self, file: &File) -> io::Result<()> {
        let len = PIECE.min(self.left());
        if len > 0 {
            kernel::write_back(file, self.taken, len, true)?;
            self.taken += len;
            self.started = self.started.max(self.taken);
        }
        Ok(())
    }
}

impl FileSink {
    /// Creates `path` (mode 0600), or empties an existing file. An existing FIFO or device becomes a
    /// [`StreamSink`].
    ///
    /// Links to an existing file are followed, `/dev/stdout` included. A dangling link is refused: no file is created through a
    /// link. The file is locked (`flock(2)`) until the sink is dropped.
    ///
    /// ```
    /// use forebay::store::{FileConfig, FileSink, Sink};
    /// let mut sink = FileSink::create("/dev/null", &FileConfig::default())?;
    /// assert_eq!(sink.write(b"into the void", 0).unwrap(), 13);
    /// assert!(!sink.is_direct());
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// * The path cannot be created or written.
    /// * Another sink, of this or another process, writes the file.
    /// * It belongs to another user, in a folder such as /tmp ([`open_existing`](crate::store::open_existing)).
    /// * The file holds blocks of records. [`Records::open_append`](crate::records::Records) appends to such a file.
    pub fn create(path: impl AsRef<Path>, config: &FileConfig) -> Result<Box<dyn Sink>> {
        let path = path.as_ref();
        let file = open_output(path, OpenOptions::new().write(true));
        let file = file.map_err(|cause| not_created(path, cause))?;
        if !is_regular(&file, path)? {
            let name = path.display().to_string();
            return Ok(Box::new(StreamSink::named(file, name)));
        }
        // On a file system without locks nobody else has one either.
        if !sys::lock(&file).unwrap_or(true) {
            return Err(written_elsewhere(path));
        }
        if holds_records(path, &file) {
            let error = Error::coded(
                Code::Exists,
                path.display().to_string(),
                "creating the file: it holds records",
            );
            return Err(error.advise("Remove it first, or append to it (Records::open_append)"));
        }
        file.set_len(0).map_err(|cause| not_created(path, cause))?;
        FileSink::over(file, path, path, config, 0)
    }

    /// Creates `path` (mode 0600). Nothing may exist there yet, not even a link. Messages use `name`, the name the file will get
    /// later.
    ///
    /// ```
    /// use forebay::store::{FileConfig, FileSink, Sink};
    /// let name = std::env::temp_dir().join(format!("forebay-doc-new-{}", std::process::id()));
    /// let part = name.with_extension("part");
    /// let sink = FileSink::create_new(&part, &name, &FileConfig::default())?;
    /// assert_eq!(sink.name(), name.display().to_string());
    /// assert!(FileSink::create_new(&part, &name, &FileConfig::default()).is_err());
    /// # std::fs::remove_file(&part).unwrap();
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// Something exists at `path`, or the file cannot be created.
    pub fn create_new(
        path: impl AsRef<Path>,
        name: impl AsRef<Path>,
        config: &FileConfig,
    ) -> Result<Box<dyn Sink>> {
        let (path, name) = (path.as_ref(), name.as_ref());
        let file = create_new(path).map_err(|cause| not_created(path, cause))?;
        // Nobody else can hold a lock on a new file. Later openers find it locked.
        let _ = sys::lock(&file);
        FileSink::over(file, path, name, config, 0)
    }

    /// Continues a regular file after its first `len` bytes, which stay. The caller has locked it and truncated the rest.
    pub(crate) fn after(
        file: File,
        path: &Path,
        config: &FileConfig,
        len: u64,
    ) -> Result<Box<dyn Sink>> {
        FileSink::over(file, path, path, config, len)
    }

    fn over(
        file: File,
        path: &Path,
        name: &Path,
        config: &FileConfig,
        len: u64,
    ) -> Result<Box<dyn Sink>> {
        let failed = |cause| not_created(path, cause);
        let direct = (config.direct && sys::writes_direct(&file, BLOCK))
            .then(|| open_direct(path, &file))
            .flatten();
        let real = path.canonicalize().map_err(failed)?;
        Ok(Box::new(FileSink {
            file,
            direct,
            path: path.into(),
            name: name.into(),
            folder: real.parent().unwrap_or(Path::new("/")).into(),
            is_folder_synced: false,
            allocate_bytes: config.allocate_bytes,
            allocated: len,
            cached: Cached::default(),
            direct_end: 0,
            is_behind: false,
        }))
    }

    fn write_cached(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let taken = self.file.write_at(bytes, at)?;
        self.cached.wrote(at, taken);
        Ok(taken)
    }

    /// Allocates space for data that ends at `end`.
    fn allocate(&mut self, end: u64) {
        while self.allocate_bytes > 0 && self.allocated < end {
            match sys::allocate(&self.file, self.allocated, self.allocate_bytes) {
                Ok(()) => self.allocated += self.allocate_bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // There is not enough space, or no support for allocation: the write itself will report an error.
                Err(_) => self.allocate_bytes = 0,
            }
        }
    }
}

/// The bytes up to the next whole page of the file, and those of the whole pages that follow. These can be written past the page cache if they begin
/// with a page of memory. Few pages are not worth it, unless they are all.
fn split(bytes: &[u8], at: u64) -> (usize, usize) {
    let edge = (at.next_multiple_of(BLOCK as u64) - at) as usize;
    let rest = bytes.get(edge..).unwrap_or_default();
    let pages = rest.len() / BLOCK * BLOCK;
    let is_aligned = rest.as_ptr().addr().is_multiple_of(BLOCK);
    match is_aligned && (pages >= SPLIT_BYTES || pages == bytes.len()) {
        true => (edge, pages),
        false => (0, 0),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

fn is_no_failure_of_the_device(error: &io::Error) -> bool {
    let no_such_thing = [
        libc::EINVAL,
        libc::ENOSYS,
        libc::EOPNOTSUPP,
        libc::ESPIPE,
        libc::EPERM,
    ];
    error
        .raw_os_error()
        .is_some_and(|errno| no_such_thing.contains(&errno))
}

/// Opens a new file; the kernel follows no link here.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// The second descriptor, unless the path leads to another file by now.
fn open_direct(path: &Path, file: &File) -> Option<File> {
    let mut options = OpenOptions::new();
    let flags = options.write(true).custom_flags(libc::O_DIRECT);
    let direct = flags.open(path).ok()?;
    is_same(&direct, file).then_some(direct)
}

fn is_same(one: &File, other: &File) -> bool {
    let (Ok(one), Ok(other)) = (one.metadata(), other.metadata()) else {
        return false;
    };
    is_same_file(&one, &other)
}

fn is_regular(file: &File, path: &Path) -> Result<bool> {
    let about = file.metadata().map_err(|cause| not_created(path, cause))?;
    Ok(about.is_file())
}

/// The first bytes of a file of records in blocks (`crate::records`), which must not be emptied by mistake.
pub(crate) const MAGIC_OF_RECORDS: [u8; 8] = *b"fbrecs\x01\xfb";

/// Whether the file begins like a block of records. A file that is writable but not readable counts as not beginning so.
fn holds_records(path: &Path, file: &File) -> bool {
    let mut begin = [0; MAGIC_OF_RECORDS.len()];
    let read =
        |to_read: File| is_same(&to_read, file) && to_read.read_exact_at(&mut begin, 0).is_ok();
    // Open separately for reading: a FIFO opened for reading and writing would have a reader.
    File::open(path).is_ok_and(read) && begin == MAGIC_OF_RECORDS
}

/// Refuses a file that another process writes, as [`FileSink::create`] does, and opens nothing: for a program that will be in a sandbox
/// when it creates the file, where the error could not name the process.
///
/// ```
/// use forebay::store::{FileConfig, FileSink, refuse_written};
/// let path = std::env::temp_dir().join(format!("forebay-doc-written-{}", std::process::id()));
/// refuse_written(&path)?;
/// let sink = FileSink::create(&path, &FileConfig::default())?;
/// let error = refuse_written(&path).unwrap_err().to_string();
/// assert!(error.contains(&format!("(pid {})", std::process::id())), "{error}");
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// Another process, or another sink of this one, has locked the file.
pub fn refuse_written(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let about = path.metadata().ok().filter(|about| about.is_file());
    match about.and_then(|about| writer_of(&about)) {
        Some(_) => Err(written_elsewhere(path)),
        None => Ok(()),
    }
}

/// The error for a file that another sink or process has locked. It names the process, if `/proc/locks` can be read.
///
/// ```
/// let error = forebay::store::written_elsewhere("a".as_ref());
/// assert!(error.to_string().contains("another process writes this file"));
/// ```
#[must_use]
pub fn written_elsewhere(path: &Path) -> Error {
    let writer = path.metadata().ok().and_then(|about| writer_of(&about));
    let pid = writer.map_or(String::new(), |pid| format!(" (pid {pid})"));
    let error = Error::new(
        path.display().to_string(),
        format!("another process writes this file{pid}"),
    );
    let error = error.of_kind(io::ErrorKind::WouldBlock);
    error.advise("Wait until that has ended, or choose another file")
}

fn not_created(path: &Path, cause: io::Error) -> Error {
    let is_link = || path.symlink_metadata().is_ok_and(|it| it.is_symlink());
    let advice = match cause.kind() {
        io::ErrorKind::NotFound if is_link() => {
            "It is a link that leads nowhere: remove the link, or name the file itself"
        }
        io::ErrorKind::NotFound => "Make the folder first",
        io::ErrorKind::PermissionDenied if cause.raw_os_error().is_some() => {
            "Choose a folder that you may write"
        }
        io::ErrorKind::IsADirectory => "Name a file in it",
        _ => "",
    };
    Error::new(path.display().to_string(), "creating the file")
        .because(cause)
        .advise(advice)
}

impl Sink for FileSink {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.allocate(at + bytes.len() as u64);
        match &self.direct {
            Some(direct) if !self.is_behind && !self.cached.has_to_start() => {
                let (edge, pages) = split(bytes, at);
                let is_tail = bytes.len() < BLOCK && at == self.direct_end;
                match (edge, pages) {
                    // Too little to be written back early.
                    (0, 0) if is_tail => return self.file.write_at(bytes, at),
                    (0, 0) => return self.write_cached(bytes, at),
                    (0, _) => {}
                    (edge, _) => return self.file.write_at(&bytes[..edge], at),
                }
                let answer = direct.write_at(&bytes[..pages], at);
                if let Ok(taken) = answer {
                    self.direct_end = at + taken as u64;
                }
                match answer {
                    // A direct write succeeds or fails as a whole; the page cache takes what fits.
                    Err(full) if is_full(&full) => self.write_cached(bytes, at),
                    // The file system refused after all: use the page cache for this too.
                    Err(refused) if refused.raw_os_error() == Some(libc::EINVAL) => {
                        self.direct = None;
                        self.write_cached(bytes, at)
                    }
                    answer => answer,
                }
            }
            _ => self.write_cached(bytes, at),
        }
    }

    fn name(&self) -> String {
        self.name.display().to_string()
    }

    fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    fn is_in_memory(&self) -> bool {
        sys::is_in_memory(&self.file)
    }

    fn cut(&mut self, len: u64) -> io::Result<bool> {
        self.file.set_len(len)?;
        self.allocated = self.allocated.min(len);
        self.cached.cut(len);
        Ok(true)
    }

    fn hurry(&mut self, is_behind: bool) {
        self.is_behind = is_behind;
    }

    fn write_back(&mut self, wait: bool) -> io::Result<u64> {
        if self.cached.is_refused {
            return Ok(0);
        }
        let done = match wait {
            true => self.cached.wait(&self.file),
            false => self.cached.start(&self.file),
        };
        match done {
            Ok(()) => Ok(self.cached.left()),
            // The file system does not support this: the sync covers everything.
            Err(error) if is_no_failure_of_the_device(&error) => {
                self.cached.is_refused = true;
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    fn sync(&mut self) -> io::Result<bool> {
        self.file.sync_data()?;
        let keeps_nothing = sys::is_in_memory(&self.file);
        self.cached.taken = self.cached.end;
        self.cached.started = self.cached.end;
        if !self.is_folder_synced {
            // A folder that is writable but not readable cannot be opened, and so not synced.
            let Ok(folder) = File::open(&self.folder) else {
                return Ok(false);
            };
            folder.sync_all()?;
            self.is_folder_synced = true;
        }
        Ok(!keeps_nothing)
    }

    fn complete(&mut self) -> Result<()> {
        let failed = |what: &str| Error::new(self.name.display().to_string(), what);
        let ours = self.file.metadata();
        let ours = ours.map_err(|cause| failed("reading the file's status").because(cause))?;
        match self.path.metadata() {
            Ok(there) if is_same_file(&there, &ours) => Ok(()),
            _ if ours.nlink() == 0 => Err(failed(
                "the file was removed or replaced while it was written: the data is lost",
            )),
            there => {
                let error = failed("the file was renamed while it was written");
                let error = match there {
                    Ok(_) => error,
                    Err(cause) => error.because(cause),
                };
                Err(error.advise("The file is complete, under another name"))
            }
        }
    }
}
