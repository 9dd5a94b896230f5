//! Questions to a queue that change nothing in its messages: is there a message, or room, where the frames are, and what
//! happened so far.
//!
//! They look at the words of `core` under the locks that guard them, and cite its edges.

use super::{
    Stats,
    core::{Answer, Core, No},
    frame::{Kind, span},
    limit::Limit,
};
use crate::sync::atomic::Ordering::Relaxed;

impl Core {
    /// Whether a receiver would get an answer now: a message, or the end.
    pub(super) fn has_message(&self, limit: &Limit) -> Answer<bool> {
        let _held = self.hold_head(limit)?;
        let position = self.control.head.position.load(Relaxed); // LOCK
        Ok(match self.at_head(position) {
            None => self.is_closed() && self.has_no_more(position),
            Some(kind) => kind != Kind::Busy, // whoever fills it rings
        })
    }

    /// Whether the next message is still longer than `fits`, and if so, that we want to be told when it is taken.
    pub(super) fn wants_pass(&self, fits: usize, limit: &Limit) -> Answer<bool> {
        let head = &self.control.head;
        let _held = self.hold_head(limit)?;
        let position = head.position.load(Relaxed); // LOCK
        let is_ready = self.at_head(position) == Some(Kind::Ready);
        // Relaxed: RESERVE.
        let is_long = is_ready && self.header(position).len.load(Relaxed) as usize > fits;
        if is_long {
            self.control.rare.passed.wait_for();
        }
        Ok(is_long)
    }

    /// Whether a sender would get an answer now: room for `len` bytes, or that the queue is closed.
    pub(super) fn has_room(&self, len: usize, limit: &Limit) -> Answer<bool> {
        let _held = self.hold_tail(limit)?;
        let tail = self.control.tail.position.load(Relaxed); // LOCK
        let needed = span(len);
        let has_room = self.vacant(tail) >= needed || self.make_room(tail, needed)?;
        Ok(has_room || self.is_closed())
    }

    /// Shows the frames between `from` and `to` in order, each by its position and the bytes of its message. Under the tail's
    /// lock, so that none of them goes away.
    pub(super) fn walk(&self, from: u64, to: u64, mut see: impl FnMut(u64, usize)) -> Answer<()> {
        let mut left = to.wrapping_sub(from);
        if left > self.capacity() as u64 {
            return Err(No::Broken);
        }
        while left > 0 {
            let position = to.wrapping_sub(left);
            let len = self.len_at(position)?;
            left = left.checked_sub(span(len)).ok_or(No::Broken)?;
            see(position, len);
        }
        Ok(())
    }

    /// What happened so far, at one moment of the receivers' side.
    pub(super) fn stats(&self, limit: &Limit) -> Answer<Stats> {
        let (head, tail) = (&self.control.head, &self.control.tail);
        let _head = self.hold_head(limit)?;
        let _tail = self.hold_tail(limit)?;
        // Relaxed: LOCK, both.
        let (received, dropped) = (head.received.load(Relaxed), head.dropped.load(Relaxed));
        let (aborted, reserved) = (head.aborted.load(Relaxed), tail.next.load(Relaxed));
        let (end, position) = (tail.position.load(Relaxed), head.position.load(Relaxed));
        // Senders free what was read when they need its room; here it counts as free already.
        let (mut first_used, mut is_free) = (tail.free.load(Relaxed), true);
        self.walk(first_used, position, |frame, len| {
            is_free &= self.kind(frame).is_over();
            if is_free {
                first_used = frame.wrapping_add(span(len));
            }
        })?;
        let mut queued = 0;
        self.walk(position, end, |_, _| queued += 1)?;
        Ok(Stats {
            reserved,
            received,
            dropped,
            aborted,
            queued,
            used_bytes: end.wrapping_sub(first_used) as usize,
            torn: head.torn.load(Relaxed),
            redelivered: head.redelivered.load(Relaxed),
            abandoned: head.abandoned.load(Relaxed),
        })
    }
}
