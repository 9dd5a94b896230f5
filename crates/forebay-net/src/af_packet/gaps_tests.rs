use super::super::ring::tests::{BLOCKS, Sample, ring};
use super::*;

const LAST: u32 = BLOCKS.count - 1;

/// A full ring whose reader has not started: the kernel waits at block 0.
fn full() -> (Ring, Gaps) {
    let mut ring = ring(100);
    (0..=LAST).for_each(|block| refill(&mut ring, block));
    (ring, Gaps::new(BLOCKS.count))
}

fn refill(ring: &mut Ring, block: u32) {
    ring.fill(block, &[Sample::new(&[1; 60])]);
}

fn read(ring: &mut Ring, gaps: &mut Gaps, drops: u64) {
    gaps.account(ring, || Statistics {
        drops,
        ..Statistics::default()
    });
}

/// Returns the drops that the current block's frame reports, and releases the block, with nothing new to read.
fn told(ring: &mut Ring, gaps: &mut Gaps) -> u64 {
    assert!(gaps.look(ring));
    ring.allow(1);
    let told = ring.next().unwrap().dropped_before;
    read(ring, gaps, 0);
    gaps.release(ring);
    told
}

/// The drops that the following blocks report, in order.
fn tell(ring: &mut Ring, gaps: &mut Gaps, blocks: u32) -> Vec<u64> {
    (0..blocks).map(|_| told(ring, gaps)).collect()
}

#[test]
fn drops_lie_before_the_next_filling_of_the_block_the_kernel_waits_for() {
    let (mut ring, mut gaps) = full();
    read(&mut ring, &mut gaps, 5);
    assert_eq!((told(&mut ring, &mut gaps), gaps.untold(&ring)), (0, 5));
    // Read after the release, but block 0 is not full again: the drops still belong before its next frame.
    read(&mut ring, &mut gaps, 2);
    refill(&mut ring, 0);
    assert_eq!(tell(&mut ring, &mut gaps, 8), [0, 0, 0, 0, 0, 0, 0, 7]);
    assert_eq!(gaps.untold(&ring), 0);
}

#[test]
fn drops_behind_a_refilled_block_belong_to_the_one_after_it() {
    let (mut ring, mut gaps) = full();
    told(&mut ring, &mut gaps);
    refill(&mut ring, 0);
    read(&mut ring, &mut gaps, 3); // the kernel reached block 1
    assert_eq!(tell(&mut ring, &mut gaps, 8), [0; 8]);
    refill(&mut ring, 1);
    (2..=LAST).for_each(|block| refill(&mut ring, block));
    assert_eq!(told(&mut ring, &mut gaps), 3);
}

#[test]
fn a_late_drop_belongs_to_the_first_open_block_however_many_went_back() {
    let (mut ring, mut gaps) = full();
    tell(&mut ring, &mut gaps, 3);
    read(&mut ring, &mut gaps, 1); // blocks 0 to 2 were returned, the kernel is at 0
    (0..3).for_each(|block| refill(&mut ring, block));
    assert_eq!(tell(&mut ring, &mut gaps, 8), [0, 0, 0, 0, 0, 1, 0, 0]);
}

#[test]
fn a_late_drop_found_with_others_is_told_by_the_first_block_that_was_losing() {
    let (mut ring, mut gaps) = full();
    tell(&mut ring, &mut gaps, 3);
    (0..3).for_each(|block| refill(&mut ring, block));
    (1..3).for_each(|block| ring.close(block, libc::TP_STATUS_LOSING));
    read(&mut ring, &mut gaps, 10); // one before block 1, then the kernel waited at block 3
    assert_eq!(tell(&mut ring, &mut gaps, 8), [0, 0, 0, 0, 0, 0, 1, 0]);
    refill(&mut ring, 3);
    assert_eq!(told(&mut ring, &mut gaps), 9);
}

#[test]
fn a_flag_that_was_read_already_means_nothing() {
    let (mut ring, mut gaps) = full();
    told(&mut ring, &mut gaps);
    refill(&mut ring, 0);
    ring.close(0, libc::TP_STATUS_LOSING);
    read(&mut ring, &mut gaps, 1);
    read(&mut ring, &mut gaps, 4);
    assert_eq!(tell(&mut ring, &mut gaps, 8), [0, 0, 0, 0, 0, 0, 0, 1]);
    refill(&mut ring, 1);
    assert_eq!(told(&mut ring, &mut gaps), 4);
}

#[test]
fn a_read_before_the_first_look_does_not_mix_two_fillings() {
    let (mut ring, mut gaps) = full();
    read(&mut ring, &mut gaps, 1); // before block 0 was checked: its frame is older
    assert_eq!(told(&mut ring, &mut gaps), 0);
    assert_eq!(gaps.untold(&ring), 1);
}

#[test]
fn the_sum_of_what_is_told_and_untold_is_what_was_dropped() {
    let (mut ring, mut gaps) = full();
    let (mut dropped, mut sum) = (0, 0);
    for step in 0..200u64 {
        read(&mut ring, &mut gaps, step % 3);
        let block = ring.current();
        sum += told(&mut ring, &mut gaps);
        read(&mut ring, &mut gaps, step % 2);
        dropped += step % 3 + step % 2;
        refill(&mut ring, block);
        if step % 7 == 0 {
            ring.close(block, libc::TP_STATUS_LOSING);
        }
        assert_eq!(sum + gaps.untold(&ring), dropped);
    }
}
