//! `forebay capture -r` and filters, as their users run them.
//!
//! `foreign` holds copies of captures that others made against those of other tools, `filters` is about what passes,
//! `inputs` about several files, pipes, and files that break off, `interfaces` about what a file says of several
//! interfaces, `metadata` about what it says beyond its packets, `large` about files that several threads read, `times` about parts of files, and `requests` about what is refused. Here is what they share.

mod filters;
mod foreign;
mod inputs;
mod interfaces;
mod large;
mod metadata;
mod requests;
mod times;

use crate::support::*;
use std::{fs::File, process::Output};

/// The law, and that it is about files: nothing is lost, whatever is not written is filtered.
#[track_caller]
fn law(ran: &Output) -> [u64; 3] {
    let json = ran.lawful();
    let dropped = json["dropped"].as_object().unwrap();
    assert!(dropped.values().all(|lost| lost == 0), "{json}");
    assert_eq!(json["unread"], 0, "{json}");
    counts(&json, ["received", "written", "filtered"])
}

/// A packet with what its interface says: link type, resolution, ticks, wire length, data.
type Packet = (i32, u8, u64, u32, Vec<u8>);

fn packets(path: &str) -> Vec<Packet> {
    use pcap_parser::{Block, PcapBlockOwned, PcapError, traits::PcapNGPacketBlock};
    let mut reader = pcap_parser::create_reader(1 << 20, File::open(path).unwrap()).unwrap();
    let (mut interfaces, mut packets) = (Vec::new(), Vec::new());
    loop {
        match reader.next() {
            Ok((used, block)) => {
                match block {
                    PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                        interfaces.push((interface.linktype.0, interface.if_tsresol));
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        let (link, resolution) = interfaces[packet.if_id as usize];
                        let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                        let data = packet.packet_data().to_vec();
                        packets.push((link, resolution, ticks, packet.origlen, data));
                    }
                    _ => {}
                }
                reader.consume(used);
            }
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(PcapError::Eof) => return packets,
            Err(other) => panic!("{path}: {other:?}"),
        }
    }
}
