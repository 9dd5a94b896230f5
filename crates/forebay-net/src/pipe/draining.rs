//! The thread that writes: straight out of the stream's memory, to all outputs, each at its own pace.
//!
//! ```text
//!   stream   │ a b c d e f g h . . . │        popped: what the slowest output has
//!            └ popped  │   └ admitted         admitted: what may go out (watermark, blocks, limit)
//!   output 1 ──────────▶ │                    nothing moves? poll(outputs behind, the stream, abandoned)
//!   output 2 ──────────────▶
//! ```
//!
//! Pages that went past the stream come before what is in it: see `relay`.

use super::{
    Config, Control, Counts, Output,
    digest::Hasher,
    limiter::{Allowed, Limiter},
    relay::Outlet,
    until,
};
use forebay::{stream::Reader, sync::Eventfd, time::Clock};
use rustix::{
    event::{PollFd, PollFlags, poll},
    net::sockopt::socket_error,
};
use std::{
    io,
    os::fd::AsFd,
    time::{Duration, Instant},
};

/// What is written at once where no block size was asked for.
const MOST: usize = 1 << 20;

pub(super) struct Draining<'a> {
    reader: Reader<Eventfd>,
    /// Pages that go past the stream, to the one output there is then.
    relay: Option<Outlet>,
    outputs: Vec<Output>,
    hasher: Option<Hasher>,
    limiter: Option<Limiter>,
    /// Every write but the last has this size, for outputs that take it whole.
    block: Option<usize>,
    /// Bytes that have to be there before writing begins, and begins again after the stream ran empty.
    start_at: usize,
    is_filling: bool,
    /// Up to this byte of the stream, outputs may have it.
    admitted: u64,
    /// No byte will come behind those admitted and those that wait for the limit.
    has_ended: bool,
    /// When the limit allows more.
    next: Option<u64>,
    waited: Duration,
    clock: Clock,
    control: &'a Control,
    counts: &'a Counts,
}

/// How the writing ended.
pub(super) struct Drained {
    pub outputs: Vec<Output>,
    pub hasher: Option<Hasher>,
    /// Bytes that went past the buffer.
    pub passed: u64,
    /// How long it waited for bytes.
    pub waited: Duration,
}

impl<'a> Draining<'a> {
    pub fn new(
        reader: Reader<Eventfd>,
        relay: Option<Outlet>,
        outputs: Vec<Output>,
        config: &Config,
        clock: Clock,
        control: &'a Control,
        counts: &'a Counts,
    ) -> Self {
        let start_at = super::part(reader.capacity(), config.start_writing);
        let unit = config.block_bytes.unwrap_or(1) as u64;
        let limiter = |rate| Limiter::new(rate, unit, clock.now());
        Draining {
            limiter: config.write_rate.map(limiter),
            hasher: config.hash.map(Hasher::new),
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
            clock,
            control,
            counts,
        }
    }

    /// Writes until the stream ends, no output is left, or the drain is given up. The reader is dropped behind it, so that
    /// the thread that fills learns that nobody takes anything any more.
    pub fn run(mut self) -> Drained {
        while !self.control.is_abandoned() && self.outputs.iter().any(Output::is_open) {
            self.admit();
            // Behind the look at the stream: what came before its content is seen here.
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

    /// Admits what may go out by now.
    fn admit(&mut self) {
        // The end first: what came before it is then seen, too.
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

    /// Passes pages on; says whether anything moved.
    fn pass(&mut self) -> bool {
        let (Some(relay), Some(output)) = (&mut self.relay, self.outputs.first_mut()) else {
            return false;
        };
        match relay.give(output) {
            Ok(bytes) => {
                self.counts.count_written(bytes as u64, self.clock.now());
                // What is left found no room: asking again would wait for whoever reads, in the kernel.
                !relay.is_behind()
            }
            Err(cause) => {
                output.fail(cause);
                true
            }
        }
    }

    /// Offers each output what it has not got yet; says whether anything moved.
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

    /// Gives back what every open output has.
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
        self.reader.pop(done);
        self.counts.count_written(done as u64, self.clock.now());
        self.is_filling = self.start_at > 0 && self.reader.bytes_buffered() == 0;
    }

    /// Sleeps until an output that is behind takes something, the stream has more to admit, or the drain is given up;
    /// and until a reader leaves, which nobody would notice otherwise while no bytes come.
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
        // More bytes help if an output has all there is, and they can come.
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
        // An interruption is a wake-up like any other: the caller looks again.
        let _ = poll(&mut fds, timeout.as_ref());
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
