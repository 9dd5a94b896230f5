//! The loops piece by piece. Before each piece, its counterpart [`AHEAD_BYTES`] further on is prefetched.
#![allow(unsafe_code)]

use super::{
    AHEAD_BYTES,
    layouts::{Fields, loops},
};

/// Descriptors of a piece: enough to be worth a loop, few enough that the processor can fetch their lines at the same time.
const PIECE: usize = 32;

/// Prefetches the lines `AHEAD_BYTES` after those of `piece`.
#[inline(always)]
fn ask<D>(piece: &[D]) {
    let first = piece.as_ptr().cast::<u8>().wrapping_add(AHEAD_BYTES);
    for _line in (0..size_of_val(piece)).step_by(64) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: prefetching changes nothing and never faults, at any address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                first.wrapping_add(_line).cast(),
            );
        }
    }
}

pub fn trivial<D: Fields>(descs: &[D]) -> u64 {
    let pieces = descs.chunks(PIECE).inspect(|piece| ask(piece));
    pieces.map(loops::trivial).sum()
}

pub fn rx<D: Fields>(descs: &[D]) -> (u64, u64) {
    let pieces = descs.chunks(PIECE).inspect(|piece| ask(piece));
    let add = |sum: (u64, u64), more: (u64, u64)| (sum.0 + more.0, sum.1 + more.1);
    pieces.map(loops::rx).fold((0, 0), add)
}

pub fn tx<D: Fields>(descs: &mut [D]) {
    for (number, piece) in descs.chunks_mut(PIECE).enumerate() {
        ask(piece);
        loops::tx_from(piece, (number * PIECE) as u64);
    }
}
