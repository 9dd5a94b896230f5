//! The port's data for each frame: its first bytes, its whole length, its direction and its time.

use crate::support::sender::{self, Sender};
use crate::support::{Ended, lab, pump};
use crate::{LONG, SHORT, four_kinds, open, open_on, send_once};
use forebay_net::port::{Direction, LinkType, Port};
use std::time::UNIX_EPOCH;

#[test]
fn the_snaplen_keeps_the_first_bytes_and_the_whole_length() {
    lab(&[], || {
        let kinds = four_kinds();
        for snaplen in [1, 12, 15, 16, 60, 64, 96, 2_000] {
            let mut port = open(|it| (it.snaplen, it.ring_bytes) = (snaplen, 1 << 20));
            assert_eq!(port.interfaces()[0].snaplen, snaplen);
            Sender::open("va").frames(&kinds);
            let mut seen = 0;
            pump(&mut port, LONG, |frame| {
                let whole = &kinds[seen];
                let kept = &whole[..whole.len().min(snaplen as usize)];
                assert_eq!(frame.data, kept, "snaplen {snaplen}");
                assert_eq!(frame.wire_len as usize, whole.len());
                seen += 1;
                seen < kinds.len()
            })
            .unwrap();
            assert_eq!(seen, kinds.len());
        }
    });
}

#[test]
fn directions_are_told_and_outgoing_frames_can_be_left_out() {
    lab(&[], || {
        for incoming_only in [false, true] {
            let mut port = open(|it| it.incoming_only = incoming_only);
            Sender::open("vb").numbers(0..1, 60).unwrap();
            Sender::open("va").numbers(1..2, 60).unwrap();
            let mut seen = Vec::new();
            let each = |frame: &forebay_net::port::Frame<'_>| {
                seen.push((sender::number(frame.data).unwrap(), frame.direction));
                true
            };
            assert_eq!(pump(&mut port, SHORT, each).unwrap(), Ended::Silent);
            let both = [(0, Direction::Outbound), (1, Direction::Inbound)];
            assert_eq!(seen, both[usize::from(incoming_only)..]);
        }
    });
}

#[test]
fn the_loopback_interface_shows_each_frame_once() {
    lab(&[], || {
        let mut port = open_on("lo", |_| ());
        assert_eq!(port.interfaces()[0].link, LinkType::ETHERNET);
        let now = || UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let before = now();
        send_once();
        let (mut seen, mut time) = (0, 0);
        let each = |frame: &forebay_net::port::Frame<'_>| {
            seen += u32::from(frame.data.ends_with(b"once"));
            time = frame.time_ns;
            true
        };
        assert_eq!(pump(&mut port, SHORT, each).unwrap(), Ended::Silent);
        assert_eq!(seen, 1);
        assert!((before - 1_000_000..=now() + 1_000_000).contains(&time));
    });
}
