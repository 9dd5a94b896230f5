//! The format pcap, also called the classic format: a file header of 24 bytes, and a header of 16 bytes before each frame. Times are
//! in nanoseconds, or in microseconds if the source has no better resolution.
//!
//! ```text
//!  a1b23c4d │ 2.4 │ 0 │ 0 │ snaplen │ link      sec │ nsec │ caplen │ wire_len │ data …
//!  └──────────── file header ─────────────┘     └────── one record ─────────────────┘
//! ```
//! A file has one link type, no interface names and no drop counts.
//!
//! Source: draft-ietf-opsawg-pcap.

use super::{
    copied::option,
    described::Described,
    sizes::{captured, put, word},
    ticks::Ticks,
};
use crate::port::{DEFAULT_SNAPLEN, Frame, InFile, Interface, Resolution};
use forebay::store::{Framing, Whole};

const IF_FCSLEN: u16 = 13;
const FCS_LEN_GIVEN: u32 = 0x0400_0000;
/// A session with this snapshot length truncates no packet.
const NO_LIMIT: u32 = DEFAULT_SNAPLEN;
const MAGIC_NS: u32 = 0xa1b2_3c4d;
const MAGIC_US: u32 = 0xa1b2_c3d4;
const VERSION: u32 = 2 | 4 << 16;
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// The time unit of a file whose first interface has this resolution: nanoseconds or microseconds.
pub(super) fn ticks(resolution: Resolution) -> Ticks {
    match Ticks::of(resolution) {
        Ticks::Decimal(1_000..) => Ticks::Decimal(1_000),
        _ => Ticks::Nanoseconds,
    }
}

/// The file header. A copy of classic files has their snapshot length, or the largest of them. The snapshot length of a pcapng
/// interface may be too small for packets of other interfaces, and readers rely on this field. Therefore a copy of a pcapng file
/// has the session's.
pub(super) fn header(interface: &Interface, ticks: Ticks, snaplen: u32) -> Vec<u8> {
    let in_file = interface.in_file.as_deref();
    let snaplen = match in_file {
        Some(InFile {
            classic: Some(_), ..
        }) if snaplen >= NO_LIMIT => interface.snaplen,
        Some(InFile {
            classic: Some(_), ..
        }) => snaplen.min(interface.snaplen),
        _ => snaplen,
    };
    let link = u32::from(interface.link.0) | in_file.map_or(0, upper_half);
    let magic = match ticks {
        Ticks::Nanoseconds => MAGIC_NS,
        _ => MAGIC_US,
    };
    [magic, VERSION, 0, 0, snaplen, link]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect()
}

/// The upper half of the link-type field: the value of a classic file that is copied, or the length of frame check sequences.
fn upper_half(in_file: &InFile) -> u32 {
    if let Some(upper_half) = in_file.classic {
        return upper_half;
    }
    // pcapng has it in bits, but some programs write bytes. Here it is in units of 16 bits.
    let units = match option(&in_file.options, IF_FCSLEN) {
        Some(&[bits]) if bits.is_multiple_of(16) => bits / 16,
        Some(&[bytes]) if bytes <= 8 => bytes / 2,
        _ => return 0,
    };
    match units {
        0..=15 => u32::from(units) << 28 | FCS_LEN_GIVEN,
        _ => 0,
    }
}

/// Length of one record in bytes.
#[inline]
pub(super) fn frame_len(frame: &Frame<'_>, snaplen: u32) -> usize {
    RECORD_HEADER + captured(frame, snaplen).len()
}

/// Encodes one record into `slot`, which has exactly [`frame_len`] bytes, except the packet's data. Returns their offset and the data.
#[inline]
pub(super) fn put_around<'a>(
    slot: &mut [u8],
    frame: &Frame<'a>,
    described: &Described,
    snaplen: u32,
) -> (usize, &'a [u8]) {
    let data = captured(frame, snaplen);
    let (seconds, ns) = (frame.time_ns / 1_000_000_000, frame.time_ns % 1_000_000_000);
    put(slot, 0, seconds as u32);
    put(slot, 4, described.ticks.count(ns) as u32);
    put(slot, 8, data.len() as u32);
    put(slot, 12, frame.wire_len);
    (RECORD_HEADER, data)
}

/// Finds the boundaries of classic records for the store. They cannot be padded.
pub struct Records;

impl Framing for Records {
    fn last_whole(&self, bytes: &[u8]) -> Whole {
        let mut whole = Whole::default();
        // Only a file header begins with these words. No packet is expected at that second and fraction.
        let is_magic = matches!(word(bytes, 0), Some(MAGIC_NS | MAGIC_US));
        if is_magic && word(bytes, 4).is_none_or(|v| v == VERSION) {
            if bytes.len() < FILE_HEADER {
                return whole;
            }
            whole.bytes = FILE_HEADER;
        }
        while let Some(caplen) = word(bytes, whole.bytes + 8) {
            let end = whole.bytes + RECORD_HEADER + caplen as usize;
            if end > bytes.len() {
                break;
            }
            whole.bytes = end;
            whole.records += 1;
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_header_is_not_a_record() {
        let interface = Interface::default();
        let header = header(&interface, Ticks::Nanoseconds, 100);
        for len in 0..FILE_HEADER {
            assert_eq!(
                Records.last_whole(&header[..len]),
                Whole::default(),
                "{len} bytes"
            );
        }
        let whole = Whole {
            bytes: FILE_HEADER,
            records: 0,
        };
        assert_eq!(Records.last_whole(&header), whole);
    }
}
