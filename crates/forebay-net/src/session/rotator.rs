//! Switches to the next file of a series: when it is due, when the present one is full, or on request.

use super::{feed::Feed, output::Writing};
use crate::{format::Described, port::Statistics};
use forebay::{Result, time::Clock};

/// The time span of the present file.
pub(super) struct Rotator {
    clock: Clock,
    /// The time of the first packet of this file.
    pub first_ns: Option<u64>,
    /// The wall-clock time at which this file began.
    began: u64,
    /// Files are read, so their packets' times decide, not the clock.
    reads_files: bool,
    /// The time of the last packet of these files.
    pub packet_ns: Option<u64>,
    /// The duration of the last permitted file has elapsed.
    pub is_time_up: bool,
}

impl Rotator {
    pub fn new(clock: Clock, reads_files: bool) -> Self {
        Rotator {
            reads_files,
            packet_ns: None,
            first_ns: None,
            began: clock.wall(clock.now()),
            is_time_up: false,
            clock,
        }
    }

    /// Sets the time at which the files begin.
    pub fn begin(&mut self, now: u64) {
        self.began = self.clock.wall(now);
    }

    /// Ends this file and begins the next one. `false`: the output has no room for that yet.
    pub fn next_file(
        &mut self,
        feeds: &mut [Feed],
        writing: &mut Writing,
        by_time: bool,
    ) -> Result<bool> {
        let now = self.clock.now();
        let end = self.clock.wall(now);
        let begin = self.span_began();
        (self.first_ns, self.began) = (None, end);
        let of_feed = |feed: &mut Feed| feed.share(begin, end);
        let shares: Vec<_> = feeds.iter_mut().flat_map(of_feed).collect();
        let times = match self.packet_ns {
            Some(time_ns) => (time_ns, time_ns),
            None => (now, self.clock.wall_now()),
        };
        writing.next_file(&shares, times, by_time)?;
        writing.settle()
    }

    /// Switches to the next file if it is due, or if `is_asked`.
    pub fn next_file_if_due(
        &mut self,
        feeds: &mut [Feed],
        writing: &mut Writing,
        now: u64,
        is_asked: bool,
    ) -> Result<()> {
        let is_never_due = self.reads_files && (!is_asked || self.packet_ns.is_none());
        if writing.is_between_files() || is_never_due {
            return Ok(());
        }
        let allows_another = writing.allows_another();
        let Some(series) = &mut writing.series else {
            return Ok(());
        };
        if !is_asked && !series.is_due(now, &self.clock) {
            return Ok(());
        }
        if allows_another {
            return self.next_file(feeds, writing, true).map(drop);
        }
        self.is_time_up |= !series.allows_another();
        series.postpone(now, &self.clock);
        Ok(())
    }

    /// Does what is due before a packet of a file, which has this time. `None`: the capture ends before it; `false`: the output
    /// has no room for the next file yet.
    pub fn reach_packet(
        &mut self,
        feeds: &mut [Feed],
        writing: &mut Writing,
        (time_ns, is_first): (u64, bool),
    ) -> Result<Option<bool>> {
        let allows_another = writing.allows_another();
        let Some(series) = &mut writing.series else {
            return Ok(Some(true));
        };
        if is_first {
            series.begin_at(time_ns)?;
        } else if series.is_due_at(time_ns) {
            if allows_another {
                return self.next_file(feeds, writing, true).map(Some);
            }
            return Ok(series.allows_another().then_some(true));
        }
        Ok(Some(true))
    }

    /// The time at which the next file is due, if the clock decides.
    pub fn due_at(&self, writing: &Writing, now: u64) -> Option<u64> {
        let series = writing.series.as_ref().filter(|_| !self.reads_files);
        Some(series?.due_at(now, &self.clock))
    }

    /// The statistics of each interface at `end`, for the end of the file.
    pub fn statistics(&self, feeds: &mut [Feed], end: u64) -> Vec<(Described, Statistics)> {
        let begin = self.span_began();
        let of_feed = |feed: &mut Feed| feed.statistics(begin, end);
        feeds.iter_mut().flat_map(of_feed).collect()
    }

    /// A port may have received packets before the first poll.
    fn span_began(&self) -> u64 {
        let first = self.first_ns.unwrap_or(self.began);
        first.min(self.began)
    }
}
