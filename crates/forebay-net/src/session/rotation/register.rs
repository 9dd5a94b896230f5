//! What session and writer tell each other of files.

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

    /// A file is complete, and has its name: whoever wants to do something with finished files begins here.
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

    pub fn files(&self) -> Files {
        self.inner().files.clone()
    }
}
