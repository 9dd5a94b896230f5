//! A broadcast ring between processes: a producer that is killed at any moment, readers that try to write, and readers that are
//! stopped. Each test runs this program again as its children.
#![cfg(not(forebay_one_view))] // what processes share, ThreadSanitizer does not see
#![allow(unsafe_code)]

use forebay::ring::broadcast::{BroadcastConfig, Producer, Reader, RecvError};
use forebay_testing::{
    children::{self, FOLDER, Mortal, moments},
    folder::Folder,
};
use rustix::{
    fs::{FallocateFlags, OFlags, SealFlags},
    io::Errno,
    mm::{Advice, MapFlags, MprotectFlags, ProtFlags},
    pipe::SpliceFlags,
};
use std::{
    env, fs,
    fs::File,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{FileExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    ptr, thread,
    time::{Duration, Instant},
};

/// Where to find the memory of a producer: its process and descriptor.
fn place(producer: &Producer) -> String {
    let descriptor = producer.memory().as_raw_fd();
    format!("/proc/{}/fd/{descriptor}", std::process::id())
}

fn attach(place: &str) -> Reader {
    Reader::attach(File::open(place).unwrap().into()).unwrap()
}

/// Message `number`: its number again and again, 8 to 1600 bytes long.
fn message(number: u64) -> Vec<u8> {
    let words = 1 + number * 7 % 200;
    number.to_le_bytes().repeat(words as usize)
}

/// Starts this program again in `role`.
fn child(role: &str, place: &str, folder: &Path) -> Mortal {
    let mut command = children::role(role);
    command.env("FOREBAY_PLACE", place).env(FOLDER, folder);
    Mortal(command.spawn().unwrap())
}

/// Waits until a child has written this file.
fn answer(file: &PathBuf) -> String {
    let begun = Instant::now();
    loop {
        match fs::read_to_string(file) {
            Ok(text) if !text.is_empty() => return text,
            _ => assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{file:?} is missing"
            ),
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn tell(name: &str, text: &str) {
    let folder = PathBuf::from(env::var_os(FOLDER).unwrap());
    fs::write(folder.join("new"), text).unwrap();
    fs::rename(folder.join("new"), folder.join(name)).unwrap();
}

/// Receives until there is no message for 20 ms. Returns why.
fn drain(reader: &mut Reader, next: &mut u64) -> RecvError {
    let mut buffer = vec![0; reader.largest()];
    loop {
        match reader.recv_timeout(&mut buffer, Duration::from_millis(20)) {
            Ok(got) => {
                assert_eq!(got.sequence, *next);
                assert_eq!(buffer[..got.len], message(*next), "message {next}");
                *next += 1;
            }
            Err(RecvError::Overrun { lost }) => *next += lost,
            Err(end) => return end,
        }
    }
}

#[test]
fn a_producer_killed_at_any_moment_leaves_no_torn_message() {
    for moment in 0..moments(10) {
        let folder = Folder::new();
        let mut producer = child("publishes", "", &folder);
        let mut reader = attach(&answer(&folder.join("place")));
        let mut next = reader.seek_oldest();
        let killer = thread::spawn(move || {
            thread::sleep(Duration::from_micros(moment * 977));
            producer.signal(libc::SIGKILL);
            while !producer.has_ended() {
                thread::yield_now();
            }
        });
        while !killer.is_finished() {
            drain(&mut reader, &mut next);
        }
        killer.join().unwrap();
        assert_eq!(drain(&mut reader, &mut next), RecvError::TimedOut);
        // All that was published last is intact: a dead producer overwrites nothing.
        let intact = reader.intact();
        assert_eq!((next, reader.stats().next), (intact.end, intact.end));
        next = reader.seek_oldest();
        let lost = reader.stats().lost;
        assert_eq!(drain(&mut reader, &mut next), RecvError::TimedOut);
        assert_eq!((next, reader.stats().lost), (intact.end, lost));
    }
}

#[test]
#[ignore = "the other tests run it as a child"]
fn publishes() {
    let config = BroadcastConfig {
        data_bytes: 1 << 16,
        messages: 256,
        ..BroadcastConfig::default()
    };
    let mut producer = Producer::new(&config).unwrap();
    tell("place", &place(&producer));
    for number in 0.. {
        producer.append(&[&message(number)]).unwrap();
        // Short bursts, and some that are longer than the ring.
        let burst = if number / 1000 % 2 == 0 { 5 } else { 300 };
        if number % burst == 0 {
            producer.publish_appended();
        }
        if number % 64 == 0 {
            producer.wake();
        }
    }
}

#[test]
fn readers_that_are_stopped_or_killed_cost_a_producer_nothing() {
    let mut producer = Producer::new(&BroadcastConfig::default()).unwrap();
    let folders = [0, 1, 2].map(|_| Folder::new());
    let [mut well, mut stopped, killed] =
        [0, 1, 2].map(|at| child("receives", &place(&producer), &folders[at]));
    let starts = folders
        .each_ref()
        .map(|folder| answer(&folder.join("attached")));
    assert!(starts.iter().all(|start| start == "0"));
    let mut publish = |from: u64, to: u64| {
        for number in from..to {
            producer.publish(&[&message(number)]).unwrap();
            if number % 16 == 0 {
                producer.wake();
            }
        }
    };
    publish(0, 1000);
    stopped.signal(libc::SIGSTOP);
    killed.signal(libc::SIGKILL);
    publish(1000, 30_000);
    stopped.signal(libc::SIGCONT);
    publish(30_000, 31_000);
    drop(producer);
    well.ends_well();
    stopped.ends_well();
    for folder in &folders[..2] {
        let counts = answer(&folder.join("counts"));
        let counts: Vec<u64> = counts
            .split(' ')
            .map(|count| count.parse().unwrap())
            .collect();
        assert_eq!(counts[0] + counts[1], 31_000);
    }
    let lost = answer(&folders[1].join("counts"));
    assert!(!lost.ends_with(" 0"), "{lost}");
}

#[test]
#[ignore = "the other tests run it as a child"]
fn receives() {
    let Ok(place) = env::var("FOREBAY_PLACE") else {
        return;
    };
    let mut reader = attach(&place);
    let mut next = reader.stats().next;
    tell("attached", &next.to_string());
    while drain(&mut reader, &mut next) != RecvError::Closed {}
    let stats = reader.stats();
    assert_eq!(stats.received + stats.lost, next);
    tell("counts", &format!("{} {}", stats.received, stats.lost));
}

#[test]
fn a_hostile_reader_can_neither_write_nor_shorten_the_memory() {
    let mut producer = Producer::new(&BroadcastConfig::default()).unwrap();
    let (mut reader, folder) = (producer.reader().unwrap(), Folder::new());
    let mut hostile = child("attacks", &place(&producer), &folder);
    let (mut next, mut published) = (0, 0);
    while !hostile.has_ended() {
        producer.publish(&[&message(published)]).unwrap();
        published += 1;
        drain_now(&mut reader, &mut next);
    }
    hostile.ends_well();
    let stats = reader.stats();
    assert_eq!((stats.received, stats.lost), (published, 0));
    assert_eq!(answer(&folder.join("refused")), "all");
}

fn drain_now(reader: &mut Reader, next: &mut u64) {
    let mut buffer = [0; 1600];
    let got = reader.try_recv(&mut buffer).unwrap();
    assert_eq!(buffer[..got.len], message(*next));
    *next += 1;
}

/// Tries every way to change the memory, through the descriptor that readers get, and through new ones on the same memory.
#[test]
#[ignore = "the other tests run it as a child"]
fn attacks() {
    let Ok(place) = env::var("FOREBAY_PLACE") else {
        return;
    };
    let open = |flags: OFlags| {
        let mut options = fs::OpenOptions::new();
        options
            .read(true)
            .write(true)
            .custom_flags(flags.bits() as i32);
        options.open(&place).unwrap()
    };
    let mut files = vec![open(OFlags::empty()), open(OFlags::APPEND)];
    let again = format!("/proc/self/fd/{}", files[0].as_raw_fd());
    files.push(
        fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(again)
            .unwrap(),
    );
    for file in &files {
        let len = file.metadata().unwrap().len();
        let tried = [
            file.write_at(&[0xFF; 4096], 0).map(drop),
            file.set_len(0),
            file.set_len(2 * len),
        ];
        let errors = tried.map(|tried| tried.unwrap_err().raw_os_error());
        assert_eq!(errors, [Some(libc::EPERM); 3]);
        let keep = FallocateFlags::KEEP_SIZE;
        for flags in [
            FallocateFlags::PUNCH_HOLE | keep,
            FallocateFlags::ZERO_RANGE,
            FallocateFlags::COLLAPSE_RANGE,
        ] {
            assert!(
                rustix::fs::fallocate(file, flags, 0, 4096).is_err(),
                "{flags:?}"
            );
        }
        for seals in [SealFlags::WRITE, SealFlags::empty()] {
            assert!(
                rustix::fs::fcntl_add_seals(file, seals).is_err(),
                "{seals:?}"
            );
        }
        // A pipe's pages cannot be spliced in.
        let (out, into) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&into, &[0xFF; 100]).unwrap();
        let mut at = 0;
        assert!(
            rustix::pipe::splice(&out, None, file, Some(&mut at), 100, SpliceFlags::empty())
                .is_err()
        );
        let writable = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let mapped =
            unsafe { rustix::mm::mmap(ptr::null_mut(), 4096, writable, MapFlags::SHARED, file, 0) };
        assert_eq!(mapped, Err(Errno::PERM));
        // SAFETY: as above.
        let mapped = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                4096,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                0,
            )
        }
        .unwrap();
        // SAFETY: the mapping from above, which nothing uses.
        let protected = unsafe { rustix::mm::mprotect(mapped, 4096, MprotectFlags::WRITE) };
        assert_eq!(protected, Err(Errno::ACCESS));
        // SAFETY: as above.
        let removed = unsafe { rustix::mm::madvise(mapped, 4096, Advice::LinuxRemove) };
        assert!(removed.is_err());
    }
    // It is still a ring to which one can attach.
    let memory: OwnedFd = files.remove(0).into();
    assert!(Reader::attach(memory).is_ok());
    tell("refused", "all");
}
