//! Where everything lies in the memory of a broadcast ring.
//!
//! ```text
//!  word  0     magic, version, words of data, entries, words of notes     written once, before any reader can attach
//!       16     PUBLISHED, ENDED
//!       32     OLDEST
//!       48     BELL
//!       64     NOTED
//!       80     notes: │ length │ bytes, in whole words │ length │ …
//!        …     index: one word for each entry, │ offset in the data, in words: 32 bits │ length in bytes: 32 bits │
//!        …     data:  messages, each in whole words and without a wrap, up to the end of the memory
//! ```

use super::BroadcastConfig;
use crate::{
    Error, Result,
    memory::words::{Ours, Theirs, WORD},
    sync::atomic::Ordering::Relaxed,
};

/// What errors of a broadcast ring are about.
pub(super) const ON: &str = "broadcast ring";
const MAGIC: u64 = u64::from_ne_bytes(*b"forebayB");
const VERSION: u64 = 1;
/// 32 GiB.
const MAX_WORDS: usize = 1 << 32;

/// Number of messages published.
pub(super) const PUBLISHED: usize = 16;
/// Not 0 if the producer has closed the ring; it publishes nothing after that.
pub(super) const ENDED: usize = 17;
/// Sequence number of the oldest message that is intact. The producer may be overwriting all older ones.
pub(super) const OLDEST: usize = 32;
/// Changes with every wake-up.
pub(super) const BELL: usize = 48;
/// Words of the notes that are written.
pub(super) const NOTED: usize = 64;
/// Where the notes begin.
pub(super) const NOTES: usize = 80;

/// The sizes and places that the first words announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Words of notes.
    pub(super) notes: usize,
    /// Number of entries in the index, a power of two.
    pub(super) entries: u64,
    /// Words of data: at least 2, and their offsets fit in 32 bits.
    pub(super) data: usize,
}

impl Layout {
    /// A layout for at least what `config` asks for that fills whole pages of `page` words.
    pub(super) fn new(config: &BroadcastConfig, page: usize) -> Result<Layout> {
        let refused = |what: &str| Error::invalid("broadcast ring", format!("making one {what}"));
        let entries = match config.messages {
            0 => return Err(refused("for no messages").advise("Allow at least 1 in `messages`")),
            some => some.checked_next_power_of_two(),
        };
        if config.data_bytes == 0 {
            return Err(refused("without data").advise("Allow at least 1 in `data_bytes`"));
        }
        let too_large =
            || refused("larger than 32 GiB").advise("Ask for less in `data_bytes` or `messages`");
        let mut layout = Layout {
            notes: config.note_bytes.div_ceil(WORD),
            entries: entries.ok_or_else(too_large)? as u64,
            data: config.data_bytes.div_ceil(WORD).max(2),
        };
        let words = layout.words().ok_or_else(too_large)?;
        layout.data += words.next_multiple_of(page) - words;
        match layout.is_possible() {
            true => Ok(layout),
            false => Err(too_large()),
        }
    }

    /// The layout that the memory announces, if it fills the memory exactly.
    pub(super) fn read(words: &Theirs) -> Option<Layout> {
        if words.len() < NOTES || [words.load(0), words.load(1)] != [MAGIC, VERSION] {
            return None;
        }
        let layout = Layout {
            data: words.load(2) as usize,
            entries: words.load(3),
            notes: words.load(4) as usize,
        };
        (layout.is_possible() && layout.words() == Some(words.len())).then_some(layout)
    }

    /// Writes the first words.
    pub(super) fn write(&self, words: &Ours) {
        let front = [
            MAGIC,
            VERSION,
            self.data as u64,
            self.entries,
            self.notes as u64,
        ];
        for (at, value) in front.into_iter().enumerate() {
            words.store(at, value, Relaxed); // Relaxed: nothing else has the memory yet
        }
    }

    fn is_possible(&self) -> bool {
        self.entries.is_power_of_two() && (2..=u32::MAX as usize).contains(&self.data)
    }

    /// Words of the whole memory; `None` if they are too many.
    pub(super) fn words(&self) -> Option<usize> {
        let entries = usize::try_from(self.entries).ok()?;
        let front = NOTES.checked_add(self.notes)?.checked_add(entries)?;
        let words = front.checked_add(self.data)?;
        (words <= MAX_WORDS).then_some(words)
    }

    /// The word of the index for the message with this sequence number.
    #[inline(always)]
    pub(super) fn entry(&self, sequence: u64) -> usize {
        NOTES + self.notes + (sequence & (self.entries - 1)) as usize
    }

    /// The word at this offset of the data.
    #[inline(always)]
    pub(super) fn data(&self, offset: usize) -> usize {
        NOTES + self.notes + self.entries as usize + offset
    }

    /// Length in bytes of the longest message. Two of them fit, so the distance between two consecutive messages is
    /// less than the data area.
    #[inline(always)]
    pub(super) fn largest(&self) -> usize {
        (self.data / 2 * WORD).min(u32::MAX as usize)
    }
}

/// An entry of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Where the message begins, in words of the data.
    pub(super) offset: usize,
    /// Length in bytes.
    pub(super) len: usize,
}

impl Entry {
    #[inline(always)]
    pub(super) fn encode(self) -> u64 {
        (self.offset as u64) << 32 | self.len as u64
    }

    #[inline(always)]
    pub(super) fn decode(word: u64) -> Entry {
        Entry {
            offset: (word >> 32) as usize,
            len: word as u32 as usize,
        }
    }

    /// Whether a producer could have written it: the message lies inside the data, and is not too long.
    #[inline(always)]
    pub(super) fn is_possible(self, layout: &Layout) -> bool {
        self.len <= layout.largest() && self.offset + self.len.div_ceil(WORD) <= layout.data
    }
}
