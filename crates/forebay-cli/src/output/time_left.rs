//! Times in progress lines: since the start, and the time left at the recent rate.

use std::{cell::RefCell, collections::VecDeque, time::Duration};

/// The rate is that of the last 10 seconds: what was fast or slow before does not count.
const WINDOW: Duration = Duration::from_secs(10);
/// The shortest time between two points that are kept.
const APART: Duration = Duration::from_millis(250);

/// The share that was done at some times since the start.
#[derive(Debug)]
pub struct TimeLeft(RefCell<VecDeque<(Duration, f64)>>);

impl Default for TimeLeft {
    fn default() -> Self {
        TimeLeft::beginning_at(0.0)
    }
}

impl TimeLeft {
    /// This share was done before.
    pub fn beginning_at(done: f64) -> Self {
        TimeLeft(RefCell::new([(Duration::ZERO, done)].into()))
    }

    /// `ETA 0:00:43` when this share is done after this time, or dashes while the rate is unknown or 0.
    pub fn text(&self, done: f64, elapsed: Duration) -> String {
        let points = &mut *self.0.borrow_mut();
        // Another file may have begun.
        if points.back().is_some_and(|point| point.1 > done) {
            points.clear();
        }
        if points.back().is_none_or(|point| point.0 + APART <= elapsed) {
            points.push_back((elapsed, done));
        }
        while points
            .get(1)
            .is_some_and(|point| point.0 + WINDOW <= elapsed)
        {
            points.pop_front();
        }
        let (since, before) = points.front().copied().unwrap_or_default();
        let seconds = elapsed.saturating_sub(since).as_secs_f64();
        match Duration::try_from_secs_f64(seconds / (done - before) * (1.0 - done)) {
            Ok(left) if left < Duration::from_secs(360_000) => format!("ETA {}", clock(left)),
            _ => "ETA -:--:--".into(),
        }
    }
}

/// `0:00:31`, `25:01:02`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!(
        "{}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(left: &TimeLeft, seconds: f64, done: f64) -> String {
        left.text(done, Duration::from_secs_f64(seconds))
    }

    #[test]
    fn after_a_fast_start_the_recent_rate_counts() {
        let left = TimeLeft::default();
        assert_eq!(at(&left, 0.0, 0.0), "ETA -:--:--");
        assert_eq!(at(&left, 1.0, 0.5), "ETA 0:00:01");
        // From here on, 0.25 % a second: 200 s are left.
        let mut last = String::new();
        for tenths in 10..=200 {
            let seconds = f64::from(tenths) / 10.0;
            last = at(&left, seconds, 0.5 + (seconds - 1.0) * 0.0025);
        }
        assert_eq!(last, "ETA 0:03:01");
        assert!(left.0.borrow().len() <= 42);
    }

    #[test]
    fn while_nothing_moves_the_time_left_is_unknown() {
        let left = TimeLeft::default();
        assert_eq!(at(&left, 5.0, 0.5), "ETA 0:00:05");
        assert_eq!(at(&left, 10.0, 0.5), "ETA 0:00:10");
        assert_eq!(at(&left, 16.0, 0.5), "ETA -:--:--");
        assert_eq!(at(&left, 26.0, 1.0), "ETA 0:00:00");
    }

    #[test]
    fn the_next_file_has_a_rate_of_its_own() {
        let left = TimeLeft::default();
        at(&left, 100.0, 0.9);
        at(&left, 101.0, 0.1);
        assert_eq!(at(&left, 102.0, 0.2), "ETA 0:00:08");
    }
}
