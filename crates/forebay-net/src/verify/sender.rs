//! The frames of one sender, as they arrive at one interface.

use super::window::{Arrival, Window};
use crate::label::{Kind, Label, frames_before};

/// More frames than any sender sends in a nanosecond: the shortest ones at 2.7 Tb/s.
const MOST_PER_NS: u64 = 4;
/// As many in a second, by which times may be wrong: files may have whole seconds, and clocks are set.
const AT_ONCE: u64 = MOST_PER_NS * 1_000_000_000;

/// Counts of one flow.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// One more than the highest number seen.
    next: u64,
    received: u64,
    reordered: u64,
}

/// What distinguishes senders. Equal numbers at two interfaces are two receptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub sender: u16,
    pub log_flows: u8,
    pub interface: u32,
    pub name: Box<str>,
}

pub(super) struct Sender {
    pub key: Key,
    window: Window,
    flows: Vec<Flow>,
    received: u64,
    reordered: u64,
    longest_distance: u64,
    duplicates: u64,
    late: u64,
    markers: u64,
    has_begun: bool,
    /// The latest time of its frames.
    latest_ns: u64,
    /// The number of frames that the sender reported at its end.
    sent: Option<u64>,
}

/// What arrived of one sender.
///
/// `expected = received + lost`, where the expected numbers are those from [`first`](Self::first) up to
/// [`sent`](Self::sent), or up to the highest one that arrived if no end was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderReport {
    /// The interface that received the frames.
    pub interface: String,
    /// The sender's number.
    pub sender: u16,
    /// The first number expected: 0, or the lowest one that arrived if the sender's beginning was not seen.
    pub first: u64,
    /// The number of frames that the sender has sent, if one of its end markers arrived.
    pub sent: Option<u64>,
    /// Numbers expected.
    pub expected: u64,
    /// Frames with a number that arrived for the first time.
    pub received: u64,
    /// Numbers expected that did not arrive, or arrived [late](Self::late).
    pub lost: u64,
    /// Runs of lost numbers.
    pub gaps: u64,
    /// The length of the longest run.
    pub longest_gap: u64,
    /// Frames with a number that had arrived before.
    pub duplicates: u64,
    /// Of the received frames, those with a number below one that had arrived before (reordered in the sense of RFC 4737).
    pub reordered: u64,
    /// The largest difference between the number of a reordered frame and the highest number that had arrived before it.
    pub longest_distance: u64,
    /// Of the received frames, those reordered within their flow.
    pub reordered_in_flow: u64,
    /// Frames whose number was below the window: reordered that much, or duplicates. Not counted as received.
    pub late: u64,
    /// Begin and end markers.
    pub markers: u64,
    /// Each flow.
    pub flows: Vec<FlowReport>,
}

/// What arrived of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// Frames with a number that arrived for the first time.
    pub received: u64,
    /// Numbers of this flow that did not arrive.
    pub lost: u64,
    /// Of the received frames, those with a number below one of the same flow that had arrived before.
    pub reordered: u64,
}

impl Sender {
    pub fn new(key: Key, window: u64) -> Self {
        Sender {
            flows: vec![Flow::default(); 1 << key.log_flows],
            window: Window::new(window),
            key,
            received: 0,
            reordered: 0,
            longest_distance: 0,
            duplicates: 0,
            late: 0,
            markers: 0,
            has_begun: false,
            latest_ns: 0,
            sent: None,
        }
    }

    /// Counts a frame that arrived at `time_ns`. `false`: its number is impossible, and nothing was counted.
    #[inline]
    pub fn see(&mut self, label: &Label, time_ns: u64) -> bool {
        if label.sequence > self.window.next().saturating_add(AT_ONCE)
            && !self.can_have_sent(label.sequence, time_ns)
        {
            return false;
        }
        self.latest_ns = self.latest_ns.max(time_ns);
        match label.kind {
            Kind::Numbered => self.number(label),
            kind => self.marker(kind, label.sequence),
        }
        true
    }

    /// Whether the sender can have come to this number since its last frame. Its first one may have any.
    #[cold]
    fn can_have_sent(&self, number: u64, time_ns: u64) -> bool {
        let since = time_ns.saturating_sub(self.latest_ns);
        let most = since.saturating_mul(MOST_PER_NS).saturating_add(AT_ONCE);
        self.frames() == 0 || number - self.window.next() <= most
    }

    #[inline]
    fn number(&mut self, label: &Label) {
        match self.window.see(label.sequence) {
            Arrival::InOrder => {}
            Arrival::Reordered(distance) => {
                self.reordered += 1;
                self.longest_distance = self.longest_distance.max(distance);
            }
            Arrival::Duplicate => {
                self.duplicates += 1;
                return;
            }
            Arrival::Late => {
                self.late += 1;
                return;
            }
        }
        self.received += 1;
        let flow = &mut self.flows[label.flow()];
        flow.received += 1;
        match label.sequence < flow.next {
            true => flow.reordered += 1,
            false => flow.next = label.sequence + 1,
        }
    }

    fn marker(&mut self, kind: Kind, sent: u64) {
        self.markers += 1;
        match kind {
            Kind::End => self.sent = self.sent.max(Some(sent)),
            // After many frames, it is the beginning of another run.
            _ if self.window.next() > AT_ONCE => {}
            _ => {
                self.has_begun = true;
                self.window.begin();
            }
        }
    }

    /// Frames counted: received, duplicates, late ones and markers.
    pub fn frames(&self) -> u64 {
        self.received + self.duplicates + self.late + self.markers
    }

    /// Whether an end marker has arrived, and every frame from the beginning on.
    pub fn is_complete(&self) -> bool {
        let first = self.first();
        self.sent
            .is_some_and(|sent| sent - first.min(sent) <= self.received)
    }

    pub fn has_ended(&self) -> bool {
        self.sent.is_some()
    }

    fn first(&self) -> u64 {
        match self.window.first() {
            // Only an end arrived.
            u64::MAX => 0,
            first => first,
        }
    }

    pub fn report(&self) -> SenderReport {
        let first = self.first();
        let end = self.window.next().max(self.sent.unwrap_or(0)).max(first);
        let gaps = self.window.gaps(end);
        let log_flows = self.key.log_flows;
        let flows = self.flows.iter().enumerate();
        let flows = flows.map(|(number, flow)| {
            let before = |sequence| frames_before(sequence, number, log_flows);
            FlowReport {
                received: flow.received,
                lost: before(end) - before(first) - flow.received,
                reordered: flow.reordered,
            }
        });
        let flows: Vec<_> = flows.collect();
        SenderReport {
            interface: self.key.name.to_string(),
            sender: self.key.sender,
            first,
            sent: self.sent,
            expected: end - first,
            received: self.received,
            lost: end - first - self.received,
            gaps: gaps.count,
            longest_gap: gaps.longest,
            duplicates: self.duplicates,
            reordered: self.reordered,
            longest_distance: self.longest_distance,
            reordered_in_flow: flows.iter().map(|flow| flow.reordered).sum(),
            late: self.late,
            markers: self.markers,
            flows,
        }
    }
}
