//! Complete files: which of them to keep, and which wait to be compressed.
//!
//! ```text
//!  writer's thread                                         compressor's thread
//!  complete ─▶ add ─▶ │ oldest …        … newest │ ─▶ next ─▶ NAME.zst.part ─▶ NAME.zst
//!                       │ make_room,                                             │ replace: NAME removed
//!                       ▼ remove_oldest
//! ```
//! One lock is shared by the writer, the compressor and the thread that finishes files of earlier captures. It is held while a file is
//! created, renamed or removed, so that none of them does that to a file of another. It is never held while a file is read, written
//! or synced. While packets are taken, the session's thread never waits for it.

use super::{
    compress::Compression,
    paths::{is_locked, open_unfollowed, packed, part, remove},
    reports::Reports,
};
use crate::repair::rename_to_new;
use forebay::{Error, Result};
use std::{
    collections::VecDeque,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Maximum number of files that wait to be compressed; further files stay uncompressed.
const MAX_WAITING: usize = 256;

/// The complete files of a series. Clones share them.
#[derive(Clone)]
pub(super) struct Retention(Arc<SharedLists>);

struct SharedLists {
    inner: Mutex<Lists>,
    /// A file waits, or there will be no more, or a file of a killed capture is finished.
    changed: Condvar,
    reports: Reports,
    /// The sizes of all files that may be removed. Relaxed: it publishes only itself.
    bytes: AtomicU64,
    /// Whether files are to be compressed.
    compresses: bool,
    /// Whether old files are removed for new ones.
    is_ring: bool,
}

/// A complete file.
struct CompleteFile {
    path: PathBuf,
    len: u64,
    origin: Origin,
}

/// Which capture wrote a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// This one.
    Ours,
    /// An earlier one that was killed. This one finished the file.
    Finished,
    /// An earlier one. Such a file is removed only for free space.
    Earlier,
}

#[derive(Default)]
pub(super) struct Lists {
    /// Files, oldest first; only if old files are removed.
    files: VecDeque<CompleteFile>,
    waiting: VecDeque<PathBuf>,
    /// The file being compressed. Set to `None` when the file is removed, or when nothing waits for it any more.
    in_hand: Option<PathBuf>,
    /// The temporary name of a file of a killed capture that is being cut and renamed.
    finishing: Option<PathBuf>,
    is_over: bool,
}

impl Retention {
    pub fn new(reports: Reports, is_ring: bool, compresses: bool) -> Self {
        Retention(Arc::new(SharedLists {
            inner: Mutex::default(),
            changed: Condvar::new(),
            bytes: AtomicU64::new(0),
            reports,
            compresses,
            is_ring,
        }))
    }

    pub fn is_ring(&self) -> bool {
        self.0.is_ring
    }

    pub fn compresses(&self) -> bool {
        self.0.compresses
    }

    /// What is reported about the files.
    pub fn reports(&self) -> &Reports {
        &self.0.reports
    }

    /// Like [`hold`](Retention::hold), but first waits until `part` is not being finished by another thread of this capture.
    pub fn hold_once_finished(&self, part: &Path) -> MutexGuard<'_, Lists> {
        let is_in_work = |inner: &mut Lists| inner.finishing.as_deref() == Some(part);
        let inner = self.0.changed.wait_while(self.hold(), is_in_work);
        inner.unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks `part` as being finished until the value is dropped.
    pub fn finishing(&self, part: &Path) -> Finishing<'_> {
        self.hold().finishing = Some(part.into());
        Finishing(self)
    }

    /// The sizes of all files that may be removed, without waiting for another thread.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Relaxed)
    }

    fn measure(&self, inner: &Lists) {
        self.0.bytes.store(inner.bytes(), Relaxed);
    }

    /// While this is held, no other thread creates, renames or removes a file of the series.
    pub fn hold(&self) -> MutexGuard<'_, Lists> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a complete file under its final name.
    pub fn add(&self, path: &Path, len: u64) {
        let mut inner = self.hold();
        self.0.reports.finished(path);
        if self.0.is_ring {
            inner.files.push_back(CompleteFile {
                path: path.into(),
                len,
                origin: Origin::Ours,
            });
            self.measure(&inner);
        }
        self.pass_on(&mut inner, path);
    }

    /// Lets the compressor have a complete file, if files are compressed.
    fn pass_on(&self, inner: &mut Lists, path: &Path) {
        if !self.0.compresses || Compression::of_path(path).is_some() {
            self.0.reports.announce(path);
            return;
        }
        // After the end, nothing takes what waits.
        if inner.waiting.len() == MAX_WAITING || inner.is_over {
            self.0.reports.left(1);
            self.0.reports.announce(path);
            return;
        }
        inner.waiting.push_back(path.into());
        self.0.changed.notify_all();
    }

    /// Records complete files of earlier captures and their sizes, oldest first.
    pub fn adopt(&self, earlier: Vec<(PathBuf, u64)>) {
        let mut inner = self.hold();
        for (path, len) in earlier.into_iter().rev() {
            inner.files.push_front(CompleteFile {
                path,
                len,
                origin: Origin::Earlier,
            });
        }
        self.measure(&inner);
    }

    /// Lets a file be compressed whose compression was interrupted.
    pub fn compress_again(&self, path: &Path) {
        self.pass_on(&mut self.hold(), path);
    }

    /// Records a file of a killed capture that has just got its final name. `inner` was held meanwhile.
    pub fn add_finished(&self, inner: &mut Lists, path: &Path, len: u64) {
        if self.0.is_ring {
            // It replaced an older one of that name.
            inner.files.retain(|file| file.path != path);
            let is_ours = |file: &CompleteFile| file.origin == Origin::Ours;
            let newer = inner.files.iter().position(is_ours);
            let at = newer.unwrap_or(inner.files.len());
            let finished = CompleteFile {
                path: path.into(),
                len,
                origin: Origin::Finished,
            };
            inner.files.insert(at, finished);
            self.measure(inner);
        }
        self.pass_on(inner, path);
    }

    /// Removes the oldest files until fewer than `files` remain, with at most `bytes` in total. Files that an earlier capture
    /// completed do not count.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn make_room(&self, files: u64, bytes: u64) -> Result<()> {
        let mut inner = self.hold();
        let counts = |file: &CompleteFile| file.origin != Origin::Earlier;
        loop {
            let counted = inner.files.iter().filter(|file| counts(file));
            let (number, size) = counted.fold((0, 0), |(n, size), file| (n + 1, size + file.len));
            if number < files && size <= bytes {
                break;
            }
            let Some(oldest) = inner.take_oldest(counts)? else {
                break;
            };
            self.0.reports.removed(&oldest.path, false);
        }
        self.measure(&inner);
        Ok(())
    }

    /// Removes the oldest file for free space. Returns its size; `None`: there is none.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_oldest(&self) -> Result<Option<u64>> {
        let mut inner = self.hold();
        let oldest = inner.take_oldest(|_| true);
        self.measure(&inner);
        Ok(oldest?.map(|oldest| {
            self.0.reports.removed(&oldest.path, true);
            oldest.len
        }))
    }

    /// Removes the file `path`, which a new file replaces, if it is one of these.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_replaced(&self, inner: &mut Lists, path: &Path) -> Result<()> {
        let is_it = |file: &CompleteFile| file.path == path || file.path == packed(path);
        if let Some(at) = inner.files.iter().position(is_it) {
            if let Some(replaced) = inner.take(at)? {
                self.0.reports.removed(&replaced.path, false);
            }
            self.measure(inner);
        }
        Ok(())
    }

    /// Waits for a file to compress; `None`: there will be no more.
    pub fn next(&self) -> Option<PathBuf> {
        let inner = self.hold();
        let waits = |inner: &mut Lists| inner.waiting.is_empty() && !inner.is_over;
        let inner = self.0.changed.wait_while(inner, waits);
        let mut inner = inner.unwrap_or_else(PoisonError::into_inner);
        inner.in_hand = inner.waiting.pop_front();
        inner.in_hand.clone()
    }

    /// Whether the file in hand still has to be compressed.
    pub fn is_wanted(&self) -> bool {
        self.hold().in_hand.is_some()
    }

    /// Renames the compressed file to its final name, if it is still wanted.
    ///
    /// # Errors
    /// Another file already has the name, or the file cannot be renamed.
    pub fn name(&self, part: &Path, name: &Path) -> io::Result<bool> {
        let inner = self.hold();
        if inner.in_hand.is_some() {
            rename_to_new(part, name)?;
        }
        Ok(inner.in_hand.is_some())
    }

    /// Removes the file in hand, which a compressed file of `len` bytes replaces. If the file in hand is no longer wanted,
    /// removes the compressed file instead.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn replace(&self, by: &Path, before: u64, len: u64) -> io::Result<()> {
        let mut inner = self.hold();
        let Some(path) = inner.in_hand.clone() else {
            // The original stays or was removed: only one of the two may remain.
            return remove(by).map(drop).map_err(io::Error::other);
        };
        fs::remove_file(&path)?;
        inner.in_hand = None;
        if let Some(file) = inner.files.iter_mut().find(|file| file.path == path) {
            (file.path, file.len) = (by.into(), len);
        }
        self.measure(&inner);
        self.0.reports.compressed(&path, by, before, len);
        self.0.reports.announce(by);
        Ok(())
    }

    /// Declares that no more files will come. Returns the number of files that remain to be compressed.
    pub fn end(&self) -> usize {
        let mut inner = self.hold();
        inner.is_over = true;
        self.0.changed.notify_all();
        inner.waiting.len() + usize::from(inner.in_hand.is_some())
    }

    /// Leaves the remaining files uncompressed.
    pub fn give_up(&self) {
        let mut inner = self.hold();
        let left = inner.waiting.len() + usize::from(inner.in_hand.is_some());
        for path in inner
            .in_hand
            .take()
            .into_iter()
            .chain(inner.waiting.drain(..))
        {
            self.0.reports.announce(&path);
        }
        self.0.reports.left(left as u64);
    }

    /// Leaves the file in hand uncompressed.
    pub fn leave(&self) {
        if let Some(path) = self.hold().in_hand.take() {
            self.0.reports.left(1);
            self.0.reports.announce(&path);
        }
    }

    /// Records that the file in hand could not be compressed.
    pub fn failed(&self, error: &Error) {
        // If the file was removed meanwhile, that is the cause.
        if let Some(path) = self.hold().in_hand.take() {
            self.0.reports.not_compressed(error);
            self.0.reports.announce(&path);
        }
    }
}

impl Lists {
    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }

    /// Removes the oldest of these files from the list and from the disk. A file of an earlier capture that is in use, that is no
    /// capture or that cannot be removed, is only removed from the list. So is a file that another program has removed.
    fn take_oldest(
        &mut self,
        is_one: impl Fn(&CompleteFile) -> bool,
    ) -> Result<Option<CompleteFile>> {
        while let Some(at) = self.files.iter().position(&is_one) {
            let is_ours = self.files[at].origin == Origin::Ours;
            if !is_ours && !is_unused_capture(&self.files[at].path) {
                self.files.remove(at);
                continue;
            }
            match self.take(at) {
                Err(_) if !is_ours => drop(self.files.remove(at)),
                Ok(None) => {}
                taken => return taken,
            }
        }
        Ok(None)
    }

    /// Removes a file from the list and from the disk; `None`: it was only on the list.
    fn take(&mut self, at: usize) -> Result<Option<CompleteFile>> {
        let Some(CompleteFile { path, .. }) = self.files.get(at) else {
            return Ok(None);
        };
        if self.in_hand.as_ref() == Some(path) {
            // It may already have its new name, while the old one still exists.
            self.in_hand = None;
            let packed = packed(path);
            // Without its original, what is compressed so far would look like a capture that was killed.
            remove(&part(&packed))?;
            remove(&packed)?;
        }
        let is_removed = remove(path)?;
        self.waiting.retain(|waiting| waiting != path);
        Ok(self.files.remove(at).filter(|_| is_removed))
    }
}

/// A file is being finished.
pub(super) struct Finishing<'a>(&'a Retention);

impl Drop for Finishing<'_> {
    fn drop(&mut self) {
        self.0.hold().finishing = None;
        self.0.0.changed.notify_all();
    }
}

/// Whether a file of an earlier capture begins like a capture, and no process writes it.
fn is_unused_capture(path: &Path) -> bool {
    let Ok(mut file) = open_unfollowed(path) else {
        return false;
    };
    let mut first = [0; 4];
    file.read_exact(&mut first).is_ok() && begins_capture(first) && !is_locked(&file)
}

/// Whether a pcapng, pcap, gzip or zstd file begins so.
fn begins_capture(first: [u8; 4]) -> bool {
    const PCAP: [u32; 3] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34];
    let [little, big] = [u32::from_le_bytes(first), u32::from_be_bytes(first)];
    let is_pcap = PCAP.contains(&little) || PCAP.contains(&big);
    is_pcap
        || first == [0x0a, 0x0d, 0x0d, 0x0a]
        || first == [0x28, 0xb5, 0x2f, 0xfd]
        || first[..2] == [0x1f, 0x8b]
}

/// A list of files that may be removed.
#[cfg(test)]
pub(super) fn list_of_tests(reports: &Reports) -> Retention {
    Retention::new(reports.clone(), true, false)
}
