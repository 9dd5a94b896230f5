//! What a tap reads: packets that a capture copied to the ring, or the buffers of the file that it writes.

use super::{
    buffers::{Buffers, MAX_BLOCK, NextBlock},
    got::Got,
    wire::{HEAD, Head, MAX_INTERFACES, MAX_NOTE, MAX_PACKET, Note, ShareDamage},
};
use crate::{format::sizes::word, port::Interface};
use forebay::{
    Result,
    ring::broadcast::{Reader, RecvError},
    store::LiveReader,
};
use std::{ops::Range, os::fd::OwnedFd};

/// A tap of full memory begins this part of it after the oldest packet, which is overwritten next.
const MARGIN: u64 = 64;

/// The descriptors of a share's memory: the ring, and the buffers of the file, if packets are read there.
#[derive(Debug)]
pub(super) struct Descriptors {
    pub ring: OwnedFd,
    pub buffers: Option<OwnedFd>,
}

/// The memory of a share, and the packet that was read last.
pub(super) struct Incoming {
    kind: Medium,
    /// The interfaces described so far.
    pub interfaces: Vec<Interface>,
    /// Packets that the capture lost before it could share them, once it has ended.
    lost: Option<u64>,
    /// The capture has ended because it failed.
    pub has_failed: bool,
    pub head: Head,
    bytes: Box<[u8]>,
    /// The bytes of the packet.
    data: Range<usize>,
}

enum Medium {
    Packets(Reader),
    Buffers(Box<Buffers>),
}

impl Incoming {
    /// Attaches to the packets from the next one on, in a ring of this process that is [growing](super::Publisher::growing).
    pub fn attach_growing(ring: OwnedFd) -> Result<Incoming> {
        Ok(Incoming::of_packets(Reader::attach_growing(ring)?))
    }

    /// Attaches to the packets from the next one on.
    pub fn attach(descriptors: Descriptors) -> Result<Incoming> {
        let Descriptors { ring, buffers } = descriptors;
        Ok(match buffers {
            None => Incoming::of_packets(Reader::attach(ring)?),
            Some(buffers) => {
                let buffers = Buffers::new(LiveReader::attach(ring, buffers)?);
                Incoming::new(Medium::Buffers(Box::new(buffers)), MAX_BLOCK)
            }
        })
    }

    pub fn of_packets(reader: Reader) -> Incoming {
        Incoming::new(Medium::Packets(reader), HEAD + MAX_PACKET)
    }

    fn new(kind: Medium, bytes: usize) -> Incoming {
        let mut incoming = Incoming {
            kind,
            interfaces: Vec::new(),
            lost: None,
            has_failed: false,
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
    pub fn read_notes(&mut self) -> std::result::Result<Option<u64>, ShareDamage> {
        while self.lost.is_none() {
            // A longer note than is possible is noticed by its length.
            let (number, max) = (self.interfaces.len(), MAX_NOTE + 1);
            let note = match &self.kind {
                Medium::Packets(reader) => reader.note(number, max),
                Medium::Buffers(buffers) => buffers.reader.note(number, max),
            };
            let Some(note) = note else {
                break;
            };
            match Note::parse(&note)? {
                Note::Interface(_) if self.interfaces.len() >= MAX_INTERFACES => {
                    return Err(ShareDamage("it describes too many interfaces"));
                }
                Note::Interface(interface) => {
                    if let Medium::Buffers(buffers) = &mut self.kind {
                        buffers.describe(&interface, number as u32)?;
                    }
                    self.interfaces.push(interface);
                }
                Note::End { lost, has_failed } => {
                    (self.lost, self.has_failed) = (Some(lost), has_failed);
                }
            }
        }
        Ok(self.lost)
    }

    /// Moves to the next packet to be published, and returns its number.
    pub fn seek_newest(&mut self) -> u64 {
        match &mut self.kind {
            Medium::Packets(reader) => reader.seek_newest(),
            Medium::Buffers(buffers) => buffers.seek_newest(),
        }
    }

    /// Moves to the oldest packet, or a little after it if it is overwritten soon. Returns whether there were older ones.
    pub fn seek_oldest(&mut self) -> bool {
        let place = |intact: Range<u64>| match intact.start > 0 {
            true => intact.start + (intact.end - intact.start) / MARGIN,
            false => intact.start,
        };
        match &mut self.kind {
            Medium::Packets(reader) => {
                let intact = reader.intact();
                reader.seek(place(intact.clone()));
                intact.start > 0
            }
            Medium::Buffers(buffers) => {
                let (_, intact) = buffers.reader.batches();
                buffers.seek_to(place(intact.clone()));
                intact.start > 0
            }
        }
    }

    /// The number of the next packet.
    pub fn next(&self) -> u64 {
        match &self.kind {
            Medium::Packets(reader) => reader.stats().next,
            Medium::Buffers(buffers) => buffers.next.unwrap_or(0),
        }
    }

    /// Ends after the packets that are published now. Returns the number after the last one of them, or an earlier one if there cannot
    /// be that many.
    pub fn end(&mut self) -> u64 {
        match &mut self.kind {
            Medium::Packets(reader) => {
                let intact = reader.intact();
                // No more packets can be in memory than heads.
                let max = (2 * reader.largest() / HEAD) as u64;
                intact.start + (intact.end - intact.start).min(max)
            }
            Medium::Buffers(buffers) => buffers.end(),
        }
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> u64 {
        match &self.kind {
            Medium::Packets(reader) => 2 * reader.largest() as u64,
            Medium::Buffers(buffers) => buffers.reader.bytes() as u64,
        }
    }

    /// The part of what is in memory that was not read, 0 to 1; `None` before the first packet is overwritten: it is not known how many
    /// fit.
    pub fn fill(&self) -> Option<f64> {
        let (next, intact) = match &self.kind {
            Medium::Packets(reader) => (reader.stats().next, reader.intact()),
            Medium::Buffers(buffers) => buffers.reader.batches(),
        };
        let held = (intact.end - intact.start) as f64;
        let unread = intact.end.saturating_sub(next) as f64;
        (intact.start > 0 && held > 0.0).then(|| (unread / held).min(1.0))
    }

    /// Called before several reads, which together do a limited amount of work, so that they return soon.
    #[inline]
    pub fn begin(&mut self) {
        if let Medium::Buffers(buffers) = &mut self.kind {
            buffers.begin();
        }
    }

    /// Reads the next packet.
    #[inline]
    pub fn read(&mut self) -> std::result::Result<Got, ShareDamage> {
        if let Medium::Packets(reader) = &mut self.kind {
            return match reader.try_recv(&mut self.bytes) {
                Ok(received) => self.decode(received.sequence, received.len),
                Err(RecvError::Overrun { lost }) => Ok(Got::Overrun(lost)),
                Err(RecvError::Empty | RecvError::TimedOut) => Ok(Got::Nothing),
                Err(RecvError::Closed) => Ok(Got::Closed),
                Err(RecvError::TooSmall { .. }) => Err(ShareDamage("a packet is too long")),
                Err(_) => Err(ShareDamage("a packet lies outside the memory")),
            };
        }
        self.read_block()
    }

    /// Checks the message in the buffer.
    #[inline]
    fn decode(&mut self, number: u64, len: usize) -> std::result::Result<Got, ShareDamage> {
        let message = self.bytes.get(..len).unwrap_or_default();
        let head = Head::parse(message)?;
        if head.interface as usize >= self.interfaces.len() {
            self.read_notes()?;
        }
        if head.interface as usize >= self.interfaces.len() {
            return Err(ShareDamage(
                "a packet is from an interface that is not described",
            ));
        }
        (self.head, self.data) = (head, HEAD..len);
        Ok(Got::Packet(number))
    }

    /// Reads the next packet from a buffer of the file.
    fn read_block(&mut self) -> std::result::Result<Got, ShareDamage> {
        while let Medium::Buffers(buffers) = &mut self.kind {
            let block = match buffers.next_block(&mut self.bytes)? {
                NextBlock::Block(block) => block,
                NextBlock::Other => continue,
                NextBlock::Lost => return Ok(Got::Overrun(0)),
                NextBlock::Tired => return Ok(Got::Skipped),
                NextBlock::End => match buffers.next_batch()? {
                    None => continue,
                    Some(got) => return Ok(got),
                },
            };
            let number = buffers.count()?;
            let interface = word(&self.bytes[block.clone()], 8).unwrap_or(0) as usize;
            if interface >= self.interfaces.len() {
                self.read_notes()?;
            }
            if interface >= self.interfaces.len() {
                return Ok(Got::NotDescribed);
            }
            if let Medium::Buffers(buffers) = &mut self.kind {
                let (head, data) = buffers.parse(&self.bytes[block.clone()])?;
                self.head = head;
                self.data = block.start + data.start..block.start + data.end;
            }
            return Ok(Got::Packet(number));
        }
        Ok(Got::Nothing)
    }
}
