//! Structs from one thread to another over a ring, in bursts. `cargo run --release -p forebay --example bursts`
use forebay::ring::spsc::ring;
use std::thread;

#[derive(Clone, Copy, Default)]
struct Trade {
    price: u32,
    volume: u32,
}

fn main() -> forebay::Result<()> {
    const TRADES: u32 = 10_000_000;
    let (mut producer, mut consumer) = ring::<Trade>(1024)?;
    let sender = thread::spawn(move || {
        let trade = |number: u32| Trade {
            price: number % 100,
            volume: 1 + number % 7,
        };
        let mut trades = (0..TRADES).map(trade).peekable();
        while trades.peek().is_some() {
            producer.push_burst(&mut trades); // as many as there is room for
        }
    });
    let (mut count, mut sum, mut burst) = (0, 0, [Trade::default(); 32]);
    while !(consumer.producer_is_gone() && consumer.is_empty()) {
        let popped = consumer.pop_slice(&mut burst); // 0: the ring is empty
        count += popped;
        let values = burst[..popped].iter().map(|it| it.price * it.volume);
        sum += u64::from(values.sum::<u32>());
    }
    sender.join().expect("the sender does not panic");
    println!("{count} trades worth {sum}");
    Ok(())
}
