//! Records of one type, built in place or copied.

use super::{
    Records, Recovered, append,
    block::{Blocks, HEAD, Plain, Shape},
};
use crate::{
    Result,
    store::{Config, FileConfig, Sink, appender::Start},
};
use std::{num::NonZeroUsize, path::Path, sync::Arc};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What may be a record: any bytes make one, all of its bytes are initialised (so it has no gaps), and nothing in it
/// changes behind a shared reference. [`zerocopy`]'s derives say so of a `#[repr(C)]` structure, or tell why not.
///
/// Between machines of different byte order, use `zerocopy`'s `little_endian` and `big_endian` numbers; they also need
/// no alignment, so fields of any sizes leave no gaps.
pub trait Record: FromBytes + IntoBytes + Immutable + KnownLayout {}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout> Record for T {}

/// Bytes that one step of [`Records::append_all`] takes at most.
const STEP: usize = 4096;

impl<T: Record> Records<T> {
    const FITS: () = {
        assert!(
            size_of::<T>() > 0,
            "records of no bytes cannot be told apart"
        );
        assert!(
            align_of::<T>() <= HEAD,
            "buffers' records are aligned to 64 bytes"
        );
        assert!(size_of::<T>() < 1 << 28, "records are below 256 MiB");
    };

    /// Back to back, with nothing around them. [`Config::record_bytes`] is ignored.
    ///
    /// # Errors
    /// Those of [`Appender::new`](crate::store::Appender::new).
    pub fn plain(sink: Box<dyn Sink>, config: &Config) -> Result<Self> {
        let () = Self::FITS;
        let framing = Arc::new(Plain(NonZeroUsize::new(size_of::<T>())));
        Records::new(sink, framing, Self::LONGEST, 0, config, Start::default())
    }

    /// In numbered blocks with check sums. [`Config::record_bytes`] is ignored.
    ///
    /// # Errors
    /// Those of [`Appender::new`](crate::store::Appender::new), or buffers of a GiB.
    pub fn in_blocks(sink: Box<dyn Sink>, config: &Config) -> Result<Self> {
        Self::blocks(sink, config, None, Start::default())
    }

    /// Goes on with the file at `path`, or makes it (mode 0600). It is locked, read to its end, and cut after its last whole
    /// block: what is cut off is reported. Its records stay; the numbers of the new ones follow theirs.
    ///
    /// [`Totals`](crate::store::Totals) count the new records only.
    ///
    /// # Errors
    /// * As [`in_blocks`](Self::in_blocks).
    /// * It is no regular file; it cannot be opened, locked, read, cut or synced.
    /// * A store of this or another process writes it.
    /// * It holds something else than records of this length, or no block at all.
    /// * Blocks follow the damage: cutting would lose them, and [`recover`](crate::store::recover) has to be called for that.
    pub fn open_append(
        path: &Path,
        file: &FileConfig,
        config: &Config,
    ) -> Result<(Self, Recovered)> {
        let () = Self::FITS;
        Config {
            record_bytes: Self::LONGEST,
            ..config.clone()
        }
        .check()?;
        let opened = append::open(path, Self::SHAPE, file)?;
        let log = Self::blocks(opened.sink, config, opened.file, opened.start)?;
        Ok((log, opened.found))
    }

    const SHAPE: Shape = Shape::Fixed(size_of::<T>() as u32);
    const LONGEST: usize = if size_of::<T>() > STEP {
        size_of::<T>()
    } else {
        STEP
    };

    fn blocks(
        sink: Box<dyn Sink>,
        config: &Config,
        file: Option<u64>,
        start: Start,
    ) -> Result<Self> {
        let () = Self::FITS;
        let blocks = Blocks::new(Self::SHAPE, Self::LONGEST, config, file)?;
        Records::new(sink, Arc::new(blocks), Self::LONGEST, 0, config, start)
    }

    /// Accepts a record that `fill` builds where it will be written from. It finds there what an earlier record left, or
    /// zeros: let it set the whole record (`*slot = …`), which costs nothing more than setting its fields. `false`: it was
    /// dropped, and `fill` not called ([`WhenFull::DropNewest`](crate::store::WhenFull)). Where `fill` panics nothing is accepted.
    ///
    /// # Errors
    /// Those of [`Appender::claim`](crate::store::Appender::claim).
    #[inline]
    pub fn append_with(&mut self, fill: impl FnOnce(&mut T)) -> Result<bool> {
        let Some(mut slot) = self.store.claim_fitting(size_of::<T>(), 1)? else {
            return Ok(false);
        };
        let record = T::mut_from_bytes(&mut slot);
        fill(record.expect("buffers hold whole, aligned records"));
        slot.commit_counted_by_length();
        Ok(true)
    }

    /// Accepts a copy of `record`. `false`: it was dropped.
    ///
    /// # Errors
    /// Those of [`Appender::claim`](crate::store::Appender::claim).
    #[inline]
    pub fn append(&mut self, record: &T) -> Result<bool> {
        let Some(mut slot) = self.store.claim_fitting(size_of::<T>(), 1)? else {
            return Ok(false);
        };
        slot.copy_from_slice(record.as_bytes());
        slot.commit_counted_by_length();
        Ok(true)
    }

    /// Accepts copies of `records`, in order, and says of how many; the others were dropped.
    ///
    /// ```
    /// use forebay::store::{Config, FileConfig, FileSink, Records};
    /// let mut numbers = Records::<u32>::plain(FileSink::create("/dev/null".as_ref(), &FileConfig::default())?, &Config::default())?;
    /// assert_eq!(numbers.append_all(&[7; 5000])?, 5000);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Appender::claim`](crate::store::Appender::claim); [`Totals::accepted`](crate::store::Totals) says how
    /// many came before it.
    pub fn append_all(&mut self, records: &[T]) -> Result<usize> {
        let mut accepted = 0;
        for step in records.chunks((STEP / size_of::<T>()).max(1)) {
            let bytes = step.as_bytes();
            match self.store.claim_fitting(bytes.len(), step.len() as u64)? {
                Some(mut slot) => {
                    slot.copy_from_slice(bytes);
                    slot.commit_counted_by_length();
                    accepted += step.len();
                }
                None => continue,
            }
        }
        Ok(accepted)
    }
}
