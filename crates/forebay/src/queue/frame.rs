//! The record layout of a message in the queue's memory: pure arithmetic, no memory.
//!
//! It imports nothing. Read `bytes` next, where such frames lie, then `core`, which moves them from state to state.
//!
//! ```text
//!  position (a multiple of 8)                                            position + span(len)
//!    │ state u32 │ len u32 │ sequence u64 │ len bytes of the message │ 0–7 unused │ next frame
//!    │  who moves it: core                │  8-aligned               │
//! ```
//!
//! Positions count bytes since the queue was made and never wrap: at 100 GB/s that would take 5 years. A frame may
//! lie across the end of the memory; in the mirror it is in one piece all the same.

/// Bytes in front of every message.
pub(super) const HEADER: usize = 16;

/// Every frame begins at a multiple of this, so that state and length never lie across the end of the memory.
pub(super) const ALIGN: usize = 8;

/// Bytes that a message of `len` bytes takes up in the memory.
pub(super) const fn span(len: usize) -> u64 {
    (HEADER + len.next_multiple_of(ALIGN)) as u64
}

/// The longest message that `capacity` bytes (a multiple of 8) can hold.
pub(super) const fn largest(capacity: usize) -> usize {
    let room = capacity - HEADER;
    let sayable = (u32::MAX as usize) / ALIGN * ALIGN; // what `len` can say
    if room < sayable { room } else { sayable }
}

/// Where a frame stands in its life; the edges between are those of `core`'s picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// Reserved: a sender is filling it.
    Busy = 1,
    /// Committed: the next receiver may take it.
    Ready = 2,
    /// A receiver is reading it.
    Taken = 3,
    /// Read: its bytes are free once those before it are.
    Done = 4,
    /// Given up by its sender; whoever comes to it passes over it.
    Aborted = 5,
    /// Dropped as the oldest in a full queue.
    Dropped = 6,
}

impl Kind {
    /// What a state word says; `None` where nobody of ours wrote it.
    pub(super) fn of(word: u32) -> Option<Kind> {
        Some(match word {
            1 => Kind::Busy,
            2 => Kind::Ready,
            3 => Kind::Taken,
            4 => Kind::Done,
            5 => Kind::Aborted,
            6 => Kind::Dropped,
            _ => return None,
        })
    }

    pub(super) fn word(self) -> u32 {
        self as u32
    }

    /// Whether a frame below the head is over and done with, so that its bytes may be used again.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Kind::Done | Kind::Aborted | Kind::Dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_follow_each_other_aligned_whatever_the_length() {
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
        for word in 0..100 {
            assert_eq!(Kind::of(word).map_or(word, Kind::word), word);
        }
        assert_eq!(Kind::of(0), None);
    }
}
