//! Where the kernel's drops lie between the frames: which frame has to say how many were lost
//! before it.
//!
//! The kernel drops a frame only when the block it wants to fill next is still ours
//! (`__packet_rcv_has_room` and `prb_dispatch_next_block` in net/packet/af_packet.c). Blocks go
//! round in order, so that can only be the *current* one, the oldest that did not go back:
//!
//! ```text
//!        kernel's, being filled      current
//!  ──────┬──────────────┬────────────┬───────────┬──────    while blocks are open, the kernel is
//!        │ open         │ open       │ ours      │ ours     busy in the first of them; with none
//!  ──────┴──────────────┴────────────┴───────────┴──────    open it waits before `current`: drops
//!        ▲ the kernel                                       lie before current's *next* filling
//! ```
//!
//! So drops that the statistics show belong before the next filling of `current` when no block is
//! open, and else before the filling of the first open block. They are read directly before and
//! directly after each release, which leaves three kinds apart:
//!
//! - *Late ones.* The kernel looks at a block, and counts the drop a moment later. If the processor
//!   is interrupted in between, the block may have gone back and been filled by then. A block that
//!   is closed with drops unread says so (`TP_STATUS_LOSING`): the first that does gets one drop,
//!   what a single receiving processor can have under way.
//! - *Those of the timer.* When it closes a block that is not full ([`Config::retire`]), it wakes us
//!   before it moves on, and frames that another processor receives in the meantime are dropped,
//!   though there is room. They lie before the next block, which is losing, too; of several such
//!   blocks that closed between two reads only the first gets one. So the timer
//!   should work seldom: on a busy machine (`scripts/check-marks`), with blocks closed after 10 ms up to a
//!   quarter of the marks were off by a frame, after 100 ms none of 719.
//! - *Left to chance:* several processors late for one release, or this thread kept from running
//!   around a read for as long as it takes to fill a block. The sum is right even then; a frame of a
//!   neighbouring block tells some of it. A processor too few and a reader that sleeps at the worst
//!   moments showed none in 70,000 gaps of blocks of a page, which fill within a few system calls.
//!
//! This file touches nothing but the ring's status words.
//!
//! [`Config::retire`]: super::Config::retire

use super::ring::Ring;
use super::socket::Statistics;

/// Drops that wait for the frame which will tell them.
#[derive(Debug)]
pub(super) struct Gaps {
    /// For each block, frames lost directly before its next filling.
    before: Vec<u64>,
    /// How many blocks, those just before the current one, went back and were not seen closed since.
    open: u32,
}

impl Gaps {
    pub(super) fn new(blocks: u32) -> Self {
        Gaps {
            before: vec![0; blocks as usize],
            open: blocks,
        }
    }

    /// Puts the drops that `read` finds where they belong, and returns what it read.
    pub(super) fn account(
        &mut self,
        ring: &mut Ring,
        read: impl FnOnce() -> Statistics,
    ) -> Statistics {
        // First look, then read: what is flagged now is in what is read now.
        let mut losing = self.scan(ring);
        let new = read();
        if new.drops == 0 {
            return new;
        }
        if self.open > 0 && new.freezes > 0 && self.all_closed(ring) {
            // The kernel came round to the current block while we were about to read.
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
            // What was lost before the current block's *present* filling is taken out first.
            self.look(ring);
        }
        // With none open that is the current block.
        let block = self.first_open(ring) as usize;
        self.before[block] += new.drops - late;
        new
    }

    /// Whether the kernel has closed all blocks, without taking note of it.
    fn all_closed(&self, ring: &Ring) -> bool {
        let last = (ring.current() + ring.blocks().count - 1) % ring.blocks().count;
        ring.status(last) & libc::TP_STATUS_USER != 0
    }

    /// Counts the blocks that the kernel has closed since the last time; returns the first of them
    /// that was closed while drops were unread.
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
        (ring.current() + (blocks - self.open)) % blocks
    }

    /// Takes the current block if it is closed, and what was lost before it.
    pub(super) fn look(&mut self, ring: &mut Ring) -> bool {
        if !ring.held() && ring.look() {
            ring.add_gap(std::mem::take(&mut self.before[ring.current() as usize]));
        }
        ring.held()
    }

    /// Gives the held block back.
    pub(super) fn release(&mut self, ring: &mut Ring) {
        // It counts as closed until it goes, also if nobody has read since it was.
        self.open = self.open.min(ring.blocks().count - 1);
        ring.release();
        self.open += 1;
    }

    /// Drops that no frame has told, and after the last frame never will.
    pub(super) fn untold(&self, ring: &Ring) -> u64 {
        ring.gap() + self.before.iter().sum::<u64>()
    }
}

#[cfg(test)]
#[path = "gaps_tests.rs"]
mod tests;
