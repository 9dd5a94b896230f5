//! Append and flush: records are composed in place in big aligned buffers, and the buffers, not
//! the records, travel to a writer and back.
//!
//! ```text
//!  Appender                                                   Drain (writer thread, or inline)
//!  reserve(len) → fill → commit        full ───ring──▶        pwrite / O_DIRECT / write ──▶ Sink
//!  ┌──────────────────────────┐
//!  │rec│rec│rec│rec│rec│ …    │◀─────── empty ◀──ring──
//!  └──────────────────────────┘
//! ```
//!
//! Three words that must not be mixed up ([`Stage`], [`Totals`]):
//! * *accepted*: in one of our buffers;
//! * *written*: `write` returned: survives `kill -9`, not a power cut, also with `O_DIRECT`;
//! * *durable*: a successful `fdatasync` came after that write, and the folder was synced. [`SyncPolicy`] says when.
//!
//! When no buffer is empty the store grows by one, up to its [`Limit`]; it shrinks again as it drains. When half of the first buffers
//! wait to be written, whole buffers go through the page cache, which takes them sooner than a slow device, until none waits.
//!
//! A buffer leaves when it is full, early if so configured, and at the end. When the flush period ends, the writer thread takes what
//! is in a buffer by itself ([`Config::flush_every`]). A failed write loses nothing
//! silently: the error comes back once, [`Appender::retry`] resumes at the very byte, and
//! [`Closing::wait`] otherwise cuts the file after its last whole record and tells how many
//! records are missing.
//!
//! * [`appender`](Appender): buffers, reserve and commit, when to hand over. Read first.
//! * [`records`]: [`Records`] of one type or of bytes, plain or in blocks that outlive a crash, and what reads those.
//! * `config`: how it is built. `closing`: how it ends, and the counts.
//! * `desk`: how the writer takes what is committed when the flush period ends.
//! * `buffer`: a run of whole records on its way. [`Framing`]: what belongs around them.
//! * [`Loan`]: records that somebody else composed, written from where they lie.
//! * `drain`: buffers into a sink; short writes, direct or cached, syncs, where the last whole record ends.
//! * `writer`: the thread that drains, its command and its counters.
//! * [`Sink`]: a file, a pipe, several files; how to cut, how to sync.
//!
//! Imports memory, ring, sync, time and sys; holds no unsafe code.

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
pub use config::{Config, Got, Limit, SyncPolicy, WhenFull};
pub use framing::{Framing, Seal, Whole};
pub use loan::{Carrier, Loan};
pub use records::{Records, recover};
pub use sink::{
    FileConfig, FileSink, Files, Series, Sink, StreamSink, close, lock_output, open_existing,
    open_output, resolve,
};
