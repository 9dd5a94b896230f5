//! Rings between tasks of a real runtime, and between a task and a thread.

use forebay::{
    ring::spsc::{Closed, Consumer, Producer, RingConfig, ring_with},
    sync::Task,
};
use std::time::Duration;
use tokio::time::timeout;

fn made(capacity: usize) -> (Producer<Box<u32>, Task>, Consumer<Box<u32>, Task>) {
    let config = RingConfig {
        capacity,
        ..RingConfig::default()
    };
    ring_with(&config).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_element_arrives_in_order_between_tasks() {
    for capacity in [1, 3, 1000] {
        let (mut producer, mut consumer) = made(capacity);
        let task = tokio::spawn(async move {
            for number in 0..20_000 {
                producer.push(Box::new(number)).await.unwrap();
            }
        });
        for number in 0..20_000 {
            assert_eq!(consumer.pop().await, Ok(Box::new(number)));
        }
        assert_eq!(consumer.pop().await, Err(Closed(())));
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn futures_dropped_while_pending_neither_lose_nor_repeat_an_element() {
    const SHORT: Duration = Duration::from_micros(1);
    let (mut producer, mut consumer) = made(2);
    let task = tokio::spawn(async move {
        let mut number = 0;
        while number < 5_000 {
            // The wait may be dropped; the element is made only for a slot that is vacant.
            if timeout(SHORT, producer.until_vacant(1)).await.is_ok() {
                producer.try_push(Box::new(number)).unwrap();
                number += 1;
            }
        }
    });
    let mut next = 0;
    loop {
        match timeout(SHORT, consumer.pop()).await {
            Ok(Ok(number)) => {
                assert_eq!(*number, next);
                next += 1;
            }
            Ok(Err(Closed(()))) => break,
            Err(_) => {} // the future was dropped
        }
    }
    assert_eq!(next, 5_000);
    task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_thread_feeds_a_task_and_notices_that_it_is_gone() {
    let (mut producer, mut consumer) = made(4);
    let thread = std::thread::spawn(move || {
        let mut number = 0;
        while producer.wait_vacant(1) > 0 && producer.try_push(Box::new(number)).is_ok() {
            number += 1;
        }
        assert!(producer.consumer_is_gone());
    });
    for number in 0..2000 {
        assert_eq!(consumer.pop().await, Ok(Box::new(number)));
    }
    drop(consumer);
    tokio::task::spawn_blocking(|| thread.join().unwrap())
        .await
        .unwrap();

    let (mut producer, consumer) = made(1);
    producer.push(Box::new(1)).await.unwrap();
    let task = tokio::spawn(async move { producer.push(Box::new(2)).await });
    tokio::task::yield_now().await;
    drop(consumer);
    assert_eq!(task.await.unwrap(), Err(Closed(Box::new(2))));
}
