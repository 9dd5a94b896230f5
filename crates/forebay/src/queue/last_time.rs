//! When something was last done, so that of several threads only one does it again.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

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
    pub(super) fn restart_after(&self, time: Duration) -> bool {
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
