//! The appending side of the store: reserve in place, fill, commit, and hand over buffers.

mod carrier;
mod output;
mod reserved;

pub use carrier::Carrier;
pub use reserved::ReservedRecord;

use super::{
    buffer::{BLOCK, Empty, Layout, Then},
    config::{StoreConfig, SyncPolicy, WhenFull},
    drain::Drain,
    framing::Framing,
    live::Live,
    sink::Sink,
    writer::Writer,
};
use crate::{
    Error, Result,
    error::Code,
    memory::{HugePages, Vacant, halves},
};
use std::{num::NonZeroUsize, sync::Arc, time::Duration};

/// How long one wait for the writer lasts before it checks whether waiting still makes sense.
const STEP: Duration = Duration::from_millis(10);

/// A buffer that carries loans is handed to the writer thread at this many bytes, so that the lent memory returns soon.
const MAX_LENT: usize = 2 << 20;

/// What an output holds before the first appended record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    pub bytes: u64,
    /// The number of the next record.
    pub records: u64,
}

/// Builds records in place and hands full buffers to a writer.
///
/// ```
/// use forebay::store::{Appender, StoreConfig, FileConfig, FileSink, Framing, Whole};
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
/// let sink = FileSink::create(&path, &FileConfig::default())?;
/// let mut store = Appender::new(sink, Arc::new(Words), &StoreConfig::default())?;
/// for word in 0..1000u64 {
///     // `None` would mean: no buffer is empty, so stop taking input and try again later.
///     let mut slot = store.reserve(8)?.expect("64 MiB are not full yet");
///     slot.copy_from_slice(&word.to_le_bytes());
///     slot.commit(1);
/// }
/// let end = store.close().finish();
/// assert_eq!((end.totals.written, end.durable), (1000, true));
/// assert_eq!(std::fs::read(&path).unwrap().len(), 8000);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
#[repr(C)] // the current buffer first
pub struct Appender {
    /// The free half of the buffer being filled. Its filled half is on the desk, where the writer can take it.
    ///
    /// From its mark on, the current buffer is handed over if the writer is idle. At its capacity it is always handed over.
    current: Option<Vacant>,
    /// Unused bytes at the beginning of the current buffer's memory.
    skipped: usize,
    in_memory: bool,
    direct: bool,
    capacity: usize,
    early: usize,
    record_bytes: usize,
    /// Output offset of the next fresh buffer.
    end: u64,
    /// The number of the first record.
    first: u64,
    /// Records in the buffers before the current one.
    handed_over: u64,
    /// Bytes in the buffers before the current one, in all outputs.
    handed_over_bytes: u64,
    /// The most bytes that were accepted and not yet written.
    high_water: u64,
    dropped: u64,
    when_full: WhenFull,
    layout: Layout,
    /// Bytes of loans in the current buffer.
    lent: usize,
    /// When the oldest byte of the current buffer was first noticed by a tick.
    waiting_since: Option<u64>,
    flush_ns: u64,
    padding: Option<usize>,
    takes_loans: bool,
    /// A buffer that carries loans is handed over at this many bytes.
    most_lent: usize,
    framing: Arc<dyn Framing>,
    writer: Writer,
    first_buffers: usize,
    huge_pages: HugePages,
    /// What readers see, if there can be any.
    live: Option<Box<Live>>,
}

impl Appender {
    /// Creates a store that drains into `sink`. `framing` describes how its records are delimited and padded.
    ///
    /// # Errors
    /// The configuration is out of range, or memory or a thread is not available.
    pub fn new(
        sink: Box<dyn Sink>,
        framing: Arc<dyn Framing>,
        config: &StoreConfig,
    ) -> Result<Self> {
        config.check()?;
        Appender::checked(sink, framing, config)
    }

    /// As [`new`](Appender::new), for a configuration that has just passed [`StoreConfig::check`], before the sink was created. This
    /// saves a second query of the available memory, which reads a dozen files.
    ///
    /// # Errors
    /// Memory or a thread is not available.
    pub fn checked(
        sink: Box<dyn Sink>,
        framing: Arc<dyn Framing>,
        config: &StoreConfig,
    ) -> Result<Self> {
        Appender::starting(sink, framing, config, Start::default(), None)
    }

    /// As [`checked`](Appender::checked), with buffers that readers in other processes can [read](super::LiveReader), as soon as their
    /// records are [published](Appender::publish).
    ///
    /// Such a store keeps records in memory as long as possible: it fills the buffer next that was filled longest ago, and hands over
    /// no buffer early. It [takes no loans](Appender::takes_loans). The flush period is kept by the writer thread alone. Huge pages are
    /// used whatever [`StoreConfig::huge_pages`] says. [`LiveReader`](super::LiveReader) has an example.
    ///
    /// # Errors
    /// As [`checked`](Appender::checked); or `live` was made for other settings; or the framing has a head, or [takes no
    /// loans](Framing::takes_loans). As for loans, [`Framing::seal`] is never called.
    #[cfg(all(feature = "shared", not(loom)))]
    pub fn with_live(
        sink: Box<dyn Sink>,
        framing: Arc<dyn Framing>,
        config: &StoreConfig,
        live: Live,
    ) -> Result<Self> {
        if !framing.takes_loans() || framing.head_bytes() > 0 {
            let what = "a framing that completes buffers when they are written cannot be read live";
            return Err(Error::invalid("store", what));
        }
        let start = Start::default();
        Appender::starting(sink, framing, config, start, Some(Box::new(live)))
    }

    /// As [`checked`](Appender::checked), for an output that already holds something.
    pub(crate) fn starting(
        sink: Box<dyn Sink>,
        framing: Arc<dyn Framing>,
        config: &StoreConfig,
        start: Start,
        mut live: Option<Box<Live>>,
    ) -> Result<Self> {
        let drain = Drain::new(sink, framing.clone(), config.sync, start.bytes);
        let (direct, pads) = (drain.is_direct(), drain.pads());
        let in_memory = drain.is_in_memory();
        let size = config.whole_buffer_bytes();
        let map = config.map();
        let mut spare = match &mut live {
            Some(live) => live.take_buffers(config)?,
            None => (0..config.buffers)
                .map(|_| halves(size, &map, false))
                .collect::<Result<Vec<_>>>()?,
        };
        let first_buffers = spare.len();
        let (vacant, filled) = spare.remove(0);
        let layout = Layout {
            head: framing.head_bytes(),
            each: framing.record_bytes().map_or(0, NonZeroUsize::get),
        };
        let (head, each) = (layout.head, layout.each);
        let early = match pads || live.is_some() {
            true => config.buffer_bytes,
            // Not before at least one byte follows the head.
            false => config.early_bytes.max(head + 1).min(config.buffer_bytes),
        };
        // Touch the part that is filled first now, which also shows what page size was obtained. The rest is touched when needed.
        filled.populate_beginning(early)?;
        let huge_pages = filled.huge_pages();
        let writer = Writer::start(drain, spare, config, layout, live.is_some())?;
        let mut store = Appender {
            current: None,
            skipped: 0,
            in_memory,
            direct,
            capacity: config.buffer_bytes,
            early,
            record_bytes: config.record_bytes,
            end: start.bytes,
            first: start.records,
            handed_over: 0,
            handed_over_bytes: 0,
            high_water: 0,
            dropped: 0,
            when_full: config.when_full,
            layout,
            lent: 0,
            waiting_since: None,
            flush_ns: config.flush_every.as_nanos().min(u64::MAX as u128) as u64,
            padding: pads.then(|| framing.least_padding()).flatten(),
            takes_loans: !pads
                && live.is_none()
                && framing.takes_loans()
                && (head, each) == (0, 0)
                && config.sync != SyncPolicy::Always,
            // Do not wake a thread for less. Inline, return the lent memory while it is still in the cache.
            most_lent: if config.thread { MAX_LENT } else { 1 },
            framing,
            writer,
            first_buffers,
            huge_pages,
            live,
        };
        store.open((vacant, filled));
        Ok(store)
    }

    /// Makes an empty buffer the current one.
    #[inline]
    fn open(&mut self, empty: Empty) {
        let first = self.first + self.handed_over;
        let mut buffer = self.writer.open(empty, self.end, first);
        if self.direct {
            buffer.go_past_caches();
        }
        if let Some(live) = &mut self.live {
            live.opened(&buffer);
        }
        self.current = Some(buffer);
        self.begin();
    }

    /// Begins to fill the current buffer. `false`: there is none.
    #[inline]
    fn begin(&mut self) -> bool {
        let Some(buffer) = &mut self.current else {
            return false;
        };
        self.skipped = buffer.len() - self.layout.head;
        buffer.set_mark(self.skipped + self.early);
        self.lent = 0;
        true
    }

    /// Without a thread: writes the current buffer at once, and begins to fill it again. `false`: it is not written here (see
    /// [`Writer::write_in_place`]), or the write failed, and there is no current buffer any more.
    #[inline(always)]
    fn write_in_place(&mut self) -> bool {
        let Some((end, next)) = self.writer.write_in_place(&mut self.current) else {
            return false;
        };
        self.waiting_since = None;
        self.handed_over = next - self.first;
        self.handed_over_bytes += end - self.end;
        // Everything before it was written.
        self.high_water = self.high_water.max(end - self.end);
        self.end = end;
        self.begin()
    }

    /// Reserves `len` bytes in place for the next record. Fill all of them, then commit; their previous content is undefined.
    /// Dropping the reservation aborts it. `None`: no buffer is empty and the store is at its [`Limit`](super::Limit). Nothing
    /// was accepted; try again after [`wait_empty`](Appender::wait_empty).
    ///
    /// # Errors
    /// * An earlier write failed. This is reported once; then call [`retry`](Appender::retry) or close.
    /// * `len` is above [`StoreConfig::record_bytes`].
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Result<Option<ReservedRecord<'_>>> {
        if len > self.record_bytes || self.writer.has_failed() || !self.has_room() {
            self.check(len)?;
            if !self.renew(Duration::ZERO, true) {
                return Ok(None);
            }
        }
        Ok(self.reserved(len))
    }

    /// As [`reserve`](Appender::reserve), but [`StoreConfig::when_full`] decides what happens when no buffer is empty. `None`:
    /// the record was dropped and counted.
    ///
    /// # Errors
    /// As [`reserve`](Appender::reserve), with these differences:
    /// * An earlier failure is reported only when a buffer is full, or at a tick or flush before that. Checking for it at every
    ///   call would take as long as storing a small record.
    /// * Without a writer thread, the call that writes a full buffer reports a failure of this write. Its own record is not accepted, and
    ///   is not counted as dropped.
    /// * Also an error: the call would have to wait for a writer that was abandoned, or whose failed write was not retried.
    #[inline]
    pub fn claim(&mut self, len: usize) -> Result<Option<ReservedRecord<'_>>> {
        if len > self.record_bytes {
            self.check(len)?;
        }
        self.claim_fitting(len, 1)
    }

    /// As [`claim`](Appender::claim), for `records` records at once: either all or none are dropped. The caller has checked that
    /// `len` is at most [`StoreConfig::record_bytes`].
    #[inline]
    pub(crate) fn claim_fitting(
        &mut self,
        len: usize,
        records: u64,
    ) -> Result<Option<ReservedRecord<'_>>> {
        if !self.has_room() && !self.find_room()? {
            self.dropped += records;
            return Ok(None);
        }
        Ok(self.reserved(len))
    }

    /// Reserves `len` bytes if the current buffer has room, and does nothing else. The caller has checked `len`.
    #[inline]
    pub(crate) fn reserved(&mut self, len: usize) -> Option<ReservedRecord<'_>> {
        self.current
            .as_mut()?
            .reserve_below_mark(len)
            .map(ReservedRecord)
    }

    #[inline]
    fn has_room(&self) -> bool {
        matches!(&self.current, Some(buffer) if buffer.is_below_mark())
    }

    /// Whether records can be written directly from the memory they were built in ([`Carrier::carry`]). True for pipes and for
    /// writes through the page cache, if the framing adds nothing around a buffer and the store does not sync after every buffer.
    pub fn takes_loans(&self) -> bool {
        self.takes_loans
    }

    #[cold]
    fn find_room(&mut self) -> Result<bool> {
        self.check(0)?;
        // `renew` does this too. Trying it here first avoids calls around the write.
        if self.write_in_place() {
            return Ok(true);
        }
        loop {
            self.check(0)?;
            let drops = self.when_full == WhenFull::DropNewest;
            if self.renew(Duration::ZERO, drops) {
                return Ok(true);
            }
            if drops {
                return Ok(false);
            }
            self.refuse_to_wait_in_vain()?;
            self.renew(STEP, false);
        }
    }

    fn refuse_to_wait_in_vain(&self) -> Result<()> {
        let why = if self.writer.is_abandoned() {
            "it was given up"
        } else if self.writer.is_stuck() {
            "a write failed and was not retried"
        } else {
            return Ok(());
        };
        let what = format!("waiting for the writer: {why}");
        Err(Error::coded(Code::Io, "store", what).advise("Retry, or close and count what is lost"))
    }

    #[inline]
    fn check(&mut self, len: usize) -> Result<()> {
        match self.writer.has_failed() || len > self.record_bytes {
            true => self.refuse(len),
            false => Ok(()),
        }
    }

    #[cold]
    fn refuse(&mut self, len: usize) -> Result<()> {
        if let Some(error) = self.writer.take_error() {
            return Err(error);
        }
        if len > self.record_bytes {
            let what = format!("a record of {len} bytes is above the {}", self.record_bytes);
            return Err(Error::invalid("store", what).advise("Raise StoreConfig::record_bytes"));
        }
        Ok(())
    }

    /// Provides a current buffer with room: takes an empty one, adds one if the store `may_grow`, or waits up to `limit`.
    fn renew(&mut self, limit: Duration, may_grow: bool) -> bool {
        if self.has_room() {
            return true;
        }
        let full = self.skipped + self.capacity;
        if matches!(&self.current, Some(buffer) if buffer.len() < full)
            && !self.writer_is_idle()
            && let Some(buffer) = &mut self.current
        {
            buffer.set_mark(full);
            return true;
        }
        if self.write_in_place() {
            return true;
        }
        let mut fresh = self.writer.take_empty();
        if fresh.is_none() && may_grow {
            fresh = self.writer.grow();
        }
        if fresh.is_none() && !limit.is_zero() {
            fresh = self.writer.wait_empty(limit);
        }
        let Some(fresh) = fresh else {
            self.high_water = self.taken().high_water;
            return false;
        };
        if let Some(full) = self.current.take() {
            self.hand_over(full, true, Then::default());
        }
        self.open(fresh);
        true
    }

    /// Hands a buffer over. A full one is padded if that allows the next one to bypass the page cache.
    fn hand_over(&mut self, mut buffer: Vacant, is_full: bool, then: Then) {
        self.waiting_since = None;
        self.append_to_live(&buffer);
        let (filled, mut piece) = self.writer.close(&buffer);
        self.handed_over = piece.first + piece.records - self.first;
        if let (true, Some(least)) = (is_full && piece.all() > 0, self.padding) {
            let mut gap = (BLOCK - piece.end() as usize % BLOCK) % BLOCK;
            if (1..least).contains(&gap) {
                gap += BLOCK;
            }
            if gap > 0 {
                piece.pad(gap, &*self.framing, &mut buffer);
            }
        }
        self.handed_over_bytes += piece.end() - self.end;
        self.end = piece.end();
        self.high_water = self.high_water.max(self.pending(self.handed_over_bytes));
        piece.then = then;
        self.writer.hand_over(buffer, filled, piece);
    }

    /// Records accepted into the current buffer, whether or not the writer has taken them.
    fn records_in(&self, buffer: &Vacant) -> u64 {
        match self.layout.each {
            0 => buffer.counted(),
            each => ((buffer.len() - self.skipped - self.layout.head) / each) as u64,
        }
    }

    /// Appends what was committed to `buffer`, the current one, for the readers.
    #[inline]
    fn append_to_live(&mut self, buffer: &Vacant) {
        if self.live.is_some() {
            let counted = self.records_in(buffer);
            if let Some(live) = &mut self.live {
                live.append(buffer, counted, &*self.framing);
            }
        }
    }

    /// Shows readers all records that were committed since the last call. They are one batch, and one more for each buffer that became
    /// full meanwhile. Makes no system call, and copies nothing unless the store has added a buffer: records in such a buffer are copied,
    /// in batches of about 64 KiB. `tag` is a number that readers get with the batches.
    ///
    /// Does nothing if the store has no [`Live`](super::Live). [`LiveReader`](super::LiveReader) has an example.
    #[cfg(all(feature = "shared", not(loom)))]
    #[inline]
    pub fn publish(&mut self, tag: u64) {
        let counted = self.current.as_ref().map(|buffer| self.records_in(buffer));
        if let Some(live) = &mut self.live {
            live.tag(tag);
            if let (Some(buffer), Some(counted)) = (&self.current, counted) {
                live.append(buffer, counted, &*self.framing);
            }
            live.publish();
        }
    }

    /// What readers see, if there can be any: for notes and counts.
    #[cfg(all(feature = "shared", not(loom)))]
    pub fn live(&mut self) -> Option<&mut Live> {
        self.live.as_deref_mut()
    }

    /// The number of buffers, filled or not.
    #[cfg(all(test, not(loom)))]
    pub(super) fn buffers(&mut self) -> usize {
        // Taking the empty ones also counts the places of buffers whose memory was freed.
        let empty: Vec<_> = std::iter::from_fn(|| self.writer.take_empty()).collect();
        for buffer in empty {
            self.writer.put_aside(buffer);
        }
        self.writer.buffers()
    }
}
