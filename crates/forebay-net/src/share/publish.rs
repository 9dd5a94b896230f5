//! The writing side: publishes packets, and notes about interfaces.

use super::{
    incoming::{Descriptors, Incoming},
    tap::Tap,
    tap_config::{Begin, TapConfig},
    wire::{HEAD, Head, MAX_INTERFACES, MAX_LOST, MAX_PACKET, Note},
};
use crate::{
    format::{Described, Format},
    port::{DEFAULT_SNAPLEN, Frame, Interface},
};
use forebay::{
    Error, Result,
    ring::broadcast::{BroadcastConfig, Producer},
    store::{Appender, Live, LiveConfig, StoreConfig},
};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
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

/// The least memory of a share: two packets of [`DEFAULT_SNAPLEN`] bytes fit. Longer ones are cut to what fits in half of it.
pub const MIN_RING_BYTES: u64 = 1 << 20;
/// Bytes of memory for each packet that a share's index has room for.
const BYTES_PER_PACKET: u64 = 128;
/// The same for each batch of packets in the buffers of a file. A capture that is not busy takes few packets at a time.
const BYTES_PER_BATCH: usize = 256;
/// Memory for packets in buffers that the store of a file adds while the disk is slow.
const MAX_COPIED_BYTES: usize = 64 << 20;

/// Publishes packets to any number of readers, in this process and in others.
///
/// The publisher never waits for a reader. It writes over the oldest packets, and a reader that was too slow finds out how many
/// it has missed. [`Session::open_shared`](crate::session::Session::open_shared) publishes the packets of a session.
///
/// There are two kinds. [`new`](Publisher::new) copies each packet to a ring. [`in_buffers`](Publisher::in_buffers) copies nothing, unless the
/// disk is so slow that buffers are added: readers see the buffers in which the session composes its pcapng file.
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
/// let session = Session::open_shared(ports, Output::Count, config.clone(), clock, Control::new()?, publisher)?;
/// let of_tap = TapConfig::default();
/// let tap = source.tap(&of_tap)?; // sees all packets from here on
/// assert_eq!(session.run(&mut |_| {}).shared, Some(1000));
///
/// let reading = Session::open(vec![Box::new(tap)], Output::Count, config, of_tap.clock, Control::new()?)?;
/// assert_eq!(reading.run(&mut |_| {}).ledger.counted, 1000);
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Publisher {
    kind: PublisherKind,
    note_bytes: usize,
    interfaces: u32,
    /// No more interfaces can be described.
    is_full: bool,
    /// Bytes published of a packet.
    snaplen: u32,
    /// Packets that the capture lost before it could share them: in its sources, and those of interfaces that found no room.
    lost: u64,
    lost_in_sources: u64,
    source: ShareSource,
}

#[derive(Debug)]
enum PublisherKind {
    /// Each packet is copied.
    Ring(Producer),
    /// Packets are shared in the buffers of a store, which has the memory once the session is open.
    Buffers(Option<Live>),
}

/// Makes taps of a share in the process that publishes it.
#[derive(Clone, Debug)]
pub struct ShareSource(pub(super) Arc<Memory>);

/// The memory of a share, and what new readers need to know.
#[derive(Debug)]
pub(super) struct Memory {
    descriptors: Descriptors,
    /// Only for taps in this process.
    is_growing: bool,
    bytes: u64,
    /// Written by the publisher, read when a reader attaches. Relaxed: they publish nothing else.
    pub lost: AtomicU64,
    pub packets: AtomicU64,
}

impl Publisher {
    /// Allocates a ring of `ring_bytes` for packets, from [`MIN_RING_BYTES`] up.
    ///
    /// # Errors
    /// `ring_bytes` is out of range, or the system has no more memory or descriptors.
    pub fn new(ring_bytes: u64) -> Result<Publisher> {
        Publisher::in_ring(ring_bytes, Producer::new, false)
    }

    /// The same for [taps](ShareSource::tap) in this process only, with memory that is allocated as packets fill it. That takes no time at
    /// the start.
    ///
    /// # Errors
    /// Those of [`new`](Publisher::new).
    pub fn growing(ring_bytes: u64) -> Result<Publisher> {
        Publisher::in_ring(ring_bytes, Producer::growing, true)
    }

    fn in_ring(
        ring_bytes: u64,
        make: impl FnOnce(&BroadcastConfig) -> Result<Producer>,
        is_growing: bool,
    ) -> Result<Publisher> {
        if ring_bytes < MIN_RING_BYTES {
            let error = Error::invalid("share", "the ring is too small for packets");
            return Err(error.advise("Use 1M or more"));
        }
        let too_large = |_| Error::invalid("share", "the ring is larger than memory can be");
        // Two packets of the usual longest fit. In a small ring, those of BIG TCP are cut.
        let min = 2 * (HEAD + DEFAULT_SNAPLEN as usize) + NOTE_BYTES;
        let packets = make(&BroadcastConfig {
            data_bytes: usize::try_from(ring_bytes).map_err(too_large)?.max(min),
            messages: usize::try_from(ring_bytes / BYTES_PER_PACKET).map_err(too_large)?,
            note_bytes: NOTE_BYTES,
        })?;
        let descriptors = Descriptors {
            ring: copy(packets.memory())?,
            buffers: None,
        };
        let largest = packets.largest().saturating_sub(HEAD).min(MAX_PACKET);
        let kind = PublisherKind::Ring(packets);
        let mut publisher = Publisher::with(kind, descriptors, ring_bytes, is_growing);
        publisher.truncate(largest as u32);
        Ok(publisher)
    }

    /// For a session that writes a pcapng file, whose store has the settings `store`, with packets of up to `snaplen` bytes: shares the packets
    /// where they are composed. The initial buffers of the store are allocated now. There are more of them than [`StoreConfig::buffers`] if
    /// those, with the room after each for a long packet, have less than `bytes`; less than [`MIN_RING_BYTES`] counts as that. As much memory
    /// again, but at most 64 MiB, is for packets in buffers that the store adds while the disk is slow.
    ///
    /// Each file of a series begins in another buffer, so a series of files that are shorter than a buffer keeps fewer packets for slow
    /// readers.
    ///
    /// ```
    /// use forebay::time::Clock;
    /// use forebay_net::{open, session::{Control, Output, Session, SessionConfig}, share::{Publisher, TapConfig}};
    ///
    /// let path = std::env::temp_dir().join(format!("shared-{}.pcapng", std::process::id()));
    /// let config = SessionConfig::default();
    /// let publisher = Publisher::in_buffers(16 << 20, &config.store, config.snaplen)?;
    /// let source = publisher.source();
    /// let clock = Clock::virtual_time();
    /// let ports = open::ports(&["sim:clock=virtual,count=1000".parse()?], &Default::default(), &clock)?;
    /// let session = Session::open_shared(ports, Output::File(path.clone()), config.clone(), clock, Control::new()?, publisher)?;
    /// let of_tap = TapConfig::default();
    /// let tap = source.tap(&of_tap)?;
    /// assert_eq!(session.run(&mut |_| {}).ledger.written, 1000);
    ///
    /// let reading = Session::open(vec![Box::new(tap)], Output::Count, config, of_tap.clock, Control::new()?)?;
    /// assert_eq!(reading.run(&mut |_| {}).ledger.counted, 1000);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// `bytes` or a setting is out of range, or the system has no more memory or descriptors.
    pub fn in_buffers(bytes: u64, store: &StoreConfig, snaplen: u32) -> Result<Publisher> {
        store.check()?;
        let too_large = |_| Error::invalid("share", "the buffers are larger than memory can be");
        let wanted = usize::try_from(bytes.max(MIN_RING_BYTES)).map_err(too_large)?;
        let store = StoreConfig {
            record_bytes: Format::Pcapng.max_record_bytes(snaplen, false),
            ..store.clone()
        };
        let all = wanted.max(store.buffers.saturating_mul(store.buffer_bytes));
        let live = Live::new(
            &store,
            &LiveConfig {
                bytes: wanted,
                batches: all / BYTES_PER_BATCH,
                copied_bytes: all.min(MAX_COPIED_BYTES),
                note_bytes: NOTE_BYTES,
            },
        )?;
        let [ring, buffers] = live.memory();
        let descriptors = Descriptors {
            ring: copy(ring)?,
            buffers: Some(copy(buffers)?),
        };
        let bytes = live.bytes() as u64;
        let kind = PublisherKind::Buffers(Some(live));
        Ok(Publisher::with(kind, descriptors, bytes, false))
    }

    fn with(
        kind: PublisherKind,
        descriptors: Descriptors,
        bytes: u64,
        is_growing: bool,
    ) -> Publisher {
        Publisher {
            kind,
            note_bytes: 0,
            interfaces: 0,
            is_full: false,
            snaplen: MAX_PACKET as u32,
            lost: 0,
            lost_in_sources: 0,
            source: ShareSource(Arc::new(Memory {
                descriptors,
                is_growing,
                bytes,
                lost: AtomicU64::new(0),
                packets: AtomicU64::new(0),
            })),
        }
    }

    /// A handle that makes taps of this share. It stays valid when the publisher is dropped.
    pub fn source(&self) -> ShareSource {
        self.source.clone()
    }

    /// Takes the buffers for the store of the session, if packets are shared there.
    pub(crate) fn take_buffers(&mut self) -> Option<Live> {
        match &mut self.kind {
            PublisherKind::Ring(_) => None,
            PublisherKind::Buffers(buffers) => buffers.take(),
        }
    }

    /// Whether each packet has to be [appended](Publisher::append).
    #[inline]
    pub(crate) fn copies(&self) -> bool {
        matches!(self.kind, PublisherKind::Ring(_))
    }

    /// Bytes of memory for packets, without that for packets in buffers that are added.
    pub fn memory_bytes(&self) -> u64 {
        self.source.0.bytes
    }

    /// Packets published so far.
    pub fn shared(&self) -> u64 {
        self.source.0.packets.load(Relaxed)
    }

    /// Describes an interface to the readers, before its first packet, and returns its number for [`publish`](Self::publish).
    ///
    /// A share has room for up to 4095 interfaces. Packets of further ones are not published, or cannot be read. Readers see them in the
    /// count of packets that were lost before they were shared.
    pub fn introduce(&mut self, interface: &Interface) -> u32 {
        let note = Note::Interface(interface.clone()).bytes();
        self.introduce_by(&note, None)
    }

    /// As [`introduce`](Publisher::introduce), for an interface as it is described in the file of `store`, if packets are shared
    /// in its buffers.
    pub(crate) fn introduce_in(
        &mut self,
        interface: &Interface,
        described: &Described,
        store: Option<&mut Appender>,
    ) -> u32 {
        if self.copies() {
            return self.introduce(interface);
        }
        let described = Interface {
            resolution: described.resolution(),
            ..interface.clone()
        };
        self.introduce_by(&Note::Interface(described).bytes(), store)
    }

    fn introduce_by(&mut self, note: &[u8], store: Option<&mut Appender>) -> u32 {
        let fits = (self.interfaces as usize) < MAX_INTERFACES
            && self.note_bytes + note.len() + END_BYTES <= NOTE_BYTES;
        if self.is_full || !fits || !self.note(note, store) {
            // In a file, the notes have the numbers of its interfaces, so none may follow a gap.
            self.is_full = !self.copies();
            return NOT_SHARED;
        }
        // A note takes whole words, and one more for its length.
        self.note_bytes += note.len().next_multiple_of(8) + 8;
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// Writes a note. `false`: no more fit.
    fn note(&mut self, note: &[u8], store: Option<&mut Appender>) -> bool {
        match (&mut self.kind, store.and_then(Appender::live)) {
            (PublisherKind::Ring(ring), _) => ring.note(note).is_ok(),
            (PublisherKind::Buffers(Some(live)), _) => live.note(note).is_ok(),
            (PublisherKind::Buffers(None), Some(live)) => live.note(note).is_ok(),
            (PublisherKind::Buffers(None), None) => false,
        }
    }

    /// Publishes a packet of the interface with this number, and those that were [appended](Self::append) before it. Never blocks
    /// and makes no system call.
    ///
    /// Of packets above 262,144 bytes only these bytes are published. If packets are shared [in buffers](Publisher::in_buffers), this
    /// publishes nothing.
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
        let PublisherKind::Ring(ring) = &mut self.kind else {
            return;
        };
        // There are fewer than 2^16 interfaces.
        let head = Head::of(frame, interface as u16, self.lost).bytes();
        let kept = frame.data.len().min(self.snaplen as usize);
        if ring.append(&[&head, &frame.data[..kept]]).is_err() {
            self.lose(); // impossible: the ring has room for the largest packet
        }
    }

    /// Publishes all packets that were [appended](Self::append).
    pub fn publish_appended(&mut self) {
        self.publish_from(None);
    }

    /// Publishes all packets that were appended, to the ring or to `store`.
    #[inline]
    pub(crate) fn publish_from(&mut self, store: Option<&mut Appender>) {
        let packets = match (&mut self.kind, store) {
            (PublisherKind::Ring(ring), _) => {
                ring.publish_appended();
                ring.stats().published
            }
            (PublisherKind::Buffers(_), Some(store)) => {
                store.publish(self.lost);
                store.live().map_or(0, |live| live.published())
            }
            (PublisherKind::Buffers(_), None) => 0,
        };
        self.source.0.packets.store(packets, Relaxed);
    }

    #[cold]
    fn lose(&mut self) {
        self.lost = (self.lost + 1).min(MAX_LOST);
    }

    /// Publishes at most this many bytes of each packet.
    pub(crate) fn truncate(&mut self, snaplen: u32) {
        self.snaplen = snaplen.min(self.snaplen);
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
    pub fn finish(self, lost_in_sources: u64) {
        self.finish_in(lost_in_sources, false, None);
    }

    /// As [`finish`](Publisher::finish); returns the number of packets shared. If they are shared in the buffers of `store`, readers end when
    /// it is closed. If the capture `has_failed`, readers in other processes end with an error.
    pub(crate) fn finish_in(
        mut self,
        lost_in_sources: u64,
        has_failed: bool,
        store: Option<&mut Appender>,
    ) -> u64 {
        let mut store = store;
        self.set_lost(lost_in_sources);
        self.publish_from(store.as_deref_mut());
        let packets = self.shared();
        let end = Note::End {
            lost: self.lost,
            has_failed,
        };
        // Room was kept for it.
        self.note(&end.bytes(), store);
        packets
    }
}

impl ShareSource {
    pub(super) fn is_growing(&self) -> bool {
        self.0.is_growing
    }

    /// Attaches a reader in this process.
    ///
    /// # Errors
    /// The system has no more memory or descriptors.
    pub fn tap(&self, config: &TapConfig) -> Result<Tap> {
        let incoming = self.0.incoming()?;
        let mut base = Some(self.0.lost.load(Relaxed));
        if config.begin != Begin::Newest {
            base = None; // counted from the first packet
        }
        Tap::new("share".into(), incoming, base, None, config)
    }
}

impl Memory {
    fn incoming(&self) -> Result<Incoming> {
        let Descriptors { ring, buffers } = &self.descriptors;
        if self.is_growing {
            return Incoming::attach_growing(copy(ring.as_fd())?);
        }
        Incoming::attach(Descriptors {
            ring: copy(ring.as_fd())?,
            buffers: buffers.as_ref().map(|it| copy(it.as_fd())).transpose()?,
        })
    }

    /// The memory, for readers in other processes.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let Descriptors { ring, buffers } = &self.descriptors;
        let buffers = buffers.as_ref().map(|it| it.as_fd());
        [ring.as_fd()].into_iter().chain(buffers).collect()
    }
}

fn copy(descriptor: BorrowedFd<'_>) -> Result<OwnedFd> {
    let copy = descriptor.try_clone_to_owned();
    copy.map_err(|error| Error::new("share", "duplicating a descriptor").because(error))
}
