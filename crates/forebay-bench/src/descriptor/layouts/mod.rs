//! Six other layouts of a packet descriptor, from 48 bytes to 22, and the loops by which they are compared with [`Desc`].
//!
//! They hold addresses instead of slot numbers, and each smaller one assumes more. Plain data and arithmetic: nothing
//! here follows an address. A value that a layout has no bits for is never stored in part: [`Layout::pack`] checks it.
//!
//! ```text
//!  bytes        0        8        16       24       32       40       48
//!  Plain      │p.......│  time  │size....│ payload│f.......│  hash  │        in declaration order: 22 bytes of padding
//!  Reordered  │  time  │ payload│  hash  │szpf....│                          the largest first
//!  Packed     │  time  │ payload│  hash  │szpf│                              no padding at the end
//!  Assuming   │t48 s13 p3│payload│ hash  │f│                                 8 ports, sizes below 8192, time modulo 2⁴⁸
//!  Tagged     │t48 s13 f3│payload>>3 61, p3│ hash │                          payloads aligned to 8
//!  Stamped    │s13 f3 payload>>3 45, p3│ hash │t48│                          addresses below 2⁴⁷, too
//!  Desc       │t48 p8 f8│l20 s20 pool8 h16│                                  slots by number
//! ```

mod bits;
pub mod loops;
mod plain;
#[cfg(test)]
mod tests;

pub use bits::{Assuming, Stamped, Tagged};
pub use plain::{Packed, Plain, Reordered};

use forebay::packet::{Desc, Flags};

/// The fields of a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// The port where the packet arrived.
    pub port: u8,
    /// Nanoseconds; layouts with 48 bits keep the lower ones.
    pub time_ns: u64,
    /// Bytes of the packet.
    pub size: u32,
    /// The address of its first byte.
    pub payload: u64,
    /// The packet is valid.
    pub valid: bool,
    /// Reserved for the application.
    pub flag2: bool,
    /// Reserved for the application.
    pub flag3: bool,
    /// A hash of its bytes.
    pub hash: u64,
}

/// The bits that a layout has for each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bits for the port.
    pub port_bits: u32,
    /// Bits for the time.
    pub time_bits: u32,
    /// Bits for the size.
    pub size_bits: u32,
    /// Bits for the address, those that are always zero included.
    pub payload_bits: u32,
    /// What addresses must be multiples of.
    pub payload_align: u64,
}

/// The fields that the loops read and set, in the six layouts and in [`Desc`].
pub trait Fields: Copy {
    /// Bytes of the packet.
    fn size(&self) -> u32;
    /// The port where the packet arrived.
    fn port(&self) -> u8;
    /// The time; its lower 48 bits in layouts that have no more.
    fn time_ns(&self) -> u64;
    /// Whether the packet is valid.
    fn is_valid(&self) -> bool;
    /// Sets the time; its lower 48 bits where there are no more.
    fn set_time(&mut self, time_ns: u64);
    /// Sets the port; `None`, and nothing is changed, if there are too few bits for it.
    fn set_port(&mut self, port: u8) -> Option<()>;
    /// Sets whether the packet is valid.
    fn set_valid(&mut self, valid: bool);
}

/// A layout that holds an address.
pub trait Layout: Fields + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// The bits that it has for each field.
    const LIMITS: Limits;

    /// Stores `values`, of the time at least the lower 48 bits; `None` if another value does not fit.
    fn pack(values: &Values) -> Option<Self>;

    /// All fields.
    #[cfg(test)]
    fn values(&self) -> Values;
}

/// Checks that `L` has enough bits for all values except the time.
#[inline]
fn check<L: Layout>(values: &Values) -> Option<()> {
    let limits = L::LIMITS;
    check_bits(values.port.into(), limits.port_bits)?;
    check_bits(values.size.into(), limits.size_bits)?;
    check_bits(values.payload, limits.payload_bits)?;
    let aligned = values.payload.is_multiple_of(limits.payload_align);
    aligned.then_some(())
}

/// Checks that `value` fits into this number of bits, which may be 0.
#[inline(always)]
fn check_bits(value: u64, bits: u32) -> Option<()> {
    (value.checked_shr(bits).unwrap_or(0) == 0).then_some(())
}

/// Bits of [`Flags`] that all layouts have: the lowest three.
const FLAG_BITS: u32 = 3;

impl Fields for Desc {
    #[inline(always)]
    fn size(&self) -> u32 {
        self.len()
    }
    #[inline(always)]
    fn port(&self) -> u8 {
        Desc::port(self)
    }
    #[inline(always)]
    fn time_ns(&self) -> u64 {
        Desc::time_ns(self)
    }
    #[inline(always)]
    fn is_valid(&self) -> bool {
        self.flags().has(Flags::VALID)
    }
    #[inline(always)]
    fn set_time(&mut self, time_ns: u64) {
        Desc::set_time(self, time_ns);
    }
    #[inline(always)]
    fn set_port(&mut self, port: u8) -> Option<()> {
        Desc::set_port(self, port);
        Some(())
    }
    #[inline(always)]
    fn set_valid(&mut self, valid: bool) {
        let others = self.flags().without(Flags::VALID);
        self.set_flags(others.with(Flags(u8::from(valid) * Flags::VALID.0)));
    }
}
