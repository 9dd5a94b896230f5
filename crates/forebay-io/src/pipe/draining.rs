//! The writing thread: writes directly from the stream's memory to all outputs, each at its own pace.
//!
//! ```text
//!   stream   │ a b c d e f g h . . . │        popped: what the slowest output has
//!            └ popped  │   └ admitted         admitted: what may go out (watermark, blocks, limit)
//!   output 1 ──────────▶ │                    nothing moves? poll(lagging outputs, stream, abandoned)
//!   output 2 ──────────────▶
//! ```
//!
//! Pages that bypass the stream precede its content: see `relay`.

use super::{
    config::{PipeConfig, part},
    control::Control,
    counts::Counts,
    digest::Hasher,
    limiter::{Allowed, Limiter},
    output::Output,
    pace::{Room, until},
    relay::Outlet,
};
use forebay::{stream::Reader, sync::Eventfd, time::Clock};
use rustix::{
    event::{PollFd, PollFlags, poll},
    net::sockopt::socket_error,
};
use std::{
    io,
    os::fd::AsFd,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

/// Maximum bytes per write, unless a block size is set.
const MOST: usize = 1 << 20;

pub(super) struct Draining<'a> {
    reader: Reader<Eventfd>,
    /// Pages that bypass the stream, to the only output.
    relay: Option<Outlet>,
    outputs: Vec<Output>,
    hasher: Option<Hasher>,
    counts_lines: bool,
    limiter: Option<Limiter>,
    /// If set, every write except the last has this size, for outputs that accept it completely.
    block: Option<usize>,
    /// Fill level in bytes at which writing starts, and starts again after the stream ran empty.
    start_at: usize,
    is_filling: bool,
    /// The stream position up to which outputs may write.
    admitted: u64,
    /// No bytes will follow those admitted and those that wait for the limit.
    has_ended: bool,
    /// When the limit allows more.
    next: Option<u64>,
    waited: Duration,
    room: Room,
    clock: Clock,
    control: &'a Control,
    counts: &'a Counts,
}

pub(super) struct Drained {
    pub outputs: Vec<Output>,
    pub hasher: Option<Hasher>,
    /// Bytes that bypassed the buffer.
    pub passed: u64,
    /// Time spent waiting for bytes.
    pub waited: Duration,
}

impl<'a> Draining<'a> {
    pub fn new(
        reader: Reader<Eventfd>,
        relay: Option<Outlet>,
        outputs: Vec<Output>,
        config: &PipeConfig,
        clock: Clock,
        control: &'a Control,
        counts: &'a Counts,
    ) -> Self {
        let start_at = part(reader.capacity(), config.start_writing);
        let unit = config.block_bytes.unwrap_or(1) as u64;
        let limiter = |rate| Limiter::new(rate, unit, clock.now());
        Draining {
            limiter: config.write_rate.map(limiter),
            hasher: config.hash.map(Hasher::new),
            counts_lines: config.counts_lines,
            block: config.block_bytes,
            is_filling: start_at > 0,
            start_at,
            reader,
            relay,
            outputs,
            admitted: 0,
            has_ended: false,
            next: None,
            waited: Duration::ZERO,
            room: Room::default(),
            clock,
            control,
            counts,
        }
    }

    /// Writes until the stream ends, no output is left, or the drain is given up. Then drops the reader, so that the reading
    /// thread finds that no output takes any more bytes.
    pub fn run(mut self) -> Drained {
        while !self.control.is_abandoned() && self.outputs.iter().any(Output::is_open) {
            self.admit();
            // Must follow the check of the stream: pages that precede its content are then visible.
            let has_pages = self.relay.as_mut().is_some_and(Outlet::has_some);
            let has_moved = if has_pages { self.pass() } else { self.write() };
            self.release();
            if self.has_ended && !has_pages && self.reader.bytes_buffered() == 0 {
                break;
            }
            if !has_moved {
                self.sleep();
            }
        }
        Drained {
            passed: self.relay.as_ref().map_or(0, Outlet::passed),
            outputs: self.outputs,
            hasher: self.hasher,
            waited: self.waited,
        }
    }

    /// Determines how far outputs may write now.
    fn admit(&mut self) {
        // Check the end first: all bytes before it are then visible, too.
        self.has_ended = self.reader.end().is_some();
        let buffered = self.reader.bytes_buffered();
        self.is_filling &= !self.has_ended && buffered < self.start_at;
        self.next = None;
        if self.is_filling {
            return;
        }
        let mut wanted = self.reader.bytes_popped() + buffered as u64 - self.admitted;
        if let (Some(block), false) = (self.block, self.has_ended) {
            wanted -= wanted % block as u64;
        }
        if let Some(limiter) = &mut self.limiter
            && wanted > 0
        {
            match limiter.ask(wanted, self.clock.now()) {
                Allowed::Bytes(bytes) => wanted = bytes,
                Allowed::At(time) => {
                    self.next = Some(time);
                    wanted = 0;
                }
            }
            limiter.spend(wanted);
        }
        self.admitted += wanted;
    }

    /// Moves pages to the output. Returns whether anything moved.
    fn pass(&mut self) -> bool {
        let (Some(relay), Some(output)) = (&mut self.relay, self.outputs.first_mut()) else {
            return false;
        };
        match relay.give(output) {
            Ok(bytes) => {
                self.counts.count_written(bytes as u64, self.clock.now());
                // The rest found no room: trying again would wait in the kernel for the pipe's reader.
                !relay.is_behind()
            }
            Err(cause) => {
                output.fail(cause);
                true
            }
        }
    }

    /// Writes to each output the bytes that it lacks. Returns whether anything moved.
    fn write(&mut self) -> bool {
        let popped = self.reader.bytes_popped();
        let admitted = (self.admitted - popped) as usize;
        let content = &self.reader.peek()[..admitted];
        let most = self.block.unwrap_or(MOST);
        let mut has_moved = false;
        for output in self.outputs.iter_mut().filter(|output| output.is_open()) {
            let behind = &content[(output.bytes - popped) as usize..];
            if !behind.is_empty() {
                has_moved |= output.write(&behind[..behind.len().min(most)]) > 0;
                has_moved |= !output.is_open();
            }
        }
        has_moved
    }

    /// Releases the bytes that every open output has.
    fn release(&mut self) {
        let open = self.outputs.iter().filter(|output| output.is_open());
        let Some(slowest) = open.map(|output| output.bytes).min() else {
            return;
        };
        let done = (slowest - self.reader.bytes_popped()) as usize;
        if done == 0 {
            return;
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&self.reader.peek()[..done]);
        }
        if self.counts_lines {
            let content = &self.reader.peek()[..done];
            let lines = content.iter().filter(|&&byte| byte == b'\n').count();
            self.counts.lines.fetch_add(lines as u64, Relaxed);
        }
        self.reader.consume(done);
        self.counts.count_written(done as u64, self.clock.now());
        self.is_filling = self.start_at > 0 && self.reader.bytes_buffered() == 0;
    }

    /// Sleeps until a lagging output accepts bytes, the stream has more to admit, the drain is given up, or a reader closes its
    /// end. The last would otherwise go unnoticed while no bytes arrive. A full pipe is left alone a little longer, see `pace`.
    fn sleep(&mut self) {
        let popped = self.reader.bytes_popped();
        let admitted = (self.admitted - popped) as usize;
        let wanted = if self.is_filling {
            self.start_at
        } else {
            admitted + self.block.unwrap_or(1)
        };
        let has_pages = self.relay.as_ref().is_some_and(Outlet::is_behind);
        let is_behind = |output: &Output| has_pages || output.bytes < self.admitted;
        let open = || self.outputs.iter().filter(|output| output.is_open());
        // More bytes help if an output has everything so far, and more can come.
        let wants_bytes = self.next.is_none()
            && !self.has_ended
            && wanted <= self.reader.capacity()
            && !open().all(is_behind);
        if wants_bytes && !self.reader.arm_for(wanted) {
            return;
        }
        let timeout = self.next.map(|time| until(time, &self.clock));
        let began = Instant::now();
        let mut fds = vec![PollFd::from_borrowed_fd(
            self.control.abandoned().as_fd(),
            PollFlags::IN,
        )];
        fds.extend(open().map(|output| {
            let is_room = if is_behind(output) {
                PollFlags::OUT
            } else {
                PollFlags::empty()
            };
            PollFd::from_borrowed_fd(output.as_fd(), is_room)
        }));
        if wants_bytes {
            let comes = |from| PollFd::from_borrowed_fd(from, PollFlags::IN);
            fds.push(comes(self.reader.as_fd()));
            fds.extend(self.relay.as_ref().map(|relay| comes(relay.as_fd())));
        }
        // An interruption is treated as a wake-up: the caller checks again.
        let _ = poll(&mut fds, timeout.as_ref());
        if let (Some(output), 1) = (open().next(), open().count())
            && fds[1].revents() == PollFlags::OUT
            && output.is_large_pipe()
        {
            let passed = self.relay.as_ref().map_or(0, Outlet::passed);
            if let Some(pause) = self.room.pause(passed + output.bytes) {
                let breaks = PollFd::from_borrowed_fd(output.as_fd(), PollFlags::empty());
                let _ = poll(&mut [fds[0].clone(), breaks], Some(&pause));
            }
        }
        let broken = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        let broke: Vec<bool> = fds[1..]
            .iter()
            .map(|fd| fd.revents().intersects(broken))
            .collect();
        drop(fds);
        if wants_bytes {
            self.reader.disarm();
            self.relay.iter().for_each(Outlet::listen);
        }
        if wants_bytes && admitted == 0 {
            self.waited += began.elapsed();
        }
        let open = self.outputs.iter_mut().filter(|output| output.is_open());
        for (output, _) in open.zip(broke).filter(|(_, broke)| *broke) {
            let error = socket_error(&*output).ok().and_then(Result::err);
            let error = error.unwrap_or(rustix::io::Errno::PIPE);
            output.fail(io::Error::from(error));
        }
    }
}
