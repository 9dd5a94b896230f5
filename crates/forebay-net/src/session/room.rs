//! Free space that a capture leaves on the disk of its output.
//!
//! ```text
//!  writer's thread:  before each write ─▶ is enough free? ─ yes ─▶ write
//!                                             │ no
//!                         remove the oldest file of the series ─ none is left ─▶ the session ends the capture
//! ```
//! What is accepted and not written yet counts as used, so that the session ends the capture while there is still room for it. It is
//! written even if other programs took that room meanwhile.

use super::rotation::Retention;
use forebay::{Error, Result, store::Sink};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

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
pub(super) struct Room(Arc<Inner>);

struct Inner {
    keep: KeepFree,
    folder: PathBuf,
    /// Files that may be removed, if the output is a series.
    kept: Option<Retention>,
    disk: Mutex<Disk>,
    /// Bytes that are accepted and not written. Relaxed, like the three below: each publishes only itself.
    pending: AtomicU64,
    /// Free bytes above the limit when they were last asked for, less those written since.
    slack: AtomicI64,
    /// Nothing is left to remove: the capture has to end.
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
}

impl Room {
    /// The limit for an output at `path`. Removes files at once if that is necessary.
    ///
    /// # Errors
    /// The free space is unknown, or it is too small and nothing is left to remove.
    pub fn open(keep: KeepFree, path: &Path, kept: Option<Retention>) -> Result<Self> {
        // A pattern of names may contain folders that do not exist yet.
        let folder = path.ancestors().skip(1).find(|folder| folder.is_dir());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        let asked = folder.clone();
        Room::with(keep, folder, kept, Box::new(move || Space::of(&asked)))
    }

    fn with(
        keep: KeepFree,
        folder: PathBuf,
        kept: Option<Retention>,
        mut ask: Ask,
    ) -> Result<Self> {
        let name = folder.display().to_string();
        let space = ask().map_err(|cause| {
            Error::new(&name, "finding out how much space is free").because(cause)
        })?;
        let room = Room(Arc::new(Inner {
            keep,
            folder,
            kept,
            disk: Mutex::new(Disk {
                ask,
                free: space.free,
                promised: 0,
            }),
            pending: AtomicU64::new(0),
            slack: AtomicI64::new(0),
            is_short: AtomicBool::new(false),
            writes: AtomicU64::new(0),
        }));
        let made = room.make(0);
        made.map_err(|cause| Error::new(&name, "making room").because(cause))?;
        if room.is_short() {
            let error = Error::new(name, room.describe(room.ask().unwrap_or(space)));
            return Err(error.advise("Make room, or keep less free"));
        }
        Ok(room)
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
        let removable = inner.kept.as_ref().map_or(0, Retention::bytes);
        let room = inner.slack.load(Relaxed).saturating_add_unsigned(removable);
        if room < (pending + MARGIN) as i64 {
            inner.is_short.store(true, Relaxed);
        }
    }

    /// Checks the free space if nothing was written since the last call, which had this number of writes, and nothing waits to be
    /// written. A writer that is held up by its disk checks before its next write: removing a file here could be held up, too.
    pub fn check_if_idle(&self, writes_seen: &mut u64) {
        let writes = self.0.writes.load(Relaxed);
        let is_idle = self.0.pending.load(Relaxed) == 0;
        if std::mem::replace(writes_seen, writes) == writes && is_idle {
            // Nothing is written here, so an error has no effect.
            let _ = self.make(0);
        }
    }

    /// Whether the capture has to end, because nothing is left to remove.
    pub fn is_short(&self) -> bool {
        self.0.is_short.load(Relaxed)
    }

    /// Removes the oldest files of the series until `bytes` can be written, and what waits after them.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn make(&self, bytes: u64) -> io::Result<()> {
        let inner = &*self.0;
        let mut disk = inner.disk.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // If the free space is unknown for once, the write itself reports what is wrong.
            let Ok(space) = (disk.ask)() else {
                return Ok(());
            };
            let appeared = space.free.saturating_sub(disk.free);
            disk.promised = disk.promised.saturating_sub(appeared);
            disk.free = space.free;
            let keep = inner.keep.of(space.total);
            let slack = (space.free + disk.promised) as i64 - keep as i64;
            inner.slack.store(slack, Relaxed);
            let wanted = keep + bytes + inner.pending.load(Relaxed) + MARGIN;
            let fits = space.free >= keep + bytes;
            if fits && space.free + disk.promised >= wanted {
                return Ok(());
            }
            if !fits && disk.promised > 0 {
                // Some file systems free the space of removed files only when they commit.
                sync_file_system(&inner.folder);
                let after = (disk.ask)().unwrap_or(space);
                disk.promised = 0;
                disk.free = after.free;
                if after.free > space.free {
                    continue;
                }
            }
            let removed = match &inner.kept {
                Some(kept) => kept.remove_oldest().map_err(io::Error::other)?,
                None => None,
            };
            match removed {
                Some(len) => disk.promised += len,
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

/// A sink that makes room before each write.
pub(super) struct RoomSink {
    inner: Box<dyn Sink>,
    room: Room,
}

impl RoomSink {
    /// `inner` with the limit, if there is one.
    pub fn over(inner: Box<dyn Sink>, room: Option<&Room>) -> Box<dyn Sink> {
        match room {
            Some(room) => Box::new(RoomSink {
                inner,
                room: room.clone(),
            }),
            None => inner,
        }
    }
}

impl Sink for RoomSink {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.room.0.writes.fetch_add(1, Relaxed);
        self.room.make(bytes.len() as u64)?;
        let taken = self.inner.write(bytes, at)?;
        self.room.0.slack.fetch_sub(taken as i64, Relaxed);
        Ok(taken)
    }

    fn wait(&mut self, limit: Duration) -> io::Result<()> {
        self.inner.wait(limit)
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }

    fn is_in_memory(&self) -> bool {
        self.inner.is_in_memory()
    }

    fn cut(&mut self, len: u64) -> io::Result<bool> {
        self.inner.cut(len)
    }

    fn hurry(&mut self, is_behind: bool) {
        self.inner.hurry(is_behind);
    }

    fn write_back(&mut self, wait: bool) -> io::Result<u64> {
        self.inner.write_back(wait)
    }

    fn sync(&mut self) -> io::Result<bool> {
        self.inner.sync()
    }

    fn complete(&mut self) -> Result<()> {
        self.inner.complete()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::rotation::{Reports, part_of_tests},
        *,
    };
    use std::fs;

    const MIB: u64 = 1 << 20;

    /// A disk of 100 MiB in which only the files of a folder use space, and `others` bytes.
    fn disk(folder: &Path, others: Arc<AtomicU64>) -> Ask {
        let folder = folder.to_owned();
        Box::new(move || {
            let files = fs::read_dir(&folder)?.flatten();
            let used: u64 = files
                .map(|file| file.metadata().map_or(0, |it| it.len()))
                .sum();
            let used = used + others.load(Relaxed);
            Ok(Space {
                free: (100 * MIB).saturating_sub(used),
                total: 100 * MIB,
            })
        })
    }

    /// A series of this number of files of 10 MiB, and its folder.
    fn series(name: &str, files: u64) -> (PathBuf, Retention, Reports) {
        let folder =
            std::env::temp_dir().join(format!("forebay-room-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let register = Reports::default();
        let kept = part_of_tests(&register);
        for number in 0..files {
            let path = folder.join(number.to_string());
            fs::File::create(&path).unwrap().set_len(10 * MIB).unwrap();
            kept.add(&path, 10 * MIB);
        }
        (folder, kept, register)
    }

    fn names(folder: &Path) -> Vec<String> {
        let files = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = files
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_files_go_until_all_that_waits_has_room() {
        let (folder, kept, register) = series("oldest", 5);
        let others = Arc::new(AtomicU64::new(0));
        let ask = disk(&folder, others.clone());
        let room = Room::with(KeepFree::Percent(20), folder.clone(), Some(kept), ask).unwrap();
        assert_eq!(names(&folder).len(), 5, "half of the disk is free");
        // 15 MiB are free, and 20 have to be, with 4 for this write, 10 for the next ones, and the margin.
        others.store(35 * MIB, Relaxed);
        room.awaits(10 * MIB);
        room.make(4 * MIB).unwrap();
        assert_eq!(names(&folder), ["2", "3", "4"]);
        assert!(!room.is_short());
        assert_eq!(register.files().removed_for_space, 2);
        assert_eq!(register.files().removed, 0);
        // Others take all.
        others.store(90 * MIB, Relaxed);
        room.make(4 * MIB).unwrap();
        assert!(room.is_short() && names(&folder).is_empty());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn without_files_to_remove_the_capture_ends_while_what_waits_still_fits() {
        let (folder, ..) = series("single", 0);
        let others = Arc::new(AtomicU64::new(50 * MIB));
        let ask = disk(&folder, others.clone());
        let room = Room::with(KeepFree::Bytes(30 * MIB), folder.clone(), None, ask).unwrap();
        room.awaits(18 * MIB);
        assert!(!room.is_short());
        room.awaits(20 * MIB);
        assert!(room.is_short(), "20 MiB are left, and 20 wait");
        let again = Room::with(
            KeepFree::Bytes(60 * MIB),
            folder.clone(),
            None,
            disk(&folder, others),
        );
        let error = again.err().unwrap().to_string();
        assert!(
            error.contains("52.43 MB are free, and 62.91 MB must stay free"),
            "{error}"
        );
        fs::remove_dir_all(&folder).unwrap();
        let others = Arc::new(AtomicU64::new(80 * MIB));
        let refused = Room::with(
            KeepFree::Percent(20),
            "/".into(),
            None,
            disk(Path::new("/nowhere"), others),
        );
        assert!(refused.is_err(), "the free space is unknown");
    }

    #[test]
    fn a_file_system_that_frees_space_late_does_not_cost_more_files() {
        let (folder, kept, _) = series("late", 5);
        // Nothing ever becomes free, as if another program had the removed files open.
        let ask = || {
            Ok(Space {
                free: 15 * MIB,
                total: 100 * MIB,
            })
        };
        let room = Room::with(
            KeepFree::Percent(10),
            folder.clone(),
            Some(kept),
            Box::new(ask),
        )
        .unwrap();
        room.awaits(8 * MIB);
        for _ in 0..10 {
            // It fits as it is, and one removed file promises room for the rest.
            room.make(4 * MIB).unwrap();
        }
        assert_eq!(names(&folder).len(), 4);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_idle_writer_is_replaced_by_the_session() {
        let (folder, kept, _) = series("idle", 3);
        let others = Arc::new(AtomicU64::new(0));
        let ask = disk(&folder, others.clone());
        let room = Room::with(KeepFree::Percent(20), folder.clone(), Some(kept), ask).unwrap();
        others.store(65 * MIB, Relaxed);
        let mut seen = 0;
        room.0.writes.store(1, Relaxed);
        room.check_if_idle(&mut seen);
        assert_eq!(names(&folder).len(), 3, "the writer checks for itself");
        room.awaits(1);
        room.check_if_idle(&mut seen);
        assert_eq!(names(&folder).len(), 3, "the writer is only slow");
        room.awaits(0);
        room.check_if_idle(&mut seen);
        assert_eq!(names(&folder), ["2"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
