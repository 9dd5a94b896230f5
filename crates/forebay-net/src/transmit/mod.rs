//! The trait [`TxPort`], which every way to send frames implements, and [`Pace`], which determines when each frame is due.
//!
//! ```text
//!  reserve(n) ─▶ empty packets in the port's slots ─▶ commit(packets) ─▶ │ pending │ ─▶ kernel ─▶ accepted
//!      ▲                                                 │ never blocks      │ advance()  └──▶ failed, by cause
//!      └──────── slots of completed packets ◀────────────┴── no room: arm() ─▶ TxWake ─▶ wait, advance() again
//! ```
//!
//! Calls of a port do not block. Every committed packet is *pending* until the kernel has accepted it or it has failed:
//!
//! ```text
//! sent = accepted + failed{cause} + pending        at any time; pending is 0 after drain()
//! ```
//!
//! *Accepted* means that the kernel took the frame for this interface. The frame may still be dropped later: by the queueing discipline
//! (for example, `fq_codel` drops frames when it is full), by the driver, or by the receiver. [`TxConfig::bypass_qdisc`] rules out
//! the first.
//!
//! A packet may come from any pool. [`TxInfo::copy`] shows whether the backend copies its bytes. The fewest copies are made if frames
//! are built in packets from [`TxPort::reserve`].
//!
//! Sending a hundred frames:
//!
//! ```
//! use forebay_net::{control::Control, open, transmit::{self, TxConfig}};
//!
//! let mut port = match open::transmit(&"lo".parse()?, &TxConfig::default()) {
//!     Ok(port) => port,
//!     Err(reason) => return Ok(println!("skipped: {reason}")), // needs CAP_NET_RAW
//! };
//! # return Ok::<(), forebay::Error>(()); // a test must not send to an interface that others use
//! let control = Control::new()?;
//! let mut packets = Vec::new();
//! let mut left = 100;
//! while left > 0 && !control.is_stopping() {
//!     left -= port.reserve(left - packets.len(), &mut packets);
//!     for packet in &mut packets {
//!         packet.put(60).unwrap().fill(0xff); // a frame to the broadcast address
//!     }
//!     port.commit(&mut packets)?;
//!     left += packets.len(); // the port had no room for these
//!     packets.clear();
//!     transmit::wait(port.as_mut(), &control, std::time::Duration::from_millis(10))?;
//! }
//! transmit::drain(port.as_mut(), &control)?;
//! let counts = port.counts();
//! assert_eq!(counts.sent, counts.accepted + counts.failed.total());
//! # Ok::<(), forebay::Error>(())
//! ```

#[cfg(feature = "live")]
mod outbox;
mod pace;

#[cfg(feature = "live")]
pub(crate) use outbox::{Cause, DOWN_RETRY, ETHERNET_HEADER, HEADROOM, Outbox, VLAN_TAG, Wait};
pub(crate) use pace::is_late;
pub use pace::{Pace, PaceReport, Rate};

use crate::{control::Control, port::Interface};
use forebay::{Result, packet::Packet};
use std::{os::fd::BorrowedFd, time::Duration};

/// How a port for sending is opened.
///
/// ```
/// use forebay_net::transmit::{TxBackend, TxConfig};
/// let config = TxConfig { backend: TxBackend::Ring, ..TxConfig::default() };
/// assert_eq!(config.queue_frames, 512);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxConfig {
    /// How a port of AF_PACKET hands frames to the kernel. AF_XDP has one way only, and refuses [`TxBackend::Ring`].
    pub backend: TxBackend,
    /// The largest number of pending packets, 1 to 32,768; 512 by default.
    pub queue_frames: u32,
    /// Skip the queueing discipline of the interface (`tc qdisc`). This is faster and exact, but ignores traffic control: rules
    /// such as `netem` or `tbf` do not apply. Off by default.
    pub bypass_qdisc: bool,
    /// Each packet to send begins with [`Unfinished::header`](crate::port::Unfinished::header), so that the kernel does what is left to
    /// be done: it computes checksums, and splits merged frames. Only `sendmmsg` can do this; [`TxInfo::takes_unfinished`] shows
    /// whether the port does. Off by default.
    pub takes_unfinished: bool,
    /// The maximum time without progress, while the interface is down, has no carrier or no room; 1 s by default. After that the
    /// port fails; if there is no room, and a queueing discipline may have a filter, only after three packets in a row have failed
    /// this way. With [`Duration::MAX`] it waits forever.
    pub patience: Duration,
}

impl Default for TxConfig {
    fn default() -> Self {
        TxConfig {
            backend: TxBackend::Messages,
            queue_frames: 512,
            bypass_qdisc: false,
            takes_unfinished: false,
            patience: Duration::from_secs(1),
        }
    }
}

/// A way to hand frames to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TxBackend {
    /// `sendmmsg(2)`: the kernel copies each frame from its slot.
    #[default]
    Messages,
    /// A ring shared with the kernel (`PACKET_TX_RING`): each frame is copied into the ring, and sent from there.
    Ring,
}

/// The counts of a port for sending since it was opened.
///
/// ```
/// use forebay_net::transmit::{TxCounts, TxFailed};
/// let failed = TxFailed { too_long: 2, ..TxFailed::default() };
/// let counts = TxCounts { sent: 10, accepted: 8, failed, ..TxCounts::default() };
/// assert_eq!(counts.pending(), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxCounts {
    /// Packets that [`TxPort::commit`] took.
    pub sent: u64,
    /// Of these, accepted by the kernel.
    pub accepted: u64,
    /// Bytes of accepted packets, without frame check sequences.
    pub accepted_bytes: u64,
    /// Of `sent`, not accepted, by cause.
    pub failed: TxFailed,
    /// How often the kernel had no room and a packet had to be tried again later. Such a packet is still pending.
    pub retried: u64,
}

impl TxCounts {
    /// Packets that are neither accepted nor failed yet.
    pub fn pending(&self) -> u64 {
        self.sent - self.accepted - self.failed.total()
    }
}

/// Packets that were not accepted, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxFailed {
    /// Longer than the interface's MTU allows, or merged segments that the port cannot split.
    pub too_long: u64,
    /// Shorter than the interface's link-layer header.
    pub too_short: u64,
    /// The interface was down or gone.
    pub link_down: u64,
    /// Refused by the system for another reason, such as a filter for outgoing frames. Such a filter answers as if the queue were
    /// full, so its frames count only after [`TxConfig::patience`].
    pub refused: u64,
    /// Still pending when the caller gave up ([`TxPort::abandon`]) or when the interface accepted nothing for too long.
    pub abandoned: u64,
}

impl TxFailed {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.too_long + self.too_short + self.link_down + self.refused + self.abandoned
    }
}

/// How to find out that an armed port may have room or has completed packets.
#[derive(Debug)]
pub enum TxWake<'a> {
    /// There may be room already: try again before sleeping.
    Ready,
    /// Wait until this descriptor becomes writable.
    Writable(BorrowedFd<'a>),
    /// Try again after this time: no descriptor reports it.
    After(Duration),
}

/// The actual properties of an open port for sending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxInfo {
    /// The backend: `af_packet`.
    pub backend: &'static str,
    /// How frames reach the kernel: `sendmmsg from slots`, `copied into a mapped ring`.
    pub copy: &'static str,
    /// The largest number of pending packets.
    pub queue_frames: u32,
    /// The queueing discipline of the interface is skipped.
    pub bypasses_qdisc: bool,
    /// Each packet must begin with a description of its offloads.
    pub takes_unfinished: bool,
    /// [`TxPort::send_now`] sends frames from where they are.
    pub sends_now: bool,
}

/// A way to send frames: bounded, never blocking, with exact counts.
pub trait TxPort: Send {
    /// The interface that sends.
    fn interface(&self) -> &Interface;

    /// The name of the interface.
    fn name(&self) -> &str {
        &self.interface().name
    }

    /// The longest frame that the interface sends, in bytes, from the link-layer header and without the frame check sequence. A VLAN
    /// tag may be added to it. The MTU may change later; then the kernel decides.
    fn max_frame_bytes(&self) -> u32;

    /// Appends up to `n` empty packets to `packets`, and returns how many. There are fewer if the port has not as much room now.
    /// Slots of packets that are dropped instead of committed return to the port.
    fn reserve(&mut self, n: usize, packets: &mut Vec<Packet>) -> usize;

    /// Takes packets from the front of `packets`, in order, as far as there is room, and hands them to the kernel. Returns how many
    /// it took; the others stay in `packets`. Never blocks.
    ///
    /// # Errors
    /// The port has failed: its interface is gone, or accepted nothing for as long as [`TxConfig::patience`]. All pending packets
    /// have failed and are counted. After a failure of the second kind, whose [kind](forebay::Error::kind) is `TimedOut`, the port can be used again.
    fn commit(&mut self, packets: &mut Vec<Packet>) -> Result<usize>;

    /// Hands frames to the kernel from the memory in which they are, without a slot. Returns how many it accepted, from the first one;
    /// these count as sent and accepted. It stops at the first frame that the kernel does not accept now, for whatever reason. Commit
    /// that frame as a packet: then it waits, or fails and is counted.
    ///
    /// Returns 0 while packets are pending, and if the backend cannot do this ([`TxInfo::sends_now`]). It may take frames from the
    /// iterator that it does not send. Never blocks.
    fn send_now(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> usize {
        let _ = frames;
        0
    }

    /// Sends a frame from the memory in which another port has received it. `None`: this port shares no memory with a port that
    /// receives, and the frame must be copied into a packet. `Some(true)`: the frame is sent, and pending until the next
    /// [`advance`](TxPort::advance), or it has failed. `Some(false)`: there is no room now.
    ///
    /// The memory of the frame returns to the port that received it when the kernel no longer needs it.
    fn send_received(&mut self, frame: &[u8]) -> Option<bool> {
        let _ = frame;
        None
    }

    /// Hands pending packets to the kernel again and collects completions. Returns the number of packets still pending. Never
    /// blocks. Without pending packets it looks up what the port has to know about its interface, so that a packet that is sent soon
    /// after need not wait for that.
    ///
    /// # Errors
    /// As [`commit`](TxPort::commit).
    fn advance(&mut self) -> Result<usize>;

    /// Returns how to wait until [`advance`](TxPort::advance) may make progress; [`TxWake::Ready`] if nothing is pending.
    ///
    /// # Errors
    /// The system refuses to watch the port.
    fn arm(&mut self) -> Result<TxWake<'_>>;

    /// Gives up all pending packets: they count as failed.
    fn abandon(&mut self);

    /// The counts so far; final when nothing is pending.
    fn counts(&self) -> TxCounts;

    /// The actual properties of the open port.
    fn info(&self) -> TxInfo;
}

/// Waits until `port` may make progress, for at most `limit`, and lets it [`advance`](TxPort::advance). Returns the number of
/// packets still pending. A request to `control` ends the wait early.
///
/// Returns at once if nothing is pending.
///
/// # Errors
/// As [`TxPort::advance`], or the system refuses to wait.
pub fn wait(port: &mut dyn TxPort, control: &Control, limit: Duration) -> Result<usize> {
    match port.arm()? {
        TxWake::Ready => {}
        TxWake::Writable(fd) => control.sleep(Some(fd), limit)?,
        TxWake::After(time) => control.sleep(None, time.min(limit))?,
    }
    port.advance()
}

/// Waits until nothing is pending any more. When `control` requests a stop a second time, the rest is abandoned.
///
/// # Errors
/// As [`wait`].
pub fn drain(port: &mut dyn TxPort, control: &Control) -> Result<()> {
    while port.advance()? > 0 {
        if control.gives_up() {
            port.abandon();
        }
        wait(port, control, Duration::from_millis(10))?;
    }
    Ok(())
}
