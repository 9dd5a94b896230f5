//! The settings of a pipe.

use super::digest::Hash;
use forebay::{Error, Result};
use std::time::Duration;

/// Settings of a pipe's buffer.
#[derive(Clone, Debug)]
pub struct PipeConfig {
    /// Size of the buffer in bytes: 1 or more.
    pub capacity_bytes: usize,
    /// Read at most this many bytes at once, and write exactly this many except at the end: 1 to the capacity. `None`: any size
    /// up to 1 MiB.
    pub block_bytes: Option<usize>,
    /// Start writing at this fill level, and again after the buffer ran empty: percent, 0 to 100.
    pub start_writing: u8,
    /// After the buffer was full, resume reading at this fill level: percent, 0 to 100.
    pub start_reading: u8,
    /// Maximum bytes read per second, 1 or more.
    pub read_rate: Option<u64>,
    /// Maximum bytes written per second, 1 or more.
    pub write_rate: Option<u64>,
    /// The checksum to compute of the bytes written.
    pub hash: Option<Hash>,
    /// Count the newlines among the bytes written.
    pub counts_lines: bool,
    /// Make regular files durable at the end.
    pub sync: bool,
    /// The interval of reports to the observer; `None`: only when [`Control::report`](super::Control::report) requests one.
    pub progress_every: Option<Duration>,
    /// Give up when no byte moves for this long.
    pub watchdog: Option<Duration>,
    /// Move pages from the input's pipe to the output's pipe inside the kernel (`splice(2)`), without copying them. Intermediate
    /// pipes hold up to `capacity_bytes`, at most 64 MiB. The input's and the output's pipe are enlarged to 1 MiB. From a regular file to
    /// a pipe, the kernel hands over the pages of its cache: what is changed or cut in the file while its pages wait in pipes is read in
    /// its new state. From a regular file to another one, the kernel copies (`copy_file_range(2)`), and some file systems let both refer to the same blocks.
    ///
    /// Set this to `false` for a producer that lends memory to its pipe with `vmsplice(2)`, or splices a file into it, and
    /// overwrites that memory or file once the pipe must have been drained. With splicing, the bytes in transit would change.
    /// Without it, every byte is copied out of the pipe, and no pipe is resized.
    pub splice: bool,
}

impl Default for PipeConfig {
    fn default() -> Self {
        PipeConfig {
            capacity_bytes: 64 << 20,
            block_bytes: None,
            start_writing: 0,
            start_reading: 100,
            read_rate: None,
            write_rate: None,
            hash: None,
            counts_lines: false,
            sync: false,
            progress_every: None,
            watchdog: None,
            splice: true,
        }
    }
}

impl PipeConfig {
    /// Checks the ranges that the fields document.
    ///
    /// # Errors
    /// A field is out of range.
    pub fn validate(&self) -> Result<()> {
        let bad = |what: &str, advice: &str| Err(Error::new("pipe", what).advise(advice));
        if self.capacity_bytes == 0 {
            return bad("a buffer of 0 bytes cannot hold anything", "Use 1 or more");
        }
        if self
            .block_bytes
            .is_some_and(|block| !(1..=self.capacity_bytes).contains(&block))
        {
            return bad(
                "the block does not fit in the buffer",
                "Use 1 byte up to the buffer's size",
            );
        }
        if self.start_writing > 100 || self.start_reading > 100 {
            return bad("a watermark is out of range", "Use 0 to 100 percent");
        }
        if self.read_rate == Some(0) || self.write_rate == Some(0) {
            return bad(
                "a rate of 0 would never finish",
                "Use at least 1 byte per second",
            );
        }
        Ok(())
    }

    /// Whether each byte may go as it comes, so that the kernel can hand it on without the buffer.
    pub(super) fn passes_as_it_comes(&self) -> bool {
        self.splice
            && self.block_bytes.is_none()
            && self.start_writing == 0
            && self.start_reading == 100
            && self.read_rate.is_none()
            && self.write_rate.is_none()
            && self.hash.is_none()
            && !self.counts_lines
    }
}

/// `percent` of `whole`, rounded up.
pub(super) fn part(whole: usize, percent: u8) -> usize {
    (whole as u128 * u128::from(percent)).div_ceil(100) as usize
}
