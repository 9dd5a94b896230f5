//! Decodes the format pcap, in all variants that libpcap reads.
//!
//! ```text
//!  magic │ major.minor │ zone │ accuracy │ snaplen │ link      sec │ frac │ caplen │ wire_len │ data …
//! ```
//! - The magic number is `a1b2c3d4` for microseconds and `a1b23c4d` for nanoseconds. With `a1b2cd34`, times are in microseconds, and
//!   each record's header has eight more bytes (an interface, a protocol, a kind), which are skipped.
//! - In versions 2.0 to 2.2 and 543.0 the two lengths are exchanged; in 2.3 they may be.
//! - A packet longer than the file's snapshot length is read completely, which libpcap does not do. A length above that of any
//!   packet is an error, because the bytes are not a length.
//! - A fraction of a second or more is added to the seconds. As in C's `timeval`, it is a signed number: 4294948296 is -19000.
//! - Records of zeros are packets only if other bytes follow: see [`Zeros`].
//! - The upper half of the link-type field contains the length of frame check sequences, as pcapng's `if_fcslen` does.
//!
//! Sources: draft-ietf-opsawg-pcap, and the behaviour of libpcap 1.10.

use super::{
    body::Order,
    records::Records,
    step::{Fault, Step, Zeros},
};
use crate::format::copied::push_option;
use crate::port::{Frame, InFile, Interface, LinkType, MAX_SNAPLEN, Marks, Resolution, Statistics};
use std::sync::Arc;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;
const NS_A_SECOND: u64 = 1_000_000_000;
const FILE_HEADER: usize = 24;
/// Bits of the link-type field without a meaning. The four uppermost bits are the length of a check sequence.
const RESERVED: u32 = 0x03ff_0000;
const FCS_LEN_GIVEN: u32 = 0x0400_0000;
const RECORD_HEADER: usize = 16;
/// The header of a record in the modified format.
const LONG_RECORD_HEADER: usize = 24;
/// Zeros are packets if other bytes follow within this number of bytes.
const ZEROS_AHEAD: usize = 1 << 20;
/// The maximum packet length, except for buses that record whole transfers.
const MAX_PACKET: u32 = MAX_SNAPLEN;
const MAX_TRANSFER: u32 = 16 << 20;

/// The order of the two lengths in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    CaplenFirst,
    WireLenFirst,
    /// The larger one is the wire length.
    Either,
}

/// Decodes a classic file; see [`Decoder`](super::Decoder).
#[derive(Clone, Debug)]
pub struct Reader {
    order: Order,
    magic: u32,
    ns_a_fraction: u64,
    record_header: usize,
    lengths: Lengths,
    max_packet: u32,
    /// The number of next records of zeros that are known to be packets.
    zeros: usize,
    /// Empty until the file header was read.
    interface: Option<Interface>,
}

/// The maximum packet length of a link type: libpcap's limit, but no more than our limit for a pcapng block.
fn max_packet(link: LinkType) -> u32 {
    match link.0 {
        // USB, USB with its mapped header, D-Bus, USBPcap, Elektrobit's high-speed recorder
        189 | 220 | 231 | 249 => MAX_TRANSFER,
        279 => 8 << 20,
        _ => MAX_PACKET,
    }
}

impl Reader {
    /// Chooses the variant by the file's first word; `None`: it is not a classic file.
    pub(super) fn begin(first: [u8; 4]) -> Option<Self> {
        let is_ours = |magic: &u32| [MICROSECONDS, NANOSECONDS, MODIFIED].contains(magic);
        let little = Some((u32::from_le_bytes(first), Order::Little)).filter(|(m, _)| is_ours(m));
        let big = Some((u32::from_be_bytes(first), Order::Big)).filter(|(m, _)| is_ours(m));
        let (magic, order) = little.or(big)?;
        Some(Reader {
            order,
            magic,
            ns_a_fraction: if magic == NANOSECONDS { 1 } else { 1000 },
            record_header: match magic {
                MODIFIED => LONG_RECORD_HEADER,
                _ => RECORD_HEADER,
            },
            lengths: Lengths::CaplenFirst,
            max_packet: MAX_PACKET,
            zeros: 0,
            interface: None,
        })
    }

    #[cold]
    fn file_header(&mut self, bytes: &[u8]) -> Result<Step<'static>, Fault> {
        let Some(head) = bytes.first_chunk::<FILE_HEADER>() else {
            return Ok(Step::More(FILE_HEADER));
        };
        let order = self.order;
        self.lengths = match (order.half(head, 4), order.half(head, 6)) {
            (2, 4) => Lengths::CaplenFirst,
            (2, 3) => Lengths::Either,
            (2, 0..=2) | (543, 0) => Lengths::WireLenFirst,
            (major, minor) => {
                let what = format!("says version {major}.{minor}, known are 2.0 to 2.4");
                return Err(Fault::new("file header", what));
            }
        };
        let field = order.word(head, 20);
        if field & RESERVED != 0 {
            let what =
                format!("has bits set in its link-type field, {field:08x}, that are reserved");
            return Err(Fault::new("file header", what));
        }
        let link = LinkType(field as u16);
        let mut in_file = InFile {
            classic: Some(field & 0xffff_0000),
            ..InFile::default()
        };
        if field & FCS_LEN_GIVEN != 0 {
            // if_fcslen is in bits, and this field in units of 16 bits.
            push_option(&mut in_file.options, 13, &[(field >> 28) as u8 * 16]);
        }
        self.max_packet = max_packet(link);
        let snaplen = match order.word(head, 16) {
            0 | 0x8000_0000.. => self.max_packet,
            // Cooked captures have a made-up Ethernet header, which this length does not include.
            n if self.magic == MODIFIED && link == LinkType::ETHERNET => n.saturating_add(14),
            n => n,
        };
        self.interface = Some(Interface {
            name: String::new(),
            description: String::new(),
            link,
            snaplen,
            bits_per_second: None,
            resolution: match self.magic {
                NANOSECONDS => Resolution::NANOSECONDS,
                _ => Resolution::MICROSECONDS,
            },
            time: None,
            socket_view: false,
            in_file: Some(Arc::new(in_file)),
        });
        Ok(Step::Described(FILE_HEADER))
    }

    /// Called with a constant `order`, so that decoding a word does not branch on it.
    #[inline(always)]
    fn plain_in<'a>(&self, order: Order, bytes: &'a [u8]) -> Option<(Frame<'a>, usize)> {
        let head = bytes.first_chunk()?;
        let (caplen, wire_len) = self.lengths(order, head);
        // For an empty packet this wraps around, and exceeds every limit.
        if caplen.wrapping_sub(1) >= self.max_packet || self.interface.is_none() {
            return None;
        }
        let len = self.record_header + caplen as usize;
        if wire_len < caplen {
            return None;
        }
        if order.word(head, 4) >= self.fractions_a_second() {
            return None;
        }
        let data = bytes.get(self.record_header..len)?;
        Some((self.frame(order, head, data, wire_len), len))
    }

    #[inline(always)]
    fn fractions_a_second(&self) -> u32 {
        (NS_A_SECOND / self.ns_a_fraction) as u32
    }

    /// The time of a record whose fraction is not below a second, and its mark.
    #[cold]
    fn carried_time(&self, head: &[u8; RECORD_HEADER]) -> (u64, Marks) {
        let (seconds, fraction) = (self.order.word(head, 0), self.order.word(head, 4));
        let ns = i64::from(fraction as i32) * self.ns_a_fraction as i64;
        match (u64::from(seconds) * NS_A_SECOND).checked_add_signed(ns) {
            Some(time_ns) => (time_ns, Marks::CARRIED_TIME),
            None => (0, Marks::LIMITED_TIME),
        }
    }

    #[inline(always)]
    fn frame<'a>(
        &self,
        order: Order,
        head: &[u8; RECORD_HEADER],
        data: &'a [u8],
        wire_len: u32,
    ) -> Frame<'a> {
        let seconds = order.word(head, 0) as u64 * NS_A_SECOND;
        let fraction = order.word(head, 4) as u64 * self.ns_a_fraction;
        Frame {
            data,
            wire_len,
            time_ns: seconds + fraction,
            options: &[],
            marks: Marks::default(),
            ..Frame::default()
        }
    }

    /// The captured length and the wire length.
    #[inline(always)]
    fn lengths(&self, order: Order, head: &[u8; RECORD_HEADER]) -> (u32, u32) {
        let (first, second) = (order.word(head, 8), order.word(head, 12));
        match self.lengths {
            Lengths::CaplenFirst => (first, second),
            Lengths::Either if first <= second => (first, second),
            Lengths::Either | Lengths::WireLenFirst => (second, first),
        }
    }
}

impl Records for Reader {
    fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Fault> {
        if self.interface.is_none() {
            return self.file_header(bytes);
        }
        if let Some((frame, len)) = self.plain_in(self.order, bytes) {
            return Ok(Step::Packet(frame, len));
        }
        let Some(head) = bytes.first_chunk() else {
            return Ok(Step::More(self.record_header));
        };
        let (caplen, wire_len) = self.lengths(self.order, head);
        if caplen > self.max_packet {
            let what = format!(
                "says {caplen} captured bytes, the limit is {}",
                self.max_packet
            );
            return Err(Fault::new("packet", what));
        }
        let len = self.record_header + caplen as usize;
        let Some(record) = bytes.get(..len) else {
            return Ok(Step::More(len));
        };
        if self.zeros == 0 && record.iter().all(|&byte| byte == 0) {
            return Ok(Step::Zeros);
        }
        let mut frame = self.frame(self.order, head, &record[self.record_header..], wire_len);
        if self.order.word(head, 4) >= self.fractions_a_second() {
            (frame.time_ns, frame.marks) = self.carried_time(head);
        }
        if wire_len < caplen {
            frame.wire_len = caplen;
            frame.marks = frame.marks.with(Marks::RAISED_LENGTH);
        }
        Ok(Step::Packet(frame, len))
    }

    fn unit(&self) -> &'static str {
        if self.interface.is_none() {
            "file header"
        } else {
            "packet"
        }
    }

    fn interfaces(&self) -> &[Interface] {
        self.interface.as_slice()
    }

    fn recorded(&self) -> &[Option<Statistics>] {
        if self.interface.is_some() {
            &[None]
        } else {
            &[]
        }
    }

    fn for_packets(&self) -> Self {
        self.clone()
    }

    fn walk(&self, bytes: &[u8], to: usize) -> Option<usize> {
        self.interface.as_ref()?;
        let mut at = 0;
        while at < to {
            let (caplen, _) = self.lengths(self.order, bytes.get(at..)?.first_chunk()?);
            // An empty packet may be the beginning of the zeros at the end of a file.
            if caplen.wrapping_sub(1) >= self.max_packet {
                return None;
            }
            at += self.record_header + caplen as usize;
        }
        Some(at)
    }

    /// The packet at the beginning of `bytes`, if it is complete and not empty; for little-endian files only.
    #[inline(always)]
    fn plain<'a>(&self, bytes: &'a [u8]) -> Option<(Frame<'a>, usize)> {
        match self.order {
            Order::Little => self.plain_in(Order::Little, bytes),
            Order::Big => None,
        }
    }

    #[cold]
    fn classify_zeros(&mut self, bytes: &[u8], is_all: bool) -> Zeros {
        let ahead = &bytes[..bytes.len().min(ZEROS_AHEAD)];
        match ahead.iter().position(|&byte| byte != 0) {
            Some(at) => {
                self.zeros = at / self.record_header;
                Zeros::Packets
            }
            None if is_all || ahead.len() == ZEROS_AHEAD => Zeros::End,
            None => Zeros::More(ZEROS_AHEAD),
        }
    }

    fn took_empty(&mut self) {
        self.zeros = self.zeros.saturating_sub(1);
    }
}
