//! Reading capture files: pure decoding of the bytes there are so far, no I/O.
//!
//! ```text
//!  bytes so far   │ block │ block │ blo…        Decoder::next, again and again:
//!                 └───────┴───────┴────▶        Packet · Other · Described · More(bytes needed)
//! ```
//! The caller owns the bytes and decides when more are read; a frame borrows them, so that nothing
//! is copied and nothing allocated a packet. A decoder that was told the same bytes twice answers
//! the same twice as far as packets go, so a packet can be put back.
//!
//! [`pcap`] and [`pcapng`] each decode their format; `times` turns a file's clock into ours. The
//! [`file`](crate::file) room does the reading. Imports `port`.

mod metadata;
mod options;
pub mod pcap;
pub mod pcapng;
mod times;

pub use metadata::{Section, Skipped};

use super::Format;
use crate::port::{Block, Frame, Interface, Statistics};

/// A capture file being decoded.
///
/// ```
/// use forebay_net::format::{Format, read::{Decoder, Step}};
/// use forebay_net::port::{Frame, Interface};
/// let frame = Frame {
///     data: b"frame", wire_len: 60, time_ns: 7, interface: 0, direction: Default::default(), dropped_before: 0, ..Frame::default()
/// };
/// let interface = Interface::default();
/// let described = Format::Pcap.describe(&interface, 0);
/// let mut file = Format::Pcap.interface(&interface, &described, 262_144);
/// let begin = file.len();
/// file.resize(begin + Format::Pcap.frame_len(&frame, 262_144), 0);
/// Format::Pcap.put_frame(&mut file[begin..], &frame, &described, 262_144);
///
/// let mut decoder = Decoder::begin(&file).unwrap().unwrap(); // there are enough bytes, and it is a capture
/// let Step::Described(header) = decoder.next(&file).unwrap() else { panic!() };
/// let Step::Packet(found, len) = decoder.next(&file[header..]).unwrap() else { panic!() };
/// assert_eq!(found, frame);
/// assert!(matches!(decoder.next(&file[header + len..]), Ok(Step::More(16))));
/// ```
pub enum Decoder {
    /// The classic format.
    Pcap(pcap::Reader),
    /// pcap Next Generation.
    Pcapng(pcapng::Reader),
}

/// What lies at the beginning of the bytes a decoder was handed.
#[derive(Debug)]
pub enum Step<'a> {
    /// A packet, in a record of so many bytes.
    Packet(Frame<'a>, usize),
    /// A record of so many bytes that is no packet; it was taken note of.
    Other(usize),
    /// As [`Other`](Step::Other), and a section or an interface begins with it.
    Described(usize),
    /// Zeros where a packet should begin. [`Decoder::classify_zeros`] says what they are.
    Zeros,
    /// Nothing can be told before there are so many bytes, counted from the same beginning.
    More(usize),
}

/// What zeros are in the place of a packet of the classic format, where a record of zeros would be an empty packet without a
/// time: what is left of room that was allocated and never written, or packets after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeros {
    /// Something else follows, so they are packets.
    Packets,
    /// Nothing else follows, at least not within a mebibyte: the file ends before them.
    End,
    /// That cannot be told before there are this many bytes.
    More(usize),
}

/// Why a file cannot be read beyond some record.
///
/// ```
/// use forebay_net::format::read::Fault;
/// let fault = Fault::new("block", "says 8 bytes, the least is 12");
/// assert_eq!(fault.describe(500, 3), "block at byte 500 says 8 bytes, the least is 12: read 3 packets up to there");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    unit: &'static str,
    what: String,
}

impl Fault {
    /// The `unit` (block, packet, file header) in question `what`.
    pub fn new(unit: &'static str, what: impl Into<String>) -> Self {
        Fault {
            unit,
            what: what.into(),
        }
    }

    /// The fault as a message: the record at `offset` is the one, behind `packets` packets.
    pub fn describe(&self, offset: u64, packets: u64) -> String {
        let Fault { unit, what } = self;
        with_packets_read(&format!("{unit} at byte {offset} {what}"), packets)
    }

    /// What is wrong, without the place.
    pub fn what(&self) -> &str {
        &self.what
    }
}

/// How every message about a file that breaks off ends.
pub(crate) fn with_packets_read(what: &str, packets: u64) -> String {
    let s = if packets == 1 { "" } else { "s" };
    format!("{what}: read {packets} packet{s} up to there")
}

impl Decoder {
    /// Chooses by the first bytes; `None` while there are too few to tell.
    ///
    /// # Errors
    /// Neither format begins so.
    pub fn begin(bytes: &[u8]) -> Result<Option<Decoder>, Fault> {
        let Some(&magic) = bytes.first_chunk() else {
            return Ok(None);
        };
        if pcapng::begins(magic) {
            return Ok(Some(Decoder::Pcapng(pcapng::Reader::new())));
        }
        match pcap::Reader::begin(magic) {
            Some(reader) => Ok(Some(Decoder::Pcap(reader))),
            None => {
                let what = format!(
                    "begins with {:08x}, which neither pcap nor pcapng does",
                    u32::from_be_bytes(magic)
                );
                Err(Fault::new("file", what))
            }
        }
    }

    /// The packet at the beginning of `bytes` and the length of its record, the quick way, if it is of the
    /// commonest kind: little-endian, whole, in order, without options. `None` says
    /// nothing: [`next`](Decoder::next) does.
    #[inline(always)]
    pub fn packet<'a>(&self, bytes: &'a [u8]) -> Option<(Frame<'a>, usize)> {
        match self {
            Decoder::Pcapng(reader) => reader.plain(bytes),
            Decoder::Pcap(reader) => reader.plain(bytes),
        }
    }

    /// Whether `record`, of a packet that [`packet`](Decoder::packet) finds, is what
    /// [`Format::put_frame`] composes of it for an interface with the same number and resolution.
    #[inline(always)]
    pub(crate) fn is_as_composed(&self, record: &[u8]) -> bool {
        match self {
            Decoder::Pcapng(reader) => reader.is_as_composed(record),
            Decoder::Pcap(_) => false,
        }
    }

    /// Goes over the records that begin in the first `to` bytes by their lengths alone, and says
    /// where the last of them ends, possibly behind `bytes`.
    ///
    /// `None` says nothing: what is there may be broken, torn, or change how packets behind it are
    /// decoded, and only [`next`](Decoder::next) can tell. Otherwise
    /// [`for_packets`](Decoder::for_packets) decodes as this decoder would, and comes to the same
    /// end unless it finds a fault.
    pub(crate) fn walk(&self, bytes: &[u8], to: usize) -> Option<usize> {
        match self {
            Decoder::Pcapng(reader) => reader.walk(bytes, to),
            Decoder::Pcap(reader) => reader.walk(bytes, to),
        }
    }

    /// A decoder for the packets from here on, as long as nothing else comes that they depend on.
    pub(crate) fn for_packets(&self) -> Decoder {
        match self {
            Decoder::Pcapng(reader) => Decoder::Pcapng(reader.for_packets()),
            Decoder::Pcap(reader) => Decoder::Pcap(reader.clone()),
        }
    }

    /// Says what the zeros are that `bytes` begin with, after [`Step::Zeros`]; `is_all`: nothing follows `bytes` in the file.
    pub fn classify_zeros(&mut self, bytes: &[u8], is_all: bool) -> Zeros {
        match self {
            Decoder::Pcap(reader) => reader.classify_zeros(bytes, is_all),
            Decoder::Pcapng(_) => Zeros::Packets,
        }
    }

    /// An empty packet that [`next`](Decoder::next) found was taken; the next one is judged anew.
    pub fn took_empty(&mut self) {
        if let Decoder::Pcap(reader) = self {
            reader.took_empty();
        }
    }

    /// How many statistics blocks were taken note of, and the interface of the last one.
    pub(crate) fn last_statistics(&self) -> (u64, u32) {
        match self {
            Decoder::Pcap(_) => (0, 0),
            Decoder::Pcapng(reader) => reader.kept().last_statistics,
        }
    }

    /// Says what lies at the beginning of `bytes`, which go on where the last step ended.
    ///
    /// # Errors
    /// The record there is broken: nothing behind it can be read.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Fault> {
        match self {
            Decoder::Pcapng(reader) => reader.next(bytes),
            Decoder::Pcap(reader) => reader.next(bytes),
        }
    }

    /// Which format it is.
    pub fn format(&self) -> Format {
        match self {
            Decoder::Pcap(_) => Format::Pcap,
            Decoder::Pcapng(_) => Format::Pcapng,
        }
    }

    /// What the format calls its records.
    pub fn unit(&self) -> &'static str {
        match self {
            Decoder::Pcap(reader) => reader.unit(),
            Decoder::Pcapng(_) => "block",
        }
    }

    /// The interfaces so far, over all sections.
    pub fn interfaces(&self) -> &[Interface] {
        match self {
            Decoder::Pcap(reader) => reader.interfaces(),
            Decoder::Pcapng(reader) => &reader.kept().interfaces,
        }
    }

    /// What the file's statistics blocks say of each interface so far; the last block counts.
    pub fn recorded(&self) -> &[Option<Statistics>] {
        match self {
            Decoder::Pcap(reader) => reader.recorded(),
            Decoder::Pcapng(reader) => &reader.kept().recorded,
        }
    }

    /// The sections so far; the classic format has none.
    pub fn sections(&self) -> &[Section] {
        match self {
            Decoder::Pcap(_) => &[],
            Decoder::Pcapng(reader) => &reader.kept().sections,
        }
    }

    /// Blocks that belong into a copy and came since the last call.
    pub fn take_blocks(&mut self) -> Vec<Block> {
        match self {
            Decoder::Pcap(_) => Vec::new(),
            Decoder::Pcapng(reader) => std::mem::take(&mut reader.kept_mut().blocks),
        }
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn has_blocks(&self) -> bool {
        matches!(self, Decoder::Pcapng(reader) if !reader.kept().blocks.is_empty())
    }

    /// The blocks so far that are of no use here.
    pub fn skipped(&self) -> Skipped {
        match self {
            Decoder::Pcap(_) => Skipped::default(),
            Decoder::Pcapng(reader) => reader.kept().skipped,
        }
    }
}

/// The byte order of a file or section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    #[inline(always)]
    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    #[inline(always)]
    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    #[inline(always)]
    fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        }
    }

    /// The word at `at` of a head whose length the type proves.
    #[inline(always)]
    fn word<const N: usize>(self, head: &[u8; N], at: usize) -> u32 {
        self.u32([head[at], head[at + 1], head[at + 2], head[at + 3]])
    }

    /// The half word at `at`, likewise.
    #[inline(always)]
    fn half<const N: usize>(self, head: &[u8; N], at: usize) -> u16 {
        self.u16([head[at], head[at + 1]])
    }
}

/// The fixed part of a block's body, and the rest.
fn split_head<const N: usize>(body: &[u8]) -> Result<(&[u8; N], &[u8]), Fault> {
    let len = body.len();
    body.split_first_chunk().ok_or_else(|| {
        Fault::new(
            "block",
            format!("has {len} bytes, which is too few for its kind"),
        )
    })
}
