//! The memory of batches that were lent to a store, on its way back to the workers.
//!
//! ```text
//!  worker ── batch ──▶ port ── Loan ──▶ store ── written ──▶ buffer pool ──▶ the next worker that needs memory
//! ```
//! The buffer that returned last is used first, because it is most likely still in the cache.

use forebay::store::Loan;
use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// Clones share their buffers.
#[derive(Clone, Default)]
pub(super) struct BufferPool(Arc<Mutex<Vec<Vec<u8>>>>);

/// Buffers that wait to be used again; more are freed.
const MAX_BUFFERS: usize = 32;

impl BufferPool {
    /// A buffer with its old contents, or an empty one if none returned.
    pub fn take(&self) -> Vec<u8> {
        self.lock().pop().unwrap_or_default()
    }

    /// Lends `range` of `bytes`. The buffer returns here when the loan is dropped.
    pub fn lend(&self, bytes: Vec<u8>, range: Range<usize>) -> Loan {
        Loan::new(self.lent(bytes), range)
    }

    /// Lends all of `bytes`.
    pub fn lent(&self, bytes: Vec<u8>) -> impl AsRef<[u8]> + Send + Sync + use<> {
        let pool = self.clone();
        Lent { bytes, pool }
    }

    fn lock(&self) -> impl std::ops::DerefMut<Target = Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Lent {
    bytes: Vec<u8>,
    pool: BufferPool,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut buffers = self.pool.lock();
        // After a slow phase of the output there are more than the workers need.
        if buffers.len() < MAX_BUFFERS {
            buffers.push(bytes);
        }
    }
}
