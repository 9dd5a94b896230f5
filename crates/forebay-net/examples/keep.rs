//! Keeps the frames of a simulated card in a pool while another thread reads them.
//! `cargo run --release -p forebay-net --example keep`
use forebay::packet::{Packet, Pool, PoolConfig};
use forebay::{ring::spsc::ring, time::Clock};
use forebay_net::{packets::copy_frame, port::*, sim::Sim};
use std::{error::Error, thread};

fn main() -> Result<(), Box<dyn Error>> {
    let clock = Clock::real();
    let mut card = Sim::new("rate=1G,count=1M".parse()?, clock.clone());
    let mut pool = Pool::new(&PoolConfig::default())?;
    let (mut producer, consumer) = ring::<Packet>(1024)?;
    let reader = thread::spawn(move || {
        let (mut packets, mut bytes) = (0, 0);
        for packet in consumer {
            (packets, bytes) = (packets + 1, bytes + packet.as_slice().len());
        } // here the slot returns to the pool
        println!("{packets} packets, {bytes} bytes");
    });
    let mut dropped = 0; // because the pool or the ring was full
    loop {
        let mut burst = card.receive(64)?;
        while let Some(frame) = burst.next_frame() {
            match copy_frame(&mut pool, &frame) {
                Ok(packet) => dropped += usize::from(producer.try_push(packet).is_err()),
                Err(_) => dropped += 1,
            }
        }
        drop(burst);
        match card.arm()? {
            Wake::At(then) => clock.sleep_until(then),
            Wake::End => break,
            Wake::Ready | Wake::Fd(_) => {}
        }
    }
    drop(producer);
    println!("{dropped} dropped");
    reader.join().map_err(|_| "the reader panicked".into())
}
