//! Runs the filter over the packets of a window, and notes the matching ones in its batch.
//!
//! ```text
//!  filter_in_order  one packet after another, with the decoder of the token: everything in the file is reported
//!  filter_walked    groups of plain packets ─▶ filter, all together ─▶ matches are decoded again ─▶ runs
//!                   any other record ─▶ filter_in_order
//!  filter_plain     groups of plain packets ─▶ filter, all together ─▶ matches, noted in four bytes; any other record: give up
//! ```
//! All of them note the same packets with the same ordinals.

use super::batch::{Batch, EventKind, Loss, Match};
use crate::{
    file::TimeRange,
    filter::bpf::{self, BatchFilter, Program, WIDTH},
    format::read::{Decoder, Fault, Step},
};
use std::sync::Arc;

/// Which packets match.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Packets of other times are passed over: they get no ordinal, and are in no count.
    pub times: TimeRange,
    /// The filter, compiled for each interface.
    pub programs: &'a [Arc<Program>],
}

/// Why filtering stopped.
pub(super) enum Stop {
    /// The next record begins at or after the limit.
    Done,
    /// A record that is not a packet was read.
    Other,
    /// A section or an interface was read.
    Described,
    /// The next packet belongs to an interface without a program.
    Unknown,
    /// The next record needs this number of bytes.
    More(usize),
    /// The next record consists of zeros.
    Zeros,
    Fault(Fault),
}

/// Filters the packets that begin at `at` and before `limit`, one by one.
#[inline(always)]
pub(super) fn filter_in_order(
    bytes: &[u8],
    at: &mut usize,
    limit: usize,
    decoder: &mut Decoder,
    wanted: Wanted<'_>,
    batch: &mut Batch,
) -> Stop {
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
                Ok(Step::Zeros) => return Stop::Zeros,
                Ok(Step::Other(len)) => {
                    *at += len;
                    return Stop::Other;
                }
                Ok(Step::Described(len)) => {
                    *at += len;
                    return Stop::Described;
                }
                Ok(Step::More(record)) => return Stop::More(record),
                Err(fault) => {
                    let Some(len) = fault.skip() else {
                        return Stop::Fault(fault);
                    };
                    batch.note(EventKind::Skipped(fault.at(batch.base + *at as u64)));
                    *at += len;
                    continue;
                }
            },
        };
        if !wanted.times.contains(frame.time_ns) {
            *at += len;
            continue;
        }
        let Some(program) = wanted.programs.get(frame.interface as usize) else {
            return Stop::Unknown;
        };
        let ordinal = batch.packets;
        if program.run(frame.data, frame.wire_len) > 0 {
            let begin = frame.data.as_ptr().addr() - bytes.as_ptr().addr();
            batch.matches.push(Match::new(&frame, begin, ordinal));
        } else if frame.dropped_before > 0 {
            batch.losses.push(Loss {
                ordinal,
                interface: frame.interface,
                packets: frame.dropped_before,
            });
        }
        batch.packets = ordinal + 1;
        *at += len;
    }
    Stop::Done
}

/// Like [`filter_in_order`], for a window that was walked: records other than packets need no attention there, and plain packets
/// go through the filter in groups.
pub(super) fn filter_walked(
    bytes: &[u8],
    at: &mut usize,
    limit: usize,
    decoder: &mut Decoder,
    wanted: Wanted<'_>,
    batch_filter: &mut BatchFilter,
    batch: &mut Batch,
) -> Stop {
    let mut group = bpf::FrameBatch::new();
    let mut begins = [0; WIDTH];
    loop {
        // The interface of the last packet, and the program of all.
        let mut shared: Option<(u32, &Arc<Program>)> = None;
        while *at < limit && !group.is_full() {
            let Some((frame, len)) = decoder.packet(bytes.get(*at..).unwrap_or(&[])) else {
                break;
            };
            if !wanted.times.contains(frame.time_ns) {
                *at += len;
                continue;
            }
            if shared.is_none_or(|(interface, _)| interface != frame.interface) {
                let Some(program) = wanted.programs.get(frame.interface as usize) else {
                    break;
                };
                if shared.is_some_and(|(_, other)| !Arc::ptr_eq(other, program)) {
                    break;
                }
                shared = Some((frame.interface, program));
            }
            begins[group.len()] = *at as u32;
            group.push(frame.data, frame.wire_len);
            *at += len;
        }
        if let Some((_, program)) = shared {
            let mut numbers = [0; WIDTH];
            for &number in matching(batch_filter.run(program, &group), &mut numbers) {
                let record = begins[usize::from(number)];
                let rest = &bytes[record as usize..];
                // Only matching packets are decoded again. To keep the frames of all packets takes longer.
                let Some((frame, len)) = decoder.packet(rest) else {
                    unreachable!("a decoder finds the same packet in the same bytes");
                };
                let begin = frame.data.as_ptr().addr() - bytes.as_ptr().addr();
                let ordinal = batch.packets + u32::from(number);
                batch.matches.push(Match {
                    record,
                    record_end: record + len as u32,
                    is_as_composed: decoder.is_as_composed(&rest[..len]),
                    ..Match::new(&frame, begin, ordinal)
                });
            }
            batch.packets += group.len() as u32;
            group.clear();
            continue;
        }
        // Another kind of record, or the end.
        let next = limit.min(*at + 1);
        match filter_in_order(bytes, at, next, decoder, wanted, batch) {
            Stop::Other => batch.note_blocks(decoder),
            Stop::Done if *at < limit => {}
            stop => return stop,
        }
    }
}

/// Like [`filter_walked`], for a [plain](super::plain) window; `None`: the window is not plain, and the notes are invalid.
pub(super) fn filter_plain(
    bytes: &[u8],
    begin: usize,
    limit: usize,
    decoder: &mut Decoder,
    wanted: Wanted<'_>,
    batch_filter: &mut BatchFilter,
    batch: &mut Batch,
) -> Option<()> {
    let mut group = bpf::FrameBatch::new();
    let mut records = [(0, 0); WIDTH];
    let mut interface = None;
    let mut at = begin;
    while at < limit {
        while at < limit && !group.is_full() {
            let rest = bytes.get(at..)?;
            let Some((frame, len)) = decoder.packet(rest) else {
                let Ok(Step::Other(len)) = decoder.next(rest) else {
                    return None;
                };
                if decoder.has_blocks() {
                    // The caller reads the window again and notes them.
                    decoder.take_blocks();
                    return None;
                }
                at += len;
                continue;
            };
            if !wanted.times.contains(frame.time_ns) {
                at += len;
                continue;
            }
            if *interface.get_or_insert(frame.interface) != frame.interface {
                return None;
            }
            records[group.len()] = (at as u32, (at + len) as u32);
            group.push(frame.data, frame.wire_len);
            at += len;
        }
        let Some(interface) = interface else {
            continue;
        };
        let program = wanted.programs.get(interface as usize)?;
        let mut numbers = [0; WIDTH];
        for &number in matching(batch_filter.run(program, &group), &mut numbers) {
            let (begin, end) = records[usize::from(number)];
            let record = &bytes[begin as usize..end as usize];
            if !decoder.is_as_composed(record) {
                return None;
            }
            let ordinal = batch.packets + u32::from(number);
            let (caplen, wire_len) = group.lens(usize::from(number));
            if batch
                .plain
                .note(ordinal, begin..end, (caplen, wire_len), &mut batch.runs)
            {
                continue;
            }
            let (frame, _) = decoder.packet(record)?;
            batch.plain.begin_run(&frame, begin..end, &mut batch.runs);
        }
        batch.packets += group.len() as u32;
        group.clear();
    }
    Some(())
}

/// The numbers of the matching packets of a group. There is no branch for each packet, because it would be unpredictable.
fn matching<'a>(results: &[u32], numbers: &'a mut [u8; WIDTH]) -> &'a [u8] {
    let mut len = 0;
    for (number, &result) in results.iter().enumerate() {
        numbers[len % WIDTH] = number as u8;
        len += usize::from(result > 0);
    }
    &numbers[..len]
}
