//! The reading side of [`Live`](super::Live), usually in another process.

use super::live::{COPIED, HEAD, MAX_COPIED, decode};
use crate::{
    Error, Result,
    error::Code,
    foreign::Foreign,
    memory::{
        self,
        words::{Theirs, WORD},
    },
    ring::broadcast::{Reader, RecvError},
    sys::{self, sealed},
};
use std::{
    ops::Range,
    os::fd::{AsFd, OwnedFd},
};

const ON: &str = "live store";
/// How often [`LiveReader::newest`] tries. Only a store that keeps overwriting its last message needs more.
const MAX_TRIES: u32 = 1000;

/// Reads the records of a store in the buffers in which the store composed them. It cannot disturb the store or other readers: it only
/// reads.
///
/// The process of the store need not be trusted: whatever it writes to the memory, a reader gets wrong bytes or an error, but no more.
/// A reader has to check the records themselves.
///
/// ```
/// use forebay::store::{Appender, FileConfig, FileSink, Framing, Live, LiveConfig, LiveReader, StoreConfig, Whole};
/// struct Words; // 8 bytes each
/// impl Framing for Words {
///     fn takes_loans(&self) -> bool { true } // nothing is added to records
///     fn last_whole(&self, bytes: &[u8]) -> Whole {
///         Whole { bytes: bytes.len() / 8 * 8, records: bytes.len() as u64 / 8 }
///     }
/// }
/// let path = std::env::temp_dir().join(format!("forebay-doc-live-{}", std::process::id()));
/// let config = StoreConfig::default();
/// let live = Live::new(&config, &LiveConfig::default())?;
/// let [ring, buffers] = live.memory().map(|memory| memory.try_clone_to_owned().unwrap()); // or sent to another process
/// let mut reader = LiveReader::attach(ring, buffers)?;
/// let sink = FileSink::create(&path, &FileConfig::default())?;
/// let mut store = Appender::with_live(sink, std::sync::Arc::new(Words), &config, live)?;
/// for word in 0..1000u64 {
///     let mut slot = store.reserve(8)?.expect("64 MiB are not full yet");
///     slot.copy_from_slice(&word.to_le_bytes());
///     slot.commit(1);
/// }
/// store.publish(0);
/// let batch = reader.next_batch().unwrap();
/// assert_eq!((batch.first, batch.records, batch.len), (0, 1000, 8000));
/// let mut bytes = [0; 8000];
/// assert!(reader.copy(&batch, 0, &mut bytes)); // false: the buffer was filled again meanwhile
/// assert_eq!(bytes[7992..], 999u64.to_le_bytes());
/// # drop(store);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct LiveReader {
    ring: Reader,
    memory: Theirs,
    /// The last message, and its number; `None` if it was not received completely.
    message: Vec<u8>,
    received: Option<u64>,
    /// Another one, for [`newest`](LiveReader::newest).
    other: Vec<u8>,
}

/// Consecutive records that were published together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Number of records published before it.
    pub first: u64,
    /// Number of records in it. Other bytes, such as headers, are in `len`, but are not records.
    pub records: u64,
    /// Length in bytes.
    pub len: usize,
    /// The number that was given to [`publish`](super::Appender::publish).
    pub tag: u64,
    /// Number of batches published before it.
    pub number: u64,
    /// Where it begins in the memory; `None`: in the message.
    at: Option<usize>,
}

impl LiveReader {
    /// Maps the memory of a store, which its process has sent ([`Live::memory`](super::Live::memory)): that of the ring, and that of the
    /// buffers. The reader starts at the next batch to be published.
    ///
    /// # Errors
    /// It is not that memory, or it could still shrink or be written by other processes; or there are not enough mappings.
    pub fn attach(ring: OwnedFd, buffers: OwnedFd) -> Result<LiveReader> {
        let buffers = Foreign::new(buffers);
        let ring = Reader::attach(ring)?;
        let wrong = |what: &dyn std::fmt::Display| {
            Error::coded(Code::Damaged, ON, format!("attaching a reader: {what}"))
                .advise("Attach to memory of a store that uses this version of forebay")
        };
        let len = sealed::check_any(&buffers).map_err(|unfit| wrong(&unfit))?;
        let len = match usize::try_from(len) {
            Ok(len) if len > 0 && len.is_multiple_of(sys::page_size()) => len,
            _ => return Err(wrong(&sealed::DoesNotFit::Len(len))),
        };
        let refused = |error| memory::refused(ON, len, error);
        let mapping = sealed::map(&buffers.as_fd(), len).map_err(refused)?;
        drop(buffers.trusted()); // it is memory, which is closed quickly
        Ok(LiveReader {
            ring,
            memory: Theirs::new(mapping),
            message: vec![0; HEAD + COPIED],
            received: None,
            other: Vec::new(),
        })
    }

    /// The next batch, without waiting. The numbers of its records show how many this reader has lost: those between the last batch
    /// and this one.
    ///
    /// # Errors
    /// - [`Overrun`](RecvError::Overrun): batches were lost. The next call continues after them.
    /// - [`Empty`](RecvError::Empty), [`Closed`](RecvError::Closed).
    /// - [`Broken`](RecvError::Broken): only if the process of the store breaks the protocol.
    pub fn next_batch(&mut self) -> std::result::Result<Batch, RecvError> {
        self.received = None;
        let received = match self.ring.try_recv(&mut self.message) {
            Err(RecvError::TooSmall { needed }) if needed <= HEAD + MAX_COPIED => {
                self.message.resize(HEAD + MAX_COPIED, 0);
                self.ring.try_recv(&mut self.message)
            }
            answer => answer,
        };
        let received = match received {
            Err(RecvError::TooSmall { .. }) => return Err(RecvError::Broken),
            answer => answer?,
        };
        let message = &self.message[..received.len];
        let (head, rest) = message.split_first_chunk().ok_or(RecvError::Broken)?;
        let (at, len, records, first, tag) = decode(head);
        let place = match at {
            Some(at) => at
                .checked_add(len)
                .filter(|&end| end <= self.memory_bytes()),
            None => (rest.len() as u64 == len).then_some(0),
        };
        if place.is_none() || records > len || first.checked_add(records).is_none() {
            return Err(RecvError::Broken);
        }
        self.received = Some(received.sequence);
        Ok(Batch {
            first,
            records,
            len: len as usize,
            tag,
            number: received.sequence,
            at: at.map(|at| at as usize),
        })
    }

    /// The batch that was published last; `None` if there is none, or none can be received. The reader stays where it is. Only batches
    /// in buffers can be [copied](LiveReader::copy) after this call.
    pub fn newest(&mut self) -> Option<Batch> {
        let (next, received) = (self.ring.stats().next, self.received);
        self.other.resize(self.message.len(), 0);
        std::mem::swap(&mut self.message, &mut self.other);
        let mut newest = None;
        // It may be overwritten before it is read.
        for _ in 0..MAX_TRIES {
            let Some(last) = self.ring.intact().end.checked_sub(1) else {
                break;
            };
            self.ring.seek(last);
            match self.next_batch() {
                Ok(batch) => newest = Some(batch),
                Err(RecvError::Overrun { .. } | RecvError::Empty) => continue,
                Err(_) => {}
            }
            break;
        }
        std::mem::swap(&mut self.message, &mut self.other);
        self.received = received;
        self.ring.seek(next);
        newest
    }

    fn memory_bytes(&self) -> u64 {
        (self.memory.len() * WORD) as u64
    }

    /// Copies the bytes of the batch from byte `from` on: as many as `bytes` has. `false`: the store fills the buffer again, so the
    /// bytes may be others. While the store is open, the reader then also skips an eighth of the batches, because those are overwritten
    /// next.
    ///
    /// # Panics
    /// The batch does not have that many bytes; or it is not in a buffer, and another one was received after it.
    pub fn copy(&mut self, batch: &Batch, from: usize, bytes: &mut [u8]) -> bool {
        assert!(from <= batch.len && bytes.len() <= batch.len - from);
        let Some(at) = batch.at else {
            assert!(self.received == Some(batch.number));
            bytes.copy_from_slice(&self.message[HEAD + from..][..bytes.len()]);
            return true; // the message was intact when it was received
        };
        self.memory.snapshot_bytes(at + from, bytes);
        let is_intact = self.ring.is_intact(batch.number);
        if !is_intact && !self.ring.is_closed() {
            let intact = self.ring.intact();
            let next = intact.start + (intact.end - intact.start) / 8;
            self.ring.seek(next.max(self.ring.stats().next));
        }
        is_intact
    }

    /// The number of the batch to read next, and the numbers of those that are intact.
    pub fn batches(&self) -> (u64, Range<u64>) {
        (self.ring.stats().next, self.ring.intact())
    }

    /// Continues at the batch with this number, or as close to it as batches are intact. Returns the number at which it continues.
    pub fn seek(&mut self, number: u64) -> u64 {
        self.ring.seek(number)
    }

    /// A copy of the first `max_bytes` of [note](super::Live::note) `number`, if there are that many.
    pub fn note(&self, number: usize, max_bytes: usize) -> Option<Vec<u8>> {
        self.ring.note(number, max_bytes)
    }

    /// The most batches that can be intact at the same time.
    pub fn capacity(&self) -> u64 {
        self.ring.capacity()
    }

    /// Bytes of the buffers.
    pub fn bytes(&self) -> usize {
        self.memory.len() * WORD
    }
}
