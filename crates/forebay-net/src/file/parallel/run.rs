//! Matching packets of a batch that can be copied together, and how many they may be.

/// Matching packets that are adjacent in `bytes`, encoded as the output would encode them.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchRun {
    /// The index of the first one in `matches`, and their number.
    pub first: u32,
    pub frames: u32,
    /// Their records are `bytes[begin..end]`.
    pub begin: u32,
    pub end: u32,
    pub interface: u32,
    pub longest: u32,
    pub wire_bytes: u64,
    /// Those with fewer bytes than on the wire.
    pub cut: u32,
    /// Time of the first one.
    pub time_ns: u64,
}

/// Limits of a run: it is no larger than a burst, and the store reserves its bytes at once.
pub(super) const MAX_RUN: u32 = 256;
pub(super) const MAX_RUN_BYTES: u32 = 64 << 10;
