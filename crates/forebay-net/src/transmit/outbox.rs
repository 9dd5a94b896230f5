//! What every port that sends on an interface keeps: slots, limits, counts, and since when the kernel has accepted nothing.

use super::{TxConfig, TxCounts, TxFailed, TxWake};
use crate::port::Interface;
use forebay::{
    Error, Result,
    packet::{Packet, Pool, PoolConfig},
};
use std::{
    io::ErrorKind,
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

/// Ethernet addresses and type.
pub(crate) const ETHERNET_HEADER: u32 = 14;
/// May be added to the longest frame.
pub(crate) const VLAN_TAG: u32 = 4;
/// Room before a reserved packet's data, for headers and tags that are added later.
pub(crate) const HEADROOM: u32 = 64;
const MAX_QUEUE: u32 = 1 << 15;
/// How soon a full transmit queue is tried again: at first, and after this has doubled six times. At 10 Gb/s, 20 µs are 17 frames
/// of 1514 bytes.
const FULL_RETRY: Duration = Duration::from_micros(20);
const FULL_DOUBLINGS: u32 = 6;
pub(crate) const DOWN_RETRY: Duration = Duration::from_millis(10);
/// Attempts that are further apart do not count as one wait.
const ATTEMPTS_APART: Duration = Duration::from_millis(100);
/// Packets in a row for which the kernel has had no room for the whole patience, until the port fails.
const REFUSED_IN_A_ROW: u32 = 3;

/// The count of a cause.
pub(crate) type Cause = fn(&mut TxFailed) -> &mut u64;

/// Why the oldest pending packet has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The socket's send buffer is full.
    Buffer,
    /// The interface's queue is full.
    Queue,
    /// The interface is down.
    Link,
    /// The interface has no carrier: the kernel would drop what it accepts.
    Carrier,
}

/// Since when nothing was accepted.
#[derive(Clone, Copy, Debug)]
struct Delay {
    cause: Wait,
    since: Instant,
    last: Instant,
    attempts: u32,
}

#[derive(Debug)]
pub(crate) struct Outbox {
    pub interface: Interface,
    /// Without a VLAN tag, which may be added.
    pub max_frame_bytes: u32,
    min_frame_bytes: u32,
    pub pool: Pool,
    pub config: TxConfig,
    pub counts: TxCounts,
    delay: Option<Delay>,
    /// Packets that have failed for lack of room since one was accepted.
    refused_in_a_row: u32,
}

impl Outbox {
    /// Checks what the user chose.
    ///
    /// # Errors
    /// The length of the queue is out of its range.
    pub fn check(name: &str, config: &TxConfig) -> Result<()> {
        let queue = config.queue_frames;
        if (1..=MAX_QUEUE).contains(&queue) {
            return Ok(());
        }
        let tried = format!("making a queue of {queue} frames");
        let range = format!("Ask for 1 to {MAX_QUEUE} frames");
        Err(Error::invalid(name, tried).advise(range))
    }

    /// For an interface whose frames begin with a header of `header` bytes. The length of its longest frame is its `snaplen`.
    ///
    /// # Errors
    /// There is not enough memory for the slots.
    pub fn new(
        interface: Interface,
        header: u32,
        slot_bytes: u32,
        config: &TxConfig,
    ) -> Result<Self> {
        let pool = Pool::new(&PoolConfig {
            // Twice the queue, so that callers can fill packets while it is full.
            slots: config.queue_frames * 2,
            slot_bytes,
            headroom: HEADROOM,
            ..PoolConfig::default()
        })?;
        Ok(Outbox {
            max_frame_bytes: interface.snaplen,
            min_frame_bytes: header.max(1),
            interface,
            pool,
            config: config.clone(),
            counts: TxCounts::default(),
            delay: None,
            refused_in_a_row: 0,
        })
    }

    /// The send buffer of a socket that queues this number of frames of up to `frame_bytes`.
    pub fn buffer_bytes(frames: u32, frame_bytes: u32) -> i32 {
        // Each queued frame is charged with its length and about 1 KiB of the kernel's own data.
        let bytes = u64::from(frames) * u64::from(frame_bytes + 1024);
        bytes.min(1 << 26) as i32
    }

    /// How many more packets may be pending.
    pub fn room(&self, pending: usize) -> usize {
        self.config.queue_frames as usize - pending
    }

    /// How to count a frame of this length if it cannot be sent. Its header is at the beginning of `frame`.
    pub fn misfit(&self, frame: &[u8], len: u32) -> Option<Cause> {
        if len < self.min_frame_bytes {
            return Some(|failed| &mut failed.too_short);
        }
        // As the kernel does for AF_PACKET (`packet_extra_vlan_len_allowed` in net/packet/af_packet.c). For AF_XDP it does not check.
        let is_tagged =
            self.min_frame_bytes == ETHERNET_HEADER && frame.get(12..14) == Some(&[0x81, 0]);
        let tag = if is_tagged { VLAN_TAG } else { 0 };
        (len > self.max_frame_bytes + tag).then_some(|failed| &mut failed.too_long)
    }

    /// Copies a packet, which may lie in several slots, into one of ours; `None` if none is free. The packet must not be too long.
    pub fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        let mut whole = self.pool.take()?;
        whole
            .put(packet.len())
            .ok()?
            .copy_from_slice(&packet.to_vec());
        Some(whole)
    }

    /// Returns a slot to its pool, at once if it is ours.
    pub fn free(&mut self, packet: Packet) {
        // A packet of another pool returns there when it is dropped.
        drop(self.pool.put_back(packet));
    }

    /// The oldest pending packet was accepted.
    pub fn accept(&mut self, bytes: u32) {
        self.counts.accepted += 1;
        self.counts.accepted_bytes += u64::from(bytes);
        self.delay = None;
        self.refused_in_a_row = 0;
    }

    /// The oldest pending packets have failed.
    pub fn fail(&mut self, packets: usize, cause: Cause) {
        *cause(&mut self.counts.failed) += packets as u64;
        self.delay = None;
    }

    /// The oldest pending packet has to wait. If that has taken too long, returns how to count it as failed; with an error if all
    /// pending packets have failed, and the port. The kind of that error is `TimedOut`.
    pub fn put_off(&mut self, cause: Wait) -> Option<(Cause, Option<Error>)> {
        self.counts.retried += 1;
        let now = Instant::now();
        let delay = self.delay.filter(|it| now - it.last < ATTEMPTS_APART);
        let (since, attempts) = delay.map_or((now, 0), |it| (it.since, it.attempts + 1));
        self.delay = Some(Delay {
            cause,
            since,
            last: now,
            attempts,
        });
        if now - since < self.config.patience {
            return None;
        }
        let time = format!("{:.1} s", (now - since).as_secs_f64());
        // A filter for outgoing frames answers like a full queue, but only for some packets.
        let filters = !self.config.bypass_qdisc;
        let is_full = matches!(cause, Wait::Buffer | Wait::Queue);
        if is_full && filters && self.refused_in_a_row + 1 < REFUSED_IN_A_ROW {
            self.refused_in_a_row += 1;
            return Some((|failed| &mut failed.refused, None));
        }
        self.refused_in_a_row = 0;
        let name = &self.interface.name[..];
        let down: Cause = |failed| &mut failed.link_down;
        let (count, tried, advice) = match cause {
            Wait::Link => {
                let advice = format!("Bring it up: ip link set {name} up");
                (down, "the interface is down".into(), advice)
            }
            Wait::Carrier => {
                let tried = format!("the interface has had no carrier for {time}");
                (down, tried, "Connect it, or bring up its other end".into())
            }
            Wait::Buffer | Wait::Queue => {
                let advice = match filters {
                    true => {
                        "Look for a filter or a limit for outgoing frames: tc qdisc show; nft list ruleset"
                    }
                    false => "Check that its other end is connected and up: ip link",
                };
                let abandoned: Cause = |failed| &mut failed.abandoned;
                let tried = format!("the interface has accepted no frame for {time}");
                (abandoned, tried, advice.into())
            }
        };
        let error = Error::new(name, tried).of_kind(ErrorKind::TimedOut);
        Some((count, Some(error.advise(advice))))
    }

    /// How to wait until the oldest of pending packets can be tried again. `socket` reports that its send buffer has room.
    pub fn wake<'a>(&self, socket: BorrowedFd<'a>) -> TxWake<'a> {
        let Some(delay) = self.delay else {
            return TxWake::Ready;
        };
        match delay.cause {
            Wait::Buffer => TxWake::Writable(socket),
            Wait::Queue => TxWake::After(FULL_RETRY * (1 << delay.attempts.min(FULL_DOUBLINGS))),
            Wait::Link | Wait::Carrier => TxWake::After(DOWN_RETRY),
        }
    }
}
