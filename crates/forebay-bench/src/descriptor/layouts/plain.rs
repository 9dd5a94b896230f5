//! The three layouts of whole fields: in the order of their declaration, largest first, and without padding.
//!
//! No two fields share a word.
//!
//! ```text
//!  Plain      port . . . . . . . │ time │ size . . . . . . │ payload │ flags . . . . . . . │ hash      48
//!  Reordered  time │ payload │ hash │ size port flags . . . .                                       32
//!  Packed     time │ payload │ hash │ size port flags                                               28, aligned to 1
//! ```

use super::{Fields, Layout, Limits, Values, check};

const WHOLE_FIELDS: Limits = Limits {
    port_bits: 8,
    time_bits: 64,
    size_bits: 16,
    payload_bits: 64,
    payload_align: 1,
};

const VALID: u8 = 1;
const FLAG2: u8 = 2;
const FLAG3: u8 = 4;

/// In the order of their declaration: 48 bytes, 22 of them padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Plain {
    port: u8,
    time_ns: u64,
    size: u16,
    payload: u64,
    flags: u8,
    hash: u64,
}

/// The largest first: 32 bytes, 4 of them padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Reordered {
    time_ns: u64,
    payload: u64,
    hash: u64,
    size: u16,
    port: u8,
    flags: u8,
}

/// [`Reordered`] without the padding: 28 bytes, and every second one straddles a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed)]
pub struct Packed {
    time_ns: u64,
    payload: u64,
    hash: u64,
    size: u16,
    port: u8,
    flags: u8,
}

const _: () = {
    assert!(size_of::<Plain>() == 48 && align_of::<Plain>() == 8);
    assert!(size_of::<Reordered>() == 32 && align_of::<Reordered>() == 8);
    assert!(size_of::<Packed>() == 28 && align_of::<Packed>() == 1);
};

/// All three have the same fields, in different places.
macro_rules! whole_fields {
    ($layout:ident) => {
        impl Fields for $layout {
            #[inline(always)]
            fn size(&self) -> u32 {
                self.size.into()
            }
            #[inline(always)]
            fn port(&self) -> u8 {
                self.port
            }
            #[inline(always)]
            fn time_ns(&self) -> u64 {
                self.time_ns
            }
            #[inline(always)]
            fn is_valid(&self) -> bool {
                self.flags & VALID != 0
            }
            #[inline(always)]
            fn set_time(&mut self, time_ns: u64) {
                self.time_ns = time_ns;
            }
            #[inline(always)]
            fn set_port(&mut self, port: u8) -> Option<()> {
                self.port = port;
                Some(())
            }
            #[inline(always)]
            fn set_valid(&mut self, valid: bool) {
                self.flags = self.flags & !VALID | u8::from(valid);
            }
        }

        impl Layout for $layout {
            const NAME: &'static str = stringify!($layout);
            const LIMITS: Limits = WHOLE_FIELDS;

            #[inline]
            fn pack(values: &Values) -> Option<Self> {
                check::<Self>(values)?;
                Some($layout {
                    port: values.port,
                    time_ns: values.time_ns,
                    size: values.size as u16,
                    payload: values.payload,
                    flags: u8::from(values.valid) * VALID
                        | u8::from(values.flag2) * FLAG2
                        | u8::from(values.flag3) * FLAG3,
                    hash: values.hash,
                })
            }

            #[cfg(test)]
            fn values(&self) -> Values {
                Values {
                    port: self.port,
                    time_ns: self.time_ns,
                    size: self.size.into(),
                    payload: self.payload,
                    valid: self.flags & VALID != 0,
                    flag2: self.flags & FLAG2 != 0,
                    flag3: self.flags & FLAG3 != 0,
                    hash: self.hash,
                }
            }
        }
    };
}

whole_fields!(Plain);
whole_fields!(Reordered);
whole_fields!(Packed);
