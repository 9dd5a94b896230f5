//! Buffers into a sink: the byte-exact part, the same on a thread and inline.

use super::{buffer::Buffer, closing::Abandon, sink::Sink};
use std::{io, sync::Arc, time::Duration};

/// How a record format is cut and padded; what the store has to know of the bytes it carries.
///
/// ```
/// use forebay::store::{Framing, Whole};
/// struct Lines;
/// impl Framing for Lines {
///     fn last_whole(&self, bytes: &[u8]) -> Whole {
///         let end = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
///         Whole { bytes: end, records: bytes[..end].iter().filter(|&&b| b == b'\n').count() as u64 }
///     }
/// }
/// assert_eq!(Lines.last_whole(b"one\ntwo\nthr"), Whole { bytes: 8, records: 2 });
/// assert_eq!(Lines.least_padding(), None);
/// ```
pub trait Framing: Send + Sync {
    /// Of `bytes`, which begin with a record: how many are whole records, and how many records.
    fn last_whole(&self, bytes: &[u8]) -> Whole;

    /// The fewest bytes that padding can have; `None` where the format cannot be padded, and files
    /// are then written through the page cache.
    fn least_padding(&self) -> Option<usize> {
        None
    }

    /// Fills `gap`, at least [`least_padding`](Framing::least_padding) bytes and a multiple of 4,
    /// with what readers skip.
    fn pad(&self, _gap: &mut [u8]) {}
}

/// A run of whole records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    /// Bytes of the run.
    pub bytes: usize,
    /// Records in it; blocks that are no records count as bytes only.
    pub records: u64,
}

/// Writes buffers in order and knows, at any moment, where the last whole record ends.
pub(super) struct Drain {
    sink: Box<dyn Sink>,
    framing: Arc<dyn Framing>,
    /// Bytes of the buffer in hand that are written already.
    done: usize,
    /// The end of the last whole record written.
    whole: u64,
    records: u64,
}

/// Why a buffer was not written whole.
pub(super) enum Stopped {
    Failed(io::Error),
    Abandoned,
}

impl Drain {
    pub fn new(sink: Box<dyn Sink>, framing: Arc<dyn Framing>) -> Self {
        Drain {
            sink,
            framing,
            done: 0,
            whole: 0,
            records: 0,
        }
    }

    /// Writes `buffer`, or its rest after an error, until it is given up.
    pub fn write(&mut self, buffer: &Buffer, abandon: &Abandon) -> Result<(), Stopped> {
        let bytes = buffer.filled();
        while self.done < bytes.len() {
            if abandon.is_set() {
                return Err(Stopped::Abandoned);
            }
            let at = buffer.start + self.done as u64;
            match self.sink.write(&bytes[self.done..], at) {
                Ok(0) => return Err(Stopped::Failed(io::ErrorKind::WriteZero.into())),
                Ok(taken) => self.done += taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let waited = self.sink.wait(Duration::from_millis(50));
                    waited.map_err(Stopped::Failed)?;
                }
                Err(error) => return Err(Stopped::Failed(error)),
            }
        }
        self.done = 0;
        self.whole = buffer.end();
        self.records += buffer.records;
        Ok(())
    }

    /// `buffer` will never be written whole: counts the records that were, and cuts the rest off.
    pub fn give_up(&mut self, buffer: &Buffer) {
        let written = &buffer.filled()[..self.done];
        let rest = self.framing.last_whole(written);
        self.whole = buffer.start + rest.bytes as u64;
        self.records += rest.records;
        if written.len() > rest.bytes {
            // Where the tail cannot be cut off it stays, torn; readers stop before it.
            let _ = self.sink.cut(self.whole);
        }
        self.done = 0;
    }

    pub fn sync(&mut self) -> io::Result<bool> {
        self.sink.sync()
    }

    /// Whether whole buffers go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.sink.is_direct() && self.framing.least_padding().is_some()
    }

    /// Records whose every byte is written.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Bytes up to the last whole record written.
    pub fn bytes(&self) -> u64 {
        self.whole
    }
}
