//! The pool between threads, with an oracle of who owns which slot, and with rings from one to another.

use super::{pool_tests::pool_of, remote_free::NONE, tests::operations, *};
use crate::{ring::spsc, sync::Arc};
use forebay_testing::dice::{Dice, times};
use std::{
    sync::atomic::{
        AtomicBool, AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
    thread,
    time::Duration,
};

const MANY: u64 = times(20_000, 2_000);

/// The owner of each slot: set when it is taken, cleared just before it is given up. Relaxed, so that it orders nothing
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
pub(super) fn stamp(packet: &mut Packet, number: u64) {
    packet
        .put(8)
        .unwrap()
        .copy_from_slice(&number.to_le_bytes());
    packet
        .push(8)
        .unwrap()
        .copy_from_slice(&(!number).to_le_bytes());
}

pub(super) fn unstamp(packet: &mut Packet) -> u64 {
    let complement = u64::from_le_bytes(packet.pull(8).unwrap().try_into().unwrap());
    let number = u64::from_le_bytes(packet.as_slice()[..8].try_into().unwrap());
    assert_eq!(number, !complement);
    // The next owner of the slot must see that this happened before.
    packet.as_mut_slice().unwrap().fill(0xee);
    number
}

/// Starts threads with the consumers of rings of `capacity` descriptors; returns the producers and the threads.
fn workers<R: Send + 'static>(
    threads: u64,
    capacity: usize,
    work: impl Fn(u64, spsc::Consumer<PacketDesc>) -> R + Clone + Send + 'static,
) -> (Vec<spsc::Producer<PacketDesc>>, Vec<thread::JoinHandle<R>>) {
    let each = (0..threads).map(|number| {
        let (producer, consumer) = spsc::ring(capacity).unwrap();
        let work = work.clone();
        (producer, thread::spawn(move || work(number, consumer)))
    });
    each.unzip()
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

/// One owner, and several threads that return slots in different ways; a ring leads to each.
#[test]
fn slots_return_from_many_threads_once_each() {
    let many = operations(3 * MANY) / 3;
    for (slots, threads) in [(3, 1), (64, 2), (300, 3)] {
        let mut pool = pool_of(slots);
        let owners = Owners::new(slots);
        let theirs = owners.clone();
        let (mut producers, workers) = workers(threads, 40, move |worker, mut consumer| {
            let owners = &theirs;
            let mut dice = Dice(worker + 1);
            let mut sum = 0;
            while let Ok(desc) = consumer.pop() {
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
        });
        let mut dice = Dice(99);
        let mut number = 0;
        while number < many {
            let Some(mut packet) = pool.take() else {
                thread::yield_now();
                continue;
            };
            stamp(&mut packet, number);
            if dice.below(10) == 0 {
                // A pool with fewer slots stays as it was.
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
            producers[way].push(desc).unwrap();
            number += 1;
        }
        drop(producers);
        let sums = workers.into_iter().map(|worker| worker.join().unwrap());
        assert_eq!(sums.sum::<u64>(), many * (many - 1) / 2);
        assert_eq!(pool.refill(), slots as usize);
        assert_eq!(pool.close(), None);
    }
}

/// One of the ways in which a packet's slots return.
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

/// Bursts of descriptors over a ring; either end may go early, with descriptors inside.
#[test]
fn descriptors_travel_in_bursts_and_all_slots_return_whichever_end_leaves_first() {
    const LONG: u64 = times(5000, 24);
    let slots = times(200, 96);
    for (sent, taken) in [(LONG, LONG), (LONG, LONG / 4), (77, LONG), (0, LONG)] {
        let mut pool = pool_of(slots);
        let (mut producer, mut consumer) = spsc::ring::<PacketDesc>(64).unwrap();
        let receiver = thread::spawn(move || {
            let mut next = 0;
            while next < taken {
                let burst = consumer.peek(32.min(taken - next) as usize);
                if burst.is_empty() {
                    return_idle();
                    match consumer.pop() {
                        Ok(desc) => {
                            assert_eq!(unstamp(&mut desc.into_packet()), next);
                            next += 1;
                        }
                        Err(_) => break,
                    }
                    continue;
                }
                let bytes: u32 = burst.iter().map(|desc| desc.len()).sum();
                assert_eq!(bytes as usize, 16 * burst.len());
                for desc in burst {
                    assert_eq!(unstamp(&mut desc.into_packet()), next);
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
            let left = descs.count();
            assert!(left == 0 || producer.consumer_is_gone(), "there was room");
        }
        drop(producer);
        let received = receiver.join().unwrap();
        assert_eq!(received, number.min(taken).min(sent));
        assert_eq!(pool.refill(), slots as usize);
        assert_eq!(pool.close(), None);
    }
}

/// The pool has fewer slots than there are packets on the way, so its owner has to wait again and again.
#[test]
fn an_owner_that_waits_gets_every_slot_that_others_return() {
    for (slots, threads) in [(1, 1), (2, 3), (70, 3)] {
        let mut pool = pool_of(slots);
        let owners = Owners::new(slots);
        let theirs = owners.clone();
        let (mut producers, workers) = workers(threads, 128, move |_, mut consumer| {
            while let Ok(desc) = consumer.pop() {
                let mut packet = desc.into_packet();
                unstamp(&mut packet);
                theirs.give(packet.slot());
                drop(packet);
                if consumer.is_empty() {
                    return_idle();
                }
            }
        });
        for number in 0..times(2000, 12) {
            let mut packet = match number % 2 {
                0 => pool.take_wait(),
                _ => pool.take_timeout(Duration::MAX).unwrap(),
            };
            owners.take(packet.slot());
            stamp(&mut packet, number);
            let way = (number % threads) as usize;
            assert!(producers[way].try_push(packet.into_desc().unwrap()).is_ok());
        }
        drop(producers);
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        assert_eq!(pool.refill(), slots as usize);
    }
}

#[test]
fn an_owner_waits_neither_for_slots_that_it_dropped_itself_nor_longer_than_its_limit() {
    let slots = times(256, 70);
    let mut pool = pool_of(slots);
    let mut packets = Vec::new();
    pool.take_burst(slots as usize, &mut packets);
    assert!(pool.take_timeout(Duration::ZERO).is_none());
    assert!(pool.take_timeout(Duration::from_millis(1)).is_none());
    assert_eq!(pool.counts().exhausted, 2);
    packets.truncate(slots as usize - 1); // gathered by this thread
    let packet = pool.take_wait();
    assert!(packet.is_empty());
    thread::spawn(move || drop(packets)); // gathered, and returned at the thread's end
    pool.take_wait();
}

/// One packet for several threads at once: each reads it, some go on from a copy, and its slot returns once.
#[test]
fn a_packet_shared_by_several_threads_is_read_by_all_and_returns_once() {
    let slots = 64;
    let readers = 3;
    let mut pool = pool_of(slots);
    let owners = Owners::new(slots);
    let (mut producers, threads) = workers(readers, 8, |reader, mut consumer| {
        let mut spare = pool_of(4);
        let mut dice = Dice(reader + 1);
        let mut sum = 0;
        while let Ok(desc) = consumer.pop() {
            let mut packet = desc.into_packet();
            let bytes = packet.pull(8).unwrap().to_vec();
            sum += !u64::from_le_bytes(bytes.try_into().unwrap());
            match dice.below(4) {
                0 => {
                    // Exclusive from here on: by a copy, or since the others are gone.
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
    });
    let rounds = times(MANY / 20, 10);
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
            producer.push(desc).unwrap();
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
fn a_packet_in_thread_local_storage_returns_whatever_ends_first() {
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
fn slots_that_a_thread_has_gathered_return_when_it_ends() {
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

/// Every thread keeps part of a chain: as much as it can.
#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
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
        let theirs = dropped.clone();
        let (mut producers, workers) = workers(threads, 64, move |_, mut consumer| {
            while let Ok(desc) = consumer.pop() {
                drop(desc);
                theirs.fetch_add(1, Release);
            }
        });
        let mut sent = 0;
        let mut dice = Dice(5);
        let mut send = |pool: &mut Pool, to: usize| {
            let packet = pool
                .take()
                .unwrap_or_else(|| panic!("{slots} slots starve"));
            producers[to].push(packet.into_desc().unwrap()).unwrap();
            sent += 1;
            while dropped.load(Acquire) < sent {
                thread::yield_now();
            }
        };
        // One packet at a time is in use.
        for _ in 0..MANY / 20 {
            send(&mut pool, dice.below(threads) as usize);
        }
        // Together with what each thread kept before, these are the most that it can keep.
        let home = |pool: &mut Pool| pool.refill() as u64;
        let mut least = home(&mut pool);
        for to in 0..threads as usize {
            for _ in 0..kept + 1 {
                let before = home(&mut pool);
                send(&mut pool, to);
                if home(&mut pool) > before {
                    // The chain was returned: from none on, the thread keeps all that follow.
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
#[cfg_attr(miri, ignore = "takes minutes there")]
fn few_packets_in_use_take_few_slots_one_by_one_and_in_bursts() {
    for (slots, burst) in [(2048, 32), (256, 32), (256, 1)] {
        let mut pool = pool_of(slots);
        let (mut there, mut away) = spsc::ring::<Packet>(64).unwrap();
        thread::scope(|scope| {
            let others = scope.spawn(move || {
                while let Ok(packet) = away.pop() {
                    drop(packet);
                }
            });
            let mut taken = Vec::new();
            for _ in 0..10_000 / burst {
                while pool.take_burst(burst, &mut taken) == 0 {
                    thread::yield_now();
                }
                for packet in taken.drain(..) {
                    assert!(there.push(packet).is_ok());
                }
            }
            drop(there);
            others.join().unwrap();
        });
        // In flight, in the other thread's chain, returning, and as many more that were not seen at once.
        let max_away = pool.counts().max_away;
        assert!(max_away <= 224, "{max_away} of {slots}, {burst} at a time");
    }
}
