//! The pool with an oracle of what it has, step by step; how bursts, pools and packets end; what is refused.
//!
//! Between threads it is tested in `pool_threads_tests`.

use super::{
    pool_threads_tests::{stamp, unstamp},
    *,
};
use crate::sync::Arc;
use forebay_testing::dice::{rounds, times};
use proptest::prelude::*;
use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

pub(super) fn pool_of(slots: u32) -> Pool {
    Pool::new(&PoolConfig {
        slots,
        slot_bytes: 256,
        headroom: 64,
        ..PoolConfig::default()
    })
    .unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Take,
    Burst(usize),
    Drop(usize),
    PutBack(usize),
    Refill,
    Idle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Take),
        (0_usize..40).prop_map(Step::Burst),
        (0_usize..100).prop_map(Step::Drop),
        (0_usize..100).prop_map(Step::PutBack),
        Just(Step::Refill),
        Just(Step::Idle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(256)))]

    #[test]
    fn no_slot_is_lost_and_none_is_handed_out_twice(
        slots in 1..times(300_u32, 70),
        steps in prop::collection::vec(step(), 1..times(300, 20)),
    ) {
        let mut pool = pool_of(slots);
        let mut out: Vec<Packet> = Vec::new();
        let (mut most, mut missing) = (0, 0);
        for step in steps {
            let before = out.len();
            match step {
                Step::Take => {
                    out.extend(pool.take());
                    missing += u64::from(out.len() == before);
                    prop_assert_eq!(out.len() - before, usize::from(before < slots as usize));
                }
                Step::Burst(n) => {
                    let taken = pool.take_burst(n, &mut out);
                    prop_assert_eq!(taken, n.min(slots as usize - before));
                    missing += (n - taken) as u64;
                }
                Step::Drop(i) if i < before => drop(out.swap_remove(i)),
                Step::PutBack(i) if i < before => pool.put_back(out.swap_remove(i)).unwrap(),
                Step::Refill => prop_assert_eq!(pool.refill(), slots as usize - before),
                Step::Idle => return_idle(),
                _ => {}
            }
            let counts = pool.counts();
            most = most.max(counts.away);
            prop_assert!(counts.away as usize >= out.len());
            prop_assert_eq!(counts, PoolCounts {
                slots,
                free: slots - counts.away,
                away: counts.away,
                max_away: most,
                exhausted: missing,
            });
            let distinct: BTreeSet<u32> = out.iter().map(Packet::slot).collect();
            prop_assert_eq!(distinct.len(), out.len());
        }
        let expected: Vec<u32> = {
            let out: BTreeSet<u32> = out.iter().map(Packet::slot).collect();
            out.into_iter().collect()
        };
        let leaks = pool.close();
        prop_assert_eq!(leaks.map_or(Vec::new(), |leaks| leaks.slots), expected);
    }
}

#[test]
fn packets_that_were_missing_are_counted_up_to_the_largest_number() {
    let mut pool = pool_of(4);
    let mut all = Vec::new();
    assert_eq!(pool.take_burst(usize::MAX, &mut all), 4);
    assert_eq!(pool.take_burst(usize::MAX, &mut all), 0);
    assert!(pool.take().is_none());
    assert_eq!(pool.counts().exhausted, u64::MAX);
}

#[test]
fn a_pool_in_a_log_is_a_line_not_a_list_of_its_slots() {
    let mut pool = pool_of(times(5000, 50));
    let packet = pool.take().unwrap();
    let text = format!("{pool:?} {packet:?}");
    assert!(text.contains("away: 1") && text.len() < 800, "{text}");
}

#[test]
fn a_burst_that_its_target_does_not_take_stays_in_the_pool() {
    struct TakesTwo(Vec<Packet>);
    impl Extend<Packet> for TakesTwo {
        fn extend<I: IntoIterator<Item = Packet>>(&mut self, packets: I) {
            self.0.extend(packets.into_iter().take(2));
        }
    }
    let mut pool = pool_of(10);
    let mut target = TakesTwo(Vec::new());
    assert_eq!(pool.take_burst(7, &mut target), 2);
    assert_eq!((pool.counts().free, pool.counts().exhausted), (8, 0));
}

#[test]
fn a_target_that_panics_costs_no_slot() {
    /// Keeps some, holds one, and panics.
    struct Panics(Vec<Packet>, usize);
    impl Extend<Packet> for Panics {
        fn extend<I: IntoIterator<Item = Packet>>(&mut self, packets: I) {
            let mut packets = packets.into_iter();
            self.0.extend(packets.by_ref().take(self.1));
            let _in_hand = packets.next();
            panic!("a target's own trouble");
        }
    }
    let mut pool = pool_of(10);
    for kept in 0..8 {
        let mut target = Panics(Vec::new(), kept);
        let burst = AssertUnwindSafe(|| pool.take_burst(7, &mut target));
        assert!(catch_unwind(burst).is_err());
        assert_eq!(target.0.len(), kept.min(7));
        let max_away = (kept as u32 + 1).min(7);
        assert_eq!(pool.counts().max_away, max_away, "with the one in hand");
        drop(target);
        assert_eq!(pool.refill(), 10);
    }
    assert_eq!(pool.close(), None);
}

#[test]
fn leaked_packets_are_reported_at_the_end() {
    let mut pool = pool_of(100);
    let mut packets = Vec::new();
    pool.take_burst(10, &mut packets);
    std::mem::forget(packets.swap_remove(3));
    let in_use = packets.pop().unwrap();
    packets.clear();
    let leaks = pool.close().unwrap();
    assert_eq!(leaks.slots, [3, 8]);
    assert!(leaks.to_string().contains("2 packets"), "{leaks}");
    drop(in_use);
}

#[test]
fn packets_outlive_their_pool_and_the_last_one_frees_it() {
    let mut pool = pool_of(16);
    let memory = Arc::downgrade(&pool.shared);
    let (mut first, second) = (pool.take().unwrap(), pool.take().unwrap());
    let chained = {
        let mut packet = pool.take().unwrap();
        packet.append(&mut pool, &[1; 600]).unwrap();
        packet.into_desc().unwrap()
    };
    stamp(&mut first, 7);
    let sharing = first.share();
    drop(pool);
    drop(sharing);
    assert_eq!(unstamp(&mut first), 7);
    drop(first);
    thread::spawn(move || drop(second)).join().unwrap();
    assert!(memory.upgrade().is_some());
    drop(chained);
    return_idle();
    assert!(memory.upgrade().is_none());
}

#[test]
fn a_foreign_packet_is_refused_and_comes_back() {
    let (mut one, mut other) = (pool_of(4), pool_of(4));
    let packet = one.take().unwrap();
    let WrongPool(packet) = other.put_back(packet).unwrap_err();
    assert!(one.put_back(packet).is_ok());
}

#[test]
fn a_pool_is_one_piece_of_whole_pages_and_slots_lie_side_by_side() {
    let mut pool = pool_of(64);
    let mut packets = Vec::new();
    pool.take_burst(64, &mut packets);
    let address = |packet: &Packet| packet.as_slice().as_ptr() as usize;
    let base = packets.iter().map(address).min().unwrap() - 64;
    assert_eq!(base % 4096, 0);
    for packet in &packets {
        assert_eq!(address(packet) - base, packet.slot() as usize * 256 + 64);
    }
}

#[test]
fn an_impossible_pool_is_an_error_that_says_what_to_do() {
    for (text, slots, slot_bytes, headroom) in [
        ("1 to 1048576 slots", 0, 2048, 128),
        ("1 to 1048576 slots", (1 << 20) + 1, 2048, 128),
        ("multiple of 64", 1, 100, 0),
        ("multiple of 64", 1, 0, 0),
        ("multiple of 64", 1, (1 << 19) + 64, 0),
        ("less headroom", 1, 2048, 2048),
    ] {
        let error = Pool::new(&PoolConfig {
            slots,
            slot_bytes,
            headroom,
            ..PoolConfig::default()
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
#[cfg_attr(
    miri,
    ignore = "2048 slots are aligned to 2 MiB, and Miri unmaps no part of a mapping"
)]
fn a_packet_that_was_shared_may_be_written_again_after_the_others_are_dropped() {
    let mut pool = Pool::new(&PoolConfig::default()).unwrap();
    let mut packet = pool.take().unwrap();
    packet.put(2).unwrap();
    let other = packet.share();
    assert!(packet.is_shared() && packet.as_mut_slice().is_err());
    let desc = other.into_desc().unwrap();
    assert!(packet.put(1).is_err(), "a description shares, too");
    drop(desc);
    packet.put(1).unwrap();
    assert!(!packet.is_shared());
    let others = std::thread::scope(|scope| {
        let sharing = [(); 2].map(|()| scope.spawn(|| packet.share()));
        sharing.map(|it| it.join().unwrap())
    });
    assert!(packet.as_mut_slice().is_err());
    drop((packet, others));
    assert_eq!(pool.refill(), 2048);
}

#[test]
fn slots_by_the_block_are_taken_become_packets_and_return_once_each() {
    let (mut pool, other) = (pool_of(40), pool_of(40));
    let mut slots = pool.take_slots(100);
    let mut rest = pool.take_slots(32);
    assert_eq!(
        (slots.len(), rest.len(), pool.take_slots(5).len()),
        (32, 8, 0)
    );
    assert_eq!(pool.counts().exhausted, 24 + 5);
    let all: BTreeSet<_> = slots.numbers().iter().chain(rest.numbers()).collect();
    assert_eq!(all.len(), 40, "each is taken once");
    for index in 0..slots.len() {
        let bytes = slots.bytes_mut(index).unwrap();
        assert_eq!(bytes.len(), 256);
        bytes.fill(index as u8);
    }
    assert!((0..32).all(|index| slots.bytes_mut(index).unwrap()[255] == index as u8));
    assert!((0..32).all(|index| slots.bytes(index).unwrap()[255] == index as u8));
    assert!(slots.bytes_mut(32).is_none() && slots.bytes(32).is_none());
    let mut packet = slots.pop().unwrap();
    assert_eq!((packet.headroom(), packet.is_empty()), (64, true));
    assert_eq!(packet.put(1).unwrap(), [31], "its slot was the last");
    drop(packet);
    while rest.pop().is_some() {}
    assert!(pool.put_back_slots(rest).is_ok(), "none is of every pool");
    let mut other = other;
    let slots = other.put_back_slots(slots).unwrap_err().0;
    assert_eq!(slots.len(), 31);
    let half = pool.take_slots(4);
    assert_eq!(half.len(), 4);
    thread::spawn(move || drop(half)).join().unwrap();
    assert!(pool.put_back_slots(slots).is_ok());
    assert_eq!(pool.refill(), 40);
    let numbers: BTreeSet<_> = std::iter::from_fn(|| pool.take())
        .map(Packet::into_slot)
        .collect();
    assert_eq!(numbers.len(), 40, "each is there once");
}

#[test]
fn a_block_of_slots_outlives_its_pool() {
    let mut pool = pool_of(4);
    let mut slots = pool.take_slots(3);
    assert_eq!(pool.close().unwrap().slots.len(), 3);
    slots.bytes_mut(2).unwrap().fill(7);
    let packet = slots.pop().unwrap();
    drop(slots);
    assert!(packet.is_empty());
}
