//! A large file, read by several threads that hand out only what passes a filter.
//!
//! ```text
//!  file      │ window 0 │ window 1 │ window 2 │ window 3 │ …
//!  worker         0          1          1          0            claims what nobody has, and reads it
//!  baton          └──────────▶──────────▶──────────▶            where the next record begins, the decoder
//!
//!  worker 0  ── full ring ──▶ ┐
//!  worker 1  ── full ring ──▶ ┴─▶ ParallelFile: batch after batch, as the file has them ─▶ Burst
//!            ◀─ empty rings ──────┘
//! ```
//! A record belongs to the window that it begins in. Where the first one of a window begins nobody
//! knows before the window in front was walked through, so the baton goes from window to window: with
//! it a worker only skims its own, by the lengths of its records. Reading and running the filter,
//! which take nearly all of the time, need nobody.
//!
//! What comes out is what [`File`] and a filter behind it would give, packet for packet and count for
//! count, errors included. Memory is bounded: some windows a
//! worker (8; up to 32 where much begins to pass all at once), a record, and what was lent to the store and is not written, which its buffers bound.
//!
//! `worker` reads, `filter` sifts, `order` passes the baton, `decoder_state` is what it carries, `batch` what is
//! handed over, and `plain` most of them in short; `port` is the side that the session sees, `worker_queue` its end of
//! one worker, `notify` wakes the port, `buffer_pool` is where memory that was lent comes back. Read `worker` next.

mod batch;
mod buffer_pool;
mod decoder_state;
mod filter;
mod notify;
mod order;
mod plain;
mod port;
#[cfg(test)]
mod tests;
mod worker;
mod worker_queue;

use super::File;
use crate::{
    filter::{Filter, Programs},
    port::{Block, Interface, Port, Statistics},
};
use batch::Batch;
use buffer_pool::BufferPool;
use decoder_state::Baton;
use forebay::{Error, Result};
use notify::Notify;
use order::Order;
use std::{
    fs,
    io::Seek,
    sync::Arc,
    thread::{self, available_parallelism},
};
use worker::{Guess, Leaving, Worker};
use worker_queue::WorkerQueue;

/// Bytes of a window: read, skimmed and sifted, it stays in a second-level cache.
const WINDOW: usize = 256 << 10;
/// Windows of a file below which starting threads costs more than it gives.
const LEAST_WINDOWS: u64 = 16;
/// More do not help: the one thread that takes what passes has its limit, too.
const MAX_THREADS: usize = 4;

/// How a file is sifted.
#[derive(Clone, Debug)]
pub struct Config {
    /// Threads that read, 1 or more.
    pub threads: usize,
    /// Bytes of one window, 1 to 1 GiB.
    pub window_bytes: usize,
}

impl Default for Config {
    /// A thread for each core, up to four, and windows that a second-level cache holds.
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Config {
            threads: cores.min(MAX_THREADS),
            window_bytes: WINDOW,
        }
    }
}

/// `file` behind `filter`, read by several threads if that pays: where there are several cores, and
/// many windows of bytes that can be read in any order. Otherwise it comes back as it is, and the
/// session filters.
///
/// Packets of an interface for which the filter makes no sense do not match.
///
/// # Errors
/// No thread or memory is left.
pub fn filtered(file: File, filter: &Filter) -> Result<Box<dyn Port>> {
    let is_large = file.stream.source().len() >= LEAST_WINDOWS * WINDOW as u64;
    if !is_large || file.compression().is_some() {
        return Ok(Box::new(file));
    }
    // Asking for the number of cores takes some file reading, so that comes last.
    let config = Config::default();
    if config.threads < 2 {
        return Ok(Box::new(file));
    }
    Ok(Box::new(ParallelFile::new(file, filter, &config)?))
}

/// A [`File`] that hands out only what passes a filter.
///
/// ```
/// use forebay_net::{file::{File, parallel::{Config, ParallelFile}}, filter::Filter, format::Format, port::*};
///
/// let path = std::env::temp_dir().join(format!("doc-parallel-{}.pcap", std::process::id()));
/// # let interface = Interface::default();
/// # let described = Format::Pcap.describe(&interface, 0);
/// # let mut bytes = Format::Pcap.interface(&interface, &described, 262_144);
/// # for len in [60, 61, 62] {
/// #     let frame = Frame {
/// #         data: &[7; 64][..len], wire_len: 64, time_ns: 1, interface: 0, direction: Default::default(), dropped_before: 0, ..Frame::default()
/// #     };
/// #     let begin = bytes.len();
/// #     bytes.resize(begin + Format::Pcap.frame_len(&frame, 262_144), 0);
/// #     Format::Pcap.put_frame(&mut bytes[begin..], &frame, &described, 262_144);
/// # }
/// # std::fs::write(&path, bytes).unwrap();
/// let filter: Filter = "ether[0] = 7".parse()?;
/// let mut port = ParallelFile::new(File::open(&path)?, &filter, &Config::default())?;
/// let mut passed = 0;
/// loop {
///     match port.arm()? {
///         Wake::End => break,
///         Wake::Fd(_) => std::thread::yield_now(), // or poll(2)
///         _ => {}
///     }
///     let mut burst = port.receive(64)?;
///     while burst.next_frame().is_some() {
///         passed += 1;
///     }
/// }
/// let counts = port.counts();
/// assert_eq!((counts.received, counts.filtered, passed), (3, Some(0), 3));
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ParallelFile {
    name: String,
    /// What the workers begin with. They begin with the first look: of many files only one is read.
    start: Option<Start>,
    workers: Vec<WorkerQueue>,
    front: Option<Arc<Order>>,
    /// The window whose batch is next.
    turn: u64,
    chime: Notify,
    shelf: BufferPool,
    /// Fewer bytes of a batch are not worth a loan: they are copied, and written together with others.
    least_loan: usize,
    /// A batch with more memory is not a light one.
    most_light: usize,
    copy: &'static str,
    interfaces: Vec<Interface>,
    recorded: Vec<Option<Statistics>>,
    /// Losses that each interface's rejected packets told of; the next one that passes tells of them.
    owed: Vec<u64>,
    /// Some are.
    owes: bool,
    /// Blocks that belong into a copy before the next packet, and those that the burst under way offers.
    blocks: Vec<Block>,
    offered: Vec<Block>,
    batch: Batch,
    /// The worker that it goes back to.
    owner: Option<usize>,
    /// Of the batch's packets, runs, news and tales: the next ones.
    next: usize,
    /// Where the next packet's record begins in a plain batch, and where the last one's did.
    at: usize,
    last_at: usize,
    next_run: usize,
    next_news: usize,
    next_tale: usize,
    /// The first ordinal that waits for news or tales to be heard, or with which a run begins: bursts end before it.
    attention: u32,
    /// Packets before this batch.
    base: u64,
    /// Packets up to the last one that was handed out or passed over.
    received: u64,
    handed_out: u64,
    /// Frames the budget still allows.
    left: usize,
    /// What the last frame told of losses on behalf of others.
    told_for_others: u64,
    failure: Option<Error>,
    is_over: bool,
}

struct Start {
    file: fs::File,
    /// Where the first window begins.
    begin: u64,
    baton: Box<Baton>,
    config: Config,
}

impl ParallelFile {
    /// `file`, of which nothing was taken, behind `filter`.
    ///
    /// # Errors
    /// It is packed, or no regular file that was opened for this; no thread or memory is left.
    pub fn new(file: File, filter: &Filter, config: &Config) -> Result<Self> {
        let File {
            name,
            stream,
            window,
            mut decoder,
            books,
            failure,
            is_over,
            offered: _,
        } = file;
        let wrong = |what: &str| Error::new(name.clone(), what.to_owned());
        let begin = window.offset();
        let interfaces = decoder.interfaces().to_vec();
        let recorded = decoder.recorded().to_vec();
        let blocks = decoder.take_blocks();
        let mut plain = stream.into_plain_file();
        // Its bytes are counted from where it was opened, which is its beginning as a rule.
        let place = plain.as_mut().and_then(|file| file.stream_position().ok());
        let Some(plain) = plain.filter(|_| place == Some(window.read_to())) else {
            return Err(wrong(
                "reading it with several threads: it cannot be read at any place",
            ));
        };
        let programs = Programs::new(filter.clone());
        let baton = Baton::new(begin, decoder, programs);
        let chime = Notify::new()?;
        let start = Start {
            file: plain,
            begin,
            baton,
            config: config.clone(),
        };
        Ok(ParallelFile {
            copy: match config.threads {
                1 => "read by 1 thread",
                2 => "read by 2 threads",
                3 => "read by 3 threads",
                4 => "read by 4 threads",
                _ => "read by many threads",
            },
            name,
            start: Some(start),
            workers: Vec::new(),
            front: None,
            turn: 0,
            chime,
            shelf: BufferPool::default(),
            least_loan: config.window_bytes / 4,
            most_light: config.window_bytes / 8,
            owed: vec![0; interfaces.len()],
            owes: false,
            interfaces,
            recorded,
            blocks,
            offered: Vec::new(),
            batch: Batch::default(),
            owner: None,
            next: 0,
            at: 0,
            last_at: 0,
            next_run: 0,
            next_news: 0,
            next_tale: 0,
            attention: u32::MAX,
            base: books.packets,
            received: books.packets,
            handed_out: books.packets,
            left: 0,
            told_for_others: 0,
            failure,
            is_over,
        })
    }

    /// Starts the workers.
    fn employ(&mut self, start: Start) -> Result<()> {
        let Start {
            file,
            begin,
            baton,
            config,
        } = start;
        let threads = config.threads.max(1);
        let len = config.window_bytes.clamp(1, 1 << 30);
        let file = Arc::new(file);
        let front = self.front.insert(Arc::new(Order::new(baton)));
        for number in 0..threads {
            let hand = WorkerQueue::new(|rings| {
                let worker = Worker {
                    file: file.clone(),
                    begin,
                    len,
                    front: front.clone(),
                    empty: rings.empty,
                    full: rings.full,
                    chime: self.chime.clone(),
                    shelf: self.shelf.clone(),
                    guess: Guess::default(),
                    _leaving: Leaving(front.clone(), self.chime.clone()),
                };
                let thread = thread::Builder::new().name(format!("forebay-reader-{number}"));
                let started = thread.spawn(move || worker.run());
                started.map_err(|e| Error::new(self.name.clone(), "starting a thread").because(e))
            })?;
            self.workers.push(hand);
        }
        Ok(())
    }

    /// Ends the workers: without their rings they stop behind the window they are at.
    fn dismiss(&mut self) {
        if let Some(front) = self.front.take() {
            front.close();
        }
        let threads: Vec<_> = self.workers.drain(..).map(|hand| hand.thread).collect();
        for thread in threads {
            // One that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for ParallelFile {
    fn drop(&mut self) {
        self.dismiss();
    }
}
