//! The port that sends: every frame that the kernel accepted arrives once, in order, with its bytes; all others are counted.

use crate::support::sender::frame;
use crate::support::{Ended, arrive, carries, fill, frames, ip, packet, pump, send, sent};
use crate::{LONG, lab, open, quiet, settled, spec};
use forebay::packet::{Pool, PoolConfig};
use forebay_net::{
    af_packet::{AfPacket, AfPacketConfig},
    af_xdp::AfXdpTx,
    port::Port,
    session::Control,
    transmit::{self, TxBackend, TxConfig, TxPort},
};
use std::time::Duration;

fn sender(text: &str) -> AfXdpTx {
    AfXdpTx::open(&spec(text), &TxConfig::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// A port that receives what is sent.
fn receiver() -> AfPacket {
    AfPacket::open("vb", &AfPacketConfig::default()).unwrap()
}

#[test]
fn frames_from_slots_arrive_in_order_with_their_bytes() {
    lab(&[], || {
        const SENT: u64 = 20_000;
        let mut from = receiver();
        let mut to = sender("va");
        assert_eq!((to.name(), to.max_frame_bytes()), ("va", 1514));
        let frames = [frames(0..SENT / 2, 60), frames(SENT / 2..SENT, 1514)].concat();
        send(&mut to, &frames);
        let counts = sent(&to);
        assert_eq!((counts.sent, counts.accepted), (SENT, SENT));
        assert_eq!(counts.accepted_bytes, SENT / 2 * (60 + 1514));
        arrive(&mut from, &frames);
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
                send(&mut to, &frames(part * 1000..(part + 1) * 1000, 60));
                let silence = Duration::from_millis(5);
                pump(&mut from, silence, |_| (seen += 1, true).1).unwrap();
            }
            quiet(&mut from);
            from.stop().unwrap();
            let ended = pump(&mut from, LONG, |_| (seen += 1, true).1);
            assert_eq!(ended.unwrap(), Ended::End);
            let (counts, losses) = settled(&mut from, seen, 0);
            // What the ring of the other end had no room for is refused here, and counted there too.
            let sent = sent(&to);
            assert_eq!(sent.sent, SENT);
            assert_eq!(counts.received, sent.accepted, "{sent:?} {losses:?}");
            assert_eq!(losses.peer, Some(sent.failed.refused));
        }
    });
}

#[test]
fn foreign_shared_short_and_long_packets_are_copied_or_counted() {
    lab(&[], || {
        let mut from = receiver();
        let mut to = sender("va");
        let config = PoolConfig {
            slot_bytes: 4096,
            ..PoolConfig::default()
        };
        let mut pool = Pool::new(&config).unwrap();
        let mut make = |bytes: &[u8]| packet(&mut pool, bytes);
        // Only a tag makes room for four bytes more.
        let tagged =
            |len: usize| [&frame(2, len)[..12], &[0x81, 0, 0, 7], &frame(2, len)[12..]].concat();
        let own = fill(&mut to, &frames(1..2, 60)).remove(0);
        let mut packets = vec![
            make(&frame(0, 60)),
            own.share(),
            own,
            make(&[0; 13]),
            make(&frame(1, 1515)),
            make(&frame(1, 1518)),
            make(&tagged(1515)),
            make(&tagged(1514)),
        ];
        assert_eq!(to.commit(&mut packets).unwrap(), 8);
        transmit::drain(&mut to, &Control::new().unwrap()).unwrap();
        let counts = sent(&to);
        assert_eq!((counts.accepted, counts.failed.total()), (4, 4));
        assert_eq!((counts.failed.too_short, counts.failed.too_long), (1, 3));
        arrive(
            &mut from,
            &[frame(0, 60), frame(1, 60), frame(1, 60), tagged(1514)],
        );
    });
}

#[test]
fn frames_wait_for_an_interface_that_is_down_and_those_given_up_are_never_sent() {
    lab(&[], || {
        let mut from = receiver();
        let config = TxConfig {
            queue_frames: 8,
            ..TxConfig::default()
        };
        let mut to = AfXdpTx::open(&spec("va"), &config).unwrap();
        ip("link set va down");
        for round in 0..3 {
            let mut packets = fill(&mut to, &vec![frame(900, 60); 20]);
            assert_eq!(packets.len(), 8);
            let taken = to.commit(&mut packets).unwrap();
            assert!(taken == 8 || round > 0, "{taken}");
            drop(packets);
            let control = Control::new().unwrap();
            control.stop();
            control.stop();
            transmit::drain(&mut to, &control).unwrap();
            let counts = sent(&to);
            assert_eq!(counts.failed.abandoned, counts.sent);
        }
        ip("link set va up");
        carries("va");
        let before = to.counts().sent;
        let good = frames(0..1_000, 60);
        send(&mut to, &good);
        assert_eq!(sent(&to).accepted, 1_000);
        assert_eq!(to.counts().sent, before + 1_000);
        arrive(&mut from, &good); // and none that was given up
        ip("link del vb");
        let mut packets = fill(&mut to, &[vec![0; 60]]);
        let error = to.commit(&mut packets).unwrap_err().to_string();
        assert!(
            error.starts_with("va: sending: the interface is gone"),
            "{error}"
        );
        assert_eq!(sent(&to).failed.link_down, 1);
    });
}

#[test]
fn a_queue_in_use_and_keys_for_receiving_are_refused_with_advice() {
    lab(&[], || {
        let default = TxConfig::default();
        let refused = |text: &str, config: &TxConfig| {
            let opened = forebay_net::open::transmit(&text.parse().unwrap(), config);
            opened.err().expect("refused").to_string()
        };
        let _first = sender("va");
        let text = refused("xdp:va", &default);
        assert!(text.contains("has this queue: queue=N"), "{text}");
        let text = refused("xdp:va,queue=9", &default);
        assert!(text.contains("There is no such queue"), "{text}");
        let text = refused("xdp:va,mode=native", &default);
        assert!(text.contains("are for receiving"), "{text}");
        let config = TxConfig {
            backend: TxBackend::Ring,
            ..TxConfig::default()
        };
        let text = refused("xdp:va", &config);
        assert!(text.contains("belongs to AF_PACKET"), "{text}");
        ip("link set vb mtu 9000");
        assert!(refused("xdp:vb", &default).contains("too long for AF_XDP"));
    });
}
