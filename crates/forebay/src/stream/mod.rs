//! A bounded stream of bytes from one writer to one reader. By default, waiting puts the thread to sleep.
//!
//! [`stream`](stream()) makes the two ends, and [`stream_with`] also chooses how they wait. A [`Writer`] pushes bytes; a [`Reader`]
//! peeks at them and consumes them. The *content* is the bytes that were pushed and not yet consumed. It is always **one slice**,
//! because the memory is [mapped at two adjacent addresses](crate::memory::Mirror). So no bytes are moved to make room, and the reader
//! can use them in place. A stream is a [`ring::spsc`](crate::ring::spsc) of bytes that can also be closed, can fail, and has the traits of
//! `std::io`.
//!
//! ```text
//!  Writer                        capacity, exact to the byte                     Reader
//!  push_slice(&[u8])        │ . . . │ c o n t e n t │ . . . . │  ─▶ peek(): the content, one slice
//!  reserve(n) ─▶ commit(k)          └ bytes_popped  └ bytes_pushed   consume(n): at most the content
//!     │                                                                 │
//!     └── close · set_error · dropped ─▶ state ◀── set_error · dropped ─┘
//! ```
//!
//! **In one thread**, a [`LocalStream`] is up to 2.7 times as fast (see BENCHMARKS.md); it gains less if bytes are copied in and out. A
//! stream also works within one thread, as in this example:
//!
//! ```
//! let (mut writer, mut reader) = forebay::stream::stream(4096)?; // the memory is one page, mapped twice
//! assert_eq!(writer.push_slice(&[1; 5000]), 4096); // full: the rest does not fit
//! assert_eq!(reader.peek().len(), 4096);
//! assert_eq!(reader.consume(4000), 4000);
//! assert_eq!(writer.push_slice(&[2; 1000]), 1000); // continues at the start of the page
//! assert_eq!(reader.peek(), [vec![1; 96], vec![2; 1000]].concat()); // still one slice
//! writer.close();
//! assert_eq!(reader.consume(usize::MAX), 1096); // not more than the content
//! assert!(reader.is_finished());
//! # Ok::<(), forebay::Error>(())
//! ```
//!
//! **In an event loop**, an end that waits with [`Eventfd`](crate::sync::Eventfd) has a descriptor for `poll` or `epoll`. **In async
//! code**, an end waits with [`Task`](crate::sync::Task). With the cargo feature `tokio`, such ends implement `AsyncRead`,
//! `AsyncBufRead` and `AsyncWrite`.
//!
//! **In two threads**, these calls block until they can proceed:
//!
//! - through `std::io`: `write_all`, `read`, `lines`
//! - [`Writer::push_all`], [`Writer::wait_vacant`] and [`Reader::wait_filled`], each also with `_timeout` and `_deadline`
//!
//! All other calls return without waiting.
//!
//! ```
//! use std::io::{Read, Write};
//! let (mut writer, mut reader) = forebay::stream::stream(1 << 16)?;
//! let thread = std::thread::spawn(move || -> std::io::Result<()> {
//!     writer.write_all(&[7; 1_000_000])?; // waits for room
//!     writer.close(); // if dropped without this, the reader gets an error after the content
//!     Ok(())
//! });
//! let mut all = Vec::new();
//! reader.read_to_end(&mut all)?;
//! assert_eq!(all.len(), 1_000_000);
//! thread.join().unwrap()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **How a stream ends.** There are three ways, which [`Reader::end`] reports: the writer closed it, either end called
//! `set_error`, or the writer was dropped without closing. After that, the reader still gets the content;
//! [`Reader::is_finished`] becomes true once the content is consumed. So a loop `while !reader.is_finished()` ends in all three cases.
//! Only [`End::Closed`] means that all bytes have arrived:
//!
//! ```
//! use forebay::stream::{stream, End};
//! let (mut writer, mut reader) = stream(64)?;
//! writer.push_slice(b"half of it");
//! writer.set_error();
//! let mut received = Vec::new();
//! while !reader.is_finished() {
//!     received.extend_from_slice(reader.peek());
//!     reader.consume(usize::MAX);
//! }
//! assert_eq!(received, b"half of it");
//! assert_eq!(reader.end(), Some(End::Failed)); // not `Closed`: bytes may be missing
//! # Ok::<(), forebay::Error>(())
//! ```
//!
//! `Read`, `BufRead` and their tokio counterparts return an error after the content if the stream was not closed.
//!
//! **Cost of a stream.** Making a stream maps its memory twice and, with [`StreamConfig::populate`], faults in all of it at once.
//! Measured on a virtual machine; medians of 300 runs (20 runs for 1 MiB):
//!
//! | Capacity | Time to make |
//! |---|---|
//! | up to 4 KiB | 16 µs |
//! | 64 KiB | 57 µs |
//! | 1 MiB | 0.8 to 2.4 ms |
//!
//! Each stream also uses two of the process's memory maps (`vm.max_map_count`, 65,530 by default), so a process can have about
//! 32,700 streams. Make streams ahead of time or reuse them, instead of making one for each short message.
//!
//! # Misuse
//!
//! - **Forgotten** (`mem::forget`): a forgotten [`ReservedBytes`] changes nothing. A forgotten end keeps the stream open and its
//!   memory mapped: the other end waits forever if it waits without a limit.
//! - **Panics**: an end that is dropped during a panic ends the stream like any drop: [`End::WriterGone`] for a writer.
//! - **`fork`**: the memory is not mapped in a forked child. A child that touches the content gets `SIGSEGV`. Do not use or drop
//!   either end between `fork` and `exec`.
//! - **Signal handlers**: no call here is async-signal-safe. An end belongs to one thread at a time, and the handler may have
//!   interrupted a call of the same end.

mod io;
mod local;
mod reader;
mod ready;
mod state;
#[cfg(feature = "tokio")]
mod tokio;
mod writer;

#[cfg(all(test, not(loom)))]
mod course_tests;
#[cfg(test)]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(all(test, not(loom)))]
mod thread_tests;

pub use crate::ring::spsc::{RingStats, WaitError};
pub use local::LocalStream;
pub use reader::Reader;
pub use state::End;
pub use writer::{ReservedBytes, Writer};

use crate::{Error, Result, ring::spsc, sync::Wait};

/// Settings of a stream.
///
/// ```
/// use forebay::{stream::{stream_with, StreamConfig}, sync::Spin};
/// let config = StreamConfig { capacity_bytes: 1_000_000, populate: false, ..StreamConfig::default() };
/// let (writer, _reader) = stream_with::<Spin>(&config)?;
/// assert_eq!(writer.available_capacity(), 1_000_000);
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// Maximum bytes in the stream at once, exactly: 1 or more; 65,536 by default, like a pipe of the kernel.
    pub capacity_bytes: usize,
    /// Fault the memory in when the stream is made (the default), so that no thread pays for it later.
    pub populate: bool,
    /// Ask for pages of 2 MiB if the capacity is that large; [`Writer::huge_pages`] reports what it got.
    pub huge_pages: bool,
}

impl Default for StreamConfig {
    fn default() -> Self {
        StreamConfig {
            capacity_bytes: 1 << 16,
            populate: true,
            huge_pages: false,
        }
    }
}

impl StreamConfig {
    /// Checks everything that can be checked without the kernel.
    ///
    /// # Errors
    /// A capacity of 0.
    pub fn validate(&self) -> Result<()> {
        match self.capacity_bytes {
            0 => Err(Error::new("stream", "making a stream of 0 bytes")
                .advise("Ask for a capacity of at least 1")),
            _ => Ok(()),
        }
    }
}

/// Makes a stream that holds up to `capacity_bytes` bytes, exactly. Its ends sleep while they wait
/// ([`Park`](crate::sync::Park)), like those of [`ring`](crate::ring::spsc::ring).
///
/// ```
/// let (mut writer, mut reader) = forebay::stream::stream(1)?;
/// assert_eq!(writer.push_slice(b"ab"), 1);
/// assert_eq!(reader.peek(), b"a");
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// Capacity 0, or not enough memory or memory maps: see [`Mirror::new`](crate::memory::Mirror::new).
pub fn stream(capacity_bytes: usize) -> Result<(Writer, Reader)> {
    stream_with(&StreamConfig {
        capacity_bytes,
        ..StreamConfig::default()
    })
}

/// Makes a stream with the settings `config`. Its ends wait by `W`: [`Spin`](crate::sync::Spin) never sleeps,
/// [`Park`](crate::sync::Park) sleeps, [`Eventfd`](crate::sync::Eventfd) is for poll loops, and [`Task`](crate::sync::Task) for
/// async runtimes.
///
/// ```
/// use forebay::{stream::{stream_with, StreamConfig}, sync::Spin};
/// let (mut writer, mut reader) = stream_with::<Spin>(&StreamConfig::default())?;
/// let thread = std::thread::spawn(move || {
///     reader.wait_filled(5);
///     reader.peek().to_vec()
/// });
/// writer.push_slice(b"hello");
/// assert_eq!(thread.join().unwrap(), b"hello");
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// Those of [`stream`]; or a resource that `W` needs is not available.
pub fn stream_with<W: Wait>(config: &StreamConfig) -> Result<(Writer<W>, Reader<W>)> {
    config.validate()?;
    let ring = spsc::RingConfig {
        capacity: config.capacity_bytes,
        populate: config.populate,
        huge_pages: config.huge_pages,
        latency: false,
    };
    let (producer, consumer) = spsc::ring_with(&ring)?;
    Ok((Writer::new(producer), Reader::new(consumer)))
}
