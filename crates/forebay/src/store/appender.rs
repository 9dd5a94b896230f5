//! The near side of the store: reserve in place, fill, commit; and when a buffer leaves.

use super::{
    buffer::{BLOCK, Buffer},
    closing::{Closing, Totals, write_error},
    config::{Config, Got},
    drain::{Drain, Framing},
    sink::Sink,
    writer::{Ending, Writer},
};
use crate::{
    Error, Result,
    memory::{self, HugePages},
};
use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

/// Composes records in place and hands full buffers to a writer.
///
/// ```
/// use forebay::store::{Appender, Config, FileSink, Framing, Whole};
/// use std::sync::Arc;
///
/// struct Words; // 8 bytes each
/// impl Framing for Words {
///     fn last_whole(&self, bytes: &[u8]) -> Whole {
///         Whole { bytes: bytes.len() / 8 * 8, records: bytes.len() as u64 / 8 }
///     }
/// }
///
/// let path = std::env::temp_dir().join(format!("forebay-doc-{}", std::process::id()));
/// let sink = FileSink::create(&path, true)?;
/// let mut store = Appender::new(sink, Arc::new(Words), &Config::default())?;
/// for word in 0..1000u64 {
///     // `None` would mean: no empty buffer, stop taking input and come back.
///     let mut slot = store.reserve(8)?.expect("64 MiB are not full yet");
///     slot.copy_from_slice(&word.to_le_bytes());
///     slot.commit(1);
/// }
/// let end = store.close().wait_to_the_end();
/// assert_eq!((end.totals.written, end.durable), (1000, true));
/// assert_eq!(std::fs::read(&path).unwrap().len(), 8000);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Appender {
    current: Option<Buffer>,
    capacity: usize,
    record_bytes: usize,
    /// Where the next fresh buffer's bytes go.
    end: u64,
    accepted: u64,
    /// When the oldest byte of the current buffer was first noticed.
    waiting_since: Option<u64>,
    flush_ns: u64,
    padding: Option<usize>,
    framing: Arc<dyn Framing>,
    writer: Writer,
    buffers: usize,
    huge_pages: HugePages,
}

impl Appender {
    /// A store that drains into `sink`; `framing` knows how its records are cut and padded.
    ///
    /// # Errors
    /// The configuration is out of range, or memory or a thread cannot be had.
    pub fn new(sink: Box<dyn Sink>, framing: Arc<dyn Framing>, config: &Config) -> Result<Self> {
        config.validate()?;
        let drain = Drain::new(sink, framing.clone());
        let direct = drain.is_direct();
        // Room for a record that begins at the last byte, and for the padding after it.
        let size = config
            .buffer_bytes
            .saturating_add(config.record_bytes + 2 * BLOCK);
        memory::check_all("store", size.saturating_mul(config.buffers))?;
        // The first one now, which also tells what pages are got; the others when they are needed.
        let current = Buffer::new(size, config.huge_pages, true)?;
        let huge_pages = current.huge_pages();
        let spare = (1..config.buffers)
            .map(|_| Buffer::new(size, config.huge_pages, false))
            .collect::<Result<Vec<_>>>()?;
        Ok(Appender {
            current: Some(current),
            capacity: config.buffer_bytes,
            record_bytes: config.record_bytes,
            end: 0,
            accepted: 0,
            waiting_since: None,
            flush_ns: config.flush_every.as_nanos().min(u64::MAX as u128) as u64,
            padding: direct.then(|| framing.least_padding()).flatten(),
            framing,
            writer: Writer::start(drain, spare, config)?,
            buffers: config.buffers,
            huge_pages,
        })
    }

    /// `len` bytes in place for the next record, to be filled whole and committed; what they hold
    /// before is undefined. `None`: no buffer is empty, nothing was accepted, try again after
    /// [`wait_empty`](Appender::wait_empty). Dropping the reservation aborts it.
    ///
    /// # Errors
    /// An earlier write failed: told once, then [`retry`](Appender::retry) or close. Or `len` is
    /// above [`Config::record_bytes`].
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Result<Option<Reserved<'_>>> {
        let has_room = matches!(&self.current, Some(buffer) if buffer.len < self.capacity);
        if len > self.record_bytes || self.writer.has_failed() || !has_room {
            self.check(len)?;
            if !self.renew(Duration::ZERO) {
                return Ok(None);
            }
        }
        Ok(Some(Reserved { store: self, len }))
    }

    #[cold]
    fn check(&mut self, len: usize) -> Result<()> {
        if let Some(cause) = self.writer.take_error() {
            return Err(write_error(cause));
        }
        if len > self.record_bytes {
            let what = format!("a record of {len} bytes is above the {}", self.record_bytes);
            return Err(Error::new("store", what).advise("Raise Config::record_bytes"));
        }
        Ok(())
    }

    /// Sees to a current buffer with room, waiting up to `limit` for an empty one.
    #[cold]
    fn renew(&mut self, limit: Duration) -> bool {
        if matches!(&self.current, Some(buffer) if buffer.len < self.capacity) {
            return true;
        }
        let fresh = match limit {
            Duration::ZERO => self.writer.take_empty(),
            limit => self.writer.wait_empty(limit),
        };
        let Some(mut fresh) = fresh else {
            return false;
        };
        if let Some(full) = self.current.take() {
            self.seal(full);
        }
        fresh.restart(self.end);
        self.current = Some(fresh);
        true
    }

    /// Sends a full buffer off: padded, where that lets the next one go past the page cache.
    fn seal(&mut self, mut full: Buffer) {
        if let Some(least) = self.padding {
            let mut gap = (BLOCK - full.end() as usize % BLOCK) % BLOCK;
            if (1..least).contains(&gap) {
                gap += BLOCK;
            }
            if gap > 0 {
                self.framing.pad(full.vacant_mut(gap));
                full.accept(gap, 0);
            }
        }
        self.hand_over(full);
    }

    fn hand_over(&mut self, buffer: Buffer) {
        self.end = buffer.end();
        self.waiting_since = None;
        self.writer.hand_over(buffer);
    }

    /// Whether a record could be reserved, waiting up to `limit` for an empty buffer.
    pub fn wait_empty(&mut self, limit: Duration) -> bool {
        self.writer.has_failed() || self.renew(limit)
    }

    /// Keeps the flush period: call it now and then with the clock's time. A buffer that is due
    /// leaves if the writer has nothing else to do; otherwise it stays due, and goes on filling:
    /// behind a slow writer many short buffers would only take the room of long ones.
    ///
    /// # Errors
    /// As [`reserve`](Appender::reserve).
    #[inline]
    pub fn tick(&mut self, now: u64) -> Result<()> {
        if self.writer.has_failed() {
            self.check(0)?;
        }
        let has_bytes = matches!(&self.current, Some(buffer) if buffer.len > 0);
        if has_bytes {
            let since = *self.waiting_since.get_or_insert(now);
            if now.saturating_sub(since) >= self.flush_ns
                && self.writer.empties() + 1 == self.buffers
            {
                self.hand_over_partial();
            }
        }
        Ok(())
    }

    /// When [`tick`](Appender::tick) has something to do, in the clock's time.
    pub fn due_at(&self) -> Option<u64> {
        self.waiting_since
            .map(|since| since.saturating_add(self.flush_ns))
    }

    /// Hands over what is there, full or not; it is written when the writer comes to it.
    ///
    /// # Errors
    /// As [`reserve`](Appender::reserve).
    pub fn flush(&mut self) -> Result<()> {
        self.check(0)?;
        self.hand_over_partial();
        Ok(())
    }

    fn hand_over_partial(&mut self) {
        if let Some(buffer) = self.current.take_if(|buffer| buffer.len > 0) {
            self.hand_over(buffer);
        }
    }

    /// Tries a failed write again, from the byte where it stopped: in order, without a hole.
    pub fn retry(&mut self) {
        self.writer.retry();
    }

    /// How full the buffers are, all together, 0 to 1.
    pub fn fill_level(&mut self) -> f64 {
        let (filling, len) = match &self.current {
            Some(buffer) => (1, buffer.len.min(self.capacity)),
            None => (0, 0),
        };
        let away = self.buffers - filling - self.writer.empties().min(self.buffers - filling);
        (away as f64 + len as f64 / self.capacity as f64) / self.buffers as f64
    }

    /// The counts so far.
    pub fn totals(&self) -> Totals {
        let (written, written_bytes) = self.writer.written();
        Totals {
            accepted: self.accepted,
            written,
            written_bytes,
        }
    }

    /// What was got, which need not be what was asked for.
    pub fn got(&self) -> Got {
        Got {
            bytes: self.buffers * self.capacity,
            buffer_bytes: self.capacity,
            direct: self.padding.is_some(),
            thread: self.writer.is_thread(),
            huge_pages: self.huge_pages,
        }
    }

    /// Hands over what is left and accepts nothing more.
    pub fn close(mut self) -> Closing {
        Closing {
            accepted: self.accepted,
            ending: self.end(),
        }
    }

    fn end(&mut self) -> Ending {
        self.hand_over_partial();
        self.writer.end()
    }
}

impl Drop for Appender {
    /// Writes what is left, as a [`close`](Appender::close) whose result nobody wants to know.
    fn drop(&mut self) {
        self.end().join();
    }
}

/// Bytes for one record, in place.
pub struct Reserved<'a> {
    store: &'a mut Appender,
    len: usize,
}

impl Reserved<'_> {
    /// Accepts the bytes as a whole that counts for `records` records (0 for a header).
    #[inline]
    pub fn commit(self, records: u64) {
        let Some(buffer) = &mut self.store.current else {
            return;
        };
        buffer.accept(self.len, records);
        self.store.accepted += records;
    }
}

impl Deref for Reserved<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.store.current {
            Some(buffer) => buffer.vacant(self.len),
            None => &[],
        }
    }
}

impl DerefMut for Reserved<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.store.current {
            Some(buffer) => buffer.vacant_mut(self.len),
            None => &mut [],
        }
    }
}
