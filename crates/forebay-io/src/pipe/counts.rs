//! What the two threads of a pipe and its supervisor share.

use forebay::sync::Signal;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// State shared by the two threads and the supervisor.
#[derive(Debug)]
pub(super) struct Counts {
    /// Written by the reading thread. Relaxed, like the other counts: it publishes only itself.
    pub(super) read: AtomicU64,
    /// Written by the writing thread.
    pub(super) written: AtomicU64,
    /// Newlines among the bytes written, if they are counted. Written by the writing thread.
    pub(super) lines: AtomicU64,
    /// When bytes last moved, on the pipe's clock. Written by both threads. Relaxed, like the others.
    pub(super) moved_at: AtomicU64,
    /// The reading thread has ended.
    pub(super) filled: Signal,
    /// The writing thread has ended: no output takes any more bytes.
    pub(super) drained: Signal,
}

impl Counts {
    pub(super) fn count_read(&self, bytes: u64, now: u64) {
        self.read.fetch_add(bytes, Relaxed);
        self.moved_at.fetch_max(now, Relaxed);
    }

    pub(super) fn count_written(&self, bytes: u64, now: u64) {
        self.written.fetch_add(bytes, Relaxed);
        self.moved_at.fetch_max(now, Relaxed);
    }

    /// Bytes read and bytes written; never more written than read.
    pub(super) fn now(&self) -> (u64, u64) {
        let written = self.written.load(Relaxed);
        (self.read.load(Relaxed).max(written), written)
    }

    /// Bytes that are read but not written yet.
    pub(super) fn held(&self) -> u64 {
        let (read, written) = self.now();
        read - written
    }
}
