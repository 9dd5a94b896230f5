//! A series under way, as the session sees it: how far it is, and what every file of it begins with.

use super::{Namer, Register, Rotation, Turns};
use forebay::{Result, time::Clock};
use std::collections::VecDeque;

/// What comes behind the last packet of a file.
pub(in crate::session) enum Step {
    /// Bytes that are no packet.
    Append(Vec<u8>),
    /// What follows goes to the next file.
    NextOutput,
}

pub(in crate::session) struct Course {
    turns: Turns,
    namer: Namer,
    register: Register,
    /// Files begun, the first one included.
    begun: u64,
    most: u64,
    /// What was told so far that every file has to begin with.
    beginning: Vec<Vec<u8>>,
    /// What has to be done before the next packet. Each step waits for room, and none is done twice.
    steps: VecDeque<Step>,
}

impl Course {
    /// Orders the first file, which begins at `now` and `wall` as with [`Turns::new`].
    ///
    /// # Errors
    /// Its name cannot be made.
    pub fn new(rotation: &Rotation, register: Register, now: u64, wall: u64) -> Result<Self> {
        let mut namer = Namer::new(rotation);
        register.order(namer.next(wall, true)?);
        Ok(Course {
            turns: Turns::new(rotation, now, wall),
            namer,
            register,
            begun: 1,
            most: rotation.stop_after.unwrap_or(u64::MAX),
            beginning: Vec::new(),
            steps: VecDeque::new(),
        })
    }

    /// Every file begins with these bytes, too.
    pub fn begins_with(&mut self, bytes: &[u8]) {
        self.beginning.push(bytes.to_owned());
    }

    /// Whether there may be another file.
    pub fn may_turn(&self) -> bool {
        self.begun < self.most
    }

    /// The file that packets go to, 1 first.
    pub fn number(&self) -> u64 {
        self.begun
    }

    /// Whether it is time for the next file.
    pub fn is_due(&mut self, now: u64, clock: &Clock) -> bool {
        let wall = self.wall(clock);
        self.turns.is_due(now, wall)
    }

    /// When it will be, on `clock`.
    pub fn due_at(&self, now: u64, clock: &Clock) -> u64 {
        now.saturating_add(self.turns.due_in(now, self.wall(clock)))
    }

    /// This file lasts until it is time again.
    pub fn postpone(&mut self, now: u64, clock: &Clock) {
        let wall = self.wall(clock);
        self.turns.turned(now, wall, true);
    }

    fn wall(&self, clock: &Clock) -> u64 {
        match self.turns.look_at_the_wall() {
            true => clock.wall_now(),
            false => 0,
        }
    }

    /// Orders the next file: `end` belongs to this one. `by_time`: it was time for it, or somebody said so.
    ///
    /// # Errors
    /// Its name cannot be made.
    pub fn turn(&mut self, end: Vec<Vec<u8>>, now: u64, wall: u64, by_time: bool) -> Result<()> {
        self.turns.turned(now, wall, by_time);
        self.register.order(self.namer.next(wall, by_time)?);
        self.begun += 1;
        self.steps.extend(end.into_iter().map(Step::Append));
        self.steps.push_back(Step::NextOutput);
        let beginning = self.beginning.iter().cloned();
        self.steps.extend(beginning.map(Step::Append));
        Ok(())
    }

    /// Whether steps are left.
    #[inline]
    pub fn is_turning(&self) -> bool {
        !self.steps.is_empty()
    }

    /// The next step, which the caller does, and then says so with [`did`](Self::did).
    pub fn step(&self) -> Option<&Step> {
        self.steps.front()
    }

    pub fn did(&mut self) {
        self.steps.pop_front();
    }
}
