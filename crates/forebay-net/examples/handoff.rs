//! Two threads: one receives and keeps packets, the other counts flows and lets them go.
//! `cargo run --release -p forebay-net --example handoff -- [SPEC]`, such as `rate=10G,count=5M` (1 M frames at 1 Gb/s
//! without).
//!
//! ```text
//!  sim ──▶ copied: a slot of the pool ──▶ PacketDesc, 16 bytes, in bursts ──▶ flows, counted
//!                 ▲                                                            │ dropped
//!                 └────────────── chains of 32 slots ◀─────────────────────────┘
//! ```

use forebay::{
    Result,
    packet::{PacketDesc, Pool, PoolConfig, return_idle},
    ring::spsc::{self, Consumer, Producer},
    time::Clock,
};
use forebay_net::{
    packets::copy_frame,
    port::{Port, Wake},
    sim::{Sim, Spec},
};
use std::{collections::HashMap, thread};

const BURST: usize = 32;

fn main() -> Result<()> {
    let mut spec: Spec = std::env::args().nth(1).unwrap_or_default().parse()?;
    spec.count.get_or_insert(1_000_000);
    let clock = match spec.virtual_clock {
        true => Clock::virtual_time(),
        false => Clock::real(),
    };
    let mut card = Sim::new(spec, clock.clone());
    let mut pool = Pool::new(&PoolConfig::default())?;
    let (producer, consumer) = spsc::ring(1024)?;
    let counting = thread::spawn(move || count_flows(consumer));
    let kept = receive(&mut card, &clock, &mut pool, producer)?;
    let flows = counting.join().expect("the counting thread does not panic");

    let counts = card.counts();
    let counted: u64 = flows.values().map(|flow| flow.packets).sum();
    println!(
        "{} received = {kept} kept + {} dropped by the card; {counted} counted in {} flows",
        counts.received,
        counts.dropped.unwrap_or(0),
        flows.len()
    );
    let mut largest: Vec<_> = flows.into_iter().collect();
    largest.sort_unstable_by_key(|(key, flow)| (std::cmp::Reverse(flow.bytes), *key));
    for ((source, port), flow) in largest.iter().take(3) {
        let [a, b, c, d] = source;
        let (packets, bytes) = (flow.packets, flow.bytes);
        println!("  {a}.{b}.{c}.{d}:{port}: {packets} packets, {bytes} bytes");
    }
    println!(
        "pool: at most {} of {} slots away",
        pool.counts().most_away,
        pool.counts().slots
    );
    if let Some(leaks) = pool.close() {
        println!("{leaks}");
    }
    Ok(())
}

/// Receives until the card is at its end; returns how many packets went over the ring.
fn receive(
    card: &mut Sim,
    clock: &Clock,
    pool: &mut Pool,
    mut producer: Producer<PacketDesc>,
) -> Result<u64> {
    let mut kept = 0;
    loop {
        let mut burst = card.receive(BURST.min(producer.vacant()))?;
        let mut descs = Vec::with_capacity(BURST);
        while let Some(frame) = burst.next_frame() {
            let Ok(packet) = copy_frame(pool, &frame) else {
                // No slot: the card keeps the frame, or drops and counts it.
                burst.put_back();
                break;
            };
            descs.extend(packet.into_desc());
        }
        drop(burst);
        kept += descs.len() as u64;
        if descs.is_empty() && producer.vacant() > 0 {
            match card.arm()? {
                Wake::At(then) => clock.sleep_until(then),
                Wake::End => return Ok(kept),
                Wake::Ready | Wake::Fd(_) => thread::yield_now(),
            }
            card.disarm();
        }
        // There is room: no more was received than was vacant.
        producer.push_burst(&mut descs.drain(..));
    }
}

#[derive(Default)]
struct Flow {
    packets: u64,
    bytes: u64,
}

/// Counts what comes over the ring, by source address and UDP port, until the other end is gone.
fn count_flows(mut consumer: Consumer<PacketDesc>) -> HashMap<([u8; 4], u16), Flow> {
    let mut flows = HashMap::<_, Flow>::new();
    let mut count = |desc: PacketDesc| {
        let packet = desc.into_packet();
        let Some(&[a, b, c, d, .., high, low]) = packet.as_slice().get(26..36) else {
            return; // no frame of this card
        };
        let flow = flows
            .entry(([a, b, c, d], u16::from_be_bytes([high, low])))
            .or_default();
        flow.packets += 1;
        flow.bytes += u64::from(packet.wire_len());
        // The packet is dropped: its slot joins this thread's chain.
    };
    loop {
        let burst = consumer.peek(BURST);
        if !burst.is_empty() {
            burst.into_iter().for_each(&mut count);
            continue;
        }
        // Nothing to do: who receives may need what we have gathered.
        return_idle();
        match consumer.pop_wait(None) {
            Ok(desc) => count(desc),
            Err(_) => return flows,
        }
    }
}
