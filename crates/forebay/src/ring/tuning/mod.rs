//! Two strategies that raise the throughput of [`spsc`](super::spsc), and without which it works as well.
//!
//! An end that knows of too few slots refreshes its [`Cursor`]. It does so through this module, which adds:
//!
//! - a pause before the refresh, if pauses have proved to help (`backoff`). The ends of a ring of bytes do not pause, since bytes
//!   arrive in long runs.
//! - after it, the eviction of cache lines that the consumer has read, if that has proved to help (`line_flush`).
//!
//! To understand the ring, read each function here as `cursor.refresh(theirs, ahead)`.

mod backoff;
mod line_flush;

pub(super) use backoff::{Backoff, NextPause};
pub(super) use line_flush::LineFlush;

use super::{
    cursor::{Cursor, Position},
    slots::Place,
};

/// What a consumer has learned from its refreshes; a producer has a [`Backoff`] alone.
#[derive(Debug)]
pub(super) struct ConsumerTuning {
    backoff: Backoff,
    line_flush: LineFlush,
}

/// The initial state for a ring of `capacity` elements `T`: of each end, and what the producer and the consumer have learned. With
/// `never`, there are no pauses and no eviction.
pub(super) fn start<T>(capacity: usize, never: bool) -> (NextPause, Backoff, ConsumerTuning) {
    let (backoff, pause) = Backoff::new(capacity, never);
    let consumer = ConsumerTuning {
        backoff: backoff.clone(),
        line_flush: LineFlush::new(capacity, size_of::<T>(), never),
    };
    (pause, backoff, consumer)
}

const fn pauses<T>() -> bool {
    size_of::<T>() > 1
}

/// Refreshes the producer's `cursor` for a ring of `T`; returns the number of slots known to be vacant.
#[inline(always)]
pub(super) fn refresh_producer<T>(
    cursor: &mut Cursor,
    theirs: &impl Position,
    capacity: usize,
    pause: &mut NextPause,
    backoff: &mut Backoff,
) -> usize {
    if !pauses::<T>() {
        return cursor.refresh(theirs, capacity);
    }
    pause.pause();
    let before = cursor.limit();
    let known = cursor.refresh(theirs, capacity);
    let newly = cursor.limit().wrapping_sub(before);
    pause.record(newly, || (), || backoff.adapt(newly));
    known
}

/// Refreshes the consumer's `cursor`, whose `place` is in the first view; returns the number of elements known to be there.
#[inline(always)]
pub(super) fn refresh_consumer<T>(
    cursor: &mut Cursor,
    theirs: &impl Position,
    place: &Place<T>,
    pause: &mut NextPause,
    tuning: &mut ConsumerTuning,
) -> usize {
    if !pauses::<T>() {
        return refresh_consumer_at_once(cursor, theirs, place, tuning);
    }
    pause.pause();
    let before = cursor.limit();
    let known = cursor.refresh(theirs, 0);
    let received = cursor.limit();
    let newly = received.wrapping_sub(before);
    let ConsumerTuning {
        backoff,
        line_flush,
    } = tuning;
    pause.record(
        newly,
        || evict_if_due(line_flush, received, place),
        || backoff.adapt(newly),
    );
    known
}

/// Like [`refresh_consumer`], without a pause and its bookkeeping.
#[inline(always)]
pub(super) fn refresh_consumer_at_once<T>(
    cursor: &mut Cursor,
    theirs: &impl Position,
    place: &Place<T>,
    tuning: &mut ConsumerTuning,
) -> usize {
    let known = cursor.refresh(theirs, 0);
    evict_if_due(&mut tuning.line_flush, cursor.limit(), place);
    known
}

#[inline(always)]
fn evict_if_due<T>(line_flush: &mut LineFlush, received: usize, place: &Place<T>) {
    if line_flush.is_due(received) {
        line_flush.step(received, place.address());
    }
}
