//! Records that other processes read in the store's own buffers, also before they are written.
//!
//! ```text
//!  Appender ──▶ │ buffer 0: rec rec │ buffer 1: rec rec rec │ buffer 2 … │     sealed memory: readers can map it only for reading
//!     │ publish        ▲ batch           ▲ batch
//!     └──────▶ ring: │ where, records, first │ where, records, first │ … ──▶ LiveReader: copies a batch, and then checks that its
//!                                                                            buffer was not filled again meanwhile
//! ```
//! Publishing costs one short message for all records that were accepted since the last one: nothing is copied. The messages are in
//! a [broadcast ring](crate::ring::broadcast). Before a buffer is filled again, the messages about it are
//! [retired](crate::ring::broadcast::Producer::retire), and readers count the records that they have not read as lost. To keep
//! records as long as possible, the store fills the buffer next that was filled longest ago.
//!
//! If the output is slow, the store adds buffers, whose memory is private: the memory that readers have mapped cannot grow. Records
//! in those buffers are copied to the ring.

use super::{
    StoreConfig,
    buffer::Empty,
    framing::{Framing, Whole},
};
use crate::{
    Error, Result,
    memory::{Part, Vacant, halves_of, mapped_parts},
    ring::broadcast::{BroadcastConfig, BroadcastStats, NotesFull, Producer},
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What a reader accepts as the longest batch that is in the ring itself.
pub(super) const MAX_COPIED: usize = 1 << 20;
/// The length up to which records are copied together.
pub(super) const COPIED: usize = 64 << 10;

/// Where a batch is, in the first word of its message, if it follows in the message itself.
const IN_MESSAGE: u64 = u64::MAX;
/// Bytes of a message without records: where the batch begins, its length, the number of its records, that of the first one, and the tag.
pub(super) const HEAD: usize = 5 * 8;

/// Settings of what readers can see of a store.
///
/// ```
/// use forebay::store::LiveConfig;
/// assert!(LiveConfig::default().copied_bytes >= 1 << 20);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveConfig {
    /// Memory for the first buffers: 0 by default. The store gets more buffers than [`StoreConfig::buffers`] if those are smaller than
    /// this. It includes the room after each buffer for a long record.
    pub bytes: usize,
    /// The maximum number of batches that readers can still receive: at least 1, rounded up to a power of two; 65,536 by default. Each
    /// call of [`publish`](super::Appender::publish) makes at least one. Each takes 48 bytes.
    pub batches: usize,
    /// Room in the ring for records of buffers that the store adds when its output is slow: 8 MiB by default. At least four of the
    /// longest records fit.
    pub copied_bytes: usize,
    /// Bytes for [notes](Live::note): 1024 by default.
    pub note_bytes: usize,
}

impl Default for LiveConfig {
    fn default() -> Self {
        LiveConfig {
            bytes: 0,
            batches: 1 << 16,
            copied_bytes: 8 << 20,
            note_bytes: 1024,
        }
    }
}

/// The memory of a store that readers can see: its first buffers, and the ring with the batches. [`LiveReader`](super::LiveReader) has an
/// example.
#[derive(Debug)]
pub struct Live {
    ring: Producer,
    memory: OwnedFd,
    /// The memory of the first buffers, until the store takes them.
    parts: Vec<Part>,
    part_bytes: usize,
    /// For each buffer, the number of the message after the last one about it.
    ends: Vec<u64>,
    /// The number of the next message.
    next: u64,
    /// Records in all messages, and those that were lost before they could be in one.
    records: u64,
    tag: u64,
    /// Bytes of the current buffer that are in messages or were skipped, and its records in messages.
    from: usize,
    counted: u64,
}

impl Live {
    /// Makes the buffers of a store with these settings, and the ring. All memory is allocated now: readers could otherwise cause its
    /// allocation.
    ///
    /// # Errors
    /// A setting is out of range, records are longer than 1 MiB, or there is not enough memory.
    pub fn new(store: &StoreConfig, config: &LiveConfig) -> Result<Live> {
        store.validate()?;
        if store.record_bytes > MAX_COPIED {
            let error = Error::invalid("store", "records this long cannot be read live");
            return Err(error.advise("Set record_bytes to 1 MiB or less"));
        }
        let longest = HEAD + store.record_bytes.max(COPIED);
        let copied = config.copied_bytes.max(4 * longest);
        let messages = config.batches.saturating_mul(HEAD);
        let ring = Producer::new(&BroadcastConfig {
            data_bytes: copied.saturating_add(messages),
            messages: config.batches,
            note_bytes: config.note_bytes,
        })?;
        let buffer_bytes = store.whole_buffer_bytes();
        let count = config.bytes.div_ceil(buffer_bytes).max(store.buffers);
        let (memory, parts) = mapped_parts(buffer_bytes, count)?;
        let part_bytes = parts.first().map_or(0, |part| part.len());
        Ok(Live {
            ring,
            memory,
            ends: vec![0; parts.len()],
            parts,
            part_bytes,
            next: 0,
            records: 0,
            tag: 0,
            from: 0,
            counted: 0,
        })
    }

    /// The memory of the ring and of the buffers, to be sent to readers: they can map it, but only for reading. The descriptors may be
    /// given to untrusted processes.
    pub fn memory(&self) -> [BorrowedFd<'_>; 2] {
        [self.ring.memory(), self.memory.as_fd()]
    }

    /// Writes a note, which every reader can [read](super::LiveReader::note) at any time after this.
    ///
    /// # Errors
    /// [`note_bytes`](LiveConfig::note_bytes) are used up.
    pub fn note(&mut self, note: &[u8]) -> std::result::Result<(), NotesFull> {
        self.ring.note(note)
    }

    /// Bytes of the first buffers, with the memory around each.
    pub fn bytes(&self) -> usize {
        self.ends.len() * self.part_bytes
    }

    /// Records in all batches so far, also in those that are not published yet.
    pub fn published(&self) -> u64 {
        self.records
    }

    /// The batches, as messages of the ring.
    pub fn batches(&self) -> BroadcastStats {
        self.ring.stats()
    }

    /// Takes the buffers for a store.
    pub(super) fn take_buffers(&mut self, config: &StoreConfig) -> Result<Vec<Empty>> {
        let fits =
            config.whole_buffer_bytes() <= self.part_bytes && config.record_bytes <= MAX_COPIED;
        if !fits || config.buffers > self.parts.len() {
            let error = Error::invalid("store", "its buffers were made for other settings");
            return Err(error.advise("Make `Live` with the settings of the store"));
        }
        Ok(self.parts.drain(..).map(halves_of).collect())
    }

    /// The buffer becomes the current one: nothing of it is a record yet, and its bytes may be overwritten from now on.
    pub(super) fn opened(&mut self, buffer: &Vacant) {
        (self.from, self.counted) = (buffer.len(), 0);
        let Some(end) = buffer.part_number().map(|part| self.ends[part]) else {
            return;
        };
        if end > self.ring.stats().oldest {
            // Readers that attach need a message that says how many records there were.
            if end == self.next {
                self.send(0, 0, 0, &[]);
            }
            self.ring.retire(end);
        }
    }

    /// Appends what was committed to the current buffer, which now has `counted` records, since the last call.
    #[inline]
    pub(super) fn append(&mut self, buffer: &Vacant, counted: u64, framing: &dyn Framing) {
        let len = buffer.len();
        if len > self.from {
            let records = counted - self.counted;
            match buffer.part_number() {
                Some(part) => {
                    let at = part * self.part_bytes + self.from;
                    self.ends[part] = self.send(at as u64, len - self.from, records, &[]);
                }
                None => self.copy(buffer, len, records, framing),
            }
            (self.from, self.counted) = (len, counted);
        }
    }

    /// Copies the records of a private buffer from where the last message ended up to `len` to the ring.
    #[cold]
    fn copy(&mut self, buffer: &Vacant, len: usize, mut records: u64, framing: &dyn Framing) {
        let mut from = self.from;
        while from < len {
            let part = |limit: usize| match len - from > limit {
                true => framing.last_whole(buffer.committed(from..from + limit)),
                false => Whole {
                    bytes: len - from,
                    records,
                },
            };
            let most = MAX_COPIED.min(self.ring.largest() - HEAD);
            let mut parts = [COPIED, most].into_iter().map(part);
            let Some(whole) = parts.find(|whole| whole.bytes > 0) else {
                break; // impossible: no record is longer than the longest part
            };
            let to = from + whole.bytes;
            let some = whole.records.min(records);
            self.send(IN_MESSAGE, whole.bytes, some, buffer.committed(from..to));
            (from, records) = (to, records - some);
        }
        self.records += records; // readers count them as lost
    }

    /// Appends a message, and returns the number of the next one.
    #[inline]
    fn send(&mut self, at: u64, len: usize, records: u64, bytes: &[u8]) -> u64 {
        let words = [at, len as u64, records, self.records, self.tag];
        let mut head = [0; HEAD];
        for (to, word) in head.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_ne_bytes();
        }
        self.records += records;
        // The ring has room for the longest one.
        if let Ok(number) = self.ring.append(&[&head, bytes]) {
            self.next = number + 1;
        }
        self.next
    }

    /// Publishes what was appended.
    #[inline]
    pub(super) fn publish(&mut self) {
        self.ring.publish_appended();
    }

    /// Sets the tag of the batches from the next one on.
    #[inline]
    pub(super) fn tag(&mut self, tag: u64) {
        self.tag = tag;
    }
}

/// A message, decoded: where the batch is in the memory, or `None` if it follows; its length; its records; the number of the first
/// one; the tag.
pub(super) fn decode(head: &[u8; HEAD]) -> (Option<u64>, u64, u64, u64, u64) {
    let mut words = head
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_ne_bytes(*word));
    let mut next = || words.next().unwrap_or_default();
    let (at, len, records, first, tag) = (next(), next(), next(), next(), next());
    ((at != IN_MESSAGE).then_some(at), len, records, first, tag)
}
