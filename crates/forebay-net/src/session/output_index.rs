//! The index of times that a file of the output ends with.

use crate::format::time_index::TimeIndex;
use forebay::{Result, store::Appender};

/// The times in the present file. `None`: its output has no index.
pub(super) struct OutputIndex(Option<TimeIndex>);

impl OutputIndex {
    pub fn new(has_index: bool) -> Self {
        OutputIndex(has_index.then(TimeIndex::new))
    }

    /// Begins the index of another file.
    pub fn next_file(&mut self) {
        *self = OutputIndex::new(self.0.is_some());
    }

    /// Notes the earliest and the latest time of packets that were written to `begin..end` of the file; `None`: they are unknown.
    #[inline]
    pub fn add_packets(&mut self, begin: u64, end: u64, times: Option<(u64, u64)>) {
        match (&mut self.0, times) {
            (Some(index), Some(times)) => index.add_packets(begin, end, times),
            (Some(index), None) => index.give_up(),
            (None, _) => {}
        }
    }

    /// Notes that the block at `begin` is not a packet, and that readers of some times need it, too.
    pub fn add_other(&mut self, begin: u64) {
        if let Some(index) = &mut self.0 {
            index.add_other(begin);
        }
    }

    /// Appends the index, if the file needs one, and returns its length in bytes, or 0; `None`: no buffer is empty.
    pub fn append(&self, store: &mut Appender) -> Result<Option<usize>> {
        let Some((index, len)) = self.0.as_ref().and_then(|it| Some((it, it.len()?))) else {
            return Ok(Some(0));
        };
        // A reservation may begin a buffer, and pad the one before. The second one has the same place.
        if store.reserve(len)?.is_none() {
            return Ok(None);
        }
        let offset = store.output_bytes();
        let Some(mut slot) = store.reserve(len)? else {
            return Ok(None);
        };
        index.encode(&mut slot, offset);
        slot.commit(0);
        Ok(Some(len))
    }
}
