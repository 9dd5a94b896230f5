//! The reading end.

use super::{ReaderStats, Received, error::RecvError, layout::ON, reading::Reading};
use crate::{
    Error,
    error::Code,
    foreign::Foreign,
    memory::{self, words::Theirs},
    sync::{Deadline, limited},
    sys::sealed,
};
use std::{
    ops::Range,
    os::fd::{AsFd, OwnedFd},
};

/// Receives the messages of a [`Producer`](super::Producer), usually in another process. It cannot disturb the producer or other
/// readers: it only reads.
#[derive(Debug)]
pub struct Reader {
    pub(super) reading: Reading,
}

impl Reader {
    /// Maps the memory of a producer, which its process has sent ([`Producer::memory`](super::Producer::memory)). The reader starts
    /// at the next message to be published.
    ///
    /// The sender of the descriptor need not be trusted. A descriptor that is refused is closed by [another
    /// thread](crate::foreign), because closing it may take as long as its sender wants.
    ///
    /// # Errors
    /// It is not memory of a broadcast ring of this version, or it could still shrink or be written by other processes; or there
    /// are not enough mappings.
    pub fn attach(memory: OwnedFd) -> crate::Result<Reader> {
        Reader::attach_checked(memory, sealed::check_any)
    }

    /// The same for a ring of this program whose memory is [growing](super::Producer::growing). Do not attach to memory of another
    /// process in this way: reading a page that is missing allocates it for the reader.
    ///
    /// # Errors
    /// Those of [`attach`](Reader::attach).
    pub fn attach_growing(memory: OwnedFd) -> crate::Result<Reader> {
        Reader::attach_checked(memory, sealed::check_growing)
    }

    fn attach_checked(
        memory: OwnedFd,
        check: impl FnOnce(&Foreign) -> Result<u64, sealed::DoesNotFit>,
    ) -> crate::Result<Reader> {
        let memory = Foreign::new(memory);
        let reader = Reader::attach_to(&memory, check)?;
        drop(memory.trusted()); // it is memory, which is closed quickly
        Ok(reader)
    }

    fn attach_to(
        memory: &Foreign,
        check: impl FnOnce(&Foreign) -> Result<u64, sealed::DoesNotFit>,
    ) -> crate::Result<Reader> {
        let wrong = |what: &dyn std::fmt::Display| {
            Error::coded(Code::Damaged, ON, format!("attaching a reader: {what}"))
                .advise("Attach to memory from a producer that uses this version of forebay's broadcast rings")
        };
        let len = check(memory).map_err(|unfit| wrong(&unfit))?;
        let page = crate::sys::page_size() as u64;
        let len = match usize::try_from(len) {
            Ok(len) if len > 0 && (len as u64).is_multiple_of(page) => len,
            _ => return Err(wrong(&sealed::DoesNotFit::Len(len))),
        };
        let refused = |error| memory::refused(ON, len, error);
        let mapping = sealed::map(&memory.as_fd(), len).map_err(refused)?;
        let reading = Reading::new(Theirs::new(mapping));
        let reading = reading.ok_or_else(|| wrong(&"it does not begin like a broadcast ring"))?;
        Ok(Reader { reading })
    }

    limited! {
        /// Copies the next message into `buffer`, waiting for one if there is none.
        ///
        /// A producer that dies wakes no reader: use a time limit, and check otherwise whether the producer is there.
        ///
        /// # Errors
        /// - [`Overrun`](RecvError::Overrun): messages were lost. The next call continues after them.
        /// - [`TooSmall`](RecvError::TooSmall): the message stays.
        /// - [`Closed`](RecvError::Closed).
        /// - [`Broken`](RecvError::Broken): only if the process that owns the memory breaks the protocol.
        ///
        /// After an error, the contents of `buffer` are unspecified.
        fn recv(&mut self, buffer: &mut [u8]) -> Result<Received, RecvError>,
        |deadline| self.recv_until(buffer, &deadline),
        no wait: try_recv "\n\n# Errors\nThose of `recv`, and [`Empty`](RecvError::Empty).",
        for: recv_timeout "\n\n# Errors\nThose of `recv`, and [`TimedOut`](RecvError::TimedOut).",
        until: recv_deadline
    }

    #[inline]
    fn recv_until(
        &mut self,
        buffer: &mut [u8],
        deadline: &Deadline,
    ) -> Result<Received, RecvError> {
        match self.reading.take(buffer) {
            Err(RecvError::Empty) if deadline.may_wait() => self.reading.wait(buffer, deadline),
            answer => answer,
        }
    }

    /// Continues at the oldest message that is intact, and returns its sequence number. It may be overwritten before it is received.
    /// Messages that are skipped do not count as lost.
    pub fn seek_oldest(&mut self) -> u64 {
        self.reading.seek(0)
    }

    /// Continues at the next message to be published, and returns its sequence number. Messages that are skipped do not count as
    /// lost.
    pub fn seek_newest(&mut self) -> u64 {
        self.reading.seek(u64::MAX)
    }

    /// Continues at message `sequence`, or as close to it as messages are intact. Returns the sequence number at which it
    /// continues. Messages that are skipped do not count as lost.
    pub fn seek(&mut self, sequence: u64) -> u64 {
        self.reading.seek(sequence)
    }

    /// Sequence numbers of the messages that are intact now: from the oldest to the next one to be published.
    pub fn intact(&self) -> Range<u64> {
        self.reading.intact()
    }

    /// Whether message `sequence` was intact until this call. What it [describes](super::Producer::retire), and was copied before this
    /// call, is then undamaged, too.
    #[inline]
    pub fn is_intact(&self, sequence: u64) -> bool {
        self.reading.is_intact(sequence)
    }

    /// Whether the producer has closed the ring: it publishes nothing more.
    pub fn is_closed(&self) -> bool {
        self.reading.is_closed()
    }

    /// A copy of the first `max_bytes` of [note](super::Producer::note) `number`, if the producer has written that many. A producer
    /// that is not trusted may write notes as long as its memory.
    pub fn note(&self, number: usize, max_bytes: usize) -> Option<Vec<u8>> {
        self.reading.note(number, max_bytes)
    }

    /// Length in bytes of the longest message. A buffer of this length never is [too small](RecvError::TooSmall).
    pub fn largest(&self) -> usize {
        self.reading.layout().largest()
    }

    /// The most messages that can be intact at the same time.
    pub fn capacity(&self) -> u64 {
        self.reading.layout().entries
    }

    /// What this reader has received and lost so far.
    pub fn stats(&self) -> ReaderStats {
        ReaderStats {
            received: self.reading.received,
            received_bytes: self.reading.received_bytes,
            lost: self.reading.lost,
            next: self.reading.next,
        }
    }
}
