//! Decodes capture files, without I/O.
//!
//! ```text
//!  bytes so far   │ block │ block │ blo…        Decoder::next, again and again:
//!                 └───────┴───────┴────▶        Packet · Other · Described · More(bytes needed)
//! ```
//! The caller owns the bytes and decides when to read more. A frame borrows these bytes, so the decoder neither copies nor allocates
//! for a packet. To put a packet back, the caller lets the decoder read the same bytes again.
//!
//! [`pcap`] and [`pcapng`] each decode one format: they implement the trait of `records`. Another format needs a file like these, and a
//! variant of [`Decoder`] and of [`Kind`]. `times` converts times to nanoseconds. The module [`file`](crate::file) reads files.

mod body;
mod metadata;
mod options;
pub mod pcap;
pub mod pcapng;
mod records;
mod step;
mod times;

pub use metadata::{Section, Skipped};
pub(crate) use step::with_packets_read;
pub use step::{Fault, Step, Zeros};

use crate::port::{Block, Frame, Interface, Statistics};
use records::Records;

/// A capture file being decoded.
///
/// ```
/// use forebay_net::format::{Format, read::{Decoder, Step}};
/// use forebay_net::port::{Frame, Interface};
/// let frame = Frame {
///     data: b"frame", wire_len: 60, time_ns: 7, ..Frame::default()
/// };
/// let interface = Interface::default();
/// let described = Format::Pcap.describe(&interface, 0);
/// let mut file = Format::Pcap.interface(&interface, &described, 262_144);
/// let begin = file.len();
/// file.resize(begin + Format::Pcap.frame_len(&frame, 262_144), 0);
/// Format::Pcap.put_frame(&mut file[begin..], &frame, &described, 262_144);
///
/// let mut decoder = Decoder::begin(&file).unwrap().unwrap(); // enough bytes, and a capture file
/// let Step::Described(header) = decoder.next(&file).unwrap() else { panic!() };
/// let Step::Packet(found, len) = decoder.next(&file[header..]).unwrap() else { panic!() };
/// assert_eq!(found, frame);
/// assert!(matches!(decoder.next(&file[header + len..]), Ok(Step::More(16))));
/// ```
#[non_exhaustive]
pub enum Decoder {
    /// The classic format.
    Pcap(pcap::Reader),
    /// pcap Next Generation.
    Pcapng(pcapng::Reader),
}

/// The format of a file that is read. Those of files that are written are [`Format`](super::Format).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The classic format.
    Pcap,
    /// pcap Next Generation.
    Pcapng,
}

impl Kind {
    /// `pcap` or `pcapng`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Pcap => "pcap",
            Kind::Pcapng => "pcapng",
        }
    }
}

/// Evaluates an expression with the reader of the file's format.
macro_rules! reader_of {
    ($decoder:expr, $reader:ident => $value:expr) => {
        match $decoder {
            Decoder::Pcapng($reader) => $value,
            Decoder::Pcap($reader) => $value,
        }
    };
}

impl Decoder {
    /// Creates a decoder for a file that begins with these bytes; `None`: there are too few bytes.
    ///
    /// # Errors
    /// The file has neither format.
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

    /// The fast path for the most common packets: little-endian, complete, well-formed, without options. Returns the packet at the
    /// beginning of `bytes` and the length of its record. `None`: call [`next`](Decoder::next).
    #[inline(always)]
    pub fn packet<'a>(&self, bytes: &'a [u8]) -> Option<(Frame<'a>, usize)> {
        reader_of!(self, reader => reader.plain(bytes))
    }

    /// Whether `record`, of a packet that [`packet`](Decoder::packet) found, equals what
    /// [`Format::put_frame`](super::Format::put_frame) writes for an interface with the same number and resolution.
    #[inline(always)]
    pub(crate) fn is_as_composed(&self, record: &[u8]) -> bool {
        reader_of!(self, reader => reader.is_as_composed(record))
    }

    /// Walks the records that begin in the first `to` bytes, by their lengths only. Returns the end of the last one, which may be
    /// beyond `bytes`.
    ///
    /// `None`: a record may be malformed or incomplete, or change how later packets are decoded; call [`next`](Decoder::next).
    /// Otherwise the decoder of [`for_packets`](Decoder::for_packets) decodes these records like this one, and reaches the same end
    /// unless it finds a fault.
    pub(crate) fn walk(&self, bytes: &[u8], to: usize) -> Option<usize> {
        reader_of!(self, reader => reader.walk(bytes, to))
    }

    /// A decoder for the packets from here on, up to a record that changes how packets are decoded.
    pub(crate) fn for_packets(&self) -> Decoder {
        match self {
            Decoder::Pcapng(reader) => Decoder::Pcapng(reader.for_packets()),
            Decoder::Pcap(reader) => Decoder::Pcap(reader.clone()),
        }
    }

    /// Classifies the zeros at the beginning of `bytes`, after [`Step::Zeros`]. `is_all`: the file ends after `bytes`.
    pub fn classify_zeros(&mut self, bytes: &[u8], is_all: bool) -> Zeros {
        reader_of!(self, reader => reader.classify_zeros(bytes, is_all))
    }

    /// Reports that an empty packet, which [`next`](Decoder::next) found, was taken, so that later zeros are classified again.
    pub fn took_empty(&mut self) {
        reader_of!(self, reader => reader.took_empty())
    }

    /// The number of statistics blocks so far, and the interface of the last one.
    pub(crate) fn last_statistics(&self) -> (u64, u32) {
        reader_of!(self, reader => reader.last_statistics())
    }

    /// Decodes the record at the beginning of `bytes`, which continue where the last record ended.
    ///
    /// # Errors
    /// The record is malformed: nothing after it can be read, unless [`Fault::skip`] has its length.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Fault> {
        reader_of!(self, reader => reader.next(bytes))
    }

    /// The format of the file.
    pub fn kind(&self) -> Kind {
        match self {
            Decoder::Pcap(_) => Kind::Pcap,
            Decoder::Pcapng(_) => Kind::Pcapng,
        }
    }

    /// The format's name for its records.
    pub fn unit(&self) -> &'static str {
        reader_of!(self, reader => reader.unit())
    }

    /// The interfaces so far, over all sections.
    pub fn interfaces(&self) -> &[Interface] {
        reader_of!(self, reader => reader.interfaces())
    }

    /// The counts in each interface's last statistics block so far.
    pub fn recorded(&self) -> &[Option<Statistics>] {
        reader_of!(self, reader => reader.recorded())
    }

    /// The sections so far; the classic format has none.
    pub fn sections(&self) -> &[Section] {
        reader_of!(self, reader => reader.sections())
    }

    /// The blocks since the last call that belong in a copy.
    pub fn take_blocks(&mut self) -> Vec<Block> {
        reader_of!(self, reader => reader.take_blocks())
    }

    /// Whether [`take_blocks`](Decoder::take_blocks) would return any.
    #[inline]
    pub(crate) fn has_blocks(&self) -> bool {
        reader_of!(self, reader => reader.has_blocks())
    }

    /// The blocks skipped so far, by kind.
    pub fn skipped(&self) -> Skipped {
        reader_of!(self, reader => reader.skipped())
    }
}
