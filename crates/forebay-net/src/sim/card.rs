//! Arrivals and losses of the simulated card, by arithmetic.
//!
//! ```text
//!           released      taken           in host          in card       arrived
//!  sequence ───┼────────────┼────────────────┼────────────────┼─────────────┼──▶
//!              │  in a burst │   visible      │  host stalled  │
//! ```
//! Between two polls nothing is taken away. Of the frames that arrived in between, the first ones find room and the
//! rest form one gap. Accepted frames are kept as runs of sequence numbers. A poll or a stall adds at most one
//! run, so a poll costs the same at any rate. Times are nanoseconds since the wire became busy.

use super::{Host, Spec, Stall, pace::Pace};
use std::collections::VecDeque;

/// A run of accepted frames and the gap before it.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    dropped_before: u64,
    first: u64,
    count: u64,
}

pub(super) struct Card {
    pace: Option<Pace>,
    /// Frames that will ever arrive.
    limit: u64,
    card_slots: u64,
    host_slots: Option<u64>,
    stall: Option<Stall>,
    /// Arrivals and moves have been computed up to this time.
    seen: u64,
    arrived: u64,
    dropped: u64,
    /// Dropped after the last accepted frame.
    gap: u64,
    /// The run that frames are taken from. What is left of it may be empty.
    front: Run,
    /// The other accepted frames, in order.
    runs: VecDeque<Run>,
    /// Of the accepted frames, those in each ring. Taken frames hold their place until release.
    in_card: u64,
    in_host: u64,
    stopped: bool,
}

impl Card {
    pub fn new(spec: &Spec) -> Self {
        let host_slots = match (spec.host, spec.mean_interval_ns()) {
            (Host::Frames(n), Some(_)) => Some(n),
            (Host::OneSecond, Some(interval)) => Some((1e9 / interval).ceil() as u64),
            // A source that waits for its reader needs no host ring.
            (Host::None, _) | (_, None) => None,
        };
        Card {
            pace: Pace::new(spec),
            limit: spec.count.unwrap_or(u64::MAX),
            card_slots: spec.ring,
            host_slots,
            stall: spec.stall,
            seen: 0,
            arrived: 0,
            dropped: 0,
            gap: 0,
            front: Run::default(),
            runs: VecDeque::new(),
            in_card: 0,
            in_host: 0,
            stopped: false,
        }
    }

    /// Slots of both rings.
    pub fn capacity(&self) -> u64 {
        self.card_slots + self.host_slots.unwrap_or(0)
    }

    /// Frames in both rings.
    pub fn held(&self) -> u64 {
        self.in_card + self.in_host
    }

    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Computes everything that happened up to `now`.
    pub fn advance(&mut self, now: u64) {
        if self.stopped {
            return self.move_to_host();
        }
        if self.pace.is_none() {
            // At `rate=max` the ring is always full and nothing is ever lost.
            let room = self.capacity() - self.in_card - self.in_host;
            self.arrive(room.min(self.limit - self.arrived));
            self.move_to_host();
            return;
        }
        while self.seen < now {
            let (edge, stalled) = match self.stall {
                Some(stall) => stall.next_edge(self.seen),
                None => (u64::MAX, false),
            };
            let upto = edge.min(now);
            self.span(upto, stalled);
            self.seen = upto;
        }
        if self.stall.is_none_or(|stall| !stall.covers(now)) {
            self.move_to_host();
        }
    }

    /// Arrivals up to `upto`, while the host polls all the time or not at all.
    fn span(&mut self, upto: u64, stalled: bool) {
        let Some(pace) = &self.pace else { return };
        let due = pace.arrived_at(upto).min(self.limit);
        let new = due - self.arrived;
        if !stalled {
            self.move_to_host();
        }
        let card_room = self.card_slots - self.in_card;
        let host_room = match self.host_slots {
            Some(slots) if !stalled => slots - self.in_host,
            _ => 0,
        };
        let accepted = new.min(card_room + host_room);
        self.arrive(accepted);
        if !stalled {
            self.move_to_host();
        }
        let lost = new - accepted;
        self.arrived += lost;
        self.dropped += lost;
        self.gap += lost;
    }

    /// The next `count` frames are accepted.
    fn arrive(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        match self.runs.back_mut() {
            Some(run) if self.gap == 0 => run.count += count,
            _ => self.runs.push_back(Run {
                dropped_before: std::mem::take(&mut self.gap),
                first: self.arrived,
                count,
            }),
        }
        self.arrived += count;
        self.in_card += count;
    }

    fn move_to_host(&mut self) {
        if let Some(slots) = self.host_slots {
            let moved = self.in_card.min(slots - self.in_host);
            self.in_card -= moved;
            self.in_host += moved;
        }
    }

    /// Frames that can be taken now.
    pub fn visible(&self, now: u64) -> u64 {
        match (self.host_slots, self.stall) {
            (Some(_), _) => self.in_host,
            // Without a host ring, a stall delays the caller.
            (None, Some(stall)) if stall.covers(now) && !self.stopped => 0,
            (None, _) => self.in_card,
        }
    }

    /// Takes the next frame: its sequence number and the gap before it.
    #[inline]
    pub fn next(&mut self) -> Option<(u64, u64)> {
        if self.front.count == 0 {
            self.front = self.runs.pop_front()?;
        }
        let run = &mut self.front;
        let sequence = run.first;
        let dropped = std::mem::take(&mut run.dropped_before);
        run.first += 1;
        run.count -= 1;
        Some((sequence, dropped))
    }

    /// Puts the last frame back.
    pub fn put_back(&mut self, dropped_before: u64) {
        let run = &mut self.front;
        run.first -= 1;
        run.count += 1;
        run.dropped_before = dropped_before;
    }

    /// Frees the slots of `count` taken frames.
    pub fn release(&mut self, count: u64) {
        match self.host_slots {
            Some(_) => self.in_host -= count,
            None => self.in_card -= count,
        }
    }

    /// When there is something to take: now, later, or never.
    pub fn next_wake(&self, now: u64, moderation: u64) -> Option<u64> {
        if self.visible(now) > 0 {
            return Some(now);
        }
        if self.stopped && self.in_card == 0 {
            return None;
        }
        let after_stall = |at: u64| match self.stall {
            Some(stall) if !self.stopped => stall.end_of(at),
            _ => at,
        };
        if self.in_card > 0 {
            return Some(after_stall(now).max(now + 1));
        }
        let pace = self.pace.as_ref()?;
        if self.arrived >= self.limit {
            return None;
        }
        // Wake up while a quarter of the ring is still free.
        let first = pace.arrival(self.arrived);
        let quarter = (self.capacity() / 4).max(1) - 1;
        let quarter_full = pace.arrival(self.arrived.saturating_add(quarter).min(self.limit - 1));
        Some(after_stall(
            quarter_full.min(first.saturating_add(moderation)),
        ))
    }

    /// Nothing arrives any more. The card's frames move to the host as it makes room.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.move_to_host();
    }
}
