//! Decodes pcapng: both byte orders, any number of sections, every kind of packet block.
//!
//! ```text
//!  section │ interface 0 │ 1 │ packet … │ section │ interface 0 │ packet …
//!  number of the interface:  0  1                            2
//! ```
//! - The decoder numbers interfaces through all sections. In the file, the numbers of each section begin at 0.
//! - A packet block is rejected unless its two lengths are equal, multiples of four and at most 16 MiB, and its data ends inside the
//!   block. If its interface is unknown, only this block is rejected ([`Fault::skip`]).
//! - A packet of a simple packet block gets the time 0. Its captured length is computed from the snapshot length.
//! - Of a packet's options, only direction and drops are used. [`Skipped`] counts the blocks that are not used.
//! - The length of a section is ignored.
//!
//! `metadata` contains sections and interfaces, `options` walks options, and `times` converts times.
//!
//! Source: draft-ietf-opsawg-pcapng.

use super::{
    body::{Order, split_head},
    metadata::{Metadata, Section, Skipped},
    options::Options,
    records::Records,
    step::{Fault, Step},
};
use crate::format::{
    copied::{About, Copied},
    pcapng::{BYTE_ORDER, ENHANCED_PACKET, INTERFACE, INTERFACE_STATISTICS, MIN_BLOCK, PADDING},
    pcapng::{PACKET_OVERHEAD, SECTION_HEADER},
    sizes::padded,
    time_index::TIME_INDEX,
};
use crate::port::{Block, BlockKind, Direction, Frame, Interface, Marks, Statistics};

const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const NAME_RESOLUTION: u32 = 4;
const SYSTEMD_JOURNAL: u32 = 9;
const DECRYPTION_SECRETS: u32 = 10;
const CUSTOM: u32 = 0xbad;
/// Like [`CUSTOM`], but programs that do not know it must not copy it.
const CUSTOM_UNCOPIED: u32 = 0x4000_0bad;

/// The maximum size of a block, the same as in other readers.
const MAX_BLOCK: u32 = 16 << 20;
/// Bytes before the data of a packet block.
const PACKET_HEAD: usize = 28;
/// Bytes before the data of a simple packet block.
const SIMPLE_HEAD: usize = 12;

struct PacketOptions<'a> {
    direction: Direction,
    dropped_before: u64,
    /// All options, if any belongs in a copy.
    bytes: &'a [u8],
    marks: Marks,
}

/// Decodes a pcapng file; see [`Decoder`](super::Decoder).
#[derive(Debug)]
pub struct Reader {
    order: Order,
    metadata: Metadata,
}

/// Whether a pcapng file begins with these bytes, which are the same in either byte order.
pub(super) fn begins(first: [u8; 4]) -> bool {
    u32::from_le_bytes(first) == SECTION_HEADER
}

impl Reader {
    pub(super) fn new() -> Self {
        Reader {
            order: Order::Little,
            metadata: Metadata::default(),
        }
    }

    /// Called with a constant `order`, so that decoding a word does not branch on it.
    #[inline(always)]
    fn plain_in<'a>(&self, order: Order, bytes: &'a [u8]) -> Option<(Frame<'a>, usize)> {
        let head = bytes.first_chunk::<PACKET_HEAD>()?;
        let total = order.word(head, 4) as usize;
        let caplen = order.word(head, 20);
        let expected = PACKET_OVERHEAD + padded(caplen as usize);
        if order.word(head, 0) != ENHANCED_PACKET || total != expected || total > MAX_BLOCK as usize
        {
            return None;
        }
        let (body, last) = bytes.get(..total)?.split_last_chunk::<4>()?;
        if order.u32(*last) as usize != total {
            return None;
        }
        let interface = order.word(head, 8);
        let detail = self.metadata.details.get(interface as usize)?;
        let ticks = (order.word(head, 12) as u64) << 32 | order.word(head, 16) as u64;
        let wire_len = order.word(head, 24);
        if wire_len < caplen {
            return None;
        }
        let time_ns = match detail.times.exact_ns(ticks) {
            Some(ns) => ns,
            None if detail.times.is_beyond(ticks) => return None,
            None => detail.times.ns(ticks),
        };
        let frame = Frame {
            data: body.get(PACKET_HEAD..PACKET_HEAD + caplen as usize)?,
            wire_len,
            time_ns,
            interface: self.metadata.first_interface + interface,
            options: &[],
            marks: Marks::default(),
            ..Frame::default()
        };
        Some((frame, total))
    }

    /// An enhanced or an obsolete packet block; they differ only in the word at 8.
    fn packet<'a>(
        &self,
        head: &[u8; PACKET_HEAD],
        body: &'a [u8],
        interface: u32,
        dropped_before: u64,
    ) -> Result<Step<'a>, Fault> {
        let order = self.order;
        let caplen = order.word(head, 20);
        let Some(data) = body.get(PACKET_HEAD..PACKET_HEAD + caplen as usize) else {
            return Err(data_too_long(caplen, body.len() - PACKET_HEAD));
        };
        let Some(detail) = self.metadata.details.get(interface as usize) else {
            return Err(self.no_interface(interface, body));
        };
        let ticks = (order.word(head, 12) as u64) << 32 | order.word(head, 16) as u64;
        let options = &body[PACKET_HEAD + padded(caplen as usize)..];
        let found = self.packet_options(options, order.word(head, 0), dropped_before);
        let wire_len = order.word(head, 24);
        let mut marks = found.marks;
        if wire_len < caplen {
            marks = marks.with(Marks::RAISED_LENGTH);
        }
        if detail.times.is_beyond(ticks) {
            marks = marks.with(Marks::LIMITED_TIME);
        }
        let frame = Frame {
            data,
            wire_len: wire_len.max(caplen),
            time_ns: detail.times.ns(ticks),
            interface: self.metadata.first_interface + interface,
            direction: found.direction,
            dropped_before: found.dropped_before,
            options: found.bytes,
            marks,
            ..Frame::default()
        };
        Ok(Step::Packet(frame, body.len() + 4))
    }

    #[inline(never)]
    fn packet_options<'a>(&self, bytes: &'a [u8], kind: u32, dropped: u64) -> PacketOptions<'a> {
        let mut found = PacketOptions {
            direction: Direction::Unknown,
            dropped_before: dropped,
            bytes: &[],
            marks: Marks::default(),
        };
        let mut options = Options::new(bytes, self.order);
        while let Some(option) = options.next() {
            // The frame itself has the drop count.
            if option.code != 4 {
                found.bytes = bytes;
            }
            match option.code {
                // epb_flags and pack_flags
                2 => {
                    found.direction = match option.u32().unwrap_or(0) & 3 {
                        1 => Direction::Inbound,
                        2 => Direction::Outbound,
                        _ => Direction::Unknown,
                    }
                }
                // epb_dropcount
                4 if kind == ENHANCED_PACKET => found.dropped_before = option.u64().unwrap_or(0),
                _ => {}
            }
        }
        if self.order == Order::Big {
            found.marks = Marks::BIG_ENDIAN;
        }
        if options.is_broken {
            found.marks = found.marks.with(Marks::BROKEN_OPTIONS);
        }
        found
    }

    /// The block without its last length, which must equal the first one.
    #[inline(always)]
    fn body<'a>(&self, block: &'a [u8]) -> Result<&'a [u8], Fault> {
        match block.split_last_chunk::<4>() {
            Some((body, last)) if self.order.u32(*last) as usize == block.len() => Ok(body),
            last => Err(two_lengths(
                block.len(),
                last.map_or(0, |(_, last)| self.order.u32(*last)),
            )),
        }
    }

    /// Decodes every other kind of block.
    #[inline(never)]
    fn other<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Fault> {
        let Some(head) = bytes.first_chunk::<12>() else {
            return Ok(Step::More(MIN_BLOCK));
        };
        if self.order.word(head, 0) == SECTION_HEADER {
            return self.section(head, bytes);
        }
        let kind = self.order.word(head, 0);
        let total = self.order.word(head, 4);
        check_len(
            total,
            match kind {
                ENHANCED_PACKET | OBSOLETE_PACKET => PACKET_OVERHEAD,
                SIMPLE_PACKET => SIMPLE_HEAD + 4,
                INTERFACE => 20,
                INTERFACE_STATISTICS => 24,
                _ => MIN_BLOCK,
            },
        )?;
        let Some(block) = bytes.get(..total as usize) else {
            return Ok(Step::More(total as usize));
        };
        let body = self.body(block)?;
        match kind {
            ENHANCED_PACKET => {
                let (head, _) = split_head(body)?;
                return self.packet(head, body, self.order.word(head, 8), 0);
            }
            OBSOLETE_PACKET => {
                let (head, _) = split_head(body)?;
                let interface = self.order.half(head, 8) as u32;
                // All ones: unknown.
                let drops = Some(self.order.half(head, 10)).filter(|&n| n < u16::MAX);
                return self.packet(head, body, interface, drops.unwrap_or(0) as u64);
            }
            SIMPLE_PACKET => return self.simple(body),
            INTERFACE => {
                self.metadata.interface(body, self.order)?;
                return Ok(Step::Described(block.len()));
            }
            INTERFACE_STATISTICS => self.metadata.statistics(body, self.order)?,
            PADDING => self.metadata.skipped.padding += 1,
            TIME_INDEX => {}
            _ => self.keep_block(kind, body),
        }
        Ok(Step::Other(block.len()))
    }

    /// Keeps a block for a copy, or its kind, to count that the copy lacks it.
    fn keep_block(&mut self, kind: u32, body: &[u8]) {
        let skipped = &mut self.metadata.skipped;
        let (count, of) = match kind {
            NAME_RESOLUTION => (&mut skipped.name_resolution, BlockKind::NameResolution),
            SYSTEMD_JOURNAL => (&mut skipped.systemd_journal, BlockKind::Journal),
            DECRYPTION_SECRETS => (
                &mut skipped.decryption_secrets,
                BlockKind::DecryptionSecrets,
            ),
            CUSTOM | CUSTOM_UNCOPIED => (&mut skipped.custom, BlockKind::Custom),
            _ => (&mut skipped.other, BlockKind::Other),
        };
        *count += 1;
        let bytes = self.copy_of(kind, &body[8..]).unwrap_or_default();
        self.metadata.blocks.push(Block { kind: of, bytes });
    }

    /// The block in a copy; `None`: it must not be copied, or its layout is unknown.
    fn copy_of(&self, kind: u32, body: &[u8]) -> Option<Vec<u8>> {
        let is_big = self.order == Order::Big;
        let mut copy = body.to_vec();
        match kind {
            SYSTEMD_JOURNAL => {}
            NAME_RESOLUTION | DECRYPTION_SECRETS | CUSTOM if !is_big => {}
            NAME_RESOLUTION => copy = little_names(body)?,
            DECRYPTION_SECRETS => {
                let (head, rest) = body.split_first_chunk::<8>()?;
                let (kind, len) = (self.order.word(head, 0), self.order.word(head, 4));
                copy.clear();
                copy.extend([kind, len].map(u32::to_le_bytes).concat());
                let (secrets, options) = rest.split_at_checked(padded(len as usize))?;
                copy.extend(secrets);
                append_options(&mut copy, About::Secrets, options);
            }
            _ => return None,
        }
        let len = (MIN_BLOCK + copy.len()) as u32;
        let head = [kind, len].map(u32::to_le_bytes).concat();
        Some([&head[..], &copy, &len.to_le_bytes()].concat())
    }

    fn section<'a>(&mut self, head: &[u8; 12], bytes: &'a [u8]) -> Result<Step<'a>, Fault> {
        let order = match Order::Little.word(head, 8) {
            BYTE_ORDER => Order::Little,
            word if word.swap_bytes() == BYTE_ORDER => Order::Big,
            word => {
                let what = format!("begins a section with {word:08x} for its byte order");
                return Err(Fault::new("block", what));
            }
        };
        let total = order.word(head, 4);
        check_len(total, 28)?;
        let Some(block) = bytes.get(..total as usize) else {
            return Ok(Step::More(total as usize));
        };
        self.order = order;
        let body = self.body(block)?;
        self.metadata.section(body, order)?;
        Ok(Step::Described(block.len()))
    }

    fn simple<'a>(&self, body: &'a [u8]) -> Result<Step<'a>, Fault> {
        let (head, rest) = split_head::<SIMPLE_HEAD>(body)?;
        let Some(detail) = self.metadata.details.first() else {
            return Err(self.no_interface(0, body));
        };
        let wire_len = self.order.word(head, 8);
        let caplen = rest.len().min(wire_len.min(detail.snaplen) as usize);
        let frame = Frame {
            data: &rest[..caplen],
            wire_len,
            interface: self.metadata.first_interface,
            ..Frame::default()
        };
        Ok(Step::Packet(frame, body.len() + 4))
    }

    #[cold]
    fn no_interface(&self, number: u32, body: &[u8]) -> Fault {
        let there = self.metadata.details.len();
        let what = format!("is of interface {number}, its section has {there} so far");
        Fault {
            skip: Some(body.len() + 4),
            ..Fault::new("block", what)
        }
    }
}

impl Records for Reader {
    fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Fault> {
        match self.plain_in(self.order, bytes) {
            Some((frame, len)) => Ok(Step::Packet(frame, len)),
            None => self.other(bytes),
        }
    }

    fn unit(&self) -> &'static str {
        "block"
    }

    fn interfaces(&self) -> &[Interface] {
        &self.metadata.interfaces
    }

    fn recorded(&self) -> &[Option<Statistics>] {
        &self.metadata.recorded
    }

    fn for_packets(&self) -> Self {
        Reader {
            order: self.order,
            metadata: self.metadata.for_packets(),
        }
    }

    /// See [`Decoder::walk`](super::Decoder::walk). Blocks with an invalid length, and blocks on which later packets depend, are
    /// left to [`next`](Reader::next).
    fn walk(&self, bytes: &[u8], to: usize) -> Option<usize> {
        match self.order {
            Order::Little => walk_in(Order::Little, bytes, to),
            Order::Big => walk_in(Order::Big, bytes, to),
        }
    }

    /// An enhanced packet block that is complete, well-formed and without options, as nearly all are. `None`: call
    /// [`next`](Reader::next).
    #[inline(always)]
    fn plain<'a>(&self, bytes: &'a [u8]) -> Option<(Frame<'a>, usize)> {
        match self.order {
            Order::Little => self.plain_in(Order::Little, bytes),
            Order::Big => None,
        }
    }

    /// See [`Decoder::is_as_composed`](super::Decoder::is_as_composed): the wire length and the time are written back unchanged, and
    /// the padding is zero. [`plain`](Reader::plain) has checked everything else.
    #[inline(always)]
    fn is_as_composed(&self, record: &[u8]) -> bool {
        let order = Order::Little;
        let Some((head, rest)) = record.split_first_chunk::<PACKET_HEAD>() else {
            return false;
        };
        let (interface, caplen) = (order.word(head, 8), order.word(head, 20));
        let ticks = (order.word(head, 12) as u64) << 32 | order.word(head, 16) as u64;
        let detail = self.metadata.details.get(interface as usize);
        // The word before the last length ends with the padding: one to four of its bytes are data.
        let last = rest
            .len()
            .checked_sub(8)
            .and_then(|at| rest[at..].first_chunk());
        let data_bytes = caplen.wrapping_sub(1) % 4 + 1;
        let padding = last
            .map_or(0, |word| order.u32(*word))
            .unbounded_shr(8 * data_bytes);
        self.metadata.first_interface == 0
            && order.word(head, 24) >= caplen
            && detail.is_some_and(|detail| detail.times.exact_ns(ticks).is_some())
            && padding == 0
    }

    fn last_statistics(&self) -> (u64, u32) {
        self.metadata.last_statistics
    }

    fn sections(&self) -> &[Section] {
        &self.metadata.sections
    }

    fn take_blocks(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.metadata.blocks)
    }

    #[inline]
    fn has_blocks(&self) -> bool {
        !self.metadata.blocks.is_empty()
    }

    fn skipped(&self) -> Skipped {
        self.metadata.skipped
    }
}

/// The body of a big-endian name resolution block, byte-swapped; `None`: it is malformed.
fn little_names(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut copy = Vec::new();
    loop {
        let (&[a, b, c, d], rest) = body.split_first_chunk::<4>()?;
        copy.extend([b, a, d, c]);
        let len = padded(usize::from(u16::from_be_bytes([c, d])));
        if (a, b) == (0, 0) {
            append_options(&mut copy, About::Names, rest);
            return Some(copy);
        }
        let (record, rest) = rest.split_at_checked(len)?;
        copy.extend(record);
        body = rest;
    }
}

/// Appends the copy of big-endian options, with an end mark if there are any.
fn append_options(copy: &mut Vec<u8>, about: About, options: &[u8]) {
    let begin = copy.len();
    Copied::new(about, options, true, &[]).append_to(copy);
    if copy.len() > begin {
        copy.extend([0; 4]);
    }
}

/// Called with a constant `order`, so that decoding a word does not branch on it.
#[inline(always)]
fn walk_in(order: Order, bytes: &[u8], to: usize) -> Option<usize> {
    let mut at = 0;
    while at < to {
        let head = bytes.get(at..)?.first_chunk::<8>()?;
        let (kind, total) = (order.word(head, 0), order.word(head, 4));
        let matters = matches!(kind, SECTION_HEADER | INTERFACE | INTERFACE_STATISTICS);
        if matters || check_len(total, MIN_BLOCK).is_err() {
            return None;
        }
        at += total as usize;
    }
    Some(at)
}

#[inline(always)]
fn check_len(total: u32, min: usize) -> Result<(), Fault> {
    if total.is_multiple_of(4) && total as usize >= min && total <= MAX_BLOCK {
        return Ok(());
    }
    Err(bad_len(total, min))
}

#[cold]
fn bad_len(total: u32, min: usize) -> Fault {
    let what = if total > MAX_BLOCK {
        format!("says {total} bytes, the limit is {} MiB", MAX_BLOCK >> 20)
    } else if (total as usize) < min {
        format!("says {total} bytes, the least for its kind is {min}")
    } else {
        format!("says {total} bytes, which is no multiple of four")
    };
    Fault::new("block", what)
}

#[cold]
fn two_lengths(first: usize, last: u32) -> Fault {
    let what = format!("says {first} bytes at its beginning and {last} at its end");
    Fault::new("block", what)
}

#[cold]
fn data_too_long(caplen: u32, room: usize) -> Fault {
    let what = format!("says {caplen} captured bytes and has room for {room}");
    Fault::new("block", what)
}
