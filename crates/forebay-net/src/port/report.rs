//! What only some ports know about themselves, and the statistics of an interface.

use super::threads::ThreadCounts;
use forebay::Error;
use std::time::Duration;

/// What only some ports know ([`Port::report`](super::Port::report)). The default is for ports that know nothing of it.
#[derive(Clone, Debug, Default)]
pub struct PortReport<'a> {
    /// The losses of an AF_XDP port by cause, at the last call of [`Port::counts`](super::Port::counts). Other sources have none.
    pub socket_losses: SocketLosses,
    /// The share of the source's ring that is filled now, 0 to 1, if the source has a ring and this is known. Frames that the
    /// kernel still collects in its current block are not included.
    pub ring_fill: Option<f64>,
    /// The outages so far, if the source waits for its interface to return.
    pub outages: Outages,
    /// The counts of each thread, if several threads read this source; otherwise empty.
    pub threads: Vec<ThreadCounts>,
    /// With [`TimeSource::Hardware`](super::TimeSource::Hardware): how many of the frames handed out have a time of the hardware.
    /// The others have one of the system's clock.
    pub hardware_times: Option<u64>,
    /// The statistics that a capture file contains for each of its interfaces, to be copied. Live sources have none.
    pub file_statistics: &'a [Option<Statistics>],
    /// For a regular file: the bytes that are read so far, and its length. Other sources have no known end.
    pub reading: Option<(u64, u64)>,
    /// Packets of a capture file that were skipped so far.
    pub unreadable: Unreadable<'a>,
}

/// Packets of a capture file that cannot be read, although the file can be read beyond them. They are not in
/// [`Counts`](super::Counts).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unreadable<'a> {
    /// Number of packets.
    pub packets: u64,
    /// Where the first one is, and why it cannot be read.
    pub first: &'a str,
}

impl Unreadable<'_> {
    /// An error about the file of this name, if there are such packets.
    pub fn error(&self, name: &str) -> Option<Error> {
        let are = match self.packets {
            0 => return None,
            1 => "packet is",
            _ => "packets are",
        };
        let Unreadable { packets, first } = self;
        Some(Error::new(
            name,
            format!("{first}: {packets} such {are} skipped"),
        ))
    }
}

/// Frames that the sockets of an AF_XDP port lost, by cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketLosses {
    /// A socket's receive ring was full. Part of [`Counts::dropped`](super::Counts::dropped).
    pub rx_ring: u64,
    /// A socket's fill ring had no memory for a frame. Part of [`Counts::dropped`](super::Counts::dropped).
    pub fill_ring: u64,
    /// The peer of a veth interface found the interface's ring full. Not part of [`Counts`](super::Counts), because they reached no socket. `None`:
    /// unknown. 0 for other interfaces.
    pub peer: Option<u64>,
}

impl Default for SocketLosses {
    /// No losses: for ports without AF_XDP.
    fn default() -> Self {
        SocketLosses {
            rx_ring: 0,
            fill_ring: 0,
            peer: Some(0),
        }
    }
}

/// The number and duration of times during which a source's interface was down. No packets of these times were captured.
///
/// An outage that falls between two checks of the source counts with the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outages {
    /// Number of outages that began.
    pub count: u64,
    /// Their total duration, including the present one.
    pub total: Duration,
    /// Duration of the last one, so far if it is still present.
    pub last: Duration,
    /// Whether the interface is down now.
    pub is_down: bool,
}

#[cfg(feature = "live")]
impl Outages {
    /// The same, with the outage that has lasted for `present` so far, if there is one.
    pub(crate) fn during(self, present: Option<Duration>) -> Self {
        let Some(last) = present else { return self };
        Outages {
            total: self.total + last,
            last,
            is_down: true,
            ..self
        }
    }
}

/// The statistics of one interface at the end of a capture. `None` means unknown.
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
    /// The time of these counts, in nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// The start of the capture.
    pub began_ns: Option<u64>,
    /// The end of the capture.
    pub ended_ns: Option<u64>,
    /// Frames that the interface received, for any purpose.
    pub interface_received: Option<u64>,
    /// Frames that the interface lost before the source saw them.
    pub interface_dropped: Option<u64>,
    /// Frames that matched the filter, including those dropped afterwards.
    pub received: Option<u64>,
    /// Of these, dropped by the source.
    pub dropped: Option<u64>,
    /// Of these, taken from the source.
    pub delivered: Option<u64>,
}

impl Statistics {
    /// Those of both together: what one of them does not know is unknown.
    pub(crate) fn plus(&self, other: &Statistics) -> Statistics {
        let both = |of: fn(&Statistics) -> Option<u64>, join: fn(u64, u64) -> u64| {
            Some(join(of(self)?, of(other)?))
        };
        let sum = |of| both(of, u64::saturating_add);
        Statistics {
            time_ns: self.time_ns.max(other.time_ns),
            began_ns: both(|it| it.began_ns, u64::min),
            ended_ns: both(|it| it.ended_ns, u64::max),
            interface_received: sum(|it| it.interface_received),
            interface_dropped: sum(|it| it.interface_dropped),
            received: sum(|it| it.received),
            dropped: sum(|it| it.dropped),
            delivered: sum(|it| it.delivered),
        }
    }
}
