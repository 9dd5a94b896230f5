//! The pool with an oracle of who owns which slot, in one thread and in many, and with rings between them.

use super::{returns::NONE, tests::operations, *};
use crate::{ring::spsc, sync::Arc};
use proptest::prelude::*;
use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{
        AtomicBool, AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
    thread,
};

fn pool_of(slots: u32) -> Pool {
    Pool::new(&PoolConfig {
        slots,
        slot_bytes: 256,
        headroom: 64,
        populate: !cfg!(miri), // which has no `madvise`
        ..PoolConfig::default()
    })
    .unwrap()
}

/// A small generator of numbers (xorshift), so that a failure repeats.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Who has which slot: set when it is taken, cleared just before it is given up. Relaxed, so that it orders nothing
/// that the pool should have ordered.
struct Owners(Vec<AtomicBool>);

impl Owners {
    fn new(slots: u32) -> Arc<Owners> {
        Arc::new(Owners((0..slots).map(|_| AtomicBool::new(false)).collect()))
    }

    fn take(&self, slot: u32) {
        assert!(
            !self.0[slot as usize].swap(true, Relaxed),
            "handed out twice"
        );
    }

    fn give(&self, slot: u32) {
        assert!(self.0[slot as usize].swap(false, Relaxed), "given up twice");
    }
}

/// Writes a number into a packet, to be found again by [`unstamp`] elsewhere.
fn stamp(packet: &mut Packet, number: u64) {
    packet
        .put(8)
        .unwrap()
        .copy_from_slice(&number.to_le_bytes());
    packet
        .push(8)
        .unwrap()
        .copy_from_slice(&(!number).to_le_bytes());
}

fn unstamp(packet: &mut Packet) -> u64 {
    let complement = u64::from_le_bytes(packet.pull(8).unwrap().try_into().unwrap());
    let number = u64::from_le_bytes(packet.as_slice()[..8].try_into().unwrap());
    assert_eq!(number, !complement);
    // Whoever takes the slot next must have been told that we did this.
    packet.as_mut_slice().unwrap().fill(0xee);
    number
}

/// All slots that a packet has.
fn each_slot(packet: &Packet, mut see: impl FnMut(u32)) {
    see(packet.slot());
    let mut next = packet.next;
    while next != NONE {
        see(next);
        next = packet.pool.facts(next).load().next;
    }
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
    #[test]
    fn no_slot_is_lost_and_none_is_handed_out_twice(
        slots in 1_u32..300,
        steps in prop::collection::vec(step(), 1..300),
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
            prop_assert_eq!(counts, Counts {
                slots,
                free: slots - counts.away,
                away: counts.away,
                most_away: most,
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

const MANY: u64 = 20_000;

/// One owner, several threads that return, in whatever way; the way there is a ring for each.
#[test]
fn slots_come_home_from_many_threads_once_each() {
    let many = operations(3 * MANY) / 3;
    for (slots, threads) in [(3, 1), (64, 2), (300, 3)] {
        let mut pool = pool_of(slots);
        let owners = Owners::new(slots);
        let mut producers = Vec::new();
        let mut workers = Vec::new();
        for worker in 0..threads {
            let (producer, mut consumer) = spsc::ring::<PacketDesc>(40).unwrap();
            producers.push(producer);
            let owners = owners.clone();
            workers.push(thread::spawn(move || {
                let mut dice = Dice(worker + 1);
                let mut sum = 0;
                while let Ok(desc) = consumer.pop_wait(None) {
                    let mut packet = desc.into_packet();
                    sum += unstamp(&mut packet);
                    each_slot(&packet, |slot| owners.give(slot));
                    give_up(packet, &mut dice);
                    match dice.below(50) {
                        0 => thread::yield_now(),
                        1 => return_idle(),
                        _ => {}
                    }
                    if consumer.is_empty() {
                        return_idle();
                    }
                }
                sum
            }));
        }
        let mut dice = Dice(99);
        let mut number = 0;
        while number < many {
            let Some(mut packet) = pool.take() else {
                thread::yield_now();
                continue;
            };
            stamp(&mut packet, number);
            if dice.below(10) == 0 {
                // Where there are not so many slots it stays as it was.
                let _ = packet.append(&mut pool, &[number as u8; 600]);
            }
            each_slot(&packet, |slot| owners.take(slot));
            if dice.below(20) == 0 {
                each_slot(&packet, |slot| owners.give(slot));
                match dice.below(2) {
                    0 => drop(packet),
                    _ => pool.put_back(packet).unwrap(),
                }
                continue;
            }
            let way = dice.below(threads) as usize;
            let desc = packet.into_desc().unwrap();
            producers[way].push_wait(desc, None).unwrap();
            number += 1;
        }
        drop(producers);
        let sums = workers.into_iter().map(|worker| worker.join().unwrap());
        assert_eq!(sums.sum::<u64>(), many * (many - 1) / 2);
        assert_eq!(pool.refill(), slots as usize);
        assert_eq!(pool.close(), None);
    }
}

/// One of the ways in which a packet's slots go home.
fn give_up(mut packet: Packet, dice: &mut Dice) {
    match dice.below(8) {
        0 => drop(packet.into_desc().unwrap()),
        1 => drop(packet.share()),
        2 => {
            let other = packet.share();
            drop(packet);
            drop(other.into_desc().unwrap());
        }
        3 => packet.trim(packet.len() / 2).unwrap(),
        _ => {}
    }
}

/// Several threads allocate, and what one takes another one drops. ThreadSanitizer does not see the orderings inside
/// the standard library, by whose mutex and channels these meet.
#[cfg(not(forebay_one_view))]
#[test]
fn allocators_of_one_pool_never_get_the_same_slot() {
    // Two pools, three threads.
    let each = operations(6 * MANY / 4) / 6;
    for slots in [5, 500] {
        let pool = SharedPool::from(pool_of(slots));
        let owners = Owners::new(slots);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..3).map(|_| std::sync::mpsc::channel::<Packet>()).unzip();
        let threads: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(i, receiver)| {
                let mut allocator = pool.allocator();
                let next = senders[(i + 1) % 3].clone();
                let owners = owners.clone();
                thread::spawn(move || {
                    let (mut taken, mut dropped) = (0, 0);
                    let mut release = |mut packet: Packet| {
                        unstamp(&mut packet);
                        owners.give(packet.slot());
                        dropped += 1;
                    };
                    for number in 0..each {
                        match allocator.take() {
                            Some(mut packet) => {
                                owners.take(packet.slot());
                                stamp(&mut packet, number);
                                taken += 1;
                                next.send(packet).unwrap();
                            }
                            None => {
                                allocator.unload();
                                return_idle();
                                thread::yield_now();
                            }
                        }
                        receiver.try_iter().for_each(&mut release);
                    }
                    drop(next);
                    receiver.iter().for_each(&mut release);
                    (taken, dropped)
                })
            })
            .collect();
        drop(senders);
        let (mut taken, mut dropped) = (0, 0);
        for thread in threads {
            let (some, others) = thread.join().unwrap();
            taken += some;
            dropped += others;
        }
        assert!(taken > 0 && taken == dropped);
        assert_eq!(pool.refill(), slots as usize);
        let other = pool.clone();
        let pool = pool.close().unwrap_err();
        drop(other);
        assert_eq!(pool.close().unwrap(), None);
    }
}

/// Bursts of descriptors over a ring; either end may go early, with descriptors inside.
#[test]
fn descriptors_travel_in_bursts_and_all_slots_return_whoever_leaves_first() {
    let slots = 200;
    for (sent, taken) in [(5000, 5000), (5000, 1234), (77, 5000), (0, 5000)] {
        let mut pool = pool_of(slots);
        let (mut producer, mut consumer) = spsc::ring::<PacketDesc>(64).unwrap();
        let handle = pool.handle();
        let receiver = thread::spawn(move || {
            let mut next = 0;
            while next < taken {
                let burst = consumer.peek(32.min(taken - next) as usize);
                if burst.is_empty() {
                    return_idle();
                    match consumer.pop_wait(None) {
                        Ok(desc) => {
                            assert_eq!(unstamp(&mut handle.adopt(desc).unwrap()), next);
                            next += 1;
                        }
                        Err(_) => break,
                    }
                    continue;
                }
                let bytes: u32 = burst.iter().map(|desc| desc.len()).sum();
                assert_eq!(bytes as usize, 16 * burst.len());
                for desc in burst {
                    assert_eq!(unstamp(&mut handle.adopt(desc).unwrap()), next);
                    next += 1;
                }
            }
            next
        });
        let mut packets = Vec::new();
        let mut number = 0;
        while number < sent && !producer.consumer_is_gone() {
            let room = 32.min((sent - number) as usize).min(producer.vacant());
            if pool.take_burst(room, &mut packets) == 0 {
                thread::yield_now();
                continue;
            }
            for packet in &mut packets {
                stamp(packet, number);
                number += 1;
            }
            let mut descs = packets.drain(..).map(|packet| packet.into_desc().unwrap());
            producer.push_burst(&mut descs);
            assert_eq!(descs.count(), 0, "there was room");
        }
        drop(producer);
        let received = receiver.join().unwrap();
        assert_eq!(received, number.min(taken).min(sent));
        assert_eq!(pool.refill(), slots as usize);
        assert_eq!(pool.close(), None);
    }
}

/// One packet for several threads at once: each reads it, some go on from a copy, and its slot comes home once.
#[test]
fn a_packet_shared_by_several_threads_is_read_by_all_and_comes_home_once() {
    let slots = 64;
    let readers = 3;
    let mut pool = pool_of(slots);
    let owners = Owners::new(slots);
    let (mut producers, mut threads) = (Vec::new(), Vec::new());
    for reader in 0..readers {
        let (producer, mut consumer) = spsc::ring::<PacketDesc>(8).unwrap();
        producers.push(producer);
        threads.push(thread::spawn(move || {
            let mut spare = pool_of(4);
            let mut dice = Dice(reader + 1);
            let mut sum = 0;
            while let Ok(desc) = consumer.pop_wait(None) {
                let mut packet = desc.into_packet();
                let bytes = packet.pull(8).unwrap().to_vec();
                sum += !u64::from_le_bytes(bytes.try_into().unwrap());
                match dice.below(4) {
                    0 => {
                        // Its own from here on: by a copy, or since the others are gone.
                        packet.unshare(&mut spare).unwrap();
                        packet.as_mut_slice().unwrap().fill(reader as u8);
                    }
                    1 => {
                        if let Ok(bytes) = packet.as_mut_slice() {
                            bytes.fill(0xee);
                        }
                    }
                    _ => {}
                }
                drop(packet);
                return_idle();
            }
            sum
        }));
    }
    let rounds = MANY / 20;
    for number in 0..rounds {
        let mut packet = loop {
            match pool.take() {
                Some(packet) => break packet,
                None => thread::yield_now(),
            }
        };
        owners.take(packet.slot());
        stamp(&mut packet, number);
        owners.give(packet.slot());
        for producer in &mut producers {
            let desc = packet.share().into_desc().unwrap();
            producer.push_wait(desc, None).unwrap();
        }
    }
    drop(producers);
    for thread in threads {
        assert_eq!(thread.join().unwrap(), rounds * (rounds - 1) / 2);
    }
    assert_eq!(pool.refill(), slots as usize);
    assert_eq!(pool.close(), None);
}

#[test]
fn a_packet_in_storage_of_its_thread_comes_home_whatever_ends_first() {
    thread_local! {
        static BEFORE: std::cell::Cell<Option<Packet>> = const { std::cell::Cell::new(None) };
        static BEHIND: std::cell::Cell<Option<Packet>> = const { std::cell::Cell::new(None) };
    }
    let mut pool = pool_of(256);
    let (one, two, three) = (pool.take(), pool.take(), pool.take());
    let thread = thread::spawn(move || {
        BEFORE.set(one);
        drop(two); // the thread's chains come into being
        BEHIND.set(three);
    });
    thread.join().unwrap();
    assert_eq!(pool.refill(), 256);
}

#[test]
fn what_a_thread_has_gathered_comes_home_when_it_ends() {
    let mut pool = pool_of(256);
    let mut packets = Vec::new();
    pool.take_burst(70, &mut packets);
    thread::spawn(move || drop(packets)).join().unwrap();
    assert_eq!(pool.refill(), 256);
}

#[test]
fn a_small_pool_does_not_starve_while_others_gather() {
    let mut pool = pool_of(8);
    let mut packets = Vec::new();
    pool.take_burst(8, &mut packets);
    let stage = Arc::new(AtomicU32::new(0));
    let theirs = stage.clone();
    let reaches = |stage: &AtomicU32, n| {
        while stage.load(Acquire) < n {
            thread::yield_now();
        }
    };
    let thread = thread::spawn(move || {
        drop(packets);
        theirs.store(1, Release);
        reaches(&theirs, 2);
    });
    reaches(&stage, 1);
    assert_eq!(pool.refill(), 8, "chains of a small pool are short");
    stage.store(2, Release);
    thread.join().unwrap();
}

/// Every thread keeps part of a chain: as much as it can, and no more.
#[test]
fn threads_that_drop_and_never_idle_leave_32_slots_of_any_pool() {
    for (slots, threads, kept) in [
        (40, 8, 0),
        (64, 32, 1),
        (256, 16, 7),
        (256, 32, 7),
        (1024, 32, 31),
    ] {
        let mut pool = pool_of(slots);
        let dropped = Arc::new(AtomicU32::new(0));
        let (mut producers, mut workers) = (Vec::new(), Vec::new());
        for _ in 0..threads {
            let (producer, mut consumer) = spsc::ring::<PacketDesc>(64).unwrap();
            producers.push(producer);
            let dropped = dropped.clone();
            workers.push(thread::spawn(move || {
                while let Ok(desc) = consumer.pop_wait(None) {
                    drop(desc);
                    dropped.fetch_add(1, Release);
                }
            }));
        }
        let mut sent = 0;
        let mut dice = Dice(5);
        let mut send = |pool: &mut Pool, to: usize| {
            let packet = pool
                .take()
                .unwrap_or_else(|| panic!("{slots} slots starve"));
            producers[to]
                .push_wait(packet.into_desc().unwrap(), None)
                .unwrap();
            sent += 1;
            while dropped.load(Acquire) < sent {
                thread::yield_now();
            }
        };
        // One packet at a time is out, wherever it goes.
        for _ in 0..MANY / 20 {
            send(&mut pool, dice.below(threads) as usize);
        }
        // Whatever each one has kept until now, with these it has kept the most that it can.
        let home = |pool: &mut Pool| pool.refill() as u64;
        let mut least = home(&mut pool);
        for to in 0..threads as usize {
            for _ in 0..kept + 1 {
                let before = home(&mut pool);
                send(&mut pool, to);
                if home(&mut pool) > before {
                    // Its chain went home: from none on, it keeps all that follow.
                    (0..kept).for_each(|_| send(&mut pool, to));
                    break;
                }
            }
            least = least.min(home(&mut pool));
        }
        assert_eq!(home(&mut pool), u64::from(slots) - threads * kept);
        assert!(least >= 32.min(slots.into()), "{least} of {slots}");
        drop(producers);
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        assert_eq!(pool.refill(), slots as usize);
    }
}

#[test]
fn what_was_asked_for_in_vain_is_counted_up_to_the_most_that_a_number_holds() {
    let mut pool = pool_of(4);
    let mut all = Vec::new();
    assert_eq!(pool.take_burst(usize::MAX, &mut all), 4);
    assert_eq!(pool.take_burst(usize::MAX, &mut all), 0);
    assert!(pool.take().is_none());
    assert_eq!(pool.counts().exhausted, u64::MAX);
}

#[test]
fn a_pool_in_a_log_is_a_line_not_a_list_of_its_slots() {
    let mut pool = pool_of(5000);
    let packet = pool.take().unwrap();
    let told = format!("{pool:?} {:?} {packet:?}", pool.handle());
    assert!(told.contains("away: 1") && told.len() < 800, "{told}");
    let told = format!("{:?}", SharedPool::from(pool));
    assert!(told.len() < 800, "{told}");
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
    /// Keeps some, has one in its hands, and panics.
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
        let most_away = (kept as u32 + 1).min(7);
        assert_eq!(pool.counts().most_away, most_away, "with the one in hand");
        drop(target);
        assert_eq!(pool.refill(), 10);
    }
    assert_eq!(pool.close(), None);
}

#[test]
fn leaked_packets_are_told_at_the_end() {
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
    let Foreign(packet) = other.put_back(packet).unwrap_err();
    let Foreign(desc) = other.adopt(packet.into_desc().unwrap()).unwrap_err();
    let stale = one.handle();
    assert!(stale.adopt(desc).is_ok());
    // Ended, and its number perhaps another's: a handle takes packets of its own pool only.
    return_idle();
    assert_eq!(one.close(), None);
    for _ in 0..20 {
        let mut next = pool_of(4);
        let desc = next.take().unwrap().into_desc().unwrap();
        assert!(stale.adopt(desc).is_err());
    }
}

#[test]
fn a_pool_is_one_piece_of_whole_pages_and_slots_lie_side_by_side() {
    let mut pool = pool_of(64);
    let (base, len) = pool.memory();
    assert_eq!((base.as_ptr() as usize % 4096, len), (0, 64 * 256));
    let mut packets = Vec::new();
    pool.take_burst(64, &mut packets);
    for packet in &packets {
        let at = packet.as_slice().as_ptr() as usize - base.as_ptr() as usize;
        assert_eq!(at, packet.slot() as usize * 256 + 64);
    }
}

#[test]
fn what_a_pool_cannot_be_is_an_error_that_says_what_to_do() {
    let told = |config: PoolConfig| Pool::new(&config).unwrap_err().to_string();
    let config = PoolConfig::default;
    for (text, config) in [
        (
            "1 to 1048576 slots",
            PoolConfig {
                slots: 0,
                ..config()
            },
        ),
        (
            "1 to 1048576 slots",
            PoolConfig {
                slots: (1 << 20) + 1,
                ..config()
            },
        ),
        (
            "multiple of 64",
            PoolConfig {
                slot_bytes: 100,
                ..config()
            },
        ),
        (
            "multiple of 64",
            PoolConfig {
                slot_bytes: 0,
                ..config()
            },
        ),
        (
            "multiple of 64",
            PoolConfig {
                slot_bytes: (1 << 19) + 64,
                ..config()
            },
        ),
        (
            "less headroom",
            PoolConfig {
                headroom: 2048,
                ..config()
            },
        ),
    ] {
        let error = told(config);
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn who_was_shared_once_may_write_again_when_the_others_are_gone() {
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
fn slots_by_the_block_are_taken_become_packets_and_go_home_once_each() {
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
    assert!(slots.bytes_mut(32).is_none());
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
