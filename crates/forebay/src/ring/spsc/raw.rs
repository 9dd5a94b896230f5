//! One end of a ring of bytes as addresses and words, for code in another language that pushes or pops by itself.
//!
//! ```text
//!  Rust: raw() ─▶ the other language: bytes at `at`, then position to `mine`, then a look at `bell` ─▶ Rust: catch_up()
//! ```
//! The word `mine` is the truth: an end that is used from both sides derives everything else from it. The edges are those of
//! `ring::cursor`.

use super::{Consumer, Producer};
use crate::{
    ring::cursor::Cursor,
    sync::{
        Eventfd, Wait,
        atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
};

/// The addresses and words of an end: for a producer, of vacant bytes; for a consumer, of filled ones.
///
/// They are valid while the end exists. Code that uses them does what the end itself does:
///
/// 1. The bytes from `position` up to `limit` are at `at` and after it, also beyond `seam`.
/// 2. If they do not suffice, load `theirs` (acquire). The limit of a producer is that plus `capacity`.
/// 3. Write or read `n` bytes. Then store `position + n` to `mine` (release).
/// 4. After a fence of the compiler (`compiler_fence(SeqCst)`), load `bell`. If it is not 0, call [`catch_up`](ForeignEnd::catch_up), which wakes the other end.
/// 5. If `state` is not 0 (acquire), an end of the ring or stream has ended it: call the end itself to learn what happened.
///
/// Between an access through one view and one through the other there is a fence of the compiler, too. If `mine` is not `position`,
/// Rust has used the end meanwhile: get the addresses again.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawEnd {
    /// The byte at `position`, in the first view.
    pub at: *mut u8,
    /// Where the second view begins: an address here or above is moved back by `seam_bytes`.
    pub seam: *mut u8,
    /// Length of a view.
    pub seam_bytes: usize,
    /// Bytes pushed or popped so far; wraps.
    pub position: usize,
    /// The first position that the end may not use, as far as it knows.
    pub limit: usize,
    /// What a producer adds to the consumer's position; 0 for a consumer.
    pub ahead: usize,
    /// This end's position.
    pub mine: *const AtomicUsize,
    /// The other end's position.
    pub theirs: *const AtomicUsize,
    /// Not 0: the other end may wait.
    pub bell: *const AtomicU32,
    /// Not 0: an end has ended the ring or stream.
    pub state: *const AtomicU32,
}

/// An end of a ring of bytes or of a stream that code in another language uses, too. Before it is dropped it catches up with that code:
/// do not take the end out of it.
#[derive(Debug)]
pub struct ForeignEnd<E: CatchUp>(E);

/// The ends that code in another language may use.
pub trait CatchUp {
    #[doc(hidden)]
    fn raw(&mut self) -> RawEnd;
    #[doc(hidden)]
    fn catch_up(&mut self);
}

impl<E: CatchUp> ForeignEnd<E> {
    /// Lets code in another language use `end`.
    pub fn new(end: E) -> Self {
        ForeignEnd(end)
    }

    /// The addresses and words of this end.
    pub fn raw(&mut self) -> RawEnd {
        self.0.raw()
    }

    /// Continues where code in another language has stopped, and wakes the other end if it waits. Call it before any other call of
    /// this end after that code has run.
    #[inline]
    pub fn catch_up(&mut self) {
        self.0.catch_up();
    }
}

derefs!([E: CatchUp] ForeignEnd<E>, mut E, |this| this.0);

impl<E: CatchUp> Drop for ForeignEnd<E> {
    fn drop(&mut self) {
        self.catch_up();
    }
}

macro_rules! raw {
    ($end:ident, $mine:ident, $theirs:ident, $ahead:expr) => {
        impl<T, W: Wait> $end<T, W> {
            /// Continues where code in another language has stopped: see [`RawEnd`]. Without such code it does nothing.
            #[inline]
            pub(super) fn follow(&mut self) {
                // Relaxed: only this end stores it. A forgotten `Drain` leaves the word before the position.
                let now = self.shared.$mine.position.load(Relaxed);
                if (now.wrapping_sub(self.cursor.position()) as isize) > 0 {
                    self.place = self.shared.slots.place_of(now);
                    self.cursor = Cursor::new(now, 0);
                }
            }
        }

        impl CatchUp for $end<u8, Eventfd> {
            fn raw(&mut self) -> RawEnd {
                self.follow();
                self.place.rewind_to_first_view();
                let position = self.cursor.position();
                let ahead: fn(&Self) -> usize = $ahead;
                let (at, seam, seam_bytes) = self.place.bounds();
                RawEnd {
                    at,
                    seam,
                    seam_bytes,
                    position,
                    limit: self.cursor.limit(),
                    ahead: ahead(self),
                    mine: &raw const self.shared.$mine.position,
                    theirs: &raw const self.shared.$theirs.position,
                    bell: self.shared.$mine.waits.word(),
                    state: self.shared.state.word(),
                }
            }

            #[inline]
            fn catch_up(&mut self) {
                self.follow();
                self.shared.$mine.waits.wake();
            }
        }
    };
}

raw!(Producer, tail, head, |end| end.capacity);
raw!(Consumer, head, tail, |_| 0);
