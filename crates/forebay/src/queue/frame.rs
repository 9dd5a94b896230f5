//! The record layout of a message in the queue's memory. Only arithmetic; it accesses no memory.
//!
//! `bytes` places such frames in memory, and `core` moves them from state to state.
//!
//! ```text
//!  position (a multiple of 8)                                            position + span(len)
//!    │ state u32 │ len u32 │ sequence u64 │ len bytes of the message │ 0–7 unused │ next frame
//!    │ moved as in `core`                 │  8-aligned               │
//! ```
//!
//! Positions count bytes since the queue was made and never wrap: at 100 GB/s that would take 5 years. A frame may cross the
//! end of the memory; in the mirrored mapping it is contiguous nevertheless.

/// Bytes of header before every message.
pub(super) const HEADER: usize = 16;

/// Every frame begins at a multiple of this, so that the state and the length never cross the end of the memory.
pub(super) const ALIGN: usize = 8;

/// Bytes of memory that a message of `len` bytes occupies, header included.
pub(super) const fn span(len: usize) -> u64 {
    (HEADER + len.next_multiple_of(ALIGN)) as u64
}

/// The longest message that `capacity` bytes (a multiple of 8) can hold.
pub(super) const fn largest(capacity: usize) -> usize {
    let room = capacity - HEADER;
    let sayable = (u32::MAX as usize) / ALIGN * ALIGN; // the largest value that `len` can hold
    if room < sayable { room } else { sayable }
}

/// The state of a frame. `core` has the diagram of the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// Not a valid state: the memory was overwritten.
    Invalid = 0,
    /// Reserved: a sender is filling it.
    Busy = 1,
    /// Committed: the next receiver may take it.
    Ready = 2,
    /// A receiver is reading it.
    Taken = 3,
    /// Read: its bytes are free as soon as all bytes before them are.
    Done = 4,
    /// Given up by its sender; receivers pass over it.
    Aborted = 5,
    /// Dropped as the oldest in a full queue.
    Dropped = 6,
    /// Its sender died before it committed; receivers pass over it.
    Torn = 7,
    /// Its receiver died; another receiver may take it.
    Returned = 8,
    /// Its receiver died, and the queue does not deliver it again.
    Abandoned = 9,
}

/// The number of the peer that holds a lock or a frame. [`Owner::NOBODY`] in a queue of one process, where no thread dies
/// alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner(u32);

impl Owner {
    pub(super) const NOBODY: Owner = Owner(0);
    /// Bits of an owner in a word that also holds other fields.
    pub(super) const BITS: u32 = 28;

    /// The `number`th peer, counted from 1. Numbers repeat after 268 million.
    pub(super) fn new(number: u32) -> Owner {
        Owner(number & ((1 << Self::BITS) - 1))
    }

    pub(super) fn bits(self) -> u32 {
        self.0
    }
}

/// The low bits of a state word hold the kind, the others the owner.
const KIND_BITS: u32 = 4;
const _: () = assert!(KIND_BITS + Owner::BITS == u32::BITS);

/// The owner of a frame with this state word.
pub(super) fn owner(word: u32) -> Owner {
    Owner(word >> KIND_BITS)
}

impl Kind {
    /// The kind in a state word.
    pub(super) fn of(word: u32) -> Kind {
        match word & ((1 << KIND_BITS) - 1) {
            1 => Kind::Busy,
            2 => Kind::Ready,
            3 => Kind::Taken,
            4 => Kind::Done,
            5 => Kind::Aborted,
            6 => Kind::Dropped,
            7 => Kind::Torn,
            8 => Kind::Returned,
            9 => Kind::Abandoned,
            _ => Kind::Invalid,
        }
    }

    /// The state word of a frame without an owner.
    pub(super) fn word(self) -> u32 {
        self as u32
    }

    /// The state word of a frame that `owner` owns.
    pub(super) fn of_owner(self, owner: Owner) -> u32 {
        self as u32 | owner.0 << KIND_BITS
    }

    /// Whether a frame below the head is finished, so that its bytes may be used again.
    pub(super) fn is_finished(self) -> bool {
        matches!(
            self,
            Kind::Done | Kind::Aborted | Kind::Dropped | Kind::Torn | Kind::Abandoned
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_any_length_follow_each_other_aligned() {
        for len in 0..100 {
            assert_eq!(span(len) % ALIGN as u64, 0);
            assert!(
                span(len) >= (HEADER + len) as u64 && span(len) < (HEADER + len + ALIGN) as u64
            );
        }
    }

    #[test]
    fn the_largest_message_fills_the_memory_exactly() {
        for capacity in [4096, 65536, 1 << 30] {
            assert_eq!(span(largest(capacity)), capacity as u64);
        }
        assert!(u32::try_from(largest(1 << 40)).is_ok());
    }

    #[test]
    fn every_kind_survives_its_word_and_nothing_else_is_a_kind() {
        let me = Owner::new(u32::MAX);
        for bits in 0..1 << KIND_BITS {
            let kind = Kind::of(bits);
            assert_eq!(kind == Kind::Invalid, !(1..=9).contains(&bits));
            let word = kind.of_owner(me);
            assert_eq!((Kind::of(word), owner(word)), (kind, me));
        }
    }
}
