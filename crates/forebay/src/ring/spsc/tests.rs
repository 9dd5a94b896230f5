//! The ring against a `VecDeque`, with elements of every kind, in one thread and in two.

use super::*;
use crate::sync::{Block, Eventfd, Spin};
use forebay_testing::dice::{Dice, times};
use proptest::prelude::*;
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize as Count, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

/// One step of either end; numbers are burst lengths.
#[derive(Clone, Debug)]
enum Step {
    Push,
    PushBurst(usize),
    PushSlice(usize),
    Fill(usize),
    /// Reserve the first number of slots, write all of them, commit the second number.
    Commit(usize, usize),
    Pop,
    PopSlice(usize),
    Release(usize, usize),
    Drain(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let n = || 0_usize..40;
    prop_oneof![
        Just(Step::Push),
        n().prop_map(Step::PushBurst),
        n().prop_map(Step::PushSlice),
        n().prop_map(Step::Fill),
        (n(), n()).prop_map(|(n, k)| Step::Commit(n, k)),
        Just(Step::Pop),
        n().prop_map(Step::PopSlice),
        (n(), n()).prop_map(|(n, k)| Step::Release(n, k)),
        (n(), n()).prop_map(|(n, k)| Step::Drain(n, k)),
    ]
}

/// Runs the ring and the oracle through the same steps; `make` converts a number to an element.
fn agrees_with_the_oracle<T, W>(capacity: usize, steps: &[Step], make: impl Fn(u64) -> T)
where
    T: Copy + Send + PartialEq + std::fmt::Debug,
    W: Wait,
{
    let config = RingConfig {
        capacity,
        ..RingConfig::default()
    };
    let (mut producer, mut consumer) = ring_with::<T, W>(&config).unwrap();
    let mut oracle = VecDeque::new();
    let mut number = 0;
    let mut next = |oracle: &mut VecDeque<T>| {
        let value = make(number);
        number += 1;
        oracle.push_back(value);
        value
    };
    for step in steps {
        let vacant = capacity - oracle.len();
        match *step {
            Step::Push if vacant == 0 => assert!(producer.try_push(make(0)).is_err()),
            Step::Push => producer.try_push(next(&mut oracle)).unwrap(),
            Step::PushBurst(n) => {
                let k = n.min(vacant);
                let values: Vec<T> = (0..k).map(|_| next(&mut oracle)).collect();
                let mut source = values.iter().copied().chain((k..n).map(|_| make(0)));
                assert_eq!(producer.push_burst(&mut source), k);
                assert_eq!(source.count(), n - k);
            }
            Step::PushSlice(n) => {
                let mut values: Vec<T> = (0..n.min(vacant)).map(|_| next(&mut oracle)).collect();
                values.resize(n, make(0));
                assert_eq!(producer.push_slice(&values), n.min(vacant));
            }
            Step::Fill(n) => {
                let reserved = producer.reserve(n);
                assert!(reserved.len() <= n.min(vacant));
                assert_eq!(reserved.is_empty(), n.min(vacant) == 0);
                let len = reserved.len();
                assert_eq!(
                    reserved.fill(std::iter::repeat_with(|| next(&mut oracle))),
                    len
                );
            }
            Step::Commit(n, k) => {
                let mut reserved = producer.reserve(n);
                let k = k.min(reserved.len());
                for (i, slot) in reserved.as_uninit().iter_mut().enumerate() {
                    slot.write(if i < k {
                        next(&mut oracle)
                    } else {
                        make(u64::MAX)
                    });
                }
                // SAFETY: all slots were written just above.
                unsafe { reserved.commit(k) };
            }
            Step::Pop => assert_eq!(consumer.try_pop().ok(), oracle.pop_front()),
            Step::PopSlice(n) => {
                let mut target = vec![make(0); n];
                let popped = consumer.pop_slice(&mut target);
                assert_eq!(popped, n.min(oracle.len()));
                assert!(target[..popped].iter().copied().eq(oracle.drain(..popped)));
            }
            Step::Release(n, k) => {
                let burst = consumer.peek(n);
                assert!(burst.len() <= n && burst.is_empty() == (n.min(oracle.len()) == 0));
                assert!(burst.iter().eq(oracle.iter().take(burst.len())));
                let k = k.min(burst.len());
                burst.release(k);
                oracle.drain(..k);
            }
            Step::Drain(n, k) => {
                let burst = consumer.peek(n).into_iter();
                let k = k.min(burst.len());
                assert!(burst.take(k).eq(oracle.drain(..k)));
            }
        }
        assert_eq!(consumer.len(), oracle.len());
        assert_eq!(producer.vacant(), capacity - oracle.len());
    }
}

/// An element of `N` bytes that all depend on the number.
fn bytes<const N: usize>(number: u64) -> [u8; N] {
    std::array::from_fn(|i| (number as u8).wrapping_add(i as u8))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(times(128, 1)))]

    #[test]
    fn words_agree_with_the_oracle(capacity in 1_usize..30, steps in prop::collection::vec(step(), 1..times(200, 30))) {
        agrees_with_the_oracle::<u64, Spin>(capacity, &steps, |number| number);
    }

    #[test]
    fn words_that_cross_the_seam_agree_with_the_oracle(
        capacity in 490_usize..515,
        steps in prop::collection::vec(step(), 1..times(300, 40)),
    ) {
        agrees_with_the_oracle::<u64, Spin>(capacity, &steps, |number| number);
    }

    #[test]
    fn three_bytes_agree_with_the_oracle(capacity in 1_usize..1500, steps in prop::collection::vec(step(), 1..times(200, 30))) {
        agrees_with_the_oracle::<[u8; 3], Park>(capacity, &steps, bytes);
    }

    #[test]
    fn elements_larger_than_a_page_agree_with_the_oracle(
        capacity in 1_usize..6,
        steps in prop::collection::vec(step(), 1..times(100, 4)),
    ) {
        agrees_with_the_oracle::<[u8; 4104], Spin>(capacity, &steps, bytes);
    }

    #[test]
    fn elements_without_a_size_agree_with_the_oracle(
        capacity in 1_usize..30,
        steps in prop::collection::vec(step(), 1..times(200, 30)),
    ) {
        agrees_with_the_oracle::<(), Spin>(capacity, &steps, |_| ());
    }
}

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

/// Records its drops in a list and panics on request.
struct Fragile<'a> {
    number: usize,
    drops: &'a Mutex<Vec<usize>>,
    panics: bool,
}

impl Drop for Fragile<'_> {
    fn drop(&mut self) {
        self.drops
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
            .push(self.number);
        assert!(!self.panics || thread::panicking(), "a planted panic");
    }
}

fn fragile(
    drops: &Mutex<Vec<usize>>,
    numbers: std::ops::Range<usize>,
    bad: usize,
) -> impl Iterator<Item = Fragile<'_>> {
    numbers.map(move |number| Fragile {
        number,
        drops,
        panics: number == bad,
    })
}

fn sorted(drops: &Mutex<Vec<usize>>) -> Vec<usize> {
    let mut numbers = drops
        .lock()
        .unwrap_or_else(|poison| poison.into_inner())
        .clone();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_panicking_drop_in_release_drops_the_others_and_gives_the_slots_back() {
    let drops = Mutex::default();
    let (mut producer, mut consumer) = ring(8).unwrap();
    producer.push_burst(&mut fragile(&drops, 0..8, 2));
    catch_unwind(AssertUnwindSafe(|| consumer.peek(8).release(5))).unwrap_err();
    assert_eq!(sorted(&drops), [0, 1, 2, 3, 4]);
    assert_eq!((producer.vacant(), consumer.len()), (5, 3));
    drop((producer, consumer));
    assert_eq!(sorted(&drops), (0..8).collect::<Vec<_>>());
}

#[test]
fn a_panicking_drop_of_what_is_left_drops_the_others_once() {
    for first in [0, 5] {
        let drops = Mutex::default();
        let (mut producer, mut consumer) = ring(8).unwrap();
        producer.push_burst(&mut fragile(&drops, 0..first, usize::MAX));
        consumer.peek(8).release(first);
        producer.push_burst(&mut fragile(&drops, first..first + 8, first + 1));
        drop(consumer);
        catch_unwind(AssertUnwindSafe(|| drop(producer))).unwrap_err();
        assert_eq!(sorted(&drops), (0..first + 8).collect::<Vec<_>>());
    }
}

#[test]
fn an_end_whose_wake_panics_leaves_nothing_behind() {
    struct Panics;
    impl Wait for Panics {
        fn new() -> crate::Result<Self> {
            Ok(Panics)
        }
        fn wake(&self) {
            panic!("a planted panic");
        }
        fn wait(&self, _deadline: Option<Instant>, ready: &mut dyn FnMut() -> bool) -> bool {
            ready()
        }
    }
    let drops = Mutex::default();
    let config = RingConfig {
        capacity: 4,
        ..RingConfig::default()
    };
    let (mut producer, consumer) = ring_with::<_, Panics>(&config).unwrap();
    let mut source = fragile(&drops, 0..3, usize::MAX);
    catch_unwind(AssertUnwindSafe(|| producer.push_burst(&mut source))).unwrap_err();
    catch_unwind(AssertUnwindSafe(|| drop(consumer))).unwrap_err();
    catch_unwind(AssertUnwindSafe(|| drop(producer))).unwrap_err();
    drop(source);
    assert_eq!(sorted(&drops), [0, 1, 2]);
}

#[test]
fn a_source_that_panics_has_published_what_it_gave() {
    let (mut producer, mut consumer) = ring(8).unwrap();
    let mut source = (0..8).inspect(|&i| assert!(i < 3, "a planted panic"));
    catch_unwind(AssertUnwindSafe(|| producer.push_burst(&mut source))).unwrap_err();
    assert_eq!(*consumer.peek(8), [0, 1, 2]);
}

#[test]
fn a_forgotten_drain_moves_no_element_out_twice() {
    let drops = Mutex::default();
    let (mut producer, mut consumer) = ring(4).unwrap();
    producer.push_burst(&mut fragile(&drops, 0..4, usize::MAX));
    let mut drain = consumer.peek(4).into_iter();
    drop(drain.next());
    std::mem::forget(drain);
    assert_eq!(producer.vacant(), 0);
    assert_eq!(consumer.try_pop().map(|element| element.number), Ok(1));
    assert_eq!(producer.vacant(), 2);
    drop((producer, consumer));
    assert_eq!(sorted(&drops), [0, 1, 2, 3]);
}

/// A ring in the middle of its memory, whose consumer has forgotten a drain after it returned `taken` of 8 elements.
fn with_a_forgotten_drain(
    drops: &Mutex<Vec<usize>>,
    taken: usize,
) -> (Producer<Fragile<'_>>, Consumer<Fragile<'_>>) {
    let (mut producer, mut consumer) = ring(8).unwrap();
    for number in 0..5 {
        producer.push_burst(&mut fragile(drops, number..number + 1, usize::MAX));
        drop(consumer.try_pop());
    }
    producer.push_burst(&mut fragile(drops, 5..13, usize::MAX));
    let mut drain = consumer.peek(8).into_iter();
    let mut left = taken;
    while left > 0 {
        let Some(element) = drain.next() else {
            std::mem::forget(drain); // one view: the burst ended at the seam
            drain = consumer.peek(8).into_iter();
            continue;
        };
        drop(element);
        left -= 1;
    }
    std::mem::forget(drain);
    (producer, consumer)
}

#[test]
fn what_a_forgotten_drain_gave_is_dropped_once_whichever_end_goes_first() {
    for taken in 0..=8 {
        for producer_first in [true, false] {
            let drops = Mutex::default();
            let (producer, consumer) = with_a_forgotten_drain(&drops, taken);
            if producer_first {
                drop(producer);
                drop(consumer);
            } else {
                drop(consumer);
                drop(producer);
            }
            let all: Vec<_> = (0..13).collect();
            assert_eq!(sorted(&drops), all, "{taken} taken");
        }
    }
}

#[test]
fn a_consumer_that_finds_nothing_more_gives_back_what_a_forgotten_drain_took() {
    let drops = Mutex::default();
    const SHORT: Duration = Duration::from_micros(1);
    type Find<'a> = fn(&mut Consumer<Fragile<'a>>) -> bool;
    let ways: [Find<'_>; 6] = [
        |consumer| consumer.try_pop().is_err(),
        |consumer| consumer.try_iter().next().is_none(),
        |consumer| consumer.peek(1).is_empty(),
        |consumer| consumer.peek_all().is_empty(),
        |consumer| consumer.wait_filled_timeout(1, SHORT) == 0,
        |consumer| consumer.pop_timeout(SHORT).is_err(),
    ];
    for finds_nothing in ways {
        let (producer, mut consumer) = with_a_forgotten_drain(&drops, 8);
        assert_eq!((producer.vacant(), consumer.len()), (0, 0));
        assert!(finds_nothing(&mut consumer));
        assert_eq!(producer.vacant(), 8);
    }
}

#[test]
#[allow(clippy::forget_non_drop)] // the test is that they need no Drop
fn forgotten_bursts_change_nothing() {
    let drops = Mutex::default();
    let (mut producer, mut consumer) = ring(8).unwrap();
    producer.push_burst(&mut fragile(&drops, 0..3, usize::MAX));
    std::mem::forget(producer.reserve(4));
    std::mem::forget(consumer.peek(2));
    assert_eq!((producer.vacant(), consumer.len()), (5, 3));
    producer.push_burst(&mut fragile(&drops, 3..5, usize::MAX));
    assert_eq!(consumer.try_pop().map(|element| element.number), Ok(0));
    drop((consumer, producer));
    assert_eq!(sorted(&drops), [0, 1, 2, 3, 4]);
}

#[test]
fn a_consumer_reads_on_over_the_seam_and_leaves_what_is_left_there_whole() {
    // 24 bytes, a size that crosses the seam: three pages hold 512. And 16 bytes: a page holds 256.
    fn through<const EXTRA: usize>(capacity: usize) {
        struct Large<'a, const EXTRA: usize>(Fragile<'a>, [u64; EXTRA]);
        let drops = Mutex::default();
        let many = |numbers| {
            let each = fragile(&drops, numbers, usize::MAX);
            each.map(|each| Large(each, [7; EXTRA]))
        };
        let (mut producer, mut consumer) = ring(capacity).unwrap();
        // The second load makes a full capacity known, starting at three quarters; most of it is in the second view.
        let first = capacity / 4 * 3;
        assert_eq!(producer.push_burst(&mut many(0..first)), first);
        consumer.peek(first).release(first);
        assert_eq!(
            producer.push_burst(&mut many(first..first + capacity)),
            capacity
        );
        for number in first..2 * first {
            let popped = consumer.try_pop().unwrap();
            assert_eq!((popped.0.number, popped.1), (number, [7; EXTRA]));
        }
        // The next elements become known from a position there.
        let more = first + capacity..2 * first + capacity;
        assert_eq!(producer.push_burst(&mut many(more)), first);
        assert_eq!(consumer.peek_all().first().unwrap().0.number, 2 * first);
        for number in 2 * first..3 * first {
            assert_eq!(consumer.try_pop().unwrap().0.number, number);
        }
        drop((producer, consumer));
        assert!(sorted(&drops).into_iter().eq(0..2 * first + capacity));
    }
    through::<0>(times(256, 16));
    through::<0>(times(100, 16));
    through::<1>(times(512, 16));
    through::<700>(4);
}

#[test]
fn elements_without_a_size_are_dropped_too() {
    static DROPS: Count = Count::new(0);
    struct Nothing;
    impl Drop for Nothing {
        fn drop(&mut self) {
            DROPS.fetch_add(1, SeqCst);
        }
    }
    let (mut producer, mut consumer) = ring(5).unwrap();
    assert_eq!(
        producer.push_burst(&mut std::iter::repeat_with(|| Nothing)),
        5
    );
    consumer.peek(3).release(2);
    drop(consumer.try_pop());
    drop((producer, consumer));
    assert_eq!(DROPS.load(SeqCst), 5);
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

#[test]
fn an_end_may_be_used_behind_a_caught_panic() {
    fn is_unwind_safe<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    is_unwind_safe::<Producer<u64>>();
    is_unwind_safe::<Consumer<u64>>();
}
