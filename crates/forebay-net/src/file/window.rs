//! The part of a file that is in memory: read once, decoded where it lies.
//!
//! ```text
//!  bytes  │ decoded │ to be decoded      │ free            │
//!         0       begin                 end              len
//!         └ byte `base` of the file
//! ```
//! More is read only when no whole record is left, so what moves to the front is less than one.

/// Bytes of the window while no record needs more. Half the second-level cache of a small machine:
/// what was read is still there when it is decoded.
const ROOM: usize = 256 << 10;

pub(super) struct Window {
    pub bytes: Vec<u8>,
    pub begin: usize,
    pub end: usize,
    base: u64,
}

impl Window {
    pub fn new() -> Self {
        Window {
            bytes: vec![0; ROOM],
            begin: 0,
            end: 0,
            base: 0,
        }
    }

    /// What is to be decoded.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.begin..self.end]
    }

    /// Where that begins in the file.
    pub fn offset(&self) -> u64 {
        self.base + self.begin as u64
    }

    /// Up to where the file was read.
    pub fn read_to(&self) -> u64 {
        self.base + self.end as u64
    }

    /// The free part, with which a record of `record` bytes fits.
    pub fn room(&mut self, record: usize) -> &mut [u8] {
        if self.begin > 0 {
            self.bytes.copy_within(self.begin..self.end, 0);
            self.base += self.begin as u64;
            self.end -= self.begin;
            self.begin = 0;
        }
        if self.bytes.len() < record {
            self.bytes.resize(record.next_multiple_of(ROOM), 0);
        }
        &mut self.bytes[self.end..]
    }
}
