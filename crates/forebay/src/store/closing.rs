//! The end of a store: wait for the last byte or give it up, and the final counts.

use super::{
    counts::{Taken, Totals},
    writer::Ending,
};
use crate::Error;
use std::time::Duration;

/// A store that accepts nothing more and is being drained.
///
/// ```
/// # use forebay::store::{Appender, StoreConfig, FileConfig, FileSink, Framing, Whole};
/// # struct Bytes;
/// # impl Framing for Bytes {
/// #     fn last_whole(&self, bytes: &[u8]) -> Whole { Whole { bytes: bytes.len(), records: 0 } }
/// # }
/// use std::time::Duration;
/// let sink = FileSink::create("/dev/full", &FileConfig::default())?;
/// let mut store = Appender::new(sink, std::sync::Arc::new(Bytes), &StoreConfig::default())?;
/// store.reserve(10)?.unwrap().commit(1);
/// let mut closing = store.close();
/// let end = loop {
///     match closing.wait(Duration::from_millis(100)) {
///         Ok(end) => break end,
///         Err(again) => closing = again, // or closing.abandon(), to stop waiting
///     }
/// };
/// assert_eq!((end.totals.accepted, end.totals.written), (1, 0));
/// assert!(end.error.unwrap().to_string().starts_with("/dev/full: writing: no space left on device"));
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Closing {
    pub(super) taken: Taken,
    pub(super) ending: Ending,
}

/// How a store ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finished {
    /// The final counts: `accepted − written` records were lost.
    pub totals: Totals,
    /// Whether everything written is also durable.
    pub durable: bool,
    /// The write or sync error that was not reported before.
    pub error: Option<Error>,
}

impl Closing {
    /// Waits up to `limit` for the last buffer to be written and synced.
    ///
    /// # Errors
    /// Not done yet. The store is returned, to wait on again or to abandon.
    pub fn wait(self, limit: Duration) -> std::result::Result<Finished, Closing> {
        // Short at first: usually only one buffer is left to write.
        let mut step = Duration::from_micros(50);
        let mut left = limit;
        while !self.ending.is_over() {
            if left.is_zero() {
                return Err(self);
            }
            step = step.min(left);
            std::thread::sleep(step);
            left -= step;
            step = Duration::from_millis(1).min(2 * step);
        }
        Ok(self.finish())
    }

    /// Waits without a time limit.
    pub fn finish(self) -> Finished {
        let taken = self.taken;
        let mut totals = self.totals();
        let (drain, mut error) = self.ending.join();
        let mut durable = false;
        if let Some(mut drain) = drain {
            durable = drain.is_durable();
            totals = drain.counts().totals(&taken);
            error = error.or(drain.take_trouble());
        }
        Finished {
            totals,
            durable,
            error,
        }
    }

    /// Writes nothing more. What is not written yet counts as lost.
    pub fn abandon(&self) {
        self.ending.abandon();
    }

    /// The current counts.
    pub fn totals(&self) -> Totals {
        self.ending.counts().totals(&self.taken)
    }
}
