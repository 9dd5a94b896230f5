//! What the decoders of both formats have in common.

use std::io;

/// Why reading cannot continue.
#[derive(Debug)]
pub(in crate::file) enum Failed {
    System(io::Error),
    /// What is wrong with the data.
    Data(String),
}

impl Failed {
    pub(super) fn at(format: &str, what: &str, offset: u64) -> Self {
        Failed::Data(format!("the {format} data {what} at byte {offset}"))
    }
}

/// What one call of [`Decompressor::step`] did.
pub(super) struct Progress {
    pub read: usize,
    pub written: usize,
    /// The input ends inside a gzip member or zstd frame.
    pub is_inside: bool,
}

pub(super) trait Decompressor: Send {
    fn name(&self) -> &'static str;

    /// Decompresses some of `input`, which is at `offset` in the file, into `output`. If not `is_inside`, a member or frame
    /// begins with this input.
    fn step(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        offset: u64,
        is_inside: bool,
    ) -> Result<Progress, Failed>;
}
