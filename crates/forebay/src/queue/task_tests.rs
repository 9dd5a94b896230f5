//! What users of the async ends rely on: every message once, in order, whichever futures are dropped.

use super::*;
use forebay_testing::dice::times;
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};
use tokio::time::timeout;

/// How long a future lives that is usually dropped while it is pending.
const SHORT: Duration = Duration::from_micros(1);

/// Counts how often it wakes.
#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Polls a future once and drops it; returns its output.
fn poll_once<F: Future>(future: F, wakes: &Arc<Wakes>) -> Poll<F::Output> {
    let waker = Waker::from(wakes.clone());
    pin!(future).poll(&mut Context::from_waker(&waker))
}

fn wakes(wakes: &Arc<Wakes>) -> u32 {
    wakes.0.swap(0, Relaxed)
}

fn ends(capacity_bytes: usize) -> (AsyncSender, AsyncReceiver) {
    let (sender, receiver) = queue(capacity_bytes).unwrap();
    (sender.into_async().unwrap(), receiver.into_async().unwrap())
}

#[cfg(not(forebay_one_view))] // ThreadSanitizer does not see the locks of the runtime
#[test]
fn tasks_and_threads_pass_every_message_once_and_each_receiver_in_order() {
    const SENDERS: u64 = 4;
    let each = times(5000, 300) as u64;
    let (sender, receiver) = ends(1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    for me in 0..SENDERS - 1 {
        let mut sender = sender.clone();
        runtime.spawn(async move {
            for number in 0..each {
                let mut reserved = sender.reserve(100).await.unwrap();
                reserved[..8].copy_from_slice(&(me * each + number).to_ne_bytes());
                reserved.commit();
            }
        });
    }
    let blocking = sender.get_ref().clone();
    drop(sender);
    let thread = thread::spawn(move || {
        for number in 0..each {
            blocking
                .send(((SENDERS - 1) * each + number).to_ne_bytes())
                .unwrap();
        }
    });
    let number = |message: &[u8]| u64::from_ne_bytes(message[..8].try_into().unwrap());
    let tasks = [receiver.clone(), receiver.clone()].map(|mut receiver| {
        runtime.spawn(async move {
            let (mut got, mut buffer, mut last) = (Vec::new(), [0; 100], None);
            while let Ok(received) = receiver.recv(&mut buffer).await {
                assert!(last < Some(received.sequence));
                last = Some(received.sequence);
                got.push(number(&buffer));
            }
            got
        })
    });
    let mut all: Vec<_> = (receiver.get_ref().iter())
        .map(|message| number(&message))
        .collect();
    for task in tasks {
        all.extend(runtime.block_on(task).unwrap());
    }
    thread.join().unwrap();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..SENDERS * each));
}

#[test]
fn a_future_that_is_dropped_while_pending_takes_and_sends_nothing() {
    let (mut sender, mut receiver) = ends(1);
    let mut other = receiver.clone();
    let (mine, others) = (Arc::default(), Arc::default());
    for number in 0..100_u8 {
        assert!(poll_once(receiver.take(), &mine).is_pending()); // and dropped
        assert!(poll_once(other.recv(&mut [0; 9]), &others).is_pending());
        assert!(poll_once(sender.send([number]), &mine).is_ready());
        // The one whose future is gone was woken, and so was the other: no wake-up is lost with a future.
        assert_eq!((wakes(&mine), wakes(&others)), (1, 1));
        let Poll::Ready(Ok(message)) = poll_once(other.take(), &others) else {
            panic!("no message {number}");
        };
        assert_eq!(*message, [number]);
    }
    let largest = sender.get_ref().largest();
    assert!(poll_once(sender.send(vec![1; largest]), &mine).is_ready());
    for _ in 0..100 {
        assert!(poll_once(sender.send("lost?"), &mine).is_pending());
        assert!(poll_once(sender.reserve(10), &mine).is_pending());
    }
    assert_eq!(receiver.get_ref().take().unwrap().len(), largest);
    assert_eq!(wakes(&mine), 1);
    let Poll::Ready(Ok(reserved)) = poll_once(sender.reserve(1), &mine) else {
        panic!("there is room");
    };
    drop(reserved); // aborted
    assert!(poll_once(sender.send("last"), &mine).is_ready());
    let got: Vec<_> = (receiver
        .get_ref()
        .try_iter()
        .map(|message| message.to_vec()))
    .collect();
    assert_eq!(got, [b"last"]);
}

/// A pending task is woken by the end, and a full queue refuses as configured, if `$made` makes the ends of a queue.
macro_rules! woken_and_refused {
    ($made:expr, $largest:expr) => {{
        let (made, wakes_of) = ($made, Arc::default());
        let config = QueueConfig {
            capacity_bytes: 16,
            ..QueueConfig::default()
        };
        let (sender, mut receiver) = made(&config);
        assert!(poll_once(receiver.take(), &wakes_of).is_pending());
        drop(sender);
        assert_eq!(wakes(&wakes_of), 1);
        let end = poll_once(receiver.recv(&mut []), &wakes_of);
        assert_eq!(end, Poll::Ready(Err(RecvError::Closed)));

        let (mut sender, receiver) = made(&config);
        let largest = $largest(&mut sender);
        assert!(poll_once(sender.send(vec![1; largest]), &wakes_of).is_ready());
        assert!(poll_once(sender.send(""), &wakes_of).is_pending());
        drop(receiver);
        assert_eq!(wakes(&wakes_of), 1);
        let end = poll_once(sender.send(""), &wakes_of);
        assert_eq!(end, Poll::Ready(Err(SendError::Closed)));
        let too_long = poll_once(sender.send(vec![1; largest + 1]), &wakes_of);
        assert_eq!(too_long, Poll::Ready(Err(SendError::TooLong { largest })));

        let (mut sender, _receiver) = made(&QueueConfig {
            when_full: WhenFull::Refuse,
            ..config
        });
        assert!(poll_once(sender.send(vec![1; largest]), &wakes_of).is_ready());
        let refused = poll_once(sender.send(""), &wakes_of);
        assert_eq!(refused, Poll::Ready(Err(SendError::Full)));
    }};
}

#[test]
fn a_pending_task_is_woken_by_the_end_and_a_full_queue_refuses_as_configured() {
    let made = |config: &QueueConfig| {
        let (sender, receiver) = queue_with(config).unwrap();
        (sender.into_async().unwrap(), receiver.into_async().unwrap())
    };
    woken_and_refused!(made, |sender: &mut AsyncSender| sender.get_ref().largest());
    let one_to_one = |config: &QueueConfig| {
        let (sender, receiver) = spsc::queue_with(config).unwrap();
        (sender.into_async(), receiver.into_async())
    };
    woken_and_refused!(one_to_one, |sender: &mut spsc::AsyncSender| sender
        .get_mut()
        .largest());
}

/// Uses the queue from inside a wake-up.
struct Nosy(Sender, Receiver, AtomicU32);

impl Wake for Nosy {
    fn wake(self: Arc<Self>) {
        self.2.fetch_add(1, Relaxed);
        let _ = self.0.try_send("from a waker");
        let _ = self.1.try_take();
        assert!(self.0.stats().unwrap().adds_up());
    }
}

#[test]
fn a_waker_may_use_the_queue_because_none_runs_under_a_lock() {
    for when_full in [WhenFull::Wait, WhenFull::DropOldest] {
        let (sender, receiver) = queue_with(&QueueConfig {
            capacity_bytes: 1,
            when_full,
            ..QueueConfig::default()
        })
        .unwrap();
        let nosy = Nosy(sender.clone(), receiver.clone(), AtomicU32::new(0));
        let nosy = Arc::new(nosy);
        let waker = Waker::from(nosy.clone());
        let mut context = Context::from_waker(&waker);
        let mut receiving = receiver.clone().into_async().unwrap();
        let mut sending = sender.clone().into_async().unwrap();
        assert!(receiving.poll_take(&mut context).is_pending());
        sender.send("wakes").unwrap();
        assert_eq!(nosy.2.swap(0, Relaxed), 1);
        while receiver.try_take().is_ok() {}

        let filling = sender.reserve(sender.largest() - 100).unwrap();
        assert!(sending.poll_reserve(&mut context, 200).is_pending());
        match when_full {
            WhenFull::DropOldest => {
                filling.commit();
                sender.send([0; 200]).unwrap(); // drops it
            }
            _ => {
                drop(filling); // aborts it
                assert_eq!(receiver.try_take().err(), Some(RecvError::Empty)); // passes over it
            }
        }
        assert_eq!(nosy.2.swap(0, Relaxed), 1);
    }
}

/// The ends of a queue between one sender and one receiver, with room for `words` words of 8 bytes.
fn one_to_one(words: usize) -> (spsc::AsyncSender, spsc::AsyncReceiver) {
    let (sender, receiver) = spsc::queue(8 * words).unwrap();
    (sender.into_async(), receiver.into_async())
}

#[test]
fn dropped_futures_of_the_only_sender_and_receiver_lose_and_repeat_nothing() {
    // Room for one message of three words: with one view, at most of its places the memory ends.
    let (mut sender, mut receiver) = one_to_one(5);
    let (mine, others) = (Arc::default(), Arc::default());
    for number in 0..100 {
        assert!(poll_once(receiver.take(), &others).is_pending()); // and dropped
        assert!(poll_once(receiver.recv(&mut [0; 9]), &others).is_pending());
        assert!(poll_once(sender.send([number; 9]), &mine).is_ready());
        assert_eq!(wakes(&others), 1, "no wake-up is lost with a future");
        assert!(poll_once(sender.send([200; 9]), &mine).is_pending());
        assert!(poll_once(sender.reserve(9), &mine).is_pending());
        let too_small = Poll::Ready(Err(RecvError::TooSmall { needed: 9 }));
        assert_eq!(poll_once(receiver.recv(&mut [0; 8]), &others), too_small);
        let Poll::Ready(Ok(message)) = poll_once(receiver.take(), &others) else {
            panic!("no message {number}");
        };
        assert_eq!(*message, [number; 9]);
        drop(message);
        assert_eq!(wakes(&mine), 1);
    }
    let Poll::Ready(Ok(reserved)) = poll_once(sender.reserve(9), &mine) else {
        panic!("there is room");
    };
    drop(reserved); // aborted
    assert!(poll_once(receiver.take(), &others).is_pending());
    assert_eq!(sender.get_mut().stats().messages, 100);
    assert_eq!(receiver.get_mut().stats().messages, 100);
}

/// Message `number` of a run.
fn text(number: u64) -> Vec<u8> {
    vec![number as u8; number as usize * 13 % 40]
}

#[cfg(not(forebay_one_view))] // ThreadSanitizer does not see the locks of the runtime
#[test]
fn the_only_sender_and_receiver_pass_every_message_in_order_between_tasks_and_threads() {
    let count = times(20_000, 300) as u64;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    for (sends_in_task, receives_in_task) in [(true, true), (true, false), (false, true)] {
        let (mut sender, mut receiver) = one_to_one(10);
        let sending = async move {
            for number in 0..count {
                if !sends_in_task {
                    sender.get_mut().send(text(number)).unwrap();
                } else if number % 3 == 0 {
                    // Dropped if it does not become ready, and tried again.
                    while timeout(SHORT, sender.send(text(number))).await.is_err() {}
                } else {
                    sender.send(text(number)).await.unwrap();
                }
            }
        };
        let receiving = async move {
            let mut number = 0;
            loop {
                let taken = match receives_in_task {
                    false => Ok(receiver.get_mut().take()),
                    true => timeout(SHORT, receiver.take()).await,
                };
                match taken {
                    Ok(Ok(message)) => {
                        tokio::task::yield_now().await; // a task may keep a message while it awaits
                        assert_eq!(*message, text(number));
                        number += 1;
                    }
                    Ok(Err(_)) => break number,
                    Err(_) => {} // dropped
                }
            }
        };
        // An end that blocks has a separate thread.
        let handle = runtime.handle();
        let sending = match sends_in_task {
            true => runtime.spawn(sending),
            false => runtime.spawn_blocking({
                let handle = handle.clone();
                move || handle.block_on(sending)
            }),
        };
        let receiving = match receives_in_task {
            true => runtime.spawn(receiving),
            false => runtime.spawn_blocking({
                let handle = handle.clone();
                move || handle.block_on(receiving)
            }),
        };
        assert_eq!(runtime.block_on(receiving).unwrap(), count);
        runtime.block_on(sending).unwrap();
    }
}
