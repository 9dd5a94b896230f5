use super::super::ring::tests::{BLOCKS, Sample, ring};
use super::*;

const LAST: u32 = BLOCKS.count - 1;

/// A full ring whose reader has not begun: the kernel waits at block 0.
fn full() -> (Ring, Gaps) {
    let mut ring = ring(100);
    (0..=LAST).for_each(|block| _ = ring.fill(block, &[Sample::new(&[1; 60])]));
    (ring, Gaps::new(BLOCKS.count))
}

/// The drops that the current block's frame tells; the block goes back.
fn told(ring: &mut Ring, gaps: &mut Gaps) -> u64 {
    assert!(gaps.look(ring));
    ring.allow(1);
    let told = ring.next().unwrap().dropped_before;
    ring.release();
    gaps.released();
    told
}

#[test]
fn drops_lie_before_the_next_filling_of_the_block_the_kernel_waits_for() {
    let (mut ring, mut gaps) = full();
    gaps.account(&mut ring, || (5, ()));
    assert_eq!((told(&mut ring, &mut gaps), gaps.untold(&ring)), (0, 5));
    // Read after the release, but block 0 is not full again: they still lie before its next frame.
    gaps.account(&mut ring, || (2, ()));
    ring.fill(0, &[Sample::new(&[2; 60])]);
    for _ in 1..=LAST {
        assert_eq!(told(&mut ring, &mut gaps), 0);
    }
    assert_eq!((told(&mut ring, &mut gaps), gaps.untold(&ring)), (7, 0));
}

#[test]
fn drops_behind_a_refilled_block_belong_to_the_one_after_it() {
    let (mut ring, mut gaps) = full();
    told(&mut ring, &mut gaps);
    ring.fill(0, &[Sample::new(&[2; 60])]);
    gaps.account(&mut ring, || (3, ())); // the kernel came as far as block 1
    for _ in 1..=LAST {
        assert_eq!(told(&mut ring, &mut gaps), 0);
    }
    assert_eq!(told(&mut ring, &mut gaps), 0);
    ring.fill(1, &[Sample::new(&[2; 60])]);
    assert_eq!(told(&mut ring, &mut gaps), 3);
}

#[test]
fn a_block_closed_while_drops_were_unread_gets_them_unless_they_were_read_since() {
    for read_since in [false, true] {
        let (mut ring, mut gaps) = full();
        told(&mut ring, &mut gaps);
        ring.fill(0, &[Sample::new(&[2; 60])]);
        ring.close(0, libc::TP_STATUS_LOSING);
        if read_since {
            gaps.account(&mut ring, || (0, ()));
        }
        gaps.account(&mut ring, || (4, ()));
        (1..=LAST).for_each(|_| _ = told(&mut ring, &mut gaps));
        assert_eq!(told(&mut ring, &mut gaps), if read_since { 0 } else { 4 });
        assert_eq!(gaps.untold(&ring), if read_since { 4 } else { 0 });
    }
}

#[test]
fn a_read_before_the_first_look_does_not_mix_two_fillings() {
    let (mut ring, mut gaps) = full();
    gaps.account(&mut ring, || (1, ())); // before block 0 was looked at: its frame is older
    assert_eq!(told(&mut ring, &mut gaps), 0);
    assert_eq!(gaps.untold(&ring), 1);
}

#[test]
fn the_sum_of_what_is_told_and_untold_is_what_was_dropped() {
    let (mut ring, mut gaps) = full();
    let (mut dropped, mut sum) = (0, 0);
    for step in 0..100u64 {
        gaps.account(&mut ring, || (step % 3, ()));
        let block = ring.current();
        sum += told(&mut ring, &mut gaps);
        gaps.account(&mut ring, || (step % 2, ()));
        dropped += step % 3 + step % 2;
        ring.fill(block, &[Sample::new(&[3; 60])]);
        assert_eq!(sum + gaps.untold(&ring), dropped);
    }
}
