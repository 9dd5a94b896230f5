//! The ends in two threads.

use super::*;
use crate::sync::{Block, Spin};
use forebay_testing::dice::{Dice, times};
use std::thread;

/// Sends `elements` numbers through a ring in random steps with stalls. The receiver stops after `taken`.
fn through_a_ring<W: Block + 'static>(seed: u64, capacity: usize, elements: u64, taken: u64) {
    let config = RingConfig {
        capacity,
        ..RingConfig::default()
    };
    let (mut producer, mut consumer) = ring_with::<Box<u64>, W>(&config).unwrap();
    let sender = thread::spawn(move || {
        let mut dice = Dice(seed);
        let mut numbers = (0..elements as usize).map(|number| Box::new(number as u64));
        while numbers.len() > 0 && !producer.consumer_is_gone() {
            match dice.below(3) {
                0 => {
                    if producer.push(numbers.next().unwrap()).is_err() {
                        return; // closed
                    }
                }
                1 => {
                    producer.push_burst(&mut numbers);
                }
                _ => {
                    let n = dice.below(40);
                    producer.reserve(n).fill(&mut numbers);
                }
            }
            dice.stall(300);
        }
    });
    let mut dice = Dice(seed + 1);
    let mut next = 0;
    while next < taken {
        match dice.below(3) {
            0 => {
                assert_eq!(consumer.pop().as_deref(), Ok(&next));
                next += 1;
            }
            1 => {
                let burst = consumer.peek(dice.below(40));
                let k = burst.len() as u64;
                assert!(burst.iter().map(|value| **value).eq(next..next + k));
                burst.release(k as usize);
                next += k;
            }
            _ => {
                for value in consumer.peek(dice.below(40)) {
                    assert_eq!(*value, next);
                    next += 1;
                }
            }
        }
        dice.stall(300);
    }
    if taken == elements {
        assert_eq!(consumer.pop(), Err(Closed(())));
    }
    drop(consumer);
    sender.join().unwrap();
}

const MANY: u64 = times(60_000, 200);

#[test]
fn two_threads_agree_with_the_order_through_stalls() {
    for (seed, capacity) in [(1, 1), (2, 2), (3, 7), (4, 64), (5, 1000)] {
        through_a_ring::<Spin>(seed, capacity, MANY / 5, MANY / 5);
        through_a_ring::<Park>(seed, capacity, MANY / 5, MANY / 5);
    }
}

/// A consumer tries early whether to evict the lines that it has read. By the fifth lap it has tried both ways.
#[cfg(not(any(loom, miri)))]
#[test]
fn elements_arrive_whole_and_in_order_while_lines_are_flushed() {
    let laps: u64 = if crate::ring::ONE_VIEW { 2 } else { 40 };
    let capacity = 10_000; // 24 bytes each: they straddle cache lines and the seam
    let (producer, consumer) = ring::<[u64; 3]>(capacity).unwrap();
    let elements = laps * capacity as u64;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut producer = producer;
            for n in 0..elements {
                let mut element = [n, !n, n.rotate_left(32)];
                while let Err(error) = producer.try_push(element) {
                    element = error.into_inner();
                    thread::yield_now();
                }
            }
        });
        let mut consumer = consumer;
        let mut n = 0;
        while n < elements {
            let burst = consumer.peek(if n % 3 == 0 { 1 } else { 500 });
            let found = burst.len();
            for element in burst.iter() {
                assert_eq!(*element, [n, !n, n.rotate_left(32)]);
                n += 1;
            }
            burst.release(found);
            if found == 0 {
                thread::yield_now();
            }
        }
    });
}

#[test]
fn a_consumer_that_leaves_early_leaves_nothing_behind() {
    for seed in 1..times(40, 3) {
        through_a_ring::<Park>(seed, 16, 2000, seed * 40);
        through_a_ring::<Spin>(seed, 16, 2000, seed * 40);
    }
}
