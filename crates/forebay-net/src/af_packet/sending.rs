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

use super::{link_types::link_type, names, socket::Socket, tx_ring::Outcome, tx_ring::TxRing};
use crate::{
    link::Netlink,
    port::{Interface, LinkType, Unfinished},
    sys::{self, Messages},
    transmit::{
        Cause, ETHERNET_HEADER, HEADROOM, Outbox, TxBackend, TxConfig, TxCounts, TxInfo, TxPort,
        TxWake, VLAN_TAG, Wait,
    },
};
use forebay::{Error, Result, packet::Packet};
use rustix::time::{ClockId, clock_gettime};
use std::{collections::VecDeque, io, os::fd::AsFd, time::Duration};

/// The longest frame of merged segments.
const MERGED_BYTES: u32 = 65_536 + ETHERNET_HEADER;
/// Frames handed to the kernel with one call.
const BURST: usize = 64;
/// How long the answer that there is a carrier is used.
const CARRIER_CHECK: Duration = Duration::from_millis(1);
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
    outbox: Outbox,
    /// Bytes of the description of offloads before each frame; 0: there is none.
    described: u32,
    /// Committed packets without an outcome, in order.
    pending: VecDeque<Packet>,
    backend: Backend,
    /// When the carrier was looked up, and whether there was one.
    carrier_checked: Duration,
    has_carrier: bool,
}

#[derive(Debug)]
enum Backend {
    Messages(Messages),
    Ring(TxRing),
}

/// What an error of the kernel means for the oldest pending packet.
enum Verdict {
    Retry(Wait),
    Fails(Cause),
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
        Outbox::check(name, config)?;
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
            TxBackend::Ring => Backend::Ring(TxRing::open(&socket, config.queue_frames, room)?),
        };
        if config.bypass_qdisc {
            socket.bypass_qdisc()?;
        }
        let interface = Interface {
            name: name.into(),
            link: link_type,
            snaplen: max_frame_bytes,
            ..Interface::default()
        };
        let slot_bytes = (HEADROOM + room).next_multiple_of(64);
        let outbox = Outbox::new(interface, header, slot_bytes, config)?;
        sys::set_send_buffer(
            socket.as_fd(),
            Outbox::buffer_bytes(config.queue_frames, room),
        );
        socket.attach_sender()?;
        Ok(AfPacketTx {
            socket,
            outbox,
            described,
            pending: VecDeque::with_capacity(config.queue_frames as usize),
            backend,
            carrier_checked: Duration::ZERO,
            has_carrier: false, // it was not looked up
        })
    }

    /// The oldest pending packet was accepted.
    fn accept(&mut self) {
        if let Some(packet) = self.pending.pop_front() {
            self.outbox.accept(packet.len() - self.described);
            self.outbox.free(packet);
        }
    }

    /// The oldest pending packet has failed.
    fn fail(&mut self, cause: Cause) {
        if let Backend::Ring(ring) = &mut self.backend {
            ring.take_back();
        }
        if let Some(packet) = self.pending.pop_front() {
            self.outbox.fail(1, cause);
            self.outbox.free(packet);
        }
    }

    fn fail_all(&mut self, cause: Cause) {
        while !self.pending.is_empty() {
            self.fail(cause);
        }
    }

    /// Whether the interface is up without a carrier. Its queueing discipline then accepts frames and drops them. With
    /// [`bypass_qdisc`](TxConfig::bypass_qdisc) the kernel refuses such frames itself. An answer of this age is still used.
    fn has_no_carrier(&mut self, age: Duration) -> bool {
        if self.outbox.config.bypass_qdisc {
            return false;
        }
        let now = coarse_time();
        if self.has_carrier && now.saturating_sub(self.carrier_checked) < age {
            return false;
        }
        self.carrier_checked = now;
        // An interface that is down is reported by the kernel. One that was renamed or deleted, too.
        let flags = sys::interface_flags(self.socket.as_fd(), &self.outbox.interface.name);
        self.has_carrier =
            !flags.is_ok_and(|flags| flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING == 0);
        !self.has_carrier
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
        match self.outbox.put_off(cause) {
            None => {}
            Some((cause, None)) => self.fail(cause),
            Some((cause, Some(error))) => {
                self.fail_all(cause);
                return Err(error);
            }
        }
        Ok(())
    }

    /// How to count this packet if it cannot be sent.
    fn misfit(&self, packet: &Packet) -> Option<Cause> {
        let Some(len) = packet.len().checked_sub(self.described) else {
            return Some(|failed| &mut failed.too_short);
        };
        let (frame, longest) = match packet.as_slice().split_first_chunk() {
            // The kernel splits it.
            Some((header, frame)) if self.described > 0 => {
                let longest = Unfinished::from_header(*header).longest_frame(frame);
                (frame, longest as u32)
            }
            _ => (packet.as_slice(), len),
        };
        self.outbox.misfit(frame, longest.min(len))
    }

    /// Copies packets that lie in several slots into one each. Returns how many packets, from the front, are in one slot now, or
    /// cannot be sent anyway; there are fewer if no slot is free.
    fn join_slots(&mut self, packets: &mut [Packet]) -> usize {
        for (at, packet) in packets.iter_mut().enumerate() {
            let len = packet.len();
            if packet.as_slice().len() == len as usize || self.misfit(packet).is_some() {
                continue;
            }
            match self.outbox.copy(packet) {
                Some(whole) => *packet = whole,
                None => return at,
            }
        }
        packets.len()
    }
}

/// The monotonic clock, up to a tick late (10 ms or less). It takes much less time to read.
fn coarse_time() -> Duration {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

impl TxPort for AfPacketTx {
    fn interface(&self) -> &Interface {
        &self.outbox.interface
    }

    fn max_frame_bytes(&self) -> u32 {
        self.outbox.max_frame_bytes
    }

    fn reserve(&mut self, n: usize, packets: &mut Vec<Packet>) -> usize {
        let room = self.outbox.room(self.pending.len());
        self.outbox.pool.take_burst(n.min(room), packets)
    }

    fn commit(&mut self, packets: &mut Vec<Packet>) -> Result<usize> {
        let room = self.outbox.room(self.pending.len()).min(packets.len());
        let mut taken = self.join_slots(&mut packets[..room]);
        // Pending packets will free slots. If there are none, the caller has all slots, and the packet can never be sent.
        let is_stuck = taken == 0 && room > 0 && self.pending.is_empty();
        taken += usize::from(is_stuck);
        self.outbox.counts.sent += taken as u64;
        for packet in packets.drain(..taken) {
            let stuck: Cause = |failed| &mut failed.refused;
            let misfit = self.misfit(&packet);
            match misfit.or(is_stuck.then_some(stuck)) {
                None => self.pending.push_back(packet),
                Some(cause) => {
                    *cause(&mut self.outbox.counts.failed) += 1;
                    self.outbox.free(packet);
                }
            }
        }
        self.advance()?;
        Ok(taken)
    }

    fn send_now(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> usize {
        let is_possible = self.pending.is_empty() && self.described == 0;
        if !is_possible || self.has_no_carrier(CARRIER_CHECK) {
            return 0;
        }
        let Backend::Messages(messages) = &mut self.backend else {
            return 0;
        };
        let outbox = &mut self.outbox;
        let fitting = frames.take_while(|frame| outbox.misfit(frame, frame.len() as u32).is_none());
        // The caller commits the first one that is not taken. Then an error is counted.
        let taken = messages.send(self.socket.as_fd(), fitting).unwrap_or(0);
        outbox.counts.sent += taken as u64;
        (0..taken).for_each(|frame| outbox.accept(messages.len_of(frame) as u32));
        taken
    }

    fn advance(&mut self) -> Result<usize> {
        if self.pending.is_empty() {
            // Nothing waits now, so the carrier is looked up before its age requires it. The next packets need not wait for that.
            self.has_no_carrier(CARRIER_CHECK / 2);
            return Ok(0);
        }
        if self.has_no_carrier(CARRIER_CHECK) {
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
                Verdict::Fails(cause) => self.fail(cause),
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
        Ok(match self.pending.is_empty() {
            true => TxWake::Ready,
            false => self.outbox.wake(self.socket.as_fd()),
        })
    }

    fn abandon(&mut self) {
        self.fail_all(|failed| &mut failed.abandoned);
    }

    fn counts(&self) -> TxCounts {
        self.outbox.counts
    }

    fn info(&self) -> TxInfo {
        TxInfo {
            backend: "af_packet",
            copy: match self.backend {
                Backend::Messages(_) => "sendmmsg from slots",
                Backend::Ring(_) => "copied into a mapped ring",
            },
            queue_frames: self.outbox.config.queue_frames,
            bypasses_qdisc: self.outbox.config.bypass_qdisc,
            takes_unfinished: self.described > 0,
            sends_now: matches!(self.backend, Backend::Messages(_)) && self.described == 0,
        }
    }
}
