//! What every ring here does, and ours doing it.

use anyhow::Result;
use forebay::{ring::spsc, sync::Spin};

/// The end that puts numbers in.
pub trait Pushes: Send {
    /// Puts one in; says whether there was room.
    fn push(&mut self, number: u64) -> bool;

    /// Puts in as many as there is room for; returns the number. A ring without bursts does it one by one.
    #[inline(always)]
    fn push_burst(&mut self, numbers: &[u64]) -> usize {
        let is_full = |&number: &u64| !self.push(number);
        numbers.iter().position(is_full).unwrap_or(numbers.len())
    }
}

/// The end that takes numbers out.
pub trait Pops: Send {
    /// Takes the oldest out, if there is one.
    fn pop(&mut self) -> Option<u64>;

    /// Takes out as many as there are and `numbers` has room for; returns the number. A ring without bursts does it one by one.
    #[inline(always)]
    fn pop_burst(&mut self, numbers: &mut [u64]) -> usize {
        for (taken, place) in numbers.iter_mut().enumerate() {
            match self.pop() {
                Some(number) => *place = number,
                None => return taken,
            }
        }
        numbers.len()
    }
}

/// A ring, or a queue, with room for `capacity` numbers of eight bytes.
pub trait Ring {
    /// Its producer.
    type Producer: Pushes;
    /// Its consumer.
    type Consumer: Pops;

    /// Both ends of a new one.
    fn new(capacity: usize) -> Result<(Self::Producer, Self::Consumer)>;
}

/// Ours; `LATENCY` = it never pauses before it looks.
pub struct Forebay<const LATENCY: bool>;

impl<const LATENCY: bool> Ring for Forebay<LATENCY> {
    type Producer = spsc::Producer<u64, Spin>;
    type Consumer = spsc::Consumer<u64, Spin>;

    fn new(capacity: usize) -> Result<(Self::Producer, Self::Consumer)> {
        let config = spsc::RingConfig {
            capacity,
            latency: LATENCY,
            ..spsc::RingConfig::default()
        };
        Ok(spsc::ring_with::<u64, Spin>(&config)?)
    }
}

impl Pushes for spsc::Producer<u64, Spin> {
    #[inline(always)]
    fn push(&mut self, number: u64) -> bool {
        self.try_push(number).is_ok()
    }

    #[inline(always)]
    fn push_burst(&mut self, numbers: &[u64]) -> usize {
        self.push_slice(numbers)
    }
}

impl Pops for spsc::Consumer<u64, Spin> {
    #[inline(always)]
    fn pop(&mut self) -> Option<u64> {
        self.try_pop().ok()
    }

    #[inline(always)]
    fn pop_burst(&mut self, numbers: &mut [u64]) -> usize {
        self.pop_slice(numbers)
    }
}
