//! Records in the caller's memory, lent to the store until they are written.
//!
//! ```text
//!  lender's memory   │ rec │ rec │ rec │ … │        written from here, and never copied before
//!                          ▲ Loan
//!  full ring    ──▶ │ buffer │ buffer carrying a loan │ buffer │ ──▶ Drain
//! ```
//! A loan is written after the content of the current buffer and travels with that buffer. Further loans may follow in the same
//! buffer, up to 2 MiB of them. Order, counts and errors are therefore those of buffers.

use std::{fmt, ops::Range};

/// Whole records in the caller's memory. The owner is dropped once they are written or given up, which returns the memory.
///
/// ```
/// use forebay::store::Loan;
/// let loan = Loan::new(b"three whole records".to_vec(), 6..19);
/// assert_eq!(loan.bytes(), b"whole records");
/// ```
pub struct Loan {
    owner: Box<dyn AsRef<[u8]> + Send>,
    range: Range<usize>,
}

impl Loan {
    /// Lends the bytes `range` of the slice that `owner` refers to. Dropping the owner, which may happen in any thread, returns
    /// the memory.
    ///
    /// # Panics
    /// The range is out of bounds or empty.
    pub fn new(owner: impl AsRef<[u8]> + Send + 'static, range: Range<usize>) -> Self {
        let loan = Loan {
            owner: Box::new(owner),
            range,
        };
        assert!(!loan.bytes().is_empty(), "a loan must not be empty");
        loan
    }

    /// Number of bytes lent, without calling the owner.
    pub(super) fn len(&self) -> usize {
        self.range.len()
    }

    /// The bytes lent.
    pub fn bytes(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("range", &self.range).finish()
    }
}
