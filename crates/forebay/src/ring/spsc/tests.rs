//! The calls of both ends, in one thread.

use super::{oracle_tests::bytes, *};
use crate::sync::{Block, Eventfd, Spin};
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
    assert_eq!(producer.wait_vacant(1), 1);
    assert_eq!(producer.push(1), Ok(()));
    assert_eq!(producer.wait_vacant(1), 0);
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
            assert_eq!(consumer.pop_timeout(timeout), Err(PopError::Empty));
            assert_eq!(consumer.wait_filled_timeout(1, timeout), 0);
            assert_eq!(producer.push_timeout(1, timeout), Ok(()));
            assert_eq!(producer.push_timeout(2, timeout), Err(PushError::Full(2)));
            assert_eq!(producer.wait_vacant_timeout(1, timeout), 0);
            // More than the capacity is never available: the wait is for the capacity.
            assert_eq!(consumer.wait_filled_timeout(9, Duration::MAX), 1);
            assert_eq!(consumer.pop_timeout(Duration::MAX), Ok(1));
            assert_eq!(producer.wait_vacant_timeout(9, Duration::MAX), 1);

            let deadline = Instant::now() + timeout;
            assert_eq!(consumer.pop_deadline(deadline), Err(PopError::Empty));
            assert_eq!(consumer.wait_filled_deadline(1, deadline), 0);
            assert_eq!(producer.push_deadline(1, deadline), Ok(()));
            assert_eq!(producer.push_deadline(2, deadline), Err(PushError::Full(2)));
            assert_eq!(producer.wait_vacant_deadline(1, deadline), 0);
            assert_eq!(consumer.pop_deadline(deadline), Ok(1));
        }
    }
    ends::<Spin>();
    ends::<Park>();
    #[cfg(not(miri))] // it has no poll
    ends::<Eventfd>();
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
#[should_panic(expected = "releasing 3 of 2")]
fn releasing_more_than_was_peeked_panics() {
    let (mut producer, mut consumer) = ring(4).unwrap();
    producer.push_slice(&[1, 2]);
    consumer.peek(4).release(3);
}

#[test]
fn an_end_may_be_used_behind_a_caught_panic() {
    fn is_unwind_safe<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    is_unwind_safe::<Producer<u64>>();
    is_unwind_safe::<Consumer<u64>>();
}
