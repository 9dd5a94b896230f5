//! The session's state of a series of files: the current file, and the bytes that every file begins with.

use super::{super::reports::Reports, config::Rotation, names::Namer, schedule::Schedule};
use forebay::{Result, time::Clock};
use std::{collections::VecDeque, path::PathBuf};

/// A step after the last packet of a file.
pub(in crate::session) enum SeriesStep {
    /// Append bytes that are not a packet.
    Append(Vec<u8>),
    /// Append the index of the file.
    Index,
    /// Switch to the next file.
    NextOutput,
}

pub(in crate::session) struct SeriesState {
    schedule: Schedule,
    namer: Namer,
    reports: Reports,
    /// The name that was registered for the first file.
    first: PathBuf,
    /// Files begun, the first one included.
    begun: u64,
    most: u64,
    /// The bytes that every file has to begin with.
    beginning: Vec<Vec<u8>>,
    /// Steps to do before the next packet. Each waits for room, and none is done twice.
    steps: VecDeque<SeriesStep>,
}

impl SeriesState {
    /// Registers the first file, which begins at `now` and `wall` as with [`Schedule::new`].
    ///
    /// # Errors
    /// Its name cannot be formed.
    pub fn new(rotation: &Rotation, reports: Reports, now: u64, wall: u64) -> Result<Self> {
        let mut namer = rotation.namer();
        let first = namer.next(wall, true)?;
        reports.order(first.clone());
        Ok(SeriesState {
            first,
            schedule: Schedule::new(rotation, now, wall),
            namer,
            reports,
            begun: 1,
            most: rotation.stop_after.unwrap_or(u64::MAX),
            beginning: Vec::new(),
            steps: VecDeque::new(),
        })
    }

    /// Gives the first file the name and the beginning of a packet of this time.
    ///
    /// # Errors
    /// The name cannot be formed.
    pub fn begin_at(&mut self, time_ns: u64) -> Result<()> {
        self.schedule.begin(time_ns, time_ns);
        let name = self.namer.first(time_ns)?;
        if name != self.first {
            self.reports.rename(name);
        }
        Ok(())
    }

    /// Whether the present file lasts at a packet of this time. If not, [`is_due_at`](Self::is_due_at) decides.
    #[inline]
    pub fn lasts_at(&self, time_ns: u64) -> bool {
        self.schedule.lasts().contains(&time_ns)
    }

    /// Whether the next file is due before a packet of this time.
    pub fn is_due_at(&mut self, time_ns: u64) -> bool {
        self.schedule.is_due(time_ns, time_ns)
    }

    /// Adds bytes that every further file begins with, too.
    pub fn begins_with(&mut self, bytes: &[u8]) {
        self.beginning.push(bytes.to_owned());
    }

    /// Whether another file is permitted.
    pub fn allows_another(&self) -> bool {
        self.begun < self.most
    }

    /// The number of the current file, from 1.
    pub fn number(&self) -> u64 {
        self.begun
    }

    /// Whether the next file is due.
    pub fn is_due(&mut self, now: u64, clock: &Clock) -> bool {
        let wall = self.wall(clock);
        self.schedule.is_due(now, wall)
    }

    /// The time at which the next file is due, on `clock`.
    pub fn due_at(&self, now: u64, clock: &Clock) -> u64 {
        now.saturating_add(self.schedule.due_in(now, self.wall(clock)))
    }

    /// Continues the current file until the next due time.
    pub fn postpone(&mut self, now: u64, clock: &Clock) {
        let wall = self.wall(clock);
        self.schedule.began_next(now, wall, true);
    }

    fn wall(&self, clock: &Clock) -> u64 {
        match self.schedule.look_at_the_wall() {
            true => clock.wall_now(),
            false => 0,
        }
    }

    /// Registers the next file. `end` belongs to the current one. `by_time`: the file was due, or the switch was requested.
    ///
    /// # Errors
    /// Its name cannot be formed.
    pub fn next_file(
        &mut self,
        end: Vec<Vec<u8>>,
        now: u64,
        wall: u64,
        by_time: bool,
    ) -> Result<()> {
        self.schedule.began_next(now, wall, by_time);
        self.reports.order(self.namer.next(wall, by_time)?);
        self.begun += 1;
        self.steps.extend(end.into_iter().map(SeriesStep::Append));
        self.steps.push_back(SeriesStep::Index);
        self.steps.push_back(SeriesStep::NextOutput);
        let beginning = self.beginning.iter().cloned();
        self.steps.extend(beginning.map(SeriesStep::Append));
        Ok(())
    }

    /// Whether steps remain.
    #[inline]
    pub fn is_between_files(&self) -> bool {
        !self.steps.is_empty()
    }

    /// The next step. The caller performs it and then calls [`did`](Self::did).
    pub fn step(&self) -> Option<&SeriesStep> {
        self.steps.front()
    }

    pub fn did(&mut self) {
        self.steps.pop_front();
    }
}
