//! Attributes the kernel's drops to frames: which frame reports how many were lost before it.
//!
//! The kernel drops a frame only when the block it wants to fill next still belongs to us
//! (`__packet_rcv_has_room` and `prb_dispatch_next_block` in net/packet/af_packet.c). Blocks are used in ring order, so that
//! can only be the oldest block not yet returned to the kernel. That is the *current* one, unless blocks before it are lent:
//!
//! ```text
//!        kernel's, being filled      current
//!  ──────┬──────────────┬────────────┬───────────┬──────    while blocks are open, the kernel is
//!        │ open         │ open       │ ours      │ ours     busy in the first of them; with none
//!  ──────┴──────────────┴────────────┴───────────┴──────    open it waits before `current`: drops
//!        ▲ the kernel                                       lie before current's *next* filling
//! ```
//!
//! Drops that the statistics report therefore belong before the next filling of `current` if no block is open, and otherwise
//! before the filling of the first open block. The statistics are read directly before and directly after each release. Three
//! kinds of drops remain that this does not place exactly:
//!
//! - *Late drops.* The kernel checks a block and counts the drop a moment later. If the processor is interrupted in between,
//!   the block may have been returned and filled meanwhile. A block that is closed while drops are unread carries the flag
//!   `TP_STATUS_LOSING`. The first block with this flag gets one drop, the number that a single receiving processor can have
//!   under way.
//! - *Drops caused by the retire timer.* When the timer closes a block that is not full ([`AfPacketConfig::retire`]), the kernel wakes
//!   us before it advances. Frames that another processor receives in the meantime are dropped although there is room. These
//!   drops belong before the next block, which carries the flag, too. If several such blocks closed between two reads,
//!   only the first one gets one drop. The timer should therefore fire rarely: on a busy machine
//!   (`scripts/check-marks`), up to a quarter of the marks were off by a frame with a retire time of 10 ms, and none of 719
//!   with 100 ms.
//! - *Drops that can be misplaced:* several processors are late for the same release, or this thread is preempted around a read
//!   for as long as it takes to fill a block. The sum is correct even then, but a frame of a neighbouring block reports some of
//!   the drops. A test with one processor too few and a reader that slept at the worst moments found no such case in
//!   70,000 gaps, with blocks of one page, which fill within a few system calls.
//!
//! This file accesses nothing but the ring's status words.
//!
//! [`AfPacketConfig::retire`]: super::AfPacketConfig::retire

use super::ring::Ring;
use super::socket::Statistics;

/// Drops that are not yet reported by a frame.
#[derive(Debug)]
pub(super) struct Gaps {
    /// For each block, frames lost directly before its next filling.
    before: Vec<u64>,
    /// Blocks directly before the oldest of ours that were returned and not yet found closed again.
    open: u32,
}

impl Gaps {
    pub(super) fn new(blocks: u32) -> Self {
        Gaps {
            before: vec![0; blocks as usize],
            open: blocks,
        }
    }

    /// Attributes the drops that `read` reports, and returns the statistics that were read.
    pub(super) fn account(
        &mut self,
        ring: &mut Ring,
        read: impl FnOnce() -> Statistics,
    ) -> Statistics {
        // Check the flags first, then read: every drop flagged now is included in the statistics read next.
        let mut losing = self.scan(ring);
        let new = read();
        if new.drops == 0 {
            return new;
        }
        if self.open > 0 && new.freezes > 0 && self.all_closed(ring) {
            // The kernel reached the current block just before the read.
            losing = losing.or(self.scan(ring));
        }
        let waiting = self.open == 0;
        let late = match losing {
            Some(_) if waiting => 1,
            Some(_) => new.drops,
            None => 0,
        };
        match losing {
            Some(block) if block == ring.current() && ring.held() => ring.add_gap(late),
            Some(block) => self.before[block as usize] += late,
            None => {}
        }
        if waiting {
            // Drops before the current block's *present* filling are taken out first.
            self.look(ring);
        }
        // If no block is open, this is the oldest block.
        let block = self.first_open(ring) as usize;
        self.before[block] += new.drops - late;
        new
    }

    /// Whether the kernel has closed all blocks. Does not update `open`.
    fn all_closed(&self, ring: &Ring) -> bool {
        let last = (ring.oldest() + ring.blocks().count - 1) % ring.blocks().count;
        ring.status(last) & libc::TP_STATUS_USER != 0
    }

    /// Counts the blocks that the kernel has closed since the last call. Returns the first of them that was closed while drops
    /// were unread.
    fn scan(&mut self, ring: &Ring) -> Option<u32> {
        let mut losing = None;
        while self.open > 0 {
            let block = self.first_open(ring);
            let status = ring.status(block);
            if status & libc::TP_STATUS_USER == 0 {
                break;
            }
            if status & libc::TP_STATUS_LOSING != 0 {
                losing = losing.or(Some(block));
            }
            self.open -= 1;
        }
        losing
    }

    fn first_open(&self, ring: &Ring) -> u32 {
        let blocks = ring.blocks().count;
        (ring.oldest() + (blocks - self.open)) % blocks
    }

    /// Takes the current block if it is closed, together with the drops before it.
    pub(super) fn look(&mut self, ring: &mut Ring) -> bool {
        if !ring.held() && ring.look() {
            ring.add_gap(std::mem::take(&mut self.before[ring.current() as usize]));
        }
        ring.held()
    }

    /// Ends the held block. It returns to the kernel, unless it or an earlier one is lent.
    pub(super) fn release(&mut self, ring: &mut Ring) {
        self.bound(ring);
        self.open += ring.release();
    }

    /// Returns the blocks that are lent no more to the kernel.
    pub(super) fn give_back(&mut self, ring: &mut Ring) {
        self.bound(ring);
        self.open += ring.give_back();
    }

    /// Blocks count as closed until they are returned, even if no read happened since they were closed.
    fn bound(&mut self, ring: &Ring) {
        self.open = self.open.min(ring.blocks().count - ring.ours());
    }

    /// Drops that no frame has reported. After the last frame, no frame will.
    pub(super) fn untold(&self, ring: &Ring) -> u64 {
        ring.gap() + self.before.iter().sum::<u64>()
    }
}

#[cfg(test)]
#[path = "gaps_tests.rs"]
mod tests;
