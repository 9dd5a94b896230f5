//! Forwards frames between two interfaces, both ways, and accounts for every one.
//!
//! ```text
//!          ┌─ leg A ─┐  frame   ┌─ each() ─┐  copy into a slot   ┌─ sender B ─┐
//!  A ────▶ │ receive │ ───────▶ │  filter  │ ──────────────────▶ │ batch, tx  │ ────▶ B      and B ─▶ A alike
//!          │  ring   │          └──────────┘                     └────────────┘
//!          └─────────┘  no room: the frame stays in the ring
//! ```
//!
//! A bridge is a [`Session`] that has a closure, which sends each packet that passes the filter. So a bridge can do what a session can:
//! filter, count every packet, wait for interfaces that are down, and write the forwarded packets to an output. One thread
//! receives, filters and sends; another one writes the output.
//!
//! - Frames that this machine sends are not received ([`Options::incoming_only`]), so a frame that the bridge itself sent is
//!   not forwarded back at once. The bridge does not detect loops: if both interfaces are connected with each other, frames
//!   circulate for ever.
//! - Frames are sent with the VLAN tag that they had on the wire. With AF_XDP, tags that the hardware removes are lost.
//! - A sender on the same machine may leave checksums to the hardware, and cards may merge segments. The bridge lets the kernel complete
//!   these checksums, and split merged segments again ([`Unfinished`](crate::port::Unfinished)). This is not possible with AF_XDP.
//! - Frames of one direction keep their order, unless several queues of an AF_XDP interface receive them.
//! - If both interfaces are opened with AF_XDP (`xdp:eth0`), a frame is sent from the memory in which it was received, and forebay copies
//!   nothing. If only one of them is opened with AF_XDP, frames for it are sent with a packet socket, and each frame is copied.
//! - If the other interface has no room, frames wait in the receive ring, and then the kernel drops and counts them. If it is down
//!   for longer than [`TxConfig::patience`], frames for it fail and are counted until it is up again.
//!
//! In each direction, once the session has ended:
//!
//! ```text
//! received = forwarded + filtered + failed{cause} + dropped + unread + refused
//! ```
//!
//! *Unread* frames were left in the ring when the bridge was aborted; *refused* ones when the output could not be written any more.
//!
//! Unless an interface is opened with AF_XDP, the kernel also handles its frames itself. So give the interfaces no addresses, and do not
//! let the machine route or bridge between them; otherwise frames arrive twice.
//!
//! ```
//! use forebay::time::Clock;
//! use forebay_net::{bridge::{Bridge, BridgeConfig}, session::{Control, Output, SessionConfig}};
//!
//! let names = ["eth7".parse()?, "eth8".parse()?];
//! let bridge = match Bridge::open(names, &BridgeConfig::default(), Clock::real()) {
//!     Ok(bridge) => bridge,
//!     Err(reason) => return Ok(println!("skipped: {reason}")), // needs CAP_NET_RAW, eth7 and eth8
//! };
//! let (session, directions) = bridge.session(Output::Count, SessionConfig::default(), Control::new()?)?;
//! let summary = session.run(&mut |_| {});
//! for direction in directions.counts(&summary) {
//!     assert_eq!(direction.check(), Ok(()));
//!     println!("{} to {}: {} frames", direction.from, direction.to, direction.forwarded);
//! }
//! # Ok::<(), forebay::Error>(())
//! ```

mod leg;
#[cfg(all(test, feature = "live"))]
mod tests;

use crate::{
    ledger::{Violation, balanced},
    open::{self, Name, Options},
    port::{DEFAULT_SNAPLEN, Port},
    session::{Control, Output, Session, SessionConfig, Summary},
    transmit::{TxConfig, TxFailed, TxInfo, TxPort},
};
use forebay::{Error, Result, time::Clock};
use leg::{Leg, Sender, locked};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// How both interfaces of a bridge are opened.
#[derive(Clone, Debug)]
pub struct BridgeConfig {
    /// For receiving. `incoming_only` and `filter` are ignored: a bridge receives only incoming frames, and its session filters,
    /// so that rejected frames are counted.
    pub receive: Options,
    /// For sending.
    pub send: TxConfig,
}

impl Default for BridgeConfig {
    /// Frames are held back for up to 1 ms; otherwise the defaults of both.
    fn default() -> Self {
        BridgeConfig {
            receive: Options {
                delay: Duration::from_millis(1),
                reports_unfinished: true,
                ..Options::default()
            },
            send: TxConfig {
                // Slots have room for merged segments, so there are fewer.
                takes_unfinished: true,
                queue_frames: 128,
                ..TxConfig::default()
            },
        }
    }
}

/// Two interfaces that are open for receiving and sending.
pub struct Bridge {
    ports: Vec<Box<dyn Port>>,
    senders: [Shared; 2],
    clock: Clock,
}

type Shared = Arc<Mutex<Sender>>;

impl Bridge {
    /// Opens both interfaces. Afterwards no privilege is needed.
    ///
    /// # Errors
    /// Both names are the same, one is not that of an interface or has `pass=yes`, the link types differ, or the system refuses.
    pub fn open(names: [Name; 2], config: &BridgeConfig, clock: Clock) -> Result<Self> {
        let options = Options {
            incoming_only: true,
            filter: None,
            ..config.receive.clone()
        };
        if let [Some(a), Some(b)] = names.each_ref().map(Name::interface) {
            refuse_itself(a, b)?;
        }
        let passes = |name: &&Name| matches!(name, Name::Xdp(spec) if spec.passes);
        if let Some(name) = names.iter().find(passes) {
            let tried = "a bridge takes frames from this machine, and pass=yes leaves them to it";
            return Err(Error::invalid(name.to_string(), tried).advise("Leave pass=yes out"));
        }
        if let Some([a, b]) = open::pair(names.each_ref(), &options, &config.send)? {
            return Ok(Bridge::of(vec![a.0, b.0], [a.1, b.1], clock));
        }
        // For sending first: this rejects names that are not those of one interface.
        let sending = |name| open::transmit_beside(name, &config.send);
        let [a, b] = names.each_ref().map(sending);
        let sending = [a?, b?];
        let [a, b] = [0, 1].map(|at: usize| sending[at].interface());
        refuse_itself(&a.name, &b.name)?;
        if a.link != b.link {
            let tried = format!("bridging {} with {} of {}", a.link, b.link, b.name);
            return Err(Error::invalid(&a.name, tried).advise(
                "Frames of one cannot be sent on the other: name two Ethernet interfaces",
            ));
        }
        let receiving = open::ports(&names, &options, &clock)?;
        Ok(Bridge::of(receiving, sending, clock))
    }

    /// A bridge of ports that are already open: what `receiving[0]` receives is sent by `sending[1]`, and the other way round.
    fn of(receiving: Vec<Box<dyn Port>>, sending: [Box<dyn TxPort>; 2], clock: Clock) -> Self {
        let senders = sending.map(|port| Arc::new(Mutex::new(Sender::new(port))));
        let leg = |(at, port): (usize, Box<dyn Port>)| -> Box<dyn Port> {
            Box::new(Leg::new(port, senders[1 - at].clone(), clock.clone()))
        };
        let ports = receiving.into_iter().enumerate().map(leg).collect();
        Bridge {
            ports,
            senders,
            clock,
        }
    }

    /// The names of both interfaces.
    pub fn names(&self) -> [String; 2] {
        [0, 1].map(|at| locked(&self.senders[at]).port.name().to_owned())
    }

    /// The longest frame that each interface sends, in bytes without the frame check sequence. Longer frames of the other one fail.
    pub fn max_frame_bytes(&self) -> [u32; 2] {
        [0, 1].map(|at| locked(&self.senders[at]).port.max_frame_bytes())
    }

    /// A session that forwards while it runs. Its output gets the frames that were forwarded, its filter chooses them. Also returns
    /// access to the counts of both directions.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn session(
        self,
        output: Output,
        config: SessionConfig,
        control: Control,
    ) -> Result<(Session, Directions)> {
        let Bridge {
            ports,
            senders,
            clock,
        } = self;
        let directions = Directions(senders.clone());
        let first = ports.first().map_or("", |port| port.name()).to_owned();
        // What is shown is cut to the snapshot length; what is sent must be whole.
        let config = SessionConfig {
            snaplen: DEFAULT_SNAPLEN,
            ..config
        };
        let session = Session::open(ports, output, config, clock, control)?;
        let session = session.each(move |frame, interface| {
            let to = usize::from(interface.name == first);
            locked(&senders[to]).forward(frame)
        });
        Ok((session, directions))
    }
}

fn refuse_itself(a: &str, b: &str) -> Result<()> {
    match a == b {
        true => {
            Err(Error::invalid(a, "bridging an interface with itself")
                .advise("Name two interfaces"))
        }
        false => Ok(()),
    }
}

/// The counts of both directions of a bridge.
#[derive(Clone)]
pub struct Directions([Shared; 2]);

impl Directions {
    /// The names of both interfaces.
    pub fn names(&self) -> [String; 2] {
        [0, 1].map(|at: usize| locked(&self.0[at]).port.name().to_owned())
    }

    /// Frames that failed so far, in both directions.
    pub fn failed(&self) -> u64 {
        let failed = |sender: &Shared| {
            let sender = locked(sender);
            sender.counts().failed.total() + sender.truncated
        };
        self.0.iter().map(failed).sum()
    }

    /// How frames are sent from the first interface to the second, and back.
    pub fn infos(&self) -> [TxInfo; 2] {
        [1, 0].map(|to: usize| locked(&self.0[to]).port.info())
    }

    /// Frames that were accepted for sending so far, from the first interface to the second, and back.
    pub fn forwarded(&self) -> [u64; 2] {
        [1, 0].map(|to: usize| locked(&self.0[to]).counts().accepted)
    }

    /// The counts of both directions: from the first interface to the second, and back. `summary` is that of the session.
    pub fn counts(&self, summary: &Summary) -> [DirectionCounts; 2] {
        [0, 1].map(|from: usize| {
            let mut sender = locked(&self.0[1 - from]);
            sender.end();
            let (sent, source) = (sender.counts(), &summary.sources[from]);
            DirectionCounts {
                from: source.name.clone(),
                to: sender.port.name().to_owned(),
                received: source.counts.received,
                forwarded: sent.accepted,
                forwarded_bytes: sent.accepted_bytes,
                filtered: source.filtered + source.counts.filtered.unwrap_or(0),
                failed: sent.failed,
                truncated: sender.truncated,
                dropped: source.counts.dropped,
                unread: source.unread,
                refused: source.refused,
                interface_dropped: source.counts.interface_dropped,
                retried: sent.retried,
            }
        })
    }
}

/// Where every frame of one direction went.
///
/// ```
/// use forebay_net::bridge::DirectionCounts;
/// let direction = DirectionCounts { received: 10, forwarded: 7, filtered: 2, dropped: Some(1), ..DirectionCounts::default() };
/// assert_eq!(direction.check(), Ok(()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectionCounts {
    /// The interface that received them.
    pub from: String,
    /// The interface that sent them.
    pub to: String,
    /// Frames that arrived, including those that the kernel then dropped.
    pub received: u64,
    /// Frames that the other interface accepted for sending.
    pub forwarded: u64,
    /// Their bytes, without frame check sequences.
    pub forwarded_bytes: u64,
    /// Frames that the filter rejected.
    pub filtered: u64,
    /// Frames that the other interface did not accept, by cause.
    pub failed: TxFailed,
    /// Frames that were longer than a block of the receive ring, and so could not be forwarded whole.
    pub truncated: u64,
    /// Frames for which the receive ring had no room. `None`: unknown.
    pub dropped: Option<u64>,
    /// Frames that were left when the bridge was aborted.
    pub unread: u64,
    /// Frames that were left when the output of the session failed, which ends the bridge.
    pub refused: u64,
    /// Frames that the receiving interface lost before the bridge saw them; not part of `received`. `None`: unknown.
    pub interface_dropped: Option<u64>,
    /// How often a frame had to be sent again because the other interface had no room.
    pub retried: u64,
}

impl DirectionCounts {
    /// Frames that arrived and were neither forwarded nor rejected by the filter.
    pub fn lost(&self) -> u64 {
        self.failed.total() + self.truncated + self.dropped.unwrap_or(0)
    }

    /// Checks that every frame is in exactly one column.
    ///
    /// # Errors
    /// One is not, which is a bug.
    pub fn check(&self) -> std::result::Result<(), Violation> {
        let left = self.unread + self.refused;
        let accounted = self.forwarded + self.filtered + left + self.lost();
        balanced(self.received, accounted)
    }
}
