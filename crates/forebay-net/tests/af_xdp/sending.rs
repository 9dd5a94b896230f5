//! The port that sends: every frame that the kernel accepted arrives once, in order, with its bytes; all others are counted.

use crate::support::sender::{frame, number};
use crate::support::{Ended, carries, ip, pump};
use crate::{LONG, lab, open, quiet, settled, spec};
use forebay::packet::{Packet, Pool, PoolConfig};
use forebay_net::{
    af_packet::{AfPacket, AfPacketConfig},
    af_xdp::AfXdpTx,
    port::Port,
    session::Control,
    transmit::{self, TxBackend, TxConfig, TxCounts, TxPort},
};
use std::time::Duration;

fn sender_with(text: &str, config: &TxConfig) -> AfXdpTx {
    AfXdpTx::open(&spec(text), config).unwrap_or_else(|error| panic!("{error}"))
}

fn sender(text: &str) -> AfXdpTx {
    sender_with(text, &TxConfig::default())
}

/// Sends these numbers, and waits until the kernel has taken them all.
fn send(port: &mut dyn TxPort, numbers: std::ops::Range<u64>, len: usize) {
    let control = Control::new().unwrap();
    let (mut next, mut packets) = (numbers.start, Vec::new());
    while next < numbers.end {
        port.reserve((numbers.end - next).min(64) as usize, &mut packets);
        for (packet, number) in packets.iter_mut().zip(next..) {
            let room = packet.put(len as u32).unwrap();
            room.copy_from_slice(&frame(number, len));
        }
        next += port.commit(&mut packets).unwrap() as u64;
        packets.clear();
        transmit::wait(port, &control, Duration::from_millis(10)).unwrap();
    }
    transmit::drain(port, &control).unwrap();
}

/// The counts of a port that has nothing left to send; they add up.
fn final_counts(port: &AfXdpTx) -> TxCounts {
    let counts = port.counts();
    assert_eq!(counts.pending(), 0);
    assert_eq!(counts.sent, counts.accepted + counts.failed.total());
    counts
}

#[test]
fn frames_from_slots_arrive_in_order_with_their_bytes() {
    lab(&[], || {
        const SENT: u64 = 20_000;
        let mut from = AfPacket::open("vb", &AfPacketConfig::default()).unwrap();
        let mut to = sender("va");
        assert_eq!((to.name(), to.max_frame_bytes()), ("va", 1514));
        send(&mut to, 0..SENT / 2, 60);
        send(&mut to, SENT / 2..SENT, 1514);
        let counts = final_counts(&to);
        assert_eq!((counts.sent, counts.accepted), (SENT, SENT));
        assert_eq!(counts.accepted_bytes, SENT / 2 * (60 + 1514));
        let mut next = 0;
        let ended = pump(&mut from, LONG, |got| {
            let len = if next < SENT / 2 { 60 } else { 1514 };
            assert_eq!(number(got.data), Some(next));
            assert_eq!(got.data, frame(next, len));
            next += 1;
            next < SENT
        });
        assert_eq!(ended.unwrap(), Ended::Enough);
    });
}

#[test]
fn what_one_port_sends_another_one_receives_or_counts() {
    lab(&[], || {
        const SENT: u64 = 20_000;
        for mode in crate::BOTH {
            let mut from = open(&format!("vb,mode={mode}"));
            let mut to = sender("va");
            let mut seen = 0;
            for part in 0..SENT / 1000 {
                send(&mut to, part * 1000..(part + 1) * 1000, 60);
                let silence = Duration::from_millis(5);
                pump(&mut from, silence, |_| (seen += 1, true).1).unwrap();
            }
            quiet(&mut from);
            from.stop().unwrap();
            let ended = pump(&mut from, LONG, |_| (seen += 1, true).1);
            assert_eq!(ended.unwrap(), Ended::End);
            let (counts, losses) = settled(&mut from, seen, 0);
            // What the ring of the other end had no room for is refused here, and counted there too.
            let sent = final_counts(&to);
            assert_eq!(sent.sent, SENT);
            assert_eq!(counts.received, sent.accepted, "{sent:?} {losses:?}");
            assert_eq!(losses.peer, Some(sent.failed.refused));
        }
    });
}

#[test]
fn foreign_shared_short_and_long_packets_are_copied_or_counted() {
    lab(&[], || {
        let mut from = AfPacket::open("vb", &AfPacketConfig::default()).unwrap();
        let mut to = sender("va");
        let config = PoolConfig {
            slot_bytes: 4096,
            ..PoolConfig::default()
        };
        let mut pool = Pool::new(&config).unwrap();
        let mut make = |bytes: &[u8]| {
            let mut packet = pool.take().unwrap();
            packet
                .put(bytes.len() as u32)
                .unwrap()
                .copy_from_slice(bytes);
            packet
        };
        let mut own = Vec::new();
        to.reserve(1, &mut own);
        let mut own: Packet = own.remove(0);
        own.put(60).unwrap().copy_from_slice(&frame(1, 60));
        let mut packets = vec![
            make(&frame(0, 60)),
            own.share(),
            own,
            make(&[0; 13]),
            make(&[0; 1519]),
            make(&frame(2, 1518)),
        ];
        assert_eq!(to.commit(&mut packets).unwrap(), 6);
        transmit::drain(&mut to, &Control::new().unwrap()).unwrap();
        let counts = final_counts(&to);
        assert_eq!((counts.accepted, counts.failed.total()), (4, 2));
        assert_eq!((counts.failed.too_short, counts.failed.too_long), (1, 1));
        let mut expected = [0, 1, 1, 2].into_iter();
        let ended = pump(&mut from, LONG, |got| {
            assert_eq!(number(got.data), expected.next());
            expected.len() > 0
        });
        assert_eq!(ended.unwrap(), Ended::Enough);
    });
}

#[test]
fn frames_wait_for_an_interface_that_is_down_and_those_given_up_are_never_sent() {
    lab(&[], || {
        let mut from = AfPacket::open("vb", &AfPacketConfig::default()).unwrap();
        let config = TxConfig {
            queue_frames: 8,
            ..TxConfig::default()
        };
        let mut to = sender_with("va", &config);
        ip("link set va down");
        for round in 0..3 {
            let mut packets = Vec::new();
            assert_eq!(to.reserve(20, &mut packets), 8);
            for packet in &mut packets {
                packet.put(60).unwrap().copy_from_slice(&frame(900, 60));
            }
            let taken = to.commit(&mut packets).unwrap();
            assert!(taken == 8 || round > 0, "{taken}");
            drop(packets);
            let control = Control::new().unwrap();
            control.stop();
            control.stop();
            transmit::drain(&mut to, &control).unwrap();
            let counts = final_counts(&to);
            assert_eq!(counts.failed.abandoned, counts.sent);
        }
        ip("link set va up");
        carries("va");
        let before = to.counts().sent;
        send(&mut to, 0..1_000, 60);
        assert_eq!(final_counts(&to).accepted, 1_000);
        assert_eq!(to.counts().sent, before + 1_000);
        let mut next = 0;
        let ended = pump(&mut from, LONG, |got| {
            assert_eq!(number(got.data), Some(next), "one that was given up");
            next += 1;
            next < 1_000
        });
        assert_eq!(ended.unwrap(), Ended::Enough);
        ip("link del vb");
        let mut packets = Vec::new();
        to.reserve(1, &mut packets);
        packets[0].put(60).unwrap().fill(0);
        let error = to.commit(&mut packets).unwrap_err().to_string();
        assert!(
            error.starts_with("va: sending: the interface is gone"),
            "{error}"
        );
        assert_eq!(final_counts(&to).failed.link_down, 1);
    });
}

#[test]
fn a_queue_in_use_and_keys_for_receiving_are_refused_with_advice() {
    lab(&[], || {
        let refused = |text: &str| {
            let opened = forebay_net::open::transmit(&text.parse().unwrap(), &TxConfig::default());
            opened.err().expect("refused").to_string()
        };
        let _first = sender("va");
        let text = refused("xdp:va");
        assert!(text.contains("has this queue: queue=N"), "{text}");
        let text = refused("xdp:va,queue=9");
        assert!(text.contains("There is no such queue"), "{text}");
        let text = refused("xdp:va,mode=native");
        assert!(text.contains("are for receiving"), "{text}");
        let backend = TxBackend::Ring;
        let config = TxConfig {
            backend,
            ..TxConfig::default()
        };
        let opened = forebay_net::open::transmit(&"xdp:va".parse().unwrap(), &config);
        let text = opened.err().expect("refused").to_string();
        assert!(text.contains("belongs to AF_PACKET"), "{text}");
        ip("link set vb mtu 9000");
        assert!(refused("xdp:vb").contains("too long for AF_XDP"));
    });
}
