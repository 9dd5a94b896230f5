//! Read-only queries on a queue: whether there is a message or room, where the frames are, and the counts.
//!
//! Each query reads the shared words under the locks that guard them. Edge names refer to the table in `core`.

use super::{
    Stats,
    core::{Answer, Core, TryError},
    frame::{Kind, span},
};
use crate::sync::{Deadline, atomic::Ordering::Relaxed};

impl Core {
    /// Whether a receive call would return at once, with a message or with the end of the queue.
    pub(super) fn has_message(&self, deadline: &Deadline) -> Answer<bool> {
        let _held = self.hold_head(deadline)?;
        let position = self.control.head.position.load(Relaxed); // LOCK
        Ok(match self.at_head(position) {
            None => self.is_closed() && self.has_no_more(position),
            Some(kind) => kind != Kind::Busy, // the sender that fills it rings
        })
    }

    /// Whether a send call would return at once: there is room for `len` bytes, or the queue is closed.
    pub(super) fn has_room(&self, len: usize, deadline: &Deadline) -> Answer<bool> {
        let _held = self.hold_tail(deadline)?;
        let tail = self.control.tail.position.load(Relaxed); // LOCK
        let needed = span(len);
        let has_room = self.vacant(tail) >= needed || self.make_room(tail, needed)?;
        Ok(has_room || self.is_closed())
    }

    /// Calls `see` for each frame between `from` and `to`, in order, with its position and the length of its message. The
    /// tail's lock is held meanwhile, so that no frame is freed.
    pub(super) fn walk(&self, from: u64, to: u64, mut see: impl FnMut(u64, usize)) -> Answer<()> {
        let mut left = to.wrapping_sub(from);
        if left > self.capacity() as u64 {
            return Err(TryError::Broken);
        }
        while left > 0 {
            let position = to.wrapping_sub(left);
            let len = self.len_at(position)?;
            left = left.checked_sub(span(len)).ok_or(TryError::Broken)?;
            see(position, len);
        }
        Ok(())
    }

    /// The counts so far, all read at one moment of the receivers' side.
    pub(super) fn stats(&self, deadline: &Deadline) -> Answer<Stats> {
        let (head, tail) = (&self.control.head, &self.control.tail);
        let _head = self.hold_head(deadline)?;
        let _tail = self.hold_tail(deadline)?;
        // Relaxed: LOCK, both.
        let (received, dropped) = (head.received.load(Relaxed), head.dropped.load(Relaxed));
        let (aborted, reserved) = (head.aborted.load(Relaxed), tail.next.load(Relaxed));
        let (end, position) = (tail.position.load(Relaxed), head.position.load(Relaxed));
        // Senders free bytes that were read only when they need the room; this counts them as free already.
        let (mut first_used, mut is_free) = (tail.free.load(Relaxed), true);
        self.walk(first_used, position, |frame, len| {
            is_free &= self.kind(frame).is_finished();
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
