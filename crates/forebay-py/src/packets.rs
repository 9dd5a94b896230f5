//! The packets of a burst: a batch of the source, and its columns.

use crate::{error::Failure, process::Born};
use arrow_buffer::{ArrowNativeType, Buffer};
use bytes::Bytes;
use forebay_net::{
    capture::{OwnedBatch, Row},
    flow::Flow,
    port::{Frame, Interface},
};
use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

/// The columns, in the order of [`Packets::columns`].
#[derive(Clone, Copy)]
pub enum Field {
    /// Nanoseconds since 1970, signed as numpy's `datetime64`.
    Time,
    Length,
    WireLength,
    Interface,
    Direction,
    Dropped,
    /// Where each packet begins in the payload.
    Offset,
    /// Of the flow: computed from the bytes.
    Hash,
}

impl Field {
    /// The elements, as Python's module `struct` calls them.
    pub fn format(self) -> &'static str {
        match self {
            Field::Time | Field::Offset => "q",
            Field::Dropped | Field::Hash => "Q",
            Field::Direction => "B",
            _ => "I",
        }
    }
}

pub struct Packets {
    pub batch: OwnedBatch,
    pub interfaces: Arc<[Interface]>,
    /// Where the source may overwrite the bytes once this process, or the one that forked it, has released them.
    born: Option<Born>,
    columns: [OnceLock<Buffer>; 8],
}

/// The memory with the bytes of the packets.
struct Payload(Arc<Packets>);

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        self.0.batch.bytes()
    }
}

impl Packets {
    /// `is_file`: nothing overwrites the memory that a file was read into.
    pub fn new(batch: OwnedBatch, interfaces: Arc<[Interface]>, is_file: bool) -> Packets {
        let born = (batch.is_borrowed() && !is_file).then(Born::now);
        Packets {
            batch,
            interfaces,
            born,
            columns: Default::default(),
        }
    }

    /// The same, with a copy of the bytes. The offsets change.
    pub fn detach(self) -> Packets {
        Packets::new(self.batch.detach(), self.interfaces, false)
    }

    /// Refuses to read a ring that a forked child shares with the process that releases its parts.
    pub fn check(&self) -> Result<(), Failure> {
        self.born.map_or(Ok(()), |born| born.check("the burst"))
    }

    /// Whether the bytes are in a ring, which fills up meanwhile.
    pub fn is_in_ring(&self) -> bool {
        self.born.is_some()
    }

    /// The bytes, which stay where the source received them. The result keeps them there.
    pub fn payload(self: &Arc<Self>) -> Buffer {
        Bytes::from_owner(Payload(self.clone())).into()
    }

    /// The place of packet `index` in the payload.
    pub fn range(&self, index: usize) -> Range<usize> {
        let row = &self.batch.rows()[index];
        row.offset as usize..row.offset as usize + row.len as usize
    }

    /// A column, in memory that holds nothing else.
    pub fn column(&self, field: Field) -> Buffer {
        let made = self.columns[field as usize].get_or_init(|| match field {
            Field::Time => self.collect(|row| i64::try_from(row.time_ns).unwrap_or(i64::MAX)),
            Field::Length => self.collect(|row| row.len),
            Field::WireLength => self.collect(|row| row.wire_len),
            Field::Interface => self.collect(|row| row.interface),
            Field::Direction => self.collect(|row| row.direction as u8),
            Field::Dropped => self.collect(|row| row.dropped_before),
            Field::Offset => self.collect(|row| i64::from(row.offset)),
            Field::Hash => Buffer::from_vec(self.batch.frames().map(|it| self.hash(&it)).collect()),
        });
        made.clone()
    }

    fn hash(&self, frame: &Frame<'_>) -> u64 {
        let interface = self.interfaces.get(frame.interface as usize);
        interface.map_or(0, |interface| {
            Flow::of(interface.link, frame.data).0.hash64()
        })
    }

    fn collect<T: ArrowNativeType>(&self, field: impl Fn(&Row) -> T) -> Buffer {
        let rows = self.batch.rows();
        Buffer::from_vec(rows.iter().map(field).collect::<Vec<_>>())
    }
}
