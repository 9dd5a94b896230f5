//! Buffers that a thread makes ahead of their use while the store grows.
//!
//! ```text
//!  Writer::grow ── order ──▶ thread: map, touch every page ── ready ──▶ Writer::grow
//! ```
//! The kernel clears each page of new memory when it is first touched. Where that happened on the thread that appends, it took
//! longer than the copying: a store that had to grow by 150 MB within 0.3 s lost packets although its limit was far away. The
//! thread starts when the store first grows, and ends with the store.

use super::buffer::Empty;
use crate::memory::{MapConfig, halves};
use std::sync::mpsc::{Receiver, Sender, channel};

pub(super) struct Ahead {
    /// How to make a buffer.
    whole_buffer_bytes: usize,
    map: MapConfig,
    /// The number of buffers to have ready or in the making.
    target: usize,
    /// Buffers that were ordered and are not taken yet.
    ordered: usize,
    /// The two channels to the thread. It ends once they are dropped.
    channels: Option<(Sender<()>, Receiver<Empty>)>,
}

impl Ahead {
    pub fn new(whole_buffer_bytes: usize, map: MapConfig, target: usize) -> Self {
        Ahead {
            whole_buffer_bytes,
            map,
            target,
            ordered: 0,
            channels: None,
        }
    }

    /// Another buffer; `allowed`, at least 1, may still be added. If none is ready, this makes one itself, while the thread makes
    /// others. `None`: the system has no more memory.
    pub fn take(&mut self, allowed: usize) -> Option<Empty> {
        let buffer = match &self.channels {
            Some((_, ready)) => ready.try_recv().ok().or_else(|| {
                // If all that are allowed are being made, wait for the first of them.
                (self.ordered >= allowed).then(|| ready.recv().ok())?
            }),
            None => None,
        };
        let buffer = match buffer {
            Some(buffer) => {
                self.ordered -= 1;
                buffer
            }
            None => halves(self.whole_buffer_bytes, &self.map).ok()?,
        };
        self.order(allowed - 1);
        Some(buffer)
    }

    fn order(&mut self, allowed: usize) {
        let wanted = self.target.min(allowed);
        if self.ordered >= wanted {
            return;
        }
        if self.channels.is_none() {
            self.channels = start(self.whole_buffer_bytes, self.map.clone());
        }
        if let Some((orders, _)) = &self.channels {
            let sent = (self.ordered..wanted).take_while(|_| orders.send(()).is_ok());
            self.ordered += sent.count();
        }
    }
}

/// Starts the thread. `None`: the system has no more threads.
fn start(whole_buffer_bytes: usize, map: MapConfig) -> Option<(Sender<()>, Receiver<Empty>)> {
    let (orders, ordered) = channel();
    let (made, ready) = channel();
    let map = MapConfig {
        populate: true,
        ..map
    };
    let work = move || {
        // It ends when nobody orders or takes any more, or when there is no more memory.
        while let (Ok(()), Ok(buffer)) = (ordered.recv(), halves(whole_buffer_bytes, &map)) {
            if made.send(buffer).is_err() {
                break;
            }
        }
    };
    let thread = std::thread::Builder::new().name("forebay-memory".into());
    thread.spawn(work).ok().map(|_| (orders, ready))
}
