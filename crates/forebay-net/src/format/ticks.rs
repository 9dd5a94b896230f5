//! Converts nanoseconds to the time unit of a file.

use crate::port::Resolution;

/// The time unit of one interface in a file that we write.
///
/// Times that were read with a coarser resolution are written back exactly, tick for tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ticks {
    /// One tick is a nanosecond.
    #[default]
    Nanoseconds,
    /// One tick is this number of nanoseconds.
    Decimal(u32),
    /// One tick is 2⁻ⁿ seconds, `n` at most 29.
    Binary(u8),
}

impl Ticks {
    /// The unit for this resolution. The finest one is a nanosecond.
    pub fn of(resolution: Resolution) -> Ticks {
        let Resolution(byte) = resolution;
        match (byte & 0x80 != 0, byte & 0x7f) {
            (false, n @ 0..=8) => Ticks::Decimal(10_u32.pow(9 - n as u32)),
            (true, n @ 0..=29) => Ticks::Binary(n),
            _ => Ticks::Nanoseconds,
        }
    }

    /// The value of `if_tsresol`.
    pub fn resolution(self) -> Resolution {
        match self {
            Ticks::Nanoseconds => Resolution::NANOSECONDS,
            Ticks::Decimal(factor) => Resolution(9 - factor.ilog10() as u8),
            Ticks::Binary(n) => Resolution(0x80 | n),
        }
    }

    /// Ticks in one second.
    pub fn per_second(self) -> u64 {
        match self {
            Ticks::Nanoseconds => 1_000_000_000,
            Ticks::Decimal(factor) => 1_000_000_000 / factor as u64,
            Ticks::Binary(n) => 1 << n,
        }
    }

    /// A time in these units, rounded to the tick from which it was read, or else down.
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
            // Reading rounded down to whole nanoseconds, so writing rounds up to the next tick.
            Ticks::Binary(n) => ((ns as u128) << n).div_ceil(1_000_000_000) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_back_tick_for_tick() {
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
    fn finer_units_than_a_nanosecond_are_written_in_nanoseconds() {
        for byte in [10, 12, 127, 0x80 | 30, 0xff] {
            let unit = Ticks::of(Resolution(byte));
            assert_eq!(unit.resolution(), Resolution::NANOSECONDS);
            assert_eq!(unit.count(7), 7);
        }
    }
}
