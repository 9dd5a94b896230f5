//! One end of a ring whose other end is the kernel: AF_XDP's four rings, and others with two `u32` positions.
//!
//! The kernel allocates the memory, and the caller maps it. This module handles only the two positions, which are `u32` words. The
//! caller accesses the elements, in exactly the slots that [`End::slot`] returns.
//!
//! ```text
//!             consumer's word            producer's word
//!  │  vacant   │ filled                   │  vacant   │    free-running, masked to index
//! ```
//!
//! As in the other rings of this crate, each side stores its position with Release, and loads the other's position with Acquire. This
//! module checks the other side's position: if it claims more slots than the ring has, the call returns an error ([`Damaged`]), and
//! so do all later calls on this end.

use super::cursor::{Cursor, Edge};
use crate::{error::coded, sync::atomic::AtomicU32};

/// This program's end of the ring: its position, and how far it may certainly go.
///
/// ```
/// use forebay::ring::kernel::End;
/// use std::sync::atomic::AtomicU32;
///
/// // In a program, these two words and the slots are in memory that the kernel has mapped.
/// let (tail, head, mut slots) = (AtomicU32::new(0), AtomicU32::new(0), [0; 4]);
/// let (mut producer, mut consumer) = (End::producer(4), End::consumer(4));
/// assert_eq!(producer.available(&head, 3), Ok(4));
/// for n in 0..3 {
///     slots[producer.slot(n)] = n + 1;
/// }
/// producer.advance(3);
/// producer.publish(&tail);
/// assert_eq!(consumer.available(&tail, 1), Ok(3));
/// assert_eq!(slots[consumer.slot(2)], 3);
/// ```
#[derive(Debug)]
pub struct End {
    cursor: Cursor,
    capacity: usize,
    /// What a limit exceeds the other side's position by: the capacity for a producer.
    ahead: usize,
    edge: Edge,
    is_damaged: bool,
}

/// The other side's position is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The slots that the ring would have to have.
    pub claimed: usize,
    /// The slots that it has.
    pub capacity: usize,
}

coded!([] Damaged, "ring", {
    Damaged { claimed, capacity } => Code::Damaged, "the positions of a ring of {capacity} slots are {claimed} apart";
});

impl End {
    /// The end that fills slots. Both positions of the ring must be 0.
    ///
    /// # Panics
    /// `capacity` is not a power of two, or more than 2³¹.
    pub fn producer(capacity: u32) -> Self {
        End::new(capacity, capacity as usize, Edge::Publish)
    }

    /// The end that empties slots. Both positions of the ring must be 0.
    ///
    /// # Panics
    /// As [`producer`](End::producer).
    pub fn consumer(capacity: u32) -> Self {
        End::new(capacity, 0, Edge::Credit)
    }

    fn new(capacity: u32, ahead: usize, edge: Edge) -> Self {
        assert!(
            capacity.is_power_of_two(),
            "{capacity} slots are not a power of two"
        );
        let capacity = capacity as usize;
        End {
            cursor: Cursor::new(0, ahead),
            capacity,
            ahead,
            edge,
            is_damaged: false,
        }
    }

    /// The number of slots that this end may use now. Loads the other side's position only if fewer than `wanted` are known.
    ///
    /// # Errors
    /// The other side's position is impossible, now or earlier.
    #[inline]
    pub fn available(&mut self, theirs: &AtomicU32, wanted: usize) -> Result<usize, Damaged> {
        let known = self.cursor.cached_available();
        if known >= wanted && !self.is_damaged {
            return Ok(known);
        }
        let claimed = match self.is_damaged {
            true => known,
            false => self.cursor.refresh(theirs, self.ahead), // PUBLISH or CREDIT
        };
        if claimed <= self.capacity {
            return Ok(claimed);
        }
        self.is_damaged = true;
        Err(Damaged {
            claimed,
            capacity: self.capacity,
        })
    }

    /// The number of slots that this end may certainly use, without a look at the other side's position.
    #[inline]
    pub fn cached_available(&self) -> usize {
        match self.is_damaged {
            true => 0,
            false => self.cursor.cached_available(),
        }
    }

    /// The index of the `nth` slot from this end's position, below the capacity.
    #[inline]
    pub fn slot(&self, nth: usize) -> usize {
        self.cursor.position().wrapping_add(nth) & (self.capacity - 1)
    }

    /// Moves on by `n` slots. The other side may use them after the next [`publish`](End::publish).
    ///
    /// # Panics
    /// `n` exceeds what [`available`](End::available) returned.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        assert!(
            n <= self.cursor.cached_available() && !self.is_damaged,
            "advanced over slots of the other side"
        );
        self.cursor.advance(n);
    }

    /// Shows this end's position to the other side, after all that was written to or read from the slots before it.
    #[inline]
    pub fn publish(&self, mine: &AtomicU32) {
        self.cursor.publish(mine, self.edge); // PUBLISH or CREDIT
    }

    /// How far this end has moved since the ring was made; does not wrap.
    pub fn position(&self) -> u64 {
        self.cursor.position() as u64
    }

    /// Slots of the ring.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Arc, atomic::Ordering::Relaxed, model, thread};

    /// Two words and two slots, as the kernel and a program share them.
    struct Shared {
        tail: AtomicU32,
        head: AtomicU32,
        slots: [AtomicU32; 2],
    }

    #[test]
    fn elements_that_the_kernel_passes_arrive_whole_and_in_order() {
        model(|| {
            let word = || AtomicU32::new(0);
            let shared = Arc::new(Shared {
                tail: word(),
                head: word(),
                slots: [word(), word()],
            });
            let kernel = shared.clone();
            let sender = thread::spawn(move || {
                let mut end = End::producer(2);
                for i in 1..=3 {
                    while end.available(&kernel.head, 1).unwrap() == 0 {
                        thread::yield_now();
                    }
                    kernel.slots[end.slot(0)].store(i, Relaxed); // PUBLISH orders it
                    end.advance(1);
                    end.publish(&kernel.tail);
                }
            });
            let mut end = End::consumer(2);
            for i in 1..=3 {
                while end.available(&shared.tail, 1).unwrap() == 0 {
                    thread::yield_now();
                }
                assert_eq!(shared.slots[end.slot(0)].load(Relaxed), i); // PUBLISH orders it
                end.advance(1);
                end.publish(&shared.head);
            }
            sender.join().unwrap();
        });
    }

    #[cfg(loom)]
    #[test]
    fn planted_bugs_are_found() {
        const MODEL: &str = "tests::elements_that_the_kernel_passes_arrive_whole_and_in_order";
        crate::sync::planted_bugs_are_found("ring::kernel", &[("publish-relaxed", MODEL)]);
    }

    #[cfg(not(loom))]
    #[test]
    fn an_impossible_position_is_an_error_for_ever() {
        for theirs in [5, u32::MAX, 1 << 31] {
            let word = AtomicU32::new(theirs);
            let mut end = End::consumer(4);
            let claimed = theirs as usize;
            let damaged = Err(Damaged {
                claimed,
                capacity: 4,
            });
            assert_eq!(end.available(&word, 1), damaged);
            word.store(1, Relaxed);
            assert_eq!(end.available(&word, 1), damaged);
        }
        let mut end = End::producer(4);
        let word = AtomicU32::new(1); // more was taken than was filled
        assert!(end.available(&word, 5).is_err());
        let text = end.available(&word, 0).unwrap_err().to_string();
        assert_eq!(text, "the positions of a ring of 4 slots are 5 apart");
    }

    #[cfg(not(loom))]
    #[test]
    fn a_full_ring_is_not_damaged_and_positions_go_round() {
        let (tail, head) = (AtomicU32::new(0), AtomicU32::new(0));
        let (mut producer, mut consumer) = (End::producer(4), End::consumer(4));
        for round in 0..10 {
            assert_eq!(producer.available(&head, 4), Ok(4));
            assert_eq!(producer.slot(1), (round * 4 + 1) % 4);
            producer.advance(4);
            producer.publish(&tail);
            assert_eq!(producer.available(&head, 1), Ok(0));
            assert_eq!(consumer.available(&tail, 1), Ok(4));
            consumer.advance(4);
            consumer.publish(&head);
        }
        assert_eq!((producer.position(), consumer.capacity()), (40, 4));
    }

    #[cfg(not(loom))]
    #[test]
    #[should_panic(expected = "slots of the other side")]
    fn an_end_does_not_advance_over_slots_that_are_not_available() {
        End::consumer(4).advance(1);
    }
}
