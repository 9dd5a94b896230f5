//! A block of a segment, as a search knows it from the index.

use std::sync::Arc;

/// A block of a segment in which packets may match.
#[derive(Clone, Debug)]
pub struct Block {
    pub sensor: Arc<str>,
    pub segment: Arc<str>,
    pub offset: u64,
    pub length: u64,
    /// The earliest and latest time of packets that may match.
    pub span: (i64, i64),
    /// The packets of the rows that may match.
    pub packets: u64,
    /// Whether all packets of these rows match for certain, so that the index alone answers how many there are.
    pub is_certain: bool,
}

impl Block {
    /// Adds other rows of the same block.
    pub fn join(&mut self, other: &Block) {
        self.span = (self.span.0.min(other.span.0), self.span.1.max(other.span.1));
        self.packets += other.packets;
        self.is_certain &= other.is_certain;
    }
}
