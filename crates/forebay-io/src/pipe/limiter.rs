//! Limits bytes per second, in chunks of 1/20 second. Pure: times are arguments.
//!
//! ```text
//!   credit  ▁▂▃▄▅▆▇█ take: a chunk ▁▂▃▄▅▆▇█ take …      it grows with the time, and never beyond two chunks:
//!           └─ chunk ─┘                                 no catching up after a long sleep
//! ```

const SECOND_NS: u128 = 1_000_000_000;

/// The number of chunks per second.
const CHUNKS_A_SECOND: u64 = 20;

/// A limit of bytes per second.
#[derive(Clone, Debug)]
pub(super) struct Limiter {
    bytes_per_second: u64,
    /// Sizes are multiples of this, except the last one.
    unit: u64,
    /// The smallest amount worth sending alone: a multiple of the unit.
    chunk: u64,
    /// In byte-nanoseconds: bytes times nanoseconds per second.
    credit: u128,
    /// The time of that credit, in nanoseconds.
    last: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// This many bytes now: 1 or more.
    Bytes(u64),
    /// None before this time, in nanoseconds.
    At(u64),
}

impl Limiter {
    /// `bytes_per_second` and `unit` are 1 or more. The first chunk may go out at `now`.
    pub fn new(bytes_per_second: u64, unit: u64, now: u64) -> Self {
        let twentieth = (bytes_per_second / CHUNKS_A_SECOND).max(1);
        let chunk = twentieth.div_ceil(unit) * unit;
        Limiter {
            bytes_per_second,
            unit,
            chunk,
            credit: u128::from(chunk) * SECOND_NS,
            last: now,
        }
    }

    /// Returns how many of `wanted` bytes (1 or more) may go now. The caller then calls [`spend`](Limiter::spend), or not.
    pub fn ask(&mut self, wanted: u64, now: u64) -> Allowed {
        let elapsed = u128::from(now.saturating_sub(self.last));
        let most = 2 * u128::from(self.chunk) * SECOND_NS;
        self.credit = most.min(self.credit + elapsed * u128::from(self.bytes_per_second));
        self.last = now.max(self.last);
        let needed = u128::from(wanted.min(self.chunk)) * SECOND_NS;
        if self.credit < needed {
            let missing = (needed - self.credit).div_ceil(self.bytes_per_second.into());
            return Allowed::At(self.last.saturating_add(missing as u64));
        }
        let credit = (self.credit / SECOND_NS) as u64;
        Allowed::Bytes(if wanted <= credit {
            wanted
        } else {
            credit - credit % self.unit
        })
    }

    /// Subtracts `bytes`, which were allowed, from the credit.
    pub fn spend(&mut self, bytes: u64) {
        self.credit = self.credit.saturating_sub(u128::from(bytes) * SECOND_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::time::Clock;
    use std::time::Duration;

    /// Moves `total` bytes on a virtual clock, `wanted` at a time. Returns the time, and the sizes of the pieces.
    fn moved(
        limiter: &mut Limiter,
        clock: &Clock,
        total: u64,
        wanted: u64,
    ) -> (Duration, Vec<u64>) {
        let (began, mut left, mut pieces) = (clock.now(), total, Vec::new());
        while left > 0 {
            match limiter.ask(wanted.min(left), clock.now()) {
                Allowed::Bytes(bytes) => {
                    limiter.spend(bytes);
                    left -= bytes;
                    pieces.push(bytes);
                }
                Allowed::At(time) => {
                    assert!(time > clock.now(), "waits forever");
                    clock.sleep_until(time);
                }
            }
        }
        (Duration::from_nanos(clock.now() - began), pieces)
    }

    #[test]
    fn any_rate_is_kept_to_the_chunk() {
        for rate in [1, 7, 999, 10_000, 1 << 20, 3 << 30] {
            for wanted in [1, 100, 1 << 20] {
                let clock = Clock::virtual_time();
                let mut limiter = Limiter::new(rate, 1, 0);
                let total = (rate * 3).clamp(1, 40_000 * wanted);
                let (took, _) = moved(&mut limiter, &clock, total, wanted);
                let chunk = (rate / 20).max(1);
                let ideal = (total.saturating_sub(chunk)) as f64 / rate as f64;
                let took = took.as_secs_f64();
                assert!(took >= ideal - 1e-6, "{rate} {wanted}: {took} {ideal}");
                let slack = total as f64 / rate as f64 + 1e-6 * total as f64;
                assert!(took <= slack, "{rate} {wanted}: {took} {slack}");
            }
        }
    }

    #[test]
    fn after_an_hour_of_sleep_there_is_no_catching_up() {
        let clock = Clock::virtual_time();
        let mut limiter = Limiter::new(2000, 1, 0);
        clock.sleep(Duration::from_secs(3600));
        assert_eq!(limiter.ask(10_000, clock.now()), Allowed::Bytes(200));
    }

    #[test]
    fn blocks_stay_whole_but_for_the_last() {
        let clock = Clock::virtual_time();
        let mut limiter = Limiter::new(10_000, 4096, 0);
        let (took, pieces) = moved(&mut limiter, &clock, 41_000, 41_000);
        let (last, whole) = pieces.split_last().unwrap();
        assert!(whole.iter().all(|piece| piece % 4096 == 0), "{pieces:?}");
        assert_eq!(last % 4096, 41_000 % 4096);
        assert!(took >= Duration::from_millis(3690), "{took:?}");
    }

    #[test]
    fn what_is_not_spent_stays() {
        let mut limiter = Limiter::new(20, 1, 0);
        assert_eq!(limiter.ask(1, 0), Allowed::Bytes(1));
        assert_eq!(limiter.ask(1, 0), Allowed::Bytes(1));
        limiter.spend(1);
        assert_eq!(limiter.ask(1, 0), Allowed::At(50_000_000));
    }
}
