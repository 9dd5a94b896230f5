//! Adds up packets by conversation, end point, protocol, service, length and time.
//!
//! Memory is bounded. Conversations and end points beyond the limits are not tracked, and their packets are counted as such. When
//! there are too many intervals, they become longer.

use crate::flow::{
    Flow, Packet, Protocol,
    tcp::{Connection, Segment},
};
use forebay_net::port::LinkType;
use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

// Tests reach smaller limits sooner.
const MAX_FLOWS: usize = if cfg!(test) { 2_000 } else { 200_000 };
const MAX_HOSTS: usize = MAX_FLOWS;
const MAX_INTERVALS: usize = MAX_FLOWS / 4;
const SECOND_NS: u64 = 1_000_000_000;
/// The shortest lengths of packets that are counted together. The last group has no end.
pub const LENGTHS: [u32; 10] = [0, 64, 128, 256, 512, 1024, 1280, 1519, 2560, 9000];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.merge(Count { packets: 1, bytes });
    }

    fn merge(&mut self, other: Count) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }

    pub fn plus(mut self, other: Count) -> Count {
        self.merge(other);
        self
    }
}

/// Both directions between two end points.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// What the first and the second end point sent.
    pub sent: [Count; 2],
    pub first_ns: u64,
    pub last_ns: u64,
    /// Of TCP.
    pub connection: Option<Box<Connection>>,
}

impl Conversation {
    pub fn total(&self) -> Count {
        self.sent[0].plus(self.sent[1])
    }

    fn see(&mut self, segment: Option<Segment>, is_back: bool, bytes: u64, time_ns: u64) {
        if self.total().packets == 0 {
            (self.first_ns, self.last_ns) = (time_ns, time_ns);
        }
        self.first_ns = self.first_ns.min(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
        self.sent[usize::from(is_back)].add(bytes);
        if let Some(segment) = segment {
            let connection = self.connection.get_or_insert_default();
            connection.see(segment, is_back, time_ns);
        }
    }
}

/// What end points have sent and received.
#[derive(Clone, Copy, Debug, Default)]
pub struct Endpoint {
    pub sent: Count,
    pub received: Count,
}

#[derive(Default)]
pub struct Tally {
    pub total: Count,
    pub conversations: HashMap<Flow, Conversation>,
    pub endpoints: HashMap<IpAddr, Endpoint>,
    pub protocols: HashMap<Protocol, Count>,
    pub services: HashMap<(u16, Protocol), Count>,
    pub lengths: [Count; LENGTHS.len()],
    /// By their first second.
    intervals: BTreeMap<u64, Count>,
    interval_s: u64,
    /// Packets of conversations and of end points beyond the limits. A packet has two end points.
    pub untracked: [Count; 2],
}

impl Tally {
    /// With intervals of this many seconds or more.
    pub fn new(interval_s: u64) -> Self {
        Tally {
            interval_s: interval_s.max(1),
            ..Tally::default()
        }
    }

    pub fn count(&mut self, link: LinkType, data: &[u8], wire_len: u32, time_ns: u64) {
        let packet = Packet::of(link, data);
        let (flow, is_back) = (packet.flow, packet.is_back);
        let bytes = u64::from(wire_len);
        self.total.add(bytes);
        self.protocols.entry(flow.protocol).or_default().add(bytes);
        if let Some(service) = flow.service() {
            self.services.entry(service).or_default().add(bytes);
        }
        let group = LENGTHS.iter().rposition(|&least| least <= wire_len);
        self.lengths[group.unwrap_or(0)].add(bytes);
        self.interval(time_ns / SECOND_NS).add(bytes);
        match bounded(&mut self.conversations, flow, MAX_FLOWS) {
            Some(it) => it.see(packet.segment, is_back, bytes, time_ns),
            None => self.untracked[0].add(bytes),
        }
        let Some(mut hosts) = flow.hosts() else {
            return;
        };
        if is_back {
            hosts.reverse();
        }
        for (sends, host) in [true, false].into_iter().zip(hosts) {
            match bounded(&mut self.endpoints, host, MAX_HOSTS) {
                Some(it) if sends => it.sent.add(bytes),
                Some(it) => it.received.add(bytes),
                None => self.untracked[1].add(bytes),
            }
        }
    }

    fn interval(&mut self, second: u64) -> &mut Count {
        if self.intervals.len() >= MAX_INTERVALS {
            self.interval_s *= 10;
            self.intervals = joined(&self.intervals, self.interval_s);
        }
        let start = second / self.interval_s * self.interval_s;
        self.intervals.entry(start).or_default()
    }

    /// The intervals that have packets by their first second, and their length: the shortest of the usual ones with no more than
    /// `max` between the first and the last.
    pub fn intervals(&self, max: usize) -> (u64, BTreeMap<u64, Count>) {
        let (first, last) = (self.intervals.keys().next(), self.intervals.keys().last());
        let span = first.zip(last).map_or(0, |(first, last)| last - first);
        let mut usual = [1, 10, 60, 600, 3600, 86_400, 604_800, 31_536_000].into_iter();
        let is_long_enough = |&it: &u64| span / it < max.max(1) as u64;
        let length = usual.find(is_long_enough).unwrap_or(31_536_000);
        match length > self.interval_s {
            true => (length, joined(&self.intervals, length)),
            false => (self.interval_s, self.intervals.clone()),
        }
    }

    /// All intervals, as they were counted.
    pub fn all_intervals(&self) -> (u64, BTreeMap<u64, Count>) {
        (self.interval_s, self.intervals.clone())
    }
}

fn joined(intervals: &BTreeMap<u64, Count>, length: u64) -> BTreeMap<u64, Count> {
    let mut longer = BTreeMap::<u64, Count>::new();
    for (second, count) in intervals {
        let start = second / length * length;
        longer.entry(start).or_default().merge(*count);
    }
    longer
}

/// The value of `key`; `None` if it is not there and there is no room.
fn bounded<K: Eq + std::hash::Hash, V: Default>(
    map: &mut HashMap<K, V>,
    key: K,
    max: usize,
) -> Option<&mut V> {
    match map.len() < max || map.contains_key(&key) {
        true => Some(map.entry(key).or_default()),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn udp(from: [u8; 4], port: u16) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(from, [10, 255, 0, 1], 64);
        let mut bytes = Vec::new();
        builder.udp(port, 53).write(&mut bytes, b"x").unwrap();
        bytes
    }

    #[test]
    fn what_finds_no_room_is_counted_and_nothing_is_lost() {
        let mut tally = Tally::new(1);
        let flows = MAX_FLOWS as u32 + 7;
        for number in 0..flows {
            let from = (0x0a00_0000 + number / 2).to_be_bytes();
            let frame = udp(from, 40_000 + (number % 2) as u16);
            let time_ns = u64::from(number) * SECOND_NS;
            tally.count(LinkType::ETHERNET, &frame, 100, time_ns);
        }
        assert_eq!(tally.conversations.len(), MAX_FLOWS);
        assert_eq!(tally.untracked[0].packets, 7);
        let tracked = tally.conversations.values().map(|it| it.total().packets);
        assert_eq!(tracked.sum::<u64>() + 7, tally.total.packets);
        let (length, intervals) = tally.all_intervals();
        assert!(length == 10 && intervals.len() <= MAX_INTERVALS, "{length}");
        assert_eq!(
            intervals.values().map(|it| it.packets).sum::<u64>(),
            u64::from(flows)
        );
        let (length, few) = tally.intervals(5);
        assert_eq!((length, few.len()), (600, 4));
    }
}
