//! Capture file formats: pure encoding, no I/O. Records are composed where the store wants them.
//!
//! [`pcapng`] is the default and keeps everything: nanoseconds, interfaces, drop counts where the
//! gap is, statistics. [`pcap`] is for what still reads nothing else; it has no place for drops.
//! Both are little-endian. Imports `port` and the store's `Framing`; does no I/O.

pub mod pcap;
pub mod pcapng;
mod sizes;

use crate::port::{Frame, Interface};
use forebay::store::Framing;
use std::{path::Path, sync::Arc};

/// The two formats that captures are written in.
///
/// ```
/// use forebay_net::{format::Format, port::Frame};
/// let frame = Frame {
///     data: &[1; 60], wire_len: 60, time_ns: 0, interface: 0, direction: Default::default(), dropped_before: 0,
/// };
/// let sizes = [Format::Pcap, Format::Pcapng].map(|format| format.frame_len(&frame, 262_144));
/// assert_eq!(sizes, [76, 92]);
/// assert!(Format::Pcap.framing().least_padding().is_none()); // so: through the page cache
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap Next Generation.
    Pcapng,
    /// The classic format, with nanoseconds.
    Pcap,
}

/// What stands in a file about one interface at the end. `None` is left out.
///
/// ```
/// use forebay_net::format::{Format, Statistics};
/// let counts = Statistics { received: 10, dropped: Some(3), delivered: 7, ..Statistics::default() };
/// let block = Format::Pcapng.trailer(&[counts]);
/// assert_eq!(block[..4], 5u32.to_le_bytes()); // an interface statistics block
/// assert!(Format::Pcap.trailer(&[counts]).is_empty()); // the classic format has no place for it
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The interface's number in the file.
    pub interface: u32,
    /// When these counts were taken, in nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// When the capture began and ended.
    pub span_ns: Option<(u64, u64)>,
    /// Frames the source saw for us, drops included.
    pub received: u64,
    /// Of these, dropped by the source.
    pub dropped: Option<u64>,
    /// Lost by the interface before the source saw them.
    pub interface_dropped: Option<u64>,
    /// Frames we took from the source.
    pub delivered: u64,
}

impl Statistics {
    /// All that there can be, for the room that it takes.
    pub(crate) fn full() -> Self {
        Statistics {
            span_ns: Some((0, 0)),
            dropped: Some(0),
            interface_dropped: Some(0),
            ..Statistics::default()
        }
    }
}

impl Format {
    /// `.pcap` and `.cap` write the classic format, every other name pcapng.
    ///
    /// ```
    /// use forebay_net::format::Format;
    /// assert_eq!(Format::of_path("a/b.pcap".as_ref()), Format::Pcap);
    /// assert_eq!(Format::of_path("-".as_ref()), Format::Pcapng);
    /// ```
    pub fn of_path(path: &Path) -> Format {
        let name = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        if name.eq_ignore_ascii_case("pcap") || name.eq_ignore_ascii_case("cap") {
            Format::Pcap
        } else {
            Format::Pcapng
        }
    }

    /// What the store must know of this format.
    pub fn framing(self) -> Arc<dyn Framing> {
        match self {
            Format::Pcapng => Arc::new(pcapng::Blocks),
            Format::Pcap => Arc::new(pcap::Records),
        }
    }

    /// What a file begins with. `application` goes into pcapng's section header.
    pub fn header(self, interfaces: &[Interface], snaplen: u32, application: &str) -> Vec<u8> {
        match self {
            Format::Pcapng => pcapng::header(interfaces, snaplen, application),
            Format::Pcap => pcap::header(interfaces, snaplen),
        }
    }

    /// Bytes that `frame`, cut at `snaplen`, takes in the file.
    #[inline]
    pub fn frame_len(self, frame: &Frame<'_>, snaplen: u32) -> usize {
        match self {
            Format::Pcapng => pcapng::frame_len(frame, snaplen),
            Format::Pcap => pcap::frame_len(frame, snaplen),
        }
    }

    /// Composes `frame` into `slot`, which has exactly [`frame_len`](Format::frame_len) bytes.
    /// `interface` is its number in the file.
    #[inline]
    pub fn put_frame(self, slot: &mut [u8], frame: &Frame<'_>, interface: u32, snaplen: u32) {
        match self {
            Format::Pcapng => pcapng::put_frame(slot, frame, interface, snaplen),
            Format::Pcap => pcap::put_frame(slot, frame, snaplen),
        }
    }

    /// What a file ends with: one statistics block an interface, or nothing in the classic format.
    pub fn trailer(self, statistics: &[Statistics]) -> Vec<u8> {
        match self {
            Format::Pcapng => pcapng::trailer(statistics),
            Format::Pcap => Vec::new(),
        }
    }
}
