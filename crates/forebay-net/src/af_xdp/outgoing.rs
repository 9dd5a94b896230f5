//! The two rings through which an AF_XDP socket sends, and what the kernel answers.
//!
//! ```text
//!   place ─▶ transmit ring: address, length ─▶ kernel ─▶ accepted: it has moved past the slot of the ring
//!                                                │
//!   Bytes::give_back ◀── completion ring: address ◀┘ done with the bytes
//! ```
//!
//! The kernel only reads the bytes. Their owner ([`Bytes`]) keeps each frame until its address is completed, so nothing writes it
//! meanwhile.
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
    rings::Ring,
    socket::{SendRings, Socket},
};
use crate::{
    sys,
    transmit::{Cause, DOWN_RETRY, Outbox, TxWake, Wait},
};
use forebay::{
    Error, Result,
    ring::kernel::{Damaged, End},
};
use std::{collections::VecDeque, io, os::fd::AsFd, sync::Arc};

/// A descriptor of nothing. Without options: one of them would join the next descriptor to it.
const VOID: libc::xdp_desc = libc::xdp_desc {
    addr: u64::MAX,
    len: u32::MAX,
    options: 0,
};

/// The owner of the bytes of frames whose addresses the kernel has.
pub(super) trait Bytes {
    /// The kernel no longer needs the frame at this address. Returns whether it had the address.
    fn give_back(&mut self, address: u64, outbox: &mut Outbox) -> bool;
}

/// The sending half of a socket.
#[derive(Debug)]
pub(super) struct Outgoing<B> {
    /// Closed before the memory of `bytes` and of the outbox is unmapped.
    socket: Arc<Socket>,
    pub outbox: Outbox,
    pub bytes: B,
    ring: Ring<libc::xdp_desc>,
    ring_end: End,
    completed: Ring<u64>,
    completed_end: End,
    /// Lengths of the frames in the transmit ring, in order.
    pending: VecDeque<u32>,
    /// Descriptors at the front of the ring whose frames have failed. In copy mode they name no memory, so the kernel skips them.
    void: usize,
    /// The hardware reads the frames.
    is_zero_copy: bool,
}

impl<B: Bytes> Outgoing<B> {
    pub(super) fn new(
        socket: Arc<Socket>,
        (ring, completed): SendRings,
        outbox: Outbox,
        bytes: B,
    ) -> Self {
        Outgoing {
            is_zero_copy: socket.is_zero_copy(),
            socket,
            outbox,
            bytes,
            ring_end: End::producer(ring.capacity()),
            ring,
            completed_end: End::consumer(completed.capacity()),
            completed,
            pending: VecDeque::new(),
            void: 0,
        }
    }

    fn damaged(&self, damaged: Damaged) -> Error {
        let text = format!("the kernel's rings are damaged: {damaged}");
        Error::new(&self.outbox.interface.name, text)
    }

    /// Frames that the kernel has neither taken nor refused.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Frames that have failed while the interface was down are still in the ring: nothing can be placed.
    pub(super) fn is_blocked(&self) -> bool {
        self.void > 0
    }

    /// Frees the frames whose bytes the kernel no longer needs.
    pub(super) fn collect(&mut self) -> Result<()> {
        let found = self.completed_end.available(self.completed.producer(), 1); // PUBLISH
        let found = found.map_err(|damaged| self.damaged(damaged))?;
        for n in 0..found {
            let address = self.completed.read(self.completed_end.slot(n));
            if address == VOID.addr {
                continue; // some kernels complete what they skip
            }
            if !self.bytes.give_back(address, &mut self.outbox) {
                let text = format!("the kernel completed {address}, which it did not have");
                return Err(Error::new(&self.outbox.interface.name, text));
            }
        }
        if found > 0 {
            self.completed_end.advance(found);
            self.completed_end.publish(self.completed.consumer()); // CREDIT
        }
        Ok(())
    }

    /// How many frames can be placed now.
    pub(super) fn vacant(&mut self, wanted: usize) -> Result<usize> {
        let vacant = self.ring_end.available(self.ring.consumer(), wanted); // CREDIT
        vacant.map_err(|damaged| self.damaged(damaged))
    }

    /// Puts a frame into the ring, which has room for it. The next [`advance`](Self::advance) shows it to the kernel.
    pub(super) fn place(&mut self, addr: u64, len: u32) {
        let options = 0;
        let desc = libc::xdp_desc { addr, len, options };
        self.ring.write(self.ring_end.slot(0), desc);
        self.ring_end.advance(1);
        self.pending.push_back(len);
    }

    /// Shows the kernel what has been placed, and calls it. In copy mode frames leave only within this call.
    fn call(&self) -> io::Result<()> {
        self.ring_end.publish(self.ring.producer()); // PUBLISH
        sys::send_ring(self.socket.as_fd())
    }

    /// The number of pending frames that the kernel has taken since the last call.
    fn taken(&mut self) -> Result<usize> {
        let capacity = self.ring_end.capacity();
        let claimed = capacity - self.vacant(capacity)?;
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
    pub(super) fn skip_void(&mut self) -> Result<()> {
        if self.void == 0 {
            return Ok(());
        }
        // It publishes its position when it finds the ring empty, a call later.
        for _ in 0..self.void + 2 {
            if self.call().is_err() {
                break;
            }
        }
        self.taken()?;
        self.collect()
    }

    /// Counts all pending frames as failed. Their descriptors cannot be taken out of the ring, so they are made void: in copy mode the
    /// kernel reads them only within a call of ours, and skips one that names no memory. Hardware may read them at any time, so with
    /// zero-copy they stay, and their bytes return when the kernel completes them.
    pub(super) fn fail_all(&mut self, cause: Cause) {
        let failed = self.pending.len();
        for n in 1..=failed {
            if self.is_zero_copy {
                break;
            }
            let slot = self.ring_end.slot(0_usize.wrapping_sub(n));
            let address = self.ring.read(slot).addr;
            self.ring.write(slot, VOID);
            self.bytes.give_back(address, &mut self.outbox);
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

    /// Shows the kernel what has been placed, and collects its answers. Returns the number of frames that are still pending.
    ///
    /// # Errors
    /// As [`TxPort::advance`](crate::transmit::TxPort::advance).
    pub(super) fn advance(&mut self) -> Result<usize> {
        loop {
            self.collect()?;
            if self.pending.is_empty() {
                self.skip_void()?;
                return Ok(0);
            }
            let answer = self.call();
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
                    let name = &self.outbox.interface.name[..];
                    let error = Error::new(name, "sending: the interface is gone");
                    return Err(match answer {
                        Ok(()) => error,
                        Err(cause) => error.because(cause),
                    });
                }
            }
            return Ok(self.pending.len());
        }
    }

    /// How to wait until [`advance`](Self::advance) may make progress.
    pub(super) fn arm(&self) -> TxWake<'_> {
        match self.pending.is_empty() {
            false => self.outbox.wake(self.socket.as_fd()),
            true if self.void > 0 => TxWake::After(DOWN_RETRY),
            true => TxWake::Ready,
        }
    }
}
