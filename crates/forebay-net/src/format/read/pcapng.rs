//! Reading pcapng: both byte orders, any number of sections, every kind of packet block.
//!
//! ```text
//!  section │ interface 0 │ 1 │ packet … │ section │ interface 0 │ packet …
//!  number of the interface:  0  1                            2
//! ```
//! * an interface's number here counts through all sections; in the file each begins anew;
//! * a packet block is checked once, as a whole, and then read as words: its two lengths are equal,
//!   multiples of four and at most 16 MiB, its data ends inside, its interface is known;
//! * a simple packet block has no time (it reads as 0), and the length that was kept is worked out;
//! * of the packet's options only direction and drops are looked at. Kinds of blocks that are of no
//!   use here are counted in [`Skipped`](super::Skipped);
//! * a section's own length is not needed and not believed.
//!
//! `metadata` has what is told of sections and interfaces, `options` walks options, `times` has the clock. Source: draft-ietf-opsawg-pcapng.

use super::{Fault, Order, Step, metadata::Metadata, options::Options, split_head};
use crate::format::{
    copied::{About, Copied},
    pcapng::{BYTE_ORDER, ENHANCED_PACKET, INTERFACE, INTERFACE_STATISTICS, LEAST_BLOCK, PADDING},
    pcapng::{PACKET_OVERHEAD, SECTION_HEADER},
    sizes::padded,
};
use crate::port::{Block, BlockKind, Direction, Frame, Marks};

const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const NAME_RESOLUTION: u32 = 4;
const SYSTEMD_JOURNAL: u32 = 9;
const DECRYPTION_SECRETS: u32 = 10;
const CUSTOM: u32 = 0xbad;
/// As [`CUSTOM`], not to be copied by those who do not know it.
const CUSTOM_UNCOPIED: u32 = 0x4000_0bad;

/// What other readers take as the largest block, too.
const LARGEST_BLOCK: u32 = 16 << 20;
/// Bytes of a packet block before its data.
const PACKET_HEAD: usize = 28;
/// Of a simple packet block.
const SIMPLE_HEAD: usize = 12;
/// What a packet's options tell.
struct Told<'a> {
    direction: Direction,
    dropped_before: u64,
    /// All of them, if any belongs into a copy.
    options: &'a [u8],
    marks: Marks,
}

/// A pcapng file being decoded; see [`Decoder`](super::Decoder).
#[derive(Debug)]
pub struct Reader {
    order: Order,
    kept: Metadata,
}

/// A pcapng file begins so, in either byte order.
pub(super) fn begins(first: [u8; 4]) -> bool {
    u32::from_le_bytes(first) == SECTION_HEADER
}

impl Reader {
    pub(super) fn new() -> Self {
        Reader {
            order: Order::Little,
            kept: Metadata::default(),
        }
    }

    pub(super) fn kept(&self) -> &Metadata {
        &self.kept
    }

    pub(super) fn kept_mut(&mut self) -> &mut Metadata {
        &mut self.kept
    }

    pub(super) fn for_packets(&self) -> Self {
        Reader {
            order: self.order,
            kept: self.kept.for_packets(),
        }
    }

    /// As [`Decoder::walk`](super::Decoder::walk). Whatever has no length that leads on, and what
    /// packets behind it depend on, is left to [`next`](Reader::next).
    pub(super) fn walk(&self, bytes: &[u8], to: usize) -> Option<usize> {
        match self.order {
            Order::Little => walk_in(Order::Little, bytes, to),
            Order::Big => walk_in(Order::Big, bytes, to),
        }
    }

    pub(super) fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Fault> {
        match self.plain_in(self.order, bytes) {
            Some((frame, len)) => Ok(Step::Packet(frame, len)),
            None => self.other(bytes),
        }
    }

    /// An enhanced packet block that is there as a whole, in order, and without options: what nearly
    /// all are. `None` leaves it to [`next`](Reader::next) to find out what it is instead.
    #[inline(always)]
    pub(super) fn plain<'a>(&self, bytes: &'a [u8]) -> Option<(Frame<'a>, usize)> {
        match self.order {
            Order::Little => self.plain_in(Order::Little, bytes),
            Order::Big => None,
        }
    }

    /// With a constant for the order no word asks for it.
    #[inline(always)]
    fn plain_in<'a>(&self, order: Order, bytes: &'a [u8]) -> Option<(Frame<'a>, usize)> {
        let head = bytes.first_chunk::<PACKET_HEAD>()?;
        let total = order.word(head, 4) as usize;
        let caplen = order.word(head, 20);
        let expected = PACKET_OVERHEAD + padded(caplen as usize);
        if order.word(head, 0) != ENHANCED_PACKET
            || total != expected
            || total > LARGEST_BLOCK as usize
        {
            return None;
        }
        let (body, last) = bytes.get(..total)?.split_last_chunk::<4>()?;
        if order.u32(*last) as usize != total {
            return None;
        }
        let interface = order.word(head, 8);
        let detail = self.kept.details.get(interface as usize)?;
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
            interface: self.kept.first_interface + interface,
            direction: Direction::Unknown,
            dropped_before: 0,
            options: &[],
            marks: Marks::default(),
        };
        Some((frame, total))
    }

    /// As [`Decoder::is_as_composed`](super::Decoder::is_as_composed): a length on the wire and a time that come back as they are,
    /// and nothing in the padding. What [`plain`](Reader::plain) accepts is like that in all else.
    #[inline(always)]
    pub(super) fn is_as_composed(&self, record: &[u8]) -> bool {
        let order = Order::Little;
        let Some((head, rest)) = record.split_first_chunk::<PACKET_HEAD>() else {
            return false;
        };
        let (interface, caplen) = (order.word(head, 8), order.word(head, 20));
        let ticks = (order.word(head, 12) as u64) << 32 | order.word(head, 16) as u64;
        let detail = self.kept.details.get(interface as usize);
        // The word before the last length ends with the padding: one to four of its bytes are data.
        let last = rest
            .len()
            .checked_sub(8)
            .and_then(|at| rest[at..].first_chunk());
        let data_bytes = caplen.wrapping_sub(1) % 4 + 1;
        let padding = last
            .map_or(0, |word| order.u32(*word))
            .unbounded_shr(8 * data_bytes);
        self.kept.first_interface == 0
            && order.word(head, 24) >= caplen
            && detail.is_some_and(|detail| detail.times.exact_ns(ticks).is_some())
            && padding == 0
    }

    /// A packet block of the enhanced or the obsolete kind: they differ in the word at 8 only.
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
        let Some(detail) = self.kept.details.get(interface as usize) else {
            return Err(self.no_interface(interface));
        };
        let ticks = (order.word(head, 12) as u64) << 32 | order.word(head, 16) as u64;
        let options = &body[PACKET_HEAD + padded(caplen as usize)..];
        let told = self.packet_options(options, order.word(head, 0), dropped_before);
        let wire_len = order.word(head, 24);
        let mut marks = told.marks;
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
            interface: self.kept.first_interface + interface,
            direction: told.direction,
            dropped_before: told.dropped_before,
            options: told.options,
            marks,
        };
        Ok(Step::Packet(frame, body.len() + 4))
    }

    #[inline(never)]
    fn packet_options<'a>(&self, bytes: &'a [u8], kind: u32, dropped: u64) -> Told<'a> {
        let mut told = Told {
            direction: Direction::Unknown,
            dropped_before: dropped,
            options: &[],
            marks: Marks::default(),
        };
        let mut options = Options::new(bytes, self.order);
        while let Some(option) = options.next() {
            // One that only tells of drops is told by the frame.
            if option.code != 4 {
                told.options = bytes;
            }
            match option.code {
                // epb_flags and pack_flags
                2 => {
                    told.direction = match option.u32().unwrap_or(0) & 3 {
                        1 => Direction::Inbound,
                        2 => Direction::Outbound,
                        _ => Direction::Unknown,
                    }
                }
                // epb_dropcount
                4 if kind == ENHANCED_PACKET => told.dropped_before = option.u64().unwrap_or(0),
                _ => {}
            }
        }
        if self.order == Order::Big {
            told.marks = Marks::BIG_ENDIAN;
        }
        if options.is_broken {
            told.marks = told.marks.with(Marks::BROKEN_OPTIONS);
        }
        told
    }

    /// The block without its last length, which has to be the first one.
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

    /// Every other kind of block.
    #[inline(never)]
    fn other<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Fault> {
        let Some(head) = bytes.first_chunk::<12>() else {
            return Ok(Step::More(LEAST_BLOCK));
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
                _ => LEAST_BLOCK,
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
                // All ones: not known.
                let drops = Some(self.order.half(head, 10)).filter(|&n| n < u16::MAX);
                return self.packet(head, body, interface, drops.unwrap_or(0) as u64);
            }
            SIMPLE_PACKET => return self.simple(body),
            INTERFACE => {
                self.kept.interface(body, self.order)?;
                return Ok(Step::Described(block.len()));
            }
            INTERFACE_STATISTICS => self.kept.statistics(body, self.order)?,
            PADDING => self.kept.skipped.padding += 1,
            _ => self.keep_block(kind, body),
        }
        Ok(Step::Other(block.len()))
    }

    /// A block that is copied, or at least counted where it is missing in a copy.
    fn keep_block(&mut self, kind: u32, body: &[u8]) {
        let skipped = &mut self.kept.skipped;
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
        self.kept.blocks.push(Block { kind: of, bytes });
    }

    /// The block as it stands in a copy; `None`: it must not be copied, or its numbers cannot be found.
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
        let len = (LEAST_BLOCK + copy.len()) as u32;
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
        self.kept.section(body, order)?;
        Ok(Step::Described(block.len()))
    }

    fn simple<'a>(&self, body: &'a [u8]) -> Result<Step<'a>, Fault> {
        let (head, rest) = split_head::<SIMPLE_HEAD>(body)?;
        let Some(detail) = self.kept.details.first() else {
            return Err(self.no_interface(0));
        };
        let wire_len = self.order.word(head, 8);
        let caplen = rest.len().min(wire_len.min(detail.snaplen) as usize);
        let frame = Frame {
            data: &rest[..caplen],
            wire_len,
            time_ns: 0,
            interface: self.kept.first_interface,
            ..Frame::default()
        };
        Ok(Step::Packet(frame, body.len() + 4))
    }

    #[cold]
    fn no_interface(&self, number: u32) -> Fault {
        let there = self.kept.details.len();
        let what = format!("is of interface {number}, its section has {there} so far");
        Fault::new("block", what)
    }
}

/// The body of a name resolution block with its numbers turned round; `None`: it is broken.
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

/// Appends big-endian options with an end mark, if there are any.
fn append_options(copy: &mut Vec<u8>, about: About, options: &[u8]) {
    let begin = copy.len();
    Copied::new(about, options, true, &[]).append_to(copy);
    if copy.len() > begin {
        copy.extend([0; 4]);
    }
}

/// With a constant for the order no word asks for it.
#[inline(always)]
fn walk_in(order: Order, bytes: &[u8], to: usize) -> Option<usize> {
    let mut at = 0;
    while at < to {
        let head = bytes.get(at..)?.first_chunk::<8>()?;
        let (kind, total) = (order.word(head, 0), order.word(head, 4));
        let matters = matches!(kind, SECTION_HEADER | INTERFACE | INTERFACE_STATISTICS);
        if matters || check_len(total, LEAST_BLOCK).is_err() {
            return None;
        }
        at += total as usize;
    }
    Some(at)
}

#[inline(always)]
fn check_len(total: u32, least: usize) -> Result<(), Fault> {
    if total.is_multiple_of(4) && total as usize >= least && total <= LARGEST_BLOCK {
        return Ok(());
    }
    Err(bad_len(total, least))
}

#[cold]
fn bad_len(total: u32, least: usize) -> Fault {
    let what = if total > LARGEST_BLOCK {
        format!(
            "says {total} bytes, the limit is {} MiB",
            LARGEST_BLOCK >> 20
        )
    } else if (total as usize) < least {
        format!("says {total} bytes, the least for its kind is {least}")
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
