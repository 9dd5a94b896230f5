//! The latest update, on its way from the thread that captures to the one that draws.

use super::{locked::locked, state::Status, tables::Snapshot};
use std::sync::Mutex;

/// What the session's thread reports.
#[derive(Default)]
pub struct Update {
    pub status: Status,
    pub snapshot: Snapshot,
    /// No more packets arrive.
    pub ended: Option<String>,
}

/// The latest update. A newer one replaces it, so that memory stays fixed while nothing takes them.
pub struct Latest<T>(Mutex<Option<T>>);

impl<T> Latest<T> {
    pub fn new() -> Self {
        Latest(Mutex::new(None))
    }

    pub fn set(&self, update: T) {
        *locked(&self.0) = Some(update);
    }

    pub fn take(&self) -> Option<T> {
        locked(&self.0).take()
    }
}
