//! Packets of a range of times only, and passing over the parts of a file that have none.
//!
//! ```text
//!  begin │ stretch 0 │ stretch 1 │ stretch 2 │ stretch 3 │ statistics │ index
//!  read                            read        read                     read first
//! ```
//! Where times may be anywhere in a file, every record has to be looked at. A file that forebay wrote names its stretches and their times at its
//! end ([`time_index`](crate::format::time_index)): then only those are read in which a packet of the range may be, and what is between
//! them. Packets of other times are not handed out in either case, and are in no count.
//!
//! Before anything is passed over, the blocks at both ends of the part that is read are decoded, or at both ends of the file if no part is
//! read. If they do not have the times that the index gives, the file is read as if it had none.

use super::{File, TimeRange, source::ByteSource, time_range::COARSEST_NS};
use crate::format::{
    read::{Decoder, Kind, Step},
    time_index::{self, Stretch},
};
use std::{ops::Range, os::unix::fs::FileExt};

/// Bytes that show whether blocks begin at an offset. A longer first block shows nothing, and then the whole file is read.
const SAMPLE_BYTES: u64 = 512 << 10;

impl File {
    /// Hands out only packets of these times. Other packets are in no count, and neither are the losses that they record. The file's
    /// statistics, which are about all packets, are not reported.
    ///
    /// Call it before the first packet is taken. A plain pcapng file that forebay wrote is read only where such packets may be, unless it is
    /// smaller than a few MiB. Other files are read whole.
    #[must_use]
    pub fn between(mut self, times: TimeRange) -> File {
        self.times = times;
        if let Some(range) = self.indexed_range(times) {
            self.read_only(range);
        }
        self
    }

    /// The part of the file where packets of these times may be, by its index; `None`: there is no index to believe.
    fn indexed_range(&self, times: TimeRange) -> Option<Range<u64>> {
        let is_pcapng = self.decoder.kind() == Kind::Pcapng;
        if times.is_all() || self.failure.is_some() || self.compression().is_some() || !is_pcapng {
            return None;
        }
        let source = self.stream.source();
        let (stretches, end) = read_index(source)?;
        // Everything before the first packet was read when the file was opened.
        if stretches[0].begin > self.window.offset() {
            return None;
        }
        let may = |stretch: &Stretch| times.may_be_in(stretch);
        let (first, last) = (
            stretches.iter().position(may),
            stretches.iter().rposition(may),
        );
        let (checked, range) = match first.zip(last) {
            Some((first, last)) => {
                let (first, next) = (&stretches[first], stretches.get(last + 1));
                let range = first.begin..next.map_or(end, |next| next.begin);
                ([Some(first), next], range)
            }
            // Nothing is read: the ends of the file show whether the index is its own.
            None => ([stretches.first(), stretches.last()], end..end),
        };
        let mut checked = checked.into_iter().flatten();
        let is_right = |stretch| begins_here(source, &self.decoder, stretch, end);
        checked.all(is_right).then_some(range)
    }

    /// Passes over what is not in `range`, as far as it was not read yet.
    fn read_only(&mut self, range: Range<u64>) {
        let read_to = self.window.read_to();
        if range.start > read_to && self.stream.source_mut().move_to(range.start).is_ok() {
            self.window.move_to(range.start);
        }
        self.stream.source_mut().end_at(range.end);
        self.window.end_at(range.end);
    }
}

/// The stretches of a file, and the offset of its index.
fn read_index(source: &ByteSource) -> Option<(Vec<Stretch>, u64)> {
    let (file, file_len) = source.regular()?;
    let mut last = [0; 4];
    file.read_exact_at(&mut last, file_len.checked_sub(4)?)
        .ok()?;
    let len = time_index::len_of(last)?;
    let offset = file_len.checked_sub(len as u64)?;
    let mut block = vec![0; len];
    file.read_exact_at(&mut block, offset).ok()?;
    Some((time_index::decode(&block, offset)?, offset))
}

/// Whether a block begins where the stretch does, and the first packet from there on has a time of the stretch. `end` is the end of the packets.
fn begins_here(source: &ByteSource, decoder: &Decoder, stretch: &Stretch, end: u64) -> bool {
    let Some((file, _)) = source.regular() else {
        return false;
    };
    let len = SAMPLE_BYTES.min(end - stretch.begin);
    let mut bytes = vec![0; len as usize];
    if file.read_exact_at(&mut bytes, stretch.begin).is_err() {
        return false;
    }
    let mut decoder = decoder.for_packets();
    let mut rest = &bytes[..];
    loop {
        match decoder.next(rest) {
            Ok(Step::Packet(frame, _)) => {
                let earliest = stretch.earliest.saturating_sub(COARSEST_NS);
                return (earliest..=stretch.latest).contains(&frame.time_ns);
            }
            Ok(Step::Other(len)) if len < rest.len() => rest = &rest[len..],
            // Interfaces are described in a stretch that is always read, and this one may be after it.
            Ok(Step::Described(_)) => return true,
            Err(fault) => return fault.skip().is_some(),
            Ok(_) => return false,
        }
    }
}
