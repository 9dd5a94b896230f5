//! A row of the index: what one flow did in one block of a segment.

use super::flow::Flow;

/// One row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    /// Its flow.
    pub flow: Flow,
    /// Where its block is in the segment, as stored: offset and length.
    pub block: (u64, u64),
    /// The earliest time of its packets.
    pub first_ns: u64,
    /// The latest time of its packets.
    pub last_ns: u64,
    /// Packets.
    pub packets: u64,
    /// Their length on the wire.
    pub bytes: u64,
    /// Packets that the source lost directly before packets of this row.
    pub lost_kernel: u64,
    /// Packets that the interface lost; only in a segment's last row.
    pub lost_interface: u64,
    /// All flags of TCP that occur.
    pub tcp_flags: u8,
}
