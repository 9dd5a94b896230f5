//! The reading thread: reads directly into the stream's memory as long as there are bytes and room.
//!
//! ```text
//!   room? ─▶ limit? ─▶ poll(input, stopping) ─▶ reserve ─▶ read(2) into it ─▶ commit ─▶ again
//!                        │ few bytes of a flow?         nothing in the stream? splice(2), and no read: see `relay`
//!                        └ let them gather: see `pace`
//! ```
//!
//! Start-up does not wait for the buffer's memory. Its pages are populated while the thread is otherwise idle; a read that comes
//! earlier populates the pages it needs. If bytes bypass the buffer, populating starts when they first cannot.

use super::{
    config::{PipeConfig, part},
    control::Control,
    counts::Counts,
    direct::Direct,
    input::{Input, Waited},
    kernel_pipe::LARGE,
    limiter::{Allowed, Limiter},
    pace::{PAUSE, Pace, until},
    relay::Intake,
};
use forebay::{
    Result,
    stream::Writer,
    sync::{Eventfd, Signal},
    time::Clock,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    io,
    ops::Range,
    os::fd::AsFd,
    time::{Duration, Instant},
};

/// Maximum bytes per read, unless a block size is set.
const MOST: usize = 1 << 20;

/// After the buffer was full, reading resumes when this part of it is free, or a whole read fits.
const GATHERS: usize = 16;

/// How much memory is populated at once. This takes some hundreds of microseconds, during which the thread handles nothing else.
const POPULATED_AT_ONCE: usize = 1 << 18;

pub(super) struct Filling<'a> {
    writer: Writer<Eventfd>,
    limiter: Option<Limiter>,
    /// Maximum bytes per read.
    most: usize,
    /// Free space in bytes at which reading resumes after the buffer was full.
    resume_at: usize,
    relay: Option<Intake>,
    direct: Option<Direct>,
    /// The kernel did not yet refuse to move bytes of this input.
    is_movable: bool,
    /// Bytes that went from files to the output, and the time that took.
    given: u64,
    gave_for: Duration,
    pace: Pace,
    /// The memory that may not be populated yet, and whether it is needed: bytes went into it, or no bytes can bypass it.
    absent: Range<usize>,
    needs_memory: bool,
    waited: Duration,
    clock: Clock,
    control: &'a Control,
    counts: &'a Counts,
}

pub(super) struct Filled {
    /// Time spent waiting for room.
    pub waited: Duration,
    /// Bytes that went from files to the output, and the time that took.
    pub given: u64,
    pub gave_for: Duration,
    /// The error that ended it early, if any.
    pub ended: Result<()>,
}

impl<'a> Filling<'a> {
    pub fn new(
        writer: Writer<Eventfd>,
        (relay, direct): (Option<Intake>, Option<Direct>),
        config: &PipeConfig,
        clock: Clock,
        control: &'a Control,
        counts: &'a Counts,
    ) -> Self {
        let capacity = writer.capacity();
        let resume_fill = part(capacity, config.start_reading);
        // Less than a block stays in the buffer until more bytes come, so waiting for that part to leave would never end.
        let may_go = capacity - config.block_bytes.map_or(0, |block| block - 1);
        // Every read wakes the producer, so a full buffer is not refilled after each small write.
        let worth_a_read = (capacity / GATHERS).clamp(1, may_go.min(MOST));
        Filling {
            resume_at: (capacity - resume_fill).clamp(worth_a_read, may_go),
            most: config.block_bytes.unwrap_or(MOST),
            limiter: config
                .read_rate
                .map(|rate| Limiter::new(rate, 1, clock.now())),
            writer,
            needs_memory: relay.is_none(),
            relay,
            direct,
            is_movable: true,
            given: 0,
            gave_for: Duration::ZERO,
            pace: Pace::default(),
            absent: 0..capacity,
            waited: Duration::ZERO,
            clock,
            control,
            counts,
        }
    }

    /// Reads all `inputs` in sequence, until they end, one fails, a stop is requested, or no output takes any more bytes.
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
            given: self.given,
            gave_for: self.gave_for,
            ended: ended.map(drop),
        }
    }

    /// Reads `input` to its end; false if reading has to stop earlier.
    fn read(&mut self, input: &mut Input) -> Result<bool> {
        self.is_movable = true;
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
            if self.give(input) || self.pass(input) {
                continue;
            }
            let mut room = self.writer.reserve(most);
            if room.is_empty() {
                continue; // no output takes any more bytes
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

    /// Waits until there is something to read, and briefly longer while bytes flow, so that more gather. False if reading has to
    /// stop.
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

    /// Moves bytes of a file to the output if possible. Returns true if the caller should try again instead of reading.
    fn give(&mut self, input: &Input) -> bool {
        let (ends, is_idle) = (self.ends(), self.is_empty() && self.counts.held() == 0);
        let Some(direct) = self
            .direct
            .as_mut()
            .filter(|_| is_idle && self.is_movable && input.is_regular())
        else {
            return false;
        };
        let began = Instant::now();
        let given = direct.give(input, self.most);
        if let Ok(None) = given {
            direct.wait(ends);
            self.waited += began.elapsed();
        }
        self.gave_for += began.elapsed();
        match given {
            Ok(Some(0)) => return false, // the end: read(2) reports it
            Ok(Some(bytes)) => {
                self.took(bytes);
                self.counts.count_written(bytes as u64, self.clock.now());
                self.given += bytes as u64;
            }
            Ok(None) => {}
            // read(2), or write(2) of the other thread, reports other errors.
            Err(error) => {
                self.is_movable = error.kind() == io::ErrorKind::WouldBlock;
                return false;
            }
        }
        true
    }

    /// Moves bytes past the buffer if possible. Returns true if the caller should try again instead of reading.
    fn pass(&mut self, input: &Input) -> bool {
        let (is_empty, held) = (self.is_empty(), self.counts.held());
        let Some(relay) = self.relay.as_mut().filter(|_| is_empty && input.is_pipe()) else {
            return false;
        };
        match relay.take(input, self.most) {
            Ok(Some(0)) => false, // the end: read(2) reports it
            Ok(Some(bytes)) => {
                self.took(bytes);
                true
            }
            Ok(None) => {
                let limit = match input.gathered() {
                    _ if relay.is_full(held) => None,
                    // While the producer has room in its pipe, the reader of our output can get a moment.
                    Some(bytes) if bytes < LARGE / 2 => Some(PAUSE),
                    _ => Some(Duration::ZERO),
                };
                let began = Instant::now();
                let has_room = relay.wait(limit);
                self.waited += began.elapsed();
                // Without room, bytes are read into the buffer, unless another process has read them meanwhile.
                let now = Some(&Timespec::default());
                has_room || matches!(input.wait(self.ends(), now), Ok(Waited::NotYet))
            }
            Err(_) => {
                self.relay = None; // read(2) reports the error
                false
            }
        }
    }

    fn took(&mut self, bytes: usize) {
        let now = self.clock.now();
        self.counts.count_read(bytes as u64, now);
        self.pace.took(bytes, now);
    }

    /// Whether everything put into the stream has been written.
    fn is_empty(&self) -> bool {
        self.writer.available_capacity() == self.writer.capacity()
    }

    /// Pauses briefly, and uses the time to populate memory if needed.
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
        // If something ends the pause early, the caller checks again.
        let _ = poll(&mut [first, second], Some(&pause));
    }

    fn has_work(&self) -> bool {
        self.needs_memory && !self.absent.is_empty()
    }

    /// Populates some more of the memory.
    fn populate(&mut self) {
        let end = self.absent.end.min(self.absent.start + POPULATED_AT_ONCE);
        // If no memory is left, the read that needs it reports the error.
        let populated = self.writer.populate(self.absent.start..end);
        self.absent.start = if populated.is_ok() {
            end
        } else {
            self.absent.end
        };
    }

    fn ends(&self) -> [&'a Signal; 2] {
        [self.control.stopping(), &self.counts.drained]
    }

    /// Waits for free space and returns its size; 0 if no output takes any more bytes.
    fn wait_for_room(&mut self) -> usize {
        match self.writer.available_capacity() {
            0 => {
                let began = Instant::now();
                let room = self.writer.wait_vacant(self.resume_at);
                self.waited += began.elapsed();
                room
            }
            _ if self.writer.is_over() => 0,
            room => room,
        }
    }

    /// Waits until the limit allows bytes, and returns how many of `wanted`; `None` if a stop was requested.
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
                    // An interruption is treated as a wake-up.
                    let _ = poll(&mut fds, Some(&until(time, &self.clock)));
                }
            }
            if self.control.is_stopping() {
                return None;
            }
        }
    }
}
