//! What a tap reads: packets that a capture copied to the ring, or the buffers of the file that it writes.

use super::wire::{Damage, HEAD, Head, MAX_INTERFACES, MAX_NOTE, MAX_PACKET, Note};
use crate::{
    format::{
        Format,
        pcapng::ENHANCED_PACKET,
        read::{Decoder, Step},
    },
    port::{Frame, Interface},
};
use forebay::{
    Result,
    ring::broadcast::{Reader, RecvError},
    store::{Batch, LiveReader},
};
use std::{ops::Range, os::fd::OwnedFd};

/// A tap of full memory begins this part of it after the oldest packet, which is overwritten next.
const MARGIN: u64 = 64;
/// Bytes of a file's buffer that are copied at a time, unless a block is longer.
const CHUNK: usize = 64 << 10;
/// The longest block of a packet: the options have fewer bytes than this leaves.
const MAX_BLOCK: usize = MAX_PACKET + 1024;
/// Blocks without a packet, or batches without any, that one call skips.
const MAX_OTHERS: usize = 1024;
/// Without options.
const BLOCK_HEAD: usize = 28;

const OUTSIDE: Damage = Damage("a packet lies outside the memory");

/// The descriptors of a share's memory: the ring, and the buffers of the file, if packets are read there.
#[derive(Debug)]
pub(super) struct Descriptors {
    pub ring: OwnedFd,
    pub buffers: Option<OwnedFd>,
}

/// The memory of a share, and the packet that was read last.
pub(super) struct Incoming {
    kind: Kind,
    /// The interfaces described so far.
    pub interfaces: Vec<Interface>,
    /// Packets that the capture lost before it could share them, and all that it shared, once it has ended properly.
    summary: Option<(u64, u64)>,
    pub head: Head,
    bytes: Box<[u8]>,
    /// The bytes of the packet.
    data: Range<usize>,
}

enum Kind {
    Packets(Reader),
    Buffers(Box<Buffers>),
}

/// The result of a read.
pub(super) enum Got {
    /// The packet with this number.
    Packet(u64),
    /// This many packets were overwritten before they were read. More of them may be reported by the next call.
    Overrun(u64),
    /// A packet is there, but there was no room to describe its interface.
    NotDescribed,
    /// Nothing yet; the next call may find something.
    Skipped,
    Nothing,
    Closed,
}

impl Incoming {
    /// Attaches to the packets from the next one on.
    pub fn attach(descriptors: Descriptors) -> Result<Incoming> {
        let Descriptors { ring, buffers } = descriptors;
        Ok(match buffers {
            None => Incoming::of_packets(Reader::attach(ring)?),
            Some(buffers) => {
                let buffers = Buffers::new(LiveReader::attach(ring, buffers)?);
                Incoming::new(Kind::Buffers(Box::new(buffers)), MAX_BLOCK)
            }
        })
    }

    pub fn of_packets(reader: Reader) -> Incoming {
        Incoming::new(Kind::Packets(reader), HEAD + MAX_PACKET)
    }

    fn new(kind: Kind, bytes: usize) -> Incoming {
        let mut incoming = Incoming {
            kind,
            interfaces: Vec::new(),
            summary: None,
            head: Head::default(),
            bytes: vec![0; bytes].into(),
            data: 0..0,
        };
        incoming.seek_newest();
        incoming
    }

    /// The bytes of the last packet.
    #[inline]
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.data.clone()]
    }

    /// Reads the notes that are new. Returns the packets that the capture had lost at its end, if it has ended.
    pub fn read_notes(&mut self) -> std::result::Result<Option<u64>, Damage> {
        while self.summary.is_none() {
            // A longer note than is possible is noticed by its length.
            let (number, max) = (self.interfaces.len(), MAX_NOTE + 1);
            let note = match &self.kind {
                Kind::Packets(reader) => reader.note(number, max),
                Kind::Buffers(buffers) => buffers.reader.note(number, max),
            };
            let Some(note) = note else {
                break;
            };
            match Note::parse(&note)? {
                Note::Interface(_) if self.interfaces.len() >= MAX_INTERFACES => {
                    return Err(Damage("it describes too many interfaces"));
                }
                Note::Interface(interface) => {
                    if let Kind::Buffers(buffers) = &mut self.kind {
                        buffers.describe(&interface, number as u32)?;
                    }
                    self.interfaces.push(interface);
                }
                Note::End { lost, packets } => self.summary = Some((lost, packets)),
            }
        }
        Ok(self.summary.map(|(lost, _)| lost))
    }

    /// Moves to the next packet to be published, and returns its number.
    pub fn seek_newest(&mut self) -> u64 {
        match &mut self.kind {
            Kind::Packets(reader) => reader.seek_newest(),
            Kind::Buffers(buffers) => buffers.seek_newest(),
        }
    }

    /// Moves to the oldest packet, or a little after it if it is overwritten soon. Returns whether there were older ones.
    pub fn seek_oldest(&mut self) -> bool {
        let place = |intact: Range<u64>| match intact.start > 0 {
            true => intact.start + (intact.end - intact.start) / MARGIN,
            false => intact.start,
        };
        match &mut self.kind {
            Kind::Packets(reader) => {
                let intact = reader.intact();
                reader.seek(place(intact.clone()));
                intact.start > 0
            }
            Kind::Buffers(buffers) => {
                let (_, intact) = buffers.reader.batches();
                buffers.seek(place(intact.clone()));
                buffers.next = None;
                intact.start > 0
            }
        }
    }

    /// The number of the next packet.
    pub fn next(&self) -> u64 {
        match &self.kind {
            Kind::Packets(reader) => reader.stats().next,
            Kind::Buffers(buffers) => buffers.next.unwrap_or(0),
        }
    }

    /// Ends after the packets that are published now. Returns the number after the last one of them, or an earlier one if there cannot
    /// be that many.
    pub fn end(&mut self) -> u64 {
        match &mut self.kind {
            Kind::Packets(reader) => {
                let intact = reader.intact();
                // No more packets can be in memory than heads.
                let max = (2 * reader.largest() / HEAD) as u64;
                intact.start + (intact.end - intact.start).min(max)
            }
            Kind::Buffers(buffers) => buffers.end(),
        }
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Packets(reader) => 2 * reader.largest() as u64,
            Kind::Buffers(buffers) => buffers.reader.bytes() as u64,
        }
    }

    /// The part of what is in memory that was not read, 0 to 1; `None` before the first packet is overwritten: it is not known how many
    /// fit.
    pub fn fill(&self) -> Option<f64> {
        let (next, intact) = match &self.kind {
            Kind::Packets(reader) => (reader.stats().next, reader.intact()),
            Kind::Buffers(buffers) => buffers.reader.batches(),
        };
        let held = (intact.end - intact.start) as f64;
        let unread = intact.end.saturating_sub(next) as f64;
        (intact.start > 0 && held > 0.0).then(|| (unread / held).min(1.0))
    }

    /// Reads the next packet.
    #[inline]
    pub fn read(&mut self) -> std::result::Result<Got, Damage> {
        if let Kind::Packets(reader) = &mut self.kind {
            return match reader.try_recv(&mut self.bytes) {
                Ok(received) => self.decode(received.sequence, received.len),
                Err(RecvError::Overrun { lost }) => Ok(Got::Overrun(lost)),
                Err(RecvError::Empty | RecvError::TimedOut) => Ok(Got::Nothing),
                Err(RecvError::Closed) => Ok(Got::Closed),
                Err(RecvError::TooSmall { .. }) => Err(Damage("a packet is too long")),
                Err(RecvError::Broken) => Err(OUTSIDE),
            };
        }
        self.read_block()
    }

    /// Checks the message in the buffer.
    #[inline]
    fn decode(&mut self, number: u64, len: usize) -> std::result::Result<Got, Damage> {
        let message = self.bytes.get(..len).unwrap_or_default();
        let head = Head::parse(message)?;
        if head.interface as usize >= self.interfaces.len() {
            self.read_notes()?;
        }
        if head.interface as usize >= self.interfaces.len() {
            return Err(Damage(
                "a packet is from an interface that is not described",
            ));
        }
        (self.head, self.data) = (head, HEAD..len);
        Ok(Got::Packet(number))
    }

    /// Reads the next packet from a buffer of the file.
    fn read_block(&mut self) -> std::result::Result<Got, Damage> {
        for _ in 0..MAX_OTHERS {
            let Kind::Buffers(buffers) = &mut self.kind else {
                return Ok(Got::Nothing);
            };
            let block = match buffers.next_block(&mut self.bytes)? {
                Found::Block(block) => block,
                Found::Skipped => continue,
                Found::Lost => return Ok(Got::Overrun(0)),
                Found::End => match buffers.next_batch(self.summary.map(|(_, packets)| packets))? {
                    None => continue,
                    Some(Got::Closed) => {
                        // The end says how many packets there were, also those that were overwritten last.
                        if self.summary.is_none() && self.read_notes()?.is_some() {
                            continue;
                        }
                        return Ok(Got::Closed);
                    }
                    Some(got) => return Ok(got),
                },
            };
            let bytes = &self.bytes[block.clone()];
            if word(bytes, 0) != ENHANCED_PACKET {
                continue;
            }
            let (number, lost) = buffers.count()?;
            let interface = match bytes.len() >= BLOCK_HEAD {
                true => word(bytes, 8),
                false => 0, // the decoder refuses it
            };
            if interface as usize >= self.interfaces.len() {
                self.read_notes()?;
            }
            if interface as usize >= self.interfaces.len() {
                return Ok(Got::NotDescribed);
            }
            let Kind::Buffers(buffers) = &mut self.kind else {
                return Ok(Got::Nothing);
            };
            let (head, len) = buffers.parse(&self.bytes[block.clone()])?;
            self.head = Head { lost, ..head };
            self.data = block.start + BLOCK_HEAD..block.start + BLOCK_HEAD + len;
            return Ok(Got::Packet(number));
        }
        Ok(Got::Skipped)
    }
}

/// The buffers in which a capture composes its file, and a copy of a part of them.
struct Buffers {
    reader: LiveReader,
    decoder: Decoder,
    batch: Option<Batch>,
    /// Bytes of the batch that were copied, and its packets so far.
    copied: usize,
    packets: u64,
    /// Where the blocks that were copied and not parsed are.
    unread: Range<usize>,
    /// The number of the next packet, if it is known.
    next: Option<u64>,
    /// No batches from this one on are read.
    end: Option<u64>,
    /// The last block was skipped without being copied.
    has_skipped: bool,
}

/// The next block in a batch.
enum Found {
    /// It is there in the buffer.
    Block(Range<usize>),
    /// It is long, and is not a packet.
    Skipped,
    /// The rest of the batch was overwritten.
    Lost,
    /// There are no more.
    End,
}

impl Buffers {
    fn new(reader: LiveReader) -> Buffers {
        let header = Format::Pcapng.header("");
        let mut decoder = Decoder::begin(&header).ok().flatten();
        if let Some(decoder) = &mut decoder {
            let _ = decoder.next(&header); // it is ours
        }
        Buffers {
            reader,
            decoder: decoder.expect("a header of ours begins like pcapng"),
            batch: None,
            copied: 0,
            packets: 0,
            unread: 0..0,
            next: None,
            end: None,
            has_skipped: false,
        }
    }

    /// Describes an interface to the decoder.
    fn describe(&mut self, interface: &Interface, number: u32) -> std::result::Result<(), Damage> {
        let described = Format::Pcapng.describe(interface, number);
        let block = Format::Pcapng.interface(interface, &described, interface.snaplen);
        let decoded = self.decoder.next(&block);
        let refused = |_| Damage("an interface cannot be described");
        decoded.map(drop).map_err(refused)
    }

    fn seek(&mut self, batch: u64) {
        self.reader.seek(batch);
        (self.batch, self.unread) = (None, 0..0);
    }

    /// Moves to the batch after the newest one, and returns the number of its first packet.
    fn seek_newest(&mut self) -> u64 {
        match self.reader.newest() {
            Some(batch) => {
                self.seek(batch.number + 1);
                self.next = Some(batch.first + batch.records);
            }
            None => {
                self.seek(0);
                // Otherwise there are batches, and the first one that is received shows the number.
                self.next = (self.reader.batches().1.end == 0).then_some(0);
            }
        }
        self.next.unwrap_or(0)
    }

    /// The number after the last packet of the newest batch. No batches after it will be read.
    fn end(&mut self) -> u64 {
        let next = self.next.unwrap_or(0);
        let (end, packets) = match self.reader.newest() {
            Some(batch) => (batch.number + 1, batch.first + batch.records),
            None => (self.reader.batches().0, next),
        };
        self.end = Some(end);
        packets.max(next)
    }

    /// Makes the next batch the current one. `None`: it is.
    fn next_batch(&mut self, all: Option<u64>) -> std::result::Result<Option<Got>, Damage> {
        let next = self.reader.batches().0;
        if self.end.is_some_and(|end| next >= end) {
            return Ok(Some(Got::Nothing));
        }
        let batch = match self.reader.next_batch() {
            Ok(batch) => batch,
            Err(RecvError::Overrun { .. }) => return Ok(Some(Got::Overrun(0))),
            Err(RecvError::Empty | RecvError::TimedOut) => return Ok(Some(Got::Nothing)),
            Err(RecvError::Closed) => {
                return Ok(Some(match (self.next, all) {
                    (Some(next), Some(all)) if next < all => {
                        self.next = Some(all);
                        Got::Overrun(all - next)
                    }
                    _ => Got::Closed,
                }));
            }
            Err(RecvError::TooSmall { .. } | RecvError::Broken) => return Err(OUTSIDE),
        };
        let next = self.next.unwrap_or(batch.first);
        let Some(lost) = batch.first.checked_sub(next) else {
            return Err(Damage("its sequence numbers are impossible"));
        };
        self.next = Some(batch.first);
        self.batch = Some(batch);
        (self.copied, self.packets, self.unread) = (0, 0, 0..0);
        Ok((lost > 0).then_some(Got::Overrun(lost)))
    }

    /// Finds the next block of the batch in `bytes`, and copies more if needed.
    fn next_block(&mut self, bytes: &mut [u8]) -> std::result::Result<Found, Damage> {
        const LENGTH: Damage = Damage("a block has an impossible length");
        let Some(batch) = self.batch else {
            return Ok(Found::End);
        };
        loop {
            let unread = &bytes[self.unread.clone()];
            // After a long block another one may follow, so only its length is copied.
            let mut wanted = match self.has_skipped {
                true => 12,
                false => CHUNK,
            };
            if unread.len() >= 12 {
                let len = word(unread, 4) as usize;
                if len < 12 || !len.is_multiple_of(4) {
                    return Err(LENGTH);
                }
                self.has_skipped = false;
                if len <= unread.len() {
                    let block = self.unread.start..self.unread.start + len;
                    self.unread.start = block.end;
                    return Ok(Found::Block(block));
                }
                if len > MAX_BLOCK {
                    // Other blocks than packets may be longer; nothing in them is needed.
                    let beyond = len - unread.len();
                    if word(unread, 0) == ENHANCED_PACKET || beyond > batch.len - self.copied {
                        return Err(Damage("a packet is too long"));
                    }
                    self.copied += beyond;
                    self.unread = 0..0;
                    self.has_skipped = true;
                    return Ok(Found::Skipped);
                }
                wanted = wanted.max(len);
            }
            let left = batch.len - self.copied;
            if left == 0 {
                return match (self.unread.is_empty(), self.packets == batch.records) {
                    (false, _) => Err(LENGTH),
                    (true, false) => Err(Damage("a batch has other packets than it says")),
                    (true, true) => {
                        self.batch = None;
                        Ok(Found::End)
                    }
                };
            }
            let rest = self.unread.len();
            bytes.copy_within(self.unread.clone(), 0);
            let some = left.min(wanted - rest);
            let to = &mut bytes[rest..rest + some];
            if !self.reader.copy(&batch, self.copied, to) {
                self.batch = None;
                return Ok(Found::Lost);
            }
            self.copied += some;
            self.unread = 0..rest + some;
        }
    }

    /// Counts a packet. Returns its number, and how many the capture had lost.
    fn count(&mut self) -> std::result::Result<(u64, u64), Damage> {
        let Some(batch) = &self.batch else {
            return Err(OUTSIDE);
        };
        if self.packets == batch.records {
            return Err(Damage("a batch has other packets than it says"));
        }
        let number = batch.first + self.packets;
        self.packets += 1;
        self.next = Some(number + 1);
        match batch.tag {
            lost @ 0..=super::wire::MAX_LOST => Ok((number, lost)),
            _ => Err(Damage("a count of lost packets is impossible")),
        }
    }

    /// Decodes the block of a packet. Returns its head, and the number of its bytes.
    fn parse(&mut self, block: &[u8]) -> std::result::Result<(Head, usize), Damage> {
        let refused = Damage("a packet is malformed");
        let Ok(Step::Packet(frame, _)) = self.decoder.next(block) else {
            return Err(refused);
        };
        let Frame {
            data,
            wire_len,
            time_ns,
            interface,
            direction,
            ..
        } = frame;
        if data.len() > MAX_PACKET {
            return Err(Damage("a packet is too long"));
        }
        let head = Head {
            time_ns,
            lost: 0,
            wire_len,
            interface: interface as u16,
            direction,
        };
        Ok((head, data.len()))
    }
}

/// The word at `at`; 0 if there is none.
fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.first_chunk());
    word.map_or(0, |word| u32::from_le_bytes(*word))
}
