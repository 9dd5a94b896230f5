//! Models of a few steps: loom runs every order of them, other builds run one.
//!
//! Capacity 2, three elements. `planted_bugs_are_found` tests these tests: it runs this binary again with a planted bug and
//! requires the model to fail.

use super::*;
use crate::sync::{
    Spin, Task,
    atomic::{
        AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
    executor::Executor,
    model, model_of, thread,
};
use std::sync::atomic::AtomicUsize as Count;
use std::{
    pin::pin,
    task::{Context, Poll},
}; // counts model events; not part of the models

fn pair<T: Send, W: Wait>() -> (Producer<T, W>, Consumer<T, W>) {
    ring_with(&RingConfig {
        capacity: 2,
        ..RingConfig::default()
    })
    .unwrap()
}

/// An element that records its drop.
struct Counted(std::sync::Arc<Count>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn single_elements_arrive_whole_and_in_order() {
    model(|| {
        let (mut producer, mut consumer) = pair::<u32, Spin>();
        let sender = thread::spawn(move || {
            for i in 1..=3 {
                while producer.try_push(i).is_err() {
                    thread::yield_now();
                }
            }
        });
        for i in 1..=3 {
            let value = loop {
                match consumer.try_pop() {
                    Ok(value) => break value,
                    Err(_) => thread::yield_now(),
                }
            };
            assert_eq!(value, i);
        }
        sender.join().unwrap();
        assert_eq!(consumer.try_pop(), Err(PopError::Closed));
    });
}

#[test]
fn bursts_arrive_whole_and_in_order() {
    model(|| {
        let (mut producer, mut consumer) = pair::<u32, Spin>();
        let sender = thread::spawn(move || {
            let mut numbers = 1..=3;
            while !numbers.is_empty() {
                if producer.push_burst(&mut numbers) == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut next = 1;
        while next <= 3 {
            let burst = consumer.peek(2);
            let len = burst.len() as u32;
            assert!(burst.iter().copied().eq(next..next + len));
            burst.release(len as usize);
            next += len;
            if len == 0 {
                thread::yield_now();
            }
        }
        sender.join().unwrap();
    });
}

/// A thread that learns elsewhere that a push has returned finds the element at the first load; the same holds for vacant slots.
#[test]
fn an_element_is_there_when_its_push_has_returned() {
    model(|| {
        let (mut producer, mut consumer) = pair::<u32, Spin>();
        let (pushed, popped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (tell, heard) = (pushed.clone(), popped.clone());
        let sender = thread::spawn(move || {
            producer.try_push(1).unwrap();
            tell.store(1, Release);
            assert_eq!(producer.push_slice(&[2]), 1);
            tell.store(2, Release);
            // For a number Relaxed would be enough; with Acquire, everything before it must be visible.
            heard.load(Acquire) == 0 || producer.try_push(3).is_ok()
        });
        let told = pushed.load(Acquire);
        for expected in 1..=told as u32 {
            assert_eq!(consumer.try_pop(), Ok(expected));
            popped.store(expected as usize, Release);
        }
        assert!(sender.join().unwrap());
    });
}

#[test]
fn elements_left_behind_are_dropped_once_whoever_goes_last() {
    model(|| {
        let drops = std::sync::Arc::new(Count::new(0));
        let (mut producer, mut consumer) = pair::<Counted, Spin>();
        let counted = drops.clone();
        let sender = thread::spawn(move || {
            for _ in 0..3 {
                // If the ring is full, it returns the element, which is dropped here.
                let _ = producer.try_push(Counted(counted.clone()));
            }
        });
        drop(consumer.try_pop());
        drop(consumer);
        sender.join().unwrap();
        assert_eq!(drops.load(Relaxed), 3);
    });
}

#[test]
fn a_sleeping_consumer_is_woken_by_each_element_and_by_the_end() {
    model(|| {
        let (mut producer, mut consumer) = pair::<u32, Park>();
        let sender = thread::spawn(move || {
            producer.try_push(1).unwrap();
            producer.try_push(2).unwrap();
        });
        assert_eq!(consumer.pop(), Ok(1));
        assert_eq!(consumer.pop(), Ok(2));
        assert_eq!(consumer.pop(), Err(Closed(())));
        sender.join().unwrap();
    });
}

#[test]
fn a_sleeping_producer_is_woken_by_credit_and_by_the_end() {
    model(|| {
        let (mut producer, mut consumer) = pair::<u32, Park>();
        producer.try_push(1).unwrap();
        producer.try_push(2).unwrap();
        let receiver = thread::spawn(move || {
            assert_eq!(consumer.try_pop(), Ok(1));
        });
        // The consumer may be gone before the slot it vacated is found.
        if producer.push(3).is_ok() {
            assert_eq!(producer.push(4), Err(Closed(4)));
        }
        receiver.join().unwrap();
    });
}

/// The slots of a forgotten drain return when the consumer finds the ring empty; until then the producer sleeps.
#[test]
fn elements_of_a_forgotten_drain_are_taken_once_and_their_slots_return() {
    model_of(3, || {
        let drops = std::sync::Arc::new(Count::new(0));
        let (mut producer, mut consumer) = pair::<Counted, Park>();
        let counted = drops.clone();
        let sender = thread::spawn(move || {
            for _ in 0..3 {
                assert!(producer.push(Counted(counted.clone())).is_ok());
            }
        });
        consumer.wait_filled(1);
        let mut drain = consumer.peek(2).into_iter();
        let mut taken = drain.by_ref().count();
        std::mem::forget(drain);
        while let Ok(element) = consumer.pop() {
            drop(element);
            taken += 1;
        }
        assert_eq!((taken, drops.load(Relaxed)), (3, 3));
        sender.join().unwrap();
    });
}

/// Each future is polled once and dropped: a dropped future loses no element and no wake-up.
#[test]
fn a_task_that_drops_pending_pops_gets_each_element_once() {
    model(|| {
        let (mut producer, mut consumer) = pair::<u32, Task>();
        let sender = thread::spawn(move || {
            producer.try_push(1).unwrap();
            producer.try_push(2).unwrap();
        });
        let (executor, waker) = Executor::new();
        let mut context = Context::from_waker(&waker);
        let mut next = 1;
        loop {
            let polled = pin!(consumer.pop()).poll(&mut context);
            match polled {
                Poll::Ready(Ok(value)) => assert_eq!(value, next),
                Poll::Ready(Err(_)) => break,
                Poll::Pending => {
                    executor.sleep();
                    continue;
                }
            }
            next += 1;
        }
        assert_eq!(next, 3);
        sender.join().unwrap();
    });
}

#[test]
fn a_task_that_drops_pending_waits_for_a_slot_pushes_each_element_once() {
    model(|| {
        let (mut producer, mut consumer) = pair::<u32, Task>();
        assert_eq!(producer.push_slice(&[1, 2]), 2);
        let receiver = thread::spawn(move || assert_eq!(consumer.try_pop(), Ok(1)));
        let (executor, waker) = Executor::new();
        let mut context = Context::from_waker(&waker);
        loop {
            let polled = pin!(producer.until_vacant(1)).poll(&mut context);
            match polled {
                Poll::Ready(0) => break,
                Poll::Ready(_) => drop(producer.try_push(3)),
                Poll::Pending => executor.sleep(),
            }
        }
        assert!(producer.consumer_is_gone() && (2..=3).contains(&producer.pushed()));
        receiver.join().unwrap();
    });
}

/// The checker of this build finds the planted bugs: loom by a failed model, ThreadSanitizer by its report.
#[cfg(any(loom, forebay_one_view))]
#[test]
fn planted_bugs_are_found() {
    const ONE_BY_ONE: &str = "models::single_elements_arrive_whole_and_in_order";
    const AT_ONCE: &str = "models::an_element_is_there_when_its_push_has_returned";
    const CONSUMER: &str = "models::a_sleeping_consumer_is_woken_by_each_element_and_by_the_end";
    const PRODUCER: &str = "models::a_sleeping_producer_is_woken_by_credit_and_by_the_end";
    const FORGOTTEN: &str =
        "models::elements_of_a_forgotten_drain_are_taken_once_and_their_slots_return";
    const POPS: &str = "models::a_task_that_drops_pending_pops_gets_each_element_once";
    const PUSHES: &str =
        "models::a_task_that_drops_pending_waits_for_a_slot_pushes_each_element_once";
    if crate::sync::finds_no_race() {
        return;
    }
    let mut plants = vec![
        ("publish-relaxed", ONE_BY_ONE),
        ("credit-relaxed", ONE_BY_ONE),
    ];
    if cfg!(loom) {
        plants.extend([
            ("publish-late", AT_ONCE),
            ("park-without-second-look", CONSUMER),
            ("park-without-second-look", PRODUCER),
            ("bell-arm-without-fence", CONSUMER),
            ("bell-ring-without-fence", PRODUCER),
            ("drain-forgotten-for-good", FORGOTTEN),
            ("task-without-second-look", POPS),
            ("task-without-second-look", PUSHES),
        ]);
    } else {
        // The models are too short for threads to overlap on the machine; this test is not.
        const LONG: &str = "thread_tests::two_threads_agree_with_the_order_through_stalls";
        plants = vec![("publish-relaxed", LONG), ("credit-relaxed", LONG)];
    }
    crate::sync::planted_bugs_are_found("ring::spsc", &plants);
}
