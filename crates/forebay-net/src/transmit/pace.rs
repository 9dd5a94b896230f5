//! The pace of a sender: waits until a packet is due, and measures how well that worked.
//!
//! ```text
//!  due   │        │        │        │        │      multiples of 1/rate, or the times of a file
//!  sent  │·        │·       │··      │   ····│      lag: sent − due          gap error: |gap − intended gap|
//!           sleep ──▶│spin│
//! ```
//!
//! Before a packet is due the pace sleeps, and for the last part it spins on the monotonic clock, because a sleeping thread wakes
//! up late. A sender that is late sends without waiting until it has caught up, so the mean rate stays exact. With [`Pace::even`] it
//! does so only for lags above 20 µs: a shorter lag shrinks by 16 ns with each packet. Lags and gap errors show what the mean hides.
//! Measuring takes no memory per packet.

use crate::control::Control;
use forebay::{Result, time::Clock};
use rustix::thread::{current_timer_slack, set_current_timer_slack};
use std::{num::NonZeroU64, time::Duration};

/// How long before a packet is due the pace stops to sleep, by default.
const SPIN: Duration = Duration::from_micros(200);
/// Spins between two checks for a stop.
const SPINS: u32 = 64;
/// How long before a packet is due the pace no longer pauses between two looks at the clock: a pause makes the packet later.
const NO_PAUSE_NS: u64 = 500;

/// A packet that is late by up to this time is not followed by shorter gaps.
const SMALL_LAG_NS: u64 = 20_000;
/// How much a small lag shrinks with each packet.
const SHRINK_NS: u64 = 16;
/// A sender that waits sends a little after the intended time, because it reads the clock in a loop. Up to this time, that is taken from
/// the next gap. Otherwise it would add up: it is more than a lag shrinks.
const OVERSHOOT_NS: u64 = 250;

/// An amount per second, such as packets or bits.
///
/// ```
/// use forebay_net::transmit::Rate;
/// let rate = Rate::per_second(500_000.0).unwrap();
/// assert_eq!((rate.due_ns(1), rate.due_ns(1_000_000)), (2_000, 2_000_000_000));
/// assert_eq!((rate.amount(1_999), rate.amount(2_000)), (0, 1));
/// assert!(Rate::per_second(0.0).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(f64);

impl Rate {
    /// A rate; `None` unless it is above 0 and finite.
    pub fn per_second(amount: f64) -> Option<Rate> {
        (amount > 0.0 && amount.is_finite()).then_some(Rate(amount))
    }

    /// The amount per second.
    pub fn amount_per_second(self) -> f64 {
        self.0
    }

    /// The time from the start, in nanoseconds, at which this amount has been sent. Exact to a nanosecond for 100 days.
    #[inline]
    pub fn due_ns(self, amount: u64) -> u64 {
        (amount as f64 / self.0 * 1e9) as u64
    }

    /// The amount, rounded down, that is due this many nanoseconds after the start.
    #[inline]
    pub fn amount(self, elapsed_ns: u64) -> u64 {
        (elapsed_ns as f64 * self.0 / 1e9 + 1e-6) as u64
    }
}

/// While it exists, the kernel wakes this thread as soon as a sleep ends, and not up to 50 µs later, together with others:
/// `PR_SET_TIMERSLACK` of prctl(2).
struct Punctual {
    slack_ns: Option<NonZeroU64>,
}

impl Punctual {
    /// A system that refuses it wakes the thread later.
    fn new() -> Punctual {
        let slack_ns = current_timer_slack().ok().and_then(NonZeroU64::new);
        if slack_ns.is_some() {
            _ = set_current_timer_slack(Some(NonZeroU64::MIN));
        }
        Punctual { slack_ns }
    }
}

impl Drop for Punctual {
    fn drop(&mut self) {
        if self.slack_ns.is_some() {
            _ = set_current_timer_slack(self.slack_ns);
        }
    }
}

/// Waits until packets are due, and measures lag and gap error. All times are nanoseconds since the start.
///
/// ```
/// use forebay::time::Clock;
/// use forebay_net::{control::Control, transmit::{Pace, Rate}};
/// let (control, rate) = (Control::new()?, Rate::per_second(1000.0).unwrap());
/// let mut pace = Pace::start(Clock::virtual_time());
/// for number in 0..=1000 {
///     let due = rate.due_ns(number);
///     let now = pace.wait(due, &control)?;
///     if control.is_stopping() {
///         break;
///     }
///     pace.sent(due, now); // here a packet would be sent
/// }
/// let report = pace.report();
/// assert_eq!((report.elapsed_ns, report.worst_lag_ns, report.gap_error_ns(0.99)), (1_000_000_000, 0, 0));
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Pace {
    clock: Clock,
    start: u64,
    spin_ns: u64,
    /// When the last packet was due, and when it was sent.
    last: Option<(u64, u64)>,
    /// How long after its intended time the last packet was sent, if that was an overshoot.
    overshoot: u64,
    report: PaceReport,
}

impl Pace {
    /// Starts now.
    pub fn start(clock: Clock) -> Pace {
        Pace {
            start: clock.now(),
            clock,
            spin_ns: SPIN.as_nanos() as u64,
            last: None,
            overshoot: 0,
            report: PaceReport::default(),
        }
    }

    /// Spins for this long before a packet is due; 200 µs by default. With less, packets are later on average; with more, the
    /// processor is busier.
    pub fn spin(mut self, time: Duration) -> Pace {
        self.spin_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self
    }

    /// Nanoseconds since the start.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.now().saturating_sub(self.start)
    }

    /// Waits until `due` and returns the time then. Returns at once if that time has passed. It returns earlier than `due` only if
    /// `control` requests a stop.
    ///
    /// # Errors
    /// The system refuses to wait.
    #[inline]
    pub fn wait(&mut self, due: u64, control: &Control) -> Result<u64> {
        let now = self.now();
        match now >= due {
            true => Ok(now),
            false => self.wait_longer(due, control),
        }
    }

    /// Sleeps until [`wait`](Pace::wait) would begin to spin, and returns the time then. Returns at once if that time has passed.
    /// Callers can use the time that is left until `due`, for work that must not delay a packet.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn sleep(&self, due: u64, control: &Control) -> Result<u64> {
        let spin_from = due.saturating_sub(self.spin_ns);
        let mut now = self.now();
        if self.clock.is_virtual() {
            self.clock.sleep_until(self.start.saturating_add(spin_from));
            return Ok(self.now());
        }
        if now < spin_from {
            let _punctual = Punctual::new();
            while now < spin_from && !control.is_stopping() {
                control.sleep(None, Duration::from_nanos(spin_from - now))?;
                now = self.now();
            }
        }
        Ok(now)
    }

    fn wait_longer(&mut self, due: u64, control: &Control) -> Result<u64> {
        let mut now = self.sleep(due, control)?;
        if self.clock.is_virtual() {
            self.clock.sleep_until(self.start.saturating_add(due));
            return Ok(self.now());
        }
        while now < due {
            for _ in 0..SPINS {
                now = self.now();
                if now >= due {
                    return Ok(now);
                }
                if due - now > NO_PAUSE_NS {
                    std::hint::spin_loop();
                }
            }
            if control.is_stopping() {
                break;
            }
        }
        Ok(now)
    }

    /// When to send a packet that is due at `due`. If the packet before it was up to 20 µs late, the gap between the two is kept, less
    /// 16 ns: so one late packet does not change several gaps, and the lag still shrinks. If the packet before it was sent up to 250 ns
    /// after the time that this returned for it, the gap is less by that time, too. Otherwise the packet is sent when it is due.
    ///
    /// ```
    /// use forebay::time::Clock;
    /// use forebay_net::transmit::Pace;
    /// let mut pace = Pace::start(Clock::virtual_time());
    /// pace.sent(1_000, 1_500); // 500 ns late
    /// assert_eq!(pace.even(3_000), 3_484);
    /// pace.sent(3_000, 93_000); // 90 µs late
    /// assert_eq!(pace.even(5_000), 5_000);
    /// ```
    #[inline]
    pub fn even(&self, due: u64) -> u64 {
        let Some((last_due, last_at)) = self.last.filter(|&it| !is_late(it)) else {
            return due;
        };
        let gap = due.saturating_sub(last_due);
        let gap = gap.saturating_sub(SHRINK_NS + self.overshoot);
        due.max(last_at.saturating_add(gap))
    }

    /// Records that a packet which was due at `due` was handed over at `at`. Call it in the order of sending.
    #[inline]
    pub fn sent(&mut self, due: u64, at: u64) {
        let overshoot = at.saturating_sub(self.even(due));
        self.overshoot = match overshoot <= OVERSHOOT_NS {
            true => overshoot,
            false => 0,
        };
        let report = &mut self.report;
        report.packets += 1;
        report.elapsed_ns = at;
        report.worst_lag_ns = report.worst_lag_ns.max(at.saturating_sub(due));
        if let Some((last_due, last_at)) = self.last.replace((due, at)) {
            let (intended, actual) = (due.saturating_sub(last_due), at.saturating_sub(last_at));
            report.errors.add(intended.abs_diff(actual));
        }
    }

    /// Moves everything that is not sent yet to a later time, after an interruption. Times since the start do not contain it.
    ///
    /// ```
    /// use forebay::time::Clock;
    /// use forebay_net::transmit::Pace;
    /// let clock = Clock::virtual_time();
    /// let mut pace = Pace::start(clock.clone());
    /// clock.sleep(std::time::Duration::from_nanos(700));
    /// pace.postpone(500);
    /// assert_eq!(pace.now(), 200);
    /// ```
    pub fn postpone(&mut self, ns: u64) {
        self.start = self.start.saturating_add(ns).min(self.clock.now());
        (self.last, self.overshoot) = (None, 0); // the gap that was interrupted is not measured
    }

    /// The measurements so far.
    pub fn report(&self) -> &PaceReport {
        &self.report
    }
}

/// Whether the lag is too long to keep gaps.
pub(crate) fn is_late((due, at): (u64, u64)) -> bool {
    at.saturating_sub(due) > SMALL_LAG_NS
}

/// How well a pace was kept.
#[derive(Clone, Debug, Default)]
pub struct PaceReport {
    /// Packets recorded.
    pub packets: u64,
    /// The time of the last packet, in nanoseconds since the start.
    pub elapsed_ns: u64,
    /// The longest time by which a packet was late.
    pub worst_lag_ns: u64,
    errors: Histogram,
}

impl PaceReport {
    /// The gap error in nanoseconds which this share of all gaps, 0 to 1, did not exceed; 0 without gaps. It is exact below 64 ns,
    /// and above that up to 3 % too large.
    pub fn gap_error_ns(&self, share: f64) -> u64 {
        self.errors.percentile(share)
    }
}

/// Steps between two powers of two.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.ilog2();
/// Buckets for all values of 64 bits.
const BUCKETS: usize = (64 - STEP_BITS as usize + 1) * STEPS as usize;

/// Counts values in buckets whose width grows with the value: 32 between two powers of two.
#[derive(Clone, Debug)]
struct Histogram {
    counts: Box<[u64]>,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: vec![0; BUCKETS].into(),
            max: 0,
        }
    }
}

impl Histogram {
    #[inline]
    fn add(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.max = self.max.max(value);
    }

    fn percentile(&self, share: f64) -> u64 {
        let total: u64 = self.counts.iter().sum();
        let rank = ((total as f64 * share).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return largest(bucket).min(self.max);
            }
        }
        0
    }
}

/// The bucket of a value.
#[inline]
fn bucket(value: u64) -> usize {
    let shift = (value | (2 * STEPS - 1)).ilog2() - STEP_BITS;
    // Up to 2 × STEPS the buckets are as wide as 1; from there on the leading bit adds STEPS for each power of two.
    (u64::from(shift) * STEPS + (value >> shift)) as usize
}

/// The largest value of a bucket.
fn largest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    let leading = bucket - shift * STEPS;
    (leading << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_a_bucket_whose_largest_value_is_close() {
        let mut values: Vec<u64> = (0..5000).collect();
        values.extend(
            (12..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + (1 << (bit - 2))]),
        );
        values.push(u64::MAX);
        let mut last = 0;
        values.sort_unstable();
        for value in values {
            let at = bucket(value);
            assert!(at >= last && at < BUCKETS, "{value}: {at} after {last}");
            let top = largest(at);
            assert!(top >= value && top - value <= value / 32, "{value}: {top}");
            last = at;
        }
    }

    #[test]
    fn percentiles_are_those_of_the_recorded_gaps() {
        let mut pace = Pace::start(Clock::virtual_time());
        // A hundred gaps, each too long by its number in nanoseconds.
        let mut at = 0;
        pace.sent(0, 0);
        for number in 1..=100 {
            at += 1000 + number;
            pace.sent(number * 1000, at);
        }
        let report = pace.report();
        assert_eq!((report.packets, report.elapsed_ns), (101, at));
        assert_eq!(report.worst_lag_ns, 100 * 101 / 2);
        assert_eq!(report.gap_error_ns(0.5), 50);
        assert!((99..=102).contains(&report.gap_error_ns(0.99)));
        assert_eq!(report.gap_error_ns(1.0), 100);
        assert_eq!(PaceReport::default().gap_error_ns(0.5), 0);
    }

    #[test]
    fn one_late_packet_changes_one_gap_and_longer_lags_are_caught_up() {
        let mut pace = Pace::start(Clock::virtual_time());
        let mut at = 0;
        for number in 0..=3000 {
            let due = number * 2_000;
            at = pace.even(due).max(at);
            assert!(at >= due, "never early");
            if number == 100 {
                at += 15_000;
            }
            pace.sent(due, at);
        }
        let report = pace.report();
        assert_eq!(
            (report.worst_lag_ns, report.gap_error_ns(0.999)),
            (15_000, SHRINK_NS)
        );
        assert_eq!(
            (report.elapsed_ns, pace.even(6_002_000)),
            (6_000_000, 6_002_000)
        );
        pace.sent(6_002_000, 6_002_000 + SMALL_LAG_NS + 1);
        assert_eq!(pace.even(6_004_000), 6_004_000);
        pace.postpone(0);
        assert_eq!(pace.even(6_006_000), 6_006_000);
    }

    #[test]
    fn a_sender_that_always_overshoots_stays_within_a_short_lag() {
        let mut pace = Pace::start(Clock::virtual_time());
        let (overshoot, mut at) = (60, 0);
        for number in 0..=10_000 {
            let due = number * 10_000;
            at = pace.even(due).max(at) + overshoot;
            pace.sent(due, at);
        }
        let report = pace.report();
        assert!(report.worst_lag_ns <= 2 * overshoot);
        assert!(report.gap_error_ns(0.999) <= SHRINK_NS);
    }

    #[test]
    fn a_stop_ends_a_long_wait() {
        let control = Control::new().unwrap();
        control.stop();
        let mut pace = Pace::start(Clock::real());
        let hour = 3_600_000_000_000;
        assert!(pace.wait(hour, &control).unwrap() < hour);
    }

    #[test]
    fn a_stop_wakes_all_that_sleep_and_another_request_ends_no_wait() {
        let control = Control::new().unwrap();
        let hour = 3_600_000_000_000;
        let waiting = |control: Control| {
            std::thread::spawn(move || Pace::start(Clock::real()).wait(hour, &control).unwrap())
        };
        let both = [waiting(control.clone()), waiting(control.clone())];
        control.report();
        control.stop();
        for waiting in both {
            assert!(waiting.join().unwrap() < hour);
        }
        let millisecond = 1_000_000;
        let other = Control::new().unwrap();
        other.report();
        assert!(
            Pace::start(Clock::real())
                .wait(millisecond, &other)
                .unwrap()
                >= millisecond
        );
    }

    #[test]
    fn amounts_and_times_are_inverse() {
        for per_second in [0.1, 1.0, 3.0, 1000.0, 500_000.0, 14_880_952.0] {
            let rate = Rate::per_second(per_second).unwrap();
            for amount in [0, 1, 2, 3, 999, 1_000_000, 86_400_000] {
                let due = rate.due_ns(amount);
                // Up to a nanosecond of rounding, in which less than one packet is due.
                assert_eq!(rate.amount(due + 1), amount, "{per_second} {amount}");
            }
        }
    }
}
