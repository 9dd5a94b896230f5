//! Sending with AF_XDP: frames leave from the slots of a pool.
//!
//! ```text
//!   commit ─▶ transmit ring: address, length ─▶ kernel ─▶ accepted: it has moved past the slot of the ring
//!     ▲                                           │
//!     └── pool ◀── completion ring: address ◀─────┘ done with the bytes
//! ```
//!
//! The memory of the pool is registered with the kernel, which only reads it. A packet of the pool is kept until its address is completed, so
//! nothing writes its bytes meanwhile. Packets of other pools are copied. The queue is bound in copy mode: with zero-copy, drivers stop
//! receiving on the queue, because they take memory for received frames from the same socket.
//!
//! What the kernel answers to a call decides about the oldest frame:
//!
//! | answer | what happens |
//! |---|---|
//! | taken | the frames before its position are accepted |
//! | `EBUSY` | it took a last frame, which the driver dropped: it has failed (`refused`) |
//! | `EAGAIN`, `ENOBUFS`, `ENOMEM` | no room, or enough for one call: the rest is tried again |
//! | `ENETDOWN` | the interface is down: the frames stay, and are tried again |
//! | `ENXIO`, `ENODEV`, others | the interface is gone: all frames have failed, and the port |

use super::{
    Spec,
    rings::Ring,
    socket::{Binding, Socket},
};
use crate::{
    af_packet::{find_link, link_type},
    link::Netlink,
    port::{Interface, LinkType},
    sys,
    transmit::{
        Cause, DOWN_RETRY, ETHERNET_HEADER, HEADROOM, Outbox, TxConfig, TxCounts, TxInfo, TxPort,
        TxWake, VLAN_TAG, Wait,
    },
};
use forebay::{
    Error, Result,
    packet::Packet,
    ring::kernel::{Damaged, End},
};
use std::{collections::VecDeque, io, iter, os::fd::AsFd};

/// A descriptor of nothing. Without options: one of them would join the next descriptor to it.
const VOID: libc::xdp_desc = libc::xdp_desc {
    addr: u64::MAX,
    len: u32::MAX,
    options: 0,
};
/// An AF_XDP socket that sends on one queue of an interface.
#[derive(Debug)]
pub struct AfXdpTx {
    /// Closed before the pool's memory is unmapped.
    socket: Socket,
    outbox: Outbox,
    ring: Ring<libc::xdp_desc>,
    ring_end: End,
    completed: Ring<u64>,
    completed_end: End,
    slot_bytes: u32,
    /// Lengths of the frames in the transmit ring, in order.
    pending: VecDeque<u32>,
    /// Descriptors at the front of the ring whose frames have failed. They name no memory, so the kernel skips them.
    void: usize,
    /// The packet in each slot whose address the kernel has.
    held: Box<[Option<Packet>]>,
}

impl AfXdpTx {
    /// Opens an interface for sending, on queue 0 unless `spec` has another one. The interface may be down; then packets wait.
    ///
    /// # Errors
    /// Each error advises what to do:
    /// - The interface does not exist, has no Ethernet frames, or frames that are too long.
    /// - CAP_NET_RAW is missing, or the limit for locked memory is too low.
    /// - Another socket has the queue, or there is no such queue.
    /// - `spec` has a key that is for receiving only, or a value of `config` is out of its range.
    pub fn open(spec: &Spec, config: &TxConfig) -> Result<Self> {
        let name = &spec.interface[..];
        Outbox::check(name, config)?;
        let queue_frames = config.queue_frames;
        if spec.mode.is_some() || spec.copies || spec.busy_poll.is_some() {
            let tried = "mode, copy and busy-poll are for receiving";
            return Err(Error::invalid(name, tried).advise("For sending, only queue=N is possible"));
        }
        let links = Netlink::open()?.links()?;
        let link = find_link(&links, name)?;
        if link_type(link)? != LinkType::ETHERNET {
            return Err(Error::new(name, "AF_XDP sends Ethernet frames only")
                .advise(format!("Use packet:{name}")));
        }
        let max_frame_bytes = link.mtu.saturating_add(ETHERNET_HEADER);
        let room = HEADROOM + max_frame_bytes.saturating_add(VLAN_TAG);
        let Some(slot_bytes) = [2048, 4096].into_iter().find(|&slot| room <= slot) else {
            let tried = format!(
                "frames of its MTU of {} bytes are too long for AF_XDP",
                link.mtu
            );
            return Err(Error::new(name, tried).advise(format!("Use packet:{name}")));
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
        let socket = Socket::open(name)?;
        let binding = Binding {
            name,
            index: link.index,
            queue: spec.queue.unwrap_or(0),
            copies: true,
            busy_poll: None,
        };
        let (ring, completed) = socket.bind_sender(&registration, slots, completions, binding)?;
        sys::set_send_buffer(socket.as_fd(), outbox.buffer_bytes(room));
        Ok(AfXdpTx {
            socket,
            outbox,
            ring_end: End::producer(ring.capacity()),
            ring,
            completed_end: End::consumer(completed.capacity()),
            completed,
            slot_bytes,
            held: iter::repeat_with(|| None)
                .take(queue_frames as usize * 2)
                .collect(),
            pending: VecDeque::with_capacity(queue_frames as usize),
            void: 0,
        })
    }

    fn damaged(&self, damaged: Damaged) -> Error {
        let text = format!("the kernel's rings are damaged: {damaged}");
        Error::new(self.name(), text)
    }

    /// Frees the packets whose bytes the kernel no longer needs.
    fn collect(&mut self) -> Result<()> {
        let found = self.completed_end.available(self.completed.producer(), 1); // PUBLISH
        let found = found.map_err(|damaged| self.damaged(damaged))?;
        for n in 0..found {
            let address = self.completed.read(self.completed_end.slot(n));
            if address == VOID.addr {
                continue; // some kernels complete what they skip
            }
            let slot = usize::try_from(address / u64::from(self.slot_bytes)).ok();
            let held = slot.and_then(|slot| self.held.get_mut(slot));
            let Some(packet) = held.and_then(Option::take) else {
                let text = format!("the kernel completed {address}, which it did not have");
                return Err(Error::new(self.name(), text));
            };
            self.outbox.free(packet);
        }
        if found > 0 {
            self.completed_end.advance(found);
            self.completed_end.publish(self.completed.consumer()); // CREDIT
        }
        Ok(())
    }

    /// The number of pending frames that the kernel has taken since the last call.
    fn taken(&mut self) -> Result<usize> {
        let capacity = self.ring_end.capacity();
        let vacant = self.ring_end.available(self.ring.consumer(), capacity); // CREDIT
        let vacant = vacant.map_err(|damaged| self.damaged(damaged))?;
        let claimed = capacity - vacant;
        let placed = self.void + self.pending.len();
        let taken = placed
            .checked_sub(claimed)
            .ok_or_else(|| self.damaged(Damaged { claimed, capacity }))?;
        let void = self.void.min(taken);
        self.void -= void;
        Ok(taken - void)
    }

    /// Lets the kernel skip the void descriptors, one with each call. Nothing is placed after them before that, so that frames do not
    /// wait for these calls.
    fn skip_void(&mut self) -> Result<()> {
        if self.void == 0 {
            return Ok(());
        }
        // It publishes its position when it finds the ring empty, a call later.
        for _ in 0..self.void + 2 {
            if sys::send_ring(self.socket.as_fd()).is_err() {
                break;
            }
        }
        self.taken()?;
        self.collect()
    }

    /// Where a packet's bytes are in the registered memory, if they are there and its slot is not on its way already.
    fn address(&self, packet: &Packet) -> Option<(u64, usize)> {
        let (memory, len) = self.outbox.pool.memory();
        let data = packet.as_slice();
        let at = data.as_ptr().addr().checked_sub(memory.addr().get())?;
        let slot = at / self.slot_bytes as usize;
        let is_free = at + data.len() <= len && self.held.get(slot)?.is_none();
        is_free.then_some((at as u64, slot))
    }

    /// Puts a packet into the transmit ring; or returns it, if there is no slot to copy it to.
    fn place(&mut self, packet: Packet) -> std::result::Result<(), Packet> {
        let len = packet.len();
        let is_whole = packet.as_slice().len() == len as usize;
        let (packet, (address, slot)) = match self.address(&packet).filter(|_| is_whole) {
            Some(place) => (packet, place),
            None => {
                let Some(copy) = self.outbox.copy(&packet) else {
                    return Err(packet);
                };
                let Some(place) = self.address(&copy) else {
                    return Err(packet);
                };
                drop(packet);
                (copy, place)
            }
        };
        let desc = libc::xdp_desc {
            addr: address,
            len,
            options: 0,
        };
        self.held[slot] = Some(packet);
        self.ring.write(self.ring_end.slot(0), desc);
        self.ring_end.advance(1);
        self.pending.push_back(len);
        Ok(())
    }

    /// Counts all pending frames as failed. Their descriptors cannot be taken out of the ring, so they are made void: in copy mode the
    /// kernel reads them only within a call of ours, and skips one that names no memory.
    fn fail_all(&mut self, cause: Cause) {
        let failed = self.pending.len();
        for n in 1..=failed {
            let slot = self.ring_end.slot(0_usize.wrapping_sub(n));
            let address = self.ring.read(slot).addr;
            self.ring.write(slot, VOID);
            let held = self
                .held
                .get_mut((address / u64::from(self.slot_bytes)) as usize);
            if let Some(packet) = held.and_then(Option::take) {
                self.outbox.free(packet);
            }
        }
        self.outbox.fail(failed, cause);
        self.void += failed;
        self.pending.clear();
    }

    /// The oldest frame has to wait, which must not take forever.
    fn put_off(&mut self, cause: Wait) -> Result<()> {
        let Some((cause, error)) = self.outbox.put_off(cause) else {
            return Ok(());
        };
        self.fail_all(cause);
        error.map_or(Ok(()), Err)
    }
}

impl TxPort for AfXdpTx {
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
        self.collect()?;
        self.skip_void()?;
        if self.void > 0 {
            return Ok(0); // the interface is still down
        }
        let queue = self.outbox.config.queue_frames as usize;
        let vacant = self.ring_end.available(self.ring.consumer(), queue); // CREDIT
        let mut vacant = vacant.map_err(|damaged| self.damaged(damaged))?;
        let mut taken = 0;
        let mut left = std::mem::take(packets).into_iter();
        while self.pending.len() < queue
            && vacant > 0
            && let Some(packet) = left.next()
        {
            if let Some(cause) = self.outbox.misfit(packet.len()) {
                *cause(&mut self.outbox.counts.failed) += 1;
            } else if let Err(packet) = self.place(packet) {
                packets.push(packet); // no slot is free for a copy
                break;
            } else {
                vacant -= 1;
            }
            taken += 1;
        }
        packets.extend(left);
        self.outbox.counts.sent += taken as u64;
        self.ring_end.publish(self.ring.producer()); // PUBLISH
        self.advance()?;
        Ok(taken)
    }

    fn advance(&mut self) -> Result<usize> {
        loop {
            self.collect()?;
            if self.pending.is_empty() {
                self.skip_void()?;
                return Ok(0);
            }
            // In copy mode frames leave only within this call.
            let answer = sys::send_ring(self.socket.as_fd());
            let errno = answer.as_ref().err().and_then(io::Error::raw_os_error);
            let taken = self.taken()?;
            for n in 1..=taken {
                let len = self.pending.pop_front().unwrap_or_default();
                if n == taken && errno == Some(libc::EBUSY) {
                    self.outbox.fail(1, |failed| &mut failed.refused);
                    continue;
                }
                self.outbox.accept(len);
            }
            if taken > 0 {
                continue;
            }
            match errno {
                None
                | Some(libc::EAGAIN | libc::EINTR | libc::EBUSY | libc::ENOBUFS | libc::ENOMEM) => {
                    self.put_off(Wait::Queue)?
                }
                Some(libc::ENETDOWN) => self.put_off(Wait::Link)?,
                Some(_) => {
                    self.fail_all(|failed| &mut failed.link_down);
                    let error = Error::new(self.name(), "sending: the interface is gone");
                    return Err(match answer {
                        Ok(()) => error,
                        Err(cause) => error.because(cause),
                    });
                }
            }
            return Ok(self.pending.len());
        }
    }

    fn arm(&mut self) -> Result<TxWake<'_>> {
        Ok(match self.pending.is_empty() {
            false => self.outbox.wake(self.socket.as_fd()),
            true if self.void > 0 => TxWake::After(DOWN_RETRY),
            true => TxWake::Ready,
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
            backend: "af_xdp",
            copy: "sent from slots, copied by the kernel",
            queue_frames: self.outbox.config.queue_frames,
            bypasses_qdisc: self.outbox.config.bypass_qdisc,
            takes_unfinished: false,
            sends_now: false,
        }
    }
}
