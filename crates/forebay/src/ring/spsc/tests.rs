//! The calls of both ends, in one thread.

use super::{oracle_tests::bytes, *};
use crate::sync::{Block, Spin};
use forebay_testing::dice::times;
use std::{
    thread,
    time::{Duration, Instant},
};

#[test]
fn odd_elements_straddle_the_seam_again_and_again() {
    let (mut producer, mut consumer) = ring::<[u8; 24]>(100).unwrap();
    for round in 0..times(2000, 2) {
        for i in 0..70 {
            producer.try_push(bytes(round + i)).unwrap();
        }
        let burst = consumer.peek(70);
        let whole = burst
            .iter()
            .enumerate()
            .all(|(i, value)| *value == bytes(round + i as u64));
        let k = burst.len();
        assert!(whole && k > 0);
        burst.release(k);
        while let Ok(value) = consumer.try_pop() {
            assert_eq!(value[1], value[0].wrapping_add(1));
        }
    }
}

#[test]
fn a_burst_is_one_slice_over_the_seam_where_there_is_a_mirror() {
    let (mut producer, mut consumer) = ring::<u64>(512).unwrap();
    assert_eq!(producer.push_slice(&[0; 500]), 500);
    consumer.peek(500).release(500);
    let numbers: Vec<u64> = (0..512).collect();
    assert_eq!(producer.push_slice(&numbers), 512);
    let one_view = cfg!(any(miri, forebay_one_view));
    assert_eq!(consumer.peek(512).len(), if one_view { 12 } else { 512 });
}

#[test]
fn a_ring_of_no_slots_is_an_error_that_says_what_to_do() {
    let error = ring::<u8>(0).unwrap_err().to_string();
    assert!(error.contains("at least 1"), "{error}");
    let error = ring::<u64>(usize::MAX).unwrap_err().to_string();
    assert!(error.contains("smaller"), "{error}");
}

#[test]
fn what_is_pushed_can_be_popped_at_once_and_its_slot_filled_again() {
    for (capacity, latency) in [(1, false), (7, false), (1024, false), (1024, true)] {
        let config = RingConfig {
            capacity,
            latency,
            ..RingConfig::default()
        };
        let (mut producer, mut consumer) = ring_with::<usize, Spin>(&config).unwrap();
        for number in 0..times(3 * capacity, capacity.min(20)) {
            producer.try_push(number).unwrap();
            assert_eq!((consumer.len(), consumer.try_pop()), (1, Ok(number)));
            assert_eq!(producer.vacant(), capacity);
        }
        let all: Vec<_> = (0..capacity).collect();
        for burst in [1, capacity / 2, capacity] {
            assert_eq!(producer.push_slice(&all[..burst]), burst);
            let mut popped = vec![0; burst];
            assert_eq!(consumer.pop_slice(&mut popped), burst);
            assert_eq!(
                (popped, producer.vacant()),
                (all[..burst].to_vec(), capacity)
            );
        }
    }
}

#[test]
fn one_slot_is_a_ring() {
    let (mut producer, mut consumer) = ring(1).unwrap();
    for i in 0..100 {
        producer.try_push(i).unwrap();
        assert_eq!(producer.try_push(i), Err(PushError::Full(i)));
        assert_eq!(consumer.try_pop(), Ok(i));
    }
}

#[test]
fn abandoned_ends_are_noticed_and_the_remaining_elements_are_available() {
    let (mut producer, mut consumer) = ring(4).unwrap();
    assert!(!producer.consumer_is_gone() && !consumer.producer_is_gone());
    producer.push(1).unwrap();
    drop(producer);
    assert!(consumer.producer_is_gone());
    assert_eq!(consumer.wait_filled(2), 1);
    assert_eq!(consumer.pop(), Ok(1));
    assert_eq!(consumer.pop(), Err(Closed(())));
    assert_eq!(consumer.try_pop(), Err(PopError::Closed));
    assert_eq!(consumer.pop_timeout(Duration::MAX), Err(PopError::Closed));

    let (mut producer, consumer) = ring(1).unwrap();
    drop(consumer);
    assert!(producer.consumer_is_gone());
    // At once, although a slot is vacant.
    assert_eq!(producer.wait_vacant(1), 0);
    assert_eq!(
        producer.wait_vacant_timeout(1, Duration::MAX),
        Err(WaitError::Closed)
    );
    assert_eq!(producer.reserve(1).len(), 0);
    assert_eq!(producer.push_slice(&[2]), 0);
    assert_eq!(producer.push_burst(&mut (0..9)), 0);
    assert_eq!((producer.pushed(), producer.stats().times_full), (0, 0));
    // Single elements use up the slots that the producer knows of.
    assert_eq!(producer.push(1), Ok(()));
    assert_eq!(producer.push(2), Err(Closed(2)));
    assert_eq!(producer.try_push(2), Err(PushError::Closed(2)));
    assert_eq!(
        producer.push_timeout(2, Duration::MAX),
        Err(PushError::Closed(2))
    );
}

#[test]
fn timeouts_and_deadlines_end_every_way_of_waiting() {
    fn ends<W: Block>() {
        let config = RingConfig {
            capacity: 1,
            ..RingConfig::default()
        };
        for timeout in [Duration::ZERO, Duration::from_millis(2)] {
            let (mut producer, mut consumer) = ring_with::<u8, W>(&config).unwrap();
            assert_eq!(consumer.pop_timeout(timeout), Err(PopError::TimedOut));
            let late = Err(WaitError::TimedOut);
            assert_eq!(consumer.wait_filled_timeout(1, timeout), late);
            assert_eq!(producer.push_timeout(1, timeout), Ok(()));
            assert_eq!(
                producer.push_timeout(2, timeout),
                Err(PushError::TimedOut(2))
            );
            assert_eq!(producer.wait_vacant_timeout(1, timeout), late);
            // More than the capacity is never available: the wait is for the capacity.
            assert_eq!(consumer.wait_filled_timeout(9, Duration::MAX), Ok(1));
            assert_eq!(consumer.pop_timeout(Duration::MAX), Ok(1));
            assert_eq!(producer.wait_vacant_timeout(9, Duration::MAX), Ok(1));

            let deadline = Instant::now() + timeout;
            assert_eq!(consumer.pop_deadline(deadline), Err(PopError::TimedOut));
            assert_eq!(consumer.wait_filled_deadline(1, deadline), late);
            assert_eq!(producer.push_deadline(1, deadline), Ok(()));
            assert_eq!(
                producer.push_deadline(2, deadline),
                Err(PushError::TimedOut(2))
            );
            assert_eq!(producer.wait_vacant_deadline(1, deadline), late);
            assert_eq!(consumer.pop_deadline(deadline), Ok(1));
        }
    }
    ends::<Spin>();
    ends::<Park>();
    #[cfg(not(miri))] // it has no poll
    ends::<crate::sync::Eventfd>();
}

#[test]
fn iterators_return_each_element_once_and_end() {
    let (mut producer, mut consumer) = ring(64).unwrap();
    let thread = thread::spawn(move || (0..100).for_each(|number| producer.push(number).unwrap()));
    assert!(consumer.iter().take(50).eq(0..50));
    thread.join().unwrap();
    // What is in the ring, without waiting for more.
    assert!(consumer.try_iter().eq(50..100));
    assert_eq!((consumer.popped(), consumer.iter().next()), (100, None));

    let (mut producer, consumer) = ring(4).unwrap();
    producer.push_slice(&[1, 2, 3]);
    assert_eq!(producer.pushed(), 3);
    drop(producer);
    assert_eq!(consumer.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn counts_report_the_fullest_ring_and_each_time_that_an_end_was_held_up() {
    let (mut producer, mut consumer) = ring(8).unwrap();
    assert_eq!(producer.stats(), RingStats::default());
    for lap in 0..3 {
        assert_eq!(producer.push_slice(&[lap; 5]), 5);
        assert_eq!(consumer.pop_slice(&mut [0; 8]), 5);
        // However often an end tries, it is counted once until something moves.
        for _ in 0..10 {
            assert!(consumer.try_pop().is_err() && consumer.peek(1).is_empty());
            assert!(consumer.wait_filled_timeout(1, Duration::ZERO).is_err());
        }
    }
    let expected = RingStats {
        pushed: 15,
        popped: 15,
        max_len: 5,
        times_full: 0,
        times_empty: 3,
    };
    assert_eq!((producer.stats(), consumer.stats()), (expected, expected));
    assert_eq!(producer.push_slice(&[9; 9]), 8);
    for _ in 0..10 {
        assert!(producer.try_push(9).is_err() && producer.reserve(1).is_empty());
    }
    // An end that waits for more than there is was held up too, although the ring is not full.
    consumer.try_pop().unwrap();
    assert!(producer.wait_vacant_timeout(2, Duration::ZERO).is_err());
    producer.try_push(9).unwrap();
    assert!(producer.wait_vacant_timeout(2, Duration::ZERO).is_err());
    let stats = consumer.stats();
    assert_eq!((stats.max_len, stats.times_full), (8, 2));
    assert_eq!((stats.pushed, stats.popped), (24, 16));
    // The fill level is known even before the consumer has looked.
    let (mut producer, consumer) = ring(8).unwrap();
    producer.push_slice(&[1; 7]);
    assert_eq!(
        (consumer.stats().max_len, consumer.stats().times_empty),
        (7, 0)
    );
}

#[test]
fn slots_of_plain_data_hold_zeros_and_then_old_elements_and_are_written_in_any_order() {
    let (mut producer, mut consumer) = ring::<u32>(1024).unwrap(); // a page
    assert_eq!(*producer.reserve(9), [0; 9]);
    let mut reserved = producer.reserve(3);
    reserved[2] = 3;
    reserved[0] = 1;
    reserved.commit(3);
    assert_eq!(*consumer.peek(4), [1, 0, 3]);
    consumer.peek(4).release(3);
    producer.reserve(1021).commit(1021);
    consumer.peek(1021).release(1021);
    assert_eq!(*producer.reserve(4), [1, 0, 3, 0]);
}

#[test]
fn no_more_is_committed_or_released_than_there_is() {
    let (mut producer, mut consumer) = ring::<u8>(2).unwrap();
    assert_eq!(producer.reserve(9).commit(3), 2);
    assert_eq!((producer.vacant(), consumer.len()), (0, 2));
    assert_eq!(consumer.peek(1).release(usize::MAX), 1);
    assert_eq!(consumer.peek(4).release(3), 1);
    assert_eq!((producer.vacant(), consumer.len()), (2, 0));
}

#[test]
fn an_end_may_be_used_behind_a_caught_panic() {
    fn is_unwind_safe<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    is_unwind_safe::<Producer<u64>>();
    is_unwind_safe::<Consumer<u64>>();
}

#[test]
fn the_high_water_mark_sees_elements_that_arrive_one_by_one_while_others_wait() {
    let (mut producer, mut consumer) = ring::<u32>(8).unwrap();
    for number in 0..8 {
        producer.try_push(number).unwrap();
        assert_eq!(consumer.peek(8).len(), number as usize + 1);
    }
    assert_eq!(consumer.skip(8), 8);
    assert_eq!(consumer.stats().max_len, 8);
}
