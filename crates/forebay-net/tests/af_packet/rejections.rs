//! What the kernel's filter rejects is counted, to the frame, where the kernel runs eBPF for this process.

use crate::support::{Ended, lab, pump, rounds, sender::Sender, skip};
use crate::{LONG, open};
use forebay_net::{
    af_packet::{AfPacket, AfPacketConfig},
    port::{Counts, Fanout, Frame, Port},
};

/// Frames whose number is a multiple of four: `ether[21]` is its last byte.
const FILTER: &str = "ether proto 0x88b5 and ether[21] & 3 = 0";

/// Takes all frames of a stopped port, and returns their number and the counts.
fn drained(port: &mut AfPacket) -> (u64, Counts) {
    let mut delivered = 0;
    let count = |frame: &Frame<'_>| {
        delivered += u64::from(frame.data[21] & 3 == 0);
        true
    };
    port.stop().unwrap();
    assert_eq!(pump(port, LONG, count).unwrap(), Ended::End);
    (delivered, port.counts())
}

#[test]
fn many_frames_through_a_filter_are_counted_to_the_frame_also_under_overload() {
    let sent = rounds(1_000_000);
    lab(&[], || {
        for (ring_bytes, is_overload) in [(64 << 20, false), (1 << 20, true)] {
            let mut port = open(|it| {
                it.ring_bytes = ring_bytes;
                it.filter = Some(FILTER.parse().unwrap());
            });
            // Nothing is taken meanwhile: a ring of 1 MiB is full after a few thousand frames.
            Sender::open("va").numbers(0..sent, 60).unwrap();
            let (delivered, counts) = drained(&mut port);
            let Some(filtered) = counts.filtered else {
                return skip("eBPF, which root has outside of a user namespace");
            };
            let dropped = counts.dropped.unwrap();
            assert_eq!(filtered, sent / 4 * 3, "{counts:?}");
            assert_eq!(counts.received, sent, "{counts:?}");
            assert_eq!(delivered + dropped, sent / 4, "{counts:?}");
            assert_eq!(counts.accepted(), delivered);
            assert_eq!(dropped > 0, is_overload, "{counts:?}");
        }
    });
}

#[test]
fn each_member_of_a_group_counts_the_frames_that_it_rejects() {
    lab(&[], || {
        let config = AfPacketConfig {
            filter: Some(FILTER.parse().unwrap()),
            ..AfPacketConfig::default()
        };
        let mut ports = AfPacket::open_fanout("vb", &config, 3, Fanout::LoadBalance).unwrap();
        Sender::open("va").numbers(0..30_000, 60).unwrap();
        let (mut kept, mut rejected) = (0, 0);
        for port in &mut ports {
            let (delivered, counts) = drained(port);
            let Some(filtered) = counts.filtered else {
                return skip("eBPF, which root has outside of a user namespace");
            };
            assert!(
                filtered > 0 && delivered + filtered == counts.received,
                "{counts:?}"
            );
            kept += delivered;
            rejected += filtered;
        }
        assert_eq!((kept, rejected), (7_500, 22_500));
    });
}
