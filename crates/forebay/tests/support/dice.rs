//! Numbers for tests that look random and are not: the seed says which, so that a failure repeats. The tests of all crates
//! roll these.
#![allow(dead_code)] // each test program uses a part

use std::{thread, time::Duration};

/// SplitMix64, for which any seed will do, 0 and neighbours included.
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

    /// Holds this thread up now and then: of so many calls one sleeps, and 19 give the processor to others.
    pub fn stall(&mut self, calls: u64) {
        match self.below(calls) {
            0 => thread::sleep(Duration::from_micros(50)),
            1..20 => thread::yield_now(),
            _ => {}
        }
    }
}

/// Bytes that are the same in every run and in no two places, the first ones of any longer noise.
pub fn noise(len: usize) -> Vec<u8> {
    Dice(0).bytes(len)
}
