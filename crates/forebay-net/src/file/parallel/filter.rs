//! Which packets of a window pass, noted in its batch.
//!
//! ```text
//!  sift       one packet after another, with the decoder that travels: whatever comes is told
//!  sift_all   a row of plain ones ─▶ filter, all together ─▶ decoded again: those that pass ─▶ runs
//!             one of another kind ─▶ sift
//!  sift_plain a row of plain ones ─▶ filter, all together ─▶ those that pass, noted in four bytes; any other ─▶ given up
//! ```
//! All note the same packets with the same ordinals. Imports `format` and `filter`. Read `batch` next.

use super::batch::{Batch, Passed, Tale};
use crate::{
    filter::bpf::{self, BatchFilter, Program, WIDTH},
    format::read::{Decoder, Fault, Step},
};
use std::sync::Arc;

/// Why sifting cannot go on by itself.
pub(super) enum Pause {
    /// The next record begins behind the limit.
    Done,
    /// A record that is no packet was passed.
    Other,
    /// A section or interface was passed.
    Described,
    /// The next packet is of an interface without a program.
    Unknown,
    /// The next record needs so many bytes.
    More(usize),
    /// The next record is nothing but zeros.
    Zeros,
    Fault(Fault),
}

/// Notes of the packets that begin at `at` and before `limit` which ones pass.
#[inline(always)]
pub(super) fn sift(
    bytes: &[u8],
    at: &mut usize,
    limit: usize,
    decoder: &mut Decoder,
    programs: &[Arc<Program>],
    batch: &mut Batch,
) -> Pause {
    while *at < limit {
        let rest = bytes.get(*at..).unwrap_or(&[]);
        let (frame, len) = match decoder.packet(rest) {
            Some(found) => found,
            None => match decoder.next(rest) {
                Ok(Step::Packet(frame, len)) => {
                    if frame.data.is_empty() {
                        decoder.took_empty();
                    }
                    (frame, len)
                }
                Ok(Step::Zeros) => return Pause::Zeros,
                Ok(Step::Other(len)) => {
                    *at += len;
                    return Pause::Other;
                }
                Ok(Step::Described(len)) => {
                    *at += len;
                    return Pause::Described;
                }
                Ok(Step::More(record)) => return Pause::More(record),
                Err(fault) => return Pause::Fault(fault),
            },
        };
        let Some(program) = programs.get(frame.interface as usize) else {
            return Pause::Unknown;
        };
        let ordinal = batch.packets;
        if program.run(frame.data, frame.wire_len) > 0 {
            let begin = frame.data.as_ptr().addr() - bytes.as_ptr().addr();
            batch.passed.push(Passed::new(&frame, begin, ordinal));
        } else if frame.dropped_before > 0 {
            batch.tales.push(Tale {
                ordinal,
                interface: frame.interface,
                dropped: frame.dropped_before,
            });
        }
        batch.packets = ordinal + 1;
        *at += len;
    }
    Pause::Done
}

/// As [`sift`], for a window that was skimmed: what is no packet there needs no attention, and packets without anything special
/// go through the filter in rows.
pub(super) fn sift_all(
    bytes: &[u8],
    at: &mut usize,
    limit: usize,
    decoder: &mut Decoder,
    programs: &[Arc<Program>],
    abreast: &mut BatchFilter,
    batch: &mut Batch,
) -> Pause {
    let mut row = bpf::Batch::new();
    let mut begins = [0; WIDTH];
    loop {
        // The interface of the last one, and the program of all.
        let mut shared: Option<(u32, &Arc<Program>)> = None;
        while *at < limit && !row.is_full() {
            let Some((frame, len)) = decoder.packet(bytes.get(*at..).unwrap_or(&[])) else {
                break;
            };
            if shared.is_none_or(|(interface, _)| interface != frame.interface) {
                let Some(program) = programs.get(frame.interface as usize) else {
                    break;
                };
                if shared.is_some_and(|(_, other)| !Arc::ptr_eq(other, program)) {
                    break;
                }
                shared = Some((frame.interface, program));
            }
            begins[row.len()] = *at as u32;
            row.push(frame.data, frame.wire_len);
            *at += len;
        }
        if let Some((_, program)) = shared {
            let mut numbers = [0; WIDTH];
            let passing = passing(abreast.run(program, &row), &mut numbers);
            for &number in passing {
                let record = begins[usize::from(number)];
                let rest = &bytes[record as usize..];
                // Asked again, and only of those that pass: to keep what it said of all takes longer.
                let Some((frame, len)) = decoder.packet(rest) else {
                    unreachable!("a decoder says the same of the same bytes");
                };
                let begin = frame.data.as_ptr().addr() - bytes.as_ptr().addr();
                let ordinal = batch.packets + u32::from(number);
                batch.passed.push(Passed {
                    record,
                    record_end: record + len as u32,
                    is_as_composed: decoder.is_as_composed(&rest[..len]),
                    ..Passed::new(&frame, begin, ordinal)
                });
            }
            batch.packets += row.len() as u32;
            row.clear();
            continue;
        }
        // One of another kind, or the end.
        let next = limit.min(*at + 1);
        match sift(bytes, at, next, decoder, programs, batch) {
            Pause::Other => batch.note_blocks(decoder),
            Pause::Done if *at < limit => {}
            pause => return pause,
        }
    }
}

/// As [`sift_all`], for windows as [`plain`](super::plain) has them; `None`: this is another, and what was noted does not count.
pub(super) fn sift_plain(
    bytes: &[u8],
    begin: usize,
    limit: usize,
    decoder: &mut Decoder,
    programs: &[Arc<Program>],
    abreast: &mut BatchFilter,
    batch: &mut Batch,
) -> Option<()> {
    let mut row = bpf::Batch::new();
    let mut records = [(0, 0); WIDTH];
    let mut interface = None;
    let mut at = begin;
    while at < limit {
        while at < limit && !row.is_full() {
            let rest = bytes.get(at..)?;
            let Some((frame, len)) = decoder.packet(rest) else {
                let Ok(Step::Other(len)) = decoder.next(rest) else {
                    return None;
                };
                if decoder.has_blocks() {
                    // They are noted by the thread that reads the window.
                    decoder.take_blocks();
                    return None;
                }
                at += len;
                continue;
            };
            if *interface.get_or_insert(frame.interface) != frame.interface {
                return None;
            }
            records[row.len()] = (at as u32, (at + len) as u32);
            row.push(frame.data, frame.wire_len);
            at += len;
        }
        let Some(interface) = interface else {
            continue;
        };
        let program = programs.get(interface as usize)?;
        let mut numbers = [0; WIDTH];
        for &number in passing(abreast.run(program, &row), &mut numbers) {
            let (begin, end) = records[usize::from(number)];
            let record = &bytes[begin as usize..end as usize];
            if !decoder.is_as_composed(record) {
                return None;
            }
            let ordinal = batch.packets + u32::from(number);
            let (caplen, wire_len) = row.lens(usize::from(number));
            if batch
                .plain
                .note(ordinal, begin..end, (caplen, wire_len), &mut batch.runs)
            {
                continue;
            }
            let (frame, _) = decoder.packet(record)?;
            batch.plain.begin_run(&frame, begin..end, &mut batch.runs);
        }
        batch.packets += row.len() as u32;
        row.clear();
    }
    Some(())
}

/// The numbers of those of a row that are kept. Without a branch for each, which nobody could predict.
fn passing<'a>(kept: &[u32], numbers: &'a mut [u8; WIDTH]) -> &'a [u8] {
    let mut len = 0;
    for (number, &kept) in kept.iter().enumerate() {
        numbers[len % WIDTH] = number as u8;
        len += usize::from(kept > 0);
    }
    &numbers[..len]
}
