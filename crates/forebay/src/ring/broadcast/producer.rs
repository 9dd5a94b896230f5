//! The producing end.

use super::{
    BroadcastConfig, BroadcastStats, Reader,
    error::{NotesFull, TooLong},
    layout::{Layout, ON},
    writing::Writing,
};
use crate::{
    Error, Result,
    memory::{
        self,
        words::{Ours, WORD},
    },
    sys::{self, Advice, sealed},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// Publishes messages to any number of readers, and never waits for them.
///
/// Dropping it closes the ring: readers receive what is left, and then [`Closed`](super::RecvError::Closed). A process that dies
/// does not close it.
#[derive(Debug)]
pub struct Producer {
    writing: Writing,
    file: OwnedFd,
}

impl Producer {
    /// Makes a ring. All its memory is allocated now, and in use as long as the producer or a reader exists.
    ///
    /// # Errors
    /// A 0 in `config`, more than 32 GiB or half of the available memory, or not enough memory or descriptors.
    pub fn new(config: &BroadcastConfig) -> Result<Producer> {
        Producer::make(config, sealed::make, true)
    }

    /// Makes a ring for readers in this process, whose memory is allocated as messages fill it. That starts at once, however large the
    /// ring is, but costs the first message in each page a page fault, and if no memory is left then, the kernel may end the process.
    /// Readers attach with [`Reader::attach_growing`]; [`Reader::attach`] refuses it.
    ///
    /// ```
    /// use forebay::ring::broadcast::{BroadcastConfig, Producer, Reader};
    ///
    /// let config = BroadcastConfig { data_bytes: 16 << 20, ..BroadcastConfig::default() };
    /// let mut producer = Producer::growing(&config)?;
    /// let memory = || producer.memory().try_clone_to_owned().unwrap();
    /// assert!(Reader::attach(memory()).is_err());
    /// let mut reader = Reader::attach_growing(memory())?;
    /// producer.publish(&[b"hello"]).unwrap();
    /// let mut buffer = [0; 1500];
    /// assert_eq!(reader.try_recv(&mut buffer).unwrap().len, 5);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`new`](Producer::new).
    pub fn growing(config: &BroadcastConfig) -> Result<Producer> {
        Producer::make(config, sealed::make_growing, false)
    }

    fn make(
        config: &BroadcastConfig,
        make: impl FnOnce(&str, usize) -> io::Result<(OwnedFd, sys::Mapping)>,
        is_filled: bool,
    ) -> Result<Producer> {
        let layout = Layout::new(config, sys::page_for(config.data_bytes) / WORD)?;
        let len = layout.words().unwrap_or(usize::MAX / WORD) * WORD;
        memory::check_all(ON, len)?;
        let refused = |error| memory::refused(ON, len, error);
        let (file, mapping) = make("forebay-broadcast", len).map_err(refused)?;
        mapping.advise(0..len, Advice::DontFork).map_err(refused)?;
        if is_filled {
            memory::populate(ON, &mapping, 0..len)?; // the pages exist; now this process has them mapped
        }
        let writing = Writing::new(Ours::new(mapping), layout);
        Ok(Producer { writing, file })
    }

    /// Publishes one message, which consists of `parts` directly after one another, and returns its sequence number: the number
    /// of messages published before it. Never waits; overwrites the oldest messages if there is no room. Publishes the messages that
    /// were [appended](Producer::append) before it, too.
    ///
    /// Readers that sleep are not woken: call [`wake`](Producer::wake) after one message or several, or [`send`](Producer::send).
    ///
    /// # Errors
    /// The message is longer than [`largest`](Producer::largest). Nothing is published.
    #[inline]
    pub fn publish(&mut self, parts: &[&[u8]]) -> std::result::Result<u64, TooLong> {
        let sequence = self.append(parts)?;
        self.publish_appended();
        Ok(sequence)
    }

    /// [Publishes](Producer::publish) one message and [wakes](Producer::wake) the readers that sleep.
    ///
    /// ```
    /// use forebay::ring::broadcast::{BroadcastConfig, Producer};
    /// let mut producer = Producer::new(&BroadcastConfig::default())?;
    /// let mut reader = producer.reader()?;
    /// let thread = std::thread::spawn(move || reader.recv(&mut [0; 1500]).unwrap().len);
    /// producer.send(&[b"hello"])?;
    /// assert_eq!(thread.join().unwrap(), 5);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`publish`](Producer::publish).
    pub fn send(&mut self, parts: &[&[u8]]) -> std::result::Result<u64, TooLong> {
        let sequence = self.publish(parts)?;
        self.wake();
        Ok(sequence)
    }

    /// Like [`publish`](Producer::publish), but readers receive the message only after the next call of `publish` or
    /// [`publish_appended`](Producer::publish_appended). Several messages are published faster together: each time, the cache line
    /// that all readers look at changes.
    ///
    /// If there is no room for a message, those appended before it are published at once. Dropping the producer publishes the rest.
    ///
    /// # Errors
    /// The message is longer than [`largest`](Producer::largest). It is not appended.
    #[inline(always)]
    pub fn append(&mut self, parts: &[&[u8]]) -> std::result::Result<u64, TooLong> {
        self.writing.append(parts)
    }

    /// Publishes all messages that were [appended](Producer::append).
    #[inline]
    pub fn publish_appended(&mut self) {
        self.writing.publish();
    }

    /// Gives up all messages before message `before`, as if they were overwritten: readers that have not received them count them as
    /// lost. Messages that were [appended](Producer::append) are published first.
    ///
    /// For messages that describe other memory, which readers copy after the message: retire the messages before that memory is
    /// overwritten. Readers then [find out](Reader::is_intact) that their copy may be damaged.
    ///
    /// ```
    /// use forebay::ring::broadcast::{BroadcastConfig, Producer, RecvError};
    /// let mut producer = Producer::new(&BroadcastConfig::default())?;
    /// let mut reader = producer.reader()?;
    /// producer.publish(&[b"the first 100 bytes are a picture"]).unwrap();
    /// let received = reader.try_recv(&mut [0; 100]).unwrap();
    /// // … the reader copies the picture …
    /// assert!(reader.is_intact(received.sequence));
    /// producer.retire(1);
    /// // … another picture overwrites it …
    /// assert!(!reader.is_intact(received.sequence));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn retire(&mut self, before: u64) {
        self.writing.retire(before);
    }

    /// Wakes the readers that sleep, up to 1024; others look again within 250 ms. This is a system call, whether there are any or not.
    pub fn wake(&mut self) {
        self.writing.wake();
    }

    /// Writes a note, which every reader can [read](Reader::note) at any time after this. Notes are numbered from 0, and are never
    /// overwritten. A reader that receives a message published after the note also finds the note.
    ///
    /// # Errors
    /// [`note_bytes`](BroadcastConfig::note_bytes) are used up.
    pub fn note(&mut self, note: &[u8]) -> std::result::Result<(), NotesFull> {
        self.writing.note(note)
    }

    /// The memory, to be sent to readers: they can map it, but only for reading. The descriptor may be given to untrusted
    /// processes of other users. A process of this user can change the file's mode (0), and then set extended attributes, which
    /// take kernel memory while a descriptor exists.
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// A reader in this process. It starts at the next message to be published.
    ///
    /// # Errors
    /// Not enough descriptors or mappings.
    pub fn reader(&self) -> Result<Reader> {
        let copy = self.file.try_clone().map_err(|error| {
            Error::new(ON, "attaching a reader")
                .because(error)
                .advise("Too many files are open: close some, or raise `ulimit -n`")
        })?;
        Reader::attach(copy)
    }

    /// Length in bytes of the longest message.
    pub fn largest(&self) -> usize {
        self.writing.layout().largest()
    }

    /// What was published so far.
    pub fn stats(&self) -> BroadcastStats {
        self.writing.stats()
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.writing.end();
    }
}
