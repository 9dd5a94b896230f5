//! What a decoder finds at the beginning of the bytes.

use crate::port::Frame;
use forebay::error::Code;

/// What a decoder found at the beginning of the bytes.
#[derive(Debug)]
pub enum Step<'a> {
    /// A packet, and the length of its record in bytes.
    Packet(Frame<'a>, usize),
    /// A record of this length that is not a packet. The decoder noted its contents.
    Other(usize),
    /// Like [`Other`](Step::Other), and the record describes a section or an interface.
    Described(usize),
    /// Zeros where a packet should begin. Call [`Decoder::classify_zeros`](super::Decoder::classify_zeros) next.
    Zeros,
    /// This number of bytes is needed, counted from the same beginning.
    More(usize),
}

/// The meaning of zeros in place of a packet of the classic format. A record of zeros would be an empty packet without a time.
/// Normally the zeros are space that was allocated and never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeros {
    /// Something else follows, so they are packets.
    Packets,
    /// Nothing else follows, at least not within a mebibyte: the file ends before them.
    End,
    /// This number of bytes is needed to decide.
    More(usize),
}

/// Why a record cannot be read, and normally the file beyond it.
///
/// ```
/// use forebay_net::format::read::Fault;
/// let fault = Fault::new("block", "says 8 bytes, the least is 12");
/// assert_eq!(fault.describe(500, 3), "block at byte 500 says 8 bytes, the least is 12: read 3 packets up to there");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub(super) unit: &'static str,
    pub(super) what: String,
    pub(super) skip: Option<usize>,
}

impl Fault {
    /// A fault of a `unit` (block, packet, file header). `what` completes the sentence "block at byte 500 …".
    pub fn new(unit: &'static str, what: impl Into<String>) -> Self {
        Fault {
            unit,
            what: what.into(),
            skip: None,
        }
    }

    /// The length of the record, if it is a packet and the file can be read beyond it.
    pub fn skip(&self) -> Option<usize> {
        self.skip
    }

    /// The fault as a message about the record at `offset`, after `packets` packets.
    pub fn describe(&self, offset: u64, packets: u64) -> String {
        with_packets_read(&self.at(offset), packets)
    }

    pub(crate) fn at(&self, offset: u64) -> String {
        let Fault { unit, what, .. } = self;
        format!("{unit} at byte {offset} {what}")
    }

    /// What is wrong, without the offset.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Its number, as that of every error: [`Code::Damaged`].
    pub fn code(&self) -> Code {
        Code::Damaged
    }
}

/// Appends the number of packets read, as in every message about a fault.
pub(crate) fn with_packets_read(what: &str, packets: u64) -> String {
    let s = if packets == 1 { "" } else { "s" };
    format!("{what}: read {packets} packet{s} up to there")
}
