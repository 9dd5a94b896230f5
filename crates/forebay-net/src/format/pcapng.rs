//! The format pcapng: blocks of `type │ length │ body │ length`, little-endian, padded to a multiple of four bytes.
//!
//! ```text
//!  section header │ interface 0 │ enhanced packet … │ interface 1 │ … │ padding │ … │ statistics 0 │ 1
//! ```
//! - An interface may be described at any place before its first packet. The description sets the resolution of its time stamps:
//!   nanoseconds (`if_tsresol` 9) for live interfaces.
//! - A packet of a live interface has a direction (`epb_flags`).
//! - The packet after a gap has the number of packets that were lost in the gap (`epb_dropcount`).
//! - Each interface has exactly one statistics block, at the end. (Some readers add several blocks up, and Wireshark's summary
//!   ignores all except one.) Losses after the last packet are `isb_osdrop` minus the sum of all `epb_dropcount`.
//! - A large file ends with an index of times (`time_index`).
//! - Direct writes need aligned data. The padding for that is a block with a type for local use, which readers skip.
//!
//! Source: draft-ietf-opsawg-pcapng.

use super::{
    copied::{packet_options_len, push_option, put_packet_options},
    described::Described,
    sizes::{captured, padded, put, word},
    ticks::Ticks,
};
use crate::port::{Direction, Frame, InSection, Interface, Statistics};
use forebay::store::{Framing, Whole};

pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(super) const BYTE_ORDER: u32 = 0x1a2b_3c4d;
pub(super) const INTERFACE: u32 = 1;
pub(super) const INTERFACE_STATISTICS: u32 = 5;
pub(crate) const ENHANCED_PACKET: u32 = 6;
/// The local-use range has the top bit set.
pub(super) const PADDING: u32 = 0x8000_f0b4;

/// The size of an empty block: type, length, length.
pub(crate) const MIN_BLOCK: usize = 12;
/// The maximum size of an option's value that we write, a multiple of four.
const MAX_OPTION: usize = 0xfffc;
/// The maximum size of an interface description block, without copied options: two long options, two short ones, a comment, and
/// an end.
pub(super) const MAX_DESCRIPTION: usize = MIN_BLOCK + 8 + 2 * (4 + MAX_OPTION) + 12 + 8 + 64 + 4;
/// An enhanced packet block without data and options.
pub(super) const PACKET_OVERHEAD: usize = 32;
/// The offset of a packet's data in its block.
const DATA: usize = 28;

/// `opt_endofopt`
const END_OF_OPTIONS: [u8; 4] = [0; 4];

/// Appends an option, if its value is known.
fn push_u64(out: &mut Vec<u8>, code: u16, value: Option<u64>) {
    if let Some(value) = value {
        push_option(out, code, &value.to_le_bytes());
    }
}

/// Appends a block of this kind, with its lengths and padding. `fill` writes its body.
fn block(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::new();
    fill(&mut body);
    body.resize(padded(body.len()), 0);
    let len = (MIN_BLOCK + body.len()) as u32;
    for word in [kind, len] {
        out.extend(word.to_le_bytes());
    }
    out.extend(body);
    out.extend(len.to_le_bytes());
}

/// The section header at the beginning of a file. `of`: the copied section, for a copy of another file.
pub(super) fn header(application: &str, of: Option<&InSection>) -> Vec<u8> {
    let mut out = Vec::new();
    block(&mut out, SECTION_HEADER, |body| {
        body.extend(BYTE_ORDER.to_le_bytes());
        body.extend([1, 0, 0, 0]); // version 1.0
        body.extend(u64::MAX.to_le_bytes()); // unknown section length
        if let Some(of) = of {
            body.extend(&of.options);
        }
        // shb_hardware and shb_os describe the machine that captured, so a copy has those of the original, or none.
        let texts = [(2, of.map(|of| &of.hardware)), (3, of.map(|of| &of.os))];
        for (code, text) in texts {
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                push_option(body, code, text);
            }
        }
        if of.is_none() {
            push_option(body, 3, std::env::consts::OS.as_bytes()); // shb_os
        }
        push_option(body, 4, application.as_bytes()); // shb_userappl
        body.extend(END_OF_OPTIONS);
    });
    out
}

/// The description block of an interface, anywhere before its first packet.
pub(super) fn interface(interface: &Interface, ticks: Ticks, snaplen: u32) -> Vec<u8> {
    let mut out = Vec::new();
    block(&mut out, INTERFACE, |body| {
        body.extend(interface.link.0.to_le_bytes());
        body.extend([0; 2]);
        body.extend(snaplen.min(interface.snaplen).to_le_bytes());
        let texts = [(2, &interface.name), (3, &interface.description)]; // if_name, if_description
        for (code, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            push_option(body, code, text.as_bytes());
        }
        push_u64(body, 8, interface.bits_per_second); // if_speed
        push_option(body, 9, &[ticks.resolution().0]); // if_tsresol
        if let Some(time) = interface.time {
            // The format has no option for this.
            let text = format!("time stamps: {}", time.name());
            push_option(body, 1, text.as_bytes()); // opt_comment
        }
        if let Some(in_file) = &interface.in_file {
            body.extend(&in_file.options);
        }
        body.extend(END_OF_OPTIONS);
    });
    out
}

/// Bytes of options: a packet of a live interface has its direction, one after a gap has a drop count, and options of a file may be
/// copied, which include the direction. Other packets have none.
#[inline]
fn options_len(frame: &Frame<'_>) -> usize {
    let dropped = if frame.dropped_before == 0 { 0 } else { 12 };
    let others = match frame.options.is_empty() {
        true if frame.direction == Direction::Unknown => 0,
        true => 8,
        false => packet_options_len(frame),
    };
    match dropped + others {
        0 => 0,
        len => len + 4,
    }
}

/// Length of the enhanced packet block for `frame`, truncated at `snaplen`.
#[inline]
pub(super) fn frame_len(frame: &Frame<'_>, snaplen: u32) -> usize {
    PACKET_OVERHEAD + padded(captured(frame, snaplen).len()) + options_len(frame)
}

/// Encodes an enhanced packet block into `slot`, which has exactly [`frame_len`] bytes, except the packet's data. Returns their offset and
/// the data. Copy them last: the padding is written as a whole word, which can overlap the last of them.
#[inline(always)]
pub(super) fn put_around<'a>(
    slot: &mut [u8],
    frame: &Frame<'a>,
    described: &Described,
    snaplen: u32,
) -> (usize, &'a [u8]) {
    let time = described.ticks.count(frame.time_ns);
    let data = captured(frame, snaplen);
    let total = slot.len();
    let padded_len = padded(data.len());
    let (head, rest) = slot.split_at_mut(DATA);
    put(head, 0, ENHANCED_PACKET);
    put(head, 4, total as u32);
    put(head, 8, described.number);
    put(head, 12, (time >> 32) as u32);
    put(head, 16, time as u32);
    put(head, 20, data.len() as u32);
    put(head, 24, frame.wire_len);
    if padded_len > data.len() {
        put(rest, padded_len - 4, 0);
    }
    let mut tail = &mut rest[padded_len..];
    if !frame.options.is_empty() {
        let end = put_packet_options(tail, frame);
        if end > 0 && frame.dropped_before == 0 {
            put(tail, end, 0); // opt_endofopt
        }
        tail = &mut tail[end..];
    } else if frame.direction != Direction::Unknown {
        put(tail, 0, 2 | 4 << 16); // epb_flags
        put(tail, 4, 1 + (frame.direction == Direction::Outbound) as u32);
        if frame.dropped_before == 0 {
            put(tail, 8, 0); // opt_endofopt
        }
        tail = &mut tail[8..];
    }
    if frame.dropped_before > 0 {
        put(tail, 0, 4 | 8 << 16); // epb_dropcount
        put(tail, 4, frame.dropped_before as u32);
        put(tail, 8, (frame.dropped_before >> 32) as u32);
        put(tail, 12, 0); // opt_endofopt
    }
    put(tail, tail.len() - 4, total as u32);
    (DATA, data)
}

/// The statistics block of one interface.
pub(super) fn statistics(counts: &Statistics, described: &Described) -> Vec<u8> {
    let mut out = Vec::new();
    let ticks = described.ticks;
    block(&mut out, INTERFACE_STATISTICS, |body| {
        let time = ticks.count(counts.time_ns);
        for word in [described.number, (time >> 32) as u32, time as u32] {
            body.extend(word.to_le_bytes());
        }
        // A time has its high word first.
        let option = |ns| ticks.count(ns).rotate_left(32);
        push_u64(body, 2, counts.began_ns.map(option)); // isb_starttime
        push_u64(body, 3, counts.ended_ns.map(option)); // isb_endtime
        push_u64(body, 4, counts.interface_received); // isb_ifrecv
        push_u64(body, 5, counts.interface_dropped); // isb_ifdrop
        push_u64(body, 6, counts.received); // isb_filteraccept
        push_u64(body, 7, counts.dropped); // isb_osdrop
        push_u64(body, 8, counts.delivered); // isb_usrdeliv
        body.extend(END_OF_OPTIONS);
    });
    out
}

/// Finds the boundaries of pcapng blocks for the store, and pads. Packets count as records, other blocks do not.
///
/// ```
/// use forebay::store::{Framing, Whole};
/// use forebay_net::format::pcapng::Blocks;
/// let mut padding = [0xff; 40];
/// Blocks.pad(&mut padding[..20]);
/// assert_eq!(Blocks.last_whole(&padding[..20]), Whole { bytes: 20, records: 0 });
/// assert_eq!(Blocks.last_whole(&padding[..19]), Whole::default()); // incomplete
/// ```
pub struct Blocks;

impl Framing for Blocks {
    fn takes_loans(&self) -> bool {
        true
    }

    fn last_whole(&self, bytes: &[u8]) -> Whole {
        let mut whole = Whole::default();
        while let (Some(kind), Some(len)) = (word(bytes, whole.bytes), word(bytes, whole.bytes + 4))
        {
            let end = whole.bytes + (len as usize).max(MIN_BLOCK);
            if end > bytes.len() {
                break;
            }
            whole.bytes = end;
            whole.records += (kind == ENHANCED_PACKET) as u64;
        }
        whole
    }

    fn least_padding(&self) -> Option<usize> {
        Some(MIN_BLOCK)
    }

    fn pad(&self, gap: &mut [u8]) {
        let len = gap.len();
        gap.fill(0);
        put(gap, 0, PADDING);
        put(gap, 4, len as u32);
        put(gap, len - 4, len as u32);
    }
}
