//! Capture file formats: encoding and decoding without I/O. Records are encoded directly into the store's buffers.
//!
//! [`pcapng`] is the default. It holds times in nanoseconds, interfaces, statistics, and the number of packets dropped before a packet.
//! [`pcap`], also called the classic format, is for programs that cannot read pcapng. It holds no interfaces, statistics or drops. Both
//! are written in little-endian byte order.

pub(crate) mod copied;
mod described;
pub mod pcap;
pub mod pcapng;
pub mod read;
pub(crate) mod sizes;
mod ticks;
pub(crate) mod time_index;

use crate::port::{Frame, InSection, Interface, Statistics};
pub use described::Described;
use forebay::{memory::copy_lines, store::Framing};
use std::{path::Path, sync::Arc};
use ticks::Ticks;

/// The formats of capture files that are written. Those that are read are [`read::Kind`].
///
/// ```
/// use forebay_net::{format::Format, port::{Frame, Interface, LinkType}};
/// let interface = Interface { name: "eth0".into(), link: LinkType::ETHERNET, snaplen: 262_144, ..Interface::default() };
/// let frame = Frame {
///     data: &[0xab; 61], wire_len: 1000, time_ns: 7, dropped_before: 3, ..Frame::default()
/// };
/// let format = Format::Pcapng;
/// let described = format.describe(&interface, 0);
/// let mut file = format.header("my program 1.0");
/// file.extend(format.interface(&interface, &described, 262_144));
/// let mut slot = vec![0xff; format.frame_len(&frame, 262_144)];
/// format.put_frame(&mut slot, &frame, &described, 262_144);
/// assert_eq!(slot.len(), 32 + 64 + 16); // the loss before the packet is in an option
/// assert_eq!(slot[28..89], [0xab; 61]);
/// assert_eq!(Format::Pcap.frame_len(&frame, 60), 16 + 60);
/// assert!(Format::Pcap.framing().least_padding().is_none()); // so it is written through the page cache
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap Next Generation.
    Pcapng,
    /// The classic format.
    Pcap,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 2] = [Format::Pcapng, Format::Pcap];

    /// `pcapng` or `pcap`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Pcapng => "pcapng",
            Format::Pcap => "pcap",
        }
    }

    /// The format with this name.
    ///
    /// ```
    /// use forebay_net::format::Format;
    /// assert_eq!(Format::named("pcapng"), Some(Format::Pcapng));
    /// assert_eq!(Format::named("snoop"), None);
    /// ```
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The format for a file with this name: classic for `.pcap` and `.cap`, pcapng for every other name. `.gz` and `.zst` at the
    /// end are ignored.
    ///
    /// ```
    /// use forebay_net::format::Format;
    /// assert_eq!(Format::of_path("a/b.pcap"), Format::Pcap);
    /// assert_eq!(Format::of_path("a/b.pcap.gz"), Format::Pcap);
    /// assert_eq!(Format::of_path("-"), Format::Pcapng);
    /// ```
    pub fn of_path(path: impl AsRef<Path>) -> Format {
        let path = path.as_ref();
        let ending = |path: &Path| {
            let ending = path.extension().and_then(|ending| ending.to_str());
            ending.unwrap_or_default().to_ascii_lowercase()
        };
        let name = match ending(path).as_str() {
            "gz" | "zst" => ending(path.file_stem().unwrap_or_default().as_ref()),
            name => name.into(),
        };
        match name.as_str() {
            "pcap" | "cap" => Format::Pcap,
            _ => Format::Pcapng,
        }
    }

    /// The largest number of bytes of a record or block in a file with this snapshot length. `copies`: it may contain options of
    /// other files.
    pub fn max_record_bytes(self, snaplen: u32, copies: bool) -> usize {
        // In either format the header before a frame, with our own options and padding, has fewer than 64 bytes.
        let max = pcapng::MAX_DESCRIPTION.max(snaplen as usize + 64);
        max + if copies { copied::MAX_OPTIONS } else { 0 }
    }

    /// How the store finds record boundaries and pads in this format.
    pub fn framing(self) -> Arc<dyn Framing> {
        match self {
            Format::Pcapng => Arc::new(pcapng::Blocks),
            Format::Pcap => Arc::new(pcap::Records),
        }
    }

    /// Determines the encoding of an interface that has this number in the file.
    pub fn describe(self, interface: &Interface, number: u32) -> Described {
        let ticks = match self {
            Format::Pcapng => Ticks::of(interface.resolution),
            Format::Pcap => pcap::ticks(interface.resolution),
        };
        Described { number, ticks }
    }

    /// The beginning of a file, before any interface: pcapng's section header, which names the `application`; empty in the
    /// classic format.
    pub fn header(self, application: &str) -> Vec<u8> {
        self.header_of_copy(application, None)
    }

    /// Like [`header`](Format::header), for a copy of this section of another file: with its machine, its operating system and its
    /// comments.
    pub fn header_of_copy(self, application: &str, of: Option<&InSection>) -> Vec<u8> {
        match self {
            Format::Pcapng => pcapng::header(application, of),
            Format::Pcap => Vec::new(),
        }
    }

    /// The description of an interface, which precedes its first packet: a block, or the header of the classic format, which
    /// describes only the first interface.
    pub fn interface(self, of: &Interface, described: &Described, snaplen: u32) -> Vec<u8> {
        match (self, described.number) {
            (Format::Pcapng, _) => pcapng::interface(of, described.ticks, snaplen),
            (Format::Pcap, 0) => pcap::header(of, described.ticks, snaplen),
            (Format::Pcap, _) => Vec::new(),
        }
    }

    /// The length in the file of `frame`, truncated at `snaplen`, in bytes.
    #[inline]
    pub fn frame_len(self, frame: &Frame<'_>, snaplen: u32) -> usize {
        match self {
            Format::Pcapng => pcapng::frame_len(frame, snaplen),
            Format::Pcap => pcap::frame_len(frame, snaplen),
        }
    }

    /// Encodes `frame` into `slot`.
    ///
    /// # Panics
    /// May panic, or write a malformed record, if `slot` does not have exactly [`frame_len`](Format::frame_len) bytes.
    #[inline(always)]
    pub fn put_frame(
        self,
        slot: &mut [u8],
        frame: &Frame<'_>,
        described: &Described,
        snaplen: u32,
    ) {
        let (at, data) = self.put_around(slot, frame, described, snaplen);
        copy_lines(data, &mut slot[at..][..data.len()]);
    }

    /// As [`put_frame`](Self::put_frame), except the packet's data. Returns their offset in `slot` and the data, which are to be copied last.
    #[inline(always)]
    pub(crate) fn put_around<'a>(
        self,
        slot: &mut [u8],
        frame: &Frame<'a>,
        described: &Described,
        snaplen: u32,
    ) -> (usize, &'a [u8]) {
        match self {
            Format::Pcapng => pcapng::put_around(slot, frame, described, snaplen),
            Format::Pcap => pcap::put_around(slot, frame, described, snaplen),
        }
    }

    /// The end of a file, for each interface: a statistics block; empty in the classic format.
    pub fn statistics(self, counts: &Statistics, described: &Described) -> Vec<u8> {
        match self {
            Format::Pcapng => pcapng::statistics(counts, described),
            Format::Pcap => Vec::new(),
        }
    }
}
