//! Appends records to a file or a pipe.
//!
//! The program builds records in place, in the large aligned buffers of an [`Appender`]. Full buffers go to a writer, usually a
//! thread of the store, and come back empty. The store does not copy the records on the way.
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
//! **If the output is slow.** When no buffer is empty, the store adds one, up to its [`Limit`]. When the output has caught up, the
//! store frees the added buffers. If the number of waiting buffers reaches half of the initial number, the store stops using
//! `O_DIRECT` and writes through the page cache, which accepts data sooner than a slow device. It returns to `O_DIRECT` when no
//! buffer waits.
//!
//! **When records are written.** A buffer is handed to the writer when it is full, or earlier ([`StoreConfig::early_bytes`]), and
//! when the store is closed. At the end of each flush period ([`StoreConfig::flush_every`]), the writer thread also writes the
//! committed records in the buffer that is being filled.
//!
//! **If a write fails,** the error is reported once, and [`Appender::retry`] resumes at the first byte that was not written. Without
//! a retry, [`Closing::wait`] truncates the file after its last whole record, and reports how many records are missing.
//!
//! * [`Appender`]: buffers, reserve and commit, and when a buffer is handed over. Start here.
//! * [`records`](crate::records): a layer above this one, with records of one type or of bytes, also in blocks that survive a crash.
//! * [`StoreConfig`]: how a store is built. [`Closing`]: how it ends, and its counts.
//! * [`Framing`]: the header and padding that a record format puts around records.
//! * [`Loan`]: records in memory of the caller, which the store writes from there instead of from its buffers.
//! * [`Live`]: buffers that other processes can read, and [`LiveReader`], which reads records there.
//! * [`Sink`]: a file, a pipe or several files, and how to truncate and sync it.

mod abandon;
mod ahead;
mod appender;
mod buffer;
mod closing;
mod config;
mod counts;
mod desk;
mod drain;
#[cfg(all(test, not(loom)))]
mod ending_tests;
mod framing;
#[cfg(all(test, not(loom)))]
mod growth_tests;
#[cfg(all(feature = "shared", not(loom)))] // a model has no memory of several processes
mod live;
/// In builds without shared memory, no store has this.
#[cfg(not(all(feature = "shared", not(loom))))]
#[path = "no_live.rs"]
mod live;
#[cfg(all(feature = "shared", not(loom)))]
mod live_reader;
#[cfg(all(test, feature = "shared", not(any(loom, miri))))]
mod live_tests;
mod loan;
#[cfg(all(test, not(loom)))]
mod loan_tests;
#[cfg(all(test, not(loom)))]
mod policy_tests;
#[cfg(all(test, not(loom)))]
mod rotation_tests;
mod shared;
mod sink;
#[cfg(all(test, not(loom)))]
pub(crate) mod testing;
#[cfg(all(test, not(loom)))]
mod tests;
mod trouble;
mod writer;
mod writer_thread;

pub use abandon::Abandon;
pub(crate) use appender::Start;
pub use appender::{Appender, Carrier, ReservedRecord};
pub use closing::{Closing, Finished};
pub use config::{Limit, StoreConfig, StoreInfo, SyncPolicy, WhenFull};
pub use counts::{Stage, Totals};
pub use framing::{Framing, Seal, Whole};
#[cfg(all(feature = "shared", not(loom)))]
pub use live::{Live, LiveConfig};
#[cfg(all(feature = "shared", not(loom)))]
pub use live_reader::{Batch, LiveReader};
pub use loan::Loan;
pub use sink::{
    FileConfig, FileSink, Files, Series, Sink, StreamSink, close, is_foreign_in, lock_output,
    open_existing, open_output, refuse_written, resolve, written_elsewhere,
};
pub(crate) use sink::{MAGIC_OF_RECORDS, create_new};
