//! A port: where frames come from. The trait every source of packets implements, and what it yields.
//!
//! ```text
//!        look                       nothing there
//!  ┌──▶ receive(budget) ─▶ Burst ─────────────────▶ arm() ─▶ Wake::{Ready, Fd, At, End}
//!  │                        │ frames where they lie             │ look once more, then sleep
//!  └────────────────────────┴───────────── disarm() ◀───────────┘
//! ```
//!
//! A port never blocks and never drops a frame that was offered: what a [`Burst`] did not hand out
//! stays with the source, which is how a full store becomes backpressure at the wire.
//!
//! A port of your own, which hands out the frames of a list:
//!
//! ```
//! use forebay::{Result, time::Clock};
//! use forebay_net::{port::*, session::{Config, Control, Output, Session}};
//!
//! struct Listed { interfaces: [Interface; 1], frames: Vec<Vec<u8>>, taken: usize, left: usize }
//!
//! impl Frames for Listed {
//!     fn next_frame(&mut self) -> Option<Frame<'_>> {
//!         let data = self.frames.get(self.taken).filter(|_| self.left > 0)?;
//!         (self.taken, self.left) = (self.taken + 1, self.left - 1);
//!         let (time_ns, direction) = (1_000 * self.taken as u64, Direction::Inbound);
//!         Some(Frame { data, wire_len: data.len() as u32, time_ns, interface: 0, direction, dropped_before: 0, ..Frame::default() })
//!     }
//!     fn put_back(&mut self) { self.taken -= 1; self.left = 0 }
//!     fn release(&mut self) { self.left = 0 }
//! }
//!
//! impl Port for Listed {
//!     fn interfaces(&self) -> &[Interface] { &self.interfaces }
//!     fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
//!         self.left = budget;
//!         Ok(Burst::new(self))
//!     }
//!     fn arm(&mut self) -> Result<Wake<'_>> {
//!         Ok(if self.taken < self.frames.len() { Wake::Ready } else { Wake::End })
//!     }
//!     fn disarm(&mut self) {}
//!     fn stop(&mut self) -> Result<()> { Ok(()) }
//!     fn counts(&mut self) -> Counts {
//!         Counts { received: self.frames.len() as u64, dropped: Some(0), interface_dropped: None, filtered: Some(0) }
//!     }
//!     fn got(&self) -> Got { Got { backend: "listed", waits: true, ..Got::default() } }
//! }
//!
//! let interface = Interface { name: "list".into(), ..Interface::default() };
//! let port = Listed { interfaces: [interface], frames: vec![vec![0; 60]; 7], taken: 0, left: 0 };
//! let session = Session::open(
//!     vec![Box::new(port)], Output::Count, Config::default(), Clock::real(), Control::new()?,
//! )?;
//! let ledger = session.run(&mut |_| {}).ledger;
//! assert_eq!((ledger.counted, ledger.check()), (7, Ok(())));
//! # Ok::<(), forebay::Error>(())
//! ```

mod in_file;
mod link_type;

pub use in_file::{Block, BlockKind, InFile, InSection, Left, Marks, Odd};
pub use link_type::LinkType;

use forebay::{Result, store::Loan};
use std::{os::fd::BorrowedFd, sync::Arc, time::Duration};

/// What a capture file has to know about where its frames came from.
///
/// The default is nameless Ethernet with nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The name users type: `eth0`, `sim`.
    pub name: String,
    /// One line for the start message, such as `1 Gb/s, 64-byte frames, seed 1`; may be empty.
    pub description: String,
    /// The link-layer type, as in pcap files.
    pub link: LinkType,
    /// The most bytes of a frame that the source keeps.
    pub snaplen: u32,
    /// The nominal speed in bits a second, where the source knows it.
    pub bits_per_second: Option<u64>,
    /// How finely the source tells time.
    pub resolution: Resolution,
    /// What else a capture file says of it, if it comes from one.
    pub in_file: Option<Arc<InFile>>,
}

impl Default for Interface {
    fn default() -> Self {
        Interface {
            name: String::new(),
            description: String::new(),
            link: LinkType::ETHERNET,
            snaplen: 262_144,
            bits_per_second: None,
            resolution: Resolution::NANOSECONDS,
            in_file: None,
        }
    }
}

/// How finely a source tells time: the byte of pcapng's `if_tsresol`. Its low seven bits are `n` of
/// 10⁻ⁿ seconds, or of 2⁻ⁿ seconds where the top bit is set.
///
/// ```
/// use forebay_net::port::Resolution;
/// assert_eq!(Resolution::default(), Resolution::NANOSECONDS);
/// assert_eq!(Resolution::MICROSECONDS, Resolution(6));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution(pub u8);

impl Resolution {
    /// 10⁻⁹ seconds.
    pub const NANOSECONDS: Resolution = Resolution(9);
    /// 10⁻⁶ seconds: the classic format's first magic, and pcapng's where it says nothing.
    pub const MICROSECONDS: Resolution = Resolution(6);
}

impl Default for Resolution {
    /// Nanoseconds, which is what live sources have.
    fn default() -> Self {
        Resolution::NANOSECONDS
    }
}

/// Which way a frame went, where the source knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The source cannot tell.
    #[default]
    Unknown,
    /// The frame came in.
    Inbound,
    /// This machine sent it.
    Outbound,
}

/// One packet where it lies: its bytes and what is known about it.
///
/// The default is empty, and useful for the fields that a source does not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The bytes kept, from the link-layer header on.
    pub data: &'a [u8],
    /// Bytes it had on the wire, the check sequence not counted; at least `data.len()`.
    pub wire_len: u32,
    /// Nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// Index into [`Port::interfaces`].
    pub interface: u32,
    /// Which way it went.
    pub direction: Direction,
    /// Frames the source lost directly before this one.
    pub dropped_before: u64,
    /// The options of its block in a pcapng file, as they lie there; empty where there is no such block.
    pub options: &'a [u8],
    /// What is odd about it, where it comes from a file.
    pub marks: Marks,
}

/// Frames that lie one behind another in a pcapng file, as [`Format::put_frame`](crate::format::Format::put_frame) would compose
/// them for an interface with the same number and resolution: whoever writes just that can copy them at once.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Enhanced packet blocks, whole ones.
    pub bytes: &'a [u8],
    /// How many, 1 or more.
    pub frames: usize,
    /// Index into [`Port::interfaces`], of all of them.
    pub interface: u32,
    /// Nanoseconds since the Unix epoch, of the first.
    pub time_ns: u64,
    /// Bytes that they had on the wire, together.
    pub wire_bytes: u64,
    /// The most bytes kept of one.
    pub longest: u32,
}

/// A port's side of a [`Burst`]: hands out frames one after another.
pub trait Frames {
    /// The next frame, or `None` at the end of this burst.
    fn next_frame(&mut self) -> Option<Frame<'_>>;
    /// Takes the last frame back, as if it had not been handed out.
    fn put_back(&mut self);
    /// The next frames, at most `most`, if they are a run. They are not handed out by that.
    fn next_run(&self, most: usize) -> Option<Run<'_>> {
        let _ = most;
        None
    }
    /// The run that [`next_run`](Frames::next_run) has just shown is handed out.
    fn take_run(&mut self) {}
    /// The next frames, at most `most`, if they are a run in memory that can be lent, and worth that: however many, whatever the budget.
    /// They are not handed out by that.
    fn next_loan(&self, most: usize) -> Option<Run<'_>> {
        let _ = most;
        None
    }
    /// The run that [`next_loan`](Frames::next_loan) has just shown is handed out, and its bytes lent.
    fn take_loan(&mut self) -> Option<Loan> {
        None
    }
    /// Blocks of a file that lie before the next frame, or at its end, and belong into a copy. Those that are not taken
    /// are forgotten when the burst ends.
    fn take_blocks(&mut self) -> Vec<Block> {
        Vec::new()
    }
    /// The burst is over: gives what was handed out back to the source.
    fn release(&mut self);
}

/// Up to a budget of frames, each seen in place; dropping it releases what was taken.
///
/// A frame counts as taken once [`next_frame`](Burst::next_frame) returned it, unless
/// [`put_back`](Burst::put_back) follows: then the next burst begins with it again.
pub struct Burst<'a>(&'a mut dyn Frames);

impl<'a> Burst<'a> {
    /// A burst over a port's frames.
    pub fn new(frames: &'a mut dyn Frames) -> Self {
        Burst(frames)
    }

    /// The next frame, valid until the next call.
    #[inline]
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        self.0.next_frame()
    }

    /// The next frames, at most `most`, if they are a run; most ports have none. They are taken when
    /// [`take_run`](Burst::take_run) follows, and otherwise handed out one by one.
    pub fn next_run(&self, most: usize) -> Option<Run<'_>> {
        self.0.next_run(most)
    }

    /// Takes the run that [`next_run`](Burst::next_run) has just shown.
    pub fn take_run(&mut self) {
        self.0.take_run();
    }

    /// The next frames, at most `most`, if they are a run whose bytes can be lent; it may be longer than the budget, since it is taken
    /// as a whole when [`take_loan`](Burst::take_loan) follows.
    pub fn next_loan(&self, most: usize) -> Option<Run<'_>> {
        self.0.next_loan(most)
    }

    /// Takes the run that [`next_loan`](Burst::next_loan) has just shown, and its memory until the loan is dropped.
    pub fn take_loan(&mut self) -> Option<Loan> {
        self.0.take_loan()
    }

    /// Blocks of a file that belong into a copy before the frames of this burst. Only those asked for before the first
    /// frame are sure to be at the right place.
    pub fn take_blocks(&mut self) -> Vec<Block> {
        self.0.take_blocks()
    }

    /// Gives the last frame back; the next burst begins with it. Call it at most once a frame.
    pub fn put_back(&mut self) {
        self.0.put_back();
    }
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// What will tell that an armed port has something to see.
#[derive(Debug)]
pub enum Wake<'a> {
    /// There may be frames already: look again before sleeping.
    Ready,
    /// This descriptor becomes readable.
    Fd(BorrowedFd<'a>),
    /// The clock reaches this time ([`Clock::now`](forebay::time::Clock::now) of the port's clock).
    At(u64),
    /// The source is at its end: nothing will ever come.
    End,
}

/// A port's own 64-bit counters since it was opened. `None` is "this source cannot tell", never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames the source saw for us, those that it then dropped included.
    pub received: u64,
    /// Of these, frames lost for want of room in the source's own ring.
    pub dropped: Option<u64>,
    /// Frames the interface lost before this source saw them; outside `received`.
    pub interface_dropped: Option<u64>,
    /// Frames of `received` that the source's own filter rejected. `None`: it rejects without
    /// counting, and what it rejects is outside `received`.
    pub filtered: Option<u64>,
}

/// How often a source's interface was down, and for how long: no packet of that time was seen.
///
/// An outage shorter than the source's checks counts with the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outages {
    /// Outages that began.
    pub count: u64,
    /// How long they lasted together, the present one included.
    pub total: Duration,
    /// How long the last one lasted, or has lasted so far.
    pub last: Duration,
    /// The interface is down now.
    pub is_down: bool,
}

/// What is known about one interface at the end of a capture. `None` is unknown.
///
/// ```
/// use forebay_net::{format::Format, port::{Interface, Statistics}};
/// let counts = Statistics { received: Some(10), dropped: Some(3), delivered: Some(7), ..Statistics::default() };
/// let described = Format::Pcapng.describe(&Interface::default(), 0);
/// let block = Format::Pcapng.statistics(&counts, &described);
/// assert_eq!(block[..4], 5u32.to_le_bytes()); // an interface statistics block
/// assert!(Format::Pcap.statistics(&counts, &described).is_empty()); // it has no place for it
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// When these counts were taken, in nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// When the capture began.
    pub began_ns: Option<u64>,
    /// When it ended.
    pub ended_ns: Option<u64>,
    /// Frames that the interface received, whoever asked for them.
    pub interface_received: Option<u64>,
    /// Lost by the interface before the source saw them.
    pub interface_dropped: Option<u64>,
    /// Frames that passed the filter, those dropped behind it included.
    pub received: Option<u64>,
    /// Of these, dropped by the source.
    pub dropped: Option<u64>,
    /// Of these, taken from the source.
    pub delivered: Option<u64>,
}

/// What was got, which need not be what was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Got {
    /// Which backend delivers: `sim`, `af_packet`.
    pub backend: &'static str,
    /// How frames reach us: `generated`, `mapped ring`.
    pub copy: &'static str,
    /// Bytes of the source's ring; 0 where it has none.
    pub ring_bytes: u64,
    /// Frames of the source's ring where it counts in frames; 0 where it does not.
    pub ring_frames: u64,
    /// The source waits for us: being slow loses nothing.
    pub waits: bool,
    /// The source applies the filter that it was opened with.
    pub filters: bool,
    /// Sources like this one are read one after another, in the order they are given.
    pub in_turn: bool,
    /// Threads of its own read ahead.
    pub reads_ahead: bool,
    /// Where timestamps come from: `kernel`, `arrival times of the simulation`.
    pub timestamps: &'static str,
}

/// A source of frames: polled, never blocking, with exact counts.
pub trait Port: Send {
    /// The interfaces whose numbers frames carry, at least one.
    fn interfaces(&self) -> &[Interface];

    /// How messages call this port: the name of its first interface, the path of a file as typed.
    fn name(&self) -> &str {
        self.interfaces().first().map_or("", |first| &first.name)
    }

    /// One look: up to `budget` frames, possibly none. Never blocks.
    ///
    /// # Errors
    /// The source broke (its interface was deleted); frames before that were delivered.
    fn receive(&mut self, budget: usize) -> Result<Burst<'_>>;

    /// Asks to be told about the next frame. After [`Wake::Fd`] or [`Wake::At`] the caller looks
    /// once more before it sleeps.
    ///
    /// # Errors
    /// As [`receive`](Port::receive).
    fn arm(&mut self) -> Result<Wake<'_>>;

    /// Back to polling: no more wake-ups until the next [`arm`](Port::arm).
    fn disarm(&mut self);

    /// Detaches from the source: from here on nothing new is received, what is left stays readable
    /// until [`arm`](Port::arm) says [`Wake::End`].
    ///
    /// # Errors
    /// The source could not be detached.
    fn stop(&mut self) -> Result<()>;

    /// The counters so far; final once [`arm`](Port::arm) has said [`Wake::End`].
    fn counts(&mut self) -> Counts;

    /// The outages so far of an interface whose return the source waits for.
    fn outages(&self) -> Outages {
        Outages::default()
    }

    /// What a capture file says about one of its interfaces, which then stands in a copy too.
    /// Sources that do not read files know nothing older than themselves.
    fn recorded(&self, interface: u32) -> Option<Statistics> {
        let _ = interface;
        None
    }

    /// What was got when it was opened.
    fn got(&self) -> Got;
}
