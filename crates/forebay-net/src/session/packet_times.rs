//! The times of packets that are read from files: they decide when a file of a series begins, and when the capture ends.

use super::{
    feed::Lane,
    output::Writing,
    stages::{Stage, Verdict},
};
use crate::port::Frame;

/// A packet before which something is due waits in its source until that is done.
pub(super) struct PacketTimes {
    /// How long the capture lasts.
    stop_after: u64,
    /// The capture ends before a packet of this time; `None`: there was no packet yet.
    stop_at: Option<u64>,
    /// The time of the last packet that passed the filter.
    pub now: Option<u64>,
    is_waiting: bool,
    /// What was due before a packet of this time is done.
    done: Option<u64>,
}

impl PacketTimes {
    pub fn new(stop_after: u64) -> Self {
        PacketTimes {
            stop_after,
            stop_at: None,
            now: None,
            is_waiting: false,
            done: None,
        }
    }

    /// If a packet waits: its time, and whether it is the first one. The caller does what is due.
    pub fn take_waiting(&mut self) -> Option<(u64, bool)> {
        let now = self.now.filter(|_| self.is_waiting)?;
        let is_first = self.stop_at.is_none();
        self.stop_at
            .get_or_insert(now.saturating_add(self.stop_after));
        (self.is_waiting, self.done) = (false, Some(now));
        Some((now, is_first))
    }

    /// Whether a packet of this time is too late for the capture.
    pub fn is_over(&self, now: u64) -> bool {
        self.stop_after < u64::MAX && self.stop_at.is_some_and(|end| now >= end)
    }
}

impl Stage for &mut PacketTimes {
    #[inline]
    fn admit(&mut self, frame: &mut Frame<'_>, _: &Lane, writing: Option<&Writing>) -> Verdict {
        let now = frame.time_ns;
        self.now = Some(now);
        let nothing_is_due = self.stop_at.is_some_and(|end| now < end)
            && writing.is_none_or(|writing| writing.lasts_at(now));
        self.is_waiting = !nothing_is_due && self.done != Some(now);
        match self.is_waiting {
            true => Verdict::FileFull,
            false => Verdict::Take,
        }
    }
}
