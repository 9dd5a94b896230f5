//! The trait [`Port`], which every source of packets implements, and the frames that a port hands out.
//!
//! ```text
//!        poll                       no frame
//!  ┌──▶ receive(budget) ─▶ Burst ─────────────────▶ arm() ─▶ Wake::{Ready, Fd, At, End}
//!  │                        │ frames, in place                  │ poll once more, then sleep
//!  └────────────────────────┴───────────── disarm() ◀───────────┘
//! ```
//!
//! - **Blocking.** [`Port::receive`], [`Port::arm`] and [`Port::disarm`] do not block. [`Port::stop`] may block for some
//!   milliseconds, until the source delivers no more frames.
//! - **Backpressure.** Frames that a [`Burst`] did not hand out stay in the source. So while the store is full, a file waits, and the ring of
//!   an interface fills up until the kernel drops frames and counts them. The port itself drops none.
//!
//! Example of a port, which hands out the frames of a list:
//!
//! ```
//! use forebay::{Result, time::Clock};
//! use forebay_net::{port::*, session::{SessionConfig, Control, Output, Session}};
//!
//! struct Listed { interfaces: [Interface; 1], frames: Vec<Vec<u8>>, taken: usize, left: usize }
//!
//! impl Frames for Listed {
//!     fn next_frame(&mut self) -> Option<Frame<'_>> {
//!         let data = self.frames.get(self.taken).filter(|_| self.left > 0)?;
//!         (self.taken, self.left) = (self.taken + 1, self.left - 1);
//!         let (time_ns, direction) = (1_000 * self.taken as u64, Direction::Inbound);
//!         Some(Frame { time_ns, direction, ..Frame::whole(data) })
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
//!     fn stop(&mut self) -> Result<()> { Ok(()) }
//!     fn counts(&mut self) -> Counts {
//!         Counts { received: self.frames.len() as u64, dropped: Some(0), interface_dropped: None, filtered: Some(0) }
//!     }
//!     fn info(&self) -> PortInfo { PortInfo { backend: "listed", waits: true, ..PortInfo::default() } }
//! }
//!
//! let interface = Interface { name: "list".into(), ..Interface::default() };
//! let port = Listed { interfaces: [interface], frames: vec![vec![0; 60]; 7], taken: 0, left: 0 };
//! let session = Session::open(
//!     vec![Box::new(port)], Output::Count, SessionConfig::default(), Clock::real(), Control::new()?,
//! )?;
//! let ledger = session.run(&mut |_| {}).ledger;
//! assert_eq!((ledger.counted, ledger.check()), (7, Ok(())));
//! # Ok::<(), forebay::Error>(())
//! ```

mod in_file;
mod link_type;
mod report;
mod runs;
mod threads;
mod unfinished;

pub(crate) use in_file::LATE_COMMENT;
pub use in_file::{Block, BlockKind, InFile, InSection, Left, Marks, Odd};
pub use link_type::LinkType;
pub use report::{Outages, PortReport, SocketLosses, Statistics, Unreadable};
pub use runs::{EncodedRun, EncodedRuns, Handover};
pub use threads::{Fanout, ThreadCounts};
pub use unfinished::Unfinished;
pub(crate) use unfinished::{folded, sum};

use forebay::{Error, Result, time::Clock};
use std::{os::fd::BorrowedFd, sync::Arc};

/// Describes the source of frames for a capture file.
///
/// The default is Ethernet without a name, with nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface name, such as `eth0` or `sim`.
    pub name: String,
    /// One line for the start message, such as `1 Gb/s, 64-byte frames, seed 1`; may be empty.
    pub description: String,
    /// The link-layer type, as in capture files.
    pub link: LinkType,
    /// The maximum number of bytes that the source keeps of a frame.
    pub snaplen: u32,
    /// The nominal speed in bits per second, if known.
    pub bits_per_second: Option<u64>,
    /// The resolution of the source's timestamps.
    pub resolution: Resolution,
    /// The clock that stamped its frames, if one was chosen. A pcapng file has it in a comment.
    pub time: Option<TimeSource>,
    /// Filters see its frames as the kernel's filters do: with their direction, and without the outer VLAN tag of Ethernet, which the kernel
    /// removed and the port put back.
    pub socket_view: bool,
    /// Further metadata, if the interface is one of a capture file.
    pub in_file: Option<Arc<InFile>>,
}

/// The bytes of a frame that are kept by default. libpcap and Wireshark read no longer frames.
pub const DEFAULT_SNAPLEN: u32 = 262_144;

/// The most bytes of a frame that can be kept. The longest frames of an interface are those of BIG TCP, with up to 524,280 bytes after the
/// link header (`GSO_MAX_SIZE` in Linux's include/linux/netdevice.h).
pub const MAX_SNAPLEN: u32 = 1_000_000;

/// The clock that stamps received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    /// The system's clock, read by the kernel when it receives a frame.
    Software,
    /// The clock of the network card. It is exact to nanoseconds, but agrees with the system's clock only if a program such as
    /// `phc2sys` sees to that.
    Hardware,
}

impl TimeSource {
    /// `software` or `hardware`.
    pub fn name(self) -> &'static str {
        match self {
            TimeSource::Software => "software",
            TimeSource::Hardware => "hardware",
        }
    }
}

impl Default for Interface {
    fn default() -> Self {
        Interface {
            name: String::new(),
            description: String::new(),
            link: LinkType::ETHERNET,
            snaplen: DEFAULT_SNAPLEN,
            bits_per_second: None,
            resolution: Resolution::NANOSECONDS,
            time: None,
            socket_view: false,
            in_file: None,
        }
    }
}

/// The resolution of timestamps, encoded like pcapng's `if_tsresol`. The low seven bits are `n` in 10⁻ⁿ seconds, or in 2⁻ⁿ
/// seconds if the top bit is set.
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
    /// 10⁻⁶ seconds: implied by the classic format's first magic number, and pcapng's default.
    pub const MICROSECONDS: Resolution = Resolution(6);
}

impl Default for Resolution {
    /// Nanoseconds, as used by live sources.
    fn default() -> Self {
        Resolution::NANOSECONDS
    }
}

/// The direction of a frame, if known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// The direction is unknown.
    #[default]
    Unknown,
    /// The frame was received.
    Inbound,
    /// The frame was sent by this machine.
    Outbound,
}

/// One packet in place: its bytes and metadata.
///
/// The default is empty, for fields that a source does not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The bytes kept, starting at the link-layer header.
    pub data: &'a [u8],
    /// Length on the wire in bytes, without the frame check sequence; at least `data.len()`.
    pub wire_len: u32,
    /// Nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// Index into [`Port::interfaces`].
    pub interface: u32,
    /// Its direction.
    pub direction: Direction,
    /// Frames the source lost directly before this one.
    pub dropped_before: u64,
    /// The options of its block in a pcapng file, in their encoding; empty if there is no such block.
    pub options: &'a [u8],
    /// Irregularities, if it comes from a file.
    pub marks: Marks,
    /// Offloads that were not done, if the port reports them
    /// ([`Options::reports_unfinished`](crate::open::Options::reports_unfinished)).
    pub unfinished: Unfinished,
}

impl<'a> Frame<'a> {
    /// A frame with all of these bytes, and the default of every other field.
    pub fn whole(data: &'a [u8]) -> Self {
        Frame {
            data,
            wire_len: data.len() as u32,
            ..Frame::default()
        }
    }
}

/// The port's side of a [`Burst`]: hands out frames in order.
pub trait Frames {
    /// Returns the next frame, or `None` at the end of this burst.
    fn next_frame(&mut self) -> Option<Frame<'_>>;
    /// Puts the last frame back, as if it had not been handed out; nothing if there is none, as after [`lend`](Frames::lend).
    fn put_back(&mut self);
    /// For sources whose packets are encoded already, such as files: the frames as runs. Other ports leave the default.
    fn encoded_runs(&mut self) -> Option<&mut dyn EncodedRuns> {
        None
    }
    /// Returns the blocks of a file that precede the next frame, or that end the file, and belong in a copy. Blocks that are not
    /// taken are discarded when the burst ends.
    fn take_blocks(&mut self) -> Vec<Block> {
        Vec::new()
    }
    /// The memory that holds the bytes and the options of all frames of this burst until the port is polled again. `None`, the default:
    /// those of a frame stay only until the next one is handed out.
    fn memory(&self) -> Option<&[u8]> {
        None
    }
    /// Hands over [`memory`](Frames::memory) after the last frame of the burst: it stays as it is while the result lives, also without
    /// the port. `None`, the default: the port needs it.
    fn lend(&mut self) -> Option<LentMemory> {
        None
    }
    /// Ends the burst: returns the frames handed out to the source.
    fn release(&mut self);
}

/// Memory that a port has lent. It returns to the port when the last clone is dropped, in any thread.
pub type LentMemory = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Up to a budget of frames, each accessed in place. Dropping the burst releases the frames taken.
///
/// A frame counts as taken once [`next_frame`](Burst::next_frame) returned it, unless [`put_back`](Burst::put_back) follows; then
/// the next burst begins with it again.
pub struct Burst<'a>(&'a mut dyn Frames);

impl<'a> Burst<'a> {
    /// Creates a burst over a port's frames.
    pub fn new(frames: &'a mut dyn Frames) -> Self {
        Burst(frames)
    }

    /// Returns the next frame, valid until the next call.
    #[inline]
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        self.0.next_frame()
    }

    /// Takes the next frame, and leaves its release to the next poll of the port.
    pub(crate) fn into_frame(self) -> Option<Frame<'a>> {
        self.leave().next_frame()
    }

    /// Ends the burst without a release.
    fn leave(mut self) -> &'a mut dyn Frames {
        // A leaked `Nothing` has no bytes, so nothing is allocated. Dropping the burst releases it instead of the frames.
        std::mem::replace(&mut self.0, Box::leak(Box::new(Nothing)))
    }

    /// The memory that holds the bytes of all frames of this burst, if there is one: [`Frames::memory`].
    pub fn memory(&self) -> Option<&[u8]> {
        self.0.memory()
    }

    /// The same, and leaves the release of the frames to the next poll of the port.
    pub(crate) fn into_memory(self) -> Option<&'a [u8]> {
        self.leave().memory()
    }

    /// Takes over this memory: [`Frames::lend`].
    pub fn lend(&mut self) -> Option<LentMemory> {
        self.0.lend()
    }

    /// The frames as encoded runs; `None` for most ports.
    pub fn encoded_runs(&mut self) -> Option<&mut dyn EncodedRuns> {
        self.0.encoded_runs()
    }

    /// Returns the blocks of a file that belong in a copy before the frames of this burst. Only blocks taken before the first
    /// frame are certain to be in the right position.
    pub fn take_blocks(&mut self) -> Vec<Block> {
        self.0.take_blocks()
    }

    /// Puts the last frame back; the next burst begins with it. Call it right after the frame, at most once: at another time it may do
    /// nothing.
    pub fn put_back(&mut self) {
        self.0.put_back();
    }
}

/// No frames.
struct Nothing;

impl Frames for Nothing {
    fn next_frame(&mut self) -> Option<Frame<'_>> {
        None
    }
    fn put_back(&mut self) {}
    fn release(&mut self) {}
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// How to find out that an armed port may have frames.
#[derive(Debug)]
#[non_exhaustive]
pub enum Wake<'a> {
    /// There may be frames already: poll again before sleeping.
    Ready,
    /// Wait until this descriptor becomes readable.
    Fd(BorrowedFd<'a>),
    /// Wait until the clock ([`Clock::now`](forebay::time::Clock::now) of the port's clock) reaches this time.
    At(u64),
    /// The source has ended: no frame will follow.
    End,
}

/// A port's own 64-bit counters since it was opened. `None` means unknown, as opposed to 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that the source received for this port, including those it then dropped.
    pub received: u64,
    /// Of these, frames lost because the source's own ring had no room.
    pub dropped: Option<u64>,
    /// Frames that the interface lost before this source saw them; not part of `received`.
    pub interface_dropped: Option<u64>,
    /// Frames of `received` that the source's own filter rejected. `None`: rejected frames are not counted, and not part of
    /// `received`.
    pub filtered: Option<u64>,
}

impl Counts {
    /// Frames that the source has handed out, or will.
    pub fn accepted(&self) -> u64 {
        let others = self.dropped.unwrap_or(0) + self.filtered.unwrap_or(0);
        self.received.saturating_sub(others)
    }
}

/// The actual properties of an open port, which may differ from the requested ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortInfo {
    /// The backend: `sim`, `af_packet`.
    pub backend: &'static str,
    /// How frames are delivered: `generated`, `mapped ring`.
    pub copy: &'static str,
    /// Size of the source's ring in bytes; 0 without a ring.
    pub ring_bytes: u64,
    /// Size of the source's ring in frames, if it counts in frames; otherwise 0.
    pub ring_frames: u64,
    /// The source waits for the reader, so that a slow reader loses nothing.
    pub waits: bool,
    /// The source applies the filter with which it was opened.
    pub filters: bool,
    /// Sources of this kind are read in sequence, in the order given.
    pub in_turn: bool,
    /// The source has threads that read ahead.
    pub reads_ahead: bool,
    /// [`Counts::dropped`] are packets that were overwritten in shared memory before they were read, not drops of the kernel.
    pub overruns: bool,
    /// Frames may differ from those on the wire because of offloads: their names for `ethtool -K`, and the command that turns off
    /// those that can be.
    pub offloads: Vec<&'static str>,
    /// See above.
    pub offloads_off: Option<String>,
    /// The process that shares the packets, if it is another one.
    pub owner: Option<Owner>,
    /// The origin of timestamps: `kernel`, `arrival times of the simulation`.
    pub timestamps: &'static str,
    /// The clock that the port was made with, on which its readers sleep. `None`: the machine's.
    pub clock: Option<Clock>,
}

impl PortInfo {
    /// Whether packets of this port and of `other` are stamped by one clock of this machine as they arrive.
    pub(crate) fn shares_clock_with(&self, other: &PortInfo) -> bool {
        self.timestamps == other.timestamps
            && (self.has_system_time() || self.timestamps == SIMULATED_TIME)
    }

    /// Whether a reader on `clock` can read the port. Files, which wait, can be read on any.
    ///
    /// # Errors
    /// The reader would sleep on another clock than the port.
    pub(crate) fn runs_on(&self, clock: &Clock, name: &str) -> Result<()> {
        let is_its = match &self.clock {
            Some(its) => its == clock,
            None => self.waits || !clock.is_virtual(),
        };
        match is_its {
            true => Ok(()),
            false => Err(Error::invalid(name, "the interface has another clock")
                .advise("Make the port and what reads it with clones of one clock")),
        }
    }

    /// Whether the times of packets follow the system's clock, which may be set.
    pub(crate) fn has_system_time(&self) -> bool {
        self.timestamps == KERNEL_TIME
    }
}

/// The origins of timestamps ([`PortInfo::timestamps`]) with which it is known which packets may still come.
pub(crate) const KERNEL_TIME: &str = "kernel";
pub(crate) const SIMULATED_TIME: &str = "arrival times of the simulation";

/// A process and its user, as the kernel reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The number of its effective user.
    pub uid: u32,
    /// The number of the process; 0: it is not visible from this PID namespace.
    pub pid: u32,
}

/// A source of frames: polled, never blocking, with exact counts.
pub trait Port: Send {
    /// The interfaces that frames refer to by index, at least one.
    fn interfaces(&self) -> &[Interface];

    /// The port's name in messages: the name of its first interface, or the path of a file as typed.
    fn name(&self) -> &str {
        self.interfaces().first().map_or("", |first| &first.name)
    }

    /// Polls the port: returns up to `budget` frames, possibly none. Never blocks.
    ///
    /// # Errors
    /// The source failed, for example because its interface was deleted. Earlier frames were delivered.
    fn receive(&mut self, budget: usize) -> Result<Burst<'_>>;

    /// Requests a wake-up for the next frame. After [`Wake::Fd`] or [`Wake::At`] the caller polls once more before it sleeps.
    ///
    /// # Errors
    /// As [`receive`](Port::receive).
    fn arm(&mut self) -> Result<Wake<'_>>;

    /// Returns to polling: no further wake-ups until the next [`arm`](Port::arm). By default, nothing has to be done for that.
    fn disarm(&mut self) {}

    /// Detaches from the source. From here on no new frames are received, and the remaining ones stay readable until
    /// [`arm`](Port::arm) returns [`Wake::End`].
    ///
    /// # Errors
    /// The source could not be detached.
    fn stop(&mut self) -> Result<()>;

    /// The counters so far; final once [`arm`](Port::arm) has returned [`Wake::End`].
    fn counts(&mut self) -> Counts;

    /// What only some ports know. By default, nothing.
    fn report(&self) -> PortReport<'_> {
        PortReport::default()
    }

    /// The actual properties of the open port.
    fn info(&self) -> PortInfo;
}

/// A port that was opened by its name.
impl<P: Port + ?Sized> Port for Box<P> {
    fn interfaces(&self) -> &[Interface] {
        (**self).interfaces()
    }

    fn name(&self) -> &str {
        (**self).name()
    }

    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        (**self).receive(budget)
    }

    fn arm(&mut self) -> Result<Wake<'_>> {
        (**self).arm()
    }

    fn disarm(&mut self) {
        (**self).disarm();
    }

    fn stop(&mut self) -> Result<()> {
        (**self).stop()
    }

    fn counts(&mut self) -> Counts {
        (**self).counts()
    }

    fn report(&self) -> PortReport<'_> {
        (**self).report()
    }

    fn info(&self) -> PortInfo {
        (**self).info()
    }
}

#[cfg(test)]
mod put_back_tests;
