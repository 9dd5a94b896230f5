//! Hands out the frames of one source, one by one. This is the shortest way into the crate.
//!
//! ```
//! let mut bytes = 0;
//! let ledger = forebay_net::each("sim:count=1000,clock=virtual", |frame| bytes += frame.data.len())?;
//! assert_eq!((ledger.counted, bytes), (1000, 60_000));
//! # Ok::<(), forebay::Error>(())
//! ```
//!
//! | You want | Use |
//! |---|---|
//! | every frame of a source, in a closure | [`each`], [`Capture::each`] |
//! | the next frame, in a loop of your own | [`Capture::next_frame`] |
//! | the same, but not to wait longer than a time | [`Capture::next_timeout`] |
//! | many frames at once, until the next call | [`Capture::next_batch`] |
//! | many frames at once, to keep or to pass to another thread | [`Capture::take_batch`] |
//! | to wait in `poll` or in an event loop | [`Capture::arm`], [`Capture::descriptor`] |
//! | several sources, or a file of packets | [`Session`](crate::session::Session) |
//!
//! ```text
//!  each:        poll ─▶ burst of 64 frames ─▶ filter ─▶ closure, in place
//!  next_frame:  poll ─▶ find the next frame that matches, and put it back ─▶ take it, and release it with the next call
//! ```
//! - **Blocking.** A call sleeps until there is a frame, the time limit, the end of the source, or [`Stopper::stop`].
//! - **Counts.** [`Capture::finish`] returns the counts of every frame. They add up
//!   ([`Ledger::check`](crate::ledger::Ledger::check)), also after an early end.

mod batch;
mod descriptor;
mod taking;

pub use batch::{Batch, OwnedBatch, Row};

use crate::{
    filter::{Filter, Programs},
    ledger::Ledger,
    open::{self, Name, Options},
    port::{Frame, Interface, Port, Statistics, Wake},
    receive::MAX_SLEEP,
};
use batch::Gathered;
use descriptor::Descriptor;
use forebay::{
    Error, Result,
    poll::{Poller, Source},
    sync::Signal,
    time::Clock,
};
use std::{
    fmt, io,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    sync::Arc,
    time::Duration,
};
use taking::{Showing, Taking};

/// The frames of one poll of [`Capture::each`].
const BUDGET: usize = 64;

/// Shows every frame of a source to a closure, and returns the counts at the end. `name` is as for [`Capture::open`].
///
/// An interface has no end. To stop it, use [`Capture::each`] with a [`Stopper`].
///
/// ```no_run
/// let mut packets = 0; // no Mutex: the closure runs on this thread
/// forebay_net::each("eth0", |frame| packets += 1)?;
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// As [`Capture::open`] and [`Capture::each`].
pub fn each(name: &str, each: impl FnMut(&Frame<'_>)) -> Result<Ledger> {
    Capture::open(name)?.each(each)
}

/// An open source of packets.
///
/// ```
/// let mut capture = forebay_net::Capture::open("sim:count=1000,clock=virtual")?;
/// while let Some(frame) = capture.next_frame()? {
///     assert_eq!(frame.data.len(), 60);
/// }
/// let ledger = capture.finish()?;
/// assert_eq!((ledger.received, ledger.counted, ledger.check()), (1000, 1000, Ok(())));
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Capture {
    taking: Taking,
    gathered: Gathered,
    poller: Poller,
    clock: Clock,
    stop: Arc<Signal>,
    /// Never raised: for the frames that are left after `stop`.
    never: Signal,
    is_stopped: bool,
    /// Made by the first call that asks for it.
    descriptor: Option<Descriptor>,
}

/// What a call with a time limit found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Next<T> {
    /// The next frame, or frames.
    Ready(T),
    /// No frame came within the time. Later ones may.
    TimedOut,
    /// The capture was stopped ([`Stopper::stop`]), and all frames that had been received are taken. None will follow.
    Stopped,
    /// The source has ended: no frame will follow.
    End,
}

impl<T> Next<T> {
    /// The same, with another value.
    ///
    /// ```
    /// use forebay_net::Next;
    /// assert_eq!(Next::Ready(2).map(|it| it + 1), Next::Ready(3));
    /// assert_eq!(Next::<u8>::End.map(|it| it + 1), Next::End);
    /// ```
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Next<U> {
        match self {
            Next::Ready(it) => Next::Ready(map(it)),
            Next::TimedOut => Next::TimedOut,
            Next::Stopped => Next::Stopped,
            Next::End => Next::End,
        }
    }

    /// Why there is no value.
    fn without<U>(self) -> Next<U> {
        match self {
            Next::Ready(_) | Next::TimedOut => Next::TimedOut,
            Next::Stopped => Next::Stopped,
            Next::End => Next::End,
        }
    }

    /// The value, if there is one.
    pub fn ready(self) -> Option<T> {
        match self {
            Next::Ready(it) => Some(it),
            _ => None,
        }
    }
}

/// Ends a [`Capture`] from another thread, such as that of a signal handler.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Signal>);

impl Stopper {
    /// Detaches the capture from its source. The frames that the source has received so far can still be taken; then the capture
    /// ends. Further calls change nothing.
    pub fn stop(&self) {
        self.0.raise();
    }
}

impl Capture {
    /// Opens an interface (`eth0`, `any`, `xdp:eth0`), a share (`share:NAME`) or the simulated card (`sim`), with the default
    /// [`Options`]. Files are opened by [`read`](Capture::read).
    ///
    /// # Errors
    /// There is no such source, or the system refuses.
    pub fn open(name: &str) -> Result<Capture> {
        Capture::with(&name.parse()?, &Options::default())
    }

    /// Opens a capture file; `-` is standard input.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("read-{}.pcapng", std::process::id()));
    /// # use forebay_net::{Control, Output, Session, open};
    /// # let names = ["sim:clock=virtual,count=10".parse()?];
    /// # let clock = open::clock(&names)?;
    /// # let ports = open::ports(&names, &Default::default(), &clock)?;
    /// # Session::open(ports, Output::File(path.clone()), Default::default(), clock, Control::new()?)?.run(&mut |_| {});
    /// let ledger = forebay_net::Capture::read(&path)?.each(|frame| println!("{} bytes", frame.wire_len))?;
    /// assert_eq!(ledger.counted, 10);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be opened, or is not a capture file.
    pub fn read(path: impl AsRef<Path>) -> Result<Capture> {
        Capture::with(&Name::File(path.as_ref().into()), &Options::default())
    }

    /// Opens any source with these options. [`Options::filter`] applies to every kind of source: if the port does not filter, the
    /// capture does.
    ///
    /// ```
    /// use forebay_net::{Capture, open::Options};
    /// let options = Options { filter: Some("greater 100".parse()?), ..Options::default() };
    /// let ledger = Capture::with(&"sim:count=1000,clock=virtual".parse()?, &options)?.each(|_| {})?;
    /// assert_eq!((ledger.counted, ledger.filtered), (0, 1000)); // the frames of the card have 60 bytes
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is no such source, the filter cannot match any of its packets, or the system refuses.
    pub fn with(name: &Name, options: &Options) -> Result<Capture> {
        let clock = open::clock(std::slice::from_ref(name))?;
        let opened = Options {
            reader_filters: true,
            ..options.clone()
        };
        let mut ports = open::ports(std::slice::from_ref(name), &opened, &clock)?;
        let Some(port) = ports.pop() else {
            unreachable!("a port for each name");
        };
        Capture::of(port, options.filter.as_ref(), clock)
    }

    /// Captures from a port that is open already. `clock` is the one that the port was made with; [`Clock::real`] for all but the
    /// simulated card. The filter applies if the port [does not filter](crate::port::PortInfo::filters) itself.
    ///
    /// # Errors
    /// No packet of the port can match the filter, the port was made with another clock, or no file descriptor is available.
    pub fn of(port: Box<dyn Port>, filter: Option<&Filter>, clock: Clock) -> Result<Capture> {
        port.info().runs_on(&clock, port.name())?;
        let filter = filter.filter(|_| !port.info().filters);
        let mut programs = filter.cloned().map(Programs::new);
        if let Some(programs) = &mut programs {
            let checked = programs.check(port.interfaces());
            checked.map_err(|error| error.refused_by(port.name()))?;
        }
        Ok(Capture {
            taking: Taking::new(port, programs, clock.clone()),
            gathered: Gathered::default(),
            poller: Poller::new(BUDGET, clock.clone()),
            clock,
            stop: Arc::new(Signal::new()?),
            never: Signal::new()?,
            is_stopped: false,
            descriptor: None,
        })
    }

    /// Waits for the next frame; `None`: the source has ended, or it was stopped. The frame stays where it is until the next call.
    ///
    /// # Errors
    /// The source failed, for example because its interface was deleted. Earlier frames were delivered.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>> {
        Ok(self.next_timeout(Duration::MAX)?.ready())
    }

    /// Waits for the next frame for up to `timeout` of the port's clock. A timeout of 0 does not wait.
    ///
    /// ```
    /// use forebay_net::{Capture, Next};
    /// use std::time::Duration;
    /// let mut capture = Capture::open("sim:rate=1pps,clock=virtual")?; // a frame each second
    /// assert!(matches!(capture.next_timeout(Duration::from_secs(5))?, Next::Ready(_)));
    /// assert_eq!(capture.next_timeout(Duration::from_millis(10))?, Next::TimedOut);
    /// capture.stopper().stop();
    /// assert_eq!(capture.next_timeout(Duration::from_millis(10))?, Next::Stopped);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`next_frame`](Capture::next_frame).
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Next<Frame<'_>>> {
        let found = self.find(timeout)?;
        let frame = match found {
            Next::Ready(()) => self.taking.take()?,
            _ => None,
        };
        // A port that takes back a frame that it had shown is one without frames now.
        Ok(frame.map_or(found.without(), Next::Ready))
    }

    /// Waits for up to `timeout` for the next frame, and lends it together with those that follow it and are there. They stay where they
    /// are until the next call: in the ring of an interface, or in the memory to which a file is read. Frames of other sources are copied
    /// ([`Batch::is_borrowed`]).
    ///
    /// ```
    /// use forebay_net::{Capture, Next};
    /// use std::time::Duration;
    /// let mut capture = Capture::open("sim:rate=1G,count=1000,clock=virtual")?;
    /// let mut bytes = 0;
    /// while let Next::Ready(batch) = capture.next_batch(Duration::from_secs(1))? {
    ///     bytes += batch.frames().map(|frame| frame.data.len()).sum::<usize>();
    /// }
    /// assert_eq!((bytes, capture.finish()?.counted), (60_000, 1000));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`next_frame`](Capture::next_frame).
    pub fn next_batch(&mut self, timeout: Duration) -> Result<Next<Batch<'_>>> {
        let found = self.find(timeout)?;
        if found != Next::Ready(()) {
            return Ok(found.without());
        }
        let burst = self.taking.gather(&mut self.gathered)?;
        let memory = match self.gathered.is_borrowed() {
            true => burst.into_memory(),
            false => None,
        };
        Ok(Next::Ready(self.gathered.lend(memory)))
    }

    /// As [`next_batch`](Capture::next_batch), with frames that stay while the result lives, also without the capture. So they can be
    /// passed to another thread, or be held by another language.
    ///
    /// ```
    /// use forebay_net::{Capture, Next};
    /// let mut capture = Capture::open("sim:rate=1G,count=1000,clock=virtual")?;
    /// let Next::Ready(batch) = capture.take_batch(std::time::Duration::MAX)? else { panic!() };
    /// drop(capture);
    /// assert!(batch.frames().all(|frame| frame.data.len() == 60));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`next_frame`](Capture::next_frame).
    pub fn take_batch(&mut self, timeout: Duration) -> Result<Next<OwnedBatch>> {
        let found = self.find(timeout)?;
        if found != Next::Ready(()) {
            return Ok(found.without());
        }
        let mut burst = self.taking.gather(&mut self.gathered)?;
        let lent = match self.gathered.is_borrowed() && self.gathered.fills_memory() {
            true => burst.lend(),
            false => None,
        };
        Ok(Next::Ready(match lent {
            Some(memory) => self.gathered.own(memory),
            None if self.gathered.is_borrowed() => self.gathered.own_copy(burst.memory()),
            None => self.gathered.own_copy(None),
        }))
    }

    /// Shows every frame to `each`, until the source ends or is stopped. Returns the counts. The closure runs on the calling
    /// thread, and may borrow.
    ///
    /// ```
    /// let capture = forebay_net::Capture::open("sim:clock=virtual")?; // without end
    /// let (stopper, mut packets) = (capture.stopper(), 0);
    /// let ledger = capture.each(|frame| {
    ///     packets += 1;
    ///     if packets == 100 {
    ///         stopper.stop(); // or from a signal handler
    ///     }
    /// })?;
    /// assert!(packets >= 100 && ledger.counted == packets); // those that had arrived are shown, too
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// The source failed. Earlier frames were shown.
    pub fn each(mut self, each: impl FnMut(&Frame<'_>)) -> Result<Ledger> {
        self.show_all(each)?;
        Ok(self.ledger())
    }

    /// Detaches from the source, and returns the counts of all frames. Those that were received and not taken count as
    /// [`unread`](Ledger::unread). Calls that wait then find the end.
    ///
    /// # Errors
    /// The source failed. [`ledger`](Capture::ledger) has what was counted until then; what was left in the source is `unread`.
    pub fn finish(&mut self) -> Result<Ledger> {
        let taken = self.taking.sieve.taken;
        self.taking.is_found = false;
        self.stop.raise();
        let shown = self.show_all(|_| {});
        let all = std::mem::replace(&mut self.taking.sieve.taken, taken);
        self.taking.unread += all - taken;
        if shown.is_err() {
            let ledger = self.ledger();
            self.taking.unread += ledger.received.saturating_sub(ledger.accounted());
        }
        shown?;
        Ok(self.ledger())
    }

    /// Requests that the [`descriptor`](Capture::descriptor) become readable with the next frame. Returns whether to wait for it: `false`
    /// means that there are frames, that the source has ended, or that the call took frames that the filter rejects; do not wait then, and
    /// try again. Frames that were lent are released. On a virtual clock it does not wait, but moves the clock.
    ///
    /// ```
    /// use forebay_net::{Capture, Next};
    /// use rustix::event::{PollFd, PollFlags, poll};
    /// use std::time::Duration;
    /// let mut capture = Capture::open("sim:rate=100pps,count=3")?;
    /// let mut frames = 0;
    /// loop {
    ///     match capture.next_batch(Duration::ZERO)? {
    ///         Next::Ready(batch) => frames += batch.len(),
    ///         Next::TimedOut => if capture.arm()? {
    ///             // Other descriptors could be there, too.
    ///             poll(&mut [PollFd::new(&capture.descriptor()?, PollFlags::IN)], None).unwrap();
    ///         }
    ///         _ => break,
    ///     }
    /// }
    /// assert_eq!(frames, 3);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`next_frame`](Capture::next_frame), or as [`descriptor`](Capture::descriptor).
    pub fn arm(&mut self) -> Result<bool> {
        if self.find(Duration::ZERO)? != Next::TimedOut {
            return Ok(false);
        }
        if !self.watch()? {
            return Ok(false);
        }
        // A frame may have come before the port was armed. The port has it in memory if it is the first one of an interface that the filter
        // does not know, or if descriptions precede it: what the descriptor is for was read. So the port is asked again.
        let is_idle = self.taking.look(BUDGET)? == 0 && self.watch()?;
        if !is_idle {
            self.disarm();
        }
        Ok(is_idle)
    }

    /// Has the descriptor wait for what the port waits for. False: the port has something, or has ended.
    fn watch(&mut self) -> Result<bool> {
        let descriptor = made(&mut self.descriptor, &self.stop)?;
        waited(descriptor.clear())?;
        if self.is_stopped {
            waited(descriptor.forget_stop(&self.stop))?;
        }
        match self.taking.sleeper.port.arm()? {
            Wake::Fd(fd) => {
                waited(descriptor.watch(fd))?;
                if self.is_stopped {
                    // A port need not signal that its last frame was taken.
                    waited(descriptor.watch_timer(MAX_SLEEP))?;
                }
            }
            Wake::At(then) if !self.clock.is_virtual() => {
                let left = then.saturating_sub(self.clock.now());
                waited(descriptor.watch_timer(Duration::from_nanos(left)))?;
            }
            Wake::At(then) => {
                self.clock.sleep_until(then);
                return Ok(false);
            }
            Wake::Ready | Wake::End => return Ok(false),
        }
        Ok(true)
    }

    /// Cancels the request of [`arm`](Capture::arm): frames make the descriptor readable no more. A request to stop still does.
    pub fn disarm(&mut self) {
        self.taking.disarm();
        if let Some(descriptor) = &mut self.descriptor {
            let _ = descriptor.clear(); // at worst, the program wakes for nothing
        }
    }

    /// The descriptor to wait on after [`arm`](Capture::arm) has returned `true`. It is readable while frames wait, once the source has ended,
    /// and after [`Stopper::stop`] until the next [`arm`](Capture::arm). A share has none: a reader looks for packets there each 10 ms, for which it is
    /// readable, too; and so with `ssh:` from the stop to the end.
    ///
    /// # Errors
    /// No file descriptor is available.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        let descriptor: &Descriptor = made(&mut self.descriptor, &self.stop)?;
        Ok(descriptor.as_fd())
    }

    /// A handle that ends the capture from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// The interfaces that frames refer to by [number](Frame::interface). Those of a file may follow later.
    pub fn interfaces(&self) -> &[Interface] {
        self.taking.sleeper.port.interfaces()
    }

    /// The counts of each interface that a capture file records itself, as far as it is read. Other sources have none.
    pub fn recorded(&self) -> &[Option<Statistics>] {
        self.taking.sleeper.port.report().file_statistics
    }

    fn show_all(&mut self, each: impl FnMut(&Frame<'_>)) -> Result<()> {
        let mut poller = Poller::new(BUDGET, self.clock.clone());
        let mut showing = Showing {
            taking: &mut self.taking,
            each,
        };
        poller.run(&mut showing, &self.stop)?;
        if !showing.has_ended() {
            self.is_stopped = true;
            showing.taking.sleeper.port.stop()?;
            poller.run(&mut showing, &self.never)?;
        }
        Ok(())
    }

    /// Waits until the next frame is found, or the source has ended.
    fn find(&mut self, timeout: Duration) -> Result<Next<()>> {
        self.heed_stop()?;
        if timeout.is_zero() {
            if self.taking.look(BUDGET)? == 0 {
                // Whether it has ended.
                self.taking.arm()?;
                self.taking.disarm();
            }
        } else {
            if !self.is_stopped {
                self.poller
                    .run_timeout(&mut self.taking, &self.stop, timeout)?;
                if !self.taking.has_ended() {
                    self.heed_stop()?;
                }
            }
            if self.is_stopped {
                self.poller
                    .run_timeout(&mut self.taking, &self.never, timeout)?;
            }
        }
        Ok(
            match (self.taking.is_found, self.taking.sleeper.has_ended) {
                (true, _) => Next::Ready(()),
                (false, true) if self.is_stopped => Next::Stopped,
                (false, true) => Next::End,
                (false, false) => Next::TimedOut,
            },
        )
    }

    /// Detaches from the source if that was requested.
    fn heed_stop(&mut self) -> Result<()> {
        if self.stop.is_raised() && !self.is_stopped && !self.taking.sleeper.has_ended {
            self.is_stopped = true;
            self.taking.sleeper.port.stop()?;
        }
        Ok(())
    }

    /// The counts so far. Frames that the source has received and that were not taken are only in [`Ledger::received`], so they add up at the
    /// end only.
    ///
    /// ```
    /// let mut capture = forebay_net::Capture::open("sim:count=1000,clock=virtual")?;
    /// capture.next_frame()?;
    /// assert_eq!(capture.ledger().counted, 1);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn ledger(&mut self) -> Ledger {
        let taking = &mut self.taking;
        let mut ledger = Ledger::of_port(&mut taking.sleeper.port);
        ledger.counted = taking.sieve.taken;
        ledger.filtered += taking.sieve.filtered;
        ledger.unread = taking.unread;
        ledger
    }
}

fn waited<T>(done: io::Result<T>) -> Result<T> {
    done.map_err(|cause| Error::new("capture", "making a descriptor to wait on").because(cause))
}

/// The descriptor, which is made if there is none.
fn made<'a>(place: &'a mut Option<Descriptor>, stop: &Signal) -> Result<&'a mut Descriptor> {
    let descriptor = match place.take() {
        Some(descriptor) => descriptor,
        None => waited(Descriptor::new(stop))?,
    };
    Ok(place.insert(descriptor))
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Capture");
        shown.field("name", &self.taking.sleeper.port.name());
        shown.field("taken", &self.taking.sieve.taken);
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
