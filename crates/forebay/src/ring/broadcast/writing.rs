//! The producer's half of the protocol; [`reading`](super::reading) has the table of its edges.
//!
//! Messages are given up in groups of about 1/64 of the ring, for two reasons: the producer remembers where a group begins, and
//! need not look at each message again; and readers load the sequence number of the oldest message after each copy, so it
//! should change rarely.

use super::{
    BroadcastStats,
    error::{NotesFull, TooLong},
    layout::{BELL, ENDED, Entry, Layout, NOTED, NOTES, OLDEST, PUBLISHED},
};
use crate::{
    memory::words::{self, Ours, WORD},
    sync::{
        atomic::{
            Ordering::{self, Relaxed, Release, SeqCst},
            fence,
        },
        planted,
    },
};
use std::collections::VecDeque;

/// Loads only words that it has stored itself.
#[derive(Debug)]
pub(super) struct Writing {
    words: Ours,
    layout: Layout,
    /// Length in bytes of the longest message.
    largest: usize,
    /// The first word of the index, and the first word of the data.
    index: usize,
    data: usize,
    /// Where the next message begins, unless the end of the data is in its way.
    next: Start,
    /// The position of the first word of the data: positions count words since the ring was made.
    origin: u64,
    /// Messages that readers can receive; those up to the next one are only appended.
    published: u64,
    /// The oldest message that is intact; if there is none, the next one.
    pub(super) oldest: u64,
    /// The first message of each group whose words are not free. The first group begins with the oldest message, or before it if messages were
    /// retired.
    groups: VecDeque<Start>,
    /// A message that would end after this position, or has this sequence number, begins a group.
    next_group: Start,
    /// Up to here, nothing needs to be given up: the first position and the first sequence number that are not free.
    limit: Start,
    /// Up to this position, the cache lines of the data have been prefetched.
    fetched: u64,
    /// The least of these and of the end of the data: all that most messages need to be compared with.
    next_step: Start,
    /// Bytes of messages that were published, and of all that were appended.
    published_bytes: u64,
    appended_bytes: u64,
    noted: usize,
    bell: u64,
}

/// Where a message begins.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    position: u64,
    sequence: u64,
}

/// More groups than can be intact. Two in sequence have at least 1/64 of the words, or one has 1/64 of the messages.
const GROUPS: usize = 4 * (64 + 2);

/// Words of the data that are always prefetched ahead: 1 KiB, and as much at a time. The lines of a ring have left the caches until
/// they are written again. Stores wait for lines one after the other; a processor fetches many at a time if all are requested.
const AHEAD: u64 = 128;
/// The data of a ring of up to this many words, 2 MiB, stays in the caches of a processor.
const CACHED: usize = 1 << 18;

fn release_unless(bug: &str) -> Ordering {
    if planted(bug) { Relaxed } else { Release }
}

impl Writing {
    /// `words` are zeros, and as many as `layout` has.
    pub(super) fn new(words: Ours, layout: Layout) -> Writing {
        layout.write(&words);
        let limit = Start {
            position: layout.data as u64,
            sequence: layout.entries,
        };
        let fetched = match layout.data > CACHED {
            true => 0,
            false => u64::MAX / 2, // never
        };
        Writing {
            words,
            layout,
            largest: layout.largest(),
            index: layout.entry(0),
            data: layout.data(0),
            next: Start::default(),
            origin: 0,
            published: 0,
            oldest: 0,
            groups: VecDeque::with_capacity(GROUPS),
            next_group: Start::default(),
            limit,
            fetched,
            next_step: Start::default(),
            published_bytes: 0,
            appended_bytes: 0,
            noted: 0,
            bell: 0,
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn stats(&self) -> BroadcastStats {
        BroadcastStats {
            published: self.published,
            published_bytes: self.published_bytes,
            oldest: self.oldest,
        }
    }

    /// Appends `parts` as one message, which readers receive once it is [published](Writing::publish).
    #[inline(always)]
    pub(super) fn append(&mut self, parts: &[&[u8]]) -> Result<u64, TooLong> {
        let len = words::total(parts);
        if len > self.largest {
            let largest = self.largest;
            return Err(TooLong { largest });
        }
        let span = len.div_ceil(WORD) as u64;
        let mut next = self.next;
        if next.position + span > self.next_step.position
            || next.sequence >= self.next_step.sequence
        {
            next = self.step(span);
        }
        if planted("broadcast-publish-early") {
            self.words.store(PUBLISHED, next.sequence + 1, Release);
        }
        let offset = (next.position - self.origin) as usize;
        let entry = Entry { offset, len }.encode();
        let at = self.index + (next.sequence & (self.layout.entries - 1)) as usize;
        self.words.store(at, entry, Relaxed); // Relaxed, also the bytes: PUBLISH orders them
        self.words.gather(self.data + offset, parts);
        if planted("broadcast-oldest-late") {
            self.announce_oldest();
        }
        self.next = Start {
            position: next.position + span,
            sequence: next.sequence + 1,
        };
        self.appended_bytes += len as u64;
        Ok(next.sequence)
    }

    /// Publishes all messages that were appended.
    #[inline]
    pub(super) fn publish(&mut self) {
        if self.published == self.next.sequence {
            return;
        }
        self.published = self.next.sequence;
        self.published_bytes = self.appended_bytes;
        let release = release_unless("broadcast-publish-relaxed");
        self.words.store(PUBLISHED, self.published, release); // PUBLISH
    }

    /// Gives up messages, begins a group, returns to the beginning of the data, and prefetches lines, each if it is due for a
    /// message of `span` words. Returns where the message begins.
    #[inline(never)]
    fn step(&mut self, span: u64) -> Start {
        let data = self.layout.data as u64;
        if self.next.position + span > self.origin + data {
            self.origin += data;
            self.next.position = self.origin;
        }
        let (start, end) = (self.next, self.next.position + span);
        if !self.is_free(end) {
            self.give_up(end);
        }
        if end > self.next_group.position || start.sequence >= self.next_group.sequence {
            self.begin_group();
        }
        let ahead = end + 2 * AHEAD;
        let from = self.fetched.max(start.position);
        if from + AHEAD < ahead {
            let offset = |position: u64| (position - self.origin).min(data) as usize;
            let lines = self.layout.data(offset(from))..self.layout.data(offset(ahead));
            self.words.fetch(lines);
            self.fetched = ahead;
        }
        let due = self.limit.position.min(self.next_group.position);
        self.next_step = Start {
            position: due.min(self.fetched - AHEAD).min(self.origin + data),
            sequence: self.limit.sequence.min(self.next_group.sequence),
        };
        start
    }

    /// Whether everything up to `end`, and one entry of the index, can be overwritten.
    fn is_free(&self, end: u64) -> bool {
        end <= self.limit.position && self.next.sequence < self.limit.sequence
    }

    fn begin_group(&mut self) {
        self.groups.push_back(self.next);
        self.next_group = Start {
            position: self.next.position + (self.layout.data as u64 / 64).max(1),
            sequence: self.next.sequence + (self.layout.entries / 64).max(1),
        };
    }

    fn give_up(&mut self, end: u64) {
        while !self.is_free(end) {
            self.groups.pop_front();
            if self.groups.is_empty() {
                self.begin_group(); // with the next message, the only one that is left
            }
            let oldest = self.groups[0];
            self.oldest = self.oldest.max(oldest.sequence);
            self.limit = Start {
                position: oldest.position + self.layout.data as u64,
                sequence: oldest.sequence + self.layout.entries,
            };
        }
        if !planted("broadcast-give-up-unpublished") {
            self.publish(); // so that only published messages are lost
        }
        if !planted("broadcast-oldest-late") {
            self.announce_oldest();
        }
    }

    /// Gives up all messages before message `before`.
    pub(super) fn retire(&mut self, before: u64) {
        let before = before.min(self.next.sequence);
        if before > self.oldest {
            self.oldest = before;
            self.publish(); // so that only published messages are lost
            self.announce_oldest();
        }
    }

    fn announce_oldest(&mut self) {
        // Release, so that a reader that loads it also sees that at least as many messages are published.
        self.words.store(OLDEST, self.oldest, Release);
        if !planted("broadcast-overwrite-without-fence") {
            // SeqCst, although Release would do for the words of the model: `memcpy` writes large parts past the caches of x86
            // processors, and such writes may overtake earlier stores. A full fence keeps them after `OLDEST`. `memcpy` itself
            // fences after them.
            fence(SeqCst); // OVERWRITE
        }
    }

    /// Writes a note, and returns its number.
    pub(super) fn note(&mut self, note: &[u8]) -> Result<(), NotesFull> {
        let left = self.layout.notes - self.noted;
        let words = note.len().div_ceil(WORD);
        if words >= left {
            let left = left.saturating_sub(1) * WORD;
            return Err(NotesFull { left });
        }
        let len = note.len() as u64;
        let parts = [&len.to_ne_bytes(), note];
        self.words.gather(NOTES + self.noted, &parts);
        self.noted += 1 + words;
        self.words.store(NOTED, self.noted as u64, Release); // NOTE
        Ok(())
    }

    /// Wakes all readers that sleep.
    pub(super) fn wake(&mut self) {
        self.bell = self.bell.wrapping_add(1);
        self.words.store(BELL, self.bell, Release); // WAKE
        self.words.wake_all(BELL);
    }

    /// Announces that no more messages will come.
    pub(super) fn end(&mut self) {
        self.publish();
        let release = release_unless("broadcast-end-relaxed");
        self.words.store(ENDED, 1, release); // END
        self.wake();
    }
}
