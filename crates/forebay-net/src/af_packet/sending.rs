//! Sending on a Linux interface: a packet socket, with `sendmmsg` or with a transmit ring.
//!
//! Committed packets wait in a queue of bounded length until the kernel takes them, in order. What the kernel answers decides:
//!
//! | answer | what happens |
//! |---|---|
//! | taken | the packet is accepted, and its slot is free again |
//! | `EAGAIN`, `ENOBUFS`, `ENOMEM` | no room: the packet stays, and is retried |
//! | `ENETDOWN` | the interface is down: the packet stays, and is retried |
//! | nothing was asked: no carrier | the kernel would accept the packet and drop it: it stays, and is retried |
//! | `EMSGSIZE`, `EINVAL`, others | this packet has failed |
//! | `ENXIO`, `ENODEV` | the interface is gone: all packets have failed, and the port |

use super::{link_type, names, socket::Socket, tx_ring::Outcome, tx_ring::TxRing};
use crate::{
    link::Netlink,
    port::{Interface, LinkType, Unfinished},
    sys::{self, Messages},
    transmit::{TxBackend, TxConfig, TxCounts, TxFailed, TxInfo, TxPort, TxWake},
};
use forebay::{
    Error, Result,
    packet::{Packet, Pool, PoolConfig},
};
use std::{
    collections::VecDeque,
    io,
    os::fd::AsFd,
    time::{Duration, Instant},
};

/// Ethernet addresses and type.
const ETHERNET_HEADER: u32 = 14;
const VLAN_TAG: u32 = 4;
/// Room before a reserved packet's data, for headers and tags that are added later.
const HEADROOM: u32 = 64;
/// The longest frame of merged segments.
const MERGED_BYTES: u32 = 65_536 + ETHERNET_HEADER;
const MAX_QUEUE: u32 = 1 << 15;
/// Frames handed to the kernel with one call.
const BURST: usize = 64;
/// How soon a full transmit queue is tried again: at first, and after this has doubled six times. At 10 Gb/s, 20 µs are 17 frames
/// of 1514 bytes.
const FULL_RETRY: Duration = Duration::from_micros(20);
const FULL_DOUBLINGS: u32 = 6;
const DOWN_RETRY: Duration = Duration::from_millis(10);
/// How often the interface's carrier is looked up.
const CARRIER_CHECK: Duration = Duration::from_millis(1);
/// Attempts that are further apart do not count as one wait.
const ATTEMPTS_APART: Duration = Duration::from_millis(100);
/// Packets in a row for which the kernel has had no room for the whole patience, until the port fails.
const REFUSED_IN_A_ROW: u32 = 3;

/// A packet socket that sends on one interface.
///
/// ```
/// use forebay_net::{af_packet::AfPacketTx, transmit::{TxConfig, TxPort}};
/// match AfPacketTx::open("lo", &TxConfig::default()) {
///     Ok(port) => println!("{} sends up to {} bytes", port.name(), port.max_frame_bytes()),
///     Err(reason) => println!("skipped: {reason}"), // needs CAP_NET_RAW
/// }
/// ```
#[derive(Debug)]
pub struct AfPacketTx {
    socket: Socket,
    interface: Interface,
    max_frame_bytes: u32,
    /// Bytes of the shortest frame.
    min_frame_bytes: u32,
    /// Bytes of the description of offloads before each frame; 0: there is none.
    described: u32,
    pool: Pool,
    /// Committed packets without an outcome, in order.
    pending: VecDeque<Packet>,
    backend: Backend,
    config: TxConfig,
    counts: TxCounts,
    delay: Option<Delay>,
    /// Packets that have failed for lack of room since one was accepted.
    refused_in_a_row: u32,
    /// When the carrier is looked up next.
    carrier_check: Instant,
}

#[derive(Debug)]
enum Backend {
    Messages(Messages),
    Ring(TxRing),
}

/// Why the oldest pending packet has to wait, and since when nothing was accepted.
#[derive(Clone, Copy, Debug)]
struct Delay {
    cause: Wait,
    since: Instant,
    last: Instant,
    attempts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// The socket's send buffer is full.
    Buffer,
    /// The interface's queue is full.
    Queue,
    /// The interface is down.
    Link,
    /// The interface has no carrier: the kernel would drop what it accepts.
    Carrier,
}

/// What an error of the kernel means for the oldest pending packet.
enum Verdict {
    Retry(Wait),
    Fails(fn(&mut TxFailed) -> &mut u64),
    Gone,
}

fn verdict(cause: &io::Error) -> Verdict {
    match cause.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Verdict::Retry(Wait::Buffer),
        Some(libc::ENOBUFS | libc::ENOMEM) => Verdict::Retry(Wait::Queue),
        Some(libc::ENETDOWN) => Verdict::Retry(Wait::Link),
        Some(libc::ENXIO | libc::ENODEV) => Verdict::Gone,
        Some(libc::EMSGSIZE) => Verdict::Fails(|failed| &mut failed.too_long),
        _ => Verdict::Fails(|failed| &mut failed.refused),
    }
}

impl AfPacketTx {
    /// Opens the interface `name` for sending. The interface may be down; then packets wait.
    ///
    /// # Errors
    /// Each error advises what to do:
    /// - The interface does not exist, or has neither Ethernet nor raw IP frames.
    /// - CAP_NET_RAW is missing.
    /// - A value of `config` is out of its range.
    /// - There is not enough memory for the slots or the ring.
    pub fn open(name: &str, config: &TxConfig) -> Result<Self> {
        let queue = config.queue_frames;
        if queue == 0 || queue > MAX_QUEUE {
            let tried = format!("making a queue of {queue} frames");
            let range = format!("Ask for 1 to {MAX_QUEUE} frames");
            return Err(Error::invalid(name, tried).advise(range));
        }
        let links = Netlink::open()?.links()?;
        let link = names::find(&links, name)?;
        let link_type = link_type(link)?;
        let header = match link_type {
            LinkType::ETHERNET => ETHERNET_HEADER,
            _ => 0,
        };
        let max_frame_bytes = link.mtu.saturating_add(header).min(1 << 18);
        let takes_unfinished = config.takes_unfinished && config.backend == TxBackend::Messages;
        let (described, longest) = match takes_unfinished {
            true => (Unfinished::HEADER_BYTES as u32, MERGED_BYTES),
            false => (0, 0),
        };
        let room = described + max_frame_bytes.max(longest) + VLAN_TAG;
        let socket = Socket::open(link)?;
        if takes_unfinished {
            socket.carry_offloads()?;
        }
        let backend = match config.backend {
            TxBackend::Messages => Backend::Messages(Messages::new(BURST)),
            TxBackend::Ring => Backend::Ring(TxRing::open(&socket, queue, room)?),
        };
        if config.bypass_qdisc {
            socket.bypass_qdisc()?;
        }
        // Each queued frame is charged with its length and about 1 KiB of the kernel's own data.
        let buffer = u64::from(queue) * u64::from(room + 1024);
        socket.send_buffer(buffer.min(1 << 26) as i32);
        socket.attach_sender()?;
        Ok(AfPacketTx {
            socket,
            interface: Interface {
                name: name.into(),
                link: link_type,
                snaplen: max_frame_bytes,
                ..Interface::default()
            },
            max_frame_bytes,
            min_frame_bytes: header.max(1),
            described,
            pool: Pool::new(&PoolConfig {
                // Twice the queue, so that callers can fill packets while it is full.
                slots: queue * 2,
                slot_bytes: (HEADROOM + room).next_multiple_of(64),
                headroom: HEADROOM,
                ..PoolConfig::default()
            })?,
            pending: VecDeque::with_capacity(queue as usize),
            backend,
            config: config.clone(),
            counts: TxCounts::default(),
            delay: None,
            refused_in_a_row: 0,
            carrier_check: Instant::now(),
        })
    }

    /// The oldest pending packet was accepted.
    fn accept(&mut self) {
        if let Some(packet) = self.pending.pop_front() {
            self.counts.accepted += 1;
            self.counts.accepted_bytes += u64::from(packet.len() - self.described);
            self.delay = None;
            self.refused_in_a_row = 0;
            free(&mut self.pool, packet);
        }
    }

    /// The oldest pending packet has failed.
    fn fail(&mut self, count: fn(&mut TxFailed) -> &mut u64) {
        if let Backend::Ring(ring) = &mut self.backend {
            ring.take_back();
        }
        if let Some(packet) = self.pending.pop_front() {
            *count(&mut self.counts.failed) += 1;
            free(&mut self.pool, packet);
        }
        self.delay = None;
    }

    fn fail_all(&mut self, count: fn(&mut TxFailed) -> &mut u64) {
        while !self.pending.is_empty() {
            self.fail(count);
        }
        self.refused_in_a_row = 0;
    }

    /// Whether the interface is up without a carrier. Its queueing discipline then accepts frames and drops them. With
    /// [`bypass_qdisc`](TxConfig::bypass_qdisc) the kernel refuses such frames itself.
    fn has_no_carrier(&mut self) -> bool {
        if self.config.bypass_qdisc {
            return false;
        }
        let is_waiting = matches!(&self.delay, Some(delay) if delay.cause == Wait::Carrier);
        let now = Instant::now();
        if !is_waiting && now < self.carrier_check {
            return false;
        }
        self.carrier_check = now + CARRIER_CHECK;
        // An interface that is down is reported by the kernel. One that was renamed or deleted, too.
        sys::interface_flags(self.socket.as_fd(), &self.interface.name)
            .is_ok_and(|flags| flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING == 0)
    }

    /// Hands packets to the kernel once. Returns the error that it answered, if any.
    fn offer(&mut self) -> Option<io::Error> {
        let Backend::Messages(messages) = &mut self.backend else {
            return self.offer_ring();
        };
        let frames = self.pending.iter().map(Packet::as_slice);
        match messages.send(self.socket.as_fd(), frames) {
            Ok(taken) => {
                (0..taken).for_each(|_| self.accept());
                None
            }
            Err(cause) => Some(cause),
        }
    }

    fn offer_ring(&mut self) -> Option<io::Error> {
        let Backend::Ring(ring) = &mut self.backend else {
            return None;
        };
        for packet in self.pending.iter().skip(ring.placed()) {
            if !ring.place(packet.as_slice()) {
                break;
            }
        }
        if ring.placed() == 0 {
            return Some(io::Error::from_raw_os_error(libc::ENOBUFS)); // all slots are still being sent
        }
        let answer = sys::send_ring(self.socket.as_fd()).err();
        let mut accepted = false;
        loop {
            let Backend::Ring(ring) = &mut self.backend else {
                return None;
            };
            match ring.take_outcome() {
                Outcome::Accepted => self.accept(),
                Outcome::Wrong => return answer.or(Some(io::ErrorKind::InvalidInput.into())),
                // The error belongs to the oldest packet, unless others were accepted in the same call.
                Outcome::Waits if accepted => return None,
                Outcome::Waits => {
                    return answer.or_else(|| Some(io::Error::from_raw_os_error(libc::EAGAIN)));
                }
            }
            accepted = true;
        }
    }

    /// The oldest packet has to wait, which must not take forever.
    fn put_off(&mut self, cause: Wait) -> Result<()> {
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
            return Ok(());
        }
        let time = format!("{:.1} s", (now - since).as_secs_f64());
        match cause {
            Wait::Link => {
                self.fail_all(|failed| &mut failed.link_down);
                Err(self.socket.is_down())
            }
            Wait::Carrier => {
                self.fail_all(|failed| &mut failed.link_down);
                let tried = format!("the interface has had no carrier for {time}");
                let advice = "Connect it, or bring up its other end";
                Err(Error::new(self.name(), tried).advise(advice))
            }
            Wait::Buffer | Wait::Queue => {
                // A filter for outgoing frames answers like a full queue, but only for some packets.
                self.refused_in_a_row += 1;
                if self.refused_in_a_row < REFUSED_IN_A_ROW {
                    self.fail(|failed| &mut failed.refused);
                    return Ok(());
                }
                self.fail_all(|failed| &mut failed.abandoned);
                let tried = format!("the interface has accepted no frame for {time}");
                let advice = "Look for a filter or a limit for outgoing frames: tc qdisc show; nft list ruleset";
                Err(Error::new(self.name(), tried).advise(advice))
            }
        }
    }

    /// How to count this packet if it cannot be sent.
    fn misfit(&self, packet: &Packet) -> Option<fn(&mut TxFailed) -> &mut u64> {
        let Some(len) = packet.len().checked_sub(self.described) else {
            return Some(|failed| &mut failed.too_short);
        };
        if len < self.min_frame_bytes {
            return Some(|failed| &mut failed.too_short);
        }
        let longest = match packet.as_slice().split_first_chunk() {
            // The kernel splits it.
            Some((header, frame)) if self.described > 0 => {
                Unfinished::from_header(*header).longest_frame(frame) as u32
            }
            _ => len,
        };
        (longest > self.max_frame_bytes + VLAN_TAG).then_some(|failed| &mut failed.too_long)
    }

    /// Copies packets that lie in several slots into one each. Returns how many packets, from the front, are in one slot now, or
    /// cannot be sent anyway; there are fewer if no slot is free.
    fn join_slots(&mut self, packets: &mut [Packet]) -> usize {
        for (at, packet) in packets.iter_mut().enumerate() {
            let len = packet.len();
            if packet.as_slice().len() == len as usize || self.misfit(packet).is_some() {
                continue;
            }
            let Some(mut whole) = self.pool.take() else {
                return at;
            };
            // A slot has room for the longest frame.
            if let Ok(room) = whole.put(len) {
                room.copy_from_slice(&packet.to_vec());
                *packet = whole;
            }
        }
        packets.len()
    }
}

/// Returns a slot to its pool, at once if it is ours.
fn free(pool: &mut Pool, packet: Packet) {
    // A packet of another pool returns there when it is dropped.
    drop(pool.put_back(packet));
}

impl TxPort for AfPacketTx {
    fn interface(&self) -> &Interface {
        &self.interface
    }

    fn max_frame_bytes(&self) -> u32 {
        self.max_frame_bytes
    }

    fn reserve(&mut self, n: usize, packets: &mut Vec<Packet>) -> usize {
        let room = self.config.queue_frames as usize - self.pending.len();
        self.pool.take_burst(n.min(room), packets)
    }

    fn commit(&mut self, packets: &mut Vec<Packet>) -> Result<usize> {
        let room = self.config.queue_frames as usize - self.pending.len();
        let room = room.min(packets.len());
        let mut taken = self.join_slots(&mut packets[..room]);
        // Pending packets will free slots. If there are none, the caller has all slots, and the packet can never be sent.
        let is_stuck = taken == 0 && room > 0 && self.pending.is_empty();
        taken += usize::from(is_stuck);
        self.counts.sent += taken as u64;
        for packet in packets.drain(..taken) {
            let stuck: fn(&mut TxFailed) -> &mut u64 = |failed| &mut failed.refused;
            match self.misfit(&packet).or(is_stuck.then_some(stuck)) {
                None => self.pending.push_back(packet),
                Some(count) => {
                    *count(&mut self.counts.failed) += 1;
                    free(&mut self.pool, packet);
                }
            }
        }
        self.advance()?;
        Ok(taken)
    }

    fn advance(&mut self) -> Result<usize> {
        if !self.pending.is_empty() && self.has_no_carrier() {
            self.put_off(Wait::Carrier)?;
            return Ok(self.pending.len());
        }
        while !self.pending.is_empty() {
            let Some(cause) = self.offer() else {
                continue;
            };
            match verdict(&cause) {
                Verdict::Retry(cause) => {
                    self.put_off(cause)?;
                    break;
                }
                Verdict::Fails(count) => self.fail(count),
                Verdict::Gone => {
                    self.fail_all(|failed| &mut failed.link_down);
                    let tried = "sending: the interface is gone";
                    return Err(Error::new(self.name(), tried).because(cause));
                }
            }
        }
        Ok(self.pending.len())
    }

    fn arm(&mut self) -> Result<TxWake<'_>> {
        Ok(match self.delay {
            Some(delay) if !self.pending.is_empty() => match delay.cause {
                Wait::Buffer => TxWake::Writable(self.socket.as_fd()),
                Wait::Queue => {
                    TxWake::After(FULL_RETRY * (1 << delay.attempts.min(FULL_DOUBLINGS)))
                }
                Wait::Link | Wait::Carrier => TxWake::After(DOWN_RETRY),
            },
            _ => TxWake::Ready,
        })
    }

    fn abandon(&mut self) {
        self.fail_all(|failed| &mut failed.abandoned);
    }

    fn counts(&self) -> TxCounts {
        self.counts
    }

    fn info(&self) -> TxInfo {
        TxInfo {
            backend: "af_packet",
            copy: match self.backend {
                Backend::Messages(_) => "sendmmsg from slots",
                Backend::Ring(_) => "copied into a mapped ring",
            },
            queue_frames: self.config.queue_frames,
            bypasses_qdisc: self.config.bypass_qdisc,
            takes_unfinished: self.described > 0,
        }
    }
}
