//! A worker: claims a window and reads it, learns where the first record begins, and sifts.
//!
//! ```text
//!  claim ─▶ pread ─▶ take the baton ─▶ skim ─▶ pass it on ─▶ sift ─▶ batch out
//!                                        └─▶ sift with the baton in hand ─▶ pass it on ─▶ batch out
//!                                            (something other than packets, the end, a fault)
//! ```
//! Skimming goes by the lengths of records alone and takes a small part of the time, so the worker
//! behind waits little. A window in which it finds anything that packets depend on, or cannot go on,
//! is read as a whole by the decoder that travels with the baton: then everything in it is in the
//! order of the file, and there is one place where interfaces, statistics and faults are dealt with.
//!
//! What a skimmed window has wrong inside a record is found when the baton is gone. The workers
//! behind then read on for nothing: the port never looks past an ending.
//!
//! Touches the front, its rings, the file (`pread`) and its own memory. Read `filter` next.

use super::{
    batch::{Batch, Ending, News, Told},
    buffer_pool::BufferPool,
    decoder_state::{Baton, DecoderState},
    filter::{Pause, sift, sift_all, sift_plain},
    notify::Notify,
    order::Order,
    worker_queue::RING_BELOW,
};
use crate::{
    filter::bpf::BatchFilter,
    format::read::{Decoder, Zeros},
};
use forebay::{
    ring::spsc::{Consumer, Producer},
    sync::Park,
};
use std::{
    fs::File,
    io::{self, ErrorKind},
    os::unix::fs::FileExt,
    sync::Arc,
};

/// Bytes that are read beyond a window: as a rule the rest of its last record.
const LEEWAY: usize = 2048;

pub(super) struct Worker {
    pub file: Arc<File>,
    /// Where the first window begins in the file, and the length of each.
    pub begin: u64,
    pub len: usize,
    pub front: Arc<Order>,
    pub empty: Consumer<Batch, Park>,
    pub full: Producer<Batch>,
    pub chime: Notify,
    pub shelf: BufferPool,
    pub guess: Guess,
    /// Dropped behind `full`: who is woken sees that this worker is gone.
    pub _leaving: Leaving,
}

/// Where one worker stops, also in a panic, all do; and the port hears of it.
pub(super) struct Leaving(pub Arc<Order>, pub Notify);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.close();
        self.1.ring();
    }
}

/// Whether the next window is a plain one: most files have either no others, or hardly any.
#[derive(Default)]
pub(super) struct Guess {
    /// Windows until it is tried again, and how many it was the last time.
    left: u32,
    pause: u32,
}

/// Windows between two tries at most.
const LONGEST_PAUSE: u32 = 31;

impl Guess {
    fn is_plain(&mut self) -> bool {
        let is_due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_due
    }

    fn learn(&mut self, was_plain: bool) {
        self.pause = match was_plain {
            true => 0,
            false => (2 * self.pause + 1).min(LONGEST_PAUSE),
        };
        self.left = self.pause;
    }
}

/// The bytes of one window, as far as they were read.
struct Window {
    bytes: Vec<u8>,
    end: usize,
    /// Where it begins in the file.
    base: u64,
}

impl Window {
    /// Reads on until there are `want` bytes; `false`: there are no more.
    fn fill(&mut self, file: &File, want: usize) -> io::Result<bool> {
        if self.bytes.is_empty() {
            // The system's own zeros, which nobody has to write.
            self.bytes = vec![0; want];
        } else if self.bytes.len() < want {
            self.bytes.resize(want, 0);
        }
        while self.end < want {
            let place = self.base + self.end as u64;
            match file.read_at(&mut self.bytes[self.end..want], place) {
                Ok(0) => return Ok(false),
                Ok(n) => self.end += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// What there is from `at` on.
    fn from(&self, at: usize) -> &[u8] {
        self.bytes[..self.end].get(at..).unwrap_or(&[])
    }
}

impl Worker {
    /// Until the file ends, breaks off, or nobody wants it any more.
    pub fn run(mut self) {
        let mut window = Window {
            bytes: Vec::new(),
            end: 0,
            base: 0,
        };
        let mut own = None;
        let mut abreast = BatchFilter::new();
        while let Some(mut batch) = self.next_batch() {
            batch.clear();
            if batch.bytes.is_empty() {
                batch.bytes = self.shelf.take();
            }
            batch.window = self.front.claim();
            window.base = self.begin + batch.window * self.len as u64;
            window.end = 0;
            // What cannot be read is told when it is needed.
            let _ = window.fill(&self.file, self.len + LEEWAY.min(self.len));
            let Some(baton) = self.front.take(batch.window) else {
                return;
            };
            self.window(&mut window, baton, &mut own, &mut abreast, &mut batch);
            batch.take_bytes(&mut window.bytes);
            window.bytes.truncate(2 * self.len + LEEWAY);
            window.bytes.shrink_to(2 * self.len + LEEWAY);
            let is_last = batch.ending.is_some();
            // There is room for every batch there is.
            if self.full.push(batch).is_err() || is_last {
                return;
            }
        }
    }

    fn next_batch(&mut self) -> Option<Batch> {
        if self.empty.producer_is_gone() {
            return None;
        }
        let batch = self.empty.pop();
        // Early enough that the port gives some back before there is none.
        if self.empty.len() < RING_BELOW {
            self.chime.ring();
        }
        if batch.is_some() {
            return batch;
        }
        self.empty.pop_wait(None).ok()
    }

    /// Whatever begins in this window. `own` is what this worker decoded its last packets with.
    fn window(
        &mut self,
        window: &mut Window,
        mut baton: Box<Baton>,
        own: &mut Option<(Arc<DecoderState>, Decoder)>,
        abreast: &mut BatchFilter,
        batch: &mut Batch,
    ) {
        let begin = (baton.next - window.base) as usize;
        if let Some(end) = self.skim(window, begin, &baton) {
            let terms = baton.terms.clone();
            baton.next = window.base + end as u64;
            self.front.pass(batch.window + 1, baton);
            let decoder = match own {
                Some((of, decoder)) if Arc::ptr_eq(of, &terms) => decoder,
                _ => &mut own.insert((terms.clone(), terms.decoder.for_packets())).1,
            };
            let bytes = &window.bytes[..window.end];
            if self.guess.is_plain() {
                let programs = &terms.programs;
                let sifted = sift_plain(bytes, begin, self.len, decoder, programs, abreast, batch);
                self.guess.learn(sifted.is_some());
                if sifted.is_some() {
                    batch.plain.terms = Some(terms);
                    return;
                }
                batch.clear();
            }
            let mut at = begin;
            batch.ending = match sift_all(
                bytes,
                &mut at,
                self.len,
                decoder,
                &terms.programs,
                abreast,
                batch,
            ) {
                Pause::Fault(fault) => Some(Ending::Fault(fault, window.base + at as u64)),
                Pause::Done => None,
                Pause::Other
                | Pause::Described
                | Pause::Unknown
                | Pause::More(_)
                | Pause::Zeros => {
                    unreachable!("skimming passes nothing that packets depend on, and nothing torn")
                }
            };
            return;
        }
        match self.in_order(window, begin, &mut baton, batch) {
            Ok(end) => {
                baton.next = window.base + end as u64;
                self.front.pass(batch.window + 1, baton);
            }
            Err(ending) => batch.ending = Some(ending),
        }
    }

    /// Where the records of this window end, if it has nothing but packets and blocks that do not
    /// matter, all of them there.
    fn skim(&self, window: &mut Window, begin: usize, baton: &Baton) -> Option<usize> {
        if begin >= self.len {
            return Some(begin);
        }
        let there = window.from(begin);
        let end = begin + baton.decoder.skim(there, self.len - begin)?;
        let is_whole = window.end >= end || matches!(window.fill(&self.file, end), Ok(true));
        is_whole.then_some(end)
    }

    /// Finds out whether the zeros at `at` are packets.
    fn judge_zeros(&self, window: &mut Window, at: usize, baton: &mut Baton) -> Result<(), Ending> {
        let mut is_all = false;
        loop {
            match baton.decoder.judge_zeros(window.from(at), is_all) {
                Zeros::Packets => return Ok(()),
                Zeros::End => return Err(Ending::Zeros(window.base + at as u64)),
                Zeros::More(bytes) => {
                    let filled = window.fill(&self.file, at + bytes);
                    is_all = !filled.map_err(Ending::System)?;
                }
            }
        }
    }

    /// Reads the window with the decoder that travels; says where the records end that begin in it.
    fn in_order(
        &mut self,
        window: &mut Window,
        begin: usize,
        baton: &mut Baton,
        batch: &mut Batch,
    ) -> Result<usize, Ending> {
        let mut at = begin;
        while at < self.len {
            let bytes = &window.bytes[..window.end];
            let (decoder, programs) = (&mut baton.decoder, &baton.programs);
            match sift(bytes, &mut at, self.len, decoder, programs, batch) {
                Pause::Done => {}
                Pause::Other => {
                    if let Some((interface, counts)) = baton.recorded() {
                        let before = batch.packets;
                        let what = Told::Statistics(interface, counts);
                        batch.news.push(News { before, what });
                    }
                    batch.note_blocks(&mut baton.decoder);
                }
                Pause::Described => {
                    for interface in baton.described() {
                        let before = batch.packets;
                        let what = Told::Interface(interface);
                        batch.news.push(News { before, what });
                    }
                }
                Pause::Unknown => baton.learn(),
                Pause::Fault(fault) => return Err(Ending::Fault(fault, window.base + at as u64)),
                Pause::Zeros => self.judge_zeros(window, at, baton)?,
                Pause::More(record) => match window.fill(&self.file, at + record) {
                    Ok(true) => {}
                    Ok(false) if window.end <= at => return Err(Ending::End),
                    Ok(false) => {
                        let place = window.base + at as u64;
                        return Err(Ending::Torn(baton.decoder.unit(), place));
                    }
                    Err(e) => return Err(Ending::System(e)),
                },
            }
        }
        // What the packets behind need.
        baton.settle();
        Ok(at)
    }
}
