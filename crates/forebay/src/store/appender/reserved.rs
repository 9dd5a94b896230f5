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

    /// Accepts the bytes as records of fixed length, counted by that length.
    #[inline]
    pub(crate) fn commit_counted_by_length(self) {
        self.0.commit_uncounted();
    }
}

derefs!([] ReservedRecord<'_>, mut [u8], |this| this.0);
