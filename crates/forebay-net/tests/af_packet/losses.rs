//! Overload: frames for which the kernel had no room are counted, and reported by the frame after the gap. Frames that the kernel
//! accepted but the test has not read yet are not lost.

use crate::support::sender::{self, Sender};
use crate::support::{self, Ended, lab, pump};
use crate::{LONG, SHORT, open, settled};
use forebay_net::port::{Port, Wake};
use std::thread;
use std::time::Duration;

#[test]
fn drops_under_overload_are_marked_at_the_frame_behind_the_gap() {
    lab(&[], || {
        // Long stalls, short stalls, and finally blocks of one page, which the kernel fills in the time of a few system calls. A
        // drop that the kernel counts late may be reported at the neighbouring gap, and a thread that is preempted reads late
        // (see the module `gaps`).
        for (ring_bytes, block_bytes, stall_after, stall, exact) in [
            (1 << 20, 64 << 10, 10_000, Duration::from_millis(30), true),
            (512 << 10, 64 << 10, 2_000, Duration::from_millis(5), true),
            (32 << 10, 4096, 20, Duration::from_micros(30), false),
        ] {
            const SENT: u64 = 1_000_000;
            let mut port = open(|it| (it.ring_bytes, it.block_bytes) = (ring_bytes, block_bytes));
            let sending = thread::spawn(|| Sender::pinned("va").numbers(0..SENT, 60).unwrap());
            let (mut next, mut told, mut delivered, mut gaps) = (0u64, 0u64, 0u64, 0u64);
            let (mut late, mut wrong) = (0u64, 0u64);
            let mut stopped = false;
            let ended = loop {
                let ended = pump(&mut port, SHORT, |frame| {
                    let number = sender::number(frame.data).expect("only our frames are here");
                    match number.abs_diff(next + frame.dropped_before) {
                        0 => {}
                        1 => late += 1,
                        _ => wrong += 1,
                    }
                    next = number + 1;
                    delivered += 1;
                    told += frame.dropped_before;
                    gaps += u64::from(frame.dropped_before > 0);
                    delivered % stall_after != 0
                });
                match ended.unwrap() {
                    Ended::Enough => {
                        thread::sleep(stall);
                        // However slowly this machine sends: the first stalls last until the ring is full.
                        while gaps <= 10
                            && port.report().ring_fill < Some(1.0)
                            && !sending.is_finished()
                        {
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                    // On a busy machine the sender may pause and then continue.
                    Ended::Silent if !sending.is_finished() => {}
                    Ended::Silent if !stopped => {
                        stopped = true;
                        port.stop().unwrap();
                    }
                    ended => break ended,
                }
            };
            sending.join().unwrap();
            assert_eq!(ended, Ended::End);
            let counts = settled(&mut port, delivered, told);
            assert_eq!(counts.received, SENT);
            assert_eq!(next + port.trailing_drops(), SENT);
            assert!(gaps > 10, "only {gaps} gaps: no overload");
            let (late_allowed, allowed) = if exact {
                (2 + gaps / 1000, 0)
            } else {
                (gaps / 1000, gaps / 1000)
            };
            let text = format!("{gaps} gaps, {late} off by one, {wrong} marked wrong");
            assert!(wrong <= allowed && late <= late_allowed, "{text}");
            println!("{text}, {:?} of {SENT} dropped", counts.dropped);
        }
    });
}

#[test]
fn an_abandoned_burst_and_one_put_back_lose_nothing() {
    lab(&[], || {
        let mut port = open(|it| it.ring_bytes = 1 << 20);
        Sender::open("va").numbers(0..1_000, 60).unwrap();
        port.stop().unwrap();
        let (mut next, mut round) = (0, 0);
        loop {
            let mut burst = port.receive(7).unwrap();
            let mut taken = 0;
            while let Some(frame) = burst.next_frame() {
                assert_eq!(sender::number(frame.data), Some(next));
                taken += 1;
                next += 1;
                if (next + round) % 5 == 0 {
                    burst.put_back();
                    next -= 1;
                    break;
                }
            }
            if round % 3 == 0 {
                std::mem::forget(burst)
            } else {
                drop(burst)
            }
            round += 1;
            match port.arm().unwrap() {
                Wake::End => break,
                Wake::Fd(fd) if taken == 0 => assert!(support::wait(fd, LONG)),
                _ => {}
            }
        }
        assert_eq!(next, 1_000);
        settled(&mut port, 1_000, 0);
    });
}
