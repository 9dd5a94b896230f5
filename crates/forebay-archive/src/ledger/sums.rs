//! What is left of a day.

use super::page::{Entry, SCHEMA};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The sums of segments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Segments.
    pub segments: u64,
    /// Their packets.
    pub packets: u64,
    /// Packets that the captures counted.
    pub captured: u64,
    /// Packets that the kernel lost before. `None`: unknown.
    pub lost_kernel: Option<u64>,
    /// Packets that the interface lost before. `None`: unknown.
    pub lost_interface: Option<u64>,
}

impl Sum {
    pub(super) fn of<'e>(entries: impl Iterator<Item = &'e Entry>) -> Sum {
        let mut sum = Sum {
            lost_kernel: Some(0),
            lost_interface: Some(0),
            ..Sum::default()
        };
        let lose = |sum: &mut Option<u64>, lost: Option<u64>| {
            *sum = sum.zip(lost).map(|(sum, lost)| sum.saturating_add(lost));
        };
        for it in entries {
            sum.segments += 1;
            sum.packets = sum.packets.saturating_add(it.packets);
            let captured = it.captured.unwrap_or(it.packets);
            sum.captured = sum.captured.saturating_add(captured);
            lose(&mut sum.lost_kernel, it.lost_kernel);
            lose(&mut sum.lost_interface, it.lost_interface);
        }
        sum
    }
}

/// What is left of a day of a sensor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    pub(super) schema: u64,
    /// Segments that have expired.
    pub expired: Sum,
    /// Segments that have vanished, and whose loss was accepted.
    pub vanished: Sum,
    /// The pages that are in these sums.
    pub(super) pages: BTreeSet<String>,
}

impl Sums {
    /// `None`: it is damaged, or of a newer version.
    pub(super) fn parse(bytes: &[u8]) -> Option<Sums> {
        let sums: Sums = serde_json::from_slice(bytes).ok()?;
        (sums.schema == SCHEMA).then_some(sums)
    }
}
