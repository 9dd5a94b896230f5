//! Handing over records that lie in the memory of the caller.

use super::Appender;
use crate::{Error, Result, error::Code, store::Loan};
use std::time::Duration;

/// An empty buffer that can carry a loan. If it is dropped, the next record or loan uses the buffer.
pub struct Carrier<'a>(pub(super) &'a mut Appender);

impl Carrier<'_> {
    /// Accepts the loan as one unit that counts for `records` records, and hands it over.
    pub fn carry(self, loan: Loan, records: u64) {
        self.0.carry(loan, records);
    }
}

impl Appender {
    /// Returns an empty buffer as the carrier of a [`Loan`], if the store [`takes_loans`](Appender::takes_loans). What was
    /// accepted before is handed over first. `None`: no buffer is empty, as with [`reserve`](Appender::reserve). Each loan costs
    /// about as much as a `write` call, so copy short records instead.
    ///
    /// ```
    /// use forebay::store::{Appender, StoreConfig, FileConfig, FileSink, Framing, Loan, Whole};
    /// # struct Bytes;
    /// impl Framing for Bytes {
    ///     fn takes_loans(&self) -> bool { true }
    /// #   fn last_whole(&self, bytes: &[u8]) -> Whole { Whole { bytes: bytes.len(), records: bytes.len() as u64 } }
    /// }
    /// let path = std::env::temp_dir().join(format!("forebay-doc-loan-{}", std::process::id()));
    /// let mut store = Appender::new(FileSink::create(&path, &FileConfig { direct: false, ..FileConfig::default() })?, std::sync::Arc::new(Bytes), &StoreConfig::default())?;
    /// assert!(store.takes_loans());
    /// let composed = vec![7; 100_000];
    /// let carrier = store.carrier()?.expect("all buffers are empty");
    /// carrier.carry(Loan::new(composed, 0..100_000), 100_000);
    /// assert_eq!(store.close().finish().totals.written, 100_000);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`reserve`](Appender::reserve); or the store takes no loans.
    pub fn carrier(&mut self) -> Result<Option<Carrier<'_>>> {
        self.check(0)?;
        if !self.takes_loans {
            let error = Error::coded(
                Code::Unsupported,
                "store",
                "this output cannot be written from lent memory",
            );
            return Err(error.advise("Copy the records: see Appender::takes_loans"));
        }
        if self.current.is_none() && !self.renew(Duration::ZERO, true) {
            return Ok(None);
        }
        Ok(Some(Carrier(self)))
    }

    fn carry(&mut self, loan: Loan, records: u64) {
        if let Some(buffer) = &mut self.current {
            self.lent += loan.len();
            self.writer.carry(buffer, loan, records);
            if buffer.len() - self.skipped + self.lent >= self.capacity.min(self.most_lent) {
                self.hand_over_partial();
            }
        }
    }
}
