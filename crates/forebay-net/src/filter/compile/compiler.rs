//! What is known while an expression is compiled: the headers before what is tested next, and the scratch cells in use.

use super::test::Test;
use crate::filter::{
    ast::Direction,
    error::Said,
    link::{Layers, LinkLayer},
    view::View,
};
use std::cell::Cell;

pub(super) struct Compiler {
    pub layers: Layers,
    pub view: View,
    /// Scratch cells are allocated from both ends: offsets of headers, which stay allocated, from the upper end, and
    /// intermediate numbers from the lower end. This is the lowest cell of the former.
    pub lowest_offset: u8,
    /// One more than the highest cell of the latter.
    pub numbers: u8,
    /// A test that cannot apply to these packets is false, instead of an error.
    pub untold_is_false: bool,
    /// Whether any test reads bytes of the link header.
    pub reads_link: Cell<bool>,
    /// Whether any test reads bytes after the link header.
    pub reads_payload: Cell<bool>,
}

impl Compiler {
    /// Combines the tests of source and destination for a direction.
    pub fn directed(
        &mut self,
        direction: Direction,
        mut end: impl FnMut(&mut Self, bool) -> Said<Test>,
    ) -> Said<Test> {
        Ok(match direction {
            Direction::Source => end(self, true)?,
            Direction::Destination => end(self, false)?,
            Direction::Either => end(self, true)?.or(end(self, false)?),
            Direction::Both => end(self, true)?.and(end(self, false)?),
        })
    }

    /// Allocates a scratch cell for an offset, until the end of the program.
    pub fn offset_cell(&mut self) -> Said<u8> {
        let cell = self.lowest_offset.checked_sub(1);
        self.lowest_offset =
            cell.ok_or("there are more headers in headers than BPF has scratch cells")?;
        Ok(self.lowest_offset)
    }

    /// Records that an intermediate number uses `cell`.
    pub fn number_cell(&mut self, cell: u8) -> u32 {
        self.numbers = self.numbers.max(cell.saturating_add(1));
        u32::from(cell)
    }
}

pub(super) fn unsupported_link(word: &str, link: LinkLayer) -> String {
    format!("'{word}' is not supported on link type {}", link.name())
}
