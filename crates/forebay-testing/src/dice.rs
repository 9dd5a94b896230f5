//! Pseudo-random numbers for tests: the seed determines them, so a failure is reproducible. The tests of all crates use
//! these.
#![allow(missing_docs)]

use std::{env, ops::Div, thread, time::Duration};

/// How often a test repeats something: `usual` times, but `few` times under Miri, which is about a thousand times slower.
pub const fn times<N: Copy>(usual: N, few: N) -> N {
    if cfg!(miri) { few } else { usual }
}

/// Whether this is `.ci/run` or another place where nothing may be left out: `CI` is set.
pub fn in_ci() -> bool {
    env::var_os("CI").is_some()
}

/// How many of `all` random cases, repetitions or packets a test tries: all of them [in CI](in_ci), and a quarter elsewhere, but at
/// least one. So `cargo test` answers soon.
pub fn rounds<N: Copy + Ord + From<u8> + Div<Output = N>>(all: N) -> N {
    match in_ci() {
        true => all,
        false => (all / 4.into()).max(1.into()),
    }
}

/// SplitMix64. Any seed is good, including 0 and consecutive numbers.
pub struct Dice(pub u64);

impl Dice {
    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// One of `0..end`, of any type of integers.
    pub fn below<N: TryInto<u64> + TryFrom<u64>>(&mut self, end: N) -> N {
        let end = end.try_into().ok().expect("0 or more");
        N::try_from(self.any() % end).ok().expect("less than `end`")
    }

    pub fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    pub fn byte(&mut self) -> u8 {
        self.any() as u8
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.any().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    /// Delays this thread now and then: of `calls` calls, one sleeps and 19 yield, on average.
    pub fn stall(&mut self, calls: u64) {
        match self.below(calls) {
            0 => thread::sleep(Duration::from_micros(50)),
            1..20 => thread::yield_now(),
            _ => {}
        }
    }
}

/// Bytes that look random but are the same in every run. A shorter noise is a prefix of a longer one.
pub fn noise(len: usize) -> Vec<u8> {
    Dice(0).bytes(len)
}
