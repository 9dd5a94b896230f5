//! pcap Next Generation: blocks of `type │ length │ body │ length`, little-endian, padded to four.
//!
//! ```text
//!  section header │ interface 0 │ interface 1 │ enhanced packet … │ padding │ … │ statistics 0 │ 1
//! ```
//! * times are nanoseconds (`if_tsresol` 9);
//! * a loss is marked on the packet behind the gap (`epb_dropcount`);
//! * each interface has exactly one statistics block, at the end: readers that sum several up
//!   count twice, and Wireshark's summary ignores all but one. Losses after the last packet are
//!   `isb_osdrop` less the sum of all `epb_dropcount`;
//! * padding, which aligns direct writes, is a block of the local-use range that readers skip.
//!
//! Source: draft-ietf-opsawg-pcapng.

use super::{
    Statistics,
    sizes::{kept, padded, put, word},
};
use crate::port::{Frame, Interface};
use forebay::store::{Framing, Whole};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
/// The local-use range has the top bit set.
const PADDING: u32 = 0x8000_f0b4;

/// The fewest bytes of a block: type, length, length.
const LEAST_BLOCK: usize = 12;
/// An enhanced packet block without data and options.
const PACKET_OVERHEAD: usize = 32;

/// Grows an options list; call `finish` for its end mark.
struct Options<'a>(&'a mut Vec<u8>);

impl Options<'_> {
    fn put(&mut self, code: u16, value: &[u8]) {
        self.0.extend(code.to_le_bytes());
        self.0.extend((value.len() as u16).to_le_bytes());
        self.0.extend(value);
        self.0.resize(padded(self.0.len()), 0);
    }

    fn put_u64(&mut self, code: u16, value: Option<u64>) {
        if let Some(value) = value {
            self.put(code, &value.to_le_bytes());
        }
    }

    fn put_time(&mut self, code: u16, ns: u64) {
        let mut value = [0; 8];
        value[..4].copy_from_slice(&((ns >> 32) as u32).to_le_bytes());
        value[4..].copy_from_slice(&(ns as u32).to_le_bytes());
        self.put(code, &value);
    }

    fn finish(self) {
        self.0.extend([0; 4]);
    }
}

/// Appends a block of `kind` whose body `fill` writes; lengths and padding are seen to.
fn block(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::new();
    fill(&mut body);
    body.resize(padded(body.len()), 0);
    let len = (LEAST_BLOCK + body.len()) as u32;
    for word in [kind, len] {
        out.extend(word.to_le_bytes());
    }
    out.extend(body);
    out.extend(len.to_le_bytes());
}

/// The section header and one description block an interface.
///
/// ```
/// let header = forebay_net::format::pcapng::header(&[], 262_144, "my program 1.0");
/// assert_eq!(header[..4], 0x0a0d_0d0a_u32.to_le_bytes());
/// assert_eq!(header[4..8], (header.len() as u32).to_le_bytes()); // a file without interfaces
/// ```
pub fn header(interfaces: &[Interface], snaplen: u32, application: &str) -> Vec<u8> {
    let mut out = Vec::new();
    block(&mut out, SECTION_HEADER, |body| {
        body.extend(BYTE_ORDER.to_le_bytes());
        body.extend([1, 0, 0, 0]); // version 1.0
        body.extend(u64::MAX.to_le_bytes()); // section length not given
        let mut options = Options(body);
        options.put(3, std::env::consts::OS.as_bytes()); // shb_os
        options.put(4, application.as_bytes()); // shb_userappl
        options.finish();
    });
    for interface in interfaces {
        block(&mut out, INTERFACE, |body| {
            body.extend(interface.link.0.to_le_bytes());
            body.extend([0; 2]);
            body.extend(snaplen.min(interface.snaplen).to_le_bytes());
            let mut options = Options(body);
            options.put(2, interface.name.as_bytes()); // if_name
            if !interface.description.is_empty() {
                options.put(3, interface.description.as_bytes()); // if_description
            }
            options.put_u64(8, interface.bits_per_second); // if_speed
            options.put(9, &[9]); // if_tsresol: 10⁻⁹ s
            options.finish();
        });
    }
    out
}

/// Options take room only on the packet behind a gap: the drop count and the end mark.
#[inline]
fn options_len(frame: &Frame<'_>) -> usize {
    if frame.dropped_before == 0 { 0 } else { 16 }
}

/// Bytes of the enhanced packet block for `frame` under `snaplen`.
#[inline]
pub fn frame_len(frame: &Frame<'_>, snaplen: u32) -> usize {
    PACKET_OVERHEAD + padded(kept(frame, snaplen).len()) + options_len(frame)
}

/// Composes an enhanced packet block into `slot`, which has exactly [`frame_len`] bytes.
///
/// ```
/// use forebay_net::{format::pcapng, port::Frame};
/// let frame = Frame {
///     data: &[0xab; 61], wire_len: 1000, time_ns: 7, interface: 0,
///     direction: Default::default(), dropped_before: 3,
/// };
/// let mut slot = vec![0xff; pcapng::frame_len(&frame, 262_144)];
/// pcapng::put_frame(&mut slot, &frame, 0, 262_144);
/// assert_eq!(slot.len(), 32 + 64 + 16);
/// assert_eq!(slot[28..89], [0xab; 61]);
/// ```
#[inline]
pub fn put_frame(slot: &mut [u8], frame: &Frame<'_>, interface: u32, snaplen: u32) {
    let data = kept(frame, snaplen);
    let total = slot.len();
    let padded_len = padded(data.len());
    let (head, rest) = slot.split_at_mut(28);
    put(head, 0, ENHANCED_PACKET);
    put(head, 4, total as u32);
    put(head, 8, interface);
    put(head, 12, (frame.time_ns >> 32) as u32);
    put(head, 16, frame.time_ns as u32);
    put(head, 20, data.len() as u32);
    put(head, 24, frame.wire_len);
    if padded_len > data.len() {
        put(rest, padded_len - 4, 0);
    }
    rest[..data.len()].copy_from_slice(data);
    let tail = &mut rest[padded_len..];
    if frame.dropped_before > 0 {
        put(tail, 0, 4 | 8 << 16); // epb_dropcount
        put(tail, 4, frame.dropped_before as u32);
        put(tail, 8, (frame.dropped_before >> 32) as u32);
        put(tail, 12, 0); // opt_endofopt
    }
    put(tail, tail.len() - 4, total as u32);
}

/// One statistics block an interface, in order.
pub fn trailer(statistics: &[Statistics]) -> Vec<u8> {
    let mut out = Vec::new();
    for counts in statistics {
        block(&mut out, INTERFACE_STATISTICS, |body| {
            body.extend(counts.interface.to_le_bytes());
            body.extend(((counts.time_ns >> 32) as u32).to_le_bytes());
            body.extend((counts.time_ns as u32).to_le_bytes());
            let mut options = Options(body);
            if let Some((start, end)) = counts.span_ns {
                options.put_time(2, start); // isb_starttime
                options.put_time(3, end); // isb_endtime
            }
            options.put_u64(5, counts.interface_dropped); // isb_ifdrop
            options.put_u64(6, Some(counts.received)); // isb_filteraccept
            options.put_u64(7, counts.dropped); // isb_osdrop
            options.put_u64(8, Some(counts.delivered)); // isb_usrdeliv
            options.finish();
        });
    }
    out
}

/// pcapng blocks, as the store cuts and pads them. Packets count as records, other blocks do not.
///
/// ```
/// use forebay::store::{Framing, Whole};
/// use forebay_net::format::pcapng::Blocks;
/// let mut padding = [0xff; 40];
/// Blocks.pad(&mut padding[..20]);
/// assert_eq!(Blocks.last_whole(&padding[..20]), Whole { bytes: 20, records: 0 });
/// assert_eq!(Blocks.last_whole(&padding[..19]), Whole::default()); // torn
/// ```
pub struct Blocks;

impl Framing for Blocks {
    fn last_whole(&self, bytes: &[u8]) -> Whole {
        let mut whole = Whole::default();
        while let (Some(kind), Some(len)) = (word(bytes, whole.bytes), word(bytes, whole.bytes + 4))
        {
            let end = whole.bytes + (len as usize).max(LEAST_BLOCK);
            if end > bytes.len() {
                break;
            }
            whole.bytes = end;
            whole.records += (kind == ENHANCED_PACKET) as u64;
        }
        whole
    }

    fn least_padding(&self) -> Option<usize> {
        Some(LEAST_BLOCK)
    }

    fn pad(&self, gap: &mut [u8]) {
        let len = gap.len();
        gap.fill(0);
        put(gap, 0, PADDING);
        put(gap, 4, len as u32);
        put(gap, len - 4, len as u32);
    }
}
