//! Append records and write them to an output.
//!
//! An [`Appender`] builds records in place, in large aligned buffers. Full buffers go to a writer and come back empty; the
//! records are not copied on the way.
//!
//! ```text
//!  Appender                                                   Drain (writer thread, or inline)
//!  reserve(len) → fill → commit        full ───ring──▶        pwrite / O_DIRECT / write ──▶ Sink
//!  ┌──────────────────────────┐
//!  │rec│rec│rec│rec│rec│ …    │◀─────── empty ◀──ring──
//!  └──────────────────────────┘
//! ```
//!
//! A record passes three stages ([`Stage`], [`Totals`]):
//! * *accepted*: it is in one of the store's buffers.
//! * *written*: `write` returned. The record survives `kill -9` but not a power cut, even with `O_DIRECT`.
//! * *durable*: an `fdatasync`, begun after the write, has succeeded, and the folder was synced. [`SyncPolicy`] sets when that
//!   happens.
//!
//! When no buffer is empty, the store adds one, up to its [`Limit`]. It frees the added buffers again as it drains. When half as many
//! buffers wait as the store started with, writes go through the page cache (no `O_DIRECT`) until it is gone, because the
//! page cache accepts data sooner than a slow device.
//!
//! A buffer is handed to the writer when it is full, earlier if so configured, and at the end. When the flush period ends, the
//! writer thread takes the committed records from the buffer that is still being filled ([`StoreConfig::flush_every`]).
//!
//! A failed write never loses records silently. The error is reported once, and [`Appender::retry`] resumes at the first byte
//! that was not written. Without a retry, [`Closing::wait`] truncates the file after its last whole record and reports how many
//! records are missing.
//!
//! * [`Appender`]: buffers, reserve and commit, and when a buffer is handed over. Start here.
//! * [`records`]: [`Records`] of one type or of bytes, plain or in blocks that survive a crash, and the reader for those.
//! * [`StoreConfig`]: how a store is built. [`Closing`]: how it ends, and its counts.
//! * [`Framing`]: the header and padding that a record format puts around records.
//! * [`Loan`]: records in the caller's own memory, written from there without a copy.
//! * [`Sink`]: a file, a pipe or several files, and how to truncate and sync it.

mod ahead;
mod appender;
mod buffer;
mod closing;
mod config;
mod desk;
mod drain;
#[cfg(all(test, not(loom)))]
mod ending_tests;
mod framing;
#[cfg(all(test, not(loom)))]
mod growth_tests;
mod loan;
#[cfg(all(test, not(loom)))]
mod loan_tests;
#[cfg(all(test, not(loom)))]
mod policy_tests;
pub mod records;
#[cfg(all(test, not(loom)))]
mod rotation_tests;
mod shared;
mod sink;
#[cfg(all(test, not(loom)))]
mod testing;
#[cfg(all(test, not(loom)))]
mod tests;
mod writer;
mod writer_thread;

pub use appender::{Appender, Reserved};
pub use closing::{Abandon, Closing, Finished, Stage, Totals};
pub use config::{Limit, StoreConfig, StoreInfo, SyncPolicy, WhenFull};
pub use framing::{Framing, Seal, Whole};
pub use loan::{Carrier, Loan};
pub use records::{Records, recover};
pub use sink::{
    FileConfig, FileSink, Files, Series, Sink, StreamSink, close, lock_output, open_existing,
    open_output, resolve,
};
