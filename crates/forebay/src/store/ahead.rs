//! Buffers that a thread makes ahead of their use while the store grows.
//!
//! ```text
//!  Writer::grow ── order ──▶ thread: map, touch every page ── ready ──▶ Writer::grow
//! ```
//! The kernel clears each page of new memory when it is first touched. Where that happened on the thread that appends, it took
//! longer than the copying: a store that had to grow by 150 MB within 0.3 s lost packets although its limit was far away. The
//! thread starts when the store first grows, and ends with the store.

use super::{StoreConfig, buffer::Empty};
use crate::{
    memory::{MapConfig, halves},
    ring::spsc::{Consumer, Producer, RingConfig, ring_with},
    sync::Park,
};

/// The two rings to the thread, seen from the store. The thread ends once they are dropped.
type Ends = (Producer<(), Park>, Consumer<Empty, Park>);

pub(super) struct Ahead {
    make: Make,
    /// The number of buffers to have ready or in the making.
    target: usize,
    /// Buffers that were ordered and are not taken yet.
    ordered: usize,
    ends: Option<Ends>,
}

/// How to make a buffer.
#[derive(Clone)]
struct Make {
    whole_buffer_bytes: usize,
    map: MapConfig,
    is_frozen: bool,
}

impl Make {
    fn make(&self) -> Option<Empty> {
        halves(self.whole_buffer_bytes, &self.map, self.is_frozen).ok()
    }
}

impl Ahead {
    /// `is_live`: records are shown to readers, so they cannot be changed any more.
    pub fn new(config: &StoreConfig, is_live: bool) -> Self {
        Ahead {
            make: Make {
                whole_buffer_bytes: config.whole_buffer_bytes(),
                map: config.map(),
                is_frozen: is_live,
            },
            target: config.buffers,
            ordered: 0,
            ends: None,
        }
    }

    /// Another buffer; `allowed`, at least 1, may still be added. If none is ready, this makes one itself, while the thread makes
    /// others. `None`: the system has no more memory.
    pub fn take(&mut self, allowed: usize) -> Option<Empty> {
        let buffer = match &mut self.ends {
            Some((_, ready)) => ready.try_pop().ok().or_else(|| {
                // If all that are allowed are being made, wait for the first of them.
                (self.ordered >= allowed).then(|| ready.pop().ok())?
            }),
            None => None,
        };
        let buffer = match buffer {
            Some(buffer) => {
                self.ordered -= 1;
                buffer
            }
            None => self.make.make()?,
        };
        self.order(allowed - 1);
        Some(buffer)
    }

    fn order(&mut self, allowed: usize) {
        let wanted = self.target.min(allowed);
        if self.ordered >= wanted {
            return;
        }
        if self.ends.is_none() {
            self.ends = start(self.make.clone(), self.target);
        }
        if let Some((orders, _)) = &mut self.ends {
            let sent = (self.ordered..wanted).take_while(|_| orders.try_push(()).is_ok());
            self.ordered += sent.count();
        }
    }
}

/// Starts the thread. `None`: the system has no more threads or mappings.
fn start(mut make: Make, capacity: usize) -> Option<Ends> {
    let config = RingConfig {
        capacity,
        populate: false,
        ..RingConfig::default()
    };
    let (orders, mut ordered) = ring_with::<(), Park>(&config).ok()?;
    let (mut made, ready) = ring_with::<Empty, Park>(&config).ok()?;
    make.map.populate = true;
    let work = move || {
        // It ends when nobody orders or takes any more, or when there is no more memory.
        while let (Ok(()), Some(buffer)) = (ordered.pop(), make.make()) {
            if made.try_push(buffer).is_err() {
                break;
            }
        }
    };
    let thread = std::thread::Builder::new().name("forebay-memory".into());
    thread.spawn(work).ok().map(|_| (orders, ready))
}
