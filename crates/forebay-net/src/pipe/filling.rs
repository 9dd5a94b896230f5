//! The thread that reads: straight into the stream's memory, as fast as bytes come and find room.
//!
//! ```text
//!   room? ─▶ limit? ─▶ poll(input, stopping) ─▶ reserve ─▶ read(2) into it ─▶ commit ─▶ again
//!                        │ few bytes of a flow?         nothing in the stream? splice(2), and no read: see `relay`
//!                        └ let them gather: see `pace`
//! ```
//!
//! Nobody waits at the start for the buffer's memory. Its pages are made present while nothing else is to be done; a read
//! that comes before that makes those it needs. Where bytes go past it that begins when they first cannot.

use super::{
    Config, Control, Counts, Input, LARGE,
    control::Flag,
    input::Waited,
    limiter::{Allowed, Limiter},
    pace::{PAUSE, Pace},
    relay::Intake,
    until,
};
use forebay::{Result, stream::Writer, sync::Eventfd, time::Clock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    ops::Range,
    os::fd::AsFd,
    time::{Duration, Instant},
};

/// What is read at once where no block size was asked for.
const MOST: usize = 1 << 20;

/// How much memory is made present at once: some hundreds of microseconds, for which nobody is heard.
const POPULATED_AT_ONCE: usize = 1 << 18;

pub(super) struct Filling<'a> {
    writer: Writer<Eventfd>,
    limiter: Option<Limiter>,
    /// Most bytes to read at once.
    most: usize,
    /// What has to be vacant before reading goes on, once the buffer was full.
    resume_at: usize,
    relay: Option<Intake>,
    pace: Pace,
    /// Memory that may not be present yet; and whether it is of use: bytes went into it, or nothing can go past it.
    absent: Range<usize>,
    needs_memory: bool,
    waited: Duration,
    clock: Clock,
    control: &'a Control,
    counts: &'a Counts,
}

/// How the reading ended.
pub(super) struct Filled {
    /// How long it waited for room.
    pub waited: Duration,
    /// Why it ended before its time.
    pub ended: Result<()>,
}

impl<'a> Filling<'a> {
    pub fn new(
        writer: Writer<Eventfd>,
        relay: Option<Intake>,
        config: &Config,
        clock: Clock,
        control: &'a Control,
        counts: &'a Counts,
    ) -> Self {
        let capacity = writer.capacity();
        let resume_fill = super::part(capacity, config.start_reading);
        // What is less than a block stays until more comes: who waited for that to go would wait for ever.
        let may_go = capacity - config.block_bytes.map_or(0, |block| block - 1);
        Filling {
            resume_at: (capacity - resume_fill).clamp(1, may_go),
            most: config.block_bytes.unwrap_or(MOST),
            limiter: config
                .read_rate
                .map(|rate| Limiter::new(rate, 1, clock.now())),
            writer,
            needs_memory: relay.is_none(),
            relay,
            pace: Pace::default(),
            absent: 0..capacity,
            waited: Duration::ZERO,
            clock,
            control,
            counts,
        }
    }

    /// Reads all of `inputs` in turn, until they end, one fails, a stop is asked for, or nobody takes anything any more.
    pub fn run(mut self, inputs: Vec<Input>) -> Filled {
        let mut ended = Ok(true);
        for mut input in inputs {
            ended = self.read(&mut input);
            if !matches!(ended, Ok(true)) {
                break;
            }
        }
        self.writer.close();
        Filled {
            waited: self.waited,
            ended: ended.map(drop),
        }
    }

    /// Reads `input` to its end; false if that is not to be waited for.
    fn read(&mut self, input: &mut Input) -> Result<bool> {
        loop {
            let room = self.wait_for_room();
            if room == 0 {
                return Ok(false);
            }
            let Some(most) = self.allowed(room.min(self.most)) else {
                return Ok(false);
            };
            if !self.wait_for_bytes(input)? {
                return Ok(false);
            }
            if self.pass(input) {
                continue;
            }
            let mut room = self.writer.reserve(most);
            if room.is_empty() {
                continue; // nobody takes anything any more
            }
            match input.read(&mut room)? {
                Some(0) => return Ok(true),
                Some(bytes) => {
                    room.commit(bytes);
                    self.needs_memory = true;
                    self.took(bytes);
                    if let Some(limiter) = &mut self.limiter {
                        limiter.spend(bytes as u64);
                    }
                }
                None => {}
            }
        }
    }

    /// Waits until there is something to read, and for more of it where bytes flow; false if it is not to be waited for.
    fn wait_for_bytes(&mut self, input: &Input) -> Result<bool> {
        let mut waited = Waited::NotYet;
        while waited == Waited::NotYet {
            let has_work = self.has_work();
            waited = input.wait(self.ends(), has_work.then_some(&Timespec::default()))?;
            if waited == Waited::NotYet {
                self.populate();
            }
        }
        let is_ahead = |gathered| self.pace.is_ahead(gathered, self.clock.now());
        if input.gathered().is_some_and(is_ahead) {
            self.pause();
        }
        Ok(waited == Waited::Ready)
    }

    /// Moves bytes past the buffer, where that may be; says whether to look again, and not to read.
    fn pass(&mut self, input: &Input) -> bool {
        let (is_empty, held) = (self.is_empty(), self.counts.held());
        let Some(relay) = self.relay.as_mut().filter(|_| is_empty && input.is_pipe()) else {
            return false;
        };
        match relay.take(input, self.most) {
            Ok(Some(0)) => false, // the end: reading tells
            Ok(Some(bytes)) => {
                self.took(bytes);
                true
            }
            Ok(None) => {
                let limit = match input.gathered() {
                    _ if relay.is_full(held) => None,
                    // As long as the producer has room in its pipe, the reader behind us may have a moment.
                    Some(bytes) if bytes < LARGE / 2 => Some(PAUSE),
                    _ => Some(Duration::ZERO),
                };
                let began = Instant::now();
                let has_room = relay.wait(limit);
                self.waited += began.elapsed();
                // Without room bytes are read, if nobody else has done that meanwhile.
                let now = Some(&Timespec::default());
                has_room || matches!(input.wait(self.ends(), now), Ok(Waited::NotYet))
            }
            Err(_) => {
                self.relay = None; // reading meets what there is to tell
                false
            }
        }
    }

    /// `bytes` were read.
    fn took(&mut self, bytes: usize) {
        let now = self.clock.now();
        self.counts.count_read(bytes as u64, now);
        self.pace.took(bytes, now);
    }

    /// Whether all that was put into the stream has been written.
    fn is_empty(&self) -> bool {
        self.writer.available_capacity() == self.writer.capacity()
    }

    /// Lets a moment pass, of some use if there is any.
    fn pause(&mut self) {
        if self.has_work() {
            return self.populate();
        }
        let [first, second] = self
            .ends()
            .map(|end| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN));
        let pause = Timespec {
            tv_sec: 0,
            tv_nsec: PAUSE.as_nanos() as i64,
        };
        // Whatever ends it early, the caller looks again.
        let _ = poll(&mut [first, second], Some(&pause));
    }

    /// Whether there is memory to be made present.
    fn has_work(&self) -> bool {
        self.needs_memory && !self.absent.is_empty()
    }

    /// Makes some more of the memory present.
    fn populate(&mut self) {
        let end = self.absent.end.min(self.absent.start + POPULATED_AT_ONCE);
        // Where no memory is left, the read that needs it tells.
        let populated = self.writer.populate(self.absent.start..end);
        self.absent.start = if populated.is_ok() {
            end
        } else {
            self.absent.end
        };
    }

    fn ends(&self) -> [&'a Flag; 2] {
        [self.control.stopping(), &self.counts.drained]
    }

    /// Bytes that are vacant, once some are; 0 if nobody takes anything any more.
    fn wait_for_room(&mut self) -> usize {
        match self.writer.available_capacity() {
            0 => {
                let began = Instant::now();
                let room = self.writer.wait_capacity(self.resume_at, None);
                self.waited += began.elapsed();
                room
            }
            _ if self.writer.is_over() => 0,
            room => room,
        }
    }

    /// How many of `wanted` bytes the limit allows, once it allows any; `None` when a stop was asked for.
    fn allowed(&mut self, wanted: usize) -> Option<usize> {
        let Some(limiter) = &mut self.limiter else {
            return Some(wanted);
        };
        loop {
            match limiter.ask(wanted as u64, self.clock.now()) {
                Allowed::Bytes(bytes) => return Some(bytes as usize),
                Allowed::At(time) => {
                    let stopping = self.control.stopping().as_fd();
                    let mut fds = [PollFd::from_borrowed_fd(stopping, PollFlags::IN)];
                    // An interruption is a wake-up like any other.
                    let _ = poll(&mut fds, Some(&until(time, &self.clock)));
                }
            }
            if self.control.is_stopping() {
                return None;
            }
        }
    }
}
