//! `expire`: removes old segments and their rows, except those that a rule or a hold keeps.
//!
//! ```text
//!  segments ─▶ check the right to delete ─▶ by age: rules ─▶ by size ─▶ holds again ─▶ record what is removed ─▶ remove the rows ─▶ delete
//!                └ the time of the store        └ index ┘      └─ holds ─┘
//! ```
//! A segment goes as a whole, so it goes when no rule and no hold keeps any of its packets. The index answers whether a segment has packets
//! that match: no, certainly, or maybe, and maybe keeps it. If the index does not have all packets of a segment, each expression may match.
//!
//! Rows go before their segment, so no row ever leads to a segment that is gone. The packets of a segment count as expired from its record
//! on. An `expire` that was killed, or whose deletions the store refused, is completed by the next one, or taken back by [`undelete`]. Rows
//! that another program adds after their removal are removed by that program (`table/`). A segment without rows that is
//! younger than an hour is being shipped, and stays. Ages are by the clock of the store, or by that of this machine if that makes them less.

mod clock;
#[cfg(test)]
mod clock_tests;
mod index;
mod listed;
mod remove;
mod rule;
mod run;

pub use remove::{Undeleted, undelete};
pub use rule::{Rule, parse_age};
pub use run::expire;

use std::time::Duration;

/// Which segments are removed. A segment is removed if one of the limits asks for it, and no hold holds it.
#[derive(Clone, Debug, Default)]
pub struct ExpireConfig {
    /// How long packets are kept that no rule matches. `None`: for ever.
    pub older_than: Option<Duration>,
    /// How long matching packets are kept. The first rule that matches a packet decides.
    pub keep: Vec<Rule>,
    /// The oldest segments, whatever the rules are, until the rest has at most this many bytes. Segments that cannot be read, or that are
    /// being shipped, do not count.
    pub max_bytes: Option<u64>,
    /// Only count.
    pub dry_run: bool,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Segments.
    pub segments: u64,
    /// Their packets.
    pub packets: u64,
    /// Their bytes, as stored.
    pub bytes: u64,
    /// Of these, segments that have expired and that the store did not delete. The next `expire` tries again.
    pub not_deleted: u64,
    /// Their bytes.
    pub not_deleted_bytes: u64,
    /// Segments that a hold kept.
    pub held: u64,
    /// Their bytes.
    pub held_bytes: u64,
    /// Bytes that are left above the limit, because of holds.
    pub over_bytes: u64,
}

/// What happens to a segment, for the user.
#[derive(Debug)]
pub enum Verdict<'a> {
    /// A segment is removed, and why. Its key and its bytes.
    Goes(&'a str, u64, &'a str),
    /// A segment that a limit asks for stays, and why.
    Stays(&'a str, u64, &'a str),
    /// A segment that cannot be read stays, or one that has expired could not be deleted.
    Failed(anyhow::Error),
}
