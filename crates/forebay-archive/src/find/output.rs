//! The packets that were found, as a capture file.

use super::read::{Packet, Source};
use anyhow::{Context, Result, bail};
use forebay_net::{
    format::{Described, Format},
    port::{Interface, Resolution, Statistics},
};
use std::io::Write;

const SNAPLEN: u32 = 262_144;

/// A capture file that is being written.
pub struct Output<W> {
    to: W,
    name: String,
    format: Format,
    /// Interfaces that are described, and their counts.
    written: Vec<Interfaced>,
    slot: Vec<u8>,
    pub packets: u64,
    /// Packets that the sources lost, as marked in the file.
    pub lost: u64,
    last_ns: u64,
}

struct Interfaced {
    described: Described,
    link: u16,
    packets: u64,
    lost: u64,
}

impl<W: Write> Output<W> {
    /// Begins a file of this format.
    ///
    /// # Errors
    /// Writing failed.
    pub fn begin(to: W, name: &str, format: Format) -> Result<Output<W>> {
        let mut output = Output {
            to,
            name: name.into(),
            format,
            written: Vec::new(),
            slot: Vec::new(),
            packets: 0,
            lost: 0,
            last_ns: 0,
        };
        output.write_all(&format.header(concat!("forebay-archive ", env!("CARGO_PKG_VERSION"))))?;
        Ok(output)
    }

    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.to
            .write_all(bytes)
            .with_context(|| format!("{}: writing", self.name))
    }

    /// Describes interfaces that are new. A classic file has room for the first one only, which stands for all.
    fn describe(&mut self, sources: &[Source]) -> Result<()> {
        let room = match self.format {
            Format::Pcap => 1,
            Format::Pcapng => sources.len(),
        };
        for source in sources[..room.min(sources.len())]
            .iter()
            .skip(self.written.len())
        {
            let number = self.written.len() as u32;
            let mut interface = named(source);
            if self.format == Format::Pcap {
                // The classic format has one time unit for all packets.
                interface.resolution = Resolution::NANOSECONDS;
            }
            let described = self.format.describe(&interface, number);
            let link = interface.link;
            self.write_all(&self.format.interface(&interface, &described, SNAPLEN))?;
            self.written.push(Interfaced {
                described,
                link: link.0,
                packets: 0,
                lost: 0,
            });
        }
        Ok(())
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// Writing failed, or the format cannot hold packets of this link type, too.
    pub fn packet(&mut self, packet: &Packet, sources: &[Source]) -> Result<()> {
        let at = match self.format {
            Format::Pcapng => {
                self.describe(&sources[..=packet.interface])?;
                packet.interface
            }
            Format::Pcap => {
                self.describe(&sources[packet.interface..])?;
                0
            }
        };
        if self.written[at].link != sources[packet.interface].interface.link.0 {
            bail!(
                "{}: a pcap file has one link type, and the packets have several. Write a file whose name ends with .pcapng",
                self.name
            );
        }
        let interface = &mut self.written[at];
        interface.packets += 1;
        interface.lost += packet.dropped_before;
        self.packets += 1;
        self.lost += packet.dropped_before;
        self.last_ns = packet.time_ns;
        let described = interface.described;
        let frame = packet.frame(packet.interface as u32);
        let mut slot = std::mem::take(&mut self.slot);
        slot.clear();
        slot.resize(self.format.frame_len(&frame, SNAPLEN), 0);
        self.format
            .put_frame(&mut slot, &frame, &described, SNAPLEN);
        let written = self.write_all(&slot);
        self.slot = slot;
        written
    }

    /// Ends the file with the counts of each interface. Returns how many packets the sources lost.
    ///
    /// # Errors
    /// Writing failed.
    pub fn finish(mut self, sources: &[Source]) -> Result<u64> {
        self.describe(sources)?;
        if self.written.is_empty() {
            // So that every program reads a file without packets.
            let none = Interface::default();
            let described = self.format.describe(&none, 0);
            self.write_all(&self.format.interface(&none, &described, SNAPLEN))?;
        }
        if self.format == Format::Pcap {
            self.lost += sources.iter().map(|it| it.lost_after).sum::<u64>();
            self.written.clear(); // it has no place for counts
        }
        for (interface, source) in std::mem::take(&mut self.written).iter().zip(sources) {
            let counts = Statistics {
                time_ns: self.last_ns,
                dropped: Some(interface.lost + source.lost_after),
                delivered: Some(interface.packets),
                ..Statistics::default()
            };
            self.lost += source.lost_after;
            self.write_all(&self.format.statistics(&counts, &interface.described))?;
        }
        self.to
            .flush()
            .with_context(|| format!("{}: writing", self.name))?;
        Ok(self.lost)
    }
}

/// The interface with the name of its sensor.
fn named(source: &Source) -> Interface {
    let name = match source.interface.name.as_str() {
        "" => source.sensor.to_string(),
        name => format!("{}/{name}", source.sensor),
    };
    Interface {
        name,
        ..source.interface.clone()
    }
}
