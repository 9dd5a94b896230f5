//! Capture file formats: pure encoding, no I/O. Records are composed where the store wants them.
//!
//! [`pcapng`] is the default and keeps everything: nanoseconds, interfaces, drop counts where the
//! gap is, statistics. [`pcap`] is for what still reads nothing else; it has no place for drops.
//! Both are little-endian. Imports `port` and the store's `Framing`; does no I/O.

pub(crate) mod copied;
pub mod pcap;
pub mod pcapng;
pub mod read;
mod sizes;
mod ticks;

use crate::port::{Frame, InSection, Interface, Statistics};
use forebay::store::Framing;
use std::{path::Path, sync::Arc};
use ticks::Ticks;

/// The two formats that captures are written in.
///
/// ```
/// use forebay_net::{format::Format, port::{Frame, Interface, LinkType}};
/// let interface = Interface { name: "eth0".into(), link: LinkType::ETHERNET, snaplen: 262_144, ..Interface::default() };
/// let frame = Frame {
///     data: &[0xab; 61], wire_len: 1000, time_ns: 7, interface: 0,
///     direction: Default::default(), dropped_before: 3, ..Frame::default()
/// };
/// let format = Format::Pcapng;
/// let described = format.describe(&interface, 0);
/// let mut file = format.header("my program 1.0");
/// file.extend(format.interface(&interface, &described, 262_144));
/// let mut slot = vec![0xff; format.frame_len(&frame, 262_144)];
/// format.put_frame(&mut slot, &frame, &described, 262_144);
/// assert_eq!(slot.len(), 32 + 64 + 16); // the packet's loss is told in an option
/// assert_eq!(slot[28..89], [0xab; 61]);
/// assert_eq!(Format::Pcap.frame_len(&frame, 60), 16 + 60);
/// assert!(Format::Pcap.framing().least_padding().is_none()); // so: through the page cache
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap Next Generation.
    Pcapng,
    /// The classic format.
    Pcap,
}

/// How an interface stands in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// Its number in the file.
    number: u32,
    ticks: Ticks,
}

impl Described {
    /// Whether packets of `interface`, as number `number` of another pcapng file, stand in this one as in that.
    pub(crate) fn is_as(self, interface: &Interface, number: u32) -> bool {
        self.number == number && self.ticks.resolution() == interface.resolution
    }

    /// Whether it tells times apart that the other one does not.
    pub fn is_finer_than(self, other: Described) -> bool {
        self.ticks.per_second() > other.ticks.per_second()
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

    /// The most bytes of anything in a file whose packets are cut at `snaplen`; `copies`: options of other files may be in it.
    pub fn longest_record(self, snaplen: u32, copies: bool) -> usize {
        // Either of our headers before a frame, options and padding included, is below 64 bytes.
        let longest = pcapng::LONGEST_DESCRIPTION.max(snaplen as usize + 64);
        longest + if copies { copied::MAX_OPTIONS } else { 0 }
    }

    /// What the store must know of this format.
    pub fn framing(self) -> Arc<dyn Framing> {
        match self {
            Format::Pcapng => Arc::new(pcapng::Blocks),
            Format::Pcap => Arc::new(pcap::Records),
        }
    }

    /// How an interface will stand in a file, as its interface number `number`.
    pub fn describe(self, interface: &Interface, number: u32) -> Described {
        let ticks = match self {
            Format::Pcapng => Ticks::of(interface.resolution),
            Format::Pcap => pcap::ticks(interface.resolution),
        };
        Described { number, ticks }
    }

    /// What a file begins with, before any interface is known: pcapng's section header, which
    /// names the `application`.
    pub fn header(self, application: &str) -> Vec<u8> {
        self.header_of_copy(application, None)
    }

    /// As [`header`](Format::header), of a file that begins as a copy of this section of another one: its machine, its
    /// system and its comments stand in the copy as well.
    pub fn header_of_copy(self, application: &str, of: Option<&InSection>) -> Vec<u8> {
        match self {
            Format::Pcapng => pcapng::header(application, of),
            Format::Pcap => Vec::new(),
        }
    }

    /// What tells of an interface, before its first packet: a description block, or the header of
    /// the classic format, which has room for the first interface only.
    pub fn interface(self, of: &Interface, described: &Described, snaplen: u32) -> Vec<u8> {
        match (self, described.number) {
            (Format::Pcapng, _) => pcapng::interface(of, described.ticks, snaplen),
            (Format::Pcap, 0) => pcap::header(of, described.ticks, snaplen),
            (Format::Pcap, _) => Vec::new(),
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
    #[inline]
    pub fn put_frame(
        self,
        slot: &mut [u8],
        frame: &Frame<'_>,
        described: &Described,
        snaplen: u32,
    ) {
        match self {
            Format::Pcapng => pcapng::put_frame(slot, frame, described, snaplen),
            Format::Pcap => pcap::put_frame(slot, frame, described, snaplen),
        }
    }

    /// What a file ends with, for each interface: a statistics block, or nothing in the classic
    /// format.
    pub fn statistics(self, counts: &Statistics, described: &Described) -> Vec<u8> {
        match self {
            Format::Pcapng => pcapng::statistics(counts, described),
            Format::Pcap => Vec::new(),
        }
    }
}
