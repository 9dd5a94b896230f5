//! The end of the time that one call may wait.
//!
//! Reading the clock takes as long as sending a message. A duration therefore starts with the first wait, and a call that does
//! not wait reads no clock.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// How long a call waits for a lock even if it may not wait otherwise: the lock's holder may be preempted.
#[cfg(not(loom))]
const LOCK_WAIT: Duration = Duration::from_millis(10);

/// When a call stops waiting.
#[derive(Clone, Debug)]
pub(crate) struct Deadline(Cell<Until>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    Never,
    /// The call does not wait at all.
    Now,
    /// This long after the first wait.
    After(Duration),
    At(Instant),
    /// The call does not wait, not even for locks. All other threads of a model wait until they get a lock: a model has no
    /// clock, and its threads always release their locks.
    #[cfg(loom)]
    NotEvenForLocks,
}

impl Deadline {
    pub(crate) fn never() -> Deadline {
        Deadline(Cell::new(Until::Never))
    }

    pub(crate) fn now() -> Deadline {
        Deadline(Cell::new(Until::Now))
    }

    /// `None`: never.
    pub(crate) fn after(limit: impl Into<Option<Duration>>) -> Deadline {
        Deadline(Cell::new(limit.into().map_or(Until::Never, Until::After)))
    }

    pub(crate) fn at(end: Instant) -> Deadline {
        Deadline(Cell::new(Until::At(end)))
    }

    #[cfg(all(test, loom))]
    pub(crate) fn not_even_for_locks() -> Deadline {
        Deadline(Cell::new(Until::NotEvenForLocks))
    }

    /// Whether the call may wait, if only for a time that has passed by now.
    pub(crate) fn may_wait(&self) -> bool {
        self.0.get() != Until::Now
    }

    /// The time left: `None` without a limit, zero once it has expired. A duration starts with the first call.
    pub(crate) fn left(&self) -> Option<Duration> {
        match self.0.get() {
            Until::Never => None,
            Until::Now => Some(Duration::ZERO),
            Until::After(Duration::ZERO) => Some(Duration::ZERO),
            Until::After(limit) => {
                // A limit beyond the clock's range is none.
                let end = Instant::now().checked_add(limit);
                self.0.set(end.map_or(Until::Never, Until::At));
                Some(limit)
            }
            Until::At(end) => Some(end.saturating_duration_since(Instant::now())),
            #[cfg(loom)]
            Until::NotEvenForLocks => Some(Duration::ZERO),
        }
    }

    /// The instant at which it expires, if there is one; a duration starts now.
    pub(crate) fn end(&self) -> Option<Instant> {
        let left = self.left();
        match self.0.get() {
            Until::At(end) => Some(end),
            Until::Never => None,
            _ => left.and_then(|left| Instant::now().checked_add(left)),
        }
    }

    /// Whether no time is left.
    pub(crate) fn is_over(&self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// This deadline, or 10 ms from now if that is later.
    pub(crate) fn for_lock(&self) -> Deadline {
        #[cfg(loom)]
        return match self.0.get() {
            Until::NotEvenForLocks => Deadline::now(),
            _ => Deadline::never(),
        };
        #[cfg(not(loom))]
        Deadline::after(self.left().map(|left| left.max(LOCK_WAIT)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_duration_begins_with_the_first_wait_and_ends() {
        let deadline = Deadline::after(Duration::from_millis(1));
        assert_eq!(deadline.left(), Some(Duration::from_millis(1)));
        while !deadline.is_over() {
            std::hint::spin_loop();
        }
        assert!(Deadline::now().is_over() && !Deadline::now().may_wait());
        assert!(Deadline::at(Instant::now()).is_over());
        for endless in [Deadline::never(), Deadline::after(None)] {
            assert_eq!(endless.left(), None);
        }
        let endless = Deadline::after(Duration::MAX);
        assert_eq!(endless.left(), Some(Duration::MAX));
        assert_eq!(endless.left(), None);
    }

    #[test]
    fn a_call_waits_a_moment_for_a_lock_even_if_no_time_is_left() {
        assert_eq!(Deadline::now().for_lock().left(), Some(LOCK_WAIT));
        assert_eq!(Deadline::never().for_lock().left(), None);
    }
}
