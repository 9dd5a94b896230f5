//! One receive queue: its memory (UMEM), and the two rings through which chunks of it circulate.
//!
//! ```text
//!            ┌──────────── fill ring: empty chunks ────────────▶┐
//!   program  │                                                  │  kernel: a frame into each
//!            └◀─────────── receive ring: address, length ───────┘
//!
//!   chunk:   │ 256 bytes: … │ time stamp 8 │ frame │ … │
//! ```
//!
//! **Ownership.** A chunk belongs to the kernel from the moment the fill ring shows it to the kernel, until the receive ring shows it
//! to us. A frame is read where it lies, and its chunk goes back when the burst has ended. `Queue::is_ours` records which chunks we
//! hold. A descriptor of the kernel is checked before its bytes are touched: the frame must lie in one chunk, and the kernel must have
//! owned that chunk. Otherwise the queue is damaged, and is not used again.
//!
//! The receive ring is given back after the chunks, so the fill ring always has the chunks of all vacant slots: a full receive ring, and
//! not a lack of chunks, is what makes the kernel drop.
//!
//! If another port sends a frame from its chunk, the queue keeps the chunk until that is done ([`memory`](super::memory)).
#![allow(unsafe_code)]

use super::{
    memory::{Shape, Umem},
    program::STAMP_BYTES,
    rings::Ring,
    socket::{Binding, SendRings, Socket, UNUSED},
};
use forebay::{
    Result,
    ring::kernel::{Damaged, End},
};
use std::{
    fmt, slice,
    sync::{Arc, atomic::Ordering},
};

/// What is wrong with the kernel's side of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    Positions(Damaged),
    /// A descriptor of something else than a frame in a chunk of the kernel.
    Descriptor {
        address: u64,
        len: u32,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Positions(damaged) => damaged.fmt(f),
            Damage::Descriptor { address, len } => {
                write!(f, "{len} bytes at {address} are no frame")
            }
        }
    }
}

impl From<Damaged> for Damage {
    fn from(damaged: Damaged) -> Self {
        Damage::Positions(damaged)
    }
}

/// A frame in its chunk, checked.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Number among the chunks of this queue.
    chunk: u32,
    /// Offset in the memory of all queues.
    at: usize,
    len: usize,
    /// The program's time stamp; 0: there is none.
    stamp: u64,
}

/// A bound socket with its memory and rings.
#[derive(Debug)]
pub(super) struct Queue {
    /// Closed before the memory is unmapped.
    pub socket: Arc<Socket>,
    fill: Ring<u64>,
    fill_end: End,
    received: Ring<libc::xdp_desc>,
    received_end: End,
    umem: Umem,
    is_ours: Vec<bool>,
    /// Frames that may be handed out in this burst.
    left: usize,
    /// Frames handed out in this burst.
    taken: Vec<Place>,
    /// Chunks to give back, if some are lent; otherwise empty.
    free: Vec<u32>,
    /// The frame after these.
    next: Option<Place>,
    /// The receive ring was full when it was last looked at, and has since been emptied: losses belong before the next frame.
    was_full: bool,
    is_gap: bool,
    damage: Option<Damage>,
}

impl Queue {
    /// Registers the memory, makes and maps the rings for receiving, and binds the socket.
    pub(super) fn bind(socket: Socket, umem: Umem, to: Binding<'_>) -> Result<Self> {
        socket.register(&umem.memory.registration(), to)?;
        let (queue, _) = Queue::bind_both(socket, umem, None, None, to)?;
        Ok(queue)
    }

    /// Makes and maps the rings for receiving, and, if `sends` has their numbers of slots, the transmit ring and the completion ring.
    /// Binds the socket. The memory is registered with it, or with `owner`.
    pub(super) fn bind_both(
        socket: Socket,
        umem: Umem,
        sends: Option<(u32, u32)>,
        owner: Option<&Socket>,
        to: Binding<'_>,
    ) -> Result<(Self, Option<SendRings>)> {
        let shape = umem.shape();
        // The kernel shows received frames before it releases the slots of the chunks in which they are, so a slot for each chunk
        // would not be enough.
        let fill_slots = (shape.chunks + shape.slots).next_power_of_two();
        let completions = sends.map_or(UNUSED, |(_, completions)| completions);
        socket.make_rings(
            &[
                (libc::XDP_UMEM_FILL_RING, fill_slots),
                (libc::XDP_UMEM_COMPLETION_RING, completions),
                (libc::XDP_RX_RING, shape.slots),
            ],
            to,
        )?;
        if let Some((slots, _)) = sends {
            socket.make_rings(&[(libc::XDP_TX_RING, slots)], to)?;
        }
        let offsets = socket.offsets(to)?;
        let at = libc::XDP_UMEM_PGOFF_FILL_RING;
        let fill = socket.map(offsets.fr, fill_slots, at, to)?;
        let at = libc::XDP_PGOFF_RX_RING as u64;
        let received = socket.map(offsets.rx, shape.slots, at, to)?;
        let sends = sends.map(|(slots, completions)| socket.map_sending(slots, completions, to));
        let sends = sends.transpose()?;
        if let Some(time) = to.busy_poll {
            socket
                .poll_busily(time)
                .map_err(to.failed("setting busy polling"))?;
        }
        let queue = Queue::new(Arc::new(socket), fill, received, umem);
        queue.socket.attach(owner, to)?;
        Ok((queue, sends))
    }

    /// A queue over fresh rings. Gives all chunks to the kernel.
    pub(super) fn new(
        socket: Arc<Socket>,
        fill: Ring<u64>,
        received: Ring<libc::xdp_desc>,
        umem: Umem,
    ) -> Self {
        let chunks = umem.shape().chunks;
        assert!(chunks <= fill.capacity() && received.capacity() < chunks);
        let mut queue = Queue {
            socket,
            fill_end: End::producer(fill.capacity()),
            received_end: End::consumer(received.capacity()),
            fill,
            received,
            is_ours: vec![true; chunks as usize],
            umem,
            left: 0,
            taken: Vec::new(),
            free: Vec::new(),
            next: None,
            was_full: false,
            is_gap: false,
            damage: None,
        };
        queue.give_back(0..chunks);
        queue
    }

    /// Gives chunks to the kernel.
    fn give_back(&mut self, chunks: impl ExactSizeIterator<Item = u32>) {
        let count = chunks.len();
        let vacant = self.fill_end.available(self.fill.consumer(), count);
        // The ring has a slot for each chunk, and for those that the kernel has not released yet. So only damage leaves no room.
        match vacant {
            Ok(vacant) if vacant >= count => {}
            Ok(vacant) => {
                self.damage = Some(Damage::Positions(Damaged {
                    claimed: self.fill_end.capacity() - vacant + count,
                    capacity: self.fill_end.capacity(),
                }));
                return;
            }
            Err(damaged) => {
                self.damage = Some(damaged.into());
                return;
            }
        }
        for (n, chunk) in chunks.enumerate() {
            self.is_ours[chunk as usize] = false;
            let address = self.umem.start(chunk);
            self.fill.write(self.fill_end.slot(n), address);
        }
        self.fill_end.advance(count);
        self.fill_end.publish(self.fill.producer()); // PUBLISH
    }

    /// Starts a burst of up to `budget` frames. Returns whether there is one.
    ///
    /// # Errors
    /// The kernel's side is damaged, now or earlier.
    #[inline]
    pub(super) fn look(&mut self, budget: usize) -> std::result::Result<bool, Damage> {
        debug_assert!(self.taken.is_empty());
        if let Some(damage) = self.damage {
            return Err(damage);
        }
        // The other side's position is loaded only when all frames known so far are handed out, which is where a gap is.
        let mut available = self.received_end.cached_available();
        if available == 0 {
            let loaded = self.received_end.available(self.received.producer(), 1); // PUBLISH
            available = loaded.inspect_err(|&damaged| self.damage = Some(damaged.into()))?;
            self.is_gap |= std::mem::replace(&mut self.was_full, false);
            self.was_full = available == self.received_end.capacity();
        }
        self.left = available.min(budget);
        self.find_next();
        Ok(available > 0)
    }

    /// Whether the ring was full before the next frame, so that losses belong there. Reports it once.
    pub(super) fn take_gap(&mut self) -> bool {
        std::mem::take(&mut self.is_gap)
    }

    pub(super) fn shape(&self) -> Shape {
        self.umem.shape()
    }

    /// Frames that the kernel has put into the receive ring since it was made.
    pub(super) fn arrived(&self) -> u64 {
        self.received_end.position() + u64::from(self.filled())
    }

    /// Frames in the receive ring now.
    fn filled(&self) -> u32 {
        // Relaxed: a number to report; no slot is read because of it.
        let filled = self.received.producer().load(Ordering::Relaxed);
        let ahead = filled.wrapping_sub(self.received_end.position() as u32);
        ahead.min(self.received.capacity())
    }

    /// The time stamp of the next frame of this burst; 0: it has none. `None`: the burst has no more frames.
    #[inline]
    pub(super) fn next_stamp(&self) -> Option<u64> {
        Some(self.next?.stamp)
    }

    /// Reads and checks the descriptor of the next frame.
    #[inline]
    fn find_next(&mut self) {
        self.next = None;
        if self.left == 0 || self.damage.is_some() {
            return;
        }
        let slot = self.received_end.slot(self.taken.len());
        let desc = self.received.read(slot);
        self.next = self.check(desc);
        if self.next.is_none() {
            self.damage = Some(Damage::Descriptor {
                address: desc.addr,
                len: desc.len,
            });
        }
    }

    /// The place that a descriptor names, if it is a frame in a chunk of the kernel.
    #[inline]
    fn check(&self, desc: libc::xdp_desc) -> Option<Place> {
        let chunk_bytes = u64::from(self.umem.shape().chunk_bytes);
        let own = desc.addr.checked_sub(self.umem.start(0))?;
        let chunk = own / chunk_bytes;
        let within = (own % chunk_bytes) as usize;
        let is_ours = *self.is_ours.get(usize::try_from(chunk).ok()?)?;
        if is_ours || within + desc.len as usize > chunk_bytes as usize {
            return None;
        }
        let at = desc.addr as usize;
        let stamp = match self.umem.stamps && within >= STAMP_BYTES {
            // SAFETY: within the memory: `at` is in chunk `chunk` of this queue, and the stamp is in the same one. The kernel has
            // handed the chunk over (PUBLISH), and does not write it until it is given back.
            true => unsafe { self.stamp(at).read_unaligned() },
            false => 0,
        };
        Some(Place {
            chunk: chunk as u32,
            at,
            len: desc.len as usize,
            stamp,
        })
    }

    /// Where the time stamp of a frame at this offset lies, at least [`STAMP_BYTES`] from the beginning of the memory.
    fn stamp(&self, at: usize) -> *mut u64 {
        let base = self.umem.memory.base().as_ptr();
        base.wrapping_add(at - STAMP_BYTES).cast()
    }

    /// Hands out the next frame of this burst: its bytes, and its time stamp.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(&[u8], u64)> {
        let place = self.next?;
        self.is_ours[place.chunk as usize] = true;
        self.taken.push(place);
        self.left -= 1;
        self.find_next();
        let base = self.umem.memory.base().as_ptr();
        // SAFETY: `check` found these bytes within one chunk, which was the kernel's and is ours now. It becomes the kernel's again
        // in `release`, which takes `&mut self`; this slice borrows `self`. While it is lent, the kernel only reads it.
        let data = unsafe { slice::from_raw_parts(base.wrapping_add(place.at), place.len) };
        Some((data, place.stamp))
    }

    /// Puts the last frame back.
    pub(super) fn put_back(&mut self) {
        let last = self.taken.last();
        if last.is_some_and(|place| self.umem.memory.is_lent(self.umem.queue, place.chunk)) {
            return; // it is being sent: it was taken
        }
        if let Some(place) = self.taken.pop() {
            self.is_ours[place.chunk as usize] = false;
            self.next = Some(place);
            self.left += 1;
        }
    }

    /// Ends the burst: gives the chunks of the frames handed out, and then their slots, back to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        (self.left, self.next) = (0, None);
        let count = self.taken.len();
        if count == 0 && !self.umem.memory.lends() {
            return;
        }
        let (taken, mut free) = (
            std::mem::take(&mut self.taken),
            std::mem::take(&mut self.free),
        );
        for place in &taken {
            // The next frame that the program does not stamp must not have this one's.
            if place.stamp != 0 {
                // SAFETY: where `check` has read it, in a chunk that is ours. No slice of it exists: this takes `&mut self`. If the
                // frame is lent, the kernel reads it, but not the bytes before it.
                unsafe { self.stamp(place.at).write_unaligned(0) };
            }
        }
        let chunks = taken.iter().map(|place| place.chunk);
        match self
            .umem
            .memory
            .collect(self.umem.queue, chunks.clone(), &mut free)
        {
            true => self.give_back(free.drain(..)),
            false => self.give_back(chunks),
        }
        if !matches!(self.damage, Some(Damage::Positions(_))) {
            self.received_end.advance(count);
            self.received_end.publish(self.received.consumer()); // CREDIT
        }
        (self.taken, self.free) = (taken, free);
        self.taken.clear();
    }

    /// The share of the receive ring that is filled now.
    pub(super) fn fill_level(&self) -> f64 {
        f64::from(self.filled()) / f64::from(self.received.capacity())
    }

    /// Whether frames were there at the last look.
    pub(super) fn has_frames(&self) -> bool {
        self.received_end.cached_available() > 0
    }

    /// Whether the kernel needs a call to go on filling chunks.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.fill.needs_wakeup()
    }
}
