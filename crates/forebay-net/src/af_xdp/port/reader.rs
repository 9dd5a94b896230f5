//! Hands out the frames of all queues in time order.

use super::super::{
    queue::{Damage, Queue},
    socket::Losses,
};
use crate::port::{Direction, Frame, Frames};
use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};

/// The part of a port that a burst borrows.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) queues: Vec<Queue>,
    /// The queue of the frame handed out last.
    pub(super) last: Option<usize>,
    /// Frames that this burst may still hand out.
    pub(super) left: usize,
    /// The program stamps frames.
    pub(super) stamps: bool,
    pub(super) snaplen: u32,
    pub(super) polls_busily: bool,
    pub(super) is_zero_copy: bool,
    /// What the program's clock, which has no leap seconds, is ahead of the time of day; and the time of this burst.
    pub(super) tai_ahead_ns: u64,
    pub(super) now_ns: u64,
    /// Losses of all sockets together, and those that a frame has reported.
    pub(super) losses: Losses,
    pub(super) losses_reported: u64,
    /// Frames lost before the next frame, and before the one handed out last.
    pub(super) gap: u64,
    pub(super) last_gap: u64,
    pub(super) damage: Option<(usize, Damage)>,
}

impl Reader {
    /// Ends a burst, even if it was forgotten instead of dropped.
    fn settle(&mut self) {
        self.queues.iter_mut().for_each(Queue::release);
        (self.last, self.left) = (None, 0);
    }

    /// Begins a burst of up to `budget` frames. Returns whether a queue has frames.
    pub(super) fn look(&mut self, budget: usize) -> bool {
        self.settle();
        self.left = budget;
        let (mut found, mut is_gap) = (false, false);
        for (number, queue) in self.queues.iter_mut().enumerate() {
            match queue.look(budget) {
                Ok(has_frames) => found |= has_frames,
                Err(damage) => self.damage = Some((number, damage)),
            }
            is_gap |= queue.take_gap();
        }
        if is_gap {
            self.read_losses();
            let new = self.losses.total() - self.losses_reported;
            self.gap += new;
            self.losses_reported += new;
        }
        if found && budget > 0 {
            self.read_clocks();
        }
        if found {
            self.kick_empty();
        }
        found
    }

    /// Calls the kernel for queues that wait for it while others have frames.
    fn kick_empty(&self) {
        let waits = |queue: &&Queue| !queue.has_frames() && queue.needs_wakeup();
        let waiting = self.queues.iter().filter(waits);
        waiting.for_each(|queue| queue.socket.kick());
    }

    fn read_clocks(&mut self) {
        let ns = |now: Timespec| now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let real = ns(clock_gettime(ClockId::Realtime));
        let tai = clock_gettime_dynamic(DynamicClockId::Tai).map_or(real, ns);
        // Whole seconds, and the clocks were read one after the other.
        let seconds = (tai.saturating_sub(real) + 500_000_000) / 1_000_000_000;
        (self.tai_ahead_ns, self.now_ns) = (seconds * 1_000_000_000, real);
    }

    /// Calls the kernel if it waits for that.
    pub(super) fn kick(&self) {
        let waits = |queue: &&Queue| self.polls_busily || queue.needs_wakeup();
        let waiting = self.queues.iter().filter(waits);
        waiting.for_each(|queue| queue.socket.kick());
    }

    /// Adds up what all sockets have lost. If one does not report it now, the earlier sums stay.
    pub(super) fn read_losses(&mut self) {
        let mut sum = Losses::default();
        for queue in &self.queues {
            let Ok(losses) = queue.socket.losses(self.is_zero_copy) else {
                return;
            };
            sum.ring_full += losses.ring_full;
            sum.no_chunk += losses.no_chunk;
            sum.other += losses.other;
        }
        self.losses = sum;
    }

    /// The queue whose next frame is the oldest.
    #[inline]
    fn oldest(&self) -> Option<usize> {
        if let [_] = &self.queues[..] {
            return Some(0);
        }
        let stamps = self.queues.iter().enumerate();
        let stamps = stamps.filter_map(|(number, queue)| Some((queue.next_stamp()?, number)));
        stamps.min().map(|(_, number)| number)
    }
}

/// Where the program could not stamp a frame, other bytes may be before it, such as data of the hardware. The clock may have been set.
fn plausible(stamp_ns: u64, now_ns: u64) -> u64 {
    const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;
    match stamp_ns.abs_diff(now_ns) < DAY_NS {
        true => stamp_ns,
        false => now_ns,
    }
}

impl Frames for Reader {
    #[inline]
    fn next_frame(&mut self) -> Option<Frame<'_>> {
        if self.left == 0 {
            return None;
        }
        let number = self.oldest()?;
        let (data, stamp) = self.queues[number].next()?;
        self.left -= 1;
        self.last = Some(number);
        self.last_gap = std::mem::take(&mut self.gap);
        let time_ns = match stamp {
            0 => self.now_ns,
            stamp => plausible(stamp.saturating_sub(self.tai_ahead_ns), self.now_ns),
        };
        Some(Frame {
            data: &data[..data.len().min(self.snaplen as usize)],
            wire_len: data.len() as u32,
            time_ns,
            direction: Direction::Inbound,
            dropped_before: self.last_gap,
            ..Frame::default()
        })
    }

    fn put_back(&mut self) {
        if let Some(number) = self.last.take() {
            self.queues[number].put_back();
            self.left += 1;
            self.gap += std::mem::take(&mut self.last_gap);
        }
    }

    fn release(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_time_of_today_are_not_taken_for_a_stamp() {
        const NOW: u64 = 1_800_000_000_000_000_000;
        assert_eq!(plausible(NOW - 5_000_000_000, NOW), NOW - 5_000_000_000);
        for other in [1, 0xdead_beef, NOW / 2, NOW * 2, u64::MAX] {
            assert_eq!(plausible(other, NOW), NOW);
        }
    }
}
