//! The two copies of *A Tale of Two Copies*, by themselves: `build.rs` compiles this file once more and keeps the assembly.

/// Entries of `N` bytes, and how many there are.
pub struct Buffer<const N: usize> {
    pub count: usize,
    pub entries: [[u8; N]; 585],
}

impl<const N: usize> Buffer<N> {
    /// Copies an entry into the next place; false where there is none.
    #[inline(always)]
    fn append(&mut self, entry: [u8; N]) -> bool {
        let Some(place) = self.entries.get_mut(self.count) else {
            return false;
        };
        *place = entry;
        self.count += 1;
        true
    }
}

/// An entry of 28 bytes by value.
#[inline(never)]
pub fn append_28(buffer: &mut Buffer<28>, entry: [u8; 28]) -> bool {
    buffer.append(entry)
}

/// An entry of 32 bytes by value.
#[inline(never)]
pub fn append_32(buffer: &mut Buffer<32>, entry: [u8; 32]) -> bool {
    buffer.append(entry)
}
