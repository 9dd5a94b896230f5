//! Converts the times of a file to nanoseconds since 1970, for any `if_tsresol` and `if_tsoffset`, without overflow.
//!
//! A time before 1970 becomes 0, and a time after the year 2554 the largest number, so that a packet with a wrong time is not lost.
//! Such packets are [marked](crate::port::Marks). Fractions of a nanosecond are discarded.

use crate::port::Resolution;

const NS_A_SECOND: u64 = 1_000_000_000;

/// The time unit and offset of one interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Nanoseconds in a tick, if that is a whole number and there is no offset; otherwise 0.
    factor: u64,
    resolution: Resolution,
    offset_seconds: i64,
}

impl Times {
    pub fn new(resolution: Resolution, offset_seconds: i64) -> Self {
        let plain = resolution.0 <= 9 && offset_seconds == 0;
        Times {
            factor: if plain {
                10_u64.pow(9 - resolution.0 as u32)
            } else {
                0
            },
            resolution,
            offset_seconds,
        }
    }

    #[inline]
    pub fn ns(&self, ticks: u64) -> u64 {
        if self.factor != 0 {
            return ticks.saturating_mul(self.factor);
        }
        self.rare(ticks)
    }

    /// The fast path: the time of these ticks, if ticks are whole nanoseconds without an offset, and 64 bits hold it.
    #[inline(always)]
    pub fn exact_ns(&self, ticks: u64) -> Option<u64> {
        match self.factor {
            0 => None,
            factor => ticks.checked_mul(factor),
        }
    }

    /// Whether the time of these ticks is before 1970 or after the year 2554.
    #[cold]
    pub fn is_beyond(&self, ticks: u64) -> bool {
        match self.factor {
            0 => u64::try_from(self.whole(ticks)).is_err(),
            factor => ticks.checked_mul(factor).is_none(),
        }
    }

    #[cold]
    fn rare(&self, ticks: u64) -> u64 {
        self.whole(ticks).clamp(0, u64::MAX as i128) as u64
    }

    /// The time without limits.
    fn whole(&self, ticks: u64) -> i128 {
        let n = (self.resolution.0 & 0x7f) as u32;
        let ticks = ticks as u128;
        let ns = if self.resolution.0 & 0x80 != 0 {
            // Below 2⁹⁴, so the multiplication does not overflow.
            (ticks * NS_A_SECOND as u128) >> n
        } else if n <= 9 {
            ticks * 10_u128.pow(9 - n)
        } else {
            // 10³⁸ is the largest power that fits; ticks are below 10²⁰.
            10_u128.checked_pow(n - 9).map_or(0, |units| ticks / units)
        };
        let offset = self.offset_seconds as i128 * NS_A_SECOND as i128;
        ns as i128 + offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resolution_and_offset_is_converted_without_overflow() {
        for byte in 0..=255 {
            for offset in [0, 1, -1, i64::MAX, i64::MIN] {
                for ticks in [0, 1, u64::MAX] {
                    Times::new(Resolution(byte), offset).ns(ticks);
                }
            }
        }
    }

    #[test]
    fn one_second_is_one_second_at_every_resolution_that_can_hold_it() {
        for n in 0..=19 {
            assert_eq!(
                Times::new(Resolution(n), 0).ns(10_u64.pow(n as u32)),
                NS_A_SECOND
            );
        }
        for n in 0..=63 {
            assert_eq!(Times::new(Resolution(0x80 | n), 0).ns(1 << n), NS_A_SECOND);
        }
        assert_eq!(Times::new(Resolution(6), -1).ns(1_500_000), 500_000_000);
        assert_eq!(Times::new(Resolution(6), -2).ns(1_500_000), 0);
        assert_eq!(Times::new(Resolution(0), 0).ns(u64::MAX), u64::MAX);
    }
}
