//! The protocol of a lane: a ring of messages from one sender, and the positions of its receiver.
//!
//! [`Outlet`] is the sender's half and [`Inlet`] the receiver's. Neither trusts the other: a word that the other side wrote is
//! loaded once, checked, and only then used. Each half keeps its own state in private memory.
//!
//! ```text
//!  lane, written by the sender     │ tail │ left │ … │ wanted │ … │ len, number │ message, in whole words │ len, number │ …
//!                                   0      1          16         32   one word
//!  receipt, written by the hub     │ head │ left │ … │ asleep │ …
//!                                   0      1          16                each mapped read-only by the other side
//! ```
//!
//! Positions count words since the lane was made and never decrease. Valid positions fulfil `head <= tail <= head + capacity`,
//! and a message ends at or before the tail. Anything else is a [`Fault`], which ends the lane.
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | PUBLISH | sender stores tail | receiver loads tail | the words before tail |
//! | CREDIT | receiver stores head | sender loads head | that the receiver has copied the words before head |
//! | LEAVE | either stores `left`, after its last position | the other loads it, when the socket has ended | that last position |
//! | ARRIVED | receiver: `asleep` stored, SeqCst fence, tail checked | sender: tail stored, SeqCst fence, `asleep` loaded | at least one of the two sees the other, so the receiver never sleeps over a message without a ring |
//! | ROOM | sender: `wanted` stored, SeqCst fence, head checked | receiver: head stored, SeqCst fence, `wanted` loaded | the same, for room |
//!
//! `asleep` is a number that grows with each sleep, and the sender rings once for each value. `wanted` is the head at which there
//! is enough room, and the receiver rings when it passes that. A side therefore never receives more rings than it requested, and
//! knows how many are still due (`link`).

use super::{Fault, Left};
use crate::{
    memory::words::{Ours, Theirs, WORD},
    sync::{
        atomic::{
            Ordering::{self, Relaxed, Release, SeqCst},
            fence,
        },
        planted,
    },
};

/// Word of a lane or a receipt that holds the position of its writer. The next word says how the writer left.
const POSITION: usize = 0;
const LEFT: usize = 1;
/// The word with which its writer requests a ring: `wanted` or `asleep`; 0 for none. 128 bytes after the position.
const RINGS: usize = 16;
/// Words of a lane before the messages.
pub(super) const FRONT: usize = 32;
/// Minimum number of words of a receipt.
pub(super) const RECEIPT: usize = 32;

/// Words that a message occupies, header included.
const fn span(len: usize) -> u64 {
    1 + len.div_ceil(WORD) as u64
}

/// Length in bytes of the longest message in a lane of `capacity` words; the header has 32 bits for it.
fn largest(capacity: u64) -> usize {
    ((capacity as usize - 1) * WORD).min(u32::MAX as usize)
}

fn header(len: usize, number: u64) -> u64 {
    number << 32 | len as u64
}

fn release_unless(bug: &str) -> Ordering {
    if planted(bug) { Relaxed } else { Release }
}

/// The fence of ARRIVED and ROOM, on either side.
fn fence_unless(bug: &str) {
    if !planted(bug) {
        fence(SeqCst);
    }
}

/// The place of the next message, in words of the ring.
#[derive(Clone, Copy, Debug)]
struct MessagePlace {
    capacity: u64,
    offset: u64,
}

impl MessagePlace {
    /// Index of this place in the words of the lane.
    fn word(self) -> usize {
        FRONT + self.offset as usize
    }

    fn advance(&mut self, words: u64) {
        self.offset += words;
        if self.offset >= self.capacity {
            self.offset -= self.capacity;
        }
    }

    /// Where the message after this header begins, and how many bytes fit before the end of the memory. The rest begins at
    /// word [`FRONT`].
    fn message(mut self) -> (usize, usize) {
        self.advance(1);
        (self.word(), (self.capacity - self.offset) as usize * WORD)
    }
}

/// The sender's half.
#[derive(Debug)]
pub(super) struct Outlet {
    lane: Ours,
    receipt: Theirs,
    place: MessagePlace,
    /// This side's position; the lane has a copy.
    tail: u64,
    /// The other side's position, as last loaded and checked.
    head: u64,
    sent: u64,
    /// The last sleep for which this side rang.
    rung: u64,
}

impl Outlet {
    pub(super) fn new(lane: Ours, receipt: Theirs) -> Outlet {
        let capacity = (lane.len() - FRONT) as u64;
        Outlet {
            place: MessagePlace {
                capacity,
                offset: 0,
            },
            lane,
            receipt,
            tail: 0,
            head: 0,
            sent: 0,
            rung: 0,
        }
    }

    pub(super) fn largest(&self) -> usize {
        largest(self.place.capacity)
    }

    pub(super) fn capacity_bytes(&self) -> usize {
        self.place.capacity as usize * WORD
    }

    /// Messages sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes not known to be received yet, headers included.
    pub(super) fn used_bytes(&self) -> usize {
        (self.tail - self.head) as usize * WORD
    }

    /// Whether there is room for a message of `len` bytes, at most the largest.
    ///
    /// # Errors
    /// The receiver claims to have taken what was never sent, or moves its position backwards.
    #[inline]
    pub(super) fn has_room(&mut self, len: usize) -> Result<bool, Fault> {
        let wanted = self.wanted(len);
        if self.head >= wanted {
            return Ok(true);
        }
        let head = self.receipt.load_acquire(POSITION); // CREDIT
        if head < self.head || head > self.tail {
            return Err(Fault::Position);
        }
        self.head = head;
        Ok(head >= wanted)
    }

    /// The smallest head with which there is room for `len` bytes.
    fn wanted(&self, len: usize) -> u64 {
        (self.tail + span(len)).saturating_sub(self.place.capacity)
    }

    /// Writes `message` into the room that is there for it; returns whether the receiver wants a ring.
    #[inline]
    pub(super) fn put(&mut self, message: &[u8]) -> bool {
        let (at, fits) = self.place.message();
        let (first, second) = message.split_at(message.len().min(fits));
        // Relaxed: PUBLISH orders it.
        (self.lane).store(self.place.word(), header(message.len(), self.sent), Relaxed);
        self.lane.copy_in(at, first);
        self.lane.copy_in(FRONT, second);
        self.place.advance(span(message.len()));
        self.tail += span(message.len());
        self.sent += 1;
        let release = release_unless("lane-publish-relaxed");
        self.lane.store(POSITION, self.tail, release); // PUBLISH
        fence_unless("lane-ring-without-fence"); // ARRIVED, the sender's side
        let asleep = self.receipt.load(RINGS);
        let rings = asleep != 0 && asleep != self.rung;
        if rings {
            self.rung = asleep;
        }
        rings
    }

    /// Requests a ring when there is room for `len` bytes, and returns whether there is room now. If not, the caller may sleep.
    ///
    /// `take_rings` removes the rings that have arrived. This happens before the check. After it, the requested ring could be
    /// among them, and no further ring would come.
    ///
    /// # Errors
    /// As for [`has_room`](Outlet::has_room), and those of `take_rings`.
    pub(super) fn arm(
        &mut self,
        len: usize,
        mut take_rings: impl FnMut() -> Result<(), Fault>,
    ) -> Result<bool, Fault> {
        let late = planted("lane-rings-taken-late");
        if !late {
            take_rings()?;
        }
        self.lane.store(RINGS, self.wanted(len), Relaxed); // Relaxed: the fence orders it
        fence_unless("lane-want-without-fence"); // ROOM, the sender's side
        let has_room = self.has_room(len)?;
        if late {
            take_rings()?;
        }
        Ok(has_room)
    }

    /// Cancels the request for a ring; one may still arrive.
    pub(super) fn disarm(&self) {
        self.lane.store(RINGS, 0, Relaxed); // Relaxed: an extra ring is harmless
    }

    /// Announces that no more messages will come.
    pub(super) fn leave(&self) {
        self.lane.store(LEFT, Left::Closed as u64, Release); // LEAVE
    }

    /// How the receiver left, by its own word.
    pub(super) fn how_it_left(&self) -> Left {
        Left::of(self.receipt.load_acquire(LEFT)) // LEAVE
    }
}

/// The result of [`Inlet::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// A message of this many bytes, more than the buffer has.
    Longer(usize),
    Message {
        len: usize,
        number: u64,
        /// Whether the sender wants a ring because it waits for the room.
        rings: bool,
    },
}

/// The receiver's half.
#[derive(Debug)]
pub(super) struct Inlet {
    lane: Theirs,
    receipt: Ours,
    place: MessagePlace,
    /// This side's position; the receipt has a copy.
    head: u64,
    /// The other side's position, as last loaded and checked.
    tail: u64,
    received: u64,
    /// How often this side fell asleep.
    sleeps: u64,
}

impl Inlet {
    pub(super) fn new(lane: Theirs, receipt: Ours) -> Inlet {
        let capacity = (lane.len() - FRONT) as u64;
        Inlet {
            place: MessagePlace {
                capacity,
                offset: 0,
            },
            lane,
            receipt,
            head: 0,
            tail: 0,
            received: 0,
            sleeps: 0,
        }
    }

    /// Messages received so far.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Refreshes the sender's tail if necessary, and returns how many words there are to take.
    ///
    /// # Errors
    /// The tail moved backwards, or further than the memory allows.
    #[inline]
    pub(super) fn filled(&mut self) -> Result<u64, Fault> {
        if self.tail == self.head {
            self.refresh_tail()?;
        }
        Ok(self.tail - self.head)
    }

    fn refresh_tail(&mut self) -> Result<(), Fault> {
        let tail = self.lane.load_acquire(POSITION); // PUBLISH
        if tail < self.tail || tail - self.head > self.place.capacity {
            return Err(Fault::Position);
        }
        self.tail = tail;
        Ok(())
    }

    /// Bytes that are there to take, headers included; the capacity if the sender's position is invalid.
    pub(super) fn filled_bytes(&mut self) -> usize {
        let words = self.refresh_tail().map(|()| self.tail - self.head);
        words.unwrap_or(self.place.capacity) as usize * WORD
    }

    /// Copies the next message to `buffer`, if there is one and it fits.
    ///
    /// # Errors
    /// The sender wrote an invalid position, length or number.
    #[inline]
    pub(super) fn take(&mut self, buffer: &mut [u8]) -> Result<Found, Fault> {
        let filled = self.filled()?;
        if filled == 0 {
            return Ok(Found::Nothing);
        }
        // Loaded once: the sender may change it at any time, even after the checks below.
        let header = self.lane.load(self.place.word());
        let (len, number) = (header as u32 as usize, (header >> 32) as u32);
        if span(len) > filled {
            let max = (filled as usize - 1) * WORD;
            return Err(Fault::Len { len, max });
        }
        if number != self.received as u32 {
            return Err(Fault::Number);
        }
        let Some(buffer) = buffer.get_mut(..len) else {
            return Ok(Found::Longer(len));
        };
        let (at, fits) = self.place.message();
        let (first, second) = buffer.split_at_mut(len.min(fits));
        self.lane.copy_out(at, first);
        self.lane.copy_out(FRONT, second);
        let number = self.received;
        self.received += 1;
        Ok(Found::Message {
            len,
            number,
            rings: self.advance(span(len)),
        })
    }

    /// Releases the room of `words` words; returns whether the sender wants a ring.
    fn advance(&mut self, words: u64) -> bool {
        self.place.advance(words);
        self.head += words;
        let release = release_unless("lane-credit-relaxed");
        self.receipt.store(POSITION, self.head, release); // CREDIT
        fence_unless("lane-pass-without-fence"); // ROOM, the receiver's side
        // Ring once: only if this step passed `wanted`. A `wanted` of 0, for no request, is never passed.
        let wanted = self.lane.load(RINGS);
        (self.head - words < wanted) && wanted <= self.head
    }

    /// Requests a ring for the next message. The caller calls [`fence_after_arming`] and checks again before it sleeps.
    pub(super) fn arm(&mut self) {
        self.sleeps += 1;
        self.receipt.store(RINGS, self.sleeps, Relaxed); // Relaxed: `fence_after_arming` orders it
    }

    /// Cancels the request for a ring; one may still arrive.
    pub(super) fn disarm(&self) {
        self.receipt.store(RINGS, 0, Relaxed); // Relaxed: an extra ring is harmless
    }

    /// Announces that no more messages will be taken, and why.
    pub(super) fn leave(&self, left: Left) {
        self.receipt.store(LEFT, left as u64, Release); // LEAVE
    }

    /// How the sender left, by its own word. The caller must load the tail once more after this call.
    pub(super) fn how_it_left(&self) -> Left {
        Left::of(match planted("lane-leave-relaxed") {
            true => self.lane.load(LEFT),
            false => self.lane.load_acquire(LEFT), // LEAVE
        })
    }
}

/// The fence between arming any number of inlets and checking them again: ARRIVED, the receiver's side.
pub(super) fn fence_after_arming() {
    fence_unless("lane-arm-without-fence");
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::words;

    const WORDS: usize = 512;
    const CAPACITY: u64 = (WORDS - FRONT) as u64;

    fn lane() -> (Outlet, Inlet) {
        let ((lane, lane_read), (receipt, receipt_read)) =
            (words::both(WORDS), words::both(RECEIPT));
        (
            Outlet::new(lane, receipt_read),
            Inlet::new(lane_read, receipt),
        )
    }

    #[test]
    fn messages_of_any_length_pass_around_the_end_of_the_memory() {
        let (mut outlet, mut inlet) = lane();
        let mut buffer = vec![0; outlet.largest()];
        for number in 0..2000 {
            let len = number * 61 % (outlet.largest() + 1);
            let message: Vec<u8> = (0..len).map(|at| (at * 7 + number) as u8).collect();
            assert!(outlet.has_room(len).unwrap());
            assert!(!outlet.put(&message));
            let Found::Message { len, rings, .. } = inlet.take(&mut buffer).unwrap() else {
                panic!("nothing came");
            };
            assert_eq!((&buffer[..len], rings), (&message[..], false));
        }
    }

    #[test]
    fn each_sleep_is_rung_for_once_and_room_when_it_is_enough() {
        let (mut outlet, mut inlet) = lane();
        let mut buffer = [0; 8];
        inlet.arm();
        fence_after_arming();
        assert!(outlet.put(b"first"));
        assert!(!outlet.put(b"second"));
        inlet.arm();
        assert!(outlet.put(b"third"));
        inlet.disarm();
        while outlet.has_room(1).unwrap() {
            assert!(!outlet.put(b"x"));
        }
        let len = 3 * WORD;
        assert!(!outlet.arm(len, || Ok(())).unwrap());
        let mut rings = Vec::new();
        for _ in 0..4 {
            let Found::Message { rings: ring, .. } = inlet.take(&mut buffer).unwrap() else {
                panic!("nothing came");
            };
            rings.push(ring);
        }
        assert_eq!(rings, [false, true, false, false]);
        assert!(outlet.has_room(len).unwrap());
    }

    #[test]
    fn positions_that_cannot_be_are_faults() {
        for tail in [CAPACITY + 1, u64::MAX, 1 << 63] {
            let (outlet, mut inlet) = lane();
            outlet.lane.store(POSITION, tail, Relaxed);
            assert_eq!(inlet.take(&mut []), Err(Fault::Position), "{tail}");
            assert_eq!(inlet.filled_bytes(), CAPACITY as usize * WORD);
        }
        let (mut outlet, mut inlet) = lane();
        outlet.put(b"");
        outlet.put(b"");
        inlet.take(&mut []).unwrap();
        assert_eq!(inlet.filled_bytes(), WORD);
        outlet.lane.store(POSITION, 1, Relaxed);
        inlet.take(&mut []).unwrap(); // the tail was loaded when it was valid
        assert_eq!(inlet.take(&mut []), Err(Fault::Position));

        for head in [2, u64::MAX] {
            let (mut outlet, inlet) = lane();
            outlet.put(b"");
            inlet.receipt.store(POSITION, head, Relaxed);
            let largest = outlet.largest();
            assert_eq!(outlet.has_room(largest), Err(Fault::Position), "{head}");
        }
        let (mut outlet, mut inlet) = lane();
        outlet.put(b"");
        inlet.take(&mut []).unwrap();
        let largest = outlet.largest();
        assert!(outlet.has_room(largest).unwrap());
        outlet.put(&vec![0; largest]);
        inlet.receipt.store(POSITION, 0, Relaxed);
        assert_eq!(outlet.has_room(0), Err(Fault::Position));
    }

    #[test]
    fn headers_that_cannot_be_are_faults() {
        let (mut outlet, mut inlet) = lane();
        outlet.put(b"12345678");
        outlet.lane.store(FRONT, header(9, 0), Relaxed);
        let mut buffer = [0; 64];
        let (len, max) = (9, 8);
        assert_eq!(inlet.take(&mut buffer), Err(Fault::Len { len, max }));
        outlet
            .lane
            .store(FRONT, header(u32::MAX as usize, 0), Relaxed);
        assert!(matches!(inlet.take(&mut buffer), Err(Fault::Len { .. })));
        outlet.lane.store(FRONT, header(8, 1), Relaxed);
        assert_eq!(inlet.take(&mut buffer), Err(Fault::Number));
        outlet.lane.store(FRONT, header(8, 0), Relaxed);
        assert_eq!(inlet.take(&mut buffer[..7]), Ok(Found::Longer(8)));
        assert!(matches!(
            inlet.take(&mut buffer),
            Ok(Found::Message { len: 8, .. })
        ));
    }
}
