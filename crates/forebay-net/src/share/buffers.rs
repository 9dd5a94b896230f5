//! The buffers in which a capture composes its file, as a reader sees them: batches of blocks of pcapng.

use super::{
    got::Got,
    wire::{Head, MAX_LOST, MAX_PACKET, ShareDamage},
};
use crate::{
    format::{
        Format,
        pcapng::{ENHANCED_PACKET, MIN_BLOCK},
        read::{Decoder, Step},
        sizes::word,
    },
    port::Interface,
};
use forebay::{
    ring::broadcast::RecvError,
    store::{Batch, LiveReader},
};
use std::ops::Range;

/// Bytes of a buffer that are copied at a time, unless a block is longer.
const CHUNK: usize = 64 << 10;
/// The longest block of a packet: the options have fewer bytes than this leaves.
pub(super) const MAX_BLOCK: usize = MAX_PACKET + 1024;
/// Bytes of such a block before those of the packet.
const BLOCK_HEAD: usize = 28;
/// The work of several calls together, and of one besides copying, in bytes copied.
const MAX_WORK: usize = 8 << 20;
const WORK: usize = 4 << 10;
/// The most bytes of a batch that a message can have.
const MAX_COPIED: usize = 1 << 20;

const OUTSIDE: ShareDamage = ShareDamage("a packet lies outside the memory");
const MALFORMED: ShareDamage = ShareDamage("a packet is malformed");

/// The buffers in which a capture composes its file, and a copy of a part of them.
pub(super) struct Buffers {
    pub reader: LiveReader,
    decoder: Decoder,
    batch: Option<Batch>,
    /// Bytes of the batch that were copied, and its packets so far.
    copied: usize,
    packets: u64,
    /// Where the blocks that were copied and not parsed are.
    unread: Range<usize>,
    /// The number of the next packet, if it is known.
    pub next: Option<u64>,
    /// No batches from this one on are read, and no packets from this number on are counted.
    end: Option<(u64, u64)>,
    /// The last block was skipped without being copied.
    has_skipped: bool,
    /// The work since [`begin`](Buffers::begin), in bytes copied.
    work: usize,
}

/// The next block in a batch.
pub(super) enum NextBlock {
    /// It is there in the buffer, and is that of a packet.
    Block(Range<usize>),
    /// It is not a packet.
    Other,
    /// The work of one call is done.
    Tired,
    /// The rest of the batch was overwritten.
    Lost,
    /// There are no more.
    End,
}

impl Buffers {
    pub fn new(reader: LiveReader) -> Buffers {
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
            work: 0,
        }
    }

    /// Allows more work.
    pub fn begin(&mut self) {
        self.work = 0;
    }

    /// Describes an interface to the decoder.
    pub fn describe(
        &mut self,
        interface: &Interface,
        number: u32,
    ) -> std::result::Result<(), ShareDamage> {
        let described = Format::Pcapng.describe(interface, number);
        let block = Format::Pcapng.interface(interface, &described, interface.snaplen);
        let decoded = self.decoder.next(&block);
        let refused = |_| ShareDamage("an interface cannot be described");
        decoded.map(drop).map_err(refused)
    }

    /// Moves to a batch.
    pub fn seek_to(&mut self, batch: u64) {
        self.reader.seek(batch);
        (self.batch, self.unread, self.next) = (None, 0..0, None);
    }

    /// Moves to the batch after the newest one, and returns the number of its first packet.
    pub fn seek_newest(&mut self) -> u64 {
        let newest = self.reader.newest();
        self.seek_to(newest.map_or(0, |batch| batch.number + 1));
        self.next = match newest {
            Some(batch) => Some(batch.first + batch.records),
            // The first batch has the first packet. At any other one, the first packet that is received shows the number.
            None => (self.reader.batches().0 == 0).then_some(0),
        };
        self.next.unwrap_or(0)
    }

    /// Ends after the newest batch. Returns the number after its last packet.
    pub fn end(&mut self) -> u64 {
        let ((at, intact), next) = (self.reader.batches(), self.next.unwrap_or(0));
        // No more batches can be there.
        let max = intact.start.max(at).saturating_add(self.reader.capacity());
        let (batch, packets) = match self.reader.newest() {
            Some(newest) => ((newest.number + 1).min(max), newest.first + newest.records),
            None => (at, next),
        };
        self.end = Some((batch, packets.max(next)));
        packets.max(next)
    }

    /// Makes the next batch the current one. `None`: it is.
    pub fn next_batch(&mut self) -> std::result::Result<Option<Got>, ShareDamage> {
        let at = self.reader.batches().0;
        if let Some((batch, packets)) = self.end
            && at >= batch
        {
            // The last batches before the end may have been overwritten.
            let lost = self.next.map_or(0, |next| packets.saturating_sub(next));
            self.next = self.next.map(|next| next + lost);
            return Ok(Some(match lost {
                0 => Got::Nothing,
                lost => Got::Overrun(lost),
            }));
        }
        let batch = match self.reader.next_batch() {
            Ok(batch) => batch,
            Err(RecvError::Overrun { .. }) => return Ok(Some(Got::Overrun(0))),
            Err(RecvError::Empty | RecvError::TimedOut) => return Ok(Some(Got::Nothing)),
            Err(RecvError::Closed) => return Ok(Some(Got::Closed)),
            Err(_) => return Err(OUTSIDE),
        };
        if batch.tag > MAX_LOST {
            return Err(ShareDamage("a count of lost packets is impossible"));
        }
        let next = self.next.unwrap_or(batch.first);
        let Some(lost) = batch.first.checked_sub(next) else {
            return Err(ShareDamage("its sequence numbers are impossible"));
        };
        self.work += batch.len.min(MAX_COPIED); // it may have been copied
        self.next = Some(batch.first);
        self.batch = Some(batch);
        (self.copied, self.packets, self.unread) = (0, 0, 0..0);
        Ok((lost > 0).then_some(Got::Overrun(lost)))
    }

    /// Finds the next block of the batch in `bytes`, and copies more if needed.
    pub fn next_block(&mut self, bytes: &mut [u8]) -> std::result::Result<NextBlock, ShareDamage> {
        const LENGTH: ShareDamage = ShareDamage("a block has an impossible length");
        self.work += WORK;
        if self.work > MAX_WORK {
            return Ok(NextBlock::Tired);
        }
        let Some(batch) = self.batch else {
            return Ok(NextBlock::End);
        };
        loop {
            let unread = &bytes[self.unread.clone()];
            // After a long block another one may follow, so only its length is copied.
            let mut wanted = match self.has_skipped {
                true => MIN_BLOCK,
                false => CHUNK,
            };
            if unread.len() >= MIN_BLOCK
                && let (Some(kind), Some(len)) = (word(unread, 0), word(unread, 4))
            {
                let len = len as usize;
                if len < MIN_BLOCK || !len.is_multiple_of(4) {
                    return Err(LENGTH);
                }
                self.has_skipped = false;
                if len <= unread.len() {
                    let block = self.unread.start..self.unread.start + len;
                    self.unread.start = block.end;
                    return Ok(match kind {
                        ENHANCED_PACKET if len < BLOCK_HEAD => return Err(MALFORMED),
                        ENHANCED_PACKET => NextBlock::Block(block),
                        _ => NextBlock::Other,
                    });
                }
                if len > MAX_BLOCK {
                    // Other blocks than packets may be longer; nothing in them is needed.
                    let beyond = len - unread.len();
                    if kind == ENHANCED_PACKET || beyond > batch.len - self.copied {
                        return Err(ShareDamage("a packet is too long"));
                    }
                    self.copied += beyond;
                    self.unread = 0..0;
                    self.has_skipped = true;
                    return Ok(NextBlock::Other);
                }
                wanted = wanted.max(len);
            }
            let left = batch.len - self.copied;
            if left == 0 {
                return match (self.unread.is_empty(), self.packets == batch.records) {
                    (false, _) => Err(LENGTH),
                    (true, false) => Err(ShareDamage("a batch has other packets than it says")),
                    (true, true) => {
                        self.batch = None;
                        Ok(NextBlock::End)
                    }
                };
            }
            let rest = self.unread.len();
            bytes.copy_within(self.unread.clone(), 0);
            let some = left.min(wanted - rest);
            let to = &mut bytes[rest..rest + some];
            if !self.reader.copy(&batch, self.copied, to) {
                self.batch = None;
                return Ok(NextBlock::Lost);
            }
            self.copied += some;
            self.work += some;
            self.unread = 0..rest + some;
        }
    }

    /// Counts a packet, and returns its number.
    pub fn count(&mut self) -> std::result::Result<u64, ShareDamage> {
        let batch = self.batch.filter(|batch| self.packets < batch.records);
        let Some(batch) = batch else {
            return Err(ShareDamage("a batch has other packets than it says"));
        };
        let number = batch.first + self.packets;
        self.packets += 1;
        self.next = Some(number + 1);
        Ok(number)
    }

    /// Decodes the block of a packet. Returns its head, and where its bytes are in the block.
    pub fn parse(
        &mut self,
        block: &[u8],
    ) -> std::result::Result<(Head, Range<usize>), ShareDamage> {
        let Ok(Step::Packet(frame, _)) = self.decoder.next(block) else {
            return Err(MALFORMED);
        };
        if frame.data.len() > MAX_PACKET {
            return Err(ShareDamage("a packet is too long"));
        }
        let head = Head {
            time_ns: frame.time_ns,
            lost: self.batch.map_or(0, |batch| batch.tag),
            wire_len: frame.wire_len,
            interface: frame.interface as u16,
            direction: frame.direction,
        };
        Ok((head, BLOCK_HEAD..BLOCK_HEAD + frame.data.len()))
    }
}
