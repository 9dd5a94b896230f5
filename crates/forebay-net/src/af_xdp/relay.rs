//! Two interfaces with the same memory: each sends the frames that the other one has received, from where they are.
//!
//! ```text
//!   A: fill, receive ring  ─▶ frame ─▶ Relay of B: transmit ring, completion ring ─▶ memory ─▶ fill ring of A      and B ─▶ A alike
//! ```
//!
//! All queues of both interfaces have a socket each. The memory is registered with the first one, and the others share it
//! (`XDP_SHARED_UMEM`, Linux 5.10), each with its own fill ring and completion ring. An interface sends on the first of its queues, so frames
//! keep their order.

use super::{
    AfXdp, AfXdpConfig, Spec, config,
    memory::Memory,
    memory::{Shape, Umem},
    outgoing::{Bytes, Outgoing},
    port::Plan,
    queue::Queue,
    socket::Socket,
    spec::Mode,
};
use crate::{
    link::Link,
    port::Interface,
    sys,
    transmit::{ETHERNET_HEADER, Outbox, TxConfig, TxCounts, TxInfo, TxPort, TxWake},
};
use forebay::{Error, Result, memory, packet::Packet};
use std::{io, os::fd::AsFd, sync::Arc};

/// The longest row of frames that wait to be sent: slots of a transmit ring.
const SLOTS: u32 = 512;
/// Frames that an interface may have lent at the same time: waiting, or taken by the kernel and not completed.
const LENT: u32 = 1024;

/// Sends frames that the other interface has received.
#[derive(Debug)]
pub(crate) struct Relay {
    outgoing: Outgoing<Lent>,
    is_zero_copy: bool,
}

/// The memory, and the number of its chunks that this interface is sending.
#[derive(Debug)]
struct Lent {
    memory: Arc<Memory>,
    chunks: u32,
}

impl Bytes for Lent {
    fn give_back(&mut self, address: u64, _outbox: &mut Outbox) -> bool {
        let was_lent = self.memory.take_back(address);
        self.chunks -= u32::from(was_lent);
        was_lent
    }
}

/// Opens both interfaces with the same memory: `config.ring_bytes` for each, and room for frames that are being sent.
///
/// # Errors
/// As [`AfXdp::open`]; or the kernel is older than Linux 5.10.
pub(crate) fn open_pair(
    specs: [&Spec; 2],
    config: &AfXdpConfig,
    send: &TxConfig,
) -> Result<[(AfXdp, Relay); 2]> {
    let copies = |spec: &&Spec| spec.copies || spec.mode == Some(Mode::Generic);
    let copies = specs.iter().any(copies);
    match open(specs, config, send, copies) {
        // One driver can do without copies, and the other one cannot.
        Err(error) if !copies && error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            open(specs, config, send, true)
        }
        opened => opened,
    }
}

fn open(
    specs: [&Spec; 2],
    config: &AfXdpConfig,
    send: &TxConfig,
    copies: bool,
) -> Result<[(AfXdp, Relay); 2]> {
    let [mut first, mut second] = [Plan::new(specs[0])?, Plan::new(specs[1])?];
    (first.copies, second.copies) = (copies, copies);
    let shape = shape(&first, &second, config)?;
    let queues = (first.queues.len() + second.queues.len()) as u32;
    config::fits_memory(&first.link.name, shape, queues, memory::available())?;
    let memory = Arc::new(Memory::new(shape, queues, true)?);
    let mut owner: Option<Arc<Socket>> = None;
    let mut number = 0..queues;
    let mut open_one = |plan: Plan<'_>| -> Result<(AfXdp, Relay)> {
        let link = plan.link.clone();
        let mut sender = None;
        let port = plan.open(config, shape, &mut |stamps, to| {
            let umem = Umem {
                memory: memory.clone(),
                queue: number.next().unwrap_or_default(),
                stamps,
            };
            let socket = Socket::open(to.name, super::RIGHTS)?;
            match &owner {
                None => socket.register(&memory.registration(), to)?,
                Some(owner) if to.copies && owner.is_zero_copy() => {
                    let error = Error::new(to.name, "sharing memory without copies");
                    return Err(error.because(io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
                }
                Some(_) => {}
            }
            let rings = sender.is_none().then_some((SLOTS, SLOTS * 2));
            let (queue, rings) = Queue::bind_both(socket, umem, rings, owner.as_deref(), to)?;
            owner.get_or_insert_with(|| queue.socket.clone());
            if let Some(rings) = rings {
                sender = Some((queue.socket.clone(), rings));
            }
            Ok(queue)
        })?;
        let Some((socket, rings)) = sender else {
            return Err(Error::new(&link.name, "the interface has no queue"));
        };
        let outbox = outbox(&link, send)?;
        sys::set_send_buffer(
            socket.as_fd(),
            Outbox::buffer_bytes(LENT, shape.chunk_bytes),
        );
        let lent = Lent {
            memory: memory.clone(),
            chunks: 0,
        };
        let relay = Relay {
            is_zero_copy: socket.is_zero_copy(),
            outgoing: Outgoing::new(socket, rings, outbox, lent),
        };
        Ok((port, relay))
    };
    Ok([open_one(first)?, open_one(second)?])
}

/// One shape for the queues of both: so the home of a chunk follows from its address.
fn shape(first: &Plan<'_>, second: &Plan<'_>, config: &AfXdpConfig) -> Result<Shape> {
    let mtu = first.link.mtu.max(second.link.mtu);
    let of = |plan: &Plan<'_>| {
        let link = Link {
            mtu,
            ..plan.link.clone()
        };
        config.shape(&link, plan.queues.len() as u32, plan.hardware_ring)
    };
    let (first, second) = (of(first)?, of(second)?);
    let slots = first.slots.min(second.slots);
    let spare = |shape: Shape| shape.chunks - shape.slots;
    Ok(Shape {
        chunk_bytes: first.chunk_bytes,
        slots,
        chunks: slots + spare(first).max(spare(second)) + LENT,
    })
}

/// The limits and counts of a sender that has no slots.
fn outbox(link: &Link, send: &TxConfig) -> Result<Outbox> {
    let interface = Interface {
        name: link.name.clone(),
        snaplen: link.mtu.saturating_add(ETHERNET_HEADER),
        ..Interface::default()
    };
    let send = TxConfig {
        bypass_qdisc: true,
        queue_frames: 1,
        ..send.clone()
    };
    Outbox::new(interface, ETHERNET_HEADER, 128, &send)
}

impl TxPort for Relay {
    fn interface(&self) -> &Interface {
        &self.outgoing.outbox.interface
    }

    fn max_frame_bytes(&self) -> u32 {
        self.outgoing.outbox.max_frame_bytes
    }

    /// It has no slots: it sends only with [`send_received`](TxPort::send_received).
    fn reserve(&mut self, _n: usize, _packets: &mut Vec<Packet>) -> usize {
        0
    }

    fn commit(&mut self, _packets: &mut Vec<Packet>) -> Result<usize> {
        self.advance().map(|_| 0)
    }

    fn send_received(&mut self, frame: &[u8]) -> Option<bool> {
        let outgoing = &mut self.outgoing;
        let len = frame.len() as u32;
        let mut fail = None;
        if let Some(cause) = outgoing.outbox.misfit(frame, len) {
            fail = Some(cause);
        } else if outgoing.is_blocked() {
            fail = Some(|failed| &mut failed.link_down); // and so have those before it
        } else if outgoing.bytes.chunks >= LENT || outgoing.vacant(1).ok().unwrap_or(0) == 0 {
            return Some(false);
        } else if let Some(address) = outgoing.bytes.memory.lend(frame) {
            outgoing.bytes.chunks += 1;
            outgoing.place(address, len);
        } else {
            fail = Some(|failed| &mut failed.refused);
        }
        outgoing.outbox.counts.sent += 1;
        if let Some(cause) = fail {
            *cause(&mut outgoing.outbox.counts.failed) += 1;
        }
        Some(true)
    }

    fn advance(&mut self) -> Result<usize> {
        self.outgoing.advance()
    }

    fn arm(&mut self) -> Result<TxWake<'_>> {
        Ok(self.outgoing.arm())
    }

    fn abandon(&mut self) {
        self.outgoing.fail_all(|failed| &mut failed.abandoned);
    }

    fn counts(&self) -> TxCounts {
        self.outgoing.outbox.counts
    }

    fn info(&self) -> TxInfo {
        TxInfo {
            backend: "af_xdp",
            copy: match self.is_zero_copy {
                true => "sent from the memory where it was received, zero-copy",
                false => "sent from the memory where it was received, copied by the kernel",
            },
            queue_frames: SLOTS,
            bypasses_qdisc: true,
            ..TxInfo::default()
        }
    }
}
