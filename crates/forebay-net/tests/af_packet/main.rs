//! The AF_PACKET port on live interfaces: every frame that the kernel accepted is delivered or counted, and every loss is
//! reported by the right frame.
//!
//! - `capture`: frame by frame, in a loop or a closure
//! - `opening`: opening a port, and the errors
//! - `any`: all interfaces at once
//! - `frames`: the data of each frame
//! - `senders`: frames of other tools
//! - `losses`: overload
//! - `rejections`: frames that the kernel's filter rejects
//! - `several`: several interfaces in one session
//! - `ending`: stops and lost interfaces
//!
//! This file contains what they share.
//!
//! Requires root, or a user that may create user namespaces, and `ip` from iproute2. Some tests need `trafgen` (netsniff-ng),
//! `tcpreplay` or /dev/net/tun. A missing requirement is reported as `skipped: needs …`; with `CI=true` in the environment it is
//! a failure. All tests use veth pairs in separate network namespaces.
#![allow(unsafe_code)]

#[path = "../support/mod.rs"]
mod support;

mod any;
mod capture;
mod ending;
mod frames;
mod losses;
mod opening;
mod rejections;
mod senders;
mod several;

use forebay_net::af_packet::{AfPacket, AfPacketConfig};
use forebay_net::port::{Counts, Port};
use std::time::Duration;
use support::{Ended, LONG, pump, sender};

const SHORT: Duration = Duration::from_millis(200);

/// A port on `vb`, with the default settings except for what `set` changes.
fn open(set: impl FnOnce(&mut AfPacketConfig)) -> AfPacket {
    open_on("vb", set)
}

fn open_on(interface: &str, set: impl FnOnce(&mut AfPacketConfig)) -> AfPacket {
    let mut config = AfPacketConfig::default();
    set(&mut config);
    AfPacket::open(interface, &config).unwrap_or_else(|error| panic!("{error}"))
}

/// Checks the accounting of an ended port, and returns its counts.
fn settled(port: &mut AfPacket, delivered: u64, told: u64) -> Counts {
    let counts = port.counts();
    let dropped = counts.dropped.expect("this source counts drops");
    assert_eq!(counts.received, delivered + dropped);
    let reported = told + port.trailing_drops();
    assert_eq!(reported, dropped, "every drop is reported once");
    assert_eq!(counts.interface_dropped, Some(0));
    counts
}

/// Stops a port that has no frame left, and checks its accounting.
fn ends_after(port: &mut AfPacket, delivered: u64) -> Counts {
    port.stop().unwrap();
    let ended = pump(port, LONG, |_| panic!("one frame too many"));
    assert_eq!(ended.unwrap(), Ended::End);
    settled(port, delivered, 0)
}

/// Sends a datagram over the loopback interface.
fn send_once() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    socket.send_to(b"once", address).unwrap();
}

/// A frame as on the wire, with these tags between the addresses and the type.
fn tagged(tags: &[[u8; 4]], len: usize) -> Vec<u8> {
    let plain = sender::frame(0x0102_0304_0506_0708, len);
    [&plain[..12], &tags.concat(), &plain[12..]].concat()
}

/// Untagged, 802.1Q, 802.1ad, and 802.1Q within 802.1ad.
fn four_kinds() -> [Vec<u8>; 4] {
    let (c, s) = ([0x81, 0x00, 0xA0, 0x64], [0x88, 0xA8, 0x00, 0xC8]);
    [
        tagged(&[], 60),
        tagged(&[c], 64),
        tagged(&[s], 300),
        tagged(&[s, c], 1000),
    ]
}
