//! Shared by the live tests of the ports: the laboratory, senders, and readers.

#![allow(dead_code, unused_imports)] // each test program uses some

pub use forebay_testing::{
    dice::rounds,
    lab::{carries, ip, lab, lab_alone, skip, tool},
    sender,
};

use forebay::packet::{Packet, Pool};
use forebay_net::af_packet::AfPacket;
use forebay_net::port::{Frame, Port, Wake};
use forebay_net::session::Control;
use forebay_net::transmit::{self, TxCounts, TxPort};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

pub const LONG: Duration = Duration::from_secs(10);

/// Waits until the descriptor is ready; `false` if it was not in time.
pub fn wait(fd: BorrowedFd<'_>, time: Duration) -> bool {
    let time = Timespec::try_from(time).expect("a short time");
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&time)).is_ok_and(|ready| ready > 0)
}

/// How a [`pump`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The port ended.
    End,
    /// `each` returned `false`.
    Enough,
    /// No frame arrived within the given time.
    Silent,
}

/// Reads as a session does: in bursts while there are frames, and sleeping while there are none.
pub fn pump(
    port: &mut impl Port,
    silence: Duration,
    mut each: impl FnMut(&Frame<'_>) -> bool,
) -> forebay::Result<Ended> {
    loop {
        let (mut some, mut enough) = (false, false);
        let mut burst = port.receive(256)?;
        while let Some(frame) = burst.next_frame() {
            some = true;
            if !each(&frame) {
                enough = true;
                break;
            }
        }
        drop(burst);
        if enough {
            return Ok(Ended::Enough);
        }
        if !some {
            match port.arm()? {
                Wake::End => return Ok(Ended::End),
                Wake::Fd(fd) if !wait(fd, silence) => return Ok(Ended::Silent),
                _ => {}
            }
            port.disarm();
        }
    }
}

/// Has `va` send this many frames before and after an outage of `vb`. All are delivered, and the outage is counted. `arrived` is
/// called when the first part was sent.
pub fn outage<P: Port>(port: &mut P, before: u64, after: u64, arrived: impl FnOnce(&mut P)) {
    let all = before + after;
    sender::Sender::open("va").numbers(0..before, 60).unwrap();
    arrived(port);
    ip("link set vb down");
    let (mut seen, short) = (0, Duration::from_millis(50));
    while !port.report().outages.is_down {
        pump(port, short, |_| (seen += 1, true).1).unwrap();
    }
    ip("link set vb up");
    carries("va");
    sender::Sender::open("va").numbers(before..all, 60).unwrap();
    while seen < all {
        pump(port, LONG, |_| (seen += 1, seen < all).1).unwrap();
    }
    // A port may deliver the last frames before it asks whether the interface is up.
    while port.report().outages.is_down {
        pump(port, short, |_| panic!("one too many")).unwrap();
    }
    let outages = port.report().outages;
    assert_eq!((outages.count, outages.is_down), (1, false));
    assert_eq!(outages.total, outages.last);
}

/// The error of a port that is polled and never armed.
pub fn error_without_arming(port: &mut impl Port) -> String {
    let until = Instant::now() + LONG;
    loop {
        assert!(Instant::now() < until);
        if let Err(error) = port.receive(64) {
            return error.to_string();
        }
    }
}

/// Frames with these numbers.
pub fn frames(numbers: Range<u64>, len: usize) -> Vec<Vec<u8>> {
    numbers.map(|number| sender::frame(number, len)).collect()
}

/// A packet with these bytes.
pub fn packet(pool: &mut Pool, frame: &[u8]) -> Packet {
    let mut packet = pool.take().unwrap();
    packet.append(pool, frame).unwrap();
    packet
}

/// Packets in the port's slots: these frames, or as many as it has room for.
pub fn fill(port: &mut dyn TxPort, frames: &[Vec<u8>]) -> Vec<Packet> {
    let mut packets = Vec::new();
    port.reserve(frames.len(), &mut packets);
    for (packet, frame) in packets.iter_mut().zip(frames) {
        let room = packet.put(frame.len() as u32).expect("a slot has room");
        room.copy_from_slice(frame);
    }
    packets
}

/// Sends all frames, waiting for room and for the end.
pub fn send(port: &mut dyn TxPort, frames: &[Vec<u8>]) {
    let control = Control::new().unwrap();
    let (mut at, short) = (0, Duration::from_millis(10));
    while at < frames.len() {
        let end = frames.len().min(at + 100);
        let mut packets = fill(port, &frames[at..end]);
        at += packets.len();
        while !packets.is_empty() {
            port.commit(&mut packets).unwrap();
            transmit::wait(port, &control, short).unwrap();
        }
        transmit::wait(port, &control, short).unwrap();
    }
    transmit::drain(port, &control).unwrap();
}

/// The counts of a sending port with nothing pending.
pub fn sent(port: &dyn TxPort) -> TxCounts {
    let counts = port.counts();
    assert_eq!(counts.sent, counts.accepted + counts.failed.total());
    assert_eq!(counts.pending(), 0);
    counts
}

/// Expects exactly these frames.
pub fn arrive(port: &mut AfPacket, frames: &[Vec<u8>]) {
    let mut seen = 0;
    let ended = pump(port, LONG, |frame| {
        let at = frames.iter().position(|it| *it == frame.data);
        assert!(frame.data == frames[seen], "frame {at:?} instead of {seen}");
        seen += 1;
        seen < frames.len()
    });
    assert_eq!((ended.unwrap(), seen), (Ended::Enough, frames.len()));
}
