//! Free space that a capture leaves on the disk of its output.
//!
//! ```text
//!  writer's thread:  before each write ─▶ is enough free? ─ yes ─▶ write
//!                                             │ no
//!                         remove the oldest file of the series ─ it cannot be enough ─▶ the session ends the capture
//! ```
//! No file is removed if all of them together were not enough, or if the last removed files freed nothing. While the writer has nothing
//! to write, a separate thread makes these checks. The session's thread never waits for the disk.
//!
//! What is accepted and not written yet counts as used, so that the session ends the capture while there is still room for it. It is
//! written even if other programs took that room meanwhile.

use super::retention::Retention;
use crate::control::Control;
use forebay::{Error, Result, store::Sink};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

/// How often the free space is checked while nothing is written.
const IDLE: Duration = Duration::from_millis(250);

/// The number of times in a row that removing files may free nothing before the capture ends.
const MAX_FUTILE: u32 = 3;

/// Bytes that are left over for headers, trailers, and packets taken since the session last reported what waits.
const MARGIN: u64 = 1 << 20;

/// How much space of a file system a capture leaves free.
///
/// ```
/// use forebay_net::session::KeepFree;
/// assert_eq!(KeepFree::Percent(10).of(2_000), 200);
/// assert_eq!(KeepFree::Bytes(500).of(2_000), 500);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepFree {
    /// This number of bytes.
    Bytes(u64),
    /// This share of its size, 1 to 99.
    Percent(u8),
}

impl KeepFree {
    /// The bytes to keep free on a file system of `total` bytes.
    pub fn of(self, total: u64) -> u64 {
        match self {
            KeepFree::Bytes(bytes) => bytes,
            KeepFree::Percent(share) => (u128::from(total) * u128::from(share) / 100) as u64,
        }
    }
}

/// The size of a file system, and what users without privileges may still write to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    pub free: u64,
    pub total: u64,
}

impl Space {
    /// Of the file system that holds `folder`.
    fn of(folder: &Path) -> io::Result<Space> {
        let about = rustix::fs::statvfs(folder)?;
        Ok(Space {
            free: about.f_bavail.saturating_mul(about.f_frsize),
            total: about.f_blocks.saturating_mul(about.f_frsize),
        })
    }
}

/// Finds out how much space is free; a test has its own.
type Ask = Box<dyn FnMut() -> io::Result<Space> + Send>;

/// The limit of one capture. Clones share it.
#[derive(Clone)]
pub(super) struct SpaceLimit(Arc<LimitState>);

struct LimitState {
    keep: KeepFree,
    folder: PathBuf,
    /// Files that may be removed, if the output is a series.
    retention: Option<Retention>,
    disk: Mutex<Disk>,
    /// Bytes that are accepted and not written. Relaxed, like the three below: each publishes only itself.
    pending: AtomicU64,
    /// Free bytes above the limit when they were last asked for, less those written since.
    slack: AtomicI64,
    /// Removing files cannot help: the capture has to end.
    is_short: AtomicBool,
    /// The number of writes so far, which shows whether the writer checks for itself.
    writes: AtomicU64,
}

struct Disk {
    ask: Ask,
    /// The free space found last.
    free: u64,
    /// Bytes of removed files that have not appeared as free space yet. Some file systems free them later, and a file that another
    /// program has open stays until that closes it.
    promised: u64,
    /// Bytes of removed files, and bytes that appeared as free space since the first of them.
    removed: u64,
    appeared: u64,
    /// How often in a row a sync of the file system showed that removing files freed nothing: a snapshot contains them, for example.
    futile: u32,
}

impl Disk {
    fn asked(&mut self) -> io::Result<Space> {
        let space = (self.ask)()?;
        let appeared = space.free.saturating_sub(self.free);
        self.free = space.free;
        if self.promised > 0 {
            self.appeared += appeared;
            self.promised = self.promised.saturating_sub(appeared);
            if self.promised == 0 {
                self.settle();
            }
        }
        Ok(space)
    }

    /// Expects no more space from files that were removed so far. File systems that compress free less than the size of a file.
    fn settle(&mut self) {
        match self.appeared < self.removed / 16 {
            true => self.futile += 1,
            false => self.futile = 0,
        }
        (self.promised, self.removed, self.appeared) = (0, 0, 0);
    }
}

impl SpaceLimit {
    /// The limit for an output at `path`. Removes files at once if that is necessary and enough.
    ///
    /// # Errors
    /// The free space is unknown, or it is too small and removing files cannot change that. In that case no file was removed, except a few
    /// if only their removal showed that it frees nothing.
    pub fn open(keep: KeepFree, path: &Path, retention: Option<Retention>) -> Result<Self> {
        // A single file is written where a link leads. A series replaces links.
        let real = path.canonicalize().ok().filter(|_| retention.is_none());
        let path = real.as_deref().unwrap_or(path);
        // A pattern of names may contain folders that do not exist yet.
        let folder = path.ancestors().skip(1).find(|folder| folder.is_dir());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        let asked = folder.clone();
        SpaceLimit::with(keep, folder, retention, Box::new(move || Space::of(&asked)))
    }

    fn with(
        keep: KeepFree,
        folder: PathBuf,
        retention: Option<Retention>,
        mut ask: Ask,
    ) -> Result<Self> {
        let name = folder.display().to_string();
        let space = ask().map_err(|cause| {
            Error::new(&name, "finding out how much space is free").because(cause)
        })?;
        let limit = SpaceLimit(Arc::new(LimitState {
            keep,
            folder,
            retention,
            disk: Mutex::new(Disk {
                ask,
                free: space.free,
                promised: 0,
                removed: 0,
                appeared: 0,
                futile: 0,
            }),
            pending: AtomicU64::new(0),
            slack: AtomicI64::new(0),
            is_short: AtomicBool::new(false),
            writes: AtomicU64::new(0),
        }));
        if space.total == 0 {
            let error = Error::new(name, "the size of this file system is unknown");
            return Err(error.advise("Write to another one, or keep no space free"));
        }
        if keep.of(space.total) >= space.total {
            let all = crate::units::scaled(space.total as f64);
            let error = Error::new(name, limit.describe(space));
            return Err(error.advise(format!("The file system has {all}B in all. Keep less free")));
        }
        let made = limit.make(0);
        made.map_err(|cause| Error::new(&name, "making room").because(cause))?;
        if limit.is_short() {
            let error = Error::new(name, limit.describe(limit.ask().unwrap_or(space)));
            return Err(error.advise("Make room, or keep less free"));
        }
        Ok(limit)
    }

    fn ask(&self) -> io::Result<Space> {
        let mut disk = self.0.disk.lock().unwrap_or_else(PoisonError::into_inner);
        (disk.ask)()
    }

    /// `950 MB are free, and 1 GB (10 %) must stay free`.
    fn describe(&self, space: Space) -> String {
        let size = |bytes: u64| format!("{}B", crate::units::scaled(bytes as f64));
        let keep = size(self.0.keep.of(space.total));
        let share = match self.0.keep {
            KeepFree::Bytes(_) => String::new(),
            KeepFree::Percent(share) => format!(" ({share} %)"),
        };
        let free = size(space.free);
        format!("{free} are free, and {keep}{share} must stay free")
    }

    /// Sets how many bytes wait to be written. If there would be no room for more, the capture has to end.
    pub fn awaits(&self, pending: u64) {
        let inner = &*self.0;
        inner.pending.store(pending, Relaxed);
        let removable = inner.retention.as_ref().map_or(0, Retention::bytes);
        let left = inner.slack.load(Relaxed).saturating_add_unsigned(removable);
        if left < (pending + MARGIN) as i64 {
            inner.is_short.store(true, Relaxed);
        }
    }

    /// Starts the thread that checks the free space while nothing is written: other programs fill disks, too.
    ///
    /// # Errors
    /// No thread is available.
    pub fn watch(&self) -> Result<SpaceWatch> {
        let (limit, ended) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let is_over = ended.clone();
        let run = move || {
            let mut writes_seen = 0;
            // Relaxed: it publishes only itself.
            while !is_over.load(Relaxed) {
                limit.check_if_idle(&mut writes_seen);
                std::thread::park_timeout(IDLE);
            }
        };
        let thread = std::thread::Builder::new().name("forebay-space".into());
        let thread = thread.spawn(run).map_err(|cause| {
            Error::new("store", "starting the thread for free space").because(cause)
        })?;
        Ok(SpaceWatch { ended, thread })
    }

    /// Checks the free space if nothing was written since the last call, which had this number of writes.
    fn check_if_idle(&self, writes_seen: &mut u64) {
        let writes = self.0.writes.load(Relaxed);
        if std::mem::replace(writes_seen, writes) == writes {
            // Nothing is written here, so an error has no effect.
            let _ = self.make(0);
        }
    }

    /// Whether the capture has to end, because removing files cannot help.
    pub fn is_short(&self) -> bool {
        self.0.is_short.load(Relaxed)
    }

    /// Removes the oldest files of the series until `bytes` can be written, and what waits after them. If all files were not enough, or
    /// if removing them frees nothing, the capture has to end, and the rest of them stays.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn make(&self, bytes: u64) -> io::Result<()> {
        let inner = &*self.0;
        let mut disk = inner.disk.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // If the free space is unknown for once, the write itself reports what is wrong.
            let Some(space) = disk.asked().ok().filter(|space| space.total > 0) else {
                return Ok(());
            };
            let expected = space.free + disk.promised;
            let needed = inner.keep.of(space.total).saturating_add(bytes);
            let slack = expected as i64 - inner.keep.of(space.total) as i64;
            inner.slack.store(slack, Relaxed);
            let waits = inner.pending.load(Relaxed) + MARGIN;
            let fits = space.free >= needed;
            if fits && expected >= needed.saturating_add(waits) {
                return Ok(());
            }
            if !fits && disk.promised > 0 {
                // Some file systems free the space of removed files only when they commit.
                sync_file_system(&inner.folder);
                let _ = disk.asked();
                if disk.promised > 0 {
                    disk.settle();
                }
                continue;
            }
            let retention = inner.retention.as_ref().filter(|retention| {
                let is_enough = expected + retention.bytes() >= needed.saturating_add(MARGIN);
                is_enough && disk.futile < MAX_FUTILE
            });
            let removed = match retention {
                Some(retention) => retention.remove_oldest().map_err(io::Error::other)?,
                None => None,
            };
            match removed {
                Some(len) => {
                    disk.promised += len;
                    disk.removed += len;
                }
                None => {
                    inner.is_short.store(true, Relaxed);
                    return Ok(());
                }
            }
        }
    }
}

fn sync_file_system(folder: &Path) {
    if let Ok(folder) = std::fs::File::open(folder) {
        // If it fails, the next question about the free space shows what matters.
        let _ = rustix::fs::syncfs(folder);
    }
}

/// The thread that checks the free space. It ends when this is dropped.
pub(super) struct SpaceWatch {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl SpaceWatch {
    /// Waits until the thread has ended, or until the capture is abandoned.
    pub fn finish(self, control: &Control) {
        self.end();
        while !self.thread.is_finished() && !control.is_abandoned() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn end(&self) {
        self.ended.store(true, Relaxed);
        self.thread.thread().unpark();
    }
}

impl Drop for SpaceWatch {
    fn drop(&mut self) {
        self.end();
    }
}

/// A sink that makes room before each write.
pub(super) struct SpaceSink {
    inner: Box<dyn Sink>,
    space: SpaceLimit,
}

impl SpaceSink {
    /// `inner` with the limit, if there is one.
    pub fn over(inner: Box<dyn Sink>, space: Option<&SpaceLimit>) -> Box<dyn Sink> {
        match space {
            Some(space) => Box::new(SpaceSink {
                inner,
                space: space.clone(),
            }),
            None => inner,
        }
    }
}

impl Sink for SpaceSink {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.space.0.writes.fetch_add(1, Relaxed);
        self.space.make(bytes.len() as u64)?;
        let taken = self.inner.write(bytes, at)?;
        self.space.0.slack.fetch_sub(taken as i64, Relaxed);
        Ok(taken)
    }

    fn inner(&self) -> Option<&dyn Sink> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Sink> {
        Some(&mut *self.inner)
    }
}

#[cfg(test)]
#[path = "disk_space_tests.rs"]
mod tests;
