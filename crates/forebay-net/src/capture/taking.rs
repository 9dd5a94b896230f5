//! Takes the frames of one port that its filter accepts, and counts them.

use super::batch::{Gathered, MAX_FRAMES};
use crate::{
    filter::{FrameProgram, Programs},
    port::{Burst, Frame, Interface, Port},
    receive::{Sleeper, sleeps},
};
use forebay::{
    Error, Result,
    poll::{Limit, Source},
    time::Clock,
};

/// The port, its filter, and the counts. As a [`Source`], it finds the next frame that matches, and leaves it in the port.
pub(super) struct Taking {
    pub sleeper: Sleeper<Box<dyn Port>>,
    pub sieve: Sieve,
    /// The next frame of the port matches.
    pub is_found: bool,
    pub unread: u64,
}

/// The filter and its counts.
pub(super) struct Sieve {
    /// The filter, if the port does not filter.
    programs: Option<Programs>,
    /// The program for each interface that is known so far.
    by_interface: Vec<FrameProgram>,
    pub taken: u64,
    pub filtered: u64,
    /// Losses reported by frames that were rejected; the next matching frame reports them.
    owed: u64,
}

impl Sieve {
    /// Compiles the filter for interfaces that are new.
    fn learn(&mut self, interfaces: &[Interface]) {
        if let Some(programs) = &mut self.programs {
            let new = interfaces.iter().skip(self.by_interface.len());
            let new = new.map(|interface| programs.of_interface(interface));
            self.by_interface.extend(new);
        }
    }

    /// Shows the frames of a burst to `each`, without those that the filter rejects. If it returns `false`, the frame stays in the
    /// port, and no other one follows. Returns the number of frames, including rejected ones.
    fn pass(&mut self, burst: &mut Burst<'_>, mut each: impl FnMut(&Frame<'_>) -> bool) -> usize {
        let mut seen = 0;
        while let Some(mut frame) = burst.next_frame() {
            if self.programs.is_some() {
                let Some(program) = self.by_interface.get(frame.interface as usize) else {
                    // Its interface is new. The next call knows it.
                    burst.put_back();
                    break;
                };
                if !program.accepts(&frame) {
                    seen += 1;
                    self.filtered += 1;
                    self.owed = self.owed.saturating_add(frame.dropped_before);
                    continue;
                }
            }
            seen += 1;
            frame.dropped_before = frame.dropped_before.saturating_add(self.owed);
            if !each(&frame) {
                burst.put_back();
                break;
            }
            self.owed = 0;
            self.taken += 1;
        }
        seen
    }
}

impl Taking {
    pub fn new(port: Box<dyn Port>, programs: Option<Programs>, clock: Clock) -> Taking {
        Taking {
            sleeper: Sleeper::new(port, clock),
            sieve: Sieve {
                programs,
                by_interface: Vec::new(),
                taken: 0,
                filtered: 0,
                owed: 0,
            },
            is_found: false,
            unread: 0,
        }
    }

    /// Shows up to `budget` frames to `each`.
    fn show(&mut self, budget: usize, each: impl FnMut(&Frame<'_>) -> bool) -> Result<usize> {
        let Taking { sleeper, sieve, .. } = self;
        sieve.learn(sleeper.port.interfaces());
        let mut burst = sleeper.port.receive(budget)?;
        Ok(sieve.pass(&mut burst, each))
    }

    /// Takes the frame that was found. It is released when the port is polled again.
    pub fn take(&mut self) -> Result<Option<Frame<'_>>> {
        self.is_found = false;
        let owed = std::mem::take(&mut self.sieve.owed);
        let frame = self.sleeper.port.receive(1)?.into_frame();
        self.sieve.taken += u64::from(frame.is_some());
        Ok(frame.map(|frame| Frame {
            dropped_before: frame.dropped_before.saturating_add(owed),
            ..frame
        }))
    }

    /// Takes the frame that was found, and those after it.
    pub fn gather(&mut self, gathered: &mut Gathered) -> Result<Burst<'_>> {
        self.is_found = false;
        let Taking { sleeper, sieve, .. } = self;
        sieve.learn(sleeper.port.interfaces());
        let mut burst = sleeper.port.receive(MAX_FRAMES)?;
        gathered.begin(burst.memory());
        sieve.pass(&mut burst, |frame| gathered.push(frame));
        match gathered.is_empty() {
            false => Ok(burst),
            true => Err(Error::new(
                "port",
                "its frames are not in the memory that it lends",
            )),
        }
    }
}

impl Source for Taking {
    type Error = Error;

    fn look(&mut self, budget: usize) -> Result<usize> {
        let mut is_found = false;
        let seen = self.show(budget, |_| {
            is_found = true;
            false
        })?;
        self.is_found = is_found;
        Ok(seen)
    }

    fn arm(&mut self) -> Result<()> {
        self.sleeper.arm()
    }

    fn sleep(&mut self, limit: &Limit<'_>) -> Result<()> {
        self.sleeper.sleep(limit)
    }

    fn disarm(&mut self) {
        self.sleeper.port.disarm();
    }

    /// Whether there is nothing to wait for.
    fn has_ended(&self) -> bool {
        self.is_found || self.sleeper.has_ended
    }
}

/// Shows every matching frame to a closure.
pub(super) struct Showing<'a, F> {
    pub taking: &'a mut Taking,
    pub each: F,
}

impl<F: FnMut(&Frame<'_>)> Source for Showing<'_, F> {
    type Error = Error;

    fn look(&mut self, budget: usize) -> Result<usize> {
        let each = &mut self.each;
        self.taking.show(budget, |frame| {
            each(frame);
            true
        })
    }

    sleeps!(it => it.taking.sleeper);
}
