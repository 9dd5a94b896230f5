//! Many frames at once: their metadata as rows, and one piece of memory with their bytes.
//!
//! ```text
//!  rows    │ time, wire length, offset, … │ time, wire length, offset, … │ …
//!                               └────────┐                    └──────┐
//!  bytes   │ memory of the port: frame   ▼ frame                frame ▼        │  or a copy
//! ```
//! If the port's memory holds all frames of a burst ([`Frames::memory`](crate::port::Frames::memory)), they stay where they are. The bytes
//! of other ports' frames are copied one after the other.

use crate::port::{Direction, Frame, LentMemory, Marks, Unfinished};
use std::{fmt, ops::Range, sync::Arc};

/// The most frames of a batch, and the bytes that are copied for one, unless a single frame has more.
pub(super) const MAX_FRAMES: usize = 8192;
const MAX_COPIED: usize = 4 << 20;
/// An owned batch holds on to the port's memory if its frames are at least this part of it.
const MIN_SHARE: usize = 8;

/// The metadata of a frame in a batch: a [`Frame`] with positions in place of slices. For columns of one field, its rows can be read with
/// [`offset_of!`](std::mem::offset_of) and the size of a row as the stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// Frames the source lost directly before this one.
    pub dropped_before: u64,
    /// The place of the first byte in [`Batch::bytes`].
    pub offset: u32,
    /// The bytes kept.
    pub len: u32,
    /// Length on the wire in bytes.
    pub wire_len: u32,
    /// Index into [`Capture::interfaces`](super::Capture::interfaces).
    pub interface: u32,
    /// The place of the options, and their bytes: [`Frame::options`].
    pub options_offset: u32,
    /// See above.
    pub options_len: u32,
    /// Its direction.
    pub direction: Direction,
    /// Irregularities, if it comes from a file.
    pub marks: Marks,
    /// Offloads that were not done: [`Frame::unfinished`].
    pub unfinished: Unfinished,
}

impl Row {
    fn data(&self) -> Range<usize> {
        range(self.offset, self.len)
    }

    fn options(&self) -> Range<usize> {
        range(self.options_offset, self.options_len)
    }
}

fn range(offset: u32, len: u32) -> Range<usize> {
    offset as usize..offset as usize + len as usize
}

/// Frames that are lent until the next call of their [`Capture`](super::Capture).
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    rows: &'a [Row],
    bytes: &'a [u8],
    is_borrowed: bool,
}

impl<'a> Batch<'a> {
    /// The number of frames, at least 1.
    #[allow(clippy::len_without_is_empty)] // it never is
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The frame with this number.
    pub fn get(&self, number: usize) -> Option<Frame<'a>> {
        self.rows.get(number).map(|row| self.frame(row))
    }

    /// The frames, in order.
    pub fn frames(self) -> impl ExactSizeIterator<Item = Frame<'a>> {
        self.rows.iter().map(move |row| self.frame(row))
    }

    /// The metadata of each frame.
    pub fn rows(&self) -> &'a [Row] {
        self.rows
    }

    /// The memory that holds the bytes of the frames, and others.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether the bytes are where the source received them or read them to. If not, they were copied once.
    pub fn is_borrowed(&self) -> bool {
        self.is_borrowed
    }

    #[inline]
    fn frame(&self, row: &Row) -> Frame<'a> {
        let bytes = |range| self.bytes.get(range).unwrap_or_default();
        Frame {
            data: bytes(row.data()),
            wire_len: row.wire_len,
            time_ns: row.time_ns,
            interface: row.interface,
            direction: row.direction,
            dropped_before: row.dropped_before,
            options: bytes(row.options()),
            marks: row.marks,
            unfinished: row.unfinished,
        }
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Batch");
        shown.field("len", &self.len());
        shown.field("is_borrowed", &self.is_borrowed);
        shown.finish_non_exhaustive()
    }
}

/// Frames that stay until it is dropped, in any thread, also without their [`Capture`](super::Capture).
///
/// It may hold on to memory of the source ([`is_borrowed`](OwnedBatch::is_borrowed)). For an interface, that is a part of its ring: the
/// kernel needs its parts in order, and drops packets once it reaches one that is not yet returned. Without its capture, a batch holds the
/// memory of the whole ring. [`detach`](OwnedBatch::detach) it to keep it for longer.
pub struct OwnedBatch {
    rows: Vec<Row>,
    bytes: LentMemory,
    is_borrowed: bool,
}

impl OwnedBatch {
    /// The same, to be read.
    pub fn as_batch(&self) -> Batch<'_> {
        Batch {
            rows: &self.rows,
            bytes: (*self.bytes).as_ref(),
            is_borrowed: self.is_borrowed,
        }
    }

    /// The number of frames, at least 1.
    #[allow(clippy::len_without_is_empty)] // it never is
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The frames, in order.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = Frame<'_>> {
        self.as_batch().frames()
    }

    /// The metadata of each frame.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The memory that holds the bytes of the frames, and others.
    pub fn bytes(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    /// Whether the bytes are where the source received them or read them to. If not, they were copied once.
    pub fn is_borrowed(&self) -> bool {
        self.is_borrowed
    }

    /// Returns the memory to the source: the batch then holds a copy.
    ///
    /// ```
    /// # use forebay_net::{Capture, Next};
    /// let mut capture = Capture::open("sim:count=10,clock=virtual")?;
    /// let mut kept = Vec::new();
    /// while let Next::Ready(batch) = capture.take_batch(std::time::Duration::MAX)? {
    ///     kept.push(batch.detach());
    /// }
    /// assert_eq!(kept.iter().map(|batch| batch.len()).sum::<usize>(), 10);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[must_use]
    pub fn detach(self) -> OwnedBatch {
        match self.is_borrowed {
            false => self,
            true => copied(self.rows, (*self.bytes).as_ref()),
        }
    }
}

impl fmt::Debug for OwnedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnedBatch").field(&self.as_batch()).finish()
    }
}

/// A batch with a copy of the rows' bytes, one after the other.
fn copied(mut rows: Vec<Row>, bytes: &[u8]) -> OwnedBatch {
    let mut copy = Vec::with_capacity(payload(&rows));
    let mut put = |range: Range<usize>| {
        let offset = copy.len() as u32;
        copy.extend_from_slice(bytes.get(range).unwrap_or_default());
        (offset, copy.len() as u32 - offset)
    };
    for row in &mut rows {
        (row.offset, row.len) = put(row.data());
        (row.options_offset, row.options_len) = put(row.options());
    }
    OwnedBatch {
        rows,
        bytes: Arc::new(copy),
        is_borrowed: false,
    }
}

/// The bytes to which the rows refer.
fn payload(rows: &[Row]) -> usize {
    rows.iter()
        .map(|row| row.data().len() + row.options().len())
        .sum()
}

/// Collects the frames of a burst.
#[derive(Default)]
pub(super) struct Gathered {
    rows: Vec<Row>,
    copy: Vec<u8>,
    /// The addresses of the port's memory, if the frames stay there.
    home: Option<Range<usize>>,
}

impl Gathered {
    /// Begins a batch with the frames of a burst that has this memory.
    pub fn begin(&mut self, memory: Option<&[u8]>) {
        self.rows.clear();
        self.copy.clear();
        self.home = memory.map(|memory| {
            let addresses = memory.as_ptr_range();
            addresses.start.addr()..addresses.end.addr()
        });
    }

    /// Adds a frame; `false`: there is no room, or the port lends other memory than that of its frames.
    #[inline]
    pub fn push(&mut self, frame: &Frame<'_>) -> bool {
        let (Some(offset), Some(options_offset)) =
            (self.place(frame.data), self.place(frame.options))
        else {
            return false;
        };
        self.rows.push(Row {
            time_ns: frame.time_ns,
            dropped_before: frame.dropped_before,
            offset,
            len: frame.data.len() as u32,
            wire_len: frame.wire_len,
            interface: frame.interface,
            options_offset,
            options_len: frame.options.len() as u32,
            direction: frame.direction,
            marks: frame.marks,
            unfinished: frame.unfinished,
        });
        true
    }

    /// The offset of these bytes in the port's memory, or in the copy.
    #[inline]
    fn place(&mut self, bytes: &[u8]) -> Option<u32> {
        if bytes.is_empty() {
            return Some(0);
        }
        let offset = match &self.home {
            Some(home) => {
                let at = bytes.as_ptr_range();
                let is_inside = home.start <= at.start.addr() && at.end.addr() <= home.end;
                is_inside.then(|| at.start.addr() - home.start)?
            }
            None => {
                let offset = self.copy.len();
                if offset > 0 && offset + bytes.len() > MAX_COPIED {
                    return None;
                }
                self.copy.extend_from_slice(bytes);
                offset
            }
        };
        u32::try_from(offset).ok()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether the frames stay in the port's memory.
    pub fn is_borrowed(&self) -> bool {
        self.home.is_some()
    }

    /// Whether an owned batch holds on to the port's memory: not for a few frames.
    pub fn fills_memory(&self) -> bool {
        let all = self.home.as_ref().map_or(usize::MAX, Range::len);
        payload(&self.rows) >= all / MIN_SHARE
    }

    /// The batch; `memory` is that of the port.
    pub fn lend<'a>(&'a self, memory: Option<&'a [u8]>) -> Batch<'a> {
        Batch {
            rows: &self.rows,
            bytes: memory.unwrap_or(&self.copy),
            is_borrowed: self.is_borrowed(),
        }
    }

    /// The batch, with memory of the port that was lent.
    pub fn own(&mut self, bytes: LentMemory) -> OwnedBatch {
        OwnedBatch {
            rows: std::mem::take(&mut self.rows),
            bytes,
            is_borrowed: true,
        }
    }

    /// The batch, with a copy of its bytes in `memory`, which is that of the port.
    pub fn own_copy(&mut self, memory: Option<&[u8]>) -> OwnedBatch {
        let rows = std::mem::take(&mut self.rows);
        match memory {
            Some(memory) => copied(rows, memory),
            None => OwnedBatch {
                rows,
                bytes: Arc::new(std::mem::take(&mut self.copy)),
                is_borrowed: false,
            },
        }
    }
}
