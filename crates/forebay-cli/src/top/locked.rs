//! What threads share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a thread that panicked has left is used as it is.
pub fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
