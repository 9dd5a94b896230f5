//! Counts packets by flow, host, port and protocol.
//!
//! Each packet is counted in a table of recent flows, which adds up the packets of a flow without hashing its parts again. What
//! leaves that table, and all of it before a snapshot, goes to a sketch for each kind of key. Nothing is sampled.

use super::sketch::{Sketch, Slot};
use crate::flow::{Flow, Packet, Protocol};
use forebay_net::port::LinkType;
use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
};

/// Recent flows. A power of two.
const RECENT: usize = 4096;
/// Keys tracked of each kind.
const TRACKED: usize = 1024;

#[derive(Clone, Copy, Default)]
struct Recent {
    flow: Flow,
    packets: u64,
    bytes: u64,
}

pub struct Tables {
    seed: u64,
    recent: Vec<Recent>,
    flows: Sketch<Flow>,
    hosts: Sketch<IpAddr>,
    ports: Sketch<(u16, Protocol)>,
    protocols: Sketch<Protocol>,
    /// The times of the earliest and the latest packet.
    span_ns: Option<(u64, u64)>,
}

/// A key with its counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    pub name: String,
    /// Counts that certainly belong to the key.
    pub packets: u64,
    pub bytes: u64,
    /// Bytes more that may belong to it, from before it was tracked.
    pub uncertain_bytes: u64,
    pub bits_per_second: f64,
    /// The rate by which rows are sorted.
    pub rank: f64,
}

impl Row {
    /// Sets the rate. The last rank stays until the rate differs from it by a tenth, so that rows with nearly the same rate keep their
    /// places.
    pub fn set_rate(&mut self, rate: f64, last_rank: f64) {
        self.bits_per_second = rate;
        let is_near = (rate - last_rank).abs() <= last_rank * 0.1;
        self.rank = if is_near { last_rank } else { rate };
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
}

/// The rows of each kind, in the order of [`Kind::ALL`].
pub type Rows = [Vec<Row>; 4];

impl Tables {
    pub fn new() -> Self {
        Tables {
            // So that nobody can make all packets share one place.
            seed: RandomState::new().hash_one(0),
            recent: vec![Recent::default(); RECENT],
            flows: Sketch::new(TRACKED),
            hosts: Sketch::new(TRACKED),
            ports: Sketch::new(TRACKED),
            protocols: Sketch::new(TRACKED),
            span_ns: None,
        }
    }

    #[inline]
    pub fn count(&mut self, link: LinkType, data: &[u8], wire_len: u32, time_ns: u64) {
        let (first, last) = self.span_ns.unwrap_or((time_ns, time_ns));
        self.span_ns = Some((first.min(time_ns), last.max(time_ns)));
        let flow = Packet::of(link, data).flow;
        let at = (flow.mixed(self.seed) >> 32) as usize % RECENT;
        let recent = &mut self.recent[at];
        if recent.flow == flow {
            recent.packets += 1;
            recent.bytes += u64::from(wire_len);
            return;
        }
        let new = Recent {
            flow,
            packets: 1,
            bytes: wire_len.into(),
        };
        let old = std::mem::replace(recent, new);
        self.add(old);
    }

    #[inline(never)]
    fn add(&mut self, recent: Recent) {
        let Recent {
            flow,
            packets,
            bytes,
        } = recent;
        if packets == 0 {
            return;
        }
        self.flows.add(flow, packets, bytes);
        self.protocols.add(flow.protocol, packets, bytes);
        if let Some([one, two]) = flow.hosts() {
            self.hosts.add(one, packets, bytes);
            if two != one {
                self.hosts.add(two, packets, bytes);
            }
        }
        if let Some(service) = flow.service() {
            self.ports.add(service, packets, bytes);
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
        }
    }
}

/// What the capturing thread hands to the one that draws.
#[derive(Clone, Default)]
pub struct Snapshot {
    flows: Vec<Slot<Flow>>,
    hosts: Vec<Slot<IpAddr>>,
    ports: Vec<Slot<(u16, Protocol)>>,
    protocols: Vec<Slot<Protocol>>,
    /// The time between the earliest and the latest packet.
    pub span_ns: u64,
}

impl Snapshot {
    pub fn rows(&self) -> Rows {
        [
            rows(&self.flows, |flow| match flow.hosts() {
                Some(_) => format!("{:4} {flow}", flow.protocol.to_string()),
                None => flow.to_string(),
            }),
            rows(&self.hosts, IpAddr::to_string),
            rows(&self.ports, |(port, protocol)| format!("{port}/{protocol}")),
            rows(&self.protocols, Protocol::to_string),
        ]
    }
}

fn rows<K>(slots: &[Slot<K>], name: impl Fn(&K) -> String) -> Vec<Row> {
    let row = |slot: &Slot<K>| Row {
        name: name(&slot.key),
        packets: slot.packets,
        bytes: slot.certain_bytes(),
        uncertain_bytes: slot.error,
        bits_per_second: 0.0,
        rank: 0.0,
    };
    slots.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    #[test]
    fn every_packet_is_counted_once_in_each_table() {
        let mut tables = Tables::new();
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
            tables.count(LinkType::ETHERNET, &bytes, len, u64::from(number));
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
    }
}
