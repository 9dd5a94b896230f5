//! A reader's half of the protocol.
//!
//! It trusts no word of the memory: each is loaded once, checked, and only then used, and none causes a retry.
//!
//! The producer overwrites the oldest messages without asking, possibly while a reader copies one. A reader therefore copies
//! first and checks afterwards. This is the argument why bytes that pass the check are those of the message:
//!
//! 1. Before the producer overwrites any word of message `n`, it stores `OLDEST` > `n`, and then fences (Release).
//! 2. The reader copies the words of message `n`, then fences (Acquire), and then loads `OLDEST`.
//! 3. If a copied word came from a later message, the two fences synchronise, and the load returns a value above `n`.
//!
//! ```text
//!  producer:  OLDEST = n + 1 ── fence ── overwrite words ── PUBLISHED
//!  reader:    PUBLISHED ── copy words ── fence ── OLDEST ≤ n?   the message     OLDEST > n?   an overrun; the bytes are discarded
//! ```
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | PUBLISH | producer stores `PUBLISHED` | reader loads it | entries and bytes of all messages before it |
//! | OVERWRITE | producer stores `OLDEST`, fences, stores words of messages | reader loads words, fences, loads `OLDEST` | that these words may have been overwritten |
//! | END | producer stores `ENDED`, after its last message | reader loads it, then `PUBLISHED` | the last message |
//! | NOTE | producer stores `NOTED` | reader loads it | the notes before it |
//! | WAKE | producer publishes, stores `BELL`, wakes | reader loads `BELL`, finds nothing, sleeps if `BELL` is unchanged | that there is a message; no wake-up is lost |

use super::{
    Received,
    error::RecvError,
    layout::{BELL, ENDED, Entry, Layout, NOTED, NOTES, OLDEST, PUBLISHED},
};
use crate::{
    memory::words::{Theirs, WORD},
    sync::{
        Deadline,
        atomic::{Ordering::Acquire, fence},
        planted, spin_then_yield,
    },
};
use std::{ops::Range, time::Duration};

/// How long a reader sleeps before it looks again. Another reader can take its place in the kernel's queue of sleepers away
/// (`FUTEX_REQUEUE` needs only a mapping that can be read), and then no wake-up arrives.
#[cfg(not(loom))]
const LOOK_AGAIN: Duration = Duration::from_millis(250);

#[cfg(not(loom))]
fn at_most(left: Option<Duration>) -> Option<Duration> {
    Some(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN)))
}

/// In a model no reader is hostile, and a lost wake-up has to show.
#[cfg(loom)]
fn at_most(left: Option<Duration>) -> Option<Duration> {
    left
}

/// How often a reader yields its processor before it sleeps.
const YIELDS: u32 = 1;

/// Stores nothing in the memory.
#[derive(Debug)]
pub(super) struct Reading {
    words: Theirs,
    layout: Layout,
    /// Sequence number of the message to receive next.
    pub(super) next: u64,
    /// Messages published, as last loaded.
    published: u64,
    pub(super) received: u64,
    pub(super) received_bytes: u64,
    pub(super) lost: u64,
}

impl Reading {
    /// A reader of the messages that are published from now on; `None` if the memory does not hold a ring.
    pub(super) fn new(words: Theirs) -> Option<Reading> {
        let layout = Layout::read(&words)?;
        let mut reading = Reading {
            words,
            layout,
            next: 0,
            published: 0,
            received: 0,
            received_bytes: 0,
            lost: 0,
        };
        reading.seek(u64::MAX);
        Some(reading)
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Sequence numbers of the messages that are intact now.
    pub(super) fn intact(&self) -> Range<u64> {
        let oldest = self.words.load_acquire(OLDEST);
        let published = self.words.load_acquire(PUBLISHED); // PUBLISH
        oldest..published.max(oldest)
    }

    /// Whether message `sequence` is intact after all loads before this call.
    pub(super) fn is_intact(&self, sequence: u64) -> bool {
        if !planted("broadcast-intact-without-fence") {
            fence(Acquire); // OVERWRITE
        }
        sequence >= self.words.load(OLDEST)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.words.load_acquire(ENDED) != 0 // END
    }

    /// Continues at `sequence`, or as close to it as messages are intact.
    pub(super) fn seek(&mut self, sequence: u64) -> u64 {
        let intact = self.intact();
        self.published = intact.end;
        self.next = sequence.clamp(intact.start, intact.end);
        self.next
    }

    /// Copies the next message into `buffer`, without waiting.
    #[inline]
    pub(super) fn take(&mut self, buffer: &mut [u8]) -> Result<Received, RecvError> {
        let sequence = self.next;
        if sequence >= self.published {
            self.find_more()?;
        }
        let entry = Entry::decode(self.words.load(self.layout.entry(sequence)));
        let is_possible = entry.is_possible(&self.layout);
        let fits = is_possible && entry.len <= buffer.len();
        if fits {
            let data = self.layout.data(entry.offset);
            self.words.snapshot(data, &mut buffer[..entry.len]);
        }
        if !planted("broadcast-check-without-fence") {
            fence(Acquire); // OVERWRITE
        }
        let oldest = self.words.load(OLDEST);
        if oldest > sequence {
            return Err(self.overrun(oldest));
        }
        if !is_possible {
            return Err(RecvError::Broken);
        }
        if !fits {
            let needed = entry.len;
            return Err(RecvError::TooSmall { needed });
        }
        self.next += 1;
        self.received = self.received.saturating_add(1);
        self.received_bytes = self.received_bytes.saturating_add(entry.len as u64);
        let len = entry.len;
        Ok(Received { sequence, len })
    }

    /// Whether more messages are published.
    fn find_more(&mut self) -> Result<(), RecvError> {
        self.published = self.words.load_acquire(PUBLISHED); // PUBLISH
        if self.next < self.published {
            return Ok(());
        }
        if self.words.load_acquire(ENDED) == 0 {
            return Err(RecvError::Empty); // END
        }
        self.published = self.words.load_acquire(PUBLISHED); // PUBLISH
        match self.next < self.published {
            true => Ok(()),
            false => Err(RecvError::Closed),
        }
    }

    /// Skips what is lost. While the ring is open, it also skips an eighth of what is intact: the oldest messages would be
    /// overwritten while they are copied.
    #[cold]
    fn overrun(&mut self, oldest: u64) -> RecvError {
        let has_ended = self.is_closed();
        let oldest = oldest.max(self.words.load(OLDEST)); // END: the last one, if the ring has ended
        self.published = self.words.load_acquire(PUBLISHED).max(oldest); // PUBLISH
        let in_danger = if has_ended {
            0
        } else {
            (self.published - oldest) / 8
        };
        let next = oldest + in_danger;
        let lost = next - self.next;
        self.lost = self.lost.saturating_add(lost);
        self.next = next;
        RecvError::Overrun { lost }
    }

    /// Like [`take`](Reading::take), but waits for a message.
    pub(super) fn wait(
        &mut self,
        buffer: &mut [u8],
        deadline: &Deadline,
    ) -> Result<Received, RecvError> {
        let mut look = |reading: &mut Reading| match reading.take(buffer) {
            Err(RecvError::Empty) => None,
            answer => Some(answer),
        };
        if let Some(answer) = spin_then_yield(YIELDS, deadline, || look(self)) {
            return answer;
        }
        loop {
            let late = planted("broadcast-bell-late");
            let mut bell = self.words.load_acquire(BELL); // WAKE
            if let Some(answer) = look(self) {
                return answer;
            }
            if late {
                bell = self.words.load_acquire(BELL);
            }
            let left = deadline.left();
            if left.is_some_and(|left| left.is_zero()) {
                return Err(RecvError::TimedOut);
            }
            self.words.sleep(BELL, bell, at_most(left));
        }
    }

    /// Whether there is a message to take, or the end.
    #[cfg(not(loom))]
    pub(super) fn is_ready(&self) -> bool {
        is_ready(&self.words, self.next)
    }

    /// What another thread needs to wait for this reader.
    #[cfg(not(loom))]
    pub(super) fn watching(&self) -> Watching {
        Watching(self.words.share())
    }

    /// A copy of up to `max_bytes` of note `number`, if the producer has written that many.
    pub(super) fn note(&self, number: usize, max_bytes: usize) -> Option<Vec<u8>> {
        let noted = self.words.load_acquire(NOTED); // NOTE
        let end = usize::try_from(noted).ok()?.min(self.layout.notes);
        let (mut at, mut skipped) = (0, 0);
        while at < end {
            let len = usize::try_from(self.words.load(NOTES + at)).ok()?;
            let next = (at + 1).checked_add(len.div_ceil(WORD))?;
            if next > end {
                return None;
            }
            if skipped == number {
                let mut note = vec![0; len.min(max_bytes)];
                self.words.snapshot(NOTES + at + 1, &mut note);
                return Some(note);
            }
            (at, skipped) = (next, skipped + 1);
        }
        None
    }
}

/// Whether a reader at `next` has a message to take, or the ring has ended.
#[cfg(not(loom))]
fn is_ready(words: &Theirs, next: u64) -> bool {
    words.load_acquire(PUBLISHED) > next || words.load_acquire(ENDED) != 0 // PUBLISH, END
}

/// Waits for a reader in another thread.
#[cfg(not(loom))]
pub(super) struct Watching(Theirs);

#[cfg(not(loom))]
impl Watching {
    /// Blocks until a reader at `next` has a message to take, the ring has ended, or `is_wanted` is false.
    pub(super) fn wait(&self, next: impl Fn() -> u64, is_wanted: &dyn Fn() -> bool) {
        loop {
            let bell = self.0.load_acquire(BELL); // WAKE
            if !is_wanted() || is_ready(&self.0, next()) {
                return;
            }
            self.0.sleep(BELL, bell, at_most(None));
        }
    }
}
