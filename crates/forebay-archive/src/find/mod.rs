//! Finds packets in an archive: `forebay find`.
//!
//! ```text
//!  expression ─▶ tree ─▶ predicate ── files · row groups · pages · rows that may match ──▶ blocks ─▶ packets ─▶ our BPF ─▶ pcapng, flows, count
//!                         predicate.rs, statistics.rs    plan.rs, row_filter.rs, rows.rs    read.rs                        output.rs, flows.rs
//! ```
//! The index only leaves out what cannot match; the program of the filter decides about each packet. So the result equals a search
//! through all segments.

mod args;
mod block;
mod command;
mod flows;
mod footer;
mod index_file;
#[cfg(test)]
mod ipv6_tests;
#[cfg(test)]
mod oracle_tests;
mod output;
mod part;
mod plan;
mod predicate;
mod read;
mod report;
mod row_filter;
mod rows;
#[cfg(test)]
mod salvage_tests;
mod segments;
mod statistics;
#[cfg(test)]
mod tests;

pub use args::Args;
pub use command::{run, watch_signals};
pub(crate) use index_file::{End, IndexFile};
pub(crate) use segments::{Matching, Wanted, is_known, matching_segments};

use forebay_net::filter::Filter;
use statistics::Bounds;

/// What to find.
#[derive(Clone, Debug)]
struct Request {
    filter: Filter,
    /// Packets from this time on, in nanoseconds since 1970.
    from: i64,
    /// Packets before this time. `i64::MAX`: all later packets; the index has this time for packets after the year 2262.
    to: i64,
    /// Only these sensors; empty: all.
    sensors: Vec<String>,
    answer: Answer,
    limit: Option<u64>,
}

/// What to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Packets,
    Flows,
    Count,
    /// Nothing: only show what would be read.
    Plan,
}

impl Request {
    /// Whether packets are needed in the order of time.
    fn is_ordered(&self) -> bool {
        self.answer == Answer::Packets
    }

    fn is_before_end(&self, time_ns: i64) -> bool {
        time_ns < self.to || self.to == i64::MAX
    }

    fn is_of(&self, sensor: &str) -> bool {
        self.sensors.is_empty() || self.sensors.iter().any(|it| it == sensor)
    }

    fn may_be_in(&self, bounds: &Bounds) -> bool {
        self.sensors.is_empty() || self.sensors.iter().any(|it| bounds.may_be_of(it))
    }
}
