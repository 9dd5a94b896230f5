//! A time limit that costs nothing until a call has to wait.
//!
//! Reading the clock takes as long as sending a message, so the limit starts with the first wait.

use std::{
    cell::Cell,
    sync::Mutex,
    time::{Duration, Instant},
};

/// How long a call that may not wait itself still waits for a lock: the lock's holder may be preempted.
#[cfg(not(loom))]
const MOMENT: Duration = Duration::from_millis(10);

/// The limit with which a thread of a model gives up waiting for a lock, too. With any other it waits until it gets the lock:
/// a model has no clock, and its threads always release their locks.
#[cfg(loom)]
pub(super) const HASTY: Duration = Duration::from_nanos(1);

/// How long one call may wait.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    /// `None`: no limit.
    limit: Option<Duration>,
    begun: Cell<Option<Instant>>,
}

impl Limit {
    /// `None`: no limit; zero: do not wait.
    pub(super) fn new(limit: Option<Duration>) -> Limit {
        Limit {
            limit,
            begun: Cell::new(None),
        }
    }

    /// The time left: `None` without a limit, zero once it has expired.
    pub(super) fn left(&self) -> Option<Duration> {
        let limit = self.limit?;
        if limit.is_zero() {
            return Some(limit);
        }
        let now = Instant::now();
        let begun = self.begun.get().unwrap_or(now);
        self.begun.set(Some(begun));
        Some(limit.saturating_sub(now - begun))
    }

    /// Whether no time is left.
    pub(super) fn is_over(&self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// This limit, or a moment from now if that is later. Used for locks.
    pub(super) fn or_a_moment(&self) -> Limit {
        #[cfg(loom)]
        return Limit::new((self.limit == Some(HASTY)).then_some(Duration::ZERO));
        #[cfg(not(loom))]
        Limit::new(self.left().map(|left| left.max(MOMENT)))
    }
}

/// The time at which something was last done.
#[derive(Debug)]
pub(super) struct LastTime(Mutex<Instant>);

impl Default for LastTime {
    fn default() -> LastTime {
        LastTime(Mutex::new(Instant::now()))
    }
}

impl LastTime {
    /// Whether that time is more than `time` ago. If so, sets it to now. Of several threads, only one gets true.
    pub(super) fn is_over_a(&self, time: Duration) -> bool {
        if cfg!(loom) {
            return true; // a model has no clock
        }
        let Ok(mut last) = self.0.try_lock() else {
            return false;
        };
        let is_over = last.elapsed() >= time;
        if is_over {
            *last = Instant::now();
        }
        is_over
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_limit_begins_with_the_first_wait_and_ends() {
        let limit = Limit::new(Some(Duration::from_millis(1)));
        assert_eq!(limit.left(), Some(Duration::from_millis(1)));
        while !limit.is_over() {
            std::hint::spin_loop();
        }
        assert!(Limit::new(Some(Duration::ZERO)).is_over());
        assert_eq!(Limit::new(None).left(), None);
    }

    #[test]
    fn a_lock_gets_a_moment_also_where_nothing_is_left() {
        let none = Limit::new(Some(Duration::ZERO));
        assert_eq!(none.or_a_moment().left(), Some(MOMENT));
        assert_eq!(Limit::new(None).or_a_moment().left(), None);
    }
}
