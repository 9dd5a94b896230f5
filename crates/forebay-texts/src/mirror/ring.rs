//! What every ring that is compared does.

use anyhow::Result;
use forebay::memory::{MapConfig, Region};

/// Bytes of each ring.
pub const CAPACITY: usize = 64 << 10;

/// A ring of bytes within one thread.
pub trait Ring: Sized {
    fn new() -> Result<Self>;
    /// Puts a whole message in; false if there is no room for it.
    fn put(&mut self, message: &[u8]) -> bool;
    /// Gets a whole message out into `target`, false if there are fewer bytes.
    fn get(&mut self, target: &mut [u8]) -> bool;
}

/// A ring that shows messages in place.
pub trait Shows: Ring {
    /// Shows a whole message of `len` bytes in place, and takes it out; false if there are fewer bytes.
    fn show(&mut self, len: usize) -> bool;
}

/// Memory as large as a ring's, all of it present.
pub fn plain() -> Result<Region> {
    Ok(Region::new(CAPACITY, &MapConfig::default())?)
}
