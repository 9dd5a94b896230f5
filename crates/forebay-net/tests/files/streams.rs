//! Slow pipes, and compressed files: complete, truncated, concatenated.

use super::{
    Reading,
    blocks::{Composed, packet},
    drain, in_memory, open, read,
};
use flate2::{Compression, write::GzEncoder};
use forebay_net::{
    file::File,
    port::{Port, Wake},
};
use std::{io::Write, thread, time::Duration};

fn sample(packets: u32) -> Composed {
    let mut file = Composed::pcapng(false);
    for n in 0..packets {
        let mut packet = packet(n as usize % 1500);
        packet.time_ns = n as u64 * 1000;
        file.packet(6, 0, n as u64, &[], packet);
    }
    file
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut compressed = vec![0; zstd_safe::compress_bound(bytes.len())];
    let len = zstd_safe::compress(&mut compressed[..], bytes, 3).unwrap();
    compressed.truncate(len);
    compressed
}

/// Reads from a pipe into which a thread writes `bytes` in pieces.
fn trickle(bytes: Vec<u8>, piece: usize) -> Reading {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let feeder = thread::spawn(move || {
        for (n, part) in bytes.chunks(piece).enumerate() {
            writer.write_all(part).unwrap();
            if n % 64 == 0 {
                thread::sleep(Duration::from_micros(200));
            }
        }
    });
    let reader = std::os::fd::OwnedFd::from(reader);
    let found = open(reader.into());
    feeder.join().unwrap();
    found
}

#[test]
fn a_slow_pipe_yields_every_packet_compressed_or_not() {
    let file = sample(200);
    for bytes in [file.bytes.clone(), gzip(&file.bytes), zstd(&file.bytes)] {
        for piece in [1, 7, 4096, 65_536] {
            if piece == 1 && bytes.len() > 20_000 {
                let file = sample(40);
                let found = trickle(file.bytes, 1);
                assert_eq!((found.error, found.packets), (None, file.packets));
                continue;
            }
            let found = trickle(bytes.clone(), piece);
            assert_eq!(found.error, None, "{piece}");
            assert_eq!(found.packets, file.packets, "{piece}");
        }
    }
}

#[test]
fn an_empty_pipe_never_blocks() {
    let file = sample(3);
    for compress in [|b: &[u8]| b.to_vec(), gzip, zstd] {
        // Up to the second packet, and half of it.
        let half = file.ends[3] - 20;
        let (first, second) = (compress(&file.bytes[..half]), compress(&file.bytes[half..]));
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&first).unwrap();
        let reader = std::os::fd::OwnedFd::from(reader);
        let mut port = File::from_stream(reader.into(), "-").unwrap();
        let mut taken = 0;
        while port.receive(8).unwrap().next_frame().is_some() {
            taken += 1;
        }
        assert!(matches!(port.arm(), Ok(Wake::Fd(_))));
        writer.write_all(&second).unwrap();
        drop(writer);
        let rest = (file.packets[1..].to_vec(), None);
        assert_eq!((taken, drain(&mut port, 8)), (1, rest));
    }
}

#[test]
fn concatenated_compressed_files_are_read_as_one() {
    let file = sample(500);
    for compress in [gzip, zstd] {
        for piece in [100, 4097, 1 << 20] {
            let parts: Vec<_> = file.bytes.chunks(piece).map(compress).collect();
            let mut bytes = parts.concat();
            let found = read(&bytes);
            assert_eq!((found.error, &found.packets), (None, &file.packets));
            if bytes.starts_with(&[0x1f]) {
                bytes.extend([0; 1024]); // padding of a tape
                assert_eq!(read(&bytes).error, None);
            }
            bytes.extend(b"something else");
            let found = read(&bytes);
            assert_eq!(found.packets, file.packets);
            assert!(found.error.is_some());
        }
    }
    // A frame for other programs, which zstd skips.
    let mut bytes = vec![0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    bytes.extend(zstd(&file.bytes));
    assert_eq!(read(&bytes).packets, file.packets);
}

#[test]
fn a_truncated_compressed_file_yields_its_complete_packets_and_an_error() {
    let file = sample(300);
    for (compress, name) in [(gzip as fn(&[u8]) -> Vec<u8>, "gzip"), (zstd, "zstd")] {
        let bytes = compress(&file.bytes);
        for len in (1..bytes.len()).step_by(bytes.len() / 97) {
            let found = read(&bytes[..len]);
            assert!(file.packets.starts_with(&found.packets));
            let error = found.error.expect("a truncated file");
            if len > 40 && found.file.is_some() {
                let expected = format!("the {name} data ends too early at byte {len}");
                assert!(error.contains(&expected), "{error}");
            }
        }
        let mut damaged = bytes.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 40].fill(0x55);
        let found = read(&damaged);
        assert!(file.packets.starts_with(&found.packets));
        assert!(found.error.is_some());
    }
}

#[test]
fn a_window_above_the_limit_is_refused() {
    // A frame header that requests a window of 2 GiB, and a block.
    let bytes = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
    let error = read(&bytes).error.expect("refused");
    assert!(error.contains("a window above 128 MiB"), "{error}");
}

#[test]
fn a_stopped_file_is_at_its_end_and_has_received_what_was_taken() {
    let stream = in_memory(&sample(50).bytes);
    let mut port = File::from_stream(stream, "today.pcapng").unwrap();
    assert_eq!(port.name(), "today.pcapng");
    let mut burst = port.receive(10).unwrap();
    for _ in 0..4 {
        burst.next_frame().unwrap();
    }
    burst.put_back();
    assert!(burst.next_frame().is_none());
    drop(burst);
    assert_eq!(port.counts().received, 3);
    let fourth = port.receive(1).unwrap().next_frame().unwrap().data.len();
    assert_eq!(fourth, 3);
    port.stop().unwrap();
    assert_eq!(drain(&mut port, 8), (Vec::new(), None));
    assert_eq!(port.counts().received, 4);
}
