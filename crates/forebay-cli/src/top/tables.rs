//! Counts packets by flow, host, port and protocol.
//!
//! Each packet is counted in a table of recent flows, which adds up the packets of a flow without hashing its parts again. What
//! leaves that table, and all of it before a snapshot, goes to a sketch for each kind of key. Nothing is sampled.

use super::{
    sketch::{Sketch, Slot},
    timeline::Timeline,
};
use crate::flow::{
    Flow, Packet, Protocol,
    tcp::{Connection, Segment},
};
use forebay_net::port::{Direction, Frame, LinkType};
use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
};

/// Recent flows. A power of two.
const RECENT: usize = 4096;
/// Keys tracked of each kind.
const TRACKED: usize = 1024;

/// Rates of a row that are kept: a minute, with the usual interval.
const MAX_RECENT: usize = 60;

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// The two directions of a key: what it sent, and what it received. A flow sends what its first endpoint sends. What has no direction is
/// in the first one.
pub type Ways = [Count; 2];

/// What is known of a flow besides its counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct History {
    /// The times of the earliest and the latest packet.
    pub span_ns: Option<(u64, u64)>,
    pub connection: Connection,
}

impl History {
    #[inline]
    fn see(&mut self, time_ns: u64, is_back: bool, segment: Option<Segment>) {
        let (first, last) = self.span_ns.unwrap_or((time_ns, time_ns));
        self.span_ns = Some((first.min(time_ns), last.max(time_ns)));
        if let Some(segment) = segment {
            self.connection.see(segment, is_back, time_ns);
        }
    }
}

/// A flow, with its counts since it is in the table of recent ones.
#[derive(Clone, Copy, Default)]
struct Recent {
    flow: Flow,
    ways: Ways,
    history: History,
}

pub struct Tables {
    seed: u64,
    recent: Vec<Recent>,
    flows: Sketch<Flow, (Ways, History)>,
    hosts: Sketch<IpAddr, Ways>,
    ports: Sketch<(u16, Protocol), Ways>,
    protocols: Sketch<Protocol, Ways>,
    /// The times of the earliest and the latest packet.
    span_ns: Option<(u64, u64)>,
    /// Bytes that the interfaces received and sent.
    directed_bytes: [u64; 2],
    /// Of files, whose times have passed.
    timeline: Option<Timeline>,
}

/// What a row counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Key {
    Flow(Flow),
    Host(IpAddr),
    Port(u16, Protocol),
    Protocol(Protocol),
}

/// A key with its counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub key: Key,
    pub name: String,
    /// The same with names of hosts and services.
    pub label: Option<String>,
    /// Counts that certainly belong to the key.
    pub packets: u64,
    pub bytes: u64,
    /// The same in both directions.
    pub ways: Ways,
    /// Bytes more that may belong to it, from before it was tracked.
    pub uncertain_bytes: u64,
    pub bits_per_second: f64,
    /// The same in both directions.
    pub way_bits_per_second: [f64; 2],
    /// Bits per second of the last intervals, the last one last. Not of files.
    pub recent: VecDeque<u64>,
    /// The rate by which rows are sorted.
    pub rank: f64,
    /// Of a flow.
    pub history: Option<History>,
}

impl Row {
    /// Sets the rates: `bytes` in both directions in these `seconds`. The last rank stays until the rate differs from it by a tenth, so
    /// that rows with nearly the same rate keep their places.
    pub fn set_rates(&mut self, bytes: [u64; 2], seconds: f64, last_rank: f64) {
        let rate = |bytes: u64| match seconds > 0.0 {
            true => bytes as f64 * 8.0 / seconds,
            false => 0.0,
        };
        self.way_bits_per_second = bytes.map(rate);
        self.bits_per_second = rate(bytes[0] + bytes[1]);
        let is_near = (self.bits_per_second - last_rank).abs() <= last_rank * 0.1;
        self.rank = if is_near {
            last_rank
        } else {
            self.bits_per_second
        };
    }

    /// Adds the rate since `old`, the same row an interval earlier, to its rates.
    pub fn continue_from(&mut self, old: Option<&mut Row>, seconds: f64) {
        let mut bytes = self.bytes;
        if let Some(old) = old {
            self.recent = std::mem::take(&mut old.recent);
            bytes = bytes.saturating_sub(old.bytes);
        }
        if self.recent.len() == MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((bytes as f64 * 8.0 / seconds) as u64);
    }

    /// What people read.
    pub fn shown(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.name)
    }

    pub fn way_bytes(&self) -> [u64; 2] {
        self.ways.map(|way| way.bytes)
    }
}

/// The kinds of keys, in the order of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Flows,
    Hosts,
    Ports,
    Protocols,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Flows, Kind::Hosts, Kind::Ports, Kind::Protocols];

    pub fn name(self) -> &'static str {
        ["flows", "hosts", "ports", "protocols"][self as usize]
    }

    /// What both directions of its rows are called; `None`: they have none.
    pub fn directions(self) -> Option<[&'static str; 2]> {
        match self {
            Kind::Flows => Some(["→ bit/s", "← bit/s"]),
            Kind::Hosts | Kind::Ports => Some(["sent", "received"]),
            Kind::Protocols => None,
        }
    }
}

/// The rows of each kind, in the order of [`Kind::ALL`].
pub type Rows = [Vec<Row>; 4];

impl Tables {
    /// `is_file`: the packets are from files, whose graph is made of the times of packets.
    pub fn new(is_file: bool) -> Self {
        Tables {
            // So that nobody can make all packets share one place.
            seed: RandomState::new().hash_one(0),
            recent: vec![Recent::default(); RECENT],
            flows: Sketch::new(TRACKED),
            hosts: Sketch::new(TRACKED),
            ports: Sketch::new(TRACKED),
            protocols: Sketch::new(TRACKED),
            span_ns: None,
            directed_bytes: [0; 2],
            timeline: is_file.then(Timeline::new),
        }
    }

    /// Counts a packet, and returns its flow.
    #[inline]
    pub fn count(&mut self, link: LinkType, frame: &Frame<'_>) -> Flow {
        let (time_ns, bytes) = (frame.time_ns, u64::from(frame.wire_len));
        let (first, last) = self.span_ns.unwrap_or((time_ns, time_ns));
        self.span_ns = Some((first.min(time_ns), last.max(time_ns)));
        match frame.direction {
            Direction::Unknown => {}
            Direction::Inbound => self.directed_bytes[0] += bytes,
            Direction::Outbound => self.directed_bytes[1] += bytes,
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.add(time_ns, bytes);
        }
        let packet = Packet::of(link, frame.data);
        let at = (packet.flow.mixed(self.seed) >> 32) as usize % RECENT;
        if self.recent[at].flow != packet.flow {
            self.replace(at, packet.flow);
        }
        let recent = &mut self.recent[at];
        recent.ways[usize::from(packet.is_back)].add(Count { packets: 1, bytes });
        (recent.history).see(time_ns, packet.is_back, packet.segment);
        packet.flow
    }

    #[inline(never)]
    fn replace(&mut self, at: usize, flow: Flow) {
        let about = self.flows.about(&flow);
        let new = Recent {
            flow,
            ways: Ways::default(),
            history: about.map_or_else(History::default, |about| about.1),
        };
        let old = std::mem::replace(&mut self.recent[at], new);
        self.add(old);
    }

    #[inline(never)]
    fn add(&mut self, recent: Recent) {
        let Recent {
            flow,
            ways,
            history,
        } = recent;
        let [there, back] = ways;
        let (packets, bytes) = (there.packets + back.packets, there.bytes + back.bytes);
        if packets == 0 {
            return;
        }
        let put = |about: &mut Ways, ways: Ways| {
            about
                .iter_mut()
                .zip(ways)
                .for_each(|(one, other)| one.add(other));
        };
        let (about, last) = self.flows.add(flow, packets, bytes);
        put(about, ways);
        let first = last.span_ns.map(|span| span.0);
        *last = history;
        // The counts of frames without a known protocol are never replaced, and so do not begin with what is known.
        if let (Some(first), Some(span)) = (first, &mut last.span_ns) {
            span.0 = span.0.min(first);
        }
        let all = Count { packets, bytes };
        let none = Count::default();
        put(
            self.protocols.add(flow.protocol, packets, bytes),
            [all, none],
        );
        if let Some([one, two]) = flow.hosts() {
            match one == two {
                true => put(self.hosts.add(one, packets, bytes), [all, none]),
                false => {
                    put(self.hosts.add(one, packets, bytes), [there, back]);
                    put(self.hosts.add(two, packets, bytes), [back, there]);
                }
            }
        }
        if let Some(service) = flow.service() {
            // The service is the second endpoint.
            put(self.ports.add(service, packets, bytes), [back, there]);
        }
    }

    /// The counts of all tracked keys so far.
    pub fn snapshot(&mut self) -> Snapshot {
        for at in 0..RECENT {
            let recent = std::mem::take(&mut self.recent[at]);
            self.add(recent);
        }
        Snapshot {
            flows: self.flows.slots().to_vec(),
            hosts: self.hosts.slots().to_vec(),
            ports: self.ports.slots().to_vec(),
            protocols: self.protocols.slots().to_vec(),
            span_ns: self.span_ns.map_or(0, |(first, last)| last - first),
            directed_bytes: self.directed_bytes,
            timeline: self.timeline.clone(),
        }
    }
}

/// What the capturing thread hands to the one that draws.
#[derive(Clone, Default)]
pub struct Snapshot {
    flows: Vec<Slot<Flow, (Ways, History)>>,
    hosts: Vec<Slot<IpAddr, Ways>>,
    ports: Vec<Slot<(u16, Protocol), Ways>>,
    protocols: Vec<Slot<Protocol, Ways>>,
    /// The time between the earliest and the latest packet.
    pub span_ns: u64,
    /// Bytes that the interfaces received and sent; 0 if the sources do not know directions.
    pub directed_bytes: [u64; 2],
    pub timeline: Option<Timeline>,
}

impl Snapshot {
    pub fn rows(&self) -> Rows {
        let flow = |slot: &Slot<Flow, (Ways, History)>| {
            let flow = slot.key;
            let name = match flow.hosts() {
                Some(_) => format!("{:4} {flow}", flow.protocol.to_string()),
                None => flow.to_string(),
            };
            row(
                slot,
                Key::Flow(flow),
                name,
                slot.about.0,
                Some(slot.about.1),
            )
        };
        let host = |slot: &Slot<IpAddr, Ways>| {
            row(
                slot,
                Key::Host(slot.key),
                slot.key.to_string(),
                slot.about,
                None,
            )
        };
        let port = |slot: &Slot<(u16, Protocol), Ways>| {
            let (port, protocol) = slot.key;
            let name = format!("{port}/{protocol}");
            row(slot, Key::Port(port, protocol), name, slot.about, None)
        };
        let protocol = |slot: &Slot<Protocol, Ways>| {
            row(
                slot,
                Key::Protocol(slot.key),
                slot.key.to_string(),
                slot.about,
                None,
            )
        };
        [
            self.flows.iter().map(flow).collect(),
            self.hosts.iter().map(host).collect(),
            self.ports.iter().map(port).collect(),
            self.protocols.iter().map(protocol).collect(),
        ]
    }
}

fn row<K, V>(
    slot: &Slot<K, V>,
    key: Key,
    name: String,
    ways: Ways,
    history: Option<History>,
) -> Row {
    Row {
        key,
        name,
        label: None,
        packets: slot.packets,
        bytes: slot.certain_bytes(),
        ways,
        uncertain_bytes: slot.error,
        bits_per_second: 0.0,
        way_bits_per_second: [0.0; 2],
        recent: VecDeque::new(),
        rank: 0.0,
        history,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    #[test]
    fn every_packet_is_counted_once_in_each_table() {
        let mut tables = Tables::new(false);
        let mut exact = std::collections::HashMap::<String, (u64, u64)>::new();
        // More flows than the table of recent ones has places for, in an order that makes them replace each other.
        for number in 0..30_000_u32 {
            let flow = (number * 7919) % 997;
            let host = [10, 0, (flow >> 8) as u8, flow as u8];
            let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(host, [10, 9, 9, 9], 64);
            let mut bytes = Vec::new();
            let service = 53 + (flow % 3) as u16;
            builder
                .udp(40_000, service)
                .write(&mut bytes, &[0; 20])
                .unwrap();
            let len = 62 + number % 5;
            let frame = Frame {
                wire_len: len,
                time_ns: number.into(),
                ..Frame::whole(&bytes)
            };
            tables.count(LinkType::ETHERNET, &frame);
            let host = std::net::Ipv4Addr::from(host).to_string();
            for key in [
                host,
                "10.9.9.9".into(),
                format!("{service}/udp"),
                "udp".into(),
            ] {
                let (packets, sum) = exact.entry(key).or_default();
                (*packets, *sum) = (*packets + 1, *sum + u64::from(len));
            }
        }
        let snapshot = tables.snapshot();
        let rows = snapshot.rows();
        assert_eq!((rows[0].len(), snapshot.span_ns), (997, 29_999));
        assert_eq!(rows[0].iter().map(|row| row.packets).sum::<u64>(), 30_000);
        let found = rows[1..].iter().flatten();
        let found = found.map(|row| (row.name.clone(), (row.packets, row.bytes)));
        assert_eq!(found.collect::<std::collections::HashMap<_, _>>(), exact);
        assert!(rows.iter().flatten().all(|row| row.uncertain_bytes == 0));
        let sums = |row: &Row| row.ways[0].bytes + row.ways[1].bytes == row.bytes;
        assert!(rows.iter().flatten().all(sums));
        // The first packet of a flow is as old as its order, and no eviction forgets it.
        let first = rows[0]
            .iter()
            .map(|row| row.history.unwrap().span_ns.unwrap().0);
        assert!(first.max().unwrap() < 997);
    }
}
