//! Counts of a ring, kept where an end has to do something rare anyway.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed}; // std's: counts are not part of the models

/// What has happened in a ring or a stream since it was made. Either end can report it.
///
/// | Field | When it is counted |
/// |---|---|
/// | `pushed`, `popped` | when elements are published, and when their slots are returned: the ends' positions are these numbers |
/// | `max_len` | when the consumer loads the producer's position: it does when it knows of fewer elements than it was asked for; and now |
/// | `times_full` | when the producer loads the consumer's position and finds no vacant slot, or begins to wait for slots |
/// | `times_empty` | when the consumer loads the producer's position and finds no element, or begins to wait for elements |
///
/// A wait that is only armed (`arm` of a stream, for `poll(2)`) is not counted.
///
/// An end that tries again before it has pushed or popped anything is counted once. So in a ring that is polled, `times_full` and
/// `times_empty` do not depend on how fast it is polled.
///
/// ```
/// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
/// assert_eq!(producer.push_slice(&[1, 2, 3, 4, 5, 6]), 4);
/// assert!(producer.try_push(5).is_err() && producer.try_push(5).is_err()); // full, for once
/// assert_eq!(consumer.try_iter().count(), 4); // until it is empty
/// let stats = producer.stats();
/// assert_eq!((stats.pushed, stats.popped, stats.max_len), (4, 4, 4));
/// assert_eq!((stats.times_full, stats.times_empty), (1, 1));
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingStats {
    /// Elements put in; for a stream, bytes.
    pub pushed: u64,
    /// Elements taken out; for a stream, bytes.
    pub popped: u64,
    /// High-water mark: the most elements that were seen in the ring at once, 0 to the capacity.
    pub max_len: usize,
    /// How often the producer was held up by a full ring.
    pub times_full: u64,
    /// How often the consumer ran out of elements.
    pub times_empty: u64,
}

/// Counts of one end. Only that end writes them; both ends read them. Relaxed: they order nothing.
#[derive(Debug, Default)]
pub(super) struct Counts {
    stops: AtomicU64,
    /// The position of the last stop, plus 1.
    stopped_at: AtomicUsize,
    max_len: AtomicUsize,
}

impl Counts {
    /// Records that the end could not continue at `position`: once for each position.
    #[cold]
    pub(super) fn record_stop(&self, position: usize) {
        let position = position.wrapping_add(1);
        if self.stopped_at.load(Relaxed) != position {
            self.stopped_at.store(position, Relaxed);
            self.stops.store(self.stops() + 1, Relaxed);
        }
    }

    #[cold]
    pub(super) fn record_len(&self, len: usize) {
        self.max_len.store(len, Relaxed);
    }

    #[inline(always)]
    pub(super) fn max_len(&self) -> usize {
        self.max_len.load(Relaxed)
    }

    pub(super) fn stops(&self) -> u64 {
        self.stops.load(Relaxed)
    }
}
