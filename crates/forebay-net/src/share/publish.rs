//! The writing side: publishes packets, and notes about interfaces.

use super::{
    tap::Tap,
    tap_config::{Begin, TapConfig},
    wire::{HEAD, Head, MAX_INTERFACES, MAX_LOST, MAX_PACKET, Note},
};
use crate::port::{Frame, Interface};
use forebay::{
    Error, Result,
    ring::broadcast::{BroadcastConfig, Producer, Reader},
};
use std::{
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Room for notes. They are never overwritten: when no more fit, packets of further interfaces are not shared.
const NOTE_BYTES: usize = 512 << 10;
/// Room that is kept for the note about the end.
const END_BYTES: usize = 64;
/// The number of an interface that readers do not know.
const NOT_SHARED: u32 = u32::MAX;

/// The least memory of a share: several of the largest packets fit.
pub const MIN_RING_BYTES: u64 = 1 << 20;
/// Bytes of memory for each packet that a share's index has room for.
const BYTES_PER_PACKET: u64 = 128;

/// Publishes packets to any number of readers, in this process and in others.
///
/// The publisher never waits for a reader. It writes over the oldest packets, and a reader that was too slow finds out how many
/// it has missed. [`Session::share`](crate::session::Session::share) publishes the packets of a session.
///
/// ```
/// use forebay::time::Clock;
/// use forebay_net::{open, session::{Control, Output, Session, SessionConfig}, share::{Publisher, TapConfig}};
///
/// let publisher = Publisher::new(16 << 20)?;
/// let source = publisher.source();
/// let clock = Clock::virtual_time();
/// let ports = open::ports(&["sim:clock=virtual,count=1000".parse()?], &Default::default(), &clock)?;
/// let config = SessionConfig::default();
/// let session = Session::open(ports, Output::Count, config.clone(), clock, Control::new()?)?.share(publisher);
/// let tap = source.tap(&TapConfig::default())?; // sees all packets from here on
/// assert_eq!(session.run(&mut |_| {}).shared, Some(1000));
///
/// let reading = Session::open(vec![Box::new(tap)], Output::Count, config, Clock::real(), Control::new()?)?;
/// assert_eq!(reading.run(&mut |_| {}).ledger.counted, 1000);
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Publisher {
    packets: Producer,
    note_bytes: usize,
    interfaces: u32,
    /// Bytes published of a packet.
    snaplen: u32,
    /// Packets that the capture lost before it could share them: in its sources, and those of interfaces that found no room.
    lost: u64,
    lost_in_sources: u64,
    source: Source,
}

/// Makes taps of a share in the process that publishes it.
#[derive(Clone, Debug)]
pub struct Source(pub(super) Arc<Memory>);

/// The memory of a share, and what new readers need to know.
#[derive(Debug)]
pub(super) struct Memory {
    pub packets: OwnedFd,
    /// Written by the publisher, read when a reader attaches. Relaxed: it publishes nothing else.
    pub lost: AtomicU64,
}

impl Publisher {
    /// Allocates a ring of `ring_bytes` for packets, from [`MIN_RING_BYTES`] up.
    ///
    /// # Errors
    /// `ring_bytes` is out of range, or the system has no more memory or descriptors.
    pub fn new(ring_bytes: u64) -> Result<Publisher> {
        if ring_bytes < MIN_RING_BYTES {
            let error = Error::invalid("share", "the ring is too small for packets");
            return Err(error.advise("Use 1M or more"));
        }
        let too_large = |_| Error::invalid("share", "the ring is larger than memory can be");
        // At least two of the largest packets fit, so that each of them can be published.
        let min = 2 * (HEAD + MAX_PACKET) + NOTE_BYTES;
        let packets = Producer::new(&BroadcastConfig {
            data_bytes: usize::try_from(ring_bytes).map_err(too_large)?.max(min),
            messages: usize::try_from(ring_bytes / BYTES_PER_PACKET).map_err(too_large)?,
            note_bytes: NOTE_BYTES,
        })?;
        let copy = packets.memory().try_clone_to_owned();
        let copy =
            copy.map_err(|error| Error::new("share", "duplicating a descriptor").because(error))?;
        let source = Source(Arc::new(Memory {
            packets: copy,
            lost: AtomicU64::new(0),
        }));
        Ok(Publisher {
            packets,
            note_bytes: 0,
            interfaces: 0,
            snaplen: MAX_PACKET as u32,
            lost: 0,
            lost_in_sources: 0,
            source,
        })
    }

    /// A handle that makes taps of this share. It stays valid when the publisher is dropped.
    pub fn source(&self) -> Source {
        self.source.clone()
    }

    /// Packets published so far.
    pub fn shared(&self) -> u64 {
        self.packets.stats().published
    }

    /// Describes an interface to the readers, before its first packet, and returns its number for [`publish`](Self::publish).
    ///
    /// A share has room for up to 4095 interfaces. Packets of further ones are not published. Readers see them in the count of
    /// packets that were lost before they were shared.
    pub fn introduce(&mut self, interface: &Interface) -> u32 {
        let note = Note::Interface(interface.clone()).bytes();
        let fits = (self.interfaces as usize) < MAX_INTERFACES
            && self.note_bytes + note.len() + END_BYTES <= NOTE_BYTES;
        if !fits || self.packets.note(&note).is_err() {
            return NOT_SHARED;
        }
        // A note takes whole words, and one more for its length.
        self.note_bytes += note.len().next_multiple_of(8) + 8;
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// Publishes a packet of the interface with this number, and those that were [appended](Self::append) before it. Never blocks
    /// and makes no system call.
    ///
    /// Of packets above 262,144 bytes only these bytes are published.
    pub fn publish(&mut self, interface: u32, frame: &Frame<'_>) {
        self.append(interface, frame);
        self.publish_appended();
    }

    /// Like [`publish`](Self::publish), but readers receive the packet only after the next call of `publish` or
    /// [`publish_appended`](Self::publish_appended), which makes a burst of packets cost less time.
    #[inline(always)]
    pub fn append(&mut self, interface: u32, frame: &Frame<'_>) {
        if interface >= self.interfaces {
            return self.lose();
        }
        // There are fewer than 2^16 interfaces.
        let head = Head::of(frame, interface as u16, self.lost).bytes();
        let kept = frame.data.len().min(self.snaplen as usize);
        if self.packets.append(&[&head, &frame.data[..kept]]).is_err() {
            self.lose(); // impossible: the ring has room for the largest packet
        }
    }

    /// Publishes all packets that were [appended](Self::append).
    pub fn publish_appended(&mut self) {
        self.packets.publish_appended();
    }

    #[cold]
    fn lose(&mut self) {
        self.lost = (self.lost + 1).min(MAX_LOST);
    }

    /// Publishes at most this many bytes of each packet.
    pub(crate) fn truncate(&mut self, snaplen: u32) {
        self.snaplen = snaplen.min(MAX_PACKET as u32);
    }

    /// Sets the number of packets that the sources have lost so far. Readers show it beside their own losses.
    pub fn set_lost(&mut self, in_sources: u64) {
        let new = in_sources.saturating_sub(self.lost_in_sources);
        self.lost_in_sources += new;
        // Readers refuse larger counts. A hostile share that is shared again must not end them.
        self.lost = self.lost.saturating_add(new).min(MAX_LOST);
        self.source.0.lost.store(self.lost, Relaxed);
    }

    /// Ends the share properly: readers end when they have read the packets that are left. A publisher that is dropped without
    /// this call ends it, too, but its readers do not learn the last count of lost packets.
    pub fn finish(mut self, lost_in_sources: u64) {
        self.set_lost(lost_in_sources);
        let end = Note::End { lost: self.lost };
        // Room was kept for it.
        let _ = self.packets.note(&end.bytes());
    }
}

impl Source {
    /// Attaches a reader in this process.
    ///
    /// # Errors
    /// The system has no more memory or descriptors.
    pub fn tap(&self, config: &TapConfig) -> Result<Tap> {
        let packets = self.0.reader()?;
        let mut base = Some(self.0.lost.load(Relaxed));
        if config.begin != Begin::Newest {
            base = None; // counted from the first packet
        }
        Tap::new("share".into(), packets, base, None, config)
    }
}

impl Memory {
    pub fn reader(&self) -> Result<Reader> {
        let copy = self.packets.try_clone();
        let copy =
            copy.map_err(|error| Error::new("share", "duplicating a descriptor").because(error));
        Reader::attach(copy?)
    }
}
