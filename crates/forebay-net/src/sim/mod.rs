//! A simulated network card: exact arrivals, two bounded rings, no privileges, no thread.
//!
//! ```text
//!  wire at `rate`       card ring (`ring=`)          host ring (`-B`, `host=`)
//!  frame 0 1 2 3 … ──▶ │ │ │ │ │ … overruns ──▶ ✗   │ │ │ │ │ │ │ … ──▶ receive
//!                          └── the host moves frames ──▶┘   unless it is stalled or full
//! ```
//! The card has no thread. At each poll, it computes from the clock which frames have arrived since the last poll, and which of them
//! found no room. The bytes of a frame are computed from its sequence number, so the rings store no bytes. Each frame has a
//! [label](crate::label) with this number. [`Spec`] parses the text after `sim:`.

mod card;
mod frames;
mod pace;
mod sizes;
mod spec;
#[cfg(test)]
mod tests;

pub use frames::sequence_of;
pub(crate) use frames::{Generator, Target};
pub(crate) use pace::Stamps;
pub use sizes::Sizes;
pub use spec::{Host, Rate, Spec, Stall};

use crate::port::{
    self, Burst, Counts, Frame, Frames, Interface, Port, PortInfo, PortReport, Wake,
};
use card::Card;
use forebay::{Result, time::Clock};

/// Interrupt moderation: the card waits this long after a frame for more, as real ones do.
const MODERATION_NS: u64 = 250_000;

/// The simulated card as a [`Port`].
///
/// ```
/// use forebay::time::Clock;
/// use forebay_net::{port::{Port, Wake}, sim::{self, Sim, Spec}};
///
/// let clock = Clock::virtual_time();
/// let mut card = Sim::new(Spec { count: Some(1000), ..Spec::default() }, clock.clone());
/// let mut seen = 0;
/// loop {
///     let mut burst = card.receive(64)?;
///     while let Some(frame) = burst.next_frame() {
///         assert_eq!(sim::sequence_of(frame.data), Some(seen));
///         seen += 1;
///     }
///     drop(burst);
///     match card.arm()? {
///         Wake::At(then) => clock.sleep_until(then),
///         Wake::End => break,
///         _ => {}
///     }
/// }
/// assert_eq!((seen, card.counts().received, card.counts().dropped), (1000, 1000, Some(0)));
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Sim {
    spec: Spec,
    clock: Clock,
    pub(crate) interfaces: [Interface; 1],
    card: Card,
    generator: Generator,
    stamps: Option<Stamps>,
    burst: BurstState,
    /// The first poll, in the clock's time.
    start: Option<u64>,
    /// The number of this card among several that share the frames, and their number.
    member: (u64, u64),
}

/// The burst being handed out.
#[derive(Default)]
struct BurstState {
    /// Frames that the budget allowed since the last release, and those of them that it still allows.
    allowed: u64,
    left: u64,
    /// Drops before the last frame, if it can be put back.
    last_gap: Option<u64>,
    /// The wall time of this burst, and of the first poll.
    time_ns: u64,
    epoch_ns: u64,
}

impl BurstState {
    fn taken(&self) -> u64 {
        self.allowed - self.left
    }
}

impl Sim {
    /// A card that follows `spec`. The wire is quiet until the first poll.
    pub fn new(spec: Spec, clock: Clock) -> Self {
        Sim {
            interfaces: [Interface {
                name: "sim".into(),
                description: spec.to_string(),
                bits_per_second: spec.rate.bits_per_second(),
                ..Interface::default()
            }],
            card: Card::new(&spec),
            generator: Generator::new(&spec, spec.seed as u16, &Target::default()),
            stamps: Stamps::new(&spec),
            burst: BurstState::default(),
            spec,
            clock,
            start: None,
            member: (0, 1),
        }
    }

    /// `count` cards that together are the card of `spec`, at least one: each has a part of its rate and of its frames, and the frames
    /// with every `count`th number. Their rings are as large as those of one card with the part's rate.
    pub fn members(spec: Spec, clock: &Clock, count: u64) -> Vec<Sim> {
        let count = count.max(1);
        let member = |number| {
            let rate = match spec.rate {
                Rate::BitsPerSecond(rate) => Rate::BitsPerSecond((rate / count).max(1)),
                Rate::Max => Rate::Max,
            };
            let frames = |all: u64| all / count + u64::from(number < all % count);
            let part = Spec {
                rate,
                count: spec.count.map(frames),
                ..spec
            };
            let mut card = Sim::new(part, clock.clone());
            card.interfaces[0].description = spec.to_string();
            card.interfaces[0].bits_per_second = spec.rate.bits_per_second();
            card.member = (number, count);
            card
        };
        (0..count).map(member).collect()
    }

    /// Nanoseconds since the first poll; everything is computed up to this time.
    fn advance(&mut self) -> u64 {
        let now = self.clock.now();
        let start = *self.start.get_or_insert(now);
        self.card.advance(now - start);
        now - start
    }

    /// The clock's time at `since` after the first poll.
    fn at(&self, since: u64) -> u64 {
        self.start.unwrap_or(0).saturating_add(since)
    }
}

impl Frames for Sim {
    #[inline]
    fn next_frame(&mut self) -> Option<Frame<'_>> {
        if self.burst.left == 0 {
            return None;
        }
        let (sequence, dropped_before) = self.card.next()?;
        self.burst.left -= 1;
        self.burst.last_gap = Some(dropped_before);
        let time_ns = match &mut self.stamps {
            Some(stamps) => self.burst.epoch_ns + stamps.of(sequence),
            None => self.burst.time_ns,
        };
        let (number, count) = self.member;
        let data = self.generator.frame(sequence * count + number);
        Some(Frame {
            time_ns,
            dropped_before,
            ..Frame::whole(data)
        })
    }

    fn put_back(&mut self) {
        self.burst.allowed = self.burst.taken();
        self.burst.left = 0;
        if let Some(gap) = self.burst.last_gap.take() {
            self.card.put_back(gap);
            self.burst.allowed -= 1;
        }
    }

    fn release(&mut self) {
        let taken = self.burst.taken();
        self.card.release(taken);
        self.clock.charge(taken * self.spec.cost_ns);
        self.burst = BurstState::default();
    }
}

impl Port for Sim {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        let since = self.advance();
        self.burst.last_gap = None;
        let allowed = self.card.visible(since).min(budget as u64);
        self.burst.allowed = self.burst.taken() + allowed;
        self.burst.left = allowed;
        self.burst.time_ns = self.clock.wall(self.at(since));
        self.burst.epoch_ns = self.clock.wall(self.at(0));
        Ok(Burst::new(self))
    }

    fn arm(&mut self) -> Result<Wake<'_>> {
        let since = self.advance();
        Ok(match self.card.next_wake(since, MODERATION_NS) {
            Some(then) if then <= since => Wake::Ready,
            Some(then) => Wake::At(self.at(then)),
            None => Wake::End,
        })
    }

    fn stop(&mut self) -> Result<()> {
        self.advance();
        self.card.stop();
        Ok(())
    }

    fn counts(&mut self) -> Counts {
        self.advance();
        Counts {
            received: self.card.arrived(),
            dropped: Some(self.card.dropped()),
            interface_dropped: None,
            filtered: Some(0),
        }
    }

    fn report(&self) -> PortReport<'_> {
        let capacity = self.card.capacity().max(1);
        PortReport {
            ring_fill: Some(self.card.held() as f64 / capacity as f64),
            ..PortReport::default()
        }
    }

    fn info(&self) -> PortInfo {
        PortInfo {
            backend: "sim",
            copy: "generated in place",
            ring_bytes: 0,
            ring_frames: self.card.capacity(),
            waits: self.stamps.is_none(),
            filters: false,
            in_turn: false,
            reads_ahead: false,
            clock: Some(self.clock.clone()),
            timestamps: port::SIMULATED_TIME,
            ..PortInfo::default()
        }
    }
}
