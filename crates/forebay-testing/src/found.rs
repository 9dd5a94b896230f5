//! The contents of a pcapng stream of simulated packets, read with an independent parser.
#![allow(missing_docs)]

use pcap_parser::{
    Block, OptionCode, PcapBlockOwned, PcapError, PcapNGOption, PcapNGReader,
    traits::{PcapNGPacketBlock, PcapReaderIterator},
};
use std::{fs::File, io::Read, path::Path};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packet {
    pub sequence: u64,
    /// Drops marked directly before it.
    pub dropped_before: u64,
    pub time_ns: u64,
    pub interface: u32,
}

#[derive(Debug, Default)]
pub struct Found {
    pub packets: Vec<Packet>,
    /// Each statistics block: accepted by the filter, dropped by the system, delivered.
    pub statistics: Vec<[u64; 3]>,
    /// Each statistics block: dropped by the interface.
    pub interface_drops: Vec<u64>,
    pub interfaces: usize,
}

impl Found {
    pub fn sequences(&self) -> Vec<u64> {
        self.packets.iter().map(|packet| packet.sequence).collect()
    }

    /// Checks that every mark reports the gap in the sequence numbers before its packet. Returns the number of marks, and the
    /// number of packets missing anywhere, of `received` in all.
    pub fn gaps(&self, received: u64) -> (u64, u64) {
        let (mut next, mut marks, mut missing) = (0, 0, 0);
        for packet in &self.packets {
            assert_eq!(
                packet.sequence,
                next + packet.dropped_before,
                "a mark is wrong"
            );
            marks += (packet.dropped_before > 0) as u64;
            missing += packet.dropped_before;
            next = packet.sequence + 1;
        }
        (marks, missing + (received - next))
    }
}

/// Reads a file to its end.
pub fn open(path: impl AsRef<Path>) -> Found {
    read(File::open(path).unwrap())
}

/// Reads to the end; an incomplete block at the end is skipped.
pub fn read(mut source: impl Read) -> Found {
    read_all(&mut source)
}

fn option(options: &[PcapNGOption<'_>], code: u16) -> u64 {
    let mut options = options.iter();
    let wanted = options.find(|option| option.code == OptionCode(code));
    wanted.map_or(0, |it| u64::from_le_bytes(it.value().try_into().unwrap()))
}

/// Not generic, so that it is compiled here, where the dev profile optimizes.
fn read_all(source: &mut dyn Read) -> Found {
    let mut reader = PcapNGReader::new(1 << 20, source).unwrap();
    let mut found = Found::default();
    loop {
        let (used, block) = match reader.next() {
            Ok(next) => next,
            Err(PcapError::Eof | PcapError::UnexpectedEof) => return found,
            Err(PcapError::Incomplete(_)) => {
                reader.refill().unwrap();
                continue;
            }
            Err(other) => panic!("{other:?}"),
        };
        match block {
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => found.packets.push(Packet {
                sequence: sequence(packet.packet_data()),
                dropped_before: option(&packet.options, 4),
                time_ns: (packet.ts_high as u64) << 32 | packet.ts_low as u64,
                interface: packet.if_id,
            }),
            PcapBlockOwned::NG(Block::InterfaceStatistics(counts)) => {
                found
                    .statistics
                    .push([6, 7, 8].map(|code| option(&counts.options, code)));
                found.interface_drops.push(option(&counts.options, 5));
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(_)) => found.interfaces += 1,
            _ => {}
        }
        reader.consume(used);
    }
}

/// Parses the label of simulated frames, which follows Ethernet, IPv4 and UDP headers. Its sum must be right, unless it is cut.
pub fn sequence(frame: &[u8]) -> u64 {
    assert_eq!(frame[50..52], *b"FB", "not a simulated frame");
    if let Some(label) = frame.get(42..60) {
        let words = label.chunks(2);
        let words = words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]])));
        assert_eq!(words.sum::<u64>() % 0xffff, 0, "a changed label");
    }
    u64::from_be_bytes(frame[42..50].try_into().unwrap())
}
