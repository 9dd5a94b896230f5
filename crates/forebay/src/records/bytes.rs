//! Records of bytes, each of any length.

use super::{
    Records,
    append::InBlocks,
    block::{Blocks, Plain, Shape},
};
use crate::{
    Result,
    store::{Sink, Start, StoreConfig},
};
use std::{io::IoSlice, sync::Arc};

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

    /// Accepts a record of `len` bytes that `fill` writes in place. Its previous content is that of an earlier record, or zeros.
    /// `false`: it was dropped, and `fill` was not called ([`WhenFull::DropNewest`](crate::store::WhenFull)).
    ///
    /// # Errors
    /// Those of [`Appender::claim`](crate::store::Appender::claim).
    #[inline]
    pub fn append_with(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<bool> {
        let whole = len.saturating_add(self.prefix);
        let Some(mut slot) = self.store.claim(whole)? else {
            return Ok(false);
        };
        let (prefix, record) = slot.split_at_mut(self.prefix);
        // Longer ones are refused: with a length prefix, `StoreConfig::record_bytes` fits 32 bits.
        prefix.copy_from_slice(&(len as u32).to_le_bytes()[..prefix.len()]);
        fill(record);
        slot.commit(1);
        Ok(true)
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
        config.validate()?;
        let longest = config.record_bytes.saturating_add(PREFIX);
        let blocks = Blocks::new(Shape::Varying, longest, config, file)?;
        Records::new(sink, Arc::new(blocks), longest, PREFIX, config, start)
    }
}
