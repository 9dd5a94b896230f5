//! From nanoseconds to the units that a file counts time in.

use crate::port::Resolution;

/// The unit of one interface's times in a file that we write.
///
/// Times that were read at a coarser resolution come back as they were, tick for tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ticks {
    /// One tick is a nanosecond.
    #[default]
    Nanoseconds,
    /// One tick is so many nanoseconds.
    Decimal(u32),
    /// One tick is 2⁻ⁿ seconds, `n` at most 29.
    Binary(u8),
}

impl Ticks {
    /// The unit for this resolution; what is finer than a nanosecond is not known to us.
    pub fn of(resolution: Resolution) -> Ticks {
        let Resolution(byte) = resolution;
        match (byte & 0x80 != 0, byte & 0x7f) {
            (false, n @ 0..=8) => Ticks::Decimal(10_u32.pow(9 - n as u32)),
            (true, n @ 0..=29) => Ticks::Binary(n),
            _ => Ticks::Nanoseconds,
        }
    }

    /// As the byte of `if_tsresol`.
    pub fn resolution(self) -> Resolution {
        match self {
            Ticks::Nanoseconds => Resolution::NANOSECONDS,
            Ticks::Decimal(factor) => Resolution(9 - factor.ilog10() as u8),
            Ticks::Binary(n) => Resolution(0x80 | n),
        }
    }

    /// How many make a second.
    pub fn per_second(self) -> u64 {
        match self {
            Ticks::Nanoseconds => 1_000_000_000,
            Ticks::Decimal(factor) => 1_000_000_000 / factor as u64,
            Ticks::Binary(n) => 1 << n,
        }
    }

    /// A time in these units: the tick that it was read from, or else the last one begun.
    #[inline]
    pub fn count(&self, ns: u64) -> u64 {
        match self {
            Ticks::Nanoseconds => ns,
            _ => self.coarse(ns),
        }
    }

    #[cold]
    fn coarse(&self, ns: u64) -> u64 {
        match *self {
            Ticks::Nanoseconds => ns,
            Ticks::Decimal(factor) => ns / factor as u64,
            // Reading rounded down to whole nanoseconds, so writing rounds up to the tick above.
            Ticks::Binary(n) => ((ns as u128) << n).div_ceil(1_000_000_000) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_tick_for_tick() {
        let ticks = [0, 1, 2, 3, 999, 1_000_003, 0xffff_ffff];
        for n in 0..=29 {
            let unit = Ticks::of(Resolution(0x80 | n));
            assert_eq!(unit.resolution(), Resolution(0x80 | n));
            for tick in ticks {
                let read = (tick as u128 * 1_000_000_000) >> n;
                assert_eq!(unit.count(read as u64), tick, "2^-{n}");
            }
        }
        for n in 0..=9 {
            let unit = Ticks::of(Resolution(n));
            assert_eq!(unit.resolution(), Resolution(n));
            for tick in ticks {
                let read = tick * 10_u64.pow(9 - n as u32);
                assert_eq!(unit.count(read), tick, "10^-{n}");
            }
        }
    }

    #[test]
    fn what_is_finer_than_a_nanosecond_is_written_in_nanoseconds() {
        for byte in [10, 12, 127, 0x80 | 30, 0xff] {
            let unit = Ticks::of(Resolution(byte));
            assert_eq!(unit.resolution(), Resolution::NANOSECONDS);
            assert_eq!(unit.count(7), 7);
        }
    }
}
