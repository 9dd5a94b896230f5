//! When frames arrive: exact integer arithmetic on the bits of the wire.
//!
//! A frame occupies its size plus 20 bytes (preamble, start delimiter, gap) and has arrived when
//! its last bit has. Sizes repeat in a short cycle, so one division gives the bits before frame *k*, for any *k*.
//! Times are rounded up to the nanosecond.

use super::{Rate, Spec, sizes::WIRE_OVERHEAD};

/// Arrival times at a given rate.
pub(super) struct Pace {
    rate: u64,
    /// Bits of the wire before each frame of a cycle, and, last, of the whole cycle.
    bits: Vec<u64>,
}

impl Pace {
    /// `None` for `rate=max`.
    pub fn new(spec: &Spec) -> Option<Self> {
        let Rate::BitsPerSecond(rate) = spec.rate else {
            return None;
        };
        let mut bits = vec![0];
        for size in spec.sizes.cycle(spec.seed) {
            bits.push(bits[bits.len() - 1] + 8 * (size as u64 + WIRE_OVERHEAD));
        }
        Some(Pace { rate, bits })
    }

    fn frames_a_cycle(&self) -> u64 {
        self.bits.len() as u64 - 1
    }

    fn bits_a_cycle(&self) -> u64 {
        self.bits[self.bits.len() - 1]
    }

    /// Bits on the wire up to the end of frame `k`.
    fn bits_through(&self, k: u64) -> u128 {
        let (cycles, within) = (k / self.frames_a_cycle(), k % self.frames_a_cycle());
        cycles as u128 * self.bits_a_cycle() as u128 + self.bits[within as usize + 1] as u128
    }

    /// When frame `k` has arrived, in nanoseconds from the start.
    pub fn arrival(&self, k: u64) -> u64 {
        let ns = (self.bits_through(k) * 1_000_000_000).div_ceil(self.rate as u128);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// How many frames have arrived by `ns`.
    pub fn arrived_at(&self, ns: u64) -> u64 {
        let bits = ns as u128 * self.rate as u128 / 1_000_000_000;
        let cycles = (bits / self.bits_a_cycle() as u128) as u64;
        let rest = (bits % self.bits_a_cycle() as u128) as u64;
        let within = self.bits[1..].partition_point(|&through| through <= rest);
        cycles * self.frames_a_cycle() + within as u64
    }
}

/// Time stamps of frames that are taken mostly in order: an addition for the next one, a division after a gap.
pub(crate) struct Stamps {
    pace: Pace,
    /// Whole nanoseconds and the remainder (of `rate`) that each frame of a cycle takes.
    steps: Vec<(u64, u64)>,
    /// The next frame after `ns` and `rest`, and its place in the cycle.
    next: u64,
    place: usize,
    ns: u64,
    rest: u64,
}

impl Stamps {
    /// `None` for `rate=max`.
    pub fn new(spec: &Spec) -> Option<Self> {
        let pace = Pace::new(spec)?;
        let steps = pace
            .bits
            .windows(2)
            .map(|ends| {
                let scaled = (ends[1] - ends[0]) as u128 * 1_000_000_000;
                let rate = pace.rate as u128;
                ((scaled / rate) as u64, (scaled % rate) as u64)
            })
            .collect();
        Some(Stamps {
            pace,
            steps,
            next: 0,
            place: 0,
            ns: 0,
            rest: 0,
        })
    }

    /// How many frames have arrived by `ns`.
    pub fn arrived_at(&self, ns: u64) -> u64 {
        self.pace.arrived_at(ns)
    }

    /// When frame `k` arrived; equals [`Pace::arrival`].
    #[inline]
    pub fn of(&mut self, k: u64) -> u64 {
        if k != self.next {
            self.jump(k);
        }
        let (ns, rest) = self.steps[self.place];
        self.ns += ns;
        self.rest += rest;
        if self.rest >= self.pace.rate {
            self.rest -= self.pace.rate;
            self.ns += 1;
        }
        self.next += 1;
        self.place += 1;
        if self.place == self.steps.len() {
            self.place = 0;
        }
        self.ns + (self.rest > 0) as u64
    }

    #[cold]
    fn jump(&mut self, k: u64) {
        let before = match k {
            0 => 0,
            k => self.pace.bits_through(k - 1) * 1_000_000_000,
        };
        let rate = self.pace.rate as u128;
        self.ns = (before / rate) as u64;
        self.rest = (before % rate) as u64;
        self.next = k;
        self.place = (k % self.pace.frames_a_cycle()) as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Sizes, *};

    #[test]
    fn gigabit_line_rate_is_a_frame_every_672_ns() {
        let pace = Pace::new(&Spec::default()).unwrap();
        assert_eq!(
            [0, 1, 4_999_999].map(|k| pace.arrival(k)),
            [672, 1344, 3_360_000_000]
        );
        assert_eq!(
            [671, 672, 1343, 1344].map(|t| pace.arrived_at(t)),
            [0, 1, 1, 2]
        );
    }

    #[test]
    fn stamps_agree_with_arrivals_in_order_and_after_gaps() {
        for (sizes, rate) in [
            (Sizes::Fixed(65), 10_000_000_007),
            (Sizes::Imix, 333_333_333),
        ] {
            let spec = Spec {
                sizes,
                seed: 9,
                rate: Rate::BitsPerSecond(rate),
                ..Spec::default()
            };
            let pace = Pace::new(&spec).unwrap();
            let mut stamps = Stamps::new(&spec).unwrap();
            for k in (0..100).chain(5_000_000..5_000_100).chain([3, 4, 0, 1, 1]) {
                assert_eq!(stamps.of(k), pace.arrival(k), "frame {k}");
                assert_eq!(pace.arrived_at(pace.arrival(k)), k + 1);
                assert_eq!(pace.arrived_at(pace.arrival(k) - 1), k);
            }
        }
    }

    #[test]
    fn the_internet_mix_is_seven_four_one_for_every_seed() {
        for seed in 0..20 {
            let mut cycle = Sizes::Imix.cycle(seed);
            cycle.sort();
            assert_eq!(
                cycle,
                [64, 64, 64, 64, 64, 64, 64, 594, 594, 594, 594, 1518]
            );
        }
        assert_ne!(Sizes::Imix.cycle(1), Sizes::Imix.cycle(2));
    }
}
