//! The classic capture format with nanoseconds: a 24-byte header, 16 bytes before each frame.
//!
//! ```text
//!  a1b23c4d │ 2.4 │ 0 │ 0 │ snaplen │ link      sec │ nsec │ caplen │ wire_len │ data …
//!  └──────────── file header ─────────────┘     └────── one record ─────────────────┘
//! ```
//! One link type for all, no interface names, no drop counts: losses are told on stderr only.
//! Source: draft-ietf-opsawg-pcap.
//!
//! ```
//! use forebay_net::{format::pcap, port::Frame};
//! let frame = Frame {
//!     data: b"frame", wire_len: 5, time_ns: 3_000_000_007, interface: 0,
//!     direction: Default::default(), dropped_before: 0,
//! };
//! let mut file = pcap::header(&[], 262_144);
//! let begin = file.len();
//! file.resize(begin + pcap::frame_len(&frame, 262_144), 0);
//! pcap::put_frame(&mut file[begin..], &frame, 262_144);
//! assert_eq!((begin, file.len()), (24, 24 + 16 + 5));
//! assert_eq!(file[24..32], [3, 0, 0, 0, 7, 0, 0, 0]); // seconds and nanoseconds
//! ```

use super::sizes::{kept, put, word};
use crate::port::{Frame, Interface, LinkType};
use forebay::store::{Framing, Whole};

const MAGIC_NS: u32 = 0xa1b2_3c4d;
const VERSION: u32 = 2 | 4 << 16;
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// The file header; the link type is that of the first interface.
pub fn header(interfaces: &[Interface], snaplen: u32) -> Vec<u8> {
    let link = interfaces.first().map_or(LinkType::ETHERNET, |i| i.link);
    [MAGIC_NS, VERSION, 0, 0, snaplen, link.0 as u32]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect()
}

/// Bytes of one record.
#[inline]
pub fn frame_len(frame: &Frame<'_>, snaplen: u32) -> usize {
    RECORD_HEADER + kept(frame, snaplen).len()
}

/// Composes one record into `slot`, which has exactly [`frame_len`] bytes.
#[inline]
pub fn put_frame(slot: &mut [u8], frame: &Frame<'_>, snaplen: u32) {
    let data = kept(frame, snaplen);
    put(slot, 0, (frame.time_ns / 1_000_000_000) as u32);
    put(slot, 4, (frame.time_ns % 1_000_000_000) as u32);
    put(slot, 8, data.len() as u32);
    put(slot, 12, frame.wire_len);
    slot[RECORD_HEADER..].copy_from_slice(data);
}

/// Classic records, as the store cuts them. They cannot be padded.
pub struct Records;

impl Framing for Records {
    fn last_whole(&self, bytes: &[u8]) -> Whole {
        let mut whole = Whole::default();
        // Only a file begins so: a packet of that second and that very nanosecond is not expected.
        if word(bytes, 0) == Some(MAGIC_NS) && word(bytes, 4).is_none_or(|v| v == VERSION) {
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
    fn a_header_cut_short_is_no_record() {
        let header = header(&[], 100);
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
