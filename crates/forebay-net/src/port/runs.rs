//! Runs of packets that are encoded already, so that a session copies or lends many at once. Only readers of files and of several
//! threads have them; other ports need nothing of this file.

use forebay::store::Loan;

/// Consecutive frames of a pcapng file, encoded exactly as [`Format::put_frame`](crate::format::Format::put_frame) would encode
/// them for an interface with the same number and resolution. Code that would write the same can copy the whole run.
#[derive(Clone, Copy, Debug)]
pub struct EncodedRun<'a> {
    /// Complete enhanced packet blocks.
    pub bytes: &'a [u8],
    /// The number of frames, at least 1.
    pub frames: usize,
    /// Index into [`Port::interfaces`](super::Port::interfaces), the same for all frames.
    pub interface: u32,
    /// Time of the first frame in nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// Total length on the wire, in bytes.
    pub wire_bytes: u64,
    /// The number of frames with fewer bytes than they had on the wire.
    pub cut: u64,
    /// The largest number of bytes kept of a frame.
    pub longest: u32,
}

/// How the bytes of an [`EncodedRun`] are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// The caller copies them before it takes the run.
    Copy,
    /// The caller receives the memory itself. Ports offer this only for runs that are large enough.
    Lend,
}

/// Frames that may begin with a run ([`Frames::encoded_runs`](super::Frames::encoded_runs)). Frames of a run that is not taken are handed out one by one.
pub trait EncodedRuns {
    /// Returns the next frames, up to `max_frames`, if they are a run that can be handed over in this way. Does not hand them out. A
    /// run to be lent is taken as a whole, so it may exceed the budget.
    fn next_run(&self, max_frames: usize, handover: Handover) -> Option<EncodedRun<'_>>;

    /// Hands out the run that [`next_run`](EncodedRuns::next_run) has just returned for the same `handover`. With
    /// [`Handover::Lend`] it returns the run's memory, which returns to the port when the loan is dropped; otherwise `None`.
    fn take_run(&mut self, handover: Handover) -> Option<Loan>;
}
