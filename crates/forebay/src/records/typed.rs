//! Records of one type, built in place or copied.

use super::{
    Records, STEP,
    append::InBlocks,
    block::{Blocks, HEAD, MAX_RECORD, Plain, Shape},
};
use crate::{
    Result,
    store::{ReservedRecord, Sink, Start, StoreConfig},
};
use std::{num::NonZeroUsize, sync::Arc};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A type that can be stored as a record. Any bytes are a valid value, all its bytes are initialised (so it has no padding), and
/// it has no interior mutability. The derives of [`zerocopy`] implement this for a `#[repr(C)]` structure, or explain why they
/// cannot.
///
/// To exchange files between machines of different byte order, use the `little_endian` and `big_endian` numbers of `zerocopy`.
/// They also need no alignment, so fields of any size leave no gaps.
pub trait Record: FromBytes + IntoBytes + Immutable + KnownLayout {}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout> Record for T {}

impl<T: Record> Records<T> {
    const FITS: () = {
        assert!(size_of::<T>() > 0, "a record must have at least one byte");
        assert!(
            align_of::<T>() <= HEAD,
            "a record's alignment must be at most 64 bytes"
        );
        assert!(
            size_of::<T>() < MAX_RECORD,
            "a record must be smaller than 256 MiB"
        );
    };

    const LONGEST: usize = if size_of::<T>() > STEP {
        size_of::<T>()
    } else {
        STEP
    };

    /// Back to back, with nothing between them. [`StoreConfig::record_bytes`] is ignored.
    ///
    /// # Errors
    /// Those of [`Appender::new`](crate::store::Appender::new).
    pub fn plain(sink: Box<dyn Sink>, config: &StoreConfig) -> Result<Self> {
        let () = Self::FITS;
        let framing = Arc::new(Plain(NonZeroUsize::new(size_of::<T>())));
        Records::new(sink, framing, Self::LONGEST, 0, config, Start::default())
    }

    /// In numbered blocks with check sums. [`StoreConfig::record_bytes`] is ignored.
    ///
    /// # Errors
    /// Those of [`Appender::new`](crate::store::Appender::new), or the buffers are a GiB or larger.
    pub fn in_blocks(sink: Box<dyn Sink>, config: &StoreConfig) -> Result<Self> {
        T::blocks(sink, config, None, Start::default())
    }

    /// Accepts a record that `fill` builds in place, in the memory it will be written from. Its previous content is an earlier
    /// record or zeros, so set the whole record (`*slot = …`); that costs no more than setting its fields. `false`: it was
    /// dropped, and `fill` was not called ([`WhenFull::DropNewest`](crate::store::WhenFull)). If `fill` panics, nothing is
    /// accepted.
    ///
    /// # Errors
    /// Those of [`Appender::claim`](crate::store::Appender::claim).
    #[inline]
    pub fn append_with(&mut self, fill: impl FnOnce(&mut T)) -> Result<bool> {
        match self.store.reserved(size_of::<T>()) {
            Some(slot) => {
                build(slot, fill);
                Ok(true)
            }
            None => self.append_with_to_another(fill),
        }
    }

    #[cold]
    fn append_with_to_another(&mut self, fill: impl FnOnce(&mut T)) -> Result<bool> {
        let slot = self.store.claim_fitting(size_of::<T>(), 1)?;
        Ok(slot.map(|slot| build(slot, fill)).is_some())
    }

    /// Accepts a copy of `record`. `false`: it was dropped.
    ///
    /// # Errors
    /// Those of [`Appender::claim`](crate::store::Appender::claim).
    #[inline]
    pub fn append(&mut self, record: &T) -> Result<bool> {
        match self.store.reserved(size_of::<T>()) {
            Some(slot) => {
                copy(slot, record);
                Ok(true)
            }
            None => self.append_to_another(record),
        }
    }

    #[cold]
    #[inline(never)]
    fn append_to_another(&mut self, record: &T) -> Result<bool> {
        let slot = self.store.claim_fitting(size_of::<T>(), 1)?;
        Ok(slot.map(|slot| copy(slot, record)).is_some())
    }

    /// Accepts copies of `records`, in order, and returns how many it accepted; the others were dropped.
    ///
    /// ```
    /// use forebay::{records::Records, store::{StoreConfig, FileConfig, FileSink}};
    /// let mut numbers = Records::<u32>::plain(FileSink::create("/dev/null", &FileConfig::default())?, &StoreConfig::default())?;
    /// assert_eq!(numbers.append_all(&[7; 5000])?, 5000);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Appender::claim`](crate::store::Appender::claim). [`Totals::accepted`](crate::store::Totals) then shows how
    /// many records were accepted before the error.
    pub fn append_all(&mut self, records: &[T]) -> Result<usize> {
        self.append_steps(records.as_bytes(), size_of::<T>())
    }
}

impl<T: Record> InBlocks for T {
    const SHAPE: Shape = Shape::Fixed(size_of::<T>() as u32);

    fn check(config: &StoreConfig) -> Result<()> {
        let () = Records::<T>::FITS;
        let record_bytes = Records::<T>::LONGEST;
        StoreConfig {
            record_bytes,
            ..config.clone()
        }
        .check()
    }

    fn blocks(
        sink: Box<dyn Sink>,
        config: &StoreConfig,
        file: Option<u64>,
        start: Start,
    ) -> Result<Records<T>> {
        let () = Records::<T>::FITS;
        let longest = Records::<T>::LONGEST;
        let blocks = Blocks::new(Self::SHAPE, longest, config, file)?;
        Records::new(sink, Arc::new(blocks), longest, 0, config, start)
    }
}

#[inline]
fn build<T: Record>(mut slot: ReservedRecord<'_>, fill: impl FnOnce(&mut T)) {
    let record = T::mut_from_bytes(&mut slot);
    fill(record.expect("buffers hold whole, aligned records"));
    slot.commit_counted_by_length();
}

#[inline]
fn copy<T: Record>(mut slot: ReservedRecord<'_>, record: &T) {
    // Of a length known when this is compiled, which `copy_from_slice` is not.
    let fits = record.write_to(&mut slot);
    fits.expect("the reservation is as long as a record");
    slot.commit_counted_by_length();
}
