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
//! Fields that share a word: the first one is in the lowest bits, as C compilers for x86-64 and aarch64 place them. A tagged
//! pointer stores a field (the *tag*) in its three low bits, which alignment leaves zero. A stamped pointer also stores fields
//! (the *stamp*) in the high bits, which are zero in canonical addresses of user space.

pub mod loops;
#[cfg(test)]
mod tests;

use forebay::packet::{Desc, Flags};
use zerocopy::{Immutable, IntoBytes};

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

/// A layout that holds an address: its fields as numbers.
#[allow(dead_code)] // every layout has all, though no loop asks for each
pub trait Layout: Copy + IntoBytes + Immutable {
    /// Its name.
    const NAME: &'static str;
    /// Bits of these fields.
    const TIME: u32;
    const SIZE: u32;
    const PORT: u32;
    const PAYLOAD: u32;
    const FLAGS: u32;
    const HASH: u32;
    /// Low bits of an address that must be zero, and are not stored.
    const ALIGN_BITS: u32;
    /// Bits of an address, those that are not stored included.
    const ADDRESS_BITS: u32;
    /// All bytes zero.
    const ZERO: Self;

    fn time(&self) -> u64;
    fn size(&self) -> u64;
    fn port(&self) -> u64;
    fn payload(&self) -> u64;
    fn flags(&self) -> u64;
    fn hash(&self) -> u64;

    // Each stores the lower bits of the value.
    fn put_time(&mut self, value: u64);
    fn put_size(&mut self, value: u64);
    fn put_port(&mut self, value: u64);
    fn put_payload(&mut self, value: u64);
    fn put_flags(&mut self, value: u64);
    fn put_hash(&mut self, value: u64);

    /// Stores `values`, of the time at least the lower 48 bits; `None` if another value does not fit.
    fn pack(values: &Values) -> Option<Self> {
        let flags = [values.valid, values.flag2, values.flag3].map(u64::from);
        let stored = values.payload >> Self::ALIGN_BITS;
        fits(values.port.into(), Self::PORT)?;
        fits(values.size.into(), Self::SIZE)?;
        fits(values.payload, Self::ADDRESS_BITS)?;
        (stored << Self::ALIGN_BITS == values.payload).then_some(())?;
        let mut layout = Self::ZERO;
        layout.put_time(values.time_ns);
        layout.put_size(values.size.into());
        layout.put_port(values.port.into());
        layout.put_payload(stored);
        layout.put_flags(flags[0] | flags[1] << 1 | flags[2] << 2);
        layout.put_hash(values.hash);
        Some(layout)
    }
}

/// Checks that `value` fits into this number of bits.
#[inline(always)]
fn fits(value: u64, bits: u32) -> Option<()> {
    (value.checked_shr(bits).unwrap_or(0) == 0).then_some(())
}

impl<L: Layout> Fields for L {
    #[inline(always)]
    fn size(&self) -> u32 {
        Layout::size(self) as u32
    }
    #[inline(always)]
    fn port(&self) -> u8 {
        Layout::port(self) as u8
    }
    #[inline(always)]
    fn time_ns(&self) -> u64 {
        self.time()
    }
    #[inline(always)]
    fn is_valid(&self) -> bool {
        self.flags() & 1 != 0
    }
    #[inline(always)]
    fn set_time(&mut self, time_ns: u64) {
        self.put_time(time_ns);
    }
    #[inline(always)]
    fn set_port(&mut self, port: u8) -> Option<()> {
        fits(port.into(), L::PORT)?;
        self.put_port(port.into());
        Some(())
    }
    #[inline(always)]
    fn set_valid(&mut self, valid: bool) {
        self.put_flags(self.flags() & !1 | u64::from(valid));
    }
}

/// A field in one or more parts, the lower bits first: each is `bits` bits of a number, from bit `at` on.
macro_rules! field {
    ($bits:ident $get:ident $put:ident = $($word:ident $at:literal $n:literal),+) => {
        const $bits: u32 = 0 $(+ $n)+;

        #[inline(always)]
        fn $get(&self) -> u64 {
            let (mut value, mut from) = (0, 0);
            $(
                value |= (self.$word as u64 >> $at & (u64::MAX >> (64 - $n))) << from;
                from += $n;
            )+
            let _ = from;
            value
        }

        #[inline(always)]
        fn $put(&mut self, value: u64) {
            let mut from = 0;
            $(
                let mask = u64::MAX >> (64 - $n) << $at;
                self.$word = (self.$word as u64 & !mask | value >> from << $at & mask) as _;
                from += $n;
            )+
            let _ = from;
        }
    };
}

/// A layout: its numbers, and where the fields are in them.
macro_rules! layout {
    ($(#[$about:meta])* $name:ident $bytes:literal { $($word:ident: $type:ty = $zero:expr),* } align $align:literal $address:literal;
     time [$($time:tt)+] size [$($size:tt)+] port [$($port:tt)+] payload [$($payload:tt)+] flags [$($flags:tt)+] hash [$($hash:tt)+]) => {
        $(#[$about])*
        #[derive(Clone, Copy, zerocopy_derive::IntoBytes, zerocopy_derive::Immutable)]
        pub struct $name { $($word: $type),* }

        const _: () = assert!(size_of::<$name>() == $bytes);

        impl Layout for $name {
            const NAME: &'static str = stringify!($name);
            const ALIGN_BITS: u32 = $align;
            const ADDRESS_BITS: u32 = $address;
            const ZERO: Self = $name { $($word: $zero),* };

            field!(TIME time put_time = $($time)+);
            field!(SIZE size put_size = $($size)+);
            field!(PORT port put_port = $($port)+);
            field!(PAYLOAD payload put_payload = $($payload)+);
            field!(FLAGS flags put_flags = $($flags)+);
            field!(HASH hash put_hash = $($hash)+);
        }
    };
}

layout! {
    /// In the order of their declaration: 48 bytes, 22 of them padding.
    #[repr(C)]
    Plain 48 { port: u8 = 0, _p: [u8; 7] = [0; 7], time: u64 = 0, size: u16 = 0, _q: [u8; 6] = [0; 6], payload: u64 = 0, flags: u8 = 0,
               _r: [u8; 7] = [0; 7], hash: u64 = 0 } align 0 64;
    time [time 0 64] size [size 0 16] port [port 0 8] payload [payload 0 64] flags [flags 0 8] hash [hash 0 64]
}
layout! {
    /// The largest first: 32 bytes, 4 of them padding.
    #[repr(C)]
    Reordered 32 { time: u64 = 0, payload: u64 = 0, hash: u64 = 0, size: u16 = 0, port: u8 = 0, flags: u8 = 0, _p: [u8; 4] = [0; 4] }
    align 0 64;
    time [time 0 64] size [size 0 16] port [port 0 8] payload [payload 0 64] flags [flags 0 8] hash [hash 0 64]
}
layout! {
    /// [`Reordered`] without the padding: 28 bytes, and every second one straddles a cache line.
    #[repr(C, packed)]
    Packed 28 { time: u64 = 0, payload: u64 = 0, hash: u64 = 0, size: u16 = 0, port: u8 = 0, flags: u8 = 0 } align 0 64;
    time [time 0 64] size [size 0 16] port [port 0 8] payload [payload 0 64] flags [flags 0 8] hash [hash 0 64]
}
layout! {
    /// 25 bytes: 8 ports, sizes below 8192 (no jumbo frames), time modulo 78 hours.
    #[repr(C, packed)]
    Assuming 25 { word: u64 = 0, payload: u64 = 0, hash: u64 = 0, flags: u8 = 0 } align 0 64;
    time [word 0 48] size [word 48 13] port [word 61 3] payload [payload 0 64] flags [flags 0 8] hash [hash 0 64]
}
layout! {
    /// 24 bytes: as [`Assuming`], and payloads aligned to 8.
    #[repr(C)]
    Tagged 24 { word: u64 = 0, tagged: u64 = 0, hash: u64 = 0 } align 3 64;
    time [word 0 48] size [word 48 13] port [tagged 61 3] payload [tagged 0 61] flags [word 61 3] hash [hash 0 64]
}
layout! {
    /// 22 bytes: as [`Tagged`], and payloads in the lower half of what four levels of page tables map, as user space is.
    #[repr(C, packed)]
    Stamped 22 { stamped: u64 = 0, hash: u64 = 0, time_low: u32 = 0, time_high: u16 = 0 } align 3 47;
    time [time_low 0 32, time_high 0 16] size [stamped 0 13] port [stamped 61 3] payload [stamped 16 45] flags [stamped 13 3]
    hash [hash 0 64]
}

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
