//! One end of a ring whose other end is the kernel: AF_XDP's four rings, whose positions are `u32` words, and the ring buffer of BPF
//! programs, whose positions count bytes in `usize` words.
//!
//! The kernel allocates the memory, and the caller maps it. This module handles only the two positions, and what a record in a ring
//! buffer begins with. The caller accesses the elements, in exactly the slots that [`End::slot`] returns.
//!
//! ```text
//!             consumer's word            producer's word
//!  │  vacant   │ filled                   │  vacant   │    free-running, masked to index
//! ```
//!
//! As in the other rings of this crate, each side stores its position with Release, and loads the other's position with Acquire. This
//! module checks the other side's position: if it claims more slots than the ring has, the call returns an error ([`Damaged`]), and
//! so do all later calls on this end.
//!
//! # Ring buffers of BPF programs
//!
//! The kernel's position and the records are in memory that this process can only read. Loads there are Relaxed, followed by a fence: the
//! standard library allows no others for atomics in read-only memory.
//!
//! ```text
//!   kernel:  reserve: header ◀ BUSY, length ─▶ producer's word ─▶ fill in ─▶ asleep? ─▶ header ◀ length ─▶ wake
//!   we:      producer's word ─▶ header: BUSY? ─▶ read ─▶ consumer's word              asleep ◀ 1 ─▶ producer's word ─▶ sleep
//! ```
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | COMMIT | the kernel exchanges the header | [`committed`] loads it, and fences | the bytes of the record |
//! | WAKE | [`before_sleep`] stores `asleep`, and fences | the program exchanges `asleep`, which is a full barrier | one side sees the other: the program wakes us, or we see that there is a record |

use super::cursor::{Cursor, Edge, OwnPosition, Position};
use crate::{
    error::coded,
    sync::{
        atomic::{
            AtomicU32, AtomicUsize,
            Ordering::{Acquire, Relaxed, SeqCst},
            fence,
        },
        planted,
    },
};

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
    pub fn available(&mut self, theirs: &impl Position, wanted: usize) -> Result<usize, Damaged> {
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
    pub fn publish(&self, mine: &impl OwnPosition) {
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

/// The position of the other side, in memory that this process can only read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOnly<'a>(pub &'a AtomicUsize);

impl Position for ReadOnly<'_> {
    #[inline]
    fn since(&self, known: usize) -> usize {
        let position = self.0.load(Relaxed); // PUBLISH, with the fence
        if !planted("position-without-fence") {
            fence(Acquire); // PUBLISH
        }
        position.wrapping_sub(known)
    }
}

/// Bytes before each record of a ring buffer: its length with two flags, and a word for the kernel (`struct bpf_ringbuf_hdr`).
pub const RECORD_HEADER_BYTES: usize = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// A record of a ring buffer that the program has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Bytes after its header.
    pub len: usize,
    /// The program has given it up, and its bytes mean nothing.
    pub is_discarded: bool,
}

impl Record {
    /// The bytes from its beginning to that of the next record.
    pub fn span(self) -> usize {
        (RECORD_HEADER_BYTES + self.len).next_multiple_of(8)
    }
}

/// The record with this header, which must be before the producer's position. `None`: a program is still filling it in.
#[inline]
pub fn committed(header: &AtomicU32) -> Option<Record> {
    let word = header.load(Relaxed); // COMMIT, with the fence
    if !planted("commit-relaxed") {
        fence(Acquire); // COMMIT
    }
    (word & BUSY == 0).then_some(Record {
        len: (word & !DISCARDED) as usize,
        is_discarded: word & DISCARDED != 0,
    })
}

/// Asks the program to wake this thread after its next record. Call it before the last look at the producer's position, and sleep only if
/// that shows no record, also none that is still being filled in.
#[inline]
pub fn before_sleep(asleep: &AtomicU32) {
    asleep.store(1, Relaxed); // WAKE
    if !planted("sleep-without-fence") {
        fence(SeqCst); // WAKE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Arc, atomic::Ordering::Release, model, thread};

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

    /// The words of a ring buffer, and the only byte of its only record.
    struct Buffer {
        producer: AtomicUsize,
        header: AtomicU32,
        byte: AtomicU32,
        asleep: AtomicU32,
        woken: AtomicU32,
    }

    #[test]
    fn a_record_is_read_when_it_is_whole_and_wakes_the_reader_that_sleeps() {
        model(|| {
            let word = || AtomicU32::new(0);
            let shared = Arc::new(Buffer {
                producer: AtomicUsize::new(0),
                header: word(),
                byte: word(),
                asleep: word(),
                woken: word(),
            });
            let kernel = shared.clone();
            let program = thread::spawn(move || {
                kernel.header.store(BUSY | 1, Relaxed); // the producer's position orders it
                kernel.producer.store(16, Release);
                kernel.byte.store(7, Relaxed); // COMMIT orders it
                fence(SeqCst); // an exchange in the kernel is a full barrier
                let sleeps = kernel.asleep.swap(0, SeqCst) == 1; // WAKE
                kernel.header.store(1, Release); // COMMIT
                kernel.woken.store(u32::from(sleeps), Relaxed); // read after the join
            });
            let mut end = End::consumer(64);
            before_sleep(&shared.asleep);
            let sees_record = end.available(&ReadOnly(&shared.producer), 1).unwrap() > 0;
            if sees_record && let Some(record) = committed(&shared.header) {
                assert_eq!((record.len, record.span()), (1, 16));
                assert_eq!(shared.byte.load(Relaxed), 7); // COMMIT orders it
            }
            program.join().unwrap();
            let is_woken = shared.woken.load(Relaxed) == 1; // after the join
            assert!(sees_record || is_woken, "left asleep");
        });
    }

    #[cfg(not(loom))]
    #[test]
    fn a_record_is_as_long_as_its_header_says_and_the_next_one_is_aligned() {
        let header = |word| committed(&AtomicU32::new(word));
        assert_eq!(header(BUSY | 100), None);
        assert_eq!(header(BUSY | DISCARDED | 100), None);
        for (word, len, is_discarded, span) in [
            (0, 0, false, 8),
            (1, 1, false, 16),
            (8, 8, false, 16),
            (DISCARDED | 9, 9, true, 24),
        ] {
            let record = header(word).unwrap();
            assert_eq!((record.len, record.is_discarded), (len, is_discarded));
            assert_eq!(record.span(), span);
        }
    }

    #[cfg(loom)]
    #[test]
    fn planted_bugs_are_found() {
        const ELEMENTS: &str = "tests::elements_that_the_kernel_passes_arrive_whole_and_in_order";
        const RECORD: &str =
            "tests::a_record_is_read_when_it_is_whole_and_wakes_the_reader_that_sleeps";
        let plants = [
            ("publish-relaxed", ELEMENTS),
            ("position-without-fence", RECORD),
            ("commit-relaxed", RECORD),
            ("sleep-without-fence", RECORD),
        ];
        crate::sync::planted_bugs_are_found("ring::kernel", &plants);
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
