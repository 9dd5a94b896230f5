//! Sending with AF_XDP: frames leave from the slots of a pool.
//!
//! The memory of the pool is registered with the kernel, which only reads it. A packet of the pool is kept until its address is completed, so
//! nothing writes its bytes meanwhile. Packets of other pools are copied. The queue is bound in copy mode: with zero-copy, drivers stop
//! receiving on the queue, because they take memory for received frames from the same socket. The rings, and what the kernel answers,
//! are in [`outgoing`](super::outgoing).

use super::{
    Spec,
    outgoing::{Bytes, Outgoing},
    socket::{Binding, Socket},
};
use crate::{
    af_packet::{find_link, link_type},
    link::Netlink,
    port::{Interface, LinkType},
    sys,
    transmit::{
        ETHERNET_HEADER, HEADROOM, Outbox, TxBackend, TxConfig, TxCounts, TxInfo, TxPort, TxWake,
        VLAN_TAG,
    },
};
use forebay::{Error, Result, error::Code, packet::Packet};
use std::{iter, os::fd::AsFd, sync::Arc};

/// Sending attaches no program, so it needs fewer rights than receiving.
const RIGHTS: &str = "Run as root, or: sudo setcap cap_net_raw+ep $(command -v forebay)";

/// An AF_XDP socket that sends on one queue of an interface.
#[derive(Debug)]
pub struct AfXdpTx(Outgoing<Slots>);

/// The packet in each slot whose address the kernel has.
#[derive(Debug)]
struct Slots {
    slot_bytes: u32,
    held: Box<[Option<Packet>]>,
}

impl Bytes for Slots {
    fn give_back(&mut self, address: u64, outbox: &mut Outbox) -> bool {
        let slot = usize::try_from(address / u64::from(self.slot_bytes)).ok();
        let held = slot.and_then(|slot| self.held.get_mut(slot));
        let packet = held.and_then(Option::take);
        packet.map(|packet| outbox.free(packet)).is_some()
    }
}

impl AfXdpTx {
    /// Opens an interface for sending, on queue 0 unless `spec` has another one. The interface may be down; then packets wait.
    ///
    /// # Errors
    /// Each error advises what to do:
    /// - The interface does not exist, has no Ethernet frames, or frames that are too long.
    /// - CAP_NET_RAW is missing, or the limit for locked memory is too low.
    /// - Another socket has the queue, or there is no such queue.
    /// - `spec` has a key that is for receiving only, a value of `config` is out of its range, or its backend is that of AF_PACKET,
    ///   [`TxBackend::Ring`].
    pub fn open(spec: &Spec, config: &TxConfig) -> Result<Self> {
        let name = &spec.interface[..];
        Outbox::check(name, config)?;
        let queue_frames = config.queue_frames;
        let Spec {
            mode,
            copies,
            passes,
            busy_poll,
            ..
        } = *spec;
        if mode.is_some() || copies || passes || busy_poll.is_some() {
            let tried = "mode, copy, pass and busy-poll are for receiving";
            return Err(Error::invalid(name, tried).advise("For sending, only queue=N is possible"));
        }
        if config.backend == TxBackend::Ring {
            return Err(
                Error::invalid(name, "PACKET_TX_RING belongs to AF_PACKET").advise(format!(
                    "Choose one of the two: AF_XDP, or {name} without xdp:"
                )),
            );
        }
        let links = Netlink::open()?.links()?;
        let link = find_link(&links, name)?;
        if link_type(link)? != LinkType::ETHERNET {
            return Err(
                Error::coded(Code::Unsupported, name, "AF_XDP sends Ethernet frames only")
                    .advise(format!("Use {name} without xdp:")),
            );
        }
        let max_frame_bytes = link.mtu.saturating_add(ETHERNET_HEADER);
        let room = HEADROOM + max_frame_bytes.saturating_add(VLAN_TAG);
        let Some(slot_bytes) = [2048, 4096].into_iter().find(|&slot| room <= slot) else {
            let tried = format!(
                "frames of its MTU of {} bytes are too long for AF_XDP",
                link.mtu
            );
            return Err(Error::new(name, tried).advise(format!("Use {name} without xdp:")));
        };
        let interface = Interface {
            name: name.into(),
            description: format!("AF_XDP copied, queue {}", spec.queue.unwrap_or(0)),
            snaplen: max_frame_bytes,
            ..Interface::default()
        };
        let config = &TxConfig {
            bypass_qdisc: true,
            ..config.clone()
        };
        let outbox = Outbox::new(interface, ETHERNET_HEADER, slot_bytes, config)?;
        let (memory, len) = outbox.pool.memory();
        let registration = libc::xdp_umem_reg {
            addr: memory.addr().get() as u64,
            len: len as u64,
            chunk_size: slot_bytes,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        let slots = queue_frames.next_power_of_two();
        let completions = (queue_frames * 2).next_power_of_two();
        let socket = Socket::open(name, RIGHTS)?;
        let binding = Binding {
            name,
            index: link.index,
            queue: spec.queue.unwrap_or(0),
            copies: true,
            busy_poll: None,
        };
        let rings = socket.bind_sender(&registration, slots, completions, binding)?;
        sys::set_send_buffer(socket.as_fd(), Outbox::buffer_bytes(queue_frames, room));
        let held = iter::repeat_with(|| None)
            .take(queue_frames as usize * 2)
            .collect();
        let slots = Slots { slot_bytes, held };
        Ok(AfXdpTx(Outgoing::new(
            Arc::new(socket),
            rings,
            outbox,
            slots,
        )))
    }

    /// Where a packet's bytes are in the registered memory, if they are there and its slot is not on its way already.
    fn address(&self, packet: &Packet) -> Option<(u64, usize)> {
        let (memory, len) = self.0.outbox.pool.memory();
        let data = packet.as_slice();
        let at = data.as_ptr().addr().checked_sub(memory.addr().get())?;
        let slots = &self.0.bytes;
        let slot = at / slots.slot_bytes as usize;
        let is_free = at + data.len() <= len && slots.held.get(slot)?.is_none();
        is_free.then_some((at as u64, slot))
    }

    /// Puts a packet into the transmit ring; or returns it, if there is no slot to copy it to.
    fn place(&mut self, packet: Packet) -> std::result::Result<(), Packet> {
        let len = packet.len();
        let is_whole = packet.as_slice().len() == len as usize;
        let (packet, (address, slot)) = match self.address(&packet).filter(|_| is_whole) {
            Some(place) => (packet, place),
            None => {
                let Some(copy) = self.0.outbox.copy(&packet) else {
                    return Err(packet);
                };
                let Some(place) = self.address(&copy) else {
                    return Err(packet);
                };
                drop(packet);
                (copy, place)
            }
        };
        self.0.bytes.held[slot] = Some(packet);
        self.0.place(address, len);
        Ok(())
    }
}

impl TxPort for AfXdpTx {
    fn interface(&self) -> &Interface {
        &self.0.outbox.interface
    }

    fn max_frame_bytes(&self) -> u32 {
        self.0.outbox.max_frame_bytes
    }

    fn reserve(&mut self, n: usize, packets: &mut Vec<Packet>) -> usize {
        let room = self.0.outbox.room(self.0.pending());
        self.0.outbox.pool.take_burst(n.min(room), packets)
    }

    fn commit(&mut self, packets: &mut Vec<Packet>) -> Result<usize> {
        self.0.collect()?;
        self.0.skip_void()?;
        if self.0.is_blocked() {
            return Ok(0); // the interface is still down
        }
        let queue = self.0.outbox.config.queue_frames as usize;
        let mut vacant = self.0.vacant(queue)?;
        let mut taken = 0;
        let mut left = std::mem::take(packets).into_iter();
        while self.0.pending() < queue
            && vacant > 0
            && let Some(packet) = left.next()
        {
            if let Some(cause) = self.0.outbox.misfit(packet.as_slice(), packet.len()) {
                *cause(&mut self.0.outbox.counts.failed) += 1;
            } else if let Err(packet) = self.place(packet) {
                packets.push(packet); // no slot is free for a copy
                break;
            } else {
                vacant -= 1;
            }
            taken += 1;
        }
        packets.extend(left);
        self.0.outbox.counts.sent += taken as u64;
        self.0.advance()?;
        Ok(taken)
    }

    fn advance(&mut self) -> Result<usize> {
        self.0.advance()
    }

    fn arm(&mut self) -> Result<TxWake<'_>> {
        Ok(self.0.arm())
    }

    fn abandon(&mut self) {
        self.0.fail_all(|failed| &mut failed.abandoned);
    }

    fn counts(&self) -> TxCounts {
        self.0.outbox.counts
    }

    fn info(&self) -> TxInfo {
        let config = &self.0.outbox.config;
        TxInfo {
            backend: "af_xdp",
            copy: "sent from slots, copied by the kernel",
            queue_frames: config.queue_frames,
            bypasses_qdisc: config.bypass_qdisc,
            ..TxInfo::default()
        }
    }
}
