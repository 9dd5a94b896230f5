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
//! * *durable*: an `fdatasync` that began after the write succeeded, and the folder was synced. [`SyncPolicy`] sets when that
//!   happens.
//!
//! When no buffer is empty, the store adds one, up to its [`Limit`]. It frees the added buffers again as it drains. Once half as
//! many buffers as the store started with are waiting to be written, whole buffers go through the page cache instead of past it,
//! until none waits. The page cache accepts data sooner than a slow device.
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
//! * `config`: how a store is built. `closing`: how it ends, and its counts.
//! * `desk`: how the writer takes committed records when the flush period ends.
//! * `buffer`: a run of whole records to be written. [`Framing`]: what a record format puts around them.
//! * [`Loan`]: records that were built in the caller's memory and are written from there.
//! * `drain`: writes buffers to a sink. It handles short writes, direct and cached writes, and syncs, and tracks the end of the
//!   last whole record.
//! * `writer`: the writer thread, its commands and its counters.
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
mod sink;
#[cfg(all(test, not(loom)))]
mod testing;
#[cfg(all(test, not(loom)))]
mod tests;
mod writer;

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
