//! Runs one hot operation a given number of times, to count its instructions.
//! `cargo run --release -p forebay-bench --bin hot -- OPERATION TIMES`
//!
//! The difference between two runs with different TIMES gives the cost of one operation, without start and end.
//! `.ci/instructions` holds each operation below a limit.

use forebay::{
    packet::{Packet, Pool, PoolConfig},
    queue,
    records::Records,
    ring::{
        broadcast::{BroadcastConfig, Producer},
        spsc::{RingConfig, ring_with},
    },
    store::{FileConfig, FileSink, StoreConfig},
    stream,
    sync::Spin,
};
use std::{env, error::Error, hint::black_box};

const BURST: u64 = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [operation, times] = &arguments[..] else {
        return Err(
            "usage: hot ring|ring-burst|pool|header|desc|stream|queue|queue-spsc|broadcast|broadcast-1500|record TIMES".into(),
        );
    };
    let times: u64 = times.parse()?;
    match operation.as_str() {
        "ring" => ring(times),
        "ring-burst" => ring_burst(times),
        "pool" => pool(times),
        "header" => header(times),
        "desc" => desc(times),
        "stream" => bytes(times),
        "queue" => queue_of_many(times),
        "queue-spsc" => queue_of_one(times),
        "broadcast" => broadcast(times, 32),
        "broadcast-1500" => broadcast(times, 1468),
        "record" => record(times),
        other => Err(format!("no operation is called {other:?}").into()),
    }
}

/// Pushes and pops eight bytes.
fn ring(times: u64) -> Result<(), Box<dyn Error>> {
    let (mut producer, mut consumer) = ring_with::<_, Spin>(&RingConfig::default())?;
    for number in 0..times {
        black_box(producer.try_push(number).is_ok());
        black_box(consumer.try_pop().ok());
    }
    Ok(())
}

/// Pushes and pops 32 elements at once.
fn ring_burst(times: u64) -> Result<(), Box<dyn Error>> {
    let (mut producer, mut consumer) = ring_with::<_, Spin>(&RingConfig::default())?;
    let mut target = [0; BURST as usize];
    for _ in 0..times / BURST {
        black_box(producer.push_slice(black_box(&[1_u64; BURST as usize])));
        black_box(consumer.pop_slice(&mut target));
    }
    Ok(())
}

/// Takes a packet, writes to it, and puts it back.
fn pool(times: u64) -> Result<(), Box<dyn Error>> {
    let mut pool = Pool::new(&PoolConfig::default())?;
    for _ in 0..times {
        let mut packet = pool.take().ok_or("the pool is empty")?;
        black_box(packet.put(64)?.as_mut_ptr());
        pool.put_back(packet)?;
    }
    Ok(())
}

/// Adds and removes space for a header, for each packet of a burst.
fn header(times: u64) -> Result<(), Box<dyn Error>> {
    let mut pool = Pool::new(&PoolConfig::default())?;
    let mut burst: Vec<Packet> = Vec::new();
    pool.take_burst(BURST as usize, &mut burst);
    for _ in 0..times / BURST {
        for packet in &mut burst {
            black_box(packet.push(14)?.as_mut_ptr());
        }
        for packet in &mut burst {
            black_box(packet.pull(14)?.as_ptr());
        }
    }
    Ok(())
}

/// Takes a packet, turns it into a 16-byte descriptor and back, and puts it back.
fn desc(times: u64) -> Result<(), Box<dyn Error>> {
    let mut pool = Pool::new(&PoolConfig::default())?;
    for _ in 0..times {
        let packet = pool.take().ok_or("the pool is empty")?;
        let desc = packet.into_desc().map_err(|_| "the packet is shared")?;
        pool.put_back(black_box(desc).into_packet())?;
    }
    Ok(())
}

/// Writes 128 bytes to a stream and reads them at once.
fn bytes(times: u64) -> Result<(), Box<dyn Error>> {
    let (mut writer, mut reader) = stream::stream(32_768)?;
    for _ in 0..times {
        black_box(writer.push_slice(black_box(&[1; 128])));
        black_box(reader.peek().as_ptr());
        black_box(reader.consume(128));
    }
    Ok(())
}

/// Sends a message of 64 bytes and takes it.
fn queue_of_many(times: u64) -> Result<(), Box<dyn Error>> {
    let (sender, receiver) = queue::queue(1 << 16)?;
    for _ in 0..times {
        sender.send(black_box(&[7; 64]))?;
        black_box(receiver.take()?.len());
    }
    Ok(())
}

/// The same between one sender and one receiver.
fn queue_of_one(times: u64) -> Result<(), Box<dyn Error>> {
    let (mut sender, mut receiver) = queue::spsc::queue(1 << 16)?;
    for _ in 0..times {
        sender.send(black_box(&[7; 64]))?;
        black_box(receiver.take()?.len());
    }
    Ok(())
}

/// Publishes a message of 32 bytes and `len` more.
fn broadcast(times: u64, len: usize) -> Result<(), Box<dyn Error>> {
    let mut producer = Producer::new(&BroadcastConfig::default())?;
    let (head, bytes) = ([7; 32], vec![1; len]);
    for _ in 0..times {
        black_box(producer.publish(&[black_box(&head[..]), black_box(&bytes[..])])?);
    }
    Ok(())
}

/// Appends a record of 28 bytes to a store that writes buffers of 64 KiB without a thread.
fn record(times: u64) -> Result<(), Box<dyn Error>> {
    let config = StoreConfig {
        buffers: 2,
        buffer_bytes: 64 << 10,
        thread: false,
        ..StoreConfig::default()
    };
    let sink = FileSink::create("/dev/null", &FileConfig::default())?;
    let mut records = Records::<[u8; 28]>::plain(sink, &config)?;
    for _ in 0..times {
        black_box(records.append(black_box(&[7; 28]))?);
    }
    Ok(())
}
