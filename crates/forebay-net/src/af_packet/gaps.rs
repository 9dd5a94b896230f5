//! Where the kernel's drops lie between the frames: which frame has to say how many were lost
//! before it.
//!
//! The kernel drops a frame only while the block it wants to fill next is still ours
//! (`__packet_rcv_has_room` and `prb_dispatch_next_block` in net/packet/af_packet.c). It fills
//! blocks in order and so can only stand before the *current* one, the oldest that did not go back:
//!
//! ```text
//!            previous          current
//!  ────────┬────────────────┬────────────────┬───────
//!          │ refilled, full │ ours           │ ours       drops happen here, and lie directly
//!  ────────┴────────────────┴────────────────┴───────     before current's *next* filling
//!                          ▲ the kernel waits
//! ```
//!
//! Drops read from the socket therefore belong before the next filling of the current block; or,
//! while `previous` is not full again, before that one's: then the kernel cannot have come to the
//! current block since, and they happened before we released `previous`. The statistics are read
//! directly before and directly after each release, so that there is nothing to divide.
//!
//! What is left to chance: that `previous` is released, filled whole and closed before the second
//! read, *and* dropped frames between the first read and the release. The block's own flag
//! (`TP_STATUS_LOSING`: drops unread when it was closed) tells that case; the sum is right even
//! then, and all of it is put before `previous`. It touches nothing but the ring's status words.

use super::ring::Ring;

/// Drops that wait for the frame which will tell them.
#[derive(Debug)]
pub(super) struct Gaps {
    /// For each block, frames lost directly before its next filling.
    before: Vec<u64>,
    /// The statistics were read at least once since `previous` was full again.
    settled: bool,
}

impl Gaps {
    pub(super) fn new(blocks: u32) -> Self {
        Gaps {
            before: vec![0; blocks as usize],
            settled: false,
        }
    }

    /// Puts the drops that `read` finds where they belong. Returns what `read` returned.
    pub(super) fn account<T>(&mut self, ring: &mut Ring, read: impl FnOnce() -> (u64, T)) -> T {
        // Looked at before reading: only then does a later read hold nothing from before it closed.
        let was_closed = closed(ring.status(ring.previous()));
        let (drops, answer) = read();
        if drops > 0 {
            let status = ring.status(ring.previous());
            let losing = status & libc::TP_STATUS_LOSING != 0 && !self.settled;
            if closed(status) && !losing {
                // The current block is full too; what was lost before *this* filling is taken out first.
                self.look(ring);
                self.before[ring.current() as usize] += drops;
            } else {
                self.before[ring.previous() as usize] += drops;
            }
        }
        self.settled |= was_closed;
        answer
    }

    /// Takes the current block if it is closed, and what was lost before it.
    pub(super) fn look(&mut self, ring: &mut Ring) -> bool {
        if !ring.held() && ring.look() {
            ring.add_gap(std::mem::take(&mut self.before[ring.current() as usize]));
        }
        ring.held()
    }

    /// The current block went back: the one before it is another now.
    pub(super) fn released(&mut self) {
        self.settled = false;
    }

    /// Drops that no frame has told, and after the last frame never will.
    pub(super) fn untold(&self, ring: &Ring) -> u64 {
        ring.gap() + self.before.iter().sum::<u64>()
    }
}

fn closed(status: u32) -> bool {
    status & libc::TP_STATUS_USER != 0
}

#[cfg(test)]
#[path = "gaps_tests.rs"]
mod tests;
