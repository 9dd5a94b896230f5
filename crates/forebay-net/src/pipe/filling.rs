//! The thread that reads: straight into the stream's memory, as fast as bytes come and find room.
//!
//! ```text
//!   room? ─▶ limit? ─▶ poll(input, stopping) ─▶ reserve ─▶ read(2) into it ─▶ commit ─▶ again
//! ```

use super::{
    Config, Control, Counts, Input,
    limiter::{Allowed, Limiter},
    until,
};
use forebay::{Result, stream::Writer, sync::Eventfd, time::Clock};
use rustix::event::{PollFd, PollFlags, poll};
use std::{
    os::fd::AsFd,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

/// What is read at once where no block size was asked for.
const MOST: usize = 1 << 20;

pub(super) struct Filling<'a> {
    writer: Writer<Eventfd>,
    limiter: Option<Limiter>,
    /// Most bytes to read at once.
    most: usize,
    /// What has to be vacant before reading goes on, once the buffer was full.
    resume_at: usize,
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
        let ends = [self.control.stopping(), &self.counts.drained];
        loop {
            let room = self.wait_for_room();
            if room == 0 {
                return Ok(false);
            }
            let Some(most) = self.allowed(room.min(self.most)) else {
                return Ok(false);
            };
            if !input.wait(ends)? {
                return Ok(false);
            }
            let mut room = self.writer.reserve(most);
            if room.is_empty() {
                continue; // nobody takes anything any more
            }
            match input.read(&mut room)? {
                Some(0) => return Ok(true),
                Some(bytes) => {
                    room.commit(bytes);
                    self.counts.read.fetch_add(bytes as u64, Relaxed);
                    if let Some(limiter) = &mut self.limiter {
                        limiter.spend(bytes as u64);
                    }
                }
                None => {}
            }
        }
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
