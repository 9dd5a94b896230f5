//! The flows that were found, as a table or as lines of JSON.

use super::{
    predicate::{Flow, IPV6},
    read::{Packet, Source, flow_of, indexed_time},
    rows::Row,
};
use crate::{archive::printable, index::flow};
use anyhow::Result;
use jiff::{Timestamp, tz::TimeZone};
use serde_json::json;
use std::{
    collections::HashMap,
    io::Write,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

/// The counts of flows.
#[derive(Debug, Default)]
pub struct Flows {
    flows: HashMap<(Arc<str>, Flow), FlowCounts>,
}

#[derive(Clone, Copy, Debug)]
struct FlowCounts {
    span: (i64, i64),
    packets: u64,
    bytes: u64,
}

impl Flows {
    fn add(&mut self, sensor: &Arc<str>, flow: Flow, more: FlowCounts) {
        // Packets of a flow may differ in their extension headers.
        let flow = Flow {
            next_header: None,
            ..flow
        };
        let counts = self.flows.entry((sensor.clone(), flow));
        let counts = counts.or_insert(FlowCounts {
            packets: 0,
            bytes: 0,
            ..more
        });
        counts.span = (
            counts.span.0.min(more.span.0),
            counts.span.1.max(more.span.1),
        );
        counts.packets += more.packets;
        counts.bytes += more.bytes;
    }

    /// Counts a row of the index.
    pub fn row(&mut self, sensor: &Arc<str>, row: &Row) {
        let Row {
            flow,
            span,
            packets,
            bytes,
        } = *row;
        let counts = FlowCounts {
            span,
            packets,
            bytes,
        };
        self.add(sensor, flow, counts);
    }

    /// Counts a packet.
    pub fn packet(&mut self, packet: &Packet, sources: &[Source]) {
        let time = indexed_time(packet.time_ns);
        let counts = FlowCounts {
            span: (time, time),
            packets: 1,
            bytes: packet.wire_len.into(),
        };
        let flow = indexed(&flow_of(packet, sources));
        self.add(&sources[packet.interface].sensor.clone(), flow, counts);
    }

    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Prints up to `limit` flows, those that began first at the top.
    ///
    /// # Errors
    /// Writing failed.
    pub fn print(self, to: &mut impl Write, as_json: bool, limit: Option<u64>) -> Result<()> {
        let mut flows: Vec<_> = self.flows.into_iter().collect();
        flows.sort_by(
            |((sensor, flow), counts), ((other_sensor, other), others)| {
                let key =
                    |flow: &Flow| (flow.addresses, flow.ports, flow.protocol, flow.ether_type);
                (counts.span.0, sensor, key(flow)).cmp(&(others.span.0, other_sensor, key(other)))
            },
        );
        flows.truncate(limit.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX)));
        if !as_json && !flows.is_empty() {
            writeln!(
                to,
                "{:<26} {:>12} {:>9} {:>12}  {:<12} flow",
                "first", "seconds", "packets", "bytes", "sensor"
            )?;
        }
        for ((sensor, flow), counts) in flows {
            let (first, last) = counts.span;
            if as_json {
                let ends: Vec<_> = flow.ends().iter().map(IpAddr::to_string).collect();
                let [a, b] = [0, 1].map(|end| ends.get(end));
                let line = json!({
                    "sensor": &*sensor,
                    "first_ns": first,
                    "last_ns": last,
                    "address_a": a,
                    "port_a": flow.ports.map(|it| it[0]),
                    "address_b": b,
                    "port_b": flow.ports.map(|it| it[1]),
                    "protocol": flow.protocol,
                    "ether_type": flow.ether_type,
                    "vlan": flow.vlan,
                    "packets": counts.packets,
                    "bytes": counts.bytes,
                });
                writeln!(to, "{line}")?;
                continue;
            }
            let seconds = (last - first) as f64 / 1e9;
            let (time, FlowCounts { packets, bytes, .. }) = (shown(first), counts);
            let sensor = printable(&sensor);
            writeln!(
                to,
                "{time:<26} {seconds:>12.6} {packets:>9} {bytes:>12}  {sensor:<12} {}",
                flow.text()
            )?;
        }
        Ok(())
    }
}

/// A time in the local zone.
pub fn shown(time_ns: i64) -> String {
    let time = Timestamp::from_nanosecond(time_ns.into()).unwrap_or_default();
    time.to_zoned(TimeZone::system())
        .strftime("%Y-%m-%d %H:%M:%S.%6f")
        .to_string()
}

/// The flow of a packet as the columns of its row describe it.
pub fn indexed(flow: &flow::Flow) -> Flow {
    Flow {
        tags: Some(flow.tags.into()),
        vlan: flow.vlan(),
        ether_type: flow.ether_type(),
        protocol: flow.protocol(),
        next_header: flow.next_header(),
        addresses: flow.hosts().map(|_| flow.addresses),
        ports: flow.port_pair(),
    }
}

impl Flow {
    fn ends(&self) -> Vec<IpAddr> {
        let shown = |bits: u128| match self.ether_type {
            Some(IPV6) => IpAddr::V6(Ipv6Addr::from_bits(bits)),
            _ => Ipv6Addr::from_bits(bits).to_canonical(),
        };
        self.addresses
            .map_or(Vec::new(), |both| both.map(shown).to_vec())
    }

    fn text(&self) -> String {
        let protocol = match (self.protocol, self.ether_type) {
            (Some(1), _) => "icmp".into(),
            (Some(6), _) => "tcp".into(),
            (Some(17), _) => "udp".into(),
            (Some(58), _) => "icmp6".into(),
            (Some(132), _) => "sctp".into(),
            (Some(number), _) => format!("ip-{number}"),
            (None, Some(0x0806)) => "arp".into(),
            (None, Some(0)) => "802.3".into(),
            (None, Some(kind)) => format!("ether-0x{kind:04x}"),
            (None, None) => "other".into(),
        };
        let ports = self
            .ports
            .filter(|_| !matches!(self.protocol, Some(1 | 58)));
        let ends =
            self.ends()
                .into_iter()
                .enumerate()
                .map(|(end, address)| match (address, ports) {
                    (address, None) => address.to_string(),
                    (IpAddr::V4(address), Some(ports)) => format!("{address}:{}", ports[end]),
                    (IpAddr::V6(address), Some(ports)) => format!("[{address}]:{}", ports[end]),
                });
        let ends: Vec<_> = ends.collect();
        let vlan = self
            .vlan
            .map_or(String::new(), |vlan| format!(" vlan {vlan}"));
        match ends.is_empty() {
            true => format!("{protocol}{vlan}"),
            false => format!("{protocol} {}{vlan}", ends.join(" - ")),
        }
    }
}
