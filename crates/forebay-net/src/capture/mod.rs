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
//! | several sources, or a file of packets | [`Session`](crate::session::Session) |
//!
//! ```text
//!  each:        poll ─▶ burst of 64 frames ─▶ filter ─▶ closure, in place
//!  next_frame:  poll ─▶ find the next frame that matches, and put it back ─▶ take it, and release it with the next call
//! ```
//! - **Blocking.** A call sleeps until there is a frame, the time limit, the end of the source, or [`Stopper::stop`].
//! - **Counts.** [`Capture::finish`] returns the counts of every frame. They add up
//!   ([`Ledger::check`](crate::ledger::Ledger::check)), also after an early end.

use crate::{
    filter::{Filter, FrameProgram, Programs},
    ledger::Ledger,
    open::{self, Name, Options},
    port::{Frame, Interface, Port},
    receive::Sleeper,
};
use forebay::{
    Error, Result,
    poll::{Limit, Poller, Source},
    sync::Signal,
    time::Clock,
};
use std::{fmt, path::Path, sync::Arc, time::Duration};

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
    poller: Poller,
    clock: Clock,
    stop: Arc<Signal>,
    /// Never raised: for the frames that are left after `stop`.
    never: Signal,
    is_stopped: bool,
}

/// What [`Capture::next_timeout`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// The next frame.
    Frame(Frame<'a>),
    /// No frame came within the time. Later ones may.
    TimedOut,
    /// The source has ended, or it was stopped: no frame will follow.
    End,
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
            taking: Taking {
                sleeper: Sleeper::new(port, clock.clone()),
                programs,
                by_interface: Vec::new(),
                is_found: false,
                taken: 0,
                filtered: 0,
                unread: 0,
                owed: 0,
            },
            poller: Poller::new(BUDGET, clock.clone()),
            clock,
            stop: Arc::new(Signal::new()?),
            never: Signal::new()?,
            is_stopped: false,
        })
    }

    /// Waits for the next frame; `None`: the source has ended, or it was stopped. The frame stays where it is until the next call.
    ///
    /// # Errors
    /// The source failed, for example because its interface was deleted. Earlier frames were delivered.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>> {
        match self.next_timeout(Duration::MAX)? {
            Next::Frame(frame) => Ok(Some(frame)),
            Next::TimedOut | Next::End => Ok(None),
        }
    }

    /// Waits for the next frame for up to `timeout` of the port's clock. A timeout of 0 does not wait.
    ///
    /// ```
    /// use forebay_net::{Capture, Next};
    /// use std::time::Duration;
    /// let mut capture = Capture::open("sim:rate=1pps,clock=virtual")?; // a frame each second
    /// assert!(matches!(capture.next_timeout(Duration::from_secs(5))?, Next::Frame(_)));
    /// assert_eq!(capture.next_timeout(Duration::from_millis(10))?, Next::TimedOut);
    /// capture.stopper().stop();
    /// assert_eq!(capture.next_timeout(Duration::from_millis(10))?, Next::End);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`next_frame`](Capture::next_frame).
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Next<'_>> {
        self.find(timeout)?;
        let has_ended = self.taking.sleeper.has_ended;
        Ok(match self.taking.take()? {
            Some(frame) => Next::Frame(frame),
            None if has_ended => Next::End,
            None => Next::TimedOut,
        })
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
    /// [`unread`](Ledger::unread).
    ///
    /// # Errors
    /// The source failed.
    pub fn finish(mut self) -> Result<Ledger> {
        let taken = self.taking.taken;
        self.taking.is_found = false;
        self.stop.raise();
        self.show_all(|_| {})?;
        self.taking.unread = self.taking.taken - taken;
        self.taking.taken = taken;
        Ok(self.ledger())
    }

    /// A handle that ends the capture from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// The interfaces that frames refer to by [number](Frame::interface). Those of a file may follow later.
    pub fn interfaces(&self) -> &[Interface] {
        self.taking.sleeper.port.interfaces()
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
    fn find(&mut self, timeout: Duration) -> Result<()> {
        if timeout.is_zero() {
            self.taking.look(BUDGET)?;
            return Ok(());
        }
        if !self.is_stopped {
            if !self.stop.is_raised() {
                self.poller
                    .run_timeout(&mut self.taking, &self.stop, timeout)?;
            }
            if self.taking.has_ended() || !self.stop.is_raised() {
                return Ok(());
            }
            self.is_stopped = true;
            self.taking.sleeper.port.stop()?;
        }
        self.poller
            .run_timeout(&mut self.taking, &self.never, timeout)?;
        Ok(())
    }

    /// The counts at the end.
    fn ledger(&mut self) -> Ledger {
        let Taking {
            sleeper,
            taken,
            filtered,
            unread,
            ..
        } = &mut self.taking;
        let mut ledger = Ledger::of_port(&mut sleeper.port);
        ledger.counted = *taken;
        ledger.filtered += *filtered;
        ledger.unread = *unread;
        ledger
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Capture");
        shown.field("name", &self.taking.sleeper.port.name());
        shown.field("taken", &self.taking.taken);
        shown.finish_non_exhaustive()
    }
}

/// The port, its filter, and the counts. As a [`Source`], it finds the next frame that matches, and leaves it in the port.
struct Taking {
    sleeper: Sleeper<Box<dyn Port>>,
    /// The filter, if the port does not filter.
    programs: Option<Programs>,
    /// The program for each interface that is known so far.
    by_interface: Vec<FrameProgram>,
    /// The next frame of the port matches.
    is_found: bool,
    taken: u64,
    filtered: u64,
    unread: u64,
    /// Losses reported by frames that were rejected; the next matching frame reports them.
    owed: u64,
}

impl Taking {
    /// Shows up to `budget` frames to `each`, without those that the filter rejects. If it returns `false`, the frame stays in the
    /// port, and no other one follows. Returns the number of frames, including rejected ones.
    fn show(&mut self, budget: usize, mut each: impl FnMut(&Frame<'_>) -> bool) -> Result<usize> {
        if let Some(programs) = &mut self.programs {
            let known = self.by_interface.len();
            let new = self.sleeper.port.interfaces().iter().skip(known);
            let new = new.map(|interface| programs.of_interface(interface));
            self.by_interface.extend(new);
        }
        let mut burst = self.sleeper.port.receive(budget)?;
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
        Ok(seen)
    }

    /// Takes the frame that was found. It is released when the port is polled again.
    fn take(&mut self) -> Result<Option<Frame<'_>>> {
        if !std::mem::take(&mut self.is_found) {
            return Ok(None);
        }
        let owed = std::mem::take(&mut self.owed);
        let frame = self.sleeper.port.receive(1)?.into_frame();
        self.taken += u64::from(frame.is_some());
        Ok(frame.map(|frame| Frame {
            dropped_before: frame.dropped_before.saturating_add(owed),
            ..frame
        }))
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
struct Showing<'a, F> {
    taking: &'a mut Taking,
    each: F,
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

    fn arm(&mut self) -> Result<()> {
        self.taking.sleeper.arm()
    }

    fn sleep(&mut self, limit: &Limit<'_>) -> Result<()> {
        self.taking.sleeper.sleep(limit)
    }

    fn disarm(&mut self) {
        self.taking.sleeper.port.disarm();
    }

    fn has_ended(&self) -> bool {
        self.taking.sleeper.has_ended
    }
}

#[cfg(test)]
mod tests;
