//! The kernel's transmit ring, mapped: fixed slots, each with a status word.
//!
//! ```text
//!  slot   │ sent: free │ taken: SENDING │ placed: SEND_REQUEST │ placed │ free │ …
//!                                         ▲ kernel's head, and ours    ▲ next
//!  a slot │ status, len │ … 32 bytes │ frame ………… │
//! ```
//!
//! **Ownership.** A slot is ours while its status is `AVAILABLE` or `WRONG_FORMAT`. `SEND_REQUEST` offers it to the kernel, but only
//! [`send_ring`](crate::sys::send_ring) on our thread makes the kernel read the ring, so between those calls we may take it back. The
//! kernel marks a slot that it has taken `SENDING`, and `AVAILABLE` when the frame's bytes are no longer needed
//! (`tpacket_snd` and `tpacket_destruct_skb` in net/packet/af_packet.c).
//!
//! | Edge | Released by | Acquired by | What becomes visible |
//! |---|---|---|---|
//! | offered | [`TxRing::place`] | the kernel, in `tpacket_snd` | the frame and its length |
//! | completed | the kernel, when the frame is sent | [`TxRing::place`] | that the kernel is done reading |
#![allow(unsafe_code)]

use super::socket::Socket;
use crate::sys::Mapping;
use forebay::Result;
use std::{
    mem::offset_of,
    ptr::NonNull,
    slice,
    sync::atomic::{AtomicU32, Ordering},
};

/// Where a frame begins in its slot: `TPACKET2_HDRLEN - sizeof(struct sockaddr_ll)`, as `tpacket_parse_header` expects.
const DATA: usize = libc::TPACKET2_HDRLEN - size_of::<libc::sockaddr_ll>();
const LEN: usize = offset_of!(libc::tpacket2_hdr, tp_len);
/// Blocks of the ring in bytes, at least: a whole number of pages.
const BLOCK_BYTES: u32 = 64 << 10;

/// What became of the oldest placed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The kernel has not processed it.
    Waits,
    /// The kernel took it.
    Accepted,
    /// The kernel does not send such a frame.
    Wrong,
}

#[derive(Debug)]
pub(super) struct TxRing {
    memory: Mapping,
    slot_bytes: u32,
    slots: u32,
    /// The oldest placed frame.
    head: u32,
    /// Placed frames that have no outcome yet.
    placed: u32,
}

impl TxRing {
    /// Makes a ring of at least `slots` slots for frames of up to `frame_bytes`.
    pub(super) fn open(socket: &Socket, slots: u32, frame_bytes: u32) -> Result<Self> {
        // A power of two divides the block, which the kernel requires.
        let slot_bytes = (frame_bytes + DATA as u32).next_power_of_two();
        let block_bytes = BLOCK_BYTES.max(slot_bytes);
        let slots = slots.next_multiple_of(block_bytes / slot_bytes);
        let memory = socket.map_tx_ring(slot_bytes, slots, block_bytes)?;
        assert_eq!(memory.len(), slot_bytes as usize * slots as usize);
        Ok(TxRing {
            memory,
            slot_bytes,
            slots,
            head: 0,
            placed: 0,
        })
    }

    /// The address of a slot's first byte.
    fn slot(&self, slot: u32) -> NonNull<u8> {
        assert!(slot < self.slots);
        let at = slot as usize * self.slot_bytes as usize;
        // SAFETY: `open` checked that the mapping has this many whole slots.
        unsafe { self.memory.base().add(at) }
    }

    /// A slot's status word, shared with the kernel: the first field of its header.
    fn status(&self, slot: u32) -> &AtomicU32 {
        // SAFETY: aligned, since slots are; mapped as long as `self` lives. The kernel writes it whole, and we only through this
        // atomic.
        unsafe { AtomicU32::from_ptr(self.slot(slot).as_ptr().cast()) }
    }

    fn after_head(&self, n: u32) -> u32 {
        (self.head + n) % self.slots
    }

    /// Frames placed whose outcome was not taken yet.
    pub(super) fn placed(&self) -> usize {
        self.placed as usize
    }

    /// Copies a frame into the next slot and offers it; `false` if there is no free slot. The frame must fit.
    pub(super) fn place(&mut self, frame: &[u8]) -> bool {
        assert!(frame.len() + DATA <= self.slot_bytes as usize);
        let slot = self.after_head(self.placed);
        if self.placed == self.slots
            || self.status(slot).load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE
        {
            return false; // edge: completed
        }
        let start = self.slot(slot);
        // SAFETY: DATA plus the frame's length is within the slot, as just checked.
        let data = unsafe { start.add(DATA) };
        // SAFETY: `frame.len()` bytes in the slot, which is ours by its status. `&mut self`: no other reference to it exists.
        let data = unsafe { slice::from_raw_parts_mut(data.as_ptr(), frame.len()) };
        data.copy_from_slice(frame);
        // SAFETY: LEN is within the header, which every slot has.
        let len = unsafe { start.add(LEN) };
        // SAFETY: in bounds, aligned to 4, and ours, as above.
        unsafe { len.cast().write(frame.len() as u32) };
        let offered = libc::TP_STATUS_SEND_REQUEST;
        self.status(slot).store(offered, Ordering::Release); // edge: offered
        self.placed += 1;
        true
    }

    /// What became of the oldest placed frame. [`Accepted`](Outcome::Accepted) removes it from the placed ones.
    pub(super) fn take_outcome(&mut self) -> Outcome {
        if self.placed == 0 {
            return Outcome::Waits;
        }
        // Acquire is for `place`; here the value publishes only itself.
        let status = self.status(self.head).load(Ordering::Relaxed);
        if status & libc::TP_STATUS_WRONG_FORMAT != 0 {
            return Outcome::Wrong;
        }
        if status & libc::TP_STATUS_SEND_REQUEST != 0 {
            return Outcome::Waits;
        }
        self.head = self.after_head(1);
        self.placed -= 1;
        Outcome::Accepted
    }

    /// Takes back all placed frames, so that they can be placed again without the first one. The kernel's head does not move.
    pub(super) fn take_back(&mut self) {
        for n in 0..self.placed {
            let status = self.status(self.after_head(n));
            // Relaxed: the kernel reads it only after the next `place`, which releases.
            status.store(libc::TP_STATUS_AVAILABLE, Ordering::Relaxed);
        }
        self.placed = 0;
    }
}
