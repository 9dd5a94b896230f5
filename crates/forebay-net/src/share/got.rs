//! What a reader of a share got.

/// The result of a read.
pub(super) enum Got {
    /// The packet with this number.
    Packet(u64),
    /// This many packets were overwritten before they were read. More of them may be reported by the next call.
    Overrun(u64),
    /// A packet is there, but there was no room to describe its interface.
    NotDescribed,
    /// Nothing yet; the next call may find something.
    Skipped,
    Nothing,
    Closed,
}
