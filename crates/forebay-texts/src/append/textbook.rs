//! The text's buffer, written anew: a count, an array of entries, a file. An entry in the last slot is flushed with the others;
//! what a failed flush did not write is forgotten.

use super::{entry::Entry, target::Rewound};
use std::io::{Result, Write};
use zerocopy::IntoBytes;

pub struct Textbook<T> {
    file: Rewound,
    count: usize,
    entries: Box<[T]>,
}

impl<T: Entry> Textbook<T> {
    pub fn new(file: Rewound, bytes: usize) -> Self {
        Textbook {
            file,
            count: 0,
            entries: vec![T::new(0); bytes / size_of::<T>()].into(),
        }
    }

    /// As a call: the entry comes through the caller's stack.
    #[inline(never)]
    pub fn append(&mut self, entry: T) -> Result<()> {
        self.append_inlined(entry)
    }

    /// The same, where the compiler sees both sides.
    #[inline(always)]
    pub fn append_inlined(&mut self, entry: T) -> Result<()> {
        if self.count < self.entries.len() - 1 {
            self.entries[self.count] = entry;
            self.count += 1;
            return Ok(());
        }
        self.append_slow(entry)
    }

    #[cold]
    #[inline(never)]
    fn append_slow(&mut self, entry: T) -> Result<()> {
        self.entries[self.count] = entry;
        self.count += 1;
        self.flush()
    }

    pub fn flush(&mut self) -> Result<()> {
        let count = std::mem::take(&mut self.count);
        self.file.write_all(self.entries[..count].as_bytes())
    }
}
