//! Ports for sending, on live interfaces: every committed packet is accepted or has failed with a cause, and what was accepted
//! arrives unchanged and in order, also when the interface goes down in between.
//!
//! Requires what the tests of `af_packet` require. All tests use veth pairs in separate network namespaces.

#[path = "../support/mod.rs"]
mod support;

use forebay::packet::{Pool, PoolConfig};
use forebay::time::Clock;
use forebay_net::af_packet::{AfPacket, AfPacketConfig, AfPacketTx};
use forebay_net::replay::{Replay, ReplayConfig, Speed};
use forebay_net::session::Control;
use forebay_net::transmit::{self, TxBackend, TxConfig, TxPort};
use std::time::{Duration, Instant};
use support::{
    Ended, LONG, arrive, carries, fill, frames, ip, lab, packet, pump, send, sender, sent, skip,
    tool,
};

const BOTH: [TxBackend; 2] = [TxBackend::Messages, TxBackend::Ring];

/// A port on `va`, with the default settings except for what `set` changes.
fn open(set: impl FnOnce(&mut TxConfig)) -> AfPacketTx {
    let mut config = TxConfig::default();
    set(&mut config);
    AfPacketTx::open("va", &config).unwrap_or_else(|error| panic!("{error}"))
}

fn receiver() -> AfPacket {
    AfPacket::open("vb", &AfPacketConfig::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn patient(backend: TxBackend, patience: Duration) -> AfPacketTx {
    open(|it| (it.backend, it.patience) = (backend, patience))
}

#[test]
fn frames_of_all_lengths_arrive_as_they_were_sent() {
    lab(&[], || {
        let tag = [0x81, 0, 0, 7];
        let mut frames: Vec<_> = (0..20_000)
            .map(|number| sender::frame(number, 22 + (number as usize * 7) % 1493))
            .collect();
        // The tag may be added to the longest frame.
        let tagged = |frame: &Vec<u8>| [&frame[..12], &tag, &frame[12..]].concat();
        frames.extend((0..10).map(|number| tagged(&sender::frame(number, 1514))));
        for backend in BOTH {
            let mut from = receiver();
            let mut to = open(|it| (it.backend, it.queue_frames) = (backend, 300));
            send(&mut to, &frames);
            arrive(&mut from, &frames);
            let counts = sent(&to);
            assert_eq!(counts.accepted, frames.len() as u64);
            let bytes: usize = frames.iter().map(Vec::len).sum();
            assert_eq!(counts.accepted_bytes, bytes as u64);
        }
    });
}

#[test]
fn frames_that_cannot_be_sent_are_counted_by_cause_and_do_not_stop_the_others() {
    lab(&[], || {
        for (backend, bypass_qdisc) in BOTH.into_iter().zip([false, true]) {
            let mut from = receiver();
            let mut to = open(|it| (it.backend, it.bypass_qdisc) = (backend, bypass_qdisc));
            let config = PoolConfig {
                slots: 64,
                ..PoolConfig::default()
            };
            let mut pool = Pool::new(&config).unwrap();
            let good = frames(0..4, 1000);
            let long = sender::frame(9, 1515);
            let mut packets = vec![
                packet(&mut pool, &good[0]),
                packet(&mut pool, &long), // only the kernel knows that it has no tag
                packet(&mut pool, &good[1]),
                packet(&mut pool, &[0; 13]),
                packet(&mut pool, &good[2]),
                packet(&mut pool, &[1; 3000]), // in several slots
                packet(&mut pool, &good[3]),
            ];
            assert_eq!(to.commit(&mut packets).unwrap(), 7);
            transmit::drain(&mut to, &Control::new().unwrap()).unwrap();
            arrive(&mut from, &good);
            let counts = sent(&to);
            assert_eq!(
                (counts.sent, counts.accepted),
                (7, 4),
                "{backend:?}: {counts:?}"
            );
            assert_eq!((counts.failed.too_long, counts.failed.too_short), (2, 1));
            drop(to);
            assert_eq!(pool.refill(), 64, "slots of other pools return to them");
        }
    });
}

#[test]
fn a_frame_in_several_slots_is_sent_whole() {
    lab(&[], || {
        let config = PoolConfig {
            slot_bytes: 256,
            ..PoolConfig::default()
        };
        let mut pool = Pool::new(&config).unwrap();
        let frame = sender::frame(1, 1400);
        for backend in BOTH {
            let mut from = receiver();
            let mut to = patient(backend, Duration::from_secs(1));
            to.commit(&mut vec![packet(&mut pool, &frame)]).unwrap();
            transmit::drain(&mut to, &Control::new().unwrap()).unwrap();
            arrive(&mut from, std::slice::from_ref(&frame));
            assert_eq!(sent(&to).accepted, 1);
        }
    });
}

#[test]
fn frames_in_memory_are_sent_until_one_has_to_wait_or_fails() {
    lab(&[], || {
        let mut from = receiver();
        let mut to = patient(TxBackend::Messages, Duration::MAX);
        assert!(to.info().sends_now);
        let mut good = frames(0..200, 300);
        let send_now = |to: &mut AfPacketTx, frames: &[Vec<u8>]| {
            to.send_now(&mut frames.iter().map(Vec::as_slice))
        };
        let mut at = 0;
        while at < good.len() {
            let sent = send_now(&mut to, &good[at..]);
            assert!(sent > 0, "the interface has room");
            at += sent;
        }
        assert_eq!(send_now(&mut to, &[]), 0);
        // A frame that is too long or too short ends it, and is not counted: the caller commits it.
        let mixed = [sender::frame(1, 60), sender::frame(2, 2000), vec![0; 13]];
        assert_eq!(send_now(&mut to, &mixed), 1);
        assert_eq!(send_now(&mut to, &mixed[1..]), 0);
        assert_eq!(send_now(&mut to, &mixed[2..]), 0);
        good.push(mixed[0].clone());
        arrive(&mut from, &good);
        let counts = sent(&to);
        let bytes: usize = good.iter().map(Vec::len).sum();
        assert_eq!((counts.sent, counts.accepted), (201, 201));
        assert_eq!(counts.accepted_bytes, bytes as u64);
        // It does not overtake packets that wait.
        ip("link set va down");
        assert_eq!(send_now(&mut to, &good[..3]), 0);
        let mut packets = fill(&mut to, &good[..3]);
        assert_eq!(to.commit(&mut packets).unwrap(), 3);
        ip("link set va up");
        ["va", "vb"].into_iter().for_each(carries);
        let mut from = receiver();
        assert_eq!(send_now(&mut to, &good[3..6]), 0);
        transmit::drain(&mut to, &Control::new().unwrap()).unwrap();
        assert_eq!(send_now(&mut to, &good[3..6]), 3);
        arrive(&mut from, &good[..6]);
        assert_eq!(sent(&to).accepted, 207);
        // A ring has its own slots.
        let mut ring = patient(TxBackend::Ring, Duration::MAX);
        assert!(!ring.info().sends_now);
        assert_eq!(send_now(&mut ring, &good), 0);
        assert_eq!(sent(&ring).sent, 0);
    });
}

#[test]
fn frames_wait_for_an_interface_that_is_down() {
    lab(&[], || {
        for backend in BOTH {
            let mut to = patient(backend, Duration::MAX);
            let frames = frames(0..50, 200);
            send(&mut to, &frames[..10]);
            ip("link set va down");
            let mut packets = fill(&mut to, &frames[10..]);
            assert_eq!(to.commit(&mut packets).unwrap(), 40);
            let counts = to.counts();
            assert_eq!((counts.accepted, counts.pending()), (10, 40));
            assert!(counts.retried > 0);
            let mut from = receiver();
            ip("link set va up"); // the carrier may come later
            transmit::drain(&mut to, &Control::new().unwrap()).unwrap();
            arrive(&mut from, &frames[10..]);
            assert_eq!(sent(&to).accepted, 50);
        }
    });
}

#[test]
fn frames_wait_for_a_carrier_which_the_kernel_does_not() {
    lab(&[], || {
        for backend in BOTH {
            let mut to = patient(backend, Duration::MAX);
            ip("link set vb down");
            while ip("link show va").contains("state UP") {}
            let frames = frames(0..40, 200);
            let mut packets = fill(&mut to, &frames);
            std::thread::sleep(Duration::from_millis(20)); // the carrier is looked up again
            assert_eq!(to.commit(&mut packets).unwrap(), 40);
            assert_eq!((to.counts().accepted, to.counts().pending()), (0, 40));
            ip("link set vb up");
            let mut from = receiver();
            transmit::drain(&mut to, &Control::new().unwrap()).unwrap();
            arrive(&mut from, &frames);
            assert_eq!(sent(&to).accepted, 40);
        }
    });
}

#[test]
fn frames_that_a_filter_drops_fail_and_do_not_stop_the_others() {
    lab(&["tc"], || {
        // A class without a queue drops all its frames.
        for command in [
            "qdisc add dev va root handle 1: htb default 10",
            "class add dev va parent 1: classid 1:10 htb rate 10gbit",
            "class add dev va parent 1: classid 1:20 htb rate 10gbit",
            "qdisc add dev va parent 1:20 pfifo limit 0",
            "filter add dev va parent 1: protocol 0x88b6 u32 match u32 0 0 flowid 1:20",
        ] {
            let done = tool("tc").args(command.split(' ')).output().unwrap();
            if !done.status.success() {
                return skip("the queueing discipline `htb` with filters");
            }
        }
        for backend in BOTH {
            let mut from = receiver();
            let mut to = patient(backend, Duration::from_millis(20));
            let mut frames = frames(0..5, 200);
            frames[2][12..14].copy_from_slice(&[0x88, 0xb6]);
            send(&mut to, &frames);
            frames.remove(2);
            arrive(&mut from, &frames);
            let counts = sent(&to);
            assert_eq!((counts.accepted, counts.failed.refused), (4, 1));
        }
    });
}

#[test]
fn without_patience_a_port_whose_interface_is_down_fails_and_can_be_used_again() {
    lab(&[], || {
        for backend in BOTH {
            let mut to = patient(backend, Duration::ZERO);
            ip("link set va down");
            let mut pool = Pool::new(&PoolConfig::default()).unwrap();
            let frame = sender::frame(3, 100);
            let mut packets = vec![packet(&mut pool, &frame), packet(&mut pool, &frame)];
            let error = to.commit(&mut packets).unwrap_err().to_string();
            assert!(error.contains("va: the interface is down"), "{error}");
            assert_eq!(sent(&to).failed.link_down, 2);
            ip("link set va up");
            ["va", "vb"].into_iter().for_each(carries);
            let mut from = receiver();
            // The socket reports the outage once more.
            while sent(&to).accepted == 0 {
                let _ = to.commit(&mut vec![packet(&mut pool, &frame)]);
            }
            arrive(&mut from, &[frame]);
        }
    });
}

#[test]
fn an_interface_that_is_deleted_ends_the_port_with_exact_counts() {
    lab(&[], || {
        for backend in BOTH {
            let mut to = patient(backend, Duration::from_secs(1));
            ip("link del va");
            let mut pool = Pool::new(&PoolConfig::default()).unwrap();
            let frame = sender::frame(3, 100);
            let mut error = None;
            for _ in 0..2 {
                // The first answer may be that the interface is down.
                let committed = to.commit(&mut vec![packet(&mut pool, &frame)]);
                error = committed.err().or(error);
            }
            let error = error.expect("a deleted interface").to_string();
            assert!(error.contains("the interface is gone"), "{error}");
            let counts = sent(&to);
            assert_eq!((counts.sent, counts.failed.link_down), (2, 2));
            ip("link add va type veth peer name vb");
            for link in ["va", "vb"] {
                ip(&format!("link set {link} up"));
            }
            ["va", "vb"].into_iter().for_each(carries);
        }
    });
}

#[test]
fn frames_for_which_a_slow_interface_has_no_room_are_retried_and_none_is_lost() {
    lab(&["tc"], || {
        let shaped = tool("tc")
            .args("qdisc add dev va root tbf rate 20mbit burst 4kb limit 8kb".split(' '))
            .output()
            .unwrap();
        if !shaped.status.success() {
            return skip("the queueing discipline `tbf`");
        }
        for backend in BOTH {
            let mut from = receiver();
            let mut to = patient(backend, LONG);
            let mut frames = frames(0..500, 600);
            send(&mut to, &frames);
            // In any order: the kernel takes frames from the queue on the sender's processor and on that of a timer.
            let mut arrived = Vec::new();
            let all = pump(&mut from, LONG, |frame| {
                arrived.push(frame.data.to_vec());
                arrived.len() < frames.len()
            });
            assert_eq!(all.unwrap(), Ended::Enough, "{} arrived", arrived.len());
            arrived.sort();
            frames.sort();
            assert!(arrived == frames, "others than were sent");
            let counts = sent(&to);
            assert_eq!(counts.accepted, 500);
            assert!(counts.retried > 0, "{counts:?}");
        }
    });
}

#[test]
fn a_queue_that_is_full_hands_packets_back_and_abandoned_ones_are_counted() {
    lab(&[], || {
        for backend in BOTH {
            let mut to = open(|it| {
                (it.backend, it.queue_frames, it.patience) = (backend, 8, Duration::MAX);
            });
            ip("link set va down");
            let mut packets = Vec::new();
            assert_eq!(to.reserve(20, &mut packets), 8, "room for 8");
            let mut pool = Pool::new(&PoolConfig::default()).unwrap();
            let frame = sender::frame(1, 60);
            packets.clear();
            packets.extend((0..20).map(|_| packet(&mut pool, &frame)));
            assert_eq!(to.commit(&mut packets).unwrap(), 8);
            assert_eq!(packets.len(), 12);
            assert_eq!(to.reserve(1, &mut Vec::new()), 0);
            // A caller that waits does so without taking much of the processor.
            let (begun, control) = (Instant::now(), Control::new().unwrap());
            control.stop();
            control.stop();
            transmit::drain(&mut to, &control).unwrap();
            assert!(begun.elapsed() < LONG);
            let counts = sent(&to);
            assert_eq!((counts.sent, counts.failed.abandoned), (8, 8));
            ip("link set va up");
        }
    });
}

#[test]
fn what_cannot_send_is_refused_with_advice() {
    lab(&[], || {
        let open = |name: &str, config: &TxConfig| {
            let opened = forebay_net::open::transmit(&name.parse().unwrap(), config);
            opened.err().expect("refused").to_string()
        };
        let config = TxConfig::default();
        for (name, text) in [
            ("sim", "only receives"),
            ("any", "all interfaces at once"),
            ("share:x", "only read"),
            ("vc", "no interface 'vc'"),
        ] {
            let error = open(name, &config);
            assert!(error.contains(text), "{error}");
        }
        let none = TxConfig {
            queue_frames: 0,
            ..config
        };
        assert!(open("va", &none).contains("1 to 32768"));
    });
}

#[test]
fn a_replay_from_memory_goes_on_after_a_frame_that_fails_also_with_a_short_queue() {
    lab(&[], || {
        let folder = forebay_testing::folder::Folder::new();
        let file = folder.path("a.pcap");
        let mut all = vec![sender::frame(0, 3000)];
        all.extend((1..200).map(|number| sender::frame(number, 60)));
        std::fs::write(&file, forebay_testing::lab::classic(&all)).unwrap();
        let mut from = receiver();
        for queue_frames in [1, 3, 8] {
            let mut to = open(|it| it.queue_frames = queue_frames);
            let config = ReplayConfig {
                files: vec![file.clone().into()],
                speed: Speed::Top,
                preload: true,
                ..ReplayConfig::default()
            };
            let replay = Replay::new(config, Clock::real(), Control::new().unwrap());
            let summary = replay.run(&mut to, &mut |_| {});
            assert_eq!(summary.law(), Ok(()));
            let sent = summary.counts.sent;
            assert_eq!((sent.accepted, sent.failed.too_long), (199, 1));
            arrive(&mut from, &all[1..]);
        }
    });
}
