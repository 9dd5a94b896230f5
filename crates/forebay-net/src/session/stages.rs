//! What a packet passes on its way from a burst to the output, besides being encoded: a short list of stages.
//!
//! ```text
//!  frame ─▶ admit: filter, limit of the file ─▶ a place in the output ─▶ accept: the caller's closure ─▶ kept ─▶ taken: share, counts
//! ```
//! A list is a stage, or a pair of lists. `()` is the empty list, and `None` a stage that is left out.

use super::{feed::Lane, output::Writing};
use crate::{
    port::{Frame, Interface, Port},
    share::Publisher,
};

/// The decision about a packet, before it is encoded.
pub(super) enum Verdict {
    Take,
    /// It counts as filtered.
    Reject,
    /// The file is full: the packet stays in the source.
    FileFull,
    /// Packets of other ports come first: the packet stays in the source.
    Later,
}

/// A stage. A packet passes the three calls in this order; one that is not admitted or accepted does not reach the next call.
pub(super) trait Stage {
    /// There is no stage at all.
    const IS_EMPTY: bool = false;

    /// Decides about a packet before it is encoded.
    #[inline(always)]
    fn admit(&mut self, _: &mut Frame<'_>, _: &Lane, _: Option<&Writing>) -> Verdict {
        Verdict::Take
    }

    /// Whether to keep a packet that has its place in the output, and is not committed yet. If not, it stays in the source.
    #[inline(always)]
    fn accept(&mut self, _: &Frame<'_>) -> bool {
        true
    }

    /// A packet is in the output.
    #[inline(always)]
    fn taken(&mut self, _: &Frame<'_>, _: &Lane, _: Option<&mut Writing>) {}
}

impl Stage for () {
    const IS_EMPTY: bool = true;
}

impl<S: Stage> Stage for Option<S> {
    #[inline(always)]
    fn admit(&mut self, frame: &mut Frame<'_>, lane: &Lane, writing: Option<&Writing>) -> Verdict {
        match self {
            Some(stage) => stage.admit(frame, lane, writing),
            None => Verdict::Take,
        }
    }

    #[inline(always)]
    fn accept(&mut self, frame: &Frame<'_>) -> bool {
        self.as_mut().is_none_or(|stage| stage.accept(frame))
    }

    #[inline(always)]
    fn taken(&mut self, frame: &Frame<'_>, lane: &Lane, writing: Option<&mut Writing>) {
        if let Some(stage) = self {
            stage.taken(frame, lane, writing);
        }
    }
}

impl<A: Stage, B: Stage> Stage for (A, B) {
    #[inline(always)]
    fn admit(&mut self, frame: &mut Frame<'_>, lane: &Lane, writing: Option<&Writing>) -> Verdict {
        match self.0.admit(frame, lane, writing) {
            Verdict::Take => self.1.admit(frame, lane, writing),
            other => other,
        }
    }

    #[inline(always)]
    fn accept(&mut self, frame: &Frame<'_>) -> bool {
        self.0.accept(frame) && self.1.accept(frame)
    }

    #[inline(always)]
    fn taken(&mut self, frame: &Frame<'_>, lane: &Lane, mut writing: Option<&mut Writing>) {
        self.0.taken(frame, lane, writing.as_deref_mut());
        self.1.taken(frame, lane, writing);
    }
}

/// The filter, if the session filters.
pub(super) struct ByFilter;

impl Stage for ByFilter {
    #[inline(always)]
    fn admit(&mut self, frame: &mut Frame<'_>, lane: &Lane, _: Option<&Writing>) -> Verdict {
        match lane.passes(frame) {
            true => Verdict::Take,
            false => Verdict::Reject,
        }
    }
}

/// The limits of a file.
pub(super) struct FileLimits;

impl Stage for FileLimits {
    #[inline(always)]
    fn admit(&mut self, _: &mut Frame<'_>, _: &Lane, writing: Option<&Writing>) -> Verdict {
        match writing.is_some_and(Writing::is_full) {
            true => Verdict::FileFull,
            false => Verdict::Take,
        }
    }

    #[inline(always)]
    fn taken(&mut self, _: &Frame<'_>, _: &Lane, writing: Option<&mut Writing>) {
        if let Some(writing) = writing {
            writing.count_in_file();
        }
    }
}

/// Sees every packet before it counts as taken.
pub(crate) trait Each: Send {
    /// Returns whether it took the packet.
    fn take(&mut self, frame: &Frame<'_>, interface: &Interface) -> bool;

    /// Called before each poll of the sources.
    fn looking(&mut self) {}

    /// Called when a poll of the only source has found no packet, with the number of packets taken from it and rejected so far.
    fn found_nothing(&mut self, port: &mut dyn Port, seen: u64) {
        let _ = (port, seen);
    }
}

impl<F: FnMut(&Frame<'_>, &Interface) -> bool + Send> Each for F {
    fn take(&mut self, frame: &Frame<'_>, interface: &Interface) -> bool {
        self(frame, interface)
    }
}

/// The closure that receives every packet, and what it needs to know about the packets of one burst.
pub(super) struct Offer<'a> {
    pub each: &'a mut Box<dyn Each>,
    pub interfaces: &'a [Interface],
    pub snaplen: u32,
}

impl Stage for Offer<'_> {
    /// Shows the closure a packet as it would be written. Returns whether the closure took it.
    #[inline(never)]
    fn accept(&mut self, frame: &Frame<'_>) -> bool {
        let kept = frame.data.len().min(self.snaplen as usize);
        let shown = Frame {
            data: &frame.data[..kept],
            ..*frame
        };
        let interface = self.interfaces.get(frame.interface as usize);
        interface.is_none_or(|interface| self.each.take(&shown, interface))
    }
}

/// A publisher that copies packets.
impl Stage for &mut Publisher {
    #[inline(always)]
    fn taken(&mut self, frame: &Frame<'_>, lane: &Lane, _: Option<&mut Writing>) {
        self.append(lane.shared, frame);
    }
}
