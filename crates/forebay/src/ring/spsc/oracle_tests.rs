//! The ring against a `VecDeque`, with elements of every kind.

use super::*;
use crate::sync::Spin;
use forebay_testing::dice::{rounds, times};
use proptest::prelude::*;
use std::collections::VecDeque;
use zerocopy::{FromBytes, IntoBytes};

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
    T: Copy + Send + PartialEq + std::fmt::Debug + FromBytes + IntoBytes,
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
                for (i, slot) in reserved.iter_mut().enumerate() {
                    *slot = if i < k {
                        next(&mut oracle)
                    } else {
                        make(u64::MAX)
                    };
                }
                reserved.commit(k);
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
pub(super) fn bytes<const N: usize>(number: u64) -> [u8; N] {
    std::array::from_fn(|i| (number as u8).wrapping_add(i as u8))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(times(128, 1))))]

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
