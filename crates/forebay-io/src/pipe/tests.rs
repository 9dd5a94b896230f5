//! Complete pipes between kernel pipes, compared with their input.

mod past;

use super::*;
use forebay_testing::dice::{Dice, noise};
use std::{
    fs::File,
    io::{PipeReader, PipeWriter, Read, Write, pipe},
    os::fd::OwnedFd,
    sync::mpsc,
    thread::JoinHandle,
};

/// A running pipe, its producer, and its consumers.
struct Lab {
    producer: PipeWriter,
    consumers: Vec<PipeReader>,
    control: Control,
    running: JoinHandle<Summary>,
}

fn lab(config: PipeConfig, outputs: usize) -> Lab {
    lab_beside(config, outputs, None)
}

/// Like [`lab`], with intermediate pipes of this many bytes, independent of the user's privileges.
fn lab_beside(config: PipeConfig, outputs: usize, bytes: Option<usize>) -> Lab {
    let file = |end: OwnedFd| File::from(end);
    let (source, producer) = pipe().unwrap();
    let inputs = vec![Input::new(file(source.into()), "source").unwrap()];
    let (consumers, outputs) = (0..outputs)
        .map(|number| {
            let (consumer, target) = pipe().unwrap();
            let name = format!("target {number}");
            (consumer, Output::new(file(target.into()), name).unwrap())
        })
        .unzip();
    let control = Control::new().unwrap();
    let mut pipe = Pipe::open(inputs, outputs, config, control.clone()).unwrap();
    if let Some(bytes) = bytes {
        pipe.relay = relay::relay(&pipe.inputs, &pipe.outputs, &pipe.config, bytes);
    }
    let running = thread::spawn(move || pipe.run(&mut |_| {}));
    Lab {
        producer,
        consumers,
        control,
        running,
    }
}

fn config(capacity_bytes: usize) -> PipeConfig {
    PipeConfig {
        capacity_bytes,
        ..PipeConfig::default()
    }
}

/// Writes `bytes` in pieces of many sizes.
fn produce(mut producer: PipeWriter, bytes: Vec<u8>) -> JoinHandle<usize> {
    thread::spawn(move || {
        let sizes = [1, 100_000, 4096, 17, 65_536, 300_001];
        let mut left = &bytes[..];
        for size in sizes.iter().cycle() {
            let (piece, rest) = left.split_at(left.len().min(*size));
            if left.is_empty() || producer.write_all(piece).is_err() {
                break;
            }
            left = rest;
        }
        bytes.len() - left.len()
    })
}

/// Waits until everything in a pipe was read.
fn until_read(producer: &PipeWriter) {
    while rustix::io::ioctl_fionread(producer).unwrap() > 0 {
        thread::yield_now();
    }
}

fn all_of(mut consumer: PipeReader) -> Vec<u8> {
    let mut bytes = Vec::new();
    consumer.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn every_byte_comes_out_in_order_whatever_the_buffer_and_the_watermarks() {
    let sent = noise(3_000_000);
    for capacity_bytes in [1 << 12, 100_003, 1 << 20, 16 << 20] {
        for block_bytes in [None, Some(1), Some(1000), Some(4096)] {
            for (start_writing, start_reading) in [(0, 100), (100, 0), (50, 50), (80, 20)] {
                let config = PipeConfig {
                    block_bytes,
                    start_writing,
                    start_reading,
                    ..config(capacity_bytes)
                };
                if block_bytes == Some(1) && capacity_bytes > 1 << 12 {
                    continue; // three million system calls
                }
                let is_slow = block_bytes == Some(1);
                let len = if is_slow { 10_000 } else { sent.len() };
                let mut lab = lab(config.clone(), 1);
                let producing = produce(lab.producer, sent[..len].to_vec());
                let received = all_of(lab.consumers.remove(0));
                assert!(received == sent[..len], "{config:?}");
                assert_eq!(producing.join().unwrap(), len);
                let summary = lab.running.join().unwrap();
                assert!(summary.is_fine());
                let len = len as u64;
                assert_eq!((summary.bytes_read, summary.bytes_written), (len, len));
            }
        }
    }
}

#[test]
fn several_outputs_get_the_same_bytes_and_a_slow_one_blocks_only_when_the_buffer_is_full() {
    let sent = noise(1 << 20);
    let lab = lab(config(4 << 20), 3);
    let producing = produce(lab.producer, sent.clone());
    let mut consumers = lab.consumers.into_iter();
    let slow = consumers.next().unwrap();
    // Two outputs have everything before the third is read.
    let mut quick: Vec<_> = consumers.collect();
    for consumer in &mut quick {
        let mut received = vec![0; sent.len()];
        consumer.read_exact(&mut received).unwrap();
        assert!(received == sent);
    }
    assert!(all_of(slow) == sent);
    producing.join().unwrap();
    let summary = lab.running.join().unwrap();
    assert!(summary.is_fine());
    assert!(summary.outputs.iter().all(|output| output.bytes == 1 << 20));
}

#[test]
fn writing_starts_at_the_watermark_and_then_writes_everything() {
    let config = PipeConfig {
        start_writing: 50,
        ..config(100_000)
    };
    let mut lab = lab(config, 1);
    let mut consumer = lab.consumers.remove(0);
    let (tell, told) = mpsc::channel();
    let reading = thread::spawn(move || {
        let mut first = [0; 50_000];
        consumer.read_exact(&mut first[..1]).unwrap();
        tell.send(()).unwrap();
        consumer.read_exact(&mut first[1..]).unwrap();
        consumer
    });
    lab.producer.write_all(&[1; 49_999]).unwrap();
    // The pipe reports that it has read everything, and still nothing was written.
    until_read(&lab.producer);
    assert!(told.try_recv().is_err());
    lab.producer.write_all(&[1]).unwrap();
    told.recv().unwrap();
    let consumer = reading.join().unwrap();
    // It ran empty, so it waits again; the end of the input releases the rest.
    lab.producer.write_all(&[2; 10]).unwrap();
    drop(lab.producer);
    assert_eq!(all_of(consumer), [2; 10]);
    assert!(lab.running.join().unwrap().is_fine());
}

#[test]
fn a_full_buffer_stops_reading_until_it_is_drained_to_the_watermark() {
    let config = PipeConfig {
        start_reading: 25,
        ..config(1 << 20)
    };
    let mut lab = lab(config, 1);
    let mut consumer = lab.consumers.remove(0);
    rustix::pipe::fcntl_setpipe_size(&consumer, 4096).unwrap();
    // Nothing is read: the buffer fills up, and then the pipe before it.
    let total = 6 << 20;
    let producing = produce(lab.producer, noise(total));
    let mut first = vec![0; 1 << 19];
    consumer.read_exact(&mut first).unwrap();
    let rest = all_of(consumer);
    assert!([first, rest].concat() == noise(total));
    assert_eq!(producing.join().unwrap(), total);
    let summary = lab.running.join().unwrap();
    assert!(summary.is_fine());
    assert_eq!(summary.bytes_written, total as u64);
}

#[test]
fn a_reader_that_leaves_ends_the_pipe_even_while_the_input_is_idle() {
    let mut lab = lab(config(1 << 16), 1);
    drop(lab.consumers.remove(0));
    let summary = lab.running.join().unwrap();
    assert!(summary.is_fine());
    assert!(summary.outputs[0].reader_left);
    drop(lab.producer); // it was open until now
}

#[test]
fn when_one_reader_leaves_the_others_get_everything() {
    let sent = noise(500_000);
    let mut lab = lab(config(1 << 16), 2);
    drop(lab.consumers.remove(0));
    let producing = produce(lab.producer, sent.clone());
    assert!(all_of(lab.consumers.remove(0)) == sent);
    producing.join().unwrap();
    let summary = lab.running.join().unwrap();
    assert!(summary.is_fine() && summary.outputs[0].reader_left);
    assert_eq!(summary.bytes_written, 500_000);
}

#[test]
fn a_stop_writes_what_was_read_and_a_second_one_gives_it_up() {
    let mut lab1 = lab(config(1 << 20), 1);
    lab1.producer.write_all(&noise(200_000)).unwrap();
    until_read(&lab1.producer);
    lab1.control.stop();
    assert!(all_of(lab1.consumers.remove(0)) == noise(200_000));
    let summary = lab1.running.join().unwrap();
    assert!(summary.is_fine() && summary.stopped && !summary.abandoned);

    let mut lab2 = lab(config(4 << 20), 1);
    lab2.producer.write_all(&noise(3 << 20)).unwrap(); // more than the output's pipe holds
    until_read(&lab2.producer);
    lab2.control.stop();
    lab2.control.stop();
    let summary = lab2.running.join().unwrap();
    assert!(summary.abandoned && !summary.is_fine());
    let received = all_of(lab2.consumers.remove(0));
    assert_eq!(received.len() as u64, summary.bytes_written);
    assert!(received == noise(3 << 20)[..received.len()]);
}

#[test]
fn the_watchdog_ends_what_stands_still() {
    let config = PipeConfig {
        watchdog: Some(Duration::from_millis(50)),
        ..config(1 << 16)
    };
    let lab = lab(config, 1);
    let summary = lab.running.join().unwrap();
    assert!(summary.stalled);
    drop(lab.producer);
}

#[test]
fn the_check_sum_is_that_of_what_came_out() {
    let config = PipeConfig {
        hash: Some(Hash::Sha256),
        ..config(10_000)
    };
    let mut lab = lab(config, 1);
    let producing = produce(lab.producer, noise(1_000_000));
    let received = all_of(lab.consumers.remove(0));
    producing.join().unwrap();
    let mut hasher = digest::Hasher::new(Hash::Sha256);
    hasher.update(&received);
    assert_eq!(lab.running.join().unwrap().checksum, Some(hasher.finish()));
}

#[test]
fn reports_are_made_on_request_and_at_the_end_of_each_interval() {
    let (source, producer) = pipe().unwrap();
    let file = |end: OwnedFd| File::from(end);
    let inputs = vec![Input::new(file(source.into()), "source").unwrap()];
    let null = File::options().write(true).open("/dev/null").unwrap();
    let outputs = vec![Output::new(null, "null").unwrap()];
    let control = Control::new().unwrap();
    let config = PipeConfig {
        progress_every: Some(Duration::from_millis(1)),
        ..config(1 << 16)
    };
    let pipe = Pipe::open(inputs, outputs, config, control.clone()).unwrap();
    control.report();
    let mut producer = Some(producer);
    let (mut asked, mut unasked) = (0, 0);
    pipe.run(&mut |progress| {
        asked += usize::from(progress.asked);
        unasked += usize::from(!progress.asked);
        if asked > 0 && unasked > 2 {
            producer = None;
        }
    });
    assert_eq!(asked, 1);
    assert!(unasked > 2);
}

#[test]
fn what_makes_no_sense_is_refused() {
    type Change = fn(&mut PipeConfig);
    let changes: [(Change, &str); 7] = [
        (|it| it.capacity_bytes = 0, "0 bytes"),
        (|it| it.block_bytes = Some(0), "block"),
        (|it| it.block_bytes = Some(1001), "block"),
        (|it| it.start_writing = 101, "watermark"),
        (|it| it.start_reading = 101, "watermark"),
        (|it| it.read_rate = Some(0), "rate"),
        (|it| it.write_rate = Some(0), "rate"),
    ];
    for (change, expected) in changes {
        let mut config = config(1000);
        change(&mut config);
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
