//! What session and writer tell each other of files.

use forebay::Error;
use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Names of files that are told at the end.
const LAST: usize = 16;

/// The files of a capture.
///
/// ```
/// let files = forebay_net::session::Files::default(); // packets were only counted, or went into a pipe
/// assert!(files.written == 0 && files.last.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Files that were completed; one to which not a byte was written is none.
    pub written: u64,
    /// Of these, removed for newer ones.
    pub removed: u64,
    /// The newest of those that are left, in order, at most 16.
    pub last: VecDeque<PathBuf>,
    /// What became of those that were to be compressed.
    pub compressed: Compressed,
}

/// Finished files that were to be compressed.
///
/// ```
/// let none = forebay_net::session::Compressed::default(); // nobody asked for it
/// assert!(none.files == 0 && none.left == 0 && none.error.is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Compressed {
    /// Files that were compressed.
    pub files: u64,
    /// Bytes that they had before.
    pub bytes_before: u64,
    /// Bytes that they have since.
    pub bytes: u64,
    /// Files that stayed as they were, because too many waited already, or whoever stopped would not wait for them.
    pub left: u64,
    /// Files that stayed as they were, because compressing them failed.
    pub failed: u64,
    /// The first of these failures, told whole.
    pub error: Option<String>,
}

/// Names on their way to the writer, and the files that came of them; clones are the same one.
#[derive(Clone, Default)]
pub(in crate::session) struct Register(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// Files that were ordered and not opened yet: never more than the store has buffers.
    ordered: VecDeque<PathBuf>,
    files: Files,
}

impl Register {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next file is to be called so.
    pub fn order(&self, name: PathBuf) {
        self.inner().ordered.push_back(name);
    }

    /// What the file that is opened next is to be called.
    pub fn ordered(&self) -> PathBuf {
        self.inner().ordered.front().cloned().unwrap_or_default()
    }

    /// It is open.
    pub fn opened(&self) {
        self.inner().ordered.pop_front();
    }

    /// A file is complete, and has its name.
    pub fn finished(&self, path: &Path) {
        let mut inner = self.inner();
        inner.files.written += 1;
        if inner.files.last.len() == LAST {
            inner.files.last.pop_front();
        }
        inner.files.last.push_back(path.into());
    }

    /// A file was removed for a newer one.
    pub fn removed(&self, path: &Path) {
        let mut inner = self.inner();
        inner.files.removed += 1;
        inner.files.last.retain(|last| last != path);
    }

    /// In the place of `path`, of `before` bytes, there is another file now, of `bytes`.
    pub fn compressed(&self, path: &Path, by: &Path, before: u64, bytes: u64) {
        let files = &mut self.inner().files;
        files.compressed.files += 1;
        files.compressed.bytes_before += before;
        files.compressed.bytes += bytes;
        if let Some(last) = files.last.iter_mut().find(|last| **last == path) {
            *last = by.into();
        }
    }

    /// So many files are not going to be compressed.
    pub fn left(&self, files: u64) {
        self.inner().files.compressed.left += files;
    }

    /// A file could not be.
    pub fn not_compressed(&self, error: &Error) {
        let compressed = &mut self.inner().files.compressed;
        compressed.failed += 1;
        compressed.error.get_or_insert_with(|| error.to_string());
    }

    pub fn files(&self) -> Files {
        self.inner().files.clone()
    }
}
