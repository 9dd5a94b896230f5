//! Bytes that somebody else composed, lent to the store until they are written.
//!
//! ```text
//!  lender's memory   │ rec │ rec │ rec │ … │        written from here, and never copied before
//!                          ▲ Loan
//!  full ring    ──▶ │ buffer │ buffer carrying a loan │ buffer │ ──▶ Drain
//! ```
//! A loan is written behind what the current buffer holds, and travels with it, as others behind it may, up to 2 MiB of them: so
//! the order, the counts and the errors are those of buffers.

use super::Appender;
use std::{fmt, ops::Range};

/// Whole records in memory of somebody else, who gets it back when it is dropped: once they are written, or given up.
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
    /// The bytes `range` of what `owner` shows. Dropping the owner, which may happen in any thread, gives the memory back.
    ///
    /// # Panics
    /// The range is not in there, or empty.
    pub fn new(owner: impl AsRef<[u8]> + Send + 'static, range: Range<usize>) -> Self {
        let loan = Loan {
            owner: Box::new(owner),
            range,
        };
        assert!(!loan.bytes().is_empty(), "lending the store no bytes");
        loan
    }

    /// Bytes lent, without asking the owner.
    pub(super) fn len(&self) -> usize {
        self.range.len()
    }

    /// What is lent.
    pub fn bytes(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("range", &self.range).finish()
    }
}

/// A buffer that is there to carry a loan. Dropping it leaves it to whatever comes next.
pub struct Carrier<'a>(pub(super) &'a mut Appender);

impl Carrier<'_> {
    /// Accepts what is lent, as a whole that counts for `records` records, and sends it off.
    pub fn carry(self, loan: Loan, records: u64) {
        self.0.carry(loan, records);
    }
}
