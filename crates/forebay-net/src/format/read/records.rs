//! What [`Decoder`](super::Decoder) needs of each format: a reader of its records.

use super::{
    metadata::{Section, Skipped},
    step::{Fault, Step, Zeros},
};
use crate::port::{Block, Frame, Interface, Statistics};

/// The reader of one format.
///
/// The defaults suit a format without fast paths, and without anything but packets and interfaces. The methods are described at
/// those of [`Decoder`](super::Decoder).
pub(super) trait Records: Sized {
    fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Fault>;

    fn unit(&self) -> &'static str;

    fn interfaces(&self) -> &[Interface];

    fn recorded(&self) -> &[Option<Statistics>];

    fn for_packets(&self) -> Self;

    fn walk(&self, _bytes: &[u8], _to: usize) -> Option<usize> {
        None
    }

    #[inline(always)]
    fn plain<'a>(&self, _bytes: &'a [u8]) -> Option<(Frame<'a>, usize)> {
        None
    }

    #[inline(always)]
    fn is_as_composed(&self, _record: &[u8]) -> bool {
        false
    }

    fn classify_zeros(&mut self, _bytes: &[u8], _is_all: bool) -> Zeros {
        Zeros::Packets
    }

    fn took_empty(&mut self) {}

    fn last_statistics(&self) -> (u64, u32) {
        (0, 0)
    }

    fn sections(&self) -> &[Section] {
        &[]
    }

    fn take_blocks(&mut self) -> Vec<Block> {
        Vec::new()
    }

    #[inline]
    fn has_blocks(&self) -> bool {
        false
    }

    fn skipped(&self) -> Skipped {
        Skipped::default()
    }
}
