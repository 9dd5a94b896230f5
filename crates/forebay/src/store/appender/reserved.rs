//! Room for one record.

use crate::memory::Reservation;
use std::ops::{Deref, DerefMut};

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

impl Deref for ReservedRecord<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for ReservedRecord<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
