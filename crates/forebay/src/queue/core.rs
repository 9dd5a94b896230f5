//! The protocol of the queue: the states of a frame, which thread may move it from one to the next, and all memory orderings.
//!
//! It has no handles, and no time limits except those of its locks. `waiting` adds sleeping; `sender` and `receiver` are the
//! public ends.
//!
//! ```text
//!      free                        head                          tail
//!       │ Taken │ Done │ Taken │ … │ Ready │ Busy │ Ready │ … │   vacant
//!       │ being read, or read      │ committed, or being filled │
//!
//!              reserve            commit            take            release       free passes it
//!   vacant ────────────▶ Busy ───────────▶ Ready ─────────▶ Taken ──────────▶ Done ─────────▶ vacant
//!           tail's lock   │     no lock      │  head's lock         no lock     ▲  tail's lock
//!                         └─ abort ▶ Aborted ┼─ head passes over it ────────────┤
//!                                            └─ drop oldest ▶ Dropped ──────────┘
//! ```
//!
//! Queues between processes have three more states, for frames that dead processes leave; see `recover`.
//!
//! Permissions:
//!
//! - Under the tail's lock, a sender writes a header beyond the tail and then moves the tail over it, so a frame has its
//!   state before any other thread can see it. It also moves `free` over finished frames.
//! - Under the head's lock, a receiver (or a sender that drops the oldest) takes the frame at the head and moves the head
//!   over it.
//! - Without a lock, a frame's own sender moves it out of Busy, and its own receiver out of Taken.
//!
//! Messages are delivered in the order of their reservations: while the frame at the head is Busy, receivers wait for its
//! sender.
//!
//! A thread that holds the head's lock may take the tail's, but not the other way round.
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | RESERVE | `reserve` stores tail | `take` loads tail | the headers before tail |
//! | READY | `commit`, `abort` store the state | `take` loads it | the message |
//! | OVER | `release` stores the state | `reserve` loads it, before it moves `free` | that the receiver has finished with the bytes |
//! | PASS | `take`, `drop_oldest` store head | `reserve` loads head, before it moves `free` | which frames were passed over, and that their headers are no longer read |
//! | CLOSE | `close` stores `closed`, after the last tail | `take` loads it, before the tail | that the tail no longer moves |
//! | LOCK | `lock` | `lock` | all words that the lock guards |
//! | RING | `event` | `event` | that a sleeper needs waking |
#![allow(unsafe_code)]

use super::{
    bytes::{Bytes, Header},
    control_memory::ControlMemory,
    frame::{Kind, Owner, span},
    last_time::LastTime,
    lock::{Acquired, Lock},
    peers::Peers,
    watchers::Watchers,
};
use crate::{
    memory::MapConfig,
    sync::{
        Deadline,
        atomic::Ordering::{self, Acquire, Relaxed, Release},
        mortal::AtomicU64,
        planted,
    },
};

/// After this number of frames, a call frees no more of them than it needs.
const MAX_FREED: u32 = 128;

/// A queue's memory and its shared words.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) control: ControlMemory,
    pub(super) bytes: Bytes,
    pub(super) peers: Peers,
    /// Whether a message that a dead receiver held is delivered to another one.
    pub(super) redelivers: bool,
    /// When this process last searched for the frames of dead peers.
    pub(super) last_recovery: LastTime,
    /// Poll loops that wait for `arrived`; the next field has those for `room`.
    pub(super) arrived_watchers: Watchers,
    pub(super) room_watchers: Watchers,
}

/// Exclusive access to one frame: to fill it (Busy) or to read it (Taken). Its holder must call `commit` or `abort`, or
/// `release`. It is neither `Clone` nor `Copy`, only this file makes one, and its length is at most [`Core::largest`].
///
/// It has no `Drop`: a frame that is lost before `reserve` has moved the tail over it was never reserved.
#[derive(Debug)]
pub(super) struct Frame {
    position: u64,
    pub(super) len: usize,
    pub(super) sequence: u64,
    /// Another receiver held it before, and died.
    pub(super) again: bool,
}

/// Why a call got no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TryError {
    /// Not enough room. `dropping_helps`: only unread messages occupy the room.
    Room { dropping_helps: bool },
    /// There is no message to take now.
    Message,
    /// The next message has this many bytes, more than the caller accepts.
    Fit(usize),
    /// The queue is closed: no more messages will arrive, or be accepted.
    Closed,
    /// A lock was not available in time.
    Time,
    /// The shared memory no longer holds a queue.
    Broken,
}

pub(super) type Answer<T> = Result<T, TryError>;

/// The lock of one side, held until dropped.
pub(super) struct Held<'a>(&'a Lock);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// `order`, or Relaxed if this bug is planted.
fn unless_planted(bug: &str, order: Ordering) -> Ordering {
    if planted(bug) { Relaxed } else { order }
}

/// Increments a count that the caller's lock guards, which therefore needs no read-modify-write. Release: see `pass`.
pub(super) fn add_one(count: &AtomicU64) {
    count.store(count.load(Relaxed).wrapping_add(1), Release);
}

/// Completes the work of a dead lock holder with `repair`, and returns the lock held. If `repair` fails, because time ran out or
/// the memory is corrupt, the lock goes back to the dead owner, and the next caller tries again.
#[cold]
fn inherit(lock: &Lock, dead: Owner, repair: impl FnOnce() -> Answer<()>) -> Answer<Held<'_>> {
    if planted("queue-heir-repairs-nothing") {
        return Ok(Held(lock));
    }
    match repair() {
        Ok(()) => Ok(Held(lock)),
        Err(no) => {
            match planted("queue-unrepaired-lock-is-freed") {
                true => lock.release(),
                false => lock.hand_back(dead),
            }
            Err(no)
        }
    }
}

impl Core {
    pub(super) fn new(capacity: usize, config: &MapConfig) -> crate::Result<Core> {
        Ok(Core {
            control: ControlMemory::default(),
            bytes: Bytes::new(capacity, config)?,
            peers: Peers::Threads,
            redelivers: false,
            last_recovery: LastTime::default(),
            arrived_watchers: Watchers::default(),
            room_watchers: Watchers::default(),
        })
    }

    /// Wakes a receiver, if one waits. Call it after publishing a frame.
    #[inline(always)]
    pub(super) fn ring_arrived(&self) {
        let event = &self.control.arrived;
        event.ring(|| self.arrived_watchers.signal(event));
    }

    /// Wakes the sender whose turn it is, if it waits. Call it after publishing the room.
    #[inline(always)]
    pub(super) fn ring_room(&self) {
        let event = &self.control.room;
        event.ring(|| self.room_watchers.signal(event));
    }

    /// Takes the tail's lock, and completes the work of a holder that died.
    #[inline]
    pub(super) fn hold_tail(&self, deadline: &Deadline) -> Answer<Held<'_>> {
        self.hold(&self.control.tail.lock, deadline, || self.repair_tail())
    }

    /// Takes the head's lock, and completes the work of a holder that died.
    #[inline]
    pub(super) fn hold_head(&self, deadline: &Deadline) -> Answer<Held<'_>> {
        self.hold(&self.control.head.lock, deadline, || {
            self.repair_head(deadline)
        })
    }

    #[inline(always)]
    fn hold<'a>(
        &self,
        lock: &'a Lock,
        deadline: &Deadline,
        repair: impl FnOnce() -> Answer<()>,
    ) -> Answer<Held<'a>> {
        match lock.acquire(&self.peers, deadline) {
            Some(Acquired::Free) => Ok(Held(lock)),
            Some(Acquired::Inherited(dead)) => inherit(lock, dead, repair),
            None => Err(TryError::Time),
        }
    }

    /// The memory's size in bytes, headers included.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Length in bytes of the longest message.
    pub(super) fn largest(&self) -> usize {
        self.bytes.largest()
    }

    /// The header of a frame between `free` and the tail, or at the tail under its lock.
    #[inline(always)]
    pub(super) fn header(&self, position: u64) -> &Header {
        // SAFETY: a frame begins there: positions come from the shared words and from frames, advanced by their spans. If another
        // process has overwritten those, the address is still inside the memory and aligned, and only atomics access it.
        unsafe { self.bytes.header(position) }
    }

    #[inline(always)]
    pub(super) fn kind(&self, position: u64) -> Kind {
        Kind::of(self.header(position).state.load(Acquire)) // READY, or OVER
    }

    /// Length of the message in the frame at `position`: loaded once, and never more than the memory holds.
    #[inline(always)]
    pub(super) fn len_at(&self, position: u64) -> Answer<usize> {
        // Relaxed: written before the tail passed it, so RESERVE or a lock made it visible.
        let len = self.header(position).len.load(Relaxed) as usize;
        match len <= self.largest() {
            true => Ok(len),
            false => Err(TryError::Broken),
        }
    }

    /// Reserves one frame for each length in `lens` while there is room, as consecutive frames, and passes each to `each`.
    /// Each length is at most [`largest`](Core::largest).
    ///
    /// Fails only if there is no room even for the first one.
    #[inline]
    pub(super) fn reserve(
        &self,
        lens: impl Iterator<Item = usize>,
        deadline: &Deadline,
        mut each: impl FnMut(Frame),
    ) -> Answer<()> {
        let tail = &self.control.tail;
        let _held = self.hold_tail(deadline)?;
        // Relaxed, here and below: LOCK orders what the lock guards.
        if self.control.rare.closed.load(Relaxed) != 0 {
            return Err(TryError::Closed);
        }
        let begun = tail.position.load(Relaxed);
        let (mut position, mut sequence) = (begun, tail.next.load(Relaxed));
        for len in lens {
            let needed = span(len);
            if self.vacant(position) < needed && !self.make_room(position, needed)? {
                break;
            }
            let header = self.header(position);
            // Relaxed: RESERVE publishes the length and the sequence number. Release on the state: a repair after this process
            // dies must not see this header together with an older `free`.
            let state = Kind::Busy.of_owner(self.peers.me());
            header.state.store(state, Release);
            header.len.store(len as u32, Relaxed);
            header.sequence.store(sequence, Relaxed);
            each(Frame {
                position,
                len,
                sequence,
                again: false,
            });
            position = position.wrapping_add(needed);
            sequence = sequence.wrapping_add(1);
        }
        if position == begun {
            let free = tail.free.load(Relaxed);
            let head = self.control.head.position.load(Acquire); // PASS
            return Err(TryError::Room {
                dropping_helps: free == head,
            });
        }
        self.bytes.settle();
        let order = unless_planted("queue-reserve-relaxed", Release);
        tail.position.store(position, order); // RESERVE
        // Release: the repair after a death must not see the new `next` without the new tail.
        tail.next.store(sequence, Release);
        Ok(())
    }

    /// Bytes known to be free after `position`, which is at or beyond the tail. Under the tail's lock.
    #[inline(always)]
    pub(super) fn vacant(&self, position: u64) -> u64 {
        let used = position.wrapping_sub(self.control.tail.free.load(Relaxed));
        (self.capacity() as u64).saturating_sub(used) // nothing if the words are corrupt
    }

    /// Moves `free` over finished frames until `needed` bytes or a little more are vacant. Returns whether `needed` bytes
    /// are. Under the tail's lock.
    #[cold]
    pub(super) fn make_room(&self, position: u64, needed: u64) -> Answer<bool> {
        let capacity = self.capacity() as u64;
        // Freeing more than needed makes this call rare. Freeing at most an eighth keeps the headers read here in the cache
        // until their bytes are written again, and stopping after `MAX_FREED` frames keeps the call short.
        let aim = needed.max(capacity / 8);
        let mut freed = 0;
        let tail = &self.control.tail;
        let head = self.control.head.position.load(Acquire); // PASS
        let mut free = tail.free.load(Relaxed); // LOCK
        let mut used = position.wrapping_sub(free);
        // The head is never beyond the tail, while frames that this call has reserved lie after it.
        let mut passed = head.wrapping_sub(free);
        if used > capacity || passed > used {
            return Err(TryError::Broken);
        }
        while passed > 0
            && (capacity - used < needed || (capacity - used < aim && freed < MAX_FREED))
            && self.kind(free).is_finished()
        {
            freed += 1;
            let span = span(self.len_at(free)?);
            passed = passed.checked_sub(span).ok_or(TryError::Broken)?;
            used -= span;
            free = free.wrapping_add(span);
        }
        tail.free.store(free, Relaxed); // LOCK
        Ok(capacity - used >= needed)
    }

    /// The message of a frame, for filling.
    #[inline(always)]
    pub(super) fn fill<'a>(&'a self, frame: &'a mut Frame) -> &'a mut [u8] {
        // SAFETY: a frame of this length, at most the largest, begins there, and it is Busy. The exclusive borrow of its only
        // `Frame` proves that no other thread touches it.
        unsafe { self.bytes.message_mut(frame.position, frame.len) }
    }

    /// The message of a frame, for reading.
    #[inline(always)]
    pub(super) fn read<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        // SAFETY: a frame of this length, at most the largest, begins there, and it is Taken or Busy. Only the holder of its one
        // `Frame` may write to it, which takes an exclusive borrow of that, or the frame itself.
        unsafe { self.bytes.message(frame.position, frame.len) }
    }

    /// Publishes a filled frame to the receivers.
    #[inline]
    pub(super) fn commit(&self, frame: Frame) {
        self.bytes.settle();
        let order = unless_planted("queue-commit-relaxed", Release);
        let state = &self.header(frame.position).state;
        state.store(Kind::Ready.word(), order); // READY
    }

    /// Discards a reserved frame: receivers pass over it.
    pub(super) fn abort(&self, frame: Frame) {
        self.bytes.settle();
        let state = &self.header(frame.position).state;
        state.store(Kind::Aborted.word(), Release); // READY
    }

    /// Takes up to `max` of the next messages, in order, none longer than `fits`, and passes each frame to `each`.
    ///
    /// Fails only if there is not a single one.
    #[inline]
    pub(super) fn take(
        &self,
        max: usize,
        fits: usize,
        deadline: &Deadline,
        mut each: impl FnMut(Frame),
    ) -> Answer<()> {
        let held = self.hold_head(deadline)?;
        let mut passed_over = false;
        let answer = self.take_held(max, fits, deadline, &mut each, &mut passed_over);
        drop(held);
        if passed_over {
            self.ring_room(); // not under the lock: it may run wakers of tasks
        }
        answer
    }

    /// [`take`](Core::take) under the head's lock. Sets `passed_over` if it frees room without taking a message.
    #[inline]
    fn take_held(
        &self,
        max: usize,
        fits: usize,
        deadline: &Deadline,
        mut each: impl FnMut(Frame),
        passed_over: &mut bool,
    ) -> Answer<()> {
        let head = &self.control.head;
        let mut taken = 0;
        // Relaxed: LOCK.
        if self.peers.may_die() && head.returned.load(Relaxed) > 0 {
            taken = self.take_returned(max, fits, deadline, &mut each)?;
        }
        while taken < max {
            let position = head.position.load(Relaxed); // LOCK
            let why_not = match self.at_head(position) {
                None if self.is_closed() && self.has_no_more(position) => TryError::Closed,
                None => TryError::Message,
                Some(Kind::Ready) => match self.take_ready(position, fits) {
                    Ok(frame) => {
                        each(frame);
                        taken += 1;
                        continue;
                    }
                    Err(TryError::Broken) => return Err(TryError::Broken),
                    Err(why_not) => why_not,
                },
                Some(kind @ (Kind::Aborted | Kind::Torn)) => {
                    self.pass_over(position, kind)?;
                    *passed_over = true;
                    continue;
                }
                Some(Kind::Busy) => TryError::Message,
                Some(_) => TryError::Broken,
            };
            return match taken {
                0 => Err(why_not),
                _ => Ok(()),
            };
        }
        Ok(())
    }

    /// Takes the next message if it is there and no longer than `fits`. After `None`, [`take`](Core::take) finds out why.
    #[inline]
    pub(super) fn take_next(&self, fits: usize, deadline: &Deadline) -> Answer<Option<Frame>> {
        let head = &self.control.head;
        let _held = self.hold_head(deadline)?;
        // Relaxed: LOCK.
        if self.peers.may_die() && head.returned.load(Relaxed) > 0 {
            return Ok(None);
        }
        let position = head.position.load(Relaxed); // LOCK
        match self.at_head(position) {
            Some(Kind::Ready) => Ok(self.take_ready(position, fits).ok()),
            _ => Ok(None),
        }
    }

    /// Takes the message at the head, which is Ready, if it is no longer than `fits`. Under the head's lock.
    #[inline(always)]
    fn take_ready(&self, position: u64, fits: usize) -> Answer<Frame> {
        let len = self.len_at(position)?;
        if len > fits {
            return Err(TryError::Fit(len));
        }
        let frame = Frame {
            position,
            len,
            sequence: self.header(position).sequence.load(Relaxed), // RESERVE
            again: false,
        };
        let state = Kind::Taken.of_owner(self.peers.me());
        self.pass(position, len, state, &self.control.head.received);
        self.bytes.settle();
        Ok(frame)
    }

    /// Takes over the frame of a dead receiver, whose message has `len` bytes. Under both locks.
    #[cold]
    pub(super) fn take_again(&self, position: u64, len: usize) -> Frame {
        debug_assert!(len <= self.largest());
        let (header, head) = (self.header(position), &self.control.head);
        // Release, like the count after it: see `pass`.
        let state = Kind::Taken.of_owner(self.peers.me());
        header.state.store(state, Release);
        let returned = head.returned.load(Relaxed); // LOCK
        head.returned.store(returned.saturating_sub(1), Release);
        add_one(&head.redelivered);
        Frame {
            position,
            len,
            sequence: header.sequence.load(Relaxed), // RESERVE
            again: true,
        }
    }

    /// The state of the frame at the head, if there is one. Under the head's lock.
    #[inline(always)]
    pub(super) fn at_head(&self, position: u64) -> Option<Kind> {
        let head = &self.control.head;
        if head.cached_tail.load(Relaxed) == position {
            let tail = self.control.tail.position.load(Acquire); // RESERVE
            head.cached_tail.store(tail, Relaxed); // LOCK
            if tail == position {
                return None;
            }
        }
        let known = head.cached_tail.load(Relaxed).wrapping_sub(position); // LOCK
        match known <= self.capacity() as u64 {
            true => Some(self.kind(position)),
            false => Some(Kind::Invalid),
        }
    }

    /// Gives the frame at the head, of a message of `len` bytes, this `state`, counts it, and moves the head over it. Under
    /// the head's lock.
    #[inline(always)]
    fn pass(&self, position: u64, len: usize, state: u32, count: &AtomicU64) {
        let beyond = position.wrapping_add(span(len));
        // Relaxed: PASS publishes it. The count after it is a Release, for a repair after this process dies.
        self.header(position).state.store(state, Relaxed);
        add_one(count);
        let order = unless_planted("queue-pass-relaxed", Release);
        self.control.head.position.store(beyond, order); // PASS
    }

    /// Moves the head over a frame that is not to be received.
    fn pass_over(&self, position: u64, kind: Kind) -> Answer<()> {
        let head = &self.control.head;
        let count = match kind {
            Kind::Torn => &head.torn,
            Kind::Dropped => &head.dropped,
            _ => &head.aborted,
        };
        let len = self.len_at(position)?;
        self.pass(position, len, kind.word(), count);
        Ok(())
    }

    /// Returns the bytes of a taken frame.
    #[inline]
    pub(super) fn release(&self, frame: Frame) {
        self.bytes.settle();
        let order = unless_planted("queue-release-relaxed", Release);
        let state = &self.header(frame.position).state;
        state.store(Kind::Done.word(), order); // OVER
    }

    /// Drops the message at the head; returns whether that changed anything.
    pub(super) fn drop_oldest(&self, deadline: &Deadline) -> Answer<bool> {
        let head = &self.control.head;
        let held = self.hold_head(deadline)?;
        let position = head.position.load(Relaxed); // LOCK
        match self.at_head(position) {
            Some(Kind::Ready) => self.pass_over(position, Kind::Dropped)?,
            Some(kind @ (Kind::Aborted | Kind::Torn)) => self.pass_over(position, kind)?,
            _ => return Ok(false),
        }
        drop(held);
        self.ring_room(); // it may free more than this sender needs
        Ok(true)
    }

    /// Closes the queue: it accepts no new message. Frames that are already reserved may still be committed.
    pub(super) fn close(&self) {
        let held = self.hold_tail(&Deadline::never());
        self.control.rare.closed.store(1, Release); // CLOSE
        drop(held);
        self.ring_arrived();
        self.ring_room();
    }

    /// Whether the queue is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.control.rare.closed.load(Acquire) != 0 // CLOSE
    }

    /// Whether the tail is still at `position`. If called after CLOSE, the tail then stays there.
    pub(super) fn has_no_more(&self, position: u64) -> bool {
        self.control.tail.position.load(Acquire) == position // RESERVE
    }

    /// Whether any frame lies between head and tail, committed or not: a hint, read without a lock.
    #[inline]
    pub(super) fn has_frames(&self) -> bool {
        // Relaxed: a hint, which receivers check again under the lock. Sleepers execute a fence before it.
        let head = self.control.head.position.load(Relaxed);
        head != self.control.tail.position.load(Relaxed)
    }
}
