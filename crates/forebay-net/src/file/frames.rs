//! Hands out the packets of a file where they were read to, and lends that memory.

use super::File;
use crate::{
    format::read::Step,
    port::{Block, Frame, Frames, LentMemory},
};
use std::sync::Arc;

impl Frames for File {
    #[inline(always)]
    fn next_frame(&mut self) -> Option<Frame<'_>> {
        if self.counters.budget == 0 {
            return None;
        }
        loop {
            let bytes = &self.window.bytes[self.window.begin..self.window.end];
            if let Some((frame, len)) = self.decoder.packet(bytes) {
                self.window.begin += len;
                if !self.times.contains(frame.time_ns) {
                    continue;
                }
                self.counters.take(&frame, len);
                return Some(frame);
            }
            match self.decoder.next(bytes) {
                Ok(Step::Packet(frame, len)) => {
                    self.window.begin += len;
                    if frame.data.is_empty() {
                        self.decoder.took_empty();
                    }
                    if !self.times.contains(frame.time_ns) {
                        continue;
                    }
                    self.counters.take(&frame, len);
                    return Some(frame);
                }
                Ok(Step::Other(len)) => {
                    self.window.begin += len;
                    // The next burst offers it before its frames.
                    if self.decoder.has_blocks() {
                        break;
                    }
                }
                // A burst contains only frames of interfaces that existed when it began.
                Ok(Step::Described(len)) => {
                    self.window.begin += len;
                    break;
                }
                // The next `find_packet` sees the same record, and reads further, skips it or fails.
                Ok(Step::More(_) | Step::Zeros) | Err(_) => break,
            }
        }
        self.counters.budget = 0;
        self.counters.record_len = 0; // other blocks may have followed it
        None
    }

    fn put_back(&mut self) {
        if self.counters.record_len > 0 {
            self.window.begin -= self.counters.record_len;
            self.counters.put_back();
        }
    }

    fn take_blocks(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.offered)
    }

    fn memory(&self) -> Option<&[u8]> {
        Some(&self.window.bytes)
    }

    fn lend(&mut self) -> Option<LentMemory> {
        self.counters.record_len = 0;
        Some(Arc::new(self.window.lend()))
    }

    fn release(&mut self) {
        self.counters.budget = 0;
        self.offered.clear();
    }
}
