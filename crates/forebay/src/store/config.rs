//! How a store is built, and what it then is made of.

use super::{Abandon, buffer::BLOCK};
use crate::{Error, Result, memory::HugePages};
use std::time::Duration;

/// How a store is built.
///
/// ```
/// use forebay::store::Config;
/// assert!(Config::default().validate().is_ok());
/// let one = Config { buffers: 1, ..Config::default() };
/// assert!(one.validate().unwrap_err().to_string().contains("at least 2"));
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Buffers in all, at least 2: one being filled, one being written.
    pub buffers: usize,
    /// Bytes of each, at least 4096 and a multiple of it.
    pub buffer_bytes: usize,
    /// The longest record that will be reserved; buffers are made longer by so much.
    pub record_bytes: usize,
    /// A buffer with something in it leaves after this time, full or not; zero: at every tick.
    pub flush_every: Duration,
    /// Write on a thread of its own. Off, hand-over writes, which is what virtual time needs.
    pub thread: bool,
    /// Ask for huge pages.
    pub huge_pages: bool,
    /// How the outside can give the store up.
    pub abandon: Abandon,
}

impl Default for Config {
    /// 16 buffers of 4 MiB, records up to 64 KiB, a flush a second, a writer thread, huge pages.
    fn default() -> Self {
        Config {
            buffers: 16,
            buffer_bytes: 4 << 20,
            record_bytes: 64 << 10,
            flush_every: Duration::from_secs(1),
            thread: true,
            huge_pages: true,
            abandon: Abandon::default(),
        }
    }
}

impl Config {
    /// Checks the ranges given at each field.
    ///
    /// # Errors
    /// A field is out of its range.
    pub fn validate(&self) -> Result<()> {
        let bad = |what: String, advice: &str| Err(Error::new("store", what).advise(advice));
        if self.buffers < 2 {
            let what = format!("{} buffers are too few", self.buffers);
            return bad(
                what,
                "Use at least 2: one is filled while another is written",
            );
        }
        if self.buffer_bytes < BLOCK || !self.buffer_bytes.is_multiple_of(BLOCK) {
            let what = format!("buffers of {} bytes cannot be used", self.buffer_bytes);
            return bad(what, "Use a multiple of 4096");
        }
        if self.record_bytes == 0 {
            let what = "records of 0 bytes cannot be stored".into();
            return bad(what, "Set record_bytes to the longest record");
        }
        Ok(())
    }
}

/// What a store is made of.
#[derive(Clone, Copy, Debug)]
pub struct Got {
    /// Capacity of all buffers.
    pub bytes: usize,
    /// Capacity of each.
    pub buffer_bytes: usize,
    /// Whole buffers go past the page cache.
    pub direct: bool,
    /// A thread of its own writes.
    pub thread: bool,
    /// Whether the buffers lie in huge pages.
    pub huge_pages: HugePages,
}
