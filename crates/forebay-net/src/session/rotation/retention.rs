//! Complete files: which of them to keep, and which wait to be compressed.
//!
//! ```text
//!  writer's thread                                         compressor's thread
//!  complete ─▶ add ─▶ │ oldest …        … newest │ ─▶ next ─▶ NAME.zst.part ─▶ NAME.zst
//!                       │ make_room                                              │ replace: NAME removed
//!                       ▼ removed
//! ```
//! One lock is shared by the writer and the compressor. It is held while a file is renamed or removed, so that neither does that
//! to a file of the other. It is never held while a file is read, written or synced. The session's thread does not use it.

use super::{Reports, names::behind};
use forebay::{Error, Result};
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use std::{
    collections::VecDeque,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// Maximum number of files that wait to be compressed; further files stay uncompressed.
const MAX_WAITING: usize = 256;

/// The complete files of a series. Clones share them.
#[derive(Clone)]
pub(super) struct Retention(Arc<Shared>);

struct Shared {
    inner: Mutex<Inner>,
    /// A file waits, or there will be no more.
    changed: Condvar,
    register: Reports,
    /// Whether files are to be compressed.
    compresses: bool,
    /// Whether old files are removed for new ones.
    is_ring: bool,
}

#[derive(Default)]
struct Inner {
    /// Files and their sizes, oldest first; only if old files are removed.
    files: VecDeque<(PathBuf, u64)>,
    waiting: VecDeque<PathBuf>,
    /// The file being compressed. Set to `None` when the file is removed, or when nothing waits for it any more.
    in_hand: Option<PathBuf>,
    is_over: bool,
}

impl Retention {
    pub fn new(register: Reports, is_ring: bool, compresses: bool) -> Self {
        Retention(Arc::new(Shared {
            inner: Mutex::default(),
            changed: Condvar::new(),
            register,
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

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a complete file under its final name.
    pub fn add(&self, path: &Path, len: u64) {
        let mut inner = self.inner();
        self.0.register.finished(path);
        if self.0.is_ring {
            inner.files.push_back((path.into(), len));
        }
        if !self.0.compresses {
            self.0.register.announce(path);
            return;
        }
        if inner.waiting.len() == MAX_WAITING {
            self.0.register.left(1);
            self.0.register.announce(path);
            return;
        }
        inner.waiting.push_back(path.into());
        self.0.changed.notify_all();
    }

    /// Removes the oldest files until fewer than `files` remain, with at most `bytes` in total.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn make_room(&self, files: u64, bytes: u64) -> Result<()> {
        let mut inner = self.inner();
        while inner.files.len() as u64 >= files || inner.bytes() > bytes {
            let Some((oldest, _)) = inner.files.front().cloned() else {
                break;
            };
            inner.waiting.retain(|waiting| *waiting != oldest);
            if inner.in_hand.as_ref() == Some(&oldest) {
                // It may already have its new name, while the old one still exists.
                inner.in_hand = None;
                remove(&packed(&oldest))?;
            }
            remove(&oldest)?;
            self.0.register.removed(&oldest);
            inner.files.pop_front();
        }
        Ok(())
    }

    /// Waits for a file to compress; `None`: there will be no more.
    pub fn next(&self) -> Option<PathBuf> {
        let inner = self.inner();
        let waits = |inner: &mut Inner| inner.waiting.is_empty() && !inner.is_over;
        let inner = self.0.changed.wait_while(inner, waits);
        let mut inner = inner.unwrap_or_else(PoisonError::into_inner);
        inner.in_hand = inner.waiting.pop_front();
        inner.in_hand.clone()
    }

    /// Whether the file in hand still has to be compressed.
    pub fn is_wanted(&self) -> bool {
        self.inner().in_hand.is_some()
    }

    /// Renames the compressed file to its final name, if it is still wanted.
    ///
    /// # Errors
    /// Another file already has the name, or the file cannot be renamed.
    pub fn name(&self, part: &Path, name: &Path) -> io::Result<bool> {
        let inner = self.inner();
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
        let mut inner = self.inner();
        let Some(path) = inner.in_hand.clone() else {
            // The original stays or was removed: only one of the two may remain.
            return remove(by).map_err(io::Error::other);
        };
        fs::remove_file(&path)?;
        inner.in_hand = None;
        if let Some(file) = inner.files.iter_mut().find(|(file, _)| *file == path) {
            *file = (by.into(), len);
        }
        self.0.register.compressed(&path, by, before, len);
        self.0.register.announce(by);
        Ok(())
    }

    /// Declares that no more files will come. Returns the number of files that remain to be compressed.
    pub fn end(&self) -> usize {
        let mut inner = self.inner();
        inner.is_over = true;
        self.0.changed.notify_all();
        inner.waiting.len() + usize::from(inner.in_hand.is_some())
    }

    /// Leaves the remaining files uncompressed.
    pub fn give_up(&self) {
        let mut inner = self.inner();
        let left = inner.waiting.len() + usize::from(inner.in_hand.is_some());
        for path in inner
            .in_hand
            .take()
            .into_iter()
            .chain(inner.waiting.drain(..))
        {
            self.0.register.announce(&path);
        }
        self.0.register.left(left as u64);
    }

    /// Records that the file in hand could not be compressed.
    pub fn failed(&self, error: &Error) {
        // If the file was removed meanwhile, that is the cause.
        if let Some(path) = self.inner().in_hand.take() {
            self.0.register.not_compressed(error);
            self.0.register.announce(&path);
        }
    }
}

impl Inner {
    fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, len)| len).sum()
    }
}

/// The name of `path` after compression.
pub(super) fn packed(path: &Path) -> PathBuf {
    behind(path, ".zst")
}

/// The name of the file `name` until it is complete.
pub(super) fn part(name: &Path) -> PathBuf {
    behind(name, ".part")
}

/// Renames a file to an unused name.
///
/// # Errors
/// The name is in use (`AlreadyExists`), or the file cannot be renamed.
pub(super) fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
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

/// A missing file is not an error. A symbolic link itself is removed.
pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let what = "removing it for a newer file";
            Err(Error::new(path.display().to_string(), what).because(error))
        }
        _ => Ok(()),
    }
}
