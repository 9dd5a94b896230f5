//! Each element is dropped once, whatever panics or is forgotten.

use super::*;
use forebay_testing::dice::times;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize as Count, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

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
        |consumer| consumer.wait_filled_timeout(1, SHORT).is_err(),
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
