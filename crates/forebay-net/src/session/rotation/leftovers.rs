//! What earlier captures of the same series left: unfinished files, and complete ones.
//!
//! ```text
//!  kill -9 ─▶ NAME.part ─▶ in use? ─▶ cut after its last whole packet ─▶ NAME ─▶ kept, compressed, reported
//! ```
//! The folder is searched before the first file is created. Unfinished files may be large, so a separate thread reads and finishes
//! them while packets are captured. A file that another process is writing is left alone: such a file is locked.

use super::{
    super::{
        paths::{free_name, is_in_use, is_locked, open_unfollowed, remove, sync_folder},
        reports::Recovered,
        retention::Retention,
    },
    config::Rotation,
    names::{Names, is_of_series},
};
use crate::{
    control::Control,
    repair::{Examined, folder_of, rename_to_new},
};
use forebay::{Error, Result, store::is_foreign_in};
use std::{
    fs::{self, File, FileTimes, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime},
};

/// How long the end of a capture waits for the files of earlier ones.
const AT_END: Duration = Duration::from_secs(30);

/// The files of earlier captures.
#[derive(Default)]
pub(super) struct Leftovers {
    /// `NAME.part`, oldest first.
    unfinished: Vec<PathBuf>,
    /// Complete files and their sizes, oldest first.
    pub earlier: Vec<(PathBuf, u64)>,
    /// Complete files whose compression was interrupted.
    pub uncompressed: Vec<PathBuf>,
}

impl Leftovers {
    /// Searches the folder of the series. Removes what an interrupted compression left, if its original is there.
    pub fn find(rotation: &Rotation) -> Leftovers {
        let mut found = Leftovers::default();
        let Ok(there) = fs::read_dir(folder_of(&rotation.path)) else {
            return found;
        };
        let Ok(folder) = folder_of(&rotation.path).metadata() else {
            return found;
        };
        let (mut unfinished, mut earlier) = (Vec::new(), Vec::new());
        for entry in there.flatten() {
            // Written as the capture writes it, so that it is the same path.
            let path = rotation.path.with_file_name(entry.file_name());
            // Of a link, this describes the link itself.
            let about = entry.metadata().ok().filter(Metadata::is_file);
            let Some(about) = about.filter(|it| !is_foreign_in(&folder, it)) else {
                continue;
            };
            let stem = path
                .extension()
                .filter(|it| *it == "part")
                .map(|_| path.with_extension(""));
            let name = stem.as_deref().unwrap_or(&path).file_name();
            let Some(is_packed) =
                name.and_then(|name| is_of_series(&rotation.path, rotation.names, name))
            else {
                continue;
            };
            let modified = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            match (&stem, is_packed) {
                (Some(packed), true) if is_file(&packed.with_extension("")) => remove_unused(&path),
                // Without an original, it was compressed while it was captured, by a series with another `-w`.
                (Some(_), _) => unfinished.push((modified, path)),
                (None, true) if rotation.compress.is_some() && is_double(&path) => {
                    found.uncompressed.push(path.with_extension(""));
                }
                (None, _) => earlier.push((modified, path, about.len())),
            }
        }
        unfinished.sort();
        earlier.sort();
        found.unfinished = unfinished.into_iter().map(|(_, path)| path).collect();
        found.earlier = earlier
            .into_iter()
            .map(|(_, path, len)| (path, len))
            .collect();
        found
    }

    /// The thread that finishes the unfinished files, if there are any.
    pub fn finisher(
        self,
        rotation: &Rotation,
        retention: &Retention,
        syncs: bool,
    ) -> Option<Finisher> {
        let work = Work {
            unfinished: self.unfinished,
            retention: retention.clone(),
            replaces: rotation.names == Names::Numbered,
            syncs,
        };
        (!work.unfinished.is_empty()).then_some(Finisher::Ready(work))
    }
}

fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|it| it.is_file())
}

/// Removes a file that no process has locked.
fn remove_unused(path: &Path) {
    if !is_in_use(path) {
        // If this fails, it stays, as before.
        let _ = remove(path);
    }
}

/// Whether this compressed file has its original beside it, because the compression was killed between its last two steps. Then
/// removes the compressed file: the original is complete, and is compressed again. A compressed file gets the time of its original.
/// Files with different times are of different captures.
fn is_double(compressed: &Path) -> bool {
    let original = compressed.with_extension("");
    let is_free = || {
        let file = open_unfollowed(compressed).ok()?;
        // The lock is held until the original is looked for: a compressor that works on it has the lock.
        let before = original.symlink_metadata().ok().filter(Metadata::is_file)?;
        let is_copy = before.modified().ok()? == file.metadata().ok()?.modified().ok()?;
        (is_copy && !is_locked(&file)).then_some(file)
    };
    match is_free() {
        Some(_locked) => remove(compressed).is_ok_and(|is_removed| is_removed),
        None => false,
    }
}

/// Finishes files, on a thread that starts with the capture.
pub(in crate::session) enum Finisher {
    Ready(Work),
    Running(JoinHandle<()>),
}

pub(in crate::session) struct Work {
    unfinished: Vec<PathBuf>,
    retention: Retention,
    /// Whether the names of the series replace existing files.
    replaces: bool,
    syncs: bool,
}

impl Finisher {
    /// Starts the thread.
    ///
    /// # Errors
    /// No thread is available.
    pub fn start(self) -> Result<Self> {
        match self {
            Finisher::Ready(work) => std::thread::Builder::new()
                .name("forebay-finish".into())
                .spawn(move || work.run())
                .map(Finisher::Running)
                .map_err(|cause| {
                    Error::new("store", "starting the thread for unfinished files").because(cause)
                }),
            running => Ok(running),
        }
    }

    /// Waits until all files are finished, for [`AT_END`] at most, or until another stop is requested. The rest is then left to the next
    /// capture. Calls `observe` if it has to wait.
    pub fn finish(self, control: &Control, observe: impl FnOnce()) {
        let Finisher::Running(thread) = self else {
            return;
        };
        if !thread.is_finished() && !control.is_abandoned() {
            observe();
        }
        let (stops, began) = (control.stops(), Instant::now());
        while began.elapsed() < AT_END
            && !thread.is_finished()
            && !control.is_abandoned()
            && control.stops() == stops
        {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Work {
    fn run(&self) {
        // For this thread only, and not the lowest: the end of the capture waits for it, and a busy machine would give it next to
        // nothing. If it is denied, it competes with the capture.
        let _ = rustix::process::setpriority_process(None, 10);
        for part in &self.unfinished {
            match self.finish(part) {
                Ok(None) => {}
                Ok(Some(recovered)) => self.retention.reports().recovered(recovered),
                Err(error) => self.retention.reports().recovered(Recovered {
                    path: part.clone(),
                    packets: 0,
                    bytes: 0,
                    cut_bytes: 0,
                    rest: None,
                    error: Some(error.to_string()),
                    unsynced: None,
                }),
            }
        }
    }

    /// Finishes a file; `None`: it is in use, gone, or was empty and is removed.
    fn finish(&self, path: &Path) -> Result<Option<Recovered>> {
        let failed = |tried: &'static str| {
            move |cause: io::Error| Error::new(path.display().to_string(), tried).because(cause)
        };
        // The lock ends here, because a file that is open for writing cannot be examined.
        let about = match open_unfollowed(path) {
            Ok(file) if is_locked(&file) => return Ok(None),
            Ok(file) => file.metadata().map_err(failed("reading its metadata"))?,
            Err(_) if path.symlink_metadata().is_err() => return Ok(None),
            Err(cause) => return Err(failed("opening it")(cause)),
        };
        // Another one may have taken the name.
        let folder = folder_of(path).metadata();
        if folder.is_ok_and(|folder| is_foreign_in(&folder, &about)) {
            return Ok(None);
        }
        if about.len() == 0 {
            let _names = self.retention.hold();
            return match claim(path, &about) {
                Some(_) => remove(path).map(|_| None),
                None => Ok(None),
            };
        }
        let Some(examined) = examined(path, &about)? else {
            return Ok(None);
        };
        let finishing = self.retention.finishing(path);
        if claim(path, &about).is_none() {
            return Ok(None);
        }
        let rest = match examined.is_whole() {
            true => None,
            false => examined.cut_torn_end()?,
        };
        let whole = examined.whole_bytes;
        let mut names = self.retention.hold();
        let Some(file) = claim(path, &about) else {
            return Ok(None);
        };
        // The time of its last packet, not of the repair: the oldest files are removed first.
        if let Ok(modified) = about.modified() {
            let _ = file.set_times(FileTimes::new().set_modified(modified));
        }
        let name = self
            .rename(path)
            .map_err(failed("giving it its final name"))?;
        self.retention.add_finished(&mut names, &name, whole);
        drop((names, finishing));
        let synced = match self.syncs {
            true => sync_folder(&name),
            false => Ok(()),
        };
        let unsynced = synced.map_err(failed("making its final name durable"));
        Ok(Some(Recovered {
            unsynced: unsynced.err().map(|error| error.to_string()),
            path: name,
            packets: examined.packets,
            bytes: whole,
            cut_bytes: examined.bytes - whole,
            rest,
            error: None,
        }))
    }

    /// Renames `NAME.part`. Returns its final name.
    fn rename(&self, path: &Path) -> io::Result<PathBuf> {
        let name = path.with_extension("");
        if self.replaces {
            fs::rename(path, &name)?;
            return Ok(name);
        }
        let mut free = name.clone();
        while let Err(cause) = rename_to_new(path, &free) {
            if cause.kind() != io::ErrorKind::AlreadyExists {
                return Err(cause);
            }
            free = free_name(&name);
        }
        Ok(free)
    }
}

/// Reads the file at `path`; `None`: it is not the one that `about` describes. Another file may have taken the name, or a link to a
/// file elsewhere.
fn examined(path: &Path, about: &Metadata) -> Result<Option<Examined>> {
    match Examined::of(path) {
        Ok(examined) => Ok(examined.is_of(about).then_some(examined)),
        Err(_) if claim(path, about).is_none() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Locks the file at `path`, if it is still the one that `about` describes, and not in use.
fn claim(path: &Path, about: &Metadata) -> Option<File> {
    let file = open_unfollowed(path).ok()?;
    let now = file.metadata().ok()?;
    let is_same = (now.dev(), now.ino()) == (about.dev(), about.ino());
    (is_same && !is_locked(&file)).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::{super::super::reports::Reports, *};
    use forebay_testing::folder::Folder;
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use std::{
        os::unix::fs::symlink,
        sync::atomic::{AtomicBool, Ordering::Relaxed},
    };

    /// A capture without packets, and with the beginning of one.
    fn torn() -> Vec<u8> {
        let mut bytes = b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00".to_vec();
        bytes.resize(30, 0);
        (bytes[18], bytes[20]) = (4, 1); // snapshot length, link type
        bytes
    }

    #[test]
    fn a_link_that_took_the_name_of_an_unfinished_file_is_not_followed() {
        let folder = Folder::new();
        let (ours, theirs) = (folder.join("a.pcap.part"), folder.join("theirs.pcap"));
        fs::write(&ours, torn()).unwrap();
        fs::write(&theirs, torn()).unwrap();
        let about = fs::metadata(&ours).unwrap();
        let found = examined(&ours, &about).unwrap().unwrap();
        assert!(!found.is_whole());
        drop(claim(&ours, &about).unwrap());
        fs::remove_file(&ours).unwrap();
        symlink(&theirs, &ours).unwrap();
        assert!(examined(&ours, &about).unwrap().is_none());
        assert!(claim(&ours, &about).is_none());
        assert!(found.cut_torn_end().is_err());
        assert_eq!(fs::read(&theirs).unwrap(), torn());
    }

    #[test]
    fn a_link_that_is_swapped_in_all_the_time_never_leads_a_repair_elsewhere() {
        let folder = Folder::new();
        let [name, other, theirs] =
            ["a.pcap.part", "other", "theirs.pcap"].map(|name| folder.join(name));
        fs::write(&theirs, torn()).unwrap();
        let work = Work {
            unfinished: Vec::new(),
            retention: Retention::new(Reports::default(), false, false),
            replaces: true,
            syncs: false,
        };
        let is_over = AtomicBool::new(false);
        let (mut finished, mut is_intact) = (0, true);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(Relaxed) {
                    let _ = renameat_with(CWD, &name, CWD, &other, RenameFlags::EXCHANGE);
                }
            });
            for _ in 0..300 {
                let _ = (fs::remove_file(&name), fs::remove_file(&other));
                symlink(&theirs, &other).unwrap();
                fs::write(&name, torn()).unwrap();
                finished += u32::from(matches!(work.finish(&name), Ok(Some(_))));
                is_intact &= fs::read(&theirs).unwrap() == torn();
            }
            is_over.store(true, Relaxed);
        });
        assert!(is_intact && finished > 0, "{finished}");
    }
}
