//! Typed pointers that hold a number beside an address, as the layouts [`Tagged`](super::Tagged) and [`Stamped`](super::Stamped) do,
//! and what following them costs.
//!
//! ```text
//!  TaggedPtr    │ address                            │ tag │   the low bits, which alignment leaves zero
//!  StampedPtr   │ stamp │ address of 47 bits               │   the high bits, zero in the lower half of the address space
//! ```
//!
//! The library has no use for them: its descriptors hold the number of a slot, which 20 bits suffice for, and never an address.
#![allow(unsafe_code)]

use anyhow::{Context, Result};
use forebay_bench::method::{
    Effort,
    samples::{Side, contest},
    table::{Cell, Table},
};
use std::{fs, hint::black_box, marker::PhantomData};

/// A reference and a tag in the bits that the alignment of `T` leaves zero: one bit for 2 bytes, three for 8.
#[derive(Clone, Copy)]
pub struct TaggedPtr<'a, T>(*const T, PhantomData<&'a T>);

impl<'a, T> TaggedPtr<'a, T> {
    /// The largest tag.
    pub const MAX_TAG: usize = align_of::<T>() - 1;

    /// `None`: the tag is larger than [`MAX_TAG`](TaggedPtr::MAX_TAG).
    pub fn new(target: &'a T, tag: usize) -> Option<Self> {
        let pointer = (target as *const T).map_addr(|address| address | tag);
        (tag <= Self::MAX_TAG).then_some(TaggedPtr(pointer, PhantomData))
    }

    #[inline(always)]
    pub fn tag(self) -> usize {
        self.0.addr() & Self::MAX_TAG
    }

    #[inline(always)]
    pub fn get(self) -> &'a T {
        let pointer = self.0.map_addr(|address| address & !Self::MAX_TAG);
        // SAFETY: without the tag, it is the reference that `new` was given.
        unsafe { &*pointer }
    }
}

/// A reference and a stamp of 16 bits in the bits that an address of user space does not use.
#[derive(Clone, Copy)]
pub struct StampedPtr<'a, T>(*const T, PhantomData<&'a T>);

impl<'a, T> StampedPtr<'a, T> {
    /// Bits of an address in the lower half of an address space of 48 bits.
    const ADDRESS_BITS: u32 = 47;
    const ADDRESS: usize = (1 << Self::ADDRESS_BITS) - 1;

    /// `None`: the address has more than 47 bits. On x86-64 a program gets such addresses only if it asks for them, with five levels
    /// of page tables (Documentation/arch/x86/x86_64/5level-paging.rst).
    pub fn new(target: &'a T, stamp: u16) -> Option<Self> {
        let pointer = target as *const T;
        let stamped = pointer.map_addr(|address| address | usize::from(stamp) << 48);
        (pointer.addr() <= Self::ADDRESS).then_some(StampedPtr(stamped, PhantomData))
    }

    #[inline(always)]
    pub fn stamp(self) -> u16 {
        (self.0.addr() >> 48) as u16
    }

    #[inline(always)]
    pub fn get(self) -> &'a T {
        let pointer = self.0.map_addr(|address| address & Self::ADDRESS);
        // SAFETY: without the stamp, it is the reference that `new` was given: its address has no more bits.
        unsafe { &*pointer }
    }
}

/// Bits of a virtual address, as `grep address /proc/cpuinfo` reports them; `None` on other processors than x86.
pub fn virtual_address_bits(cpuinfo: &str) -> Option<u32> {
    let sizes = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("address sizes"))?;
    let (_, bits) = sizes.split_once(',')?;
    bits.trim().split_once(' ')?.0.parse().ok()
}

/// Follows pointers to packets and uses the number beside them.
///
/// # Errors
/// An address of more than 47 bits.
pub fn run(effort: Effort) -> Result<Table> {
    const PACKETS: usize = 4096;
    let packets: Vec<u64> = (0..PACKETS as u64).collect();
    let number = |index: usize| (index % 8) as u16;
    let all = || packets.iter().enumerate();
    let plain: Vec<(&u64, u16)> = all().map(|(at, packet)| (packet, number(at))).collect();
    let tagged: Option<Vec<_>> = all()
        .map(|(at, packet)| TaggedPtr::new(packet, number(at).into()))
        .collect();
    let stamped: Option<Vec<_>> = all()
        .map(|(at, packet)| StampedPtr::new(packet, number(at)))
        .collect();
    let tagged = tagged.context("tagging pointers with 3 bits")?;
    let stamped = stamped.context("stamping pointers: an address has more than 47 bits")?;
    let rounds = effort.scaled(4000);
    let mut sides = [
        Side::new("an address and a number", || {
            follow(rounds, &plain, |(packet, number)| (*packet, number.into()))
        }),
        Side::new("TaggedPtr", || {
            follow(rounds, &tagged, |pointer| {
                (*pointer.get(), pointer.tag() as u64)
            })
        }),
        Side::new("StampedPtr", || {
            follow(rounds, &stamped, |pointer| {
                (*pointer.get(), pointer.stamp().into())
            })
        }),
    ];
    let bytes = [
        size_of::<(&u64, u16)>(),
        size_of_val(&tagged[0]),
        size_of_val(&stamped[0]),
    ];
    let mut table = Table::new(
        format!(
            "descriptor/pointers: followed, and the number beside them used; {PACKETS} packets in the cache, one thread"
        ),
        &["bytes", "ns", "cycles"],
    );
    let times = contest(&mut sides, effort.rounds)?;
    for ((side, times), bytes) in sides.iter().zip(times).zip(bytes) {
        let cells = vec![
            Cell::number(bytes as f64, 0),
            Cell::spread(Some(times.ns), 2),
            Cell::spread(times.cycles, 2),
        ];
        table.row(&*side.name, cells);
    }
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    table.note(match virtual_address_bits(&cpuinfo) {
        Some(bits) => format!("virtual addresses here have {bits} bits, one of them for the kernel's half"),
        None => "/proc/cpuinfo does not report the bits of an address here; each one is checked when it is stamped".into(),
    });
    Ok(table)
}

#[inline(never)]
fn follow<P: Copy>(rounds: u64, pointers: &[P], open: impl Fn(P) -> (u64, u64)) -> u64 {
    for _ in 0..rounds {
        let sum = black_box(pointers).iter().fold(0_u64, |sum, &pointer| {
            let (word, number) = open(pointer);
            sum.wrapping_add(word ^ number)
        });
        black_box(sum);
    }
    rounds * pointers.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_fits_into_the_bits_that_alignment_leaves_and_the_reference_comes_back() {
        assert_eq!(
            (TaggedPtr::<u8>::MAX_TAG, TaggedPtr::<u16>::MAX_TAG),
            (0, 1)
        );
        let words = [1_u64, 2, 3];
        for (word, tag) in words.iter().zip(0..) {
            let pointer = TaggedPtr::new(word, tag).unwrap();
            assert!(std::ptr::eq(pointer.get(), word) && pointer.tag() == tag);
        }
        assert!(TaggedPtr::new(&words[0], 7).is_some() && TaggedPtr::new(&words[0], 8).is_none());
        assert!(TaggedPtr::new(&b'x', 1).is_none());
        assert_eq!(size_of::<TaggedPtr<'_, u64>>(), 8);
    }

    #[test]
    fn a_stamp_has_16_bits_and_the_reference_comes_back() {
        let word = 7_u64;
        for stamp in [0, 1, 0x8000, u16::MAX] {
            let pointer = StampedPtr::new(&word, stamp).unwrap();
            assert!(std::ptr::eq(pointer.get(), &word) && pointer.stamp() == stamp);
        }
    }

    #[test]
    fn the_bits_of_an_address_are_read_as_linux_prints_them() {
        let cpuinfo =
            "processor\t: 0\naddress sizes\t: 39 bits physical, 48 bits virtual\nflags\t: x\n";
        assert_eq!(virtual_address_bits(cpuinfo), Some(48));
        assert_eq!(virtual_address_bits("processor\t: 0\n"), None);
    }
}
