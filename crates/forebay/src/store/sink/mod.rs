//! Outputs that a store writes to.
//!
//! [`Sink`] is what the store needs from an output. [`FileSink`] is a regular file that the store creates. [`StreamSink`] is a
//! pipe, a device or an inherited descriptor. [`Files`] is several outputs, one after another.

mod claim;
mod file;
mod files;
mod paths;
mod stream;
mod walk;

pub use claim::{is_foreign_in, lock_output, open_existing, open_output};
pub use file::{FileConfig, FileSink, refuse_written, written_elsewhere};
pub(crate) use file::{MAGIC_OF_RECORDS, create_new};
pub use files::{Files, Series};
pub use paths::{close, resolve};
pub use stream::StreamSink;

use crate::{Error, Result, error::Code};
use std::{io, os::fd::BorrowedFd, time::Duration};

/// An output that a store can drain into.
///
/// Implement it to send buffers elsewhere, or to inject faults in a test.
///
/// ```
/// use forebay::store::{Appender, StoreConfig, Framing, Sink, Whole};
/// use std::{io, sync::{Arc, Mutex}};
///
/// struct Memory(Arc<Mutex<Vec<u8>>>);
/// impl Sink for Memory {
///     fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
///         let mut memory = self.0.lock().unwrap();
///         assert_eq!(at, memory.len() as u64);
///         memory.extend(bytes);
///         Ok(bytes.len())
///     }
/// }
/// struct Bytes; // every byte is a record
/// impl Framing for Bytes {
///     fn last_whole(&self, bytes: &[u8]) -> Whole {
///         Whole { bytes: bytes.len(), records: bytes.len() as u64 }
///     }
/// }
/// let memory = Arc::default();
/// let sink = Box::new(Memory(Arc::clone(&memory)));
/// let mut store = Appender::new(sink, Arc::new(Bytes), &StoreConfig::default())?;
/// let mut slot = store.reserve(5)?.expect("there is room");
/// slot.copy_from_slice(b"hello");
/// slot.commit(5);
/// let end = store.close().finish();
/// assert_eq!((end.totals.written, end.durable), (5, false)); // memory promises nothing
/// assert_eq!(*memory.lock().unwrap(), b"hello");
/// # Ok::<(), forebay::Error>(())
/// ```
pub trait Sink: Send {
    /// Writes some of `bytes`, which belong at offset `at`, and returns how many it took.
    /// Offsets are contiguous. After an error the rest of the same bytes may be offered again.
    ///
    /// # Errors
    /// As `write(2)`. After `WouldBlock` the store calls [`wait`](Sink::wait) and then tries again.
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize>;

    /// The sink that this one adds something to, if there is one. Every method that this sink does not have itself calls it.
    fn inner(&self) -> Option<&dyn Sink> {
        None
    }

    /// The same as [`inner`](Sink::inner), to be changed.
    fn inner_mut(&mut self) -> Option<&mut dyn Sink> {
        None
    }

    /// Waits up to `limit` until [`write`](Sink::write) may take something.
    ///
    /// # Errors
    /// As `poll(2)`.
    fn wait(&mut self, limit: Duration) -> io::Result<()> {
        self.inner_mut().map_or(Ok(()), |inner| inner.wait(limit))
    }

    /// The sink's name in messages; empty if it has none.
    fn name(&self) -> String {
        self.inner().map_or_else(String::new, Sink::name)
    }

    /// The pipe, socket or other stream that it writes to, to find out that the reader has left while nothing is written.
    fn stream(&self) -> Option<BorrowedFd<'_>> {
        self.inner()?.stream()
    }

    /// Whether aligned whole buffers bypass the page cache.
    fn is_direct(&self) -> bool {
        self.inner().is_some_and(Sink::is_direct)
    }

    /// Whether a write only copies to memory, and so usually waits for no device.
    fn is_in_memory(&self) -> bool {
        self.inner().is_some_and(Sink::is_in_memory)
    }

    /// Truncates the output to `len` bytes; `false` if that is not possible.
    ///
    /// # Errors
    /// As `ftruncate(2)`.
    fn cut(&mut self, len: u64) -> io::Result<bool> {
        self.inner_mut().map_or(Ok(false), |inner| inner.cut(len))
    }

    /// Reports whether the store has a backlog. If it does, a write that returns quickly is better than one that saves CPU time:
    /// a [`FileSink`] then writes through the page cache.
    fn hurry(&mut self, is_behind: bool) {
        if let Some(inner) = self.inner_mut() {
            inner.hurry(is_behind);
        }
    }

    /// For a sink with a cache, such as a file in the page cache: makes the device start writing the next cached piece. With
    /// `wait`, waits until the device has the next piece. Returns the number of bytes left in the cache.
    ///
    /// # Errors
    /// As `fdatasync(2)`: it is then unknown whether written data is durable or lost.
    fn write_back(&mut self, wait: bool) -> io::Result<u64> {
        self.inner_mut()
            .map_or(Ok(0), |inner| inner.write_back(wait))
    }

    /// Makes everything written durable; `false` if the sink cannot promise that.
    ///
    /// # Errors
    /// As `fdatasync(2)`; it is then unknown whether written data is durable or lost.
    fn sync(&mut self) -> io::Result<bool> {
        self.inner_mut().map_or(Ok(false), Sink::sync)
    }

    /// What follows goes to the next output, from offset 0. Everything before is written, cut to its length and, if the policy
    /// says so, synced. After an error it is called again, if the store retries.
    ///
    /// # Errors
    /// There is no next output, or it is not available now.
    fn next_output(&mut self) -> Result<()> {
        if let Some(inner) = self.inner_mut() {
            return inner.next_output();
        }
        Err(Error::coded(
            Code::Unsupported,
            self.name(),
            "switching to another output",
        )
        .advise("Use a sink that has several, such as Files"))
    }

    /// Nothing follows: this was the last output, and it is also cut to its length and synced.
    ///
    /// # Errors
    /// The output could not be completed.
    fn complete(&mut self) -> Result<()> {
        self.inner_mut().map_or(Ok(()), Sink::complete)
    }
}

impl Sink for Box<dyn Sink> {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        (**self).write(bytes, at)
    }

    fn inner(&self) -> Option<&dyn Sink> {
        Some(&**self)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Sink> {
        Some(&mut **self)
    }
}
