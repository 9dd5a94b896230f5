//! Files of records, which have one type or are byte strings of any length.
//!
//! Records are stored in one of two layouts: plain, one directly after the other; or in blocks, from which a reader can detect
//! missing and damaged records.
//!
//! ```text
//!  plain   │rec│rec│rec│rec│ …                      the reader has to know the size of a record
//!  blocks  │head│rec│rec│ … │pad││head│rec│ …       each block has a number and a checksum
//! ```
//! A crash may truncate a file anywhere. A plain file then ends with part of a record, and the value of its last bytes is
//! unknown. In a file of blocks, [`Reader`] returns the records up to the first block that is damaged, incomplete or out of order, and
//! reports what follows. [`recover`] truncates the file after the last block before that place. Each write of the [store](crate::store) is one block: a
//! full buffer, or the part of a buffer that was flushed.
//!
//! The traits of [`zerocopy`] determine which types may be stored as their bytes in memory.

mod append;
mod block;
mod bytes;
mod reader;
mod recover;
#[cfg(all(test, not(loom)))]
mod tests;
mod typed;

pub use block::Shape;
pub use bytes::ClaimedRecord;
pub use reader::{Block, Cut, Fault, Later, Reader, Recovered};
pub use recover::{check, recover};
pub use typed::Record;

use crate::{
    Result,
    store::{Appender, Closing, Framing, Sink, Stage, Start, StoreConfig, StoreInfo, Totals},
};
use std::{marker::PhantomData, num::NonZeroUsize, sync::Arc, time::Duration};

/// Appends records of type `T`, or bytes (`[u8]`).
///
/// ```
/// use forebay::{records::{self, Records}, store::{StoreConfig, FileConfig, FileSink}};
/// use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
///
/// #[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
/// #[repr(C)]
/// struct Entry {
///     time: u64,
///     key: [u32; 5],
///     len: u32, // no gaps, so the file holds no uninitialised bytes
/// }
///
/// let path = std::env::temp_dir().join(format!("forebay-doc-records-{}", std::process::id()));
/// let mut log = Records::<Entry>::in_blocks(FileSink::create(&path, &FileConfig::default())?, &StoreConfig::default())?;
/// for time in 0..1000 {
///     log.append_with(|entry| *entry = Entry { time, key: [7; 5], len: 1 })?;
/// }
/// assert_eq!(log.close().finish().totals.written, 1000);
///
/// let mut reader = records::Reader::new(std::fs::File::open(&path).unwrap());
/// while let Some(block) = reader.next_block()? {
///     for record in block.records() {
///         assert_eq!(Entry::ref_from_bytes(record).unwrap().len, 1);
///     }
/// }
/// let found = reader.finish()?;
/// assert_eq!((found.records, found.cut), (1000, None));
///
/// // The next run of the program, also after a crash.
/// let (mut log, found) = Records::<Entry>::open_append(&path, &FileConfig::default(), &StoreConfig::default())?;
/// assert_eq!(found.records, 1000);
/// log.append(&Entry { time: 1000, key: [7; 5], len: 1 })?; // record number 1000
/// log.close().finish();
/// assert_eq!(records::check(&path)?.records, 1001);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
#[repr(C)] // the store's current buffer first
pub struct Records<T: ?Sized> {
    store: Appender,
    /// Bytes of the length before each record.
    prefix: usize,
    /// The length of each record, if it is one that only the program knows.
    each: Option<NonZeroUsize>,
    of: PhantomData<fn(&T)>,
}

/// The most bytes that one step of `append_all` takes.
const STEP: usize = 4096;

impl<T: ?Sized> Records<T> {
    fn new(
        sink: Box<dyn Sink>,
        framing: Arc<dyn Framing>,
        record_bytes: usize,
        prefix: usize,
        config: &StoreConfig,
        start: Start,
    ) -> Result<Self> {
        let config = StoreConfig {
            record_bytes,
            ..config.clone()
        };
        config.check()?;
        Ok(Records {
            store: Appender::starting(sink, framing, &config, start, None)?,
            prefix,
            each: None,
            of: PhantomData,
        })
    }

    /// Accepts copies of records that have `each` bytes, and returns how many it accepted.
    fn append_steps(&mut self, records: &[u8], each: usize) -> Result<usize> {
        let mut accepted = 0;
        for bytes in records.chunks((STEP / each).max(1) * each) {
            let count = bytes.len() / each;
            if let Some(mut slot) = self.store.claim_fitting(bytes.len(), count as u64)? {
                slot.copy_from_slice(bytes);
                slot.commit_counted_by_length();
                accepted += count;
            }
        }
        Ok(accepted)
    }

    /// See [`Appender::tick`].
    ///
    /// # Errors
    /// As [`Appender::tick`].
    pub fn tick(&mut self, now: u64) -> Result<()> {
        self.store.tick(now)
    }

    /// See [`Appender::due_at`].
    pub fn due_at(&self) -> Option<u64> {
        self.store.due_at()
    }

    /// See [`Appender::flush`].
    ///
    /// # Errors
    /// As [`Appender::flush`].
    pub fn flush(&mut self) -> Result<()> {
        self.store.flush()
    }

    /// See [`Appender::wait_for`].
    ///
    /// # Errors
    /// As [`Appender::wait_for`].
    pub fn wait_for(&mut self, stage: Stage, limit: Duration) -> Result<Stage> {
        self.store.wait_for(stage, limit)
    }

    /// See [`Appender::next_output`]. Record numbers continue: the first block of the next file holds the next number.
    ///
    /// # Errors
    /// As [`Appender::next_output`].
    pub fn next_output(&mut self) -> Result<bool> {
        self.store.next_output()
    }

    /// See [`Appender::output_bytes`].
    pub fn output_bytes(&self) -> u64 {
        self.store.output_bytes()
    }

    /// See [`Appender::retry`].
    pub fn retry(&mut self) {
        self.store.retry();
    }

    /// See [`Appender::fill_level`].
    pub fn fill_level(&mut self) -> f64 {
        self.store.fill_level()
    }

    /// See [`Appender::totals`].
    pub fn totals(&self) -> Totals {
        self.store.totals()
    }

    /// See [`Appender::info`].
    pub fn info(&self) -> StoreInfo {
        self.store.info()
    }

    /// See [`Appender::close`].
    pub fn close(self) -> Closing {
        self.store.close()
    }
}
