//! Records of bytes, each of any length.

use super::{
    Records, STEP,
    append::{self, InBlocks},
    block::{Blocks, MAX_RECORD, Plain, Shape},
    reader::Recovered,
};
use crate::{
    Error, Result,
    store::{FileConfig, ReservedRecord, Sink, Start, StoreConfig},
};
use std::{io::IoSlice, num::NonZeroUsize, path::Path, sync::Arc};

/// The length before a record in a block: 4 bytes, little-endian.
pub(super) const PREFIX: usize = 4;

impl Records<[u8]> {
    /// Back to back, with nothing between them: the bytes themselves have to show where a record ends.
    /// [`StoreConfig::record_bytes`] is the longest.
    ///
    /// # Errors
    /// Those of [`Appender::new`](crate::store::Appender::new).
    pub fn plain(sink: Box<dyn Sink>, config: &StoreConfig) -> Result<Self> {
        config.validate()?;
        let (framing, longest) = (Arc::new(Plain(None)), config.record_bytes);
        Records::new(sink, framing, longest, 0, config, Start::default())
    }

    /// In numbered blocks with check sums, each record after its length. [`StoreConfig::record_bytes`] is the longest.
    ///
    /// # Errors
    /// Those of [`Appender::new`](crate::store::Appender::new), or the buffers are a GiB or larger.
    pub fn in_blocks(sink: Box<dyn Sink>, config: &StoreConfig) -> Result<Self> {
        <[u8]>::blocks(sink, config, None, Start::default())
    }

    /// As [`in_blocks`](Records::in_blocks), with the lengths that `shape` says: for records of one length that is known at run time.
    /// The file is that of `Records<T>` with a type of this size.
    ///
    /// ```
    /// use forebay::{records::{Records, Shape}, store::{StoreConfig, FileConfig, FileSink}};
    /// let sink = FileSink::create("/dev/null", &FileConfig::default())?;
    /// let mut log = Records::<[u8]>::in_blocks_of(Shape::Fixed(24), sink, &StoreConfig::default())?;
    /// log.append(&[7; 24])?;
    /// assert!(log.append(&[7; 23]).is_err());
    /// assert_eq!(log.append_all(&[7; 24 * 1000])?, 1000);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `in_blocks`, or the length is 0, or 256 MiB or more.
    pub fn in_blocks_of(shape: Shape, sink: Box<dyn Sink>, config: &StoreConfig) -> Result<Self> {
        shaped(shape, sink, config, None, Start::default())
    }

    /// As [`open_append`](Records::open_append), with the lengths that `shape` says. `None`: those that the file has; a new file, and one
    /// without records, gets records of any length.
    ///
    /// # Errors
    /// As `open_append` and [`in_blocks_of`](Records::in_blocks_of).
    pub fn open_append_of(
        shape: Option<Shape>,
        path: impl AsRef<Path>,
        file: &FileConfig,
        config: &StoreConfig,
    ) -> Result<(Self, Recovered)> {
        let record_bytes = check(shape.unwrap_or(Shape::Varying), config)?;
        let whole = StoreConfig {
            record_bytes,
            ..config.clone()
        };
        whole.check()?;
        let opened = append::open(path.as_ref(), shape, file)?;
        let shape = shape.or(opened.found.shape).unwrap_or(Shape::Varying);
        let log = shaped(shape, opened.sink, config, opened.file, opened.start)?;
        Ok((log, opened.found))
    }

    /// The lengths of its records.
    pub fn shape(&self) -> Shape {
        match self.each {
            Some(each) => Shape::Fixed(each.get() as u32), // it is below `MAX_RECORD`
            None => Shape::Varying,
        }
    }

    /// Accepts a record of `len` bytes that `fill` writes in place. Its previous content is that of an earlier record, or zeros.
    /// `false`: it was dropped, and `fill` was not called ([`WhenFull::DropNewest`](crate::store::WhenFull)).
    ///
    /// # Errors
    /// Those of [`Appender::claim`](crate::store::Appender::claim).
    #[inline]
    pub fn append_with(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<bool> {
        let Some(mut record) = self.claim(len)? else {
            return Ok(false);
        };
        fill(&mut record);
        record.commit();
        Ok(true)
    }

    /// Lends the room of the next record, of `len` bytes, in the memory it will be written from. `None`: it was dropped.
    ///
    /// # Errors
    /// Those of [`Appender::claim`](crate::store::Appender::claim), or the records have another length.
    #[inline]
    pub fn claim(&mut self, len: usize) -> Result<Option<ClaimedRecord<'_>>> {
        if self.each.is_some_and(|each| each.get() != len) {
            return Err(of_another_length(len));
        }
        let prefix = self.prefix;
        let Some(mut slot) = self.store.claim(len.saturating_add(prefix))? else {
            return Ok(None);
        };
        // Longer ones are refused: with a length prefix, `StoreConfig::record_bytes` fits 32 bits.
        slot[..prefix].copy_from_slice(&(len as u32).to_le_bytes()[..prefix]);
        Ok(Some(ClaimedRecord { slot, prefix }))
    }

    /// Accepts a copy of `record`. `false`: it was dropped.
    ///
    /// ```
    /// use forebay::{records::Records, store::{StoreConfig, FileConfig, FileSink}};
    /// use std::io::IoSlice;
    /// let sink = FileSink::create("/dev/null", &FileConfig::default())?;
    /// let mut log = Records::<[u8]>::in_blocks(sink, &StoreConfig::default())?;
    /// log.append(b"in one piece")?;
    /// log.append_vectored(&[IoSlice::new(b"in two "), IoSlice::new(b"pieces")])?;
    /// assert_eq!(log.totals().accepted, 2);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Appender::claim`](crate::store::Appender::claim).
    #[inline]
    pub fn append(&mut self, record: &[u8]) -> Result<bool> {
        self.append_with(record.len(), |slot| slot.copy_from_slice(record))
    }

    /// Accepts copies of records of one length, which are back to back in `records`, and returns how many it accepted; the others were dropped.
    ///
    /// # Errors
    /// Those of [`Appender::claim`](crate::store::Appender::claim); or the records may have any length, or the bytes are not whole records.
    /// [`Totals::accepted`](crate::store::Totals) then shows how many records were accepted before the error.
    pub fn append_all(&mut self, records: &[u8]) -> Result<usize> {
        match self.each {
            Some(each) if records.len().is_multiple_of(each.get()) => {
                self.append_steps(records, each.get())
            }
            _ => Err(of_another_length(records.len())),
        }
    }

    /// Accepts the concatenation of `pieces` as one record. `false`: it was dropped.
    ///
    /// # Errors
    /// Those of [`Appender::claim`](crate::store::Appender::claim).
    pub fn append_vectored(&mut self, pieces: &[IoSlice<'_>]) -> Result<bool> {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        self.append_with(len, |mut slot| {
            for piece in pieces {
                let (here, behind) = slot.split_at_mut(piece.len());
                here.copy_from_slice(piece);
                slot = behind;
            }
        })
    }
}

/// Room of one record. Dropping or forgetting it accepts nothing.
pub struct ClaimedRecord<'a> {
    slot: ReservedRecord<'a>,
    prefix: usize,
}

impl ClaimedRecord<'_> {
    /// Accepts the record.
    #[inline]
    pub fn commit(self) {
        self.slot.commit(1);
    }
}

derefs!([] ClaimedRecord<'_>, mut [u8], |this| this.slot[this.prefix..]);

#[cold]
fn of_another_length(len: usize) -> Error {
    Error::invalid(
        "records",
        format!("{len} bytes are not what each record has"),
    )
}

/// The bytes to reserve at most, for records of this shape, if they are possible.
fn check(shape: Shape, config: &StoreConfig) -> Result<usize> {
    let longest = match shape {
        Shape::Varying => {
            return config
                .validate()
                .map(|()| config.record_bytes.saturating_add(PREFIX));
        }
        Shape::Fixed(each) => each as usize,
    };
    if !(1..MAX_RECORD).contains(&longest) {
        return Err(Error::invalid(
            "records",
            format!(
                "a length of {longest} bytes is not from 1 to {}",
                MAX_RECORD - 1
            ),
        ));
    }
    let record_bytes = longest.max(STEP);
    let config = StoreConfig {
        record_bytes,
        ..config.clone()
    };
    config.validate().map(|()| record_bytes)
}

fn shaped(
    shape: Shape,
    sink: Box<dyn Sink>,
    config: &StoreConfig,
    file: Option<u64>,
    start: Start,
) -> Result<Records<[u8]>> {
    let longest = check(shape, config)?;
    let blocks = Arc::new(Blocks::new(shape, longest, config, file)?);
    let (prefix, each) = match shape {
        Shape::Varying => (PREFIX, None),
        Shape::Fixed(each) => (0, NonZeroUsize::new(each as usize)),
    };
    let records = Records::new(sink, blocks, longest, prefix, config, start)?;
    Ok(Records { each, ..records })
}

impl InBlocks for [u8] {
    const SHAPE: Shape = Shape::Varying;

    fn check(config: &StoreConfig) -> Result<()> {
        config.check()
    }

    fn blocks(
        sink: Box<dyn Sink>,
        config: &StoreConfig,
        file: Option<u64>,
        start: Start,
    ) -> Result<Records<[u8]>> {
        shaped(Shape::Varying, sink, config, file, start)
    }
}
