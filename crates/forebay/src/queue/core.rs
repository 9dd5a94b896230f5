//! The protocol of the queue: which frame is whose, and every ordering that says so.
//!
//! It knows no handles and no time limits but those of its locks; `waiting` sleeps, `sender` and `receiver` are what
//! users hold. It imports `sync`. Read `waiting` next.
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
//! Between processes there are three states more, for what the dead leave behind; `recover` has them.
//!
//! Who may move what: under the tail's lock a sender writes a header beyond the tail and moves the tail over it, so a
//! frame has its state before anybody can see it; it also moves `free` over frames that are over. Under the head's lock
//! a receiver (or a sender that drops the oldest) takes the frame at the head and moves the head over it. Without any
//! lock, a frame's own sender moves it from Busy, and its own receiver from Taken. The order of delivery is that of the
//! reservations: while the frame at the head is Busy, receivers wait for its sender.
//!
//! The head's lock may be held when the tail's is taken, never the other way round.
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | RESERVE | `reserve` stores tail | `take` loads tail | the headers before tail |
//! | READY | `commit`, `abort` store the state | `take` loads it | the message |
//! | OVER | `release` stores the state | `reserve` loads it, before it moves `free` | that the receiver is done with the bytes |
//! | PASS | `take`, `drop_oldest` store head | `reserve` loads head, before it moves `free` | which frames were passed over, and that nobody looks at their headers any more |
//! | CLOSE | `close` stores `closed`, after the last tail | `take` loads it, before the tail | that the tail moves no more |
//! | LOCK | `lock` | `lock` | all words that the lock guards |
//! | RING | `event` | `event` | that a sleeper needs waking |
#![allow(unsafe_code)]

use super::{
    bytes::{Bytes, Header},
    frame::{Kind, Owner, span},
    home::Home,
    limit::{LastTime, Limit},
    lock::{Got, Lock},
    peers::Peers,
    watch::Watchers,
};
use crate::{
    memory::MapConfig,
    sync::{
        atomic::Ordering::{self, Acquire, Relaxed, Release},
        mortal::AtomicU64,
        planted,
    },
};

/// A queue's memory and words.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) control: Home,
    pub(super) bytes: Bytes,
    pub(super) peers: Peers,
    /// Whether what a dead receiver held is given to another one.
    pub(super) redelivers: bool,
    /// When we last looked after dead peers.
    pub(super) last_burial: LastTime,
    /// Poll loops that wait as `arrived` and `room` have it.
    pub(super) arrived_watchers: Watchers,
    pub(super) room_watchers: Watchers,
}

/// A frame that is ours alone: to fill (Busy) or to read (Taken). Its holder owes it a `commit` or `abort`, or a
/// `release`. It is neither `Clone` nor `Copy`, only this file makes one, and its length is at most [`Core::largest`].
///
/// It has no `Drop`: one that is lost before `reserve` has moved the tail over it never happened.
#[derive(Debug)]
pub(super) struct Frame {
    position: u64,
    pub(super) len: usize,
    pub(super) sequence: u64,
    /// Another receiver had it before, and died.
    pub(super) again: bool,
}

/// Why there is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum No {
    /// Not enough room. `dropping_helps`: nothing but unread messages is in the way.
    Room { dropping_helps: bool },
    /// Nothing to take now.
    Message,
    /// The next message has so many bytes, which is more than was asked for.
    Fit(usize),
    /// Nothing will come any more, or be taken in.
    Closed,
    /// A lock was not to be had in time.
    Time,
    /// The shared memory does not hold a queue any more.
    Broken,
}

pub(super) type Answer<T> = Result<T, No>;

/// One of the two sides' locks, held.
pub(super) struct Held<'a>(&'a Lock);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// `order`, or Relaxed where that bug is planted.
fn unless_planted(bug: &str, order: Ordering) -> Ordering {
    if planted(bug) { Relaxed } else { order }
}

/// Adds to a count that the caller's lock guards; so no read-modify-write. Release: see `pass`.
pub(super) fn add_one(count: &AtomicU64) {
    count.store(count.load(Relaxed).wrapping_add(1), Release);
}

/// Holds a lock that a dead process left, and does what that left half done. Where `mend` fails, for want of time or by bad
/// memory, the lock is the dead owner's again, and the next one tries.
#[cold]
fn inherit(lock: &Lock, dead: Owner, mend: impl FnOnce() -> Answer<()>) -> Answer<Held<'_>> {
    if planted("queue-heir-mends-nothing") {
        return Ok(Held(lock));
    }
    match mend() {
        Ok(()) => Ok(Held(lock)),
        Err(no) => {
            match planted("queue-unmended-lock-is-freed") {
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
            control: Home::default(),
            bytes: Bytes::new(capacity, config)?,
            peers: Peers::Threads,
            redelivers: false,
            last_burial: LastTime::default(),
            arrived_watchers: Watchers::default(),
            room_watchers: Watchers::default(),
        })
    }

    /// Wakes a receiver, if any waits; call it after what was published.
    #[inline(always)]
    pub(super) fn ring_arrived(&self) {
        let event = &self.control.arrived;
        event.ring(|| self.arrived_watchers.signal(event));
    }

    /// Wakes the sender whose turn it is, if it waits; call it after what was published.
    #[inline(always)]
    pub(super) fn ring_room(&self) {
        let event = &self.control.room;
        event.ring(|| self.room_watchers.signal(event));
    }

    /// Holds the tail's lock; what a dead holder left half done is done.
    #[inline]
    pub(super) fn hold_tail(&self, limit: &Limit) -> Answer<Held<'_>> {
        self.hold(&self.control.tail.lock, limit, || self.mend_tail())
    }

    /// Holds the head's lock; what a dead holder left half done is done.
    #[inline]
    pub(super) fn hold_head(&self, limit: &Limit) -> Answer<Held<'_>> {
        self.hold(&self.control.head.lock, limit, || self.mend_head(limit))
    }

    #[inline(always)]
    fn hold<'a>(
        &self,
        lock: &'a Lock,
        limit: &Limit,
        mend: impl FnOnce() -> Answer<()>,
    ) -> Answer<Held<'a>> {
        match lock.acquire(&self.peers, limit) {
            Some(Got::Free) => Ok(Held(lock)),
            Some(Got::Inherited(dead)) => inherit(lock, dead, mend),
            None => Err(No::Time),
        }
    }

    /// Bytes of memory, headers included.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Bytes of the longest message.
    pub(super) fn largest(&self) -> usize {
        self.bytes.largest()
    }

    /// The header of a frame between free and tail, or at the tail under its lock.
    #[inline(always)]
    pub(super) fn header(&self, position: u64) -> &Header {
        // SAFETY: a frame begins there: positions come from the shared words and from frames, by their spans. Where another
        // process has overwritten those, it is still inside the memory and aligned, and read and written by atomics only.
        unsafe { self.bytes.header(position) }
    }

    #[inline(always)]
    pub(super) fn kind(&self, position: u64) -> Kind {
        Kind::of(self.header(position).state.load(Acquire)) // READY, or OVER
    }

    /// Bytes of the message of the frame at `position`: loaded once, and never more than the memory holds.
    #[inline(always)]
    pub(super) fn len_at(&self, position: u64) -> Answer<usize> {
        // Relaxed: written before the tail passed it, so RESERVE or a lock made it visible.
        let len = self.header(position).len.load(Relaxed) as usize;
        match len <= self.largest() {
            true => Ok(len),
            false => Err(No::Broken),
        }
    }

    /// Reserves a frame for each length of `lens` that finds room, in one piece of the order; `each` gets them.
    /// At most [`largest`](Core::largest) bytes each.
    ///
    /// Fails only if there is not even one.
    #[inline]
    pub(super) fn reserve(
        &self,
        lens: impl Iterator<Item = usize>,
        limit: &Limit,
        mut each: impl FnMut(Frame),
    ) -> Answer<()> {
        let tail = &self.control.tail;
        let _held = self.hold_tail(limit)?;
        // Relaxed, here and below: LOCK orders what the lock guards.
        if self.control.rare.closed.load(Relaxed) != 0 {
            return Err(No::Closed);
        }
        let begun = tail.position.load(Relaxed);
        let (mut position, mut sequence) = (begun, tail.next.load(Relaxed));
        for len in lens {
            let needed = span(len);
            if self.vacant(position) < needed && !self.make_room(position, needed)? {
                break;
            }
            let header = self.header(position);
            // Relaxed: RESERVE publishes them.
            // Release on the state: whoever mends what we leave never finds an older `free` than this header.
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
            return Err(No::Room {
                dropping_helps: free == head,
            });
        }
        self.bytes.settle();
        let order = unless_planted("queue-reserve-relaxed", Release);
        tail.position.store(position, order); // RESERVE
        // Release: behind the tail also for whoever mends what we leave.
        tail.next.store(sequence, Release);
        Ok(())
    }

    /// Bytes behind `position`, at or beyond the tail, that are free as far as we know. Under the tail's lock.
    #[inline(always)]
    pub(super) fn vacant(&self, position: u64) -> u64 {
        let used = position.wrapping_sub(self.control.tail.free.load(Relaxed));
        (self.capacity() as u64).saturating_sub(used) // nothing where the words make no sense
    }

    /// Moves `free` over frames that are over, until `needed` bytes are vacant and a little more; says whether they
    /// are. Under the tail's lock.
    #[cold]
    pub(super) fn make_room(&self, position: u64, needed: u64) -> Answer<bool> {
        let capacity = self.capacity() as u64;
        // So much more that this is seldom called, and not so much that the headers read here grow cold before their
        // bytes are written again.
        let aim = needed.max(capacity / 8);
        let tail = &self.control.tail;
        let head = self.control.head.position.load(Acquire); // PASS
        let mut free = tail.free.load(Relaxed); // LOCK
        let mut used = position.wrapping_sub(free);
        // Frames that this call has reserved lie behind the tail, and the head is at most there.
        let mut passed = head.wrapping_sub(free);
        if used > capacity || passed > used {
            return Err(No::Broken);
        }
        while passed > 0 && capacity - used < aim && self.kind(free).is_over() {
            let span = span(self.len_at(free)?);
            passed = passed.checked_sub(span).ok_or(No::Broken)?;
            used -= span;
            free = free.wrapping_add(span);
        }
        tail.free.store(free, Relaxed); // LOCK
        Ok(capacity - used >= needed)
    }

    /// The message of a frame, to fill.
    #[inline(always)]
    pub(super) fn fill<'a>(&'a self, frame: &'a mut Frame) -> &'a mut [u8] {
        // SAFETY: a frame of this length, at most the largest, begins there, and it is Busy: its one `Frame`, exclusively
        // borrowed, says that nobody else touches it.
        unsafe { self.bytes.message_mut(frame.position, frame.len) }
    }

    /// The message of a frame.
    #[inline(always)]
    pub(super) fn read<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        // SAFETY: a frame of this length, at most the largest, begins there, and it is Taken or Busy: nobody but its one
        // `Frame`'s holder writes to it, which takes an exclusive borrow of that, or the frame itself.
        unsafe { self.bytes.message(frame.position, frame.len) }
    }

    /// Lets receivers have a frame that was filled.
    #[inline]
    pub(super) fn commit(&self, frame: Frame) {
        self.bytes.settle();
        let order = unless_planted("queue-commit-relaxed", Release);
        let state = &self.header(frame.position).state;
        state.store(Kind::Ready.word(), order); // READY
    }

    /// Gives a reserved frame up: receivers pass over it.
    pub(super) fn abort(&self, frame: Frame) {
        self.bytes.settle();
        let state = &self.header(frame.position).state;
        state.store(Kind::Aborted.word(), Release); // READY
    }

    /// Takes up to `most` messages that are next, in order, none longer than `fits`; `each` gets them.
    ///
    /// Fails only if there is not even one.
    #[inline]
    pub(super) fn take(
        &self,
        most: usize,
        fits: usize,
        limit: &Limit,
        mut each: impl FnMut(Frame),
    ) -> Answer<()> {
        let head = &self.control.head;
        let _held = self.hold_head(limit)?;
        let mut taken = 0;
        // Relaxed: LOCK.
        if self.peers.may_die() && head.returned.load(Relaxed) > 0 {
            taken = self.take_returned(most, fits, limit, &mut each)?;
        }
        while taken < most {
            let position = head.position.load(Relaxed); // LOCK
            let why_not = match self.at_head(position) {
                None if self.is_closed() && self.has_no_more(position) => No::Closed,
                None => No::Message,
                Some(Kind::Ready) => match self.take_ready(position, fits) {
                    Ok(frame) => {
                        each(frame);
                        taken += 1;
                        continue;
                    }
                    Err(No::Broken) => return Err(No::Broken),
                    Err(why_not) => why_not,
                },
                Some(kind @ (Kind::Aborted | Kind::Torn)) => {
                    self.pass_over(position, kind)?;
                    self.ring_room();
                    continue;
                }
                Some(Kind::Busy) => No::Message,
                Some(_) => No::Broken,
            };
            return match taken {
                0 => Err(why_not),
                _ => Ok(()),
            };
        }
        Ok(())
    }

    /// Takes the message that is next if it is there and no longer than `fits`; `None`: [`take`](Core::take) knows more.
    #[inline]
    pub(super) fn take_next(&self, fits: usize, limit: &Limit) -> Answer<Option<Frame>> {
        let head = &self.control.head;
        let _held = self.hold_head(limit)?;
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
            return Err(No::Fit(len));
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

    /// Takes the frame of a dead receiver, whose message has `len` bytes. Under both locks.
    #[cold]
    pub(super) fn take_again(&self, position: u64, len: usize) -> Frame {
        debug_assert!(len <= self.largest());
        let (header, head) = (self.header(position), &self.control.head);
        // Release, like the count behind it: see `pass`.
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
        if head.known_tail.load(Relaxed) == position {
            let tail = self.control.tail.position.load(Acquire); // RESERVE
            head.known_tail.store(tail, Relaxed); // LOCK
            if tail == position {
                return None;
            }
        }
        let known = head.known_tail.load(Relaxed).wrapping_sub(position); // LOCK
        match known <= self.capacity() as u64 {
            true => Some(self.kind(position)),
            false => Some(Kind::Alien),
        }
    }

    /// Moves the head over the frame there, of a message of `len` bytes, which gets this `state` and is counted. Under the
    /// head's lock.
    #[inline(always)]
    fn pass(&self, position: u64, len: usize, state: u32, count: &AtomicU64) {
        let beyond = position.wrapping_add(span(len));
        // Relaxed: PASS publishes it, and the count behind it is a Release for whoever mends what we leave.
        self.header(position).state.store(state, Relaxed);
        add_one(count);
        let order = unless_planted("queue-pass-relaxed", Release);
        self.control.head.position.store(beyond, order); // PASS
        if self.control.rare.passed.has_waiters() {
            self.control.rare.passed.tell();
        }
    }

    /// Moves the head over a frame that nobody is to receive.
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

    /// Gives the bytes of a taken frame back.
    #[inline]
    pub(super) fn release(&self, frame: Frame) {
        self.bytes.settle();
        let order = unless_planted("queue-release-relaxed", Release);
        let state = &self.header(frame.position).state;
        state.store(Kind::Done.word(), order); // OVER
    }

    /// Drops the message that would be taken next; says whether that made a difference.
    pub(super) fn drop_oldest(&self, limit: &Limit) -> Answer<bool> {
        let head = &self.control.head;
        let _held = self.hold_head(limit)?;
        let position = head.position.load(Relaxed); // LOCK
        match self.at_head(position) {
            Some(Kind::Ready) => self.pass_over(position, Kind::Dropped)?,
            Some(kind @ (Kind::Aborted | Kind::Torn)) => self.pass_over(position, kind)?,
            _ => return Ok(false),
        }
        self.ring_room(); // it may be more than we need
        Ok(true)
    }

    /// Takes nothing in from now on. What was reserved before may still be committed.
    pub(super) fn close(&self) {
        let held = self.hold_tail(&Limit::new(None));
        self.control.rare.closed.store(1, Release); // CLOSE
        drop(held);
        self.ring_arrived();
        self.ring_room();
    }

    /// Whether the queue is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.control.rare.closed.load(Acquire) != 0 // CLOSE
    }

    /// Whether the tail is still at `position`; asked after CLOSE, it stays there.
    pub(super) fn has_no_more(&self, position: u64) -> bool {
        self.control.tail.position.load(Acquire) == position // RESERVE
    }

    /// Whether any frame lies between head and tail, committed or not, as far as one can say without a lock.
    #[inline]
    pub(super) fn has_frames(&self) -> bool {
        // Relaxed: a hint; whoever takes looks again under the lock. Sleepers have fences in front of it.
        let head = self.control.head.position.load(Relaxed);
        head != self.control.tail.position.load(Relaxed)
    }
}
