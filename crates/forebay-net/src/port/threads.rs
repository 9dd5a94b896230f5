//! Several ports on one interface, each read by its own thread.

use forebay::{Error, Result};
use std::{fmt, str::FromStr};

/// How the frames of an interface are distributed among the ports that share it. Each port gets a part of them
/// (`PACKET_FANOUT`).
///
/// ```
/// use forebay_net::port::Fanout;
/// assert_eq!("lb".parse::<Fanout>()?, Fanout::LoadBalance);
/// assert_eq!(Fanout::default().to_string(), "hash");
/// assert!("random".parse::<Fanout>().is_err());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fanout {
    /// `hash`: frames of one flow, in both directions, go to one port.
    #[default]
    Hash,
    /// `lb`: the ports take turns, frame by frame.
    LoadBalance,
    /// `cpu`: by the processor that received the frame.
    Cpu,
    /// `qm`: by the queue of the interface in which the frame arrived.
    Queue,
    /// `rollover`: to the first port, and to the next one while its ring is full.
    Rollover,
}

impl Fanout {
    /// All modes.
    pub const ALL: [Fanout; 5] = [
        Fanout::Hash,
        Fanout::LoadBalance,
        Fanout::Cpu,
        Fanout::Queue,
        Fanout::Rollover,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Fanout::Hash => "hash",
            Fanout::LoadBalance => "lb",
            Fanout::Cpu => "cpu",
            Fanout::Queue => "qm",
            Fanout::Rollover => "rollover",
        }
    }
}

impl fmt::Display for Fanout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Fanout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Fanout::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| {
            Error::invalid("fanout", format!("'{text}' is not a mode"))
                .advise("Use hash, lb, cpu, qm or rollover")
        })
    }
}

/// The counts of one of several threads that read one source.
///
/// Once the thread has ended, `received = taken + filtered + unread + dropped` holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    /// The processor to which the thread is pinned.
    pub cpu: Option<u32>,
    /// Packets that its port received, including those it then dropped.
    pub received: u64,
    /// Packets that the thread took from its port: for the merged output, or for its own file.
    pub taken: u64,
    /// Packets that the session's filter rejected; `None`: the source filters and does not count.
    pub filtered: Option<u64>,
    /// Packets that its port received after the end of the capture.
    pub unread: u64,
    /// Packets for which its port had no room; `None`: unknown.
    pub dropped: Option<u64>,
    /// The file that only this thread writes.
    pub file: Option<String>,
}
