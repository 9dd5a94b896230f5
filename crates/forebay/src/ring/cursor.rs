//! Free-running positions, and their orderings.
//!
//! A [`Cursor`] is one end's own position and the limit up to which it may go, a private copy that is renewed only
//! when it does not suffice. It knows no memory and no elements, so it can drive any ring with two positions, also one
//! shared with the kernel (`u32` positions are there for that). It imports `sync`. Read `spsc` next.
//!
//! ```text
//!            head                    tail
//!  consumer:  position ──── known ───▶ limit = tail as last seen
//!  producer:                          position ──── known ───▶ limit = head as last seen + capacity
//! ```
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | PUBLISH | producer stores tail | consumer loads tail | the elements before tail |
//! | CREDIT | consumer stores head | producer loads head | that the consumer is done with the slots before head |
//! | END | `ring::state` | `ring::state` | the last position stored before |
//! | WAKE | `sync::bell` | `sync::bell` | that a sleeper needs waking |

use crate::sync::{
    atomic::{
        AtomicU32, AtomicUsize,
        Ordering::{self, Acquire, Relaxed, Release},
    },
    hint, planted,
};

/// The pairs of the table above that positions take part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Publish,
    Credit,
}

impl Edge {
    #[inline(always)]
    fn release(self) -> Ordering {
        let bug = match self {
            Edge::Publish => "publish-relaxed",
            Edge::Credit => "credit-relaxed",
        };
        if planted(bug) { Relaxed } else { Release }
    }
}

/// A position that one side stores and the other loads; it wraps at its own width.
pub(super) trait Position {
    /// Stores `position`: the releasing half of `edge`.
    fn store(&self, position: usize, edge: Edge);

    /// How far the other side has come since `known`, at most 2³¹: the acquiring half of its edge.
    fn since(&self, known: usize) -> usize;
}

impl Position for AtomicUsize {
    #[inline(always)]
    fn store(&self, position: usize, edge: Edge) {
        self.store(position, edge.release()); // PUBLISH or CREDIT
    }

    #[inline(always)]
    fn since(&self, known: usize) -> usize {
        self.load(Acquire).wrapping_sub(known) // PUBLISH or CREDIT
    }
}

impl Position for AtomicU32 {
    #[inline(always)]
    fn store(&self, position: usize, edge: Edge) {
        self.store(position as u32, edge.release()); // PUBLISH or CREDIT
    }

    #[inline(always)]
    fn since(&self, known: usize) -> usize {
        self.load(Acquire).wrapping_sub(known as u32) as usize // PUBLISH or CREDIT
    }
}

/// One end's own position and limit.
#[derive(Debug)]
pub(super) struct Cursor {
    /// Ours alone; the shared position is a copy of it.
    position: usize,
    /// The first position that is not ours, as far as we know: never too large, often too small.
    limit: usize,
    looker: Looker,
}

impl Cursor {
    /// A cursor at `position` that may go `known` further.
    pub(super) fn new(position: usize, known: usize, looker: Looker) -> Self {
        Cursor {
            position,
            limit: position.wrapping_add(known),
            looker,
        }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// How far we may go for certain, without looking.
    #[inline(always)]
    pub(super) fn known(&self) -> usize {
        self.limit.wrapping_sub(self.position)
    }

    /// Looks at the other side's position (plus `ahead`, the capacity for a producer) and says how far we may go.
    /// It may pause first, see [`Looker`].
    #[inline]
    pub(super) fn look(&mut self, theirs: &impl Position, ahead: usize) -> usize {
        self.look_and(theirs, ahead, |_| ())
    }

    /// As [`look`](Cursor::look); what it has learned something from goes on to `learns`: how far we may go at most. In one
    /// thread that does not happen, as a rule.
    #[inline]
    pub(super) fn look_and(
        &mut self,
        theirs: &impl Position,
        ahead: usize,
        learns: impl FnOnce(usize),
    ) -> usize {
        self.looker.pause();
        let (position, limit) = (self.position, self.limit);
        let newly = theirs.since(limit.wrapping_sub(ahead));
        let limit = limit.wrapping_add(newly);
        self.limit = limit;
        if self.looker.found(newly) {
            learns(limit);
        }
        limit.wrapping_sub(position)
    }

    /// The first position that is not ours, as far as we know.
    #[inline(always)]
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Looks at once, and learns nothing from it: for those who wait, or want an exact answer.
    #[inline]
    pub(super) fn glance(&mut self, theirs: &impl Position, ahead: usize) -> usize {
        let newly = theirs.since(self.limit.wrapping_sub(ahead));
        self.limit = self.limit.wrapping_add(newly);
        self.known()
    }

    /// How far we might go now, without remembering it.
    pub(super) fn peer_distance(&self, theirs: &impl Position, ahead: usize) -> usize {
        theirs.since(self.position.wrapping_sub(ahead))
    }

    /// Goes `n` further and lets the other side know at once. `n` is at most [`known`](Cursor::known).
    #[inline(always)]
    pub(super) fn advance(&mut self, mine: &impl Position, n: usize, edge: Edge) {
        self.step(n);
        self.publish(mine, edge);
    }

    /// Goes `n` further without a word. `n` is at most [`known`](Cursor::known).
    #[inline(always)]
    pub(super) fn step(&mut self, n: usize) {
        self.position = self.position.wrapping_add(n);
    }

    /// Lets the other side know where we are.
    #[inline(always)]
    pub(super) fn publish(&self, mine: &impl Position, edge: Edge) {
        if planted("publish-late") && edge == Edge::Publish {
            return mine.store(self.position.wrapping_sub(1), edge); // the last one waits for the next
        }
        mine.store(self.position, edge);
    }
}

/// How long to pause before looking at the other side's position: a look costs a cache line's way between two cores,
/// so one that finds little is worth waiting for more.
///
/// The pause doubles when a look finds less than the target, up to 64 pause instructions (about 1.6 µs on a Zen 5), halves when
/// it finds twice the target. A look that found nothing, or one item, is followed by looks without a pause until more comes
/// at once.
///
/// A pause must bring something. Where both ends are in one thread nothing comes while it pauses, however much is put in each
/// time. So half the way up, and now and then at the top, it looks once without a pause; if that finds more than two
/// thirds as much, three times in turn, pauses are given up for the next 100 looks, then for 200, and up to 3200 until they do
/// help.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looker {
    /// Pause instructions before the next look.
    pauses: u32,
    /// Pause instructions before looks, unless something speaks against them just now.
    level: u32,
    looks_given_up: u32,
    /// For how many looks it will be given up next time.
    next_given_up: u32,
    /// What the last look found, with a pause, if the next one is to be without; else 0.
    with: u32,
    /// Looks at the top until one is to be without a pause.
    doubt_in: u32,
    /// How many times in turn a pause brought nothing.
    in_vain: u32,
    /// Items that make a look worth its price; 0: never pause.
    target: u32,
}

impl Looker {
    const MOST_PAUSES: u32 = 64;
    const HALF_WAY: u32 = Self::MOST_PAUSES / 2;
    /// Looks without another try, at first and at most.
    const GIVEN_UP: (u32, u32) = (100, 3200);
    /// Looks with most pauses until one without.
    const DOUBTED: u32 = 256;
    /// How many times in turn a pause may bring nothing: a look without one may have found much by chance.
    const IN_VAIN: u32 = 3;

    /// For a ring of `capacity` slots; `latency` = without pauses.
    pub(super) fn new(capacity: usize, latency: bool) -> Self {
        let pauses_help = !latency && !cfg!(loom);
        Looker {
            pauses: 0,
            level: 0,
            looks_given_up: if pauses_help { 0 } else { u32::MAX },
            next_given_up: Self::GIVEN_UP.0,
            with: 0,
            doubt_in: 0,
            in_vain: 0,
            target: if pauses_help {
                (capacity / 4).min(512) as u32
            } else {
                0
            },
        }
    }

    #[inline(always)]
    fn pause(&self) {
        /// Takes a number, not the looker, so that an end in a loop can live in registers.
        #[cold]
        #[inline(never)]
        fn spin(pauses: u32) {
            for _ in 0..pauses {
                hint::spin_loop();
            }
        }
        if self.pauses > 0 {
            spin(self.pauses);
        }
    }

    /// Whether there is something to learn from what a look found, and was learned.
    #[inline(always)]
    fn found(&mut self, newly: usize) -> bool {
        match newly {
            // Whoever waits for a single item is not to wait longer for it.
            0 | 1 => self.pauses = 0,
            // No pauses then, and nothing to learn: one thread gets here each time.
            _ if self.looks_given_up > 0 => {
                self.looks_given_up -= 1;
                self.pauses = 0;
            }
            _ => {
                *self = self.learned(newly.min(u32::MAX as usize) as u32);
                return true;
            }
        }
        false
    }

    /// Takes and returns values, not references, so that an end in a loop can live in registers.
    #[inline(never)]
    fn learned(mut self, newly: u32) -> Looker {
        if self.with > 0 {
            self.was_doubted(newly);
        } else if newly >= 2 * self.target {
            self.level /= 2;
        } else if newly < self.target {
            match self.level {
                Self::HALF_WAY => return self.doubting(newly),
                Self::MOST_PAUSES if self.doubt_in == 0 => return self.doubting(newly),
                Self::MOST_PAUSES => self.doubt_in -= 1,
                level => self.level = (level * 2).max(1),
            }
        }
        self.pauses = self.level;
        self
    }

    /// The next look will be without a pause.
    fn doubting(mut self, with: u32) -> Self {
        self.with = with;
        self.pauses = 0;
        self
    }

    /// A look without a pause found `newly`.
    fn was_doubted(&mut self, newly: u32) {
        if self.with >= newly.saturating_add(newly / 2) {
            self.level = Self::MOST_PAUSES;
            self.doubt_in = Self::DOUBTED;
            self.next_given_up = Self::GIVEN_UP.0;
            self.in_vain = 0;
        } else {
            self.level = Self::HALF_WAY;
            self.in_vain += 1;
            if self.in_vain == Self::IN_VAIN {
                self.give_up();
            }
        }
        self.with = 0;
    }

    fn give_up(&mut self) {
        self.level = 0;
        self.in_vain = 0;
        self.looks_given_up = self.next_given_up;
        self.next_given_up = (2 * self.next_given_up).min(Self::GIVEN_UP.1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Both ends of a ring whose positions start at `start`, driven until they have wrapped.
    fn wraps<P: Position>(mine: P, theirs: P, start: usize) {
        let capacity = 6;
        mine.store(start, Edge::Publish);
        theirs.store(start, Edge::Credit);
        let mut producer = Cursor::new(start, capacity, Looker::new(capacity, true));
        let mut consumer = Cursor::new(start, 0, Looker::new(capacity, true));
        for _ in 0..10 {
            assert_eq!(producer.look(&theirs, capacity), capacity);
            producer.advance(&mine, 4, Edge::Publish);
            assert_eq!((producer.known(), consumer.known()), (2, 0));
            assert_eq!(consumer.look(&mine, 0), 4);
            consumer.advance(&theirs, 4, Edge::Credit);
            assert_eq!(producer.glance(&theirs, capacity), capacity);
        }
        assert!(producer.position() < start);
    }

    #[test]
    fn positions_wrap_at_their_own_width() {
        wraps(
            AtomicUsize::default(),
            AtomicUsize::default(),
            usize::MAX - 10,
        );
        // A kernel ring: our own position runs on in 64 bits, what is shared wraps at 32.
        let (mine, theirs) = (AtomicU32::default(), AtomicU32::default());
        let mut producer = Cursor::new(u32::MAX as usize - 1, 4, Looker::new(4, true));
        Position::store(&theirs, producer.position(), Edge::Credit);
        producer.advance(&mine, 4, Edge::Publish);
        assert_eq!(mine.load(Relaxed), 2);
        assert_eq!(producer.look(&theirs, 4), 0);
        Position::store(&theirs, 1, Edge::Credit);
        assert_eq!(producer.look(&theirs, 4), 3);
    }

    /// Looks until the pause is doubted for the first time: each finds `newly`, whatever the pause.
    fn climbed(looker: &mut Looker, newly: usize) {
        for pauses in [1, 2, 4, 8, 16, 32, 0] {
            looker.found(newly);
            assert_eq!(looker.pauses, pauses);
        }
    }

    #[test]
    fn the_pause_grows_while_looks_find_little_and_is_given_up_where_it_does_not_help() {
        let mut looker = Looker::new(1024, false);
        for given_up in [100, 200, 400, 800, 1600, 3200, 3200] {
            climbed(&mut looker, 3);
            for pauses in [32, 0, 32, 0, 0] {
                looker.found(3);
                assert_eq!(looker.pauses, pauses);
            }
            for _ in 0..given_up {
                assert!(looker.looks_given_up > 0);
                looker.found(3);
                assert_eq!(looker.pauses, 0);
            }
        }
        looker.found(3);
        assert_eq!((looker.pauses, looker.looks_given_up), (1, 0));
        // Where it helps it stays, up to 64, until a look finds plenty. The last of them is the look without.
        for found in [4, 8, 16, 32, 64, 64, 5] {
            looker.found(found);
        }
        assert_eq!((looker.pauses, looker.next_given_up), (64, 100));
        looker.found(2000);
        assert_eq!(looker.pauses, 32);
        // Nothing: whatever comes next is to be seen at once. Then it goes on as before.
        looker.found(0);
        assert_eq!(looker.pauses, 0);
        looker.found(300);
        assert_eq!(looker.pauses, 32);
        looker.found(1);
        assert_eq!(looker.pauses, 0);
        looker.found(300);
        assert_eq!(looker.pauses, 32);
    }

    #[test]
    fn one_look_that_finds_much_by_chance_does_not_end_the_pauses() {
        let mut looker = Looker::new(1024, false);
        for found in [3, 4, 8, 16, 32, 64, 64, 200, 64, 190, 64, 5] {
            looker.found(found);
        }
        assert_eq!((looker.pauses, looker.in_vain), (64, 0));
    }

    #[test]
    fn messages_that_grow_are_not_taken_for_pauses_that_help() {
        // In one thread each look finds a message, whatever the pause: here three elements once, and then eight.
        let mut looker = Looker::new(1024, false);
        for found in [3, 3, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8] {
            looker.found(found);
        }
        assert_eq!((looker.pauses, looker.looks_given_up), (0, 100));
    }

    #[test]
    fn at_the_top_it_looks_without_a_pause_now_and_then() {
        let mut looker = Looker::new(1024, false);
        for found in [3, 4, 8, 16, 32, 64, 64, 3] {
            looker.found(found);
        }
        for _ in 0..Looker::DOUBTED {
            assert_eq!(looker.pauses, Looker::MOST_PAUSES);
            looker.found(64);
        }
        looker.found(64);
        assert_eq!((looker.pauses, looker.with), (0, 64));
        for pauses in [32, 0, 32, 0, 0] {
            looker.found(50);
            assert_eq!(looker.pauses, pauses);
        }
        assert_eq!(looker.looks_given_up, 100);
    }

    #[test]
    fn a_latency_ring_never_pauses() {
        let mut looker = Looker::new(1024, true);
        for found in 0..100 {
            looker.found(found);
            assert_eq!(looker.pauses, 0);
        }
    }
}
