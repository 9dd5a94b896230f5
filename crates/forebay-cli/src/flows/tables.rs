//! The tables: columns with names for programs, in the order of bytes.

use super::tally::{Count, LENGTHS, Tally};
use crate::{args::Table as Kind, flow::tcp::letters};
use forebay_net::filter::service_name;
use serde_json::{Value, json};
use std::{cmp::Reverse, collections::HashMap, time::Duration};

/// A table, with a key for each column.
pub struct Table {
    pub columns: &'static [&'static str],
    pub rows: Vec<Vec<Value>>,
    /// The number of rows without a limit.
    pub total: usize,
}

pub const ALL: [Kind; 6] = [
    Kind::Conversations,
    Kind::Endpoints,
    Kind::Protocols,
    Kind::Services,
    Kind::Lengths,
    Kind::Intervals,
];

/// The word that names a table on the command line and in JSON.
pub fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Conversations => "conversations",
        Kind::Endpoints => "endpoints",
        Kind::Protocols => "protocols",
        Kind::Services => "services",
        Kind::Lengths => "lengths",
        Kind::Intervals => "intervals",
    }
}

/// The first `max_rows` of a table. `max_intervals`: join intervals until there are no more.
pub fn table(kind: Kind, tally: &Tally, max_intervals: Option<usize>, max_rows: usize) -> Table {
    match kind {
        Kind::Conversations => conversations(tally, max_rows),
        Kind::Endpoints => {
            let sums = tally.endpoints.iter();
            let mut sums: Vec<_> = sums.map(|it| (it, it.1.sent.plus(it.1.received))).collect();
            sums.sort_by_key(|((host, _), sum)| (Reverse(sum.bytes), **host));
            let total = sums.len();
            let rows = sums.into_iter().take(max_rows).map(|((host, it), sum)| {
                let counts = [sum, it.sent, it.received];
                row([json!(host.to_string())], counts)
            });
            Table {
                columns: &[
                    "address",
                    "packets",
                    "bytes",
                    "packets_sent",
                    "bytes_sent",
                    "packets_received",
                    "bytes_received",
                ],
                rows: rows.collect(),
                total,
            }
        }
        Kind::Protocols => {
            let named = |(protocol, count): (&_, &Count)| (format!("{protocol}"), *count);
            let rows = sorted(tally.protocols.iter().map(named));
            Table {
                columns: &["protocol", "packets", "bytes"],
                rows: rows
                    .take(max_rows)
                    .map(|(name, count)| row([name.into()], [count]))
                    .collect(),
                total: tally.protocols.len(),
            }
        }
        Kind::Services => {
            let rows = sorted(
                tally
                    .services
                    .iter()
                    .map(|(service, count)| (*service, *count)),
            );
            let rows = rows.take(max_rows).map(|((port, protocol), count)| {
                let name = match protocol {
                    crate::flow::Protocol::Ip(number) => service_name(port, number),
                    _ => None,
                };
                row(
                    [port.into(), protocol.to_string().into(), name.into()],
                    [count],
                )
            });
            Table {
                columns: &["port", "protocol", "name", "packets", "bytes"],
                rows: rows.collect(),
                total: tally.services.len(),
            }
        }
        Kind::Lengths => {
            let rows = tally.lengths.iter().enumerate().take(max_rows);
            let rows = rows.map(|(at, count)| {
                let max = LENGTHS.get(at + 1).map(|next| next - 1);
                row([LENGTHS[at].into(), max.into()], [*count])
            });
            Table {
                columns: &["min_length", "max_length", "packets", "bytes"],
                rows: rows.collect(),
                total: tally.lengths.len(),
            }
        }
        Kind::Intervals => {
            let (length, all) = match max_intervals {
                Some(max) => tally.intervals(max),
                None => tally.all_intervals(),
            };
            let total = all.len();
            let rows = all.into_iter().take(max_rows).map(|(second, count)| {
                let rate = |count: u64| json!(count as f64 / length as f64);
                let mut row = row([time(second * 1_000_000_000), length.into()], [count]);
                row.extend([rate(count.packets), rate(count.bytes * 8)]);
                row
            });
            Table {
                columns: &[
                    "start",
                    "seconds",
                    "packets",
                    "bytes",
                    "packets_per_second",
                    "bits_per_second",
                ],
                rows: rows.collect(),
                total,
            }
        }
    }
}

fn conversations(tally: &Tally, max_rows: usize) -> Table {
    let mut all: Vec<_> = tally.conversations.iter().collect();
    let total = all.len();
    all.sort_by_cached_key(|(flow, it)| (Reverse(it.total().bytes), it.first_ns, flow.to_string()));
    let rows = all.into_iter().take(max_rows).map(|(flow, it)| {
        let host = |at: usize| flow.hosts().map(|hosts| hosts[at].to_string());
        let port = |at: usize| Some(flow.ports[at]).filter(|&port| port > 0);
        let head = [
            flow.protocol.to_string().into(),
            host(0).into(),
            port(0).into(),
            host(1).into(),
            port(1).into(),
        ];
        let mut row = row(head, [it.total(), it.sent[0], it.sent[1]]);
        let seconds = (it.last_ns - it.first_ns) as f64 / 1e9;
        let tcp = it.connection.as_deref();
        let sum = |counts: [u64; 2]| counts.iter().sum::<u64>();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        row.extend([
            time(it.first_ns),
            json!(seconds),
            tcp.map(|tcp| sum(tcp.retransmissions())).into(),
            tcp.map(|tcp| sum(tcp.reordered())).into(),
            tcp.and_then(|tcp| tcp.round_trip()).map(ms).into(),
            tcp.map(|tcp| tcp.flags().map(letters).join("/")).into(),
        ]);
        row
    });
    Table {
        columns: &[
            "protocol",
            "a",
            "a_port",
            "b",
            "b_port",
            "packets",
            "bytes",
            "packets_from_a",
            "bytes_from_a",
            "packets_from_b",
            "bytes_from_b",
            "start",
            "seconds",
            "retransmissions",
            "reordered",
            "round_trip_ms",
            "tcp_flags",
        ],
        rows: rows.collect(),
        total,
    }
}

/// The entries with the most bytes first, and equal ones in the order of their names.
fn sorted<K: Ord>(all: impl Iterator<Item = (K, Count)>) -> impl Iterator<Item = (K, Count)> {
    let mut all: Vec<_> = all.collect();
    all.sort_by(|(one, its), (other, others)| others.bytes.cmp(&its.bytes).then(one.cmp(other)));
    all.into_iter()
}

fn row<const N: usize, const M: usize>(head: [Value; N], counts: [Count; M]) -> Vec<Value> {
    let counts = counts.into_iter().flat_map(|it| [it.packets, it.bytes]);
    head.into_iter().chain(counts.map(Value::from)).collect()
}

/// Date and time in UTC.
fn time(ns: u64) -> Value {
    let time = jiff::Timestamp::from_nanosecond(ns.into()).ok();
    time.map(|time| time.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string())
        .into()
}

/// Whether not everything is in a table, and what is not.
pub fn untracked(tally: &Tally) -> HashMap<&'static str, u64> {
    let [conversations, endpoints] = tally.untracked.map(|it| it.packets);
    [("conversations", conversations), ("endpoints", endpoints)].into()
}
