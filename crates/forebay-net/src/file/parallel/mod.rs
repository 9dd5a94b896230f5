//! Reads one large file with several threads, and hands out the packets that match a filter.
//!
//! ```text
//!  file      │ window 0 │ window 1 │ window 2 │ window 3 │ …
//!  worker         0          1          1          0            claims the next window and reads it
//!  token          └──────────▶──────────▶──────────▶            offset of the next record, and the decoder
//!
//!  worker 0  ── full ring ──▶ ┐
//!  worker 1  ── full ring ──▶ ┴─▶ ParallelFile: batch after batch, in file order ─▶ Burst
//!            ◀─ empty rings ──────┘
//! ```
//! A record belongs to the window in which it begins. Where the first record of a window begins is known only when the previous
//! window has been walked. So the workers pass on a token. The worker that has the token walks its window: it reads only the lengths
//! of the records. Reading from the disk and filtering take nearly all of the time, and need no token.
//!
//! The packets, counts and errors are the same as those of a [`File`] with a filter after it. Memory is bounded: each worker uses 8
//! windows, and up to 32 if many packets match at once. In addition, there is one record, and memory that is lent to the store.
//!
//! Private modules:
//!
//! - `worker` reads windows, `filter` filters them, `order` passes the token on, `decoder_state` is the contents of the token.
//! - `batch` is what a worker hands over; `plain` is a compact form, which most batches have.
//! - `workers` and `worker_queue` are the port's side of all workers and of one. `notify` wakes the port. Memory that was lent to a store
//!   returns to `buffer_pool`.
//! - `position` and `metadata` are the state of the port, and `port` implements it.

mod batch;
mod buffer_pool;
mod config;
mod decoder_state;
mod filter;
mod metadata;
mod notify;
mod order;
mod plain;
mod port;
mod position;
mod run;
#[cfg(test)]
mod tests;
mod worker;
mod worker_queue;
mod workers;

pub use config::ParallelConfig;

use super::File;
use crate::{
    filter::{Filter, Programs},
    port::Port,
};
use config::WINDOW_BYTES;
use decoder_state::Token;
use forebay::{Error, Result, error::Code};
use metadata::FileMetadata;
use position::Position;
use std::io::Seek;
use workers::{Start, Workers};

/// In a file with fewer windows, starting threads costs more time than they save.
const MIN_WINDOWS: u64 = 16;
/// Reads `file` through `filter` with several threads, if that is faster: on several processors, and for a large uncompressed
/// file that can be read at any offset. Otherwise returns the file unchanged, and the session filters.
///
/// Packets of an interface for whose link type the filter is not valid do not match.
///
/// # Errors
/// No memory is available.
pub fn filtered(file: File, filter: &Filter) -> Result<Box<dyn Port>> {
    let source = file.stream.source();
    let left = source
        .len()
        .min(source.limit())
        .saturating_sub(source.bytes_read());
    let is_large = left >= MIN_WINDOWS * WINDOW_BYTES as u64;
    if !is_large || file.compression().is_some() {
        return Ok(Box::new(file));
    }
    // Last, because counting the processors reads files.
    let config = ParallelConfig::default();
    if config.threads < 2 {
        return Ok(Box::new(file));
    }
    Ok(Box::new(ParallelFile::new(file, filter, &config)?))
}

/// A [`File`] that hands out only the packets that match a filter.
///
/// ```
/// use forebay_net::{file::{File, parallel::{ParallelConfig, ParallelFile}}, filter::Filter, format::Format, port::*};
///
/// let path = std::env::temp_dir().join(format!("doc-parallel-{}.pcap", std::process::id()));
/// # let interface = Interface::default();
/// # let described = Format::Pcap.describe(&interface, 0);
/// # let mut bytes = Format::Pcap.interface(&interface, &described, 262_144);
/// # for len in [60, 61, 62] {
/// #     let frame = Frame { data: &[7; 64][..len], wire_len: 64, time_ns: 1, ..Frame::default() };
/// #     let begin = bytes.len();
/// #     bytes.resize(begin + Format::Pcap.frame_len(&frame, 262_144), 0);
/// #     Format::Pcap.put_frame(&mut bytes[begin..], &frame, &described, 262_144);
/// # }
/// # std::fs::write(&path, bytes).unwrap();
/// let filter: Filter = "ether[0] = 7".parse()?;
/// let mut port = ParallelFile::new(File::open(&path)?, &filter, &ParallelConfig::default())?;
/// let mut matching = 0;
/// loop {
///     match port.arm()? {
///         Wake::End => break,
///         Wake::Fd(_) => std::thread::yield_now(), // or poll(2)
///         _ => {}
///     }
///     let mut burst = port.receive(64)?;
///     while burst.next_frame().is_some() {
///         matching += 1;
///     }
/// }
/// let counts = port.counts();
/// assert_eq!((counts.received, counts.filtered, matching), (3, Some(0), 3));
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ParallelFile {
    name: String,
    copy: &'static str,
    /// Starts the workers at the first poll, so that of many files in sequence only one has threads.
    start: Option<Start>,
    workers: Workers,
    position: Position,
    metadata: FileMetadata,
    counters: Counters,
    /// Batches with fewer bytes are not lent but copied, and written together with others.
    min_loan: usize,
    /// Why nothing more can be read, until it was reported.
    failure: Option<Error>,
    has_ended: bool,
}

/// Packet counts, and the budget of the present burst.
struct Counters {
    /// Packets in the file up to the last one that was handed out or rejected.
    received: u64,
    handed_out: u64,
    /// Frames the budget still allows.
    budget: usize,
    /// Losses recorded by rejected packets that the last frame reported.
    reported_losses: u64,
}

impl ParallelFile {
    /// Reads `file`, from which nothing was taken yet, through `filter`.
    ///
    /// # Errors
    /// The file is compressed, or is not a regular file opened from its beginning; or no memory is available.
    pub fn new(file: File, filter: &Filter, config: &ParallelConfig) -> Result<Self> {
        let leaves_out_times = file.leaves_out_times();
        let File {
            name,
            stream,
            window,
            mut decoder,
            times,
            counters,
            failure,
            has_ended,
            offered: _,
            skipped,
            is_torn: _,
        } = file;
        let begin = window.offset();
        let metadata = FileMetadata::new(&mut decoder, skipped, leaves_out_times);
        let end = stream.source().limit();
        let mut plain = stream.into_plain_file();
        // Offsets count from where the file was opened, which is normally its beginning.
        let offset = plain.as_mut().and_then(|file| file.stream_position().ok());
        let Some(file) = plain.filter(|_| offset == Some(window.read_to())) else {
            let what = "reading it with several threads: it cannot be read at any offset";
            return Err(Error::coded(Code::Unsupported, name, what));
        };
        let token = Token::new(begin, decoder, Programs::new(filter.clone()));
        Ok(ParallelFile {
            copy: match config.threads {
                1 => "read by 1 thread",
                2 => "read by 2 threads",
                3 => "read by 3 threads",
                4 => "read by 4 threads",
                _ => "read by many threads",
            },
            name,
            workers: Workers::new(config.window_bytes / 8)?,
            start: Some(Start {
                file,
                begin,
                end,
                times,
                token,
                config: config.clone(),
            }),
            position: Position::after(counters.packets),
            metadata,
            counters: Counters {
                received: counters.packets,
                handed_out: counters.packets,
                budget: 0,
                reported_losses: 0,
            },
            min_loan: config.window_bytes / 4,
            failure,
            has_ended,
        })
    }
}
