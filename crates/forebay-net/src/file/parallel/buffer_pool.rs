//! The memory of batches that were lent to a store, on its way back.
//!
//! ```text
//!  worker ── batch ──▶ port ── Loan ──▶ store ── written ──▶ shelf ──▶ whichever worker needs some next
//! ```
//! The last that came back is the first to be used again: it is the warmest. Read `port` next, which lends.

use forebay::store::Loan;
use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// Clones are the same shelf.
#[derive(Clone, Default)]
pub(super) struct BufferPool(Arc<Mutex<Vec<Vec<u8>>>>);

/// Most windows that wait to be filled again.
const KEPT: usize = 32;

impl BufferPool {
    /// Memory with whatever it held last; none where nothing came back.
    pub fn take(&self) -> Vec<u8> {
        self.lock().pop().unwrap_or_default()
    }

    /// Lends `range` of `bytes`, which come here when that is over.
    pub fn lend(&self, bytes: Vec<u8>, range: Range<usize>) -> Loan {
        let lent = Lent {
            bytes,
            home: self.clone(),
        };
        Loan::new(lent, range)
    }

    fn lock(&self) -> impl std::ops::DerefMut<Target = Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Lent {
    bytes: Vec<u8>,
    home: BufferPool,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut home = self.home.lock();
        // After a spell in which the output was slow there are more than will be wanted.
        if home.len() < KEPT {
            home.push(bytes);
        }
    }
}
