//! The order of time between several interfaces: whose packet is next, and how long the others' packets are waited for.
//!
//! ```text
//!  port 0  │ packets that can be read │ ▲ safe: no earlier packet follows
//!  port 1  │ packets that can be read, and wait │ ···
//!          └ taken in order up to here ─▲
//! ```
//! A packet is taken when no port can deliver an earlier one any more. Waiting packets stay in their ports. If the ring of one is half
//! full, or after [`WINDOW_NS`], nothing is waited for. A packet of another interface that then has an earlier time is marked
//! ([`Marks::LATE`]).

use super::{
    feed::{Feed, Lane},
    output::Writing,
    stages::{Stage, Verdict},
};
use crate::port::{Frame, LATE_COMMENT, Marks};
use forebay::{Result, time::Clock};

/// How much a packet's time may be before the time at which it can be found in its ring: the kernel takes the time first, and several
/// processors may do so for one ring.
pub(crate) const IN_FLIGHT_NS: u64 = 10_000_000;
/// How long a port may have packets that it cannot hand out yet, such as those in a block that the kernel has not closed, before the
/// others' packets stop waiting for them.
pub(crate) const WINDOW_NS: u64 = 1_000_000_000;
/// While packets wait, the ports are polled this often; more often if a ring fills up.
const LOOK_EVERY_NS: u64 = 5_000_000;
const LOOK_SOON_NS: u64 = 500_000;
const FILLS_UP: f64 = 0.05;
/// How long an answer of a port without packets holds.
const SAFE_FOR_NS: u64 = 1_000_000;
/// A ring that is filled to this part no longer waits.
const CROWDED: f64 = 0.5;

/// What is known about one port.
#[derive(Clone, Copy, Default)]
struct Next {
    /// The time of its next packet, if it has one.
    head_ns: Option<u64>,
    /// Without a packet: it will deliver none before this time, found out at `asked_at` of the session's clock.
    safe_ns: u64,
    asked_at: Option<u64>,
    /// The latest time of its packets so far.
    latest_ns: u64,
}

/// The ports of a session that reads several live ones.
pub(super) struct TimeOrder {
    ports: Vec<Next>,
    /// The ports stamp packets by one clock, so that it is known which packet may still come.
    waits: bool,
    has_system_time: bool,
    /// Since when packets wait, by the session's clock.
    waiting_since: Option<u64>,
    /// The largest part of a ring that was filled when packets had to wait last.
    fill: f64,
    clock: Clock,
}

impl TimeOrder {
    /// `None`: there is one port only, or files, which are read in the order given.
    pub fn of(feeds: &[Feed], clock: &Clock) -> Option<Self> {
        let infos: Vec<_> = feeds.iter().map(|feed| feed.port.info()).collect();
        let [first, _, ..] = &infos[..] else {
            return None;
        };
        if infos.iter().any(|info| info.in_turn) {
            return None;
        }
        let is_same = |info| first.shares_clock_with(info);
        Some(TimeOrder {
            ports: vec![Next::default(); feeds.len()],
            waits: infos.iter().all(is_same),
            has_system_time: first.has_system_time(),
            waiting_since: None,
            fill: 0.0,
            clock: clock.clone(),
        })
    }

    /// Asks a port for its next packet. Once all have been asked, [`next`](TimeOrder::next) returns the port with the first one.
    ///
    /// # Errors
    /// Those of the port. If it `is_stopping`, it has ended.
    pub fn look_at(&mut self, at: usize, feed: &mut Feed, is_stopping: bool) -> Result<()> {
        let port = &mut self.ports[at];
        if feed.has_ended {
            port.head_ns = None;
            port.safe_ns = u64::MAX;
            return Ok(());
        }
        // Before the poll: a packet that arrives after it is later.
        let looked_ns = match self.has_system_time {
            true => self.clock.wall_now(),
            false => self.clock.wall(self.clock.now()),
        };
        port.head_ns = match feed.next_time() {
            Ok(time_ns) => time_ns,
            Err(error) => {
                feed.has_ended = is_stopping;
                return Err(error);
            }
        };
        let now = self.clock.now();
        let is_known = |asked: u64| now.saturating_sub(asked) < SAFE_FOR_NS;
        if port.head_ns.is_some() || !self.waits || port.asked_at.is_some_and(is_known) {
            return Ok(());
        }
        // Packets that the port has accepted, but cannot hand out yet.
        let has_more = feed.port.counts().accepted() > feed.taken + feed.filtered;
        let back = if has_more { WINDOW_NS } else { IN_FLIGHT_NS };
        port.safe_ns = looked_ns.saturating_sub(back);
        port.asked_at = Some(now);
        Ok(())
    }

    /// The port whose packet is the first, and up to which time its packets are. `None`: there is no packet, or it waits for others.
    pub fn next(&mut self, feeds: &[Feed]) -> Option<(usize, u64)> {
        let heads = self.ports.iter().enumerate();
        let heads = heads.filter_map(|(at, port)| Some((port.head_ns?, at)));
        let Some((head_ns, first)) = heads.min() else {
            self.waiting_since = None;
            return None;
        };
        let others = self.ports.iter().enumerate().filter(|(at, _)| *at != first);
        let (mut until, mut safe_ns) = (u64::MAX, u64::MAX);
        for (_, port) in others {
            match port.head_ns {
                Some(head_ns) => until = until.min(head_ns),
                None if self.waits => safe_ns = safe_ns.min(port.safe_ns),
                None => {}
            }
        }
        if head_ns > safe_ns && !self.gives_up(feeds) {
            return None;
        }
        if head_ns <= safe_ns {
            self.waiting_since = None;
            until = until.min(safe_ns);
        }
        Some((first, until))
    }

    /// Whether packets that wait are taken all the same.
    fn gives_up(&mut self, feeds: &[Feed]) -> bool {
        let now = self.clock.now();
        let since = *self.waiting_since.get_or_insert(now);
        // Only a clock that was set makes them wait for longer.
        let is_over = now.saturating_sub(since) > WINDOW_NS + IN_FLIGHT_NS;
        let fills = feeds.iter().filter_map(|feed| feed.port.report().ring_fill);
        self.fill = fills.fold(0.0, f64::max);
        is_over || self.fill > CROWDED
    }

    /// If packets wait: when to look again.
    pub fn look_again_at(&self) -> Option<u64> {
        self.waiting_since?;
        let after = match self.fill > FILLS_UP {
            true => LOOK_SOON_NS,
            false => LOOK_EVERY_NS,
        };
        Some(self.clock.now() + after)
    }

    /// Whether the port has a packet that waits for those of others.
    pub fn holds(&self, at: usize) -> bool {
        self.waiting_since.is_some() && self.ports[at].head_ns.is_some()
    }

    /// The stage for packets of a port up to a time.
    pub fn stage(&mut self, at: usize, until_ns: u64) -> InOrder<'_> {
        let (before, rest) = self.ports.split_at_mut(at);
        let (this, after) = rest.split_first_mut().expect("the port is one of these");
        let others = before.iter().chain(&*after).map(|port| port.latest_ns);
        InOrder {
            until_ns,
            others_ns: others.max().unwrap_or(0),
            latest_ns: &mut this.latest_ns,
        }
    }
}

/// Ends a burst at the first packet after a time, and marks packets that are late.
pub(super) struct InOrder<'a> {
    until_ns: u64,
    /// The latest time of packets of other ports.
    others_ns: u64,
    latest_ns: &'a mut u64,
}

impl Stage for InOrder<'_> {
    #[inline(always)]
    fn admit(&mut self, frame: &mut Frame<'_>, _: &Lane, _: Option<&Writing>) -> Verdict {
        if frame.time_ns > self.until_ns {
            return Verdict::Later;
        }
        if frame.time_ns < self.others_ns {
            frame.marks = frame.marks.with(Marks::LATE);
            if frame.options.is_empty() {
                frame.options = &LATE_COMMENT;
            }
        }
        Verdict::Take
    }

    #[inline(always)]
    fn taken(&mut self, frame: &Frame<'_>, _: &Lane, _: Option<&mut Writing>) {
        *self.latest_ns = frame.time_ns.max(*self.latest_ns);
    }
}
