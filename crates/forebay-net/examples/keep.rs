//! Keeps the frames of a simulated card in a pool while another thread reads them.
//! `cargo run --release -p forebay-net --example keep`
use forebay::receive::{Driver, DriverConfig};
use forebay::{packet::return_idle, poll::Poller, sync::Signal, time::Clock};
use forebay_net::{port::Port, receive::FromPort, sim::Sim};
use std::{error::Error, thread};

fn main() -> Result<(), Box<dyn Error>> {
    let clock = Clock::real();
    let card = Sim::new("rate=1G,count=1M".parse()?, clock.clone());
    let mut card = FromPort::new(card, clock.clone());
    let (mut driver, mut descs) = Driver::new(&DriverConfig::default())?;
    let reader = thread::spawn(move || {
        let (mut packets, mut bytes) = (0, 0);
        while let Ok(desc) = descs.pop() {
            let packet = desc.into_packet();
            (packets, bytes) = (packets + 1, bytes + packet.as_slice().len());
            drop(packet); // here the slot returns to the pool
            if descs.is_empty() {
                return_idle();
            }
        }
        println!("{packets} packets, {bytes} bytes");
    });
    let mut poller = Poller::new(64, clock);
    poller.run(&mut driver.with_source(&mut card), &Signal::new()?)?; // until the card has ended
    println!(
        "{:?}\n{:?}\n{:?}",
        driver.stats(),
        poller.modes(),
        card.port().counts()
    );
    drop(driver);
    reader.join().map_err(|_| "the reader panicked".into())
}
