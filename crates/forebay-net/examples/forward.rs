//! Adds a VLAN tag to every frame, in the headroom, and writes the frames to a pcapng file:
//! `cargo run --release -p forebay-net --example forward -- out.pcapng [VLAN] [SPEC]`, VLAN 7 and 100,000 frames
//! without.
//!
//! ```text
//!  before   │ headroom         │ to 6 │ from 6 │ type 2 │ payload …
//!  push(4)  │ headroom  │ to 6 │ from 6 │ 8100 │ tag │ type 2 │ payload …     12 bytes move, the payload stays
//! ```

use forebay::{
    Error, Result,
    packet::{Packet, Pool, PoolConfig, Refused},
    time::Clock,
};
use forebay_net::{
    format::Format,
    packets::{as_frame, copy_frame},
    port::{Port, Wake},
    sim::{Sim, Spec},
};
use std::{
    fs::File,
    io::{BufWriter, Write},
};

const BURST: usize = 64;
const SNAPLEN: u32 = 262_144;
/// Both addresses of Ethernet.
const ADDRESSES: usize = 12;
/// The tag protocol identifier of IEEE 802.1Q.
const TPID: [u8; 2] = [0x81, 0x00];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "tagged.pcapng".into());
    let vlan = arguments.next().unwrap_or_else(|| "7".into());
    let vlan: u16 = vlan
        .parse()
        .ok()
        .filter(|vlan| *vlan < 4096)
        .ok_or_else(|| {
            Error::new("forward", format!("tagging with '{vlan}'")).advise("Ask for VLAN 0 to 4095")
        })?;
    let mut spec: Spec = arguments.next().unwrap_or_default().parse()?;
    spec.count.get_or_insert(100_000);

    let clock = Clock::virtual_time();
    let mut card = Sim::new(spec, clock.clone());
    let mut pool = Pool::new(&PoolConfig::default())?;
    let failed = |error| Error::new(&*path, "writing").because(error);
    let mut file = BufWriter::new(File::create(&path).map_err(failed)?);
    let described = Format::Pcapng.describe(&card.interfaces()[0], 0);
    let header = Format::Pcapng.header("forebay's example forward");
    file.write_all(&header).map_err(failed)?;
    let interface = Format::Pcapng.interface(&card.interfaces()[0], &described, SNAPLEN);
    file.write_all(&interface).map_err(failed)?;

    let (mut packets, mut written, mut record) = (Vec::new(), 0_u64, Vec::new());
    loop {
        let mut burst = card.receive(BURST)?;
        while let Some(frame) = burst.next_frame() {
            match copy_frame(&mut pool, &frame) {
                Ok(packet) => packets.push(packet),
                Err(_) => {
                    burst.put_back();
                    break;
                }
            }
        }
        drop(burst);
        let now = clock.wall(clock.now());
        for mut packet in packets.drain(..) {
            tag(&mut packet, vlan)
                .map_err(|refused| Error::new("forward", format!("tagging a frame: {refused}")))?;
            let frame = as_frame(&packet, now).expect("a slot holds the longest frame of the card");
            record.resize(Format::Pcapng.frame_len(&frame, SNAPLEN), 0);
            Format::Pcapng.put_frame(&mut record, &frame, &described, SNAPLEN);
            file.write_all(&record).map_err(failed)?;
            written += 1;
            // Its slot is the next to be taken, still warm.
            let _ours = pool.put_back(packet);
        }
        match card.arm()? {
            Wake::At(then) => clock.sleep_until(then),
            Wake::End => break,
            Wake::Ready | Wake::Fd(_) => {}
        }
    }
    file.flush().map_err(failed)?;
    let counts = card.counts();
    println!(
        "{} received, {written} tagged with VLAN {vlan} and written to {path}; at most {} slots in use",
        counts.received,
        pool.counts().most_away
    );
    Ok(())
}

/// Puts an IEEE 802.1Q tag behind the addresses, which move into the headroom.
fn tag(packet: &mut Packet, vlan: u16) -> std::result::Result<(), Refused> {
    let has = packet.as_slice().len();
    if has < ADDRESSES {
        return Err(Refused::TooShort { has: has as u32 });
    }
    packet.push(4)?;
    let frame = packet.as_mut_slice()?;
    frame.copy_within(4..4 + ADDRESSES, 0);
    frame[ADDRESSES..ADDRESSES + 2].copy_from_slice(&TPID);
    frame[ADDRESSES + 2..ADDRESSES + 4].copy_from_slice(&vlan.to_be_bytes());
    packet.set_wire_len(packet.wire_len() + 4);
    Ok(())
}
