//! The producer's half of the protocol; [`reading`](super::reading) has the table of its edges.

use super::{
    error::{NotesFull, TooLong},
    layout::{BELL, ENDED, Entry, Layout, NOTED, NOTES, OLDEST, PUBLISHED},
};
use crate::{
    memory::words::{Ours, WORD},
    sync::{
        atomic::{
            Ordering::{self, Relaxed, Release, SeqCst},
            fence,
        },
        planted,
    },
};

/// Loads only words that it has stored itself.
#[derive(Debug)]
pub(super) struct Writing {
    words: Ours,
    layout: Layout,
    /// Sequence number of the next message.
    pub(super) sequence: u64,
    /// Where the next message may begin: its position counts words since the ring was made, and its offset is that in the data.
    next: Place,
    /// The oldest message that is intact; if there is none, the next one.
    pub(super) oldest: u64,
    oldest_place: Place,
    pub(super) published_bytes: u64,
    noted: usize,
    bell: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    position: u64,
    offset: usize,
}

fn release_unless(bug: &str) -> Ordering {
    if planted(bug) { Relaxed } else { Release }
}

impl Writing {
    /// `words` are zeros, and as many as `layout` has.
    pub(super) fn new(words: Ours, layout: Layout) -> Writing {
        layout.write(&words);
        Writing {
            words,
            layout,
            sequence: 0,
            next: Place::default(),
            oldest: 0,
            oldest_place: Place::default(),
            published_bytes: 0,
            noted: 0,
            bell: 0,
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Publishes `parts` as one message.
    #[inline]
    pub(super) fn publish(&mut self, parts: &[&[u8]]) -> Result<u64, TooLong> {
        let largest = self.layout.largest();
        let mut len = 0;
        for part in parts {
            len = part.len().saturating_add(len);
        }
        if len > largest {
            return Err(TooLong { largest });
        }
        let span = len.div_ceil(WORD);
        let mut place = self.next;
        if place.offset + span > self.layout.data {
            place.position += (self.layout.data - place.offset) as u64;
            place.offset = 0;
        }
        let sequence = self.sequence;
        let late = planted("broadcast-oldest-late");
        if !late {
            self.make_room(place, span);
        }
        if planted("broadcast-publish-early") {
            self.words.store(PUBLISHED, sequence + 1, Release);
        }
        let offset = place.offset;
        let entry = Entry { offset, len }.encode();
        self.words
            .store(self.layout.entry(sequence), entry, Relaxed); // Relaxed, also the bytes: PUBLISH orders them
        self.words.gather(self.layout.data(offset), parts, len);
        if late {
            self.make_room(place, span);
        }
        self.sequence += 1;
        let release = release_unless("broadcast-publish-relaxed");
        self.words.store(PUBLISHED, self.sequence, release); // PUBLISH
        place.position += span as u64;
        place.offset += span;
        if place.offset == self.layout.data {
            place.offset = 0;
        }
        self.next = place;
        self.published_bytes += len as u64;
        Ok(sequence)
    }

    /// Gives up the oldest messages until `span` words at `place`, and an entry, can be overwritten.
    #[inline]
    fn make_room(&mut self, place: Place, span: usize) {
        let end = place.position + span as u64;
        if !self.is_free(end, 0, 0) {
            self.give_up(place, end);
        }
    }

    /// Whether everything up to `end` plus `words`, and `entries` + 1 index entries, can be overwritten.
    #[inline(always)]
    fn is_free(&self, end: u64, words: u64, entries: u64) -> bool {
        end + words - self.oldest_place.position <= self.layout.data as u64
            && self.sequence - self.oldest + entries < self.layout.entries
    }

    /// Gives up a little more than needed: readers load the position of the oldest message after each copy, and it changes less
    /// often this way.
    fn give_up(&mut self, place: Place, end: u64) {
        let (words, entries) = (self.layout.data as u64 / 64, self.layout.entries / 64);
        while self.oldest < self.sequence && !self.is_free(end, words, entries) {
            self.oldest += 1;
            self.oldest_place = match self.oldest < self.sequence {
                true => self.place_after(self.oldest_place, self.oldest),
                false => place,
            };
        }
        // Release, so that a reader that loads it also sees that at least as many messages are published.
        self.words.store(OLDEST, self.oldest, Release);
        if !planted("broadcast-overwrite-without-fence") {
            // SeqCst, although Release would do for the words of the model: `memcpy` writes large parts past the caches of x86
            // processors, and such writes may overtake earlier stores. A full fence keeps them after `OLDEST`. `memcpy` itself
            // fences after them.
            fence(SeqCst); // OVERWRITE
        }
    }

    /// The place of a message, which follows the one at `before`.
    fn place_after(&self, before: Place, sequence: u64) -> Place {
        let entry = Entry::decode(self.words.load(self.layout.entry(sequence)));
        let ahead = match entry.offset >= before.offset {
            true => entry.offset - before.offset,
            false => entry.offset + self.layout.data - before.offset,
        };
        Place {
            position: before.position + ahead as u64,
            offset: entry.offset,
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
        self.words
            .gather(NOTES + self.noted, &parts, WORD + note.len());
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
        let release = release_unless("broadcast-end-relaxed");
        self.words.store(ENDED, 1, release); // END
        self.wake();
    }
}
