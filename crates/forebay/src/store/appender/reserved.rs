//! Room for one record.

use crate::memory::Reservation;

/// Bytes of one record, in place. Dropping or forgetting it accepts nothing.
pub struct ReservedRecord<'a>(pub(super) Reservation<'a>);

impl ReservedRecord<'_> {
    /// Accepts the bytes as one unit that counts for `records` records (0 for a header).
    #[inline]
    pub fn commit(self, records: u64) {
        self.0.commit(records);
    }

    /// Copies `bytes` to the record's bytes from `at` on, and accepts the record as [`commit`](Self::commit) does. Fill its other bytes before.
    ///
    /// If the store writes past the page cache, 512 bytes or more are also copied past the caches of the processor, since only the disk
    /// reads them. That may take less time. It needs x86-64 and `membarrier(2)`.
    ///
    /// ```
    /// # use forebay::store::{Appender, FileConfig, FileSink, Framing, StoreConfig, Whole};
    /// # struct Lines;
    /// # impl Framing for Lines {
    /// #     fn last_whole(&self, bytes: &[u8]) -> Whole { Whole { bytes: bytes.len(), records: 0 } }
    /// # }
    /// # let sink = FileSink::create("/dev/null", &FileConfig::default())?;
    /// let mut store = Appender::new(sink, std::sync::Arc::new(Lines), &StoreConfig::default())?;
    /// let text = [b'x'; 995];
    /// let mut line = store.reserve(4 + text.len() + 1)?.expect("an empty buffer");
    /// line[..4].copy_from_slice(b"log ");
    /// line[999] = b'\n';
    /// line.commit_with(4, &text, 1);
    /// assert_eq!(store.totals().accepted, 1);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Panics
    /// `bytes` end after the record. And a later call of the store panics if a sandbox has forbidden `membarrier(2)` since the store was made.
    #[inline(always)]
    pub fn commit_with(self, at: usize, bytes: &[u8], records: u64) {
        self.0.commit_with(at, bytes, records);
    }

    /// Accepts the bytes as records of fixed length, counted by that length.
    #[inline]
    pub(crate) fn commit_counted_by_length(self) {
        self.0.commit_uncounted();
    }
}

derefs!([] ReservedRecord<'_>, mut [u8], |this| this.0);
