//! The text's entries: 28 bytes, and 32 bytes.

use forebay::records::Record;
use std::io::{Result, Write};
use zerocopy::little_endian::{U32, U64};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Entries an iteration, as in the text.
pub const ENTRIES: u64 = 100_000;

/// An entry that can be made from a number: all at once, in place, or field by field.
pub trait Entry: Record + Copy + Send + 'static {
    /// What a table calls it.
    const NAME: &'static str;

    /// Built where it is returned.
    fn new(number: u64) -> Self;

    /// Built where it is.
    #[inline(always)]
    fn build(&mut self, number: u64) {
        *self = Self::new(number);
    }

    /// Written a field at a time.
    fn write_fields(number: u64, to: &mut impl Write) -> Result<()>;
}

/// 28 bytes: three words and a half, no gaps, aligned to one byte.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Entry28 {
    time: U64,
    key: U64,
    offset: U64,
    len: U32,
}

/// 32 bytes: four words.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Entry32 {
    time: U64,
    key: U64,
    offset: U64,
    len: U64,
}

fn key(number: u64) -> u64 {
    number ^ 0x5bd1_e995_9e37_79b9
}

impl Entry for Entry28 {
    const NAME: &'static str = "28";

    #[inline(always)]
    fn new(number: u64) -> Self {
        Entry28 {
            time: number.into(),
            key: key(number).into(),
            offset: (number << 5).into(),
            len: (number as u32).into(),
        }
    }

    #[inline(always)]
    fn write_fields(number: u64, to: &mut impl Write) -> Result<()> {
        to.write_all(&number.to_le_bytes())?;
        to.write_all(&key(number).to_le_bytes())?;
        to.write_all(&(number << 5).to_le_bytes())?;
        to.write_all(&(number as u32).to_le_bytes())
    }
}

impl Entry for Entry32 {
    const NAME: &'static str = "32";

    #[inline(always)]
    fn new(number: u64) -> Self {
        Entry32 {
            time: number.into(),
            key: key(number).into(),
            offset: (number << 5).into(),
            len: number.into(),
        }
    }

    #[inline(always)]
    fn write_fields(number: u64, to: &mut impl Write) -> Result<()> {
        to.write_all(&number.to_le_bytes())?;
        to.write_all(&key(number).to_le_bytes())?;
        to.write_all(&(number << 5).to_le_bytes())?;
        to.write_all(&number.to_le_bytes())
    }
}
