//! The loops over columns.

use forebay::packet::{Columns, Flags};

pub fn trivial(columns: &Columns) -> u64 {
    columns.view().lens.iter().map(|&len| u64::from(len)).sum()
}

pub fn rx(columns: &Columns) -> (u64, u64) {
    let view = columns.view();
    let sound = view
        .flags
        .iter()
        .map(|flags| u64::from(flags.has(Flags::VALID)));
    let lens = view.lens.iter().map(|&len| u64::from(len));
    let bytes = lens.zip(sound).map(|(len, sound)| len * sound).sum();
    let packets = view.ports.iter().map(|&port| u64::from(port == 3)).sum();
    (bytes, packets)
}

/// Piece by piece, so that the compiler sees one column at a time, and memory one place.
pub fn tx(columns: &mut Columns) {
    const PIECE: usize = 1024;
    let set = columns.view_mut();
    let (times, ports) = (set.times.chunks_mut(PIECE), set.ports.chunks_mut(PIECE));
    let (flags, lens) = (set.flags.chunks_mut(PIECE), set.lens.chunks(PIECE));
    let mut before = 0;
    for (((times, ports), flags), lens) in times.zip(ports).zip(flags).zip(lens) {
        for (number, time) in times.iter_mut().enumerate() {
            *time = 100 * (before + number as u64);
        }
        for (number, port) in ports.iter_mut().enumerate() {
            *port = number as u8 % 4;
        }
        for (flags, &len) in flags.iter_mut().zip(lens) {
            let others = flags.without(Flags::VALID);
            *flags = others.with(Flags(u8::from(len > 64) * Flags::VALID.0));
        }
        before += PIECE as u64;
    }
}
