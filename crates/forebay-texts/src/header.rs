//! A header added to each packet of a burst and removed again: by moving where the data begins, by moving the data, and
//! by copying it into a longer buffer.
//!
//! ```text
//!  forebay   │ headroom ◀─│14│ data │            two numbers change
//!  memmove   │ data ───▶ 14│ data │              the data makes room
//!  copy      │ data │ ──▶ malloc │14│ data │     the data goes elsewhere
//! ```

use anyhow::{Context, Result};
use forebay::packet::{Packet, Pool, PoolConfig};
use forebay_bench::method::{
    Effort,
    samples::{Side, contest},
    table::{Cell, Table},
};
use std::hint::black_box;

/// An Ethernet header.
const HEADER: usize = 14;

/// Packets in a burst. Ours lie 8192 bytes apart, as 4000 of data and some headroom need: their first lines share the few
/// places of the first cache that such addresses have, and come partly from the second. Buffers from malloc do not.
const BURST: usize = 32;

const SIZES: [usize; 4] = [64, 512, 1500, 4000];

/// One table a packet's size.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    SIZES.iter().map(|&size| compare(size, effort)).collect()
}

fn compare(size: usize, effort: Effort) -> Result<Table> {
    // Copies of 4000 bytes take fifty times as long.
    let bursts = effort.scaled(60_000);
    let few = bursts / 20;
    let mut pool = Pool::new(&PoolConfig {
        slots: 2 * BURST as u32,
        slot_bytes: 8192,
        ..PoolConfig::default()
    })?;
    let mut moved = packets(&mut pool, size)?;
    let mut written = packets(&mut pool, size)?;
    let mut buffers: Vec<Vec<u8>> = (0..BURST)
        .map(|_| {
            let mut buffer = Vec::with_capacity(size + HEADER);
            buffer.resize(size, 1);
            buffer
        })
        .collect();
    let mut copied: Vec<Box<[u8]>> = (0..BURST).map(|_| vec![1; size].into()).collect();
    let header = black_box([7_u8; HEADER]);
    let mut sides = [
        Side::new("forebay, push and pull", || move_begin(&mut moved, bursts)),
        Side::new("forebay, with the header written", || {
            write_header(&mut written, &header, bursts)
        }),
        Side::new("memmove, with the header written", || {
            move_data(&mut buffers, &header, few)
        }),
        Side::new("malloc and copy, with the header written", || {
            copy_data(&mut copied, &header, few)
        }),
    ];
    let times = contest(&mut sides, effort.rounds)?;
    let mut table = Table::new(
        format!("header/add and remove {HEADER} bytes/{size}: bursts of {BURST} packets, a packet"),
        &["ns", "cycles", "times ours, written"],
    );
    let ours = times.get(1).context("two sides of ours")?.ns.median;
    table.timed(&sides, &times, |_, time| {
        vec![Cell::number(time.ns.median / ours, 1)]
    });
    Ok(table)
}

fn packets(pool: &mut Pool, size: usize) -> Result<Vec<Packet>> {
    (0..BURST)
        .map(|_| {
            let mut packet = pool.take().context("a packet for each of the burst")?;
            packet.put(size as u32)?.fill(1);
            Ok(packet)
        })
        .collect()
}

/// All packets of the burst get room for a header, then all lose it, as when one layer hands them to the next.
#[inline(never)]
fn move_begin(packets: &mut [Packet], bursts: u64) -> u64 {
    for _ in 0..bursts {
        for packet in &mut *packets {
            black_box(
                packet
                    .push(HEADER as u32)
                    .expect("there is headroom")
                    .as_ptr(),
            );
        }
        for packet in &mut *packets {
            black_box(packet.pull(HEADER as u32).expect("it was pushed").as_ptr());
        }
    }
    bursts * packets.len() as u64
}

#[inline(never)]
fn write_header(packets: &mut [Packet], header: &[u8; HEADER], bursts: u64) -> u64 {
    for _ in 0..bursts {
        for packet in &mut *packets {
            let room = packet.push(HEADER as u32).expect("there is headroom");
            room.copy_from_slice(header);
            black_box(room.as_ptr());
        }
        for packet in &mut *packets {
            black_box(packet.pull(HEADER as u32).expect("it was pushed").as_ptr());
        }
    }
    bursts * packets.len() as u64
}

#[inline(never)]
fn move_data(buffers: &mut [Vec<u8>], header: &[u8; HEADER], bursts: u64) -> u64 {
    for _ in 0..bursts {
        for buffer in &mut *buffers {
            let size = buffer.len();
            buffer.resize(size + HEADER, 0);
            buffer.copy_within(..size, HEADER);
            buffer[..HEADER].copy_from_slice(header);
            black_box(buffer.as_ptr());
        }
        for buffer in &mut *buffers {
            buffer.copy_within(HEADER.., 0);
            buffer.truncate(buffer.len() - HEADER);
            black_box(buffer.as_ptr());
        }
    }
    bursts * buffers.len() as u64
}

#[inline(never)]
fn copy_data(buffers: &mut [Box<[u8]>], header: &[u8; HEADER], bursts: u64) -> u64 {
    for _ in 0..bursts {
        for buffer in &mut *buffers {
            let mut longer = Vec::with_capacity(HEADER + buffer.len());
            longer.extend_from_slice(header);
            longer.extend_from_slice(buffer);
            *buffer = black_box(longer.into());
        }
        for buffer in &mut *buffers {
            *buffer = black_box(buffer[HEADER..].into());
        }
    }
    bursts * buffers.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_leaves_the_packet_as_it_was() {
        let mut pool = Pool::new(&PoolConfig::default()).unwrap();
        let mut ours = packets(&mut pool, 64).unwrap();
        let header = [7; HEADER];
        assert_eq!(move_begin(&mut ours, 3), 3 * BURST as u64);
        write_header(&mut ours, &header, 3);
        assert!(ours.iter().all(|packet| packet.as_slice() == [1; 64]));
        let mut moved = vec![vec![1; 64]; 2];
        move_data(&mut moved, &header, 3);
        assert_eq!(moved, [[1; 64], [1; 64]]);
        let mut copied: Vec<Box<[u8]>> = vec![vec![1; 64].into()];
        copy_data(&mut copied, &header, 3);
        assert_eq!(copied, [vec![1; 64].into_boxed_slice()]);
    }
}
