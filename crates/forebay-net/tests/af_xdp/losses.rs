//! Overload: each frame that is not delivered is counted where it was lost, and a reader that was stopped goes on afterwards.

use crate::support::rounds;
use crate::support::sender::{self, Sender};
use crate::support::{Ended, pump};
use crate::{BOTH, lab, open_with, quiet, stopped};
use forebay_net::{
    af_xdp::{AfXdp, Mode},
    port::Port,
};
use std::{thread, time::Duration};

/// A port with a receive ring of 1024 frames.
fn small(mode: Mode) -> AfXdp {
    open_with(&format!("vb,mode={mode}"), |it| {
        it.ring_bytes = Some((1024 + 256) * 2048);
    })
}

#[test]
fn overloads_are_accounted_for_to_the_frame() {
    lab(&[], || {
        for round in 0..rounds(20_u64) {
            const SENT: u64 = 40_000;
            let mode = BOTH[round as usize % 2];
            let mut port = small(mode);
            let sending = thread::spawn(|| Sender::pinned("va").numbers(0..SENT, 60).unwrap());
            let (mut next, mut delivered, mut told) = (0, 0, 0);
            loop {
                let ended = pump(&mut port, Duration::from_millis(50), |frame| {
                    let number = sender::number(frame.data).expect("only our frames are here");
                    assert!(number >= next, "{number} after {next}");
                    next = number + 1;
                    delivered += 1;
                    told += frame.dropped_before;
                    delivered % 2_000 != 0
                });
                match ended.unwrap() {
                    // Read on when the ring has overflowed, however slowly this machine sends.
                    Ended::Enough => {
                        let lost = |port: &mut AfXdp| {
                            port.counts(); // asks the kernel
                            port.report().socket_losses.rx_ring
                        };
                        let before = lost(&mut port);
                        while lost(&mut port) == before && !sending.is_finished() {
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                    _ if sending.is_finished() => break,
                    _ => {}
                }
            }
            sending.join().unwrap();
            let (counts, losses) = stopped(&mut port, delivered, told);
            assert_eq!(counts.received + losses.peer.unwrap(), SENT, "{losses:?}");
            assert!(delivered < SENT, "no overload");
            println!(
                "{mode}: {delivered} delivered, {told} of the losses marked, {counts:?}, {losses:?}"
            );
        }
    });
}

#[test]
fn a_reader_that_stopped_finds_a_full_ring_and_then_every_frame() {
    lab(&[], || {
        for mode in BOTH {
            let mut port = small(mode);
            let sender = Sender::pinned("va");
            // Nobody reads.
            sender.numbers(0..20_000, 60).unwrap();
            quiet(&mut port);
            assert_eq!(port.report().ring_fill, Some(1.0));
            let losses = port.report().socket_losses;
            assert!(
                losses.rx_ring > 10_000 && losses.fill_ring == 0,
                "{losses:?}"
            );
            let (mut next, mut delivered, mut told) = (0, 0, 0);
            let silence = Duration::from_millis(10);
            let ended = pump(&mut port, silence, |frame| {
                assert_eq!(sender::number(frame.data), Some(next));
                (next, delivered) = (next + 1, delivered + 1);
                told += frame.dropped_before;
                true
            });
            assert_eq!((ended.unwrap(), next, told), (Ended::Silent, 1024, 0));
            // From here on, portions that fit.
            for from in (20_000..40_000).step_by(100) {
                sender.numbers(from..from + 100, 60).unwrap();
                let ended = pump(&mut port, Duration::from_secs(10), |frame| {
                    let number = sender::number(frame.data).expect("only our frames are here");
                    match next {
                        1024 => assert_eq!(number, 20_000, "the first frame after the gap"),
                        _ => assert_eq!(number, next),
                    }
                    assert_eq!(frame.dropped_before > 0, next == 1024);
                    next = number + 1;
                    delivered += 1;
                    told += frame.dropped_before;
                    next < from + 100
                });
                assert_eq!(ended.unwrap(), Ended::Enough);
            }
            assert_eq!(delivered, 1024 + 20_000);
            let (counts, losses) = stopped(&mut port, delivered, told);
            assert_eq!(counts.received + losses.peer.unwrap(), 40_000);
            assert_eq!(Some(told), counts.dropped, "the gap reports them all");
        }
    });
}
