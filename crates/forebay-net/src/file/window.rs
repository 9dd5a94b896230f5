//! The part of a file that is in memory: read once, and decoded in place.
//!
//! ```text
//!  bytes  │ decoded │ to be decoded      │ free            │
//!         0       begin                 end              len
//!         └ byte `base` of the file
//! ```
//! More is read only when no whole record is left, so less than one record moves to the front.

/// Bytes of the window, unless a record needs more. This is half the second-level cache of a small machine, so bytes that were
/// read are still cached when they are decoded.
const WINDOW_BYTES: usize = 256 << 10;

pub(super) struct Window {
    pub bytes: Vec<u8>,
    pub begin: usize,
    pub end: usize,
    base: u64,
}

impl Window {
    pub fn new() -> Self {
        Window {
            bytes: vec![0; WINDOW_BYTES],
            begin: 0,
            end: 0,
            base: 0,
        }
    }

    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.begin..self.end]
    }

    /// Their offset in the file.
    pub fn offset(&self) -> u64 {
        self.base + self.begin as u64
    }

    /// The offset up to which the file was read.
    pub fn read_to(&self) -> u64 {
        self.base + self.end as u64
    }

    /// Forgets what was read: the next byte is that at `offset` of the file.
    pub fn move_to(&mut self, offset: u64) {
        (self.begin, self.end, self.base) = (0, 0, offset);
    }

    /// Forgets what was read beyond `offset` of the file.
    pub fn end_at(&mut self, offset: u64) {
        let len = usize::try_from(offset.saturating_sub(self.base)).unwrap_or(usize::MAX);
        self.end = self.end.min(len).max(self.begin);
    }

    /// Hands over the memory, with what was decoded where it is. The rest moves to new memory.
    pub fn lend(&mut self) -> Vec<u8> {
        let rest = self.data();
        let mut bytes = vec![0; rest.len().max(WINDOW_BYTES)];
        bytes[..rest.len()].copy_from_slice(rest);
        self.base += self.begin as u64;
        (self.begin, self.end) = (0, self.end - self.begin);
        std::mem::replace(&mut self.bytes, bytes)
    }

    /// The free part, made large enough for a record of `record` bytes.
    pub fn room(&mut self, record: usize) -> &mut [u8] {
        if self.begin > 0 {
            self.bytes.copy_within(self.begin..self.end, 0);
            self.base += self.begin as u64;
            self.end -= self.begin;
            self.begin = 0;
        }
        if self.bytes.len() < record {
            self.bytes.resize(record.next_multiple_of(WINDOW_BYTES), 0);
        }
        &mut self.bytes[self.end..]
    }
}
