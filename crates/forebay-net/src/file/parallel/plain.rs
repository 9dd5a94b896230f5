//! Notes on the most common kind of window: it holds only packets of one interface, encoded as an output would encode them.
//!
//! ```text
//!  window    │ rec │ rec │ rec │ rec │ rec │ rec │ rec │ rec │
//!  stretches │ 0 ───── 1 │           │ 4 ─────────── 6 │           matching packets, in place
//!  bytes     │ rec │ rec │ rec │ rec │ rec │                       side by side, in `runs`
//! ```
//! A matching packet is noted as its ordinal only: four bytes, where a full description takes sixty. It is decoded again when it
//! is needed by itself.

use super::{
    decoder_state::DecoderState,
    run::{BatchRun, MAX_RUN, MAX_RUN_BYTES},
};
use crate::port::Frame;
use std::{ops::Range, sync::Arc};

#[derive(Default)]
pub(super) struct Plain {
    /// Decodes the packets; `None`: the window is of another kind, and nothing here is valid.
    pub state: Option<Arc<DecoderState>>,
    pub ordinals: Vec<u32>,
    /// Their records in the window, adjacent ones as one range.
    stretches: Vec<Range<u32>>,
    /// Their records in the batch.
    pub bytes: Range<u32>,
}

impl Plain {
    pub fn clear(&mut self) {
        self.state = None;
        self.ordinals.clear();
        self.stretches.clear();
        self.bytes = 0..0;
    }

    /// Notes a matching packet, with its captured and its wire length; `false`: a run [begins](Plain::begin_run) with it.
    #[inline(always)]
    #[must_use]
    pub fn note(
        &mut self,
        ordinal: u32,
        record: Range<u32>,
        (caplen, wire_len): (u32, u32),
        runs: &mut [BatchRun],
    ) -> bool {
        self.ordinals.push(ordinal);
        let len = record.end - record.start;
        self.bytes.end += len;
        match self.stretches.last_mut() {
            Some(last) if last.end == record.start => last.end = record.end,
            _ => self.stretches.push(record),
        }
        match runs.last_mut() {
            Some(run) if run.frames < MAX_RUN && run.end - run.begin + len <= MAX_RUN_BYTES => {
                run.frames += 1;
                run.end += len;
                run.longest = run.longest.max(caplen);
                run.wire_bytes += u64::from(wire_len);
                run.cut += u32::from(caplen < wire_len);
                true
            }
            _ => false,
        }
    }

    /// Begins a run with the packet that was noted last.
    pub fn begin_run(&self, frame: &Frame<'_>, record: Range<u32>, runs: &mut Vec<BatchRun>) {
        runs.push(BatchRun {
            first: self.ordinals.len() as u32 - 1,
            frames: 1,
            begin: self.bytes.end - (record.end - record.start),
            end: self.bytes.end,
            interface: frame.interface,
            longest: frame.data.len() as u32,
            wire_bytes: frame.wire_len.into(),
            cut: u32::from((frame.data.len() as u32) < frame.wire_len),
            time_ns: frame.time_ns,
        });
    }

    /// Moves the records side by side into `bytes`. If they are most of the window, the two buffers are swapped. Otherwise the
    /// records are copied, and the window, which is still in the cache, takes the next read.
    pub fn take_bytes(&mut self, bytes: &mut Vec<u8>, window: &mut Vec<u8>, runs: &mut [BatchRun]) {
        let total = self.bytes.end as usize;
        let ranges = self.stretches.iter();
        let ranges = ranges.map(|range| range.start as usize..range.end as usize);
        if total > window.len() / 4 * 3 {
            let base = self.stretches[0].start;
            let mut at = base as usize;
            for range in ranges {
                let len = range.len();
                if at < range.start {
                    window.copy_within(range, at);
                }
                at += len;
            }
            std::mem::swap(bytes, window);
            self.bytes = base..at as u32;
            for run in runs {
                run.begin += base;
                run.end += base;
            }
        } else {
            // Never shrunk, because growing again would zero the bytes.
            if bytes.len() < total {
                bytes.resize(total, 0);
            }
            let mut at = 0;
            for range in ranges {
                let end = at + range.len();
                bytes[at..end].copy_from_slice(&window[range]);
                at = end;
            }
        }
    }

    /// All `runs` together as one run.
    pub fn whole(&self, runs: &[BatchRun]) -> Option<BatchRun> {
        let first = runs.first()?;
        Some(BatchRun {
            frames: self.ordinals.len() as u32,
            end: self.bytes.end,
            longest: runs.iter().map(|run| run.longest).max()?,
            wire_bytes: runs.iter().map(|run| run.wire_bytes).sum(),
            cut: runs.iter().map(|run| run.cut).sum(),
            ..*first
        })
    }
}
