//! Six other layouts of a packet descriptor, from 48 bytes to 22, to compare with ours and to convert to and from it.
//!
//! They hold addresses instead of slot numbers, and each smaller one assumes more. Plain data and arithmetic: nothing
//! here follows an address. It imports nothing but [`Desc`]. Read `plain` next, then `bits`, `loops`.
//!
//! ```text
//!  bytes        0        8        16       24       32       40       48
//!  Plain      │p.......│  time  │size....│ payload│f.......│  hash  │        as written down: 22 bytes of padding
//!  Reordered  │  time  │ payload│  hash  │szpf....│                          the largest first
//!  Packed     │  time  │ payload│  hash  │szpf│                              no padding at the end
//!  Assuming   │t48 s13 p3│payload│ hash  │f│                                 8 ports, sizes below 8192, time modulo 2⁴⁸
//!  Tagged     │t48 s13 f3│payload>>3 61, p3│ hash │                          payloads aligned to 8
//!  Stamped    │s13 f3 payload>>3 45, p3│ hash │t48│                          addresses below 2⁴⁷, too
//!  Desc       │t48 p8 f8│l20 s20 pool8 h16│                                  slots by number
//! ```
//!
//! What a layout assumes of the memory is checked when that memory is made known ([`Payloads::new`]), what it assumes
//! of a packet when it is packed ([`Layout::pack`]). Neither ever stores a wrong value.

mod bits;
pub mod loops;
mod plain;
#[cfg(all(test, not(loom)))]
mod tests;

pub use bits::{Assuming, Stamped, Tagged};
pub use plain::{Packed, Plain, Reordered};

use super::{
    Bound, Desc, DoesNotFit, Flags,
    desc::{self, Facts},
};
use crate::Error;
use std::marker::PhantomData;

/// What the layouts say, field by field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// Where the packet came in.
    pub port: u8,
    /// Nanoseconds; layouts with 48 bits keep the lower ones.
    pub time_ns: u64,
    /// Bytes of the packet.
    pub size: u32,
    /// The address of its first byte.
    pub payload: u64,
    /// The packet is sound.
    pub valid: bool,
    /// As you like.
    pub flag2: bool,
    /// As you like.
    pub flag3: bool,
    /// A hash of its bytes.
    pub hash: u64,
}

/// What a layout has room for.
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

/// What the loops look at and set, in the six layouts and in [`Desc`].
pub trait Fields: Copy {
    /// Bytes of the packet.
    fn size(&self) -> u32;
    /// Where it came in.
    fn port(&self) -> u8;
    /// The time; its lower 48 bits in layouts that have no more.
    fn time_ns(&self) -> u64;
    /// Whether the packet is sound.
    fn is_valid(&self) -> bool;
    /// Sets the time; its lower 48 bits where there are no more.
    fn set_time(&mut self, time_ns: u64);
    /// Sets the port.
    ///
    /// # Errors
    /// A port that has no room; nothing is changed.
    fn set_port(&mut self, port: u8) -> Result<(), DoesNotFit>;
    /// Sets whether the packet is sound.
    fn set_valid(&mut self, valid: bool);
}

/// A layout that holds an address.
///
/// ```
/// use forebay::packet::layouts::{Layout, Stamped, Values};
/// let values = Values { port: 3, size: 1514, payload: 0x7fff_0000_1000, valid: true, ..Values::default() };
/// assert_eq!(Stamped::pack(&values)?.values(), values);
/// let jumbo = Values { size: 9018, ..values };
/// assert_eq!(Stamped::pack(&jumbo).unwrap_err().to_string(), "length 9018 does not fit Stamped: at most 8191");
/// let high = Values { payload: 1 << 56, ..values }; // five-level page tables
/// assert!(Stamped::pack(&high).is_err());
/// # Ok::<(), forebay::packet::DoesNotFit>(())
/// ```
pub trait Layout: Fields + Send + Sync + 'static {
    /// Its name, as errors and tables call it.
    const NAME: &'static str;
    /// What it has room for.
    const LIMITS: Limits;

    /// Stores all of `values`; of the time, the lower 48 bits where it has no more.
    ///
    /// # Errors
    /// The first value that does not fit.
    fn pack(values: &Values) -> Result<Self, DoesNotFit>;

    /// All that it says.
    fn values(&self) -> Values;
}

/// Checks `values` against what `L` has room for, all but the time.
#[inline]
fn check<L: Layout>(values: &Values) -> Result<(), DoesNotFit> {
    let limits = L::LIMITS;
    DoesNotFit::check_bits(L::NAME, "port", values.port.into(), limits.port_bits)?;
    DoesNotFit::check_bits(L::NAME, "length", values.size.into(), limits.size_bits)?;
    check_address::<L>(values.payload)
}

#[inline]
fn check_address<L: Layout>(address: u64) -> Result<(), DoesNotFit> {
    DoesNotFit::check_bits(L::NAME, "address", address, L::LIMITS.payload_bits)?;
    if !address.is_multiple_of(L::LIMITS.payload_align) {
        return Err(DoesNotFit {
            target: L::NAME,
            field: "address",
            value: address,
            bound: Bound::MultipleOf(L::LIMITS.payload_align),
        });
    }
    Ok(())
}

/// From one layout to another. A time of 48 bits becomes the one nearest to `reference_ns`.
///
/// ```
/// use forebay::packet::layouts::{convert, Layout, Plain, Tagged, Values};
/// let plain = Plain::pack(&Values { time_ns: 1_700_000_000_000_000_000, size: 60, payload: 64, ..Values::default() })?;
/// let tagged: Tagged = convert(&plain, 0)?;
/// let back: Plain = convert(&tagged, 1_700_000_123_000_000_000)?;
/// assert_eq!(back, plain);
/// # Ok::<(), forebay::packet::DoesNotFit>(())
/// ```
///
/// # Errors
/// As [`Layout::pack`].
pub fn convert<A: Layout, B: Layout>(from: &A, reference_ns: u64) -> Result<B, DoesNotFit> {
    B::pack(&extended(from, reference_ns))
}

fn extended<L: Layout>(from: &L, reference_ns: u64) -> Values {
    let values = from.values();
    let time_ns = match L::LIMITS.time_bits {
        64 => values.time_ns,
        _ => desc::extend(values.time_ns, reference_ns),
    };
    Values { time_ns, ..values }
}

/// Memory in slots, whose addresses are known to fit the layout `L`.
///
/// ```
/// use forebay::packet::{Desc, Facts, layouts::{Fields, Layout, Payloads, Plain, Stamped}};
/// let low = Payloads::<Stamped>::new(0x7000_0000_0000, 2048, 1024, 1)?;
/// let desc = Desc::new(&Facts { len: 60, slot: 3, pool: 1, ..Facts::default() })?;
/// let headroom = 128; // as `Packet::headroom` and `PacketDesc::headroom` say
/// let stamped = low.pack(&desc, headroom, 0)?;
/// assert_eq!(stamped.values().payload, 0x7000_0000_0000 + 3 * 2048 + 128);
/// assert_eq!((stamped.size(), low.unpack(&stamped)?), (60, (desc, headroom)));
///
/// let high = 1 << 56; // 57-bit addresses
/// assert!(Payloads::<Stamped>::new(high, 2048, 1024, 1).is_err());
/// assert!(Payloads::<Plain>::new(high, 2048, 1024, 1).is_ok());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Payloads<L> {
    base: u64,
    slot_bytes: u32,
    slots: u32,
    pool: u8,
    layout: PhantomData<L>,
}

impl<L: Layout> Payloads<L> {
    /// `slots` slots of `slot_bytes` each from the address `base` on, as pool number `pool`.
    ///
    /// # Errors
    /// No slots; more than a [`Desc`] can number; addresses that `L` has no bits for: odd ones where it uses their low
    /// bits, or high ones where it uses those.
    pub fn new(base: u64, slot_bytes: u32, slots: u32, pool: u8) -> crate::Result<Payloads<L>> {
        let about = || format!("{} descriptors", L::NAME);
        let tried = || format!("describing {slots} slots of {slot_bytes} bytes at {base:#x}");
        if slots == 0 || slots > Desc::MAX_SLOTS || slot_bytes == 0 {
            let most = Desc::MAX_SLOTS;
            return Err(Error::new(about(), tried())
                .advise(format!("Ask for 1 to {most} slots of 1 byte or more")));
        }
        let len = u64::from(slots) * u64::from(slot_bytes);
        let Some(end) = base.checked_add(len) else {
            return Err(Error::new(about(), tried()).advise("No memory ends beyond 64 bits"));
        };
        check_address::<L>(base)?;
        DoesNotFit::check_bits(L::NAME, "address", end - 1, L::LIMITS.payload_bits)?;
        if slots > 1 {
            check_address::<L>(base + u64::from(slot_bytes))?;
        }
        Ok(Payloads {
            base,
            slot_bytes,
            slots,
            pool,
            layout: PhantomData,
        })
    }

    /// The layout's description of a packet with `headroom` bytes of its slot before its data
    /// ([`Packet::headroom`](super::Packet::headroom), [`PacketDesc::headroom`](super::PacketDesc::headroom)), which a
    /// [`Desc`] does not say. A time of 48 bits becomes the one nearest to `reference_ns`.
    ///
    /// # Errors
    /// A chain, whose data has no one address; flags that the layouts have no bits for, which are all but
    /// [`VALID`](Flags::VALID), [`FLAG2`](Flags::FLAG2) and [`FLAG3`](Flags::FLAG3); a pool or a slot that is not of this
    /// memory; data that does not begin and end in its slot; a port, a length or an address that `L` has no room for.
    #[inline]
    pub fn pack(&self, desc: &Desc, headroom: u32, reference_ns: u64) -> Result<L, DoesNotFit> {
        let pool = Bound::Only(self.pool.into());
        within("pool", desc.pool().into(), desc.pool() == self.pool, pool)?;
        let last = u64::from(self.slots - 1);
        let slot = u64::from(desc.slot());
        within("slot", slot, slot <= last, Bound::AtMost(last))?;
        if desc.flags().has(Flags::CHAINED) {
            return Err(DoesNotFit {
                target: L::NAME,
                field: "length",
                value: desc.len().into(),
                bound: Bound::OneSlot,
            });
        }
        DoesNotFit::check_bits(L::NAME, "flags", desc.flags().0.into(), FLAG_BITS)?;
        self.check_place(headroom, desc.len())?;
        L::pack(&Values {
            port: desc.port(),
            time_ns: desc.time_near(reference_ns),
            size: desc.len(),
            payload: self.base + slot * u64::from(self.slot_bytes) + u64::from(headroom),
            valid: desc.flags().has(Flags::VALID),
            flag2: desc.flags().has(Flags::FLAG2),
            flag3: desc.flags().has(Flags::FLAG3),
            hash: desc.hash().into(),
        })
    }

    /// Our description of the same packet, and its headroom. A hash is folded into 16 bits, of a time the lower 48 bits
    /// are kept; all else is kept whole.
    ///
    /// # Errors
    /// An address outside this memory; data that does not end in the slot in which it begins.
    #[inline]
    pub fn unpack(&self, layout: &L) -> Result<(Desc, u32), DoesNotFit> {
        let values = layout.values();
        let slot_bytes = u64::from(self.slot_bytes);
        let (address, base) = (values.payload, self.base);
        let last = base + (u64::from(self.slots) * slot_bytes - 1);
        within("address", address, address >= base, Bound::AtLeast(base))?;
        within("address", address, address <= last, Bound::AtMost(last))?;
        let headroom = ((address - base) % slot_bytes) as u32;
        self.check_place(headroom, values.size)?;
        let flag = |set, flag: Flags| Flags(u8::from(set) * flag.0);
        let desc = Desc::new(&Facts {
            time_ns: values.time_ns,
            len: values.size,
            slot: ((address - base) / slot_bytes) as u32,
            pool: self.pool,
            port: values.port,
            flags: flag(values.valid, Flags::VALID)
                .with(flag(values.flag2, Flags::FLAG2))
                .with(flag(values.flag3, Flags::FLAG3)),
            hash: Desc::fold_hash(values.hash),
        })?;
        Ok((desc, headroom))
    }

    /// Whether data of this length lies in one slot from there on. Where a slot ends, the next one begins already: so
    /// not even data of no length can have that address.
    #[inline]
    fn check_place(&self, headroom: u32, len: u32) -> Result<(), DoesNotFit> {
        let most = self.slot_bytes - 1;
        let fits = headroom <= most;
        within(
            "headroom",
            headroom.into(),
            fits,
            Bound::AtMost(most.into()),
        )?;
        let most = self.slot_bytes - headroom;
        within(
            "length",
            len.into(),
            len <= most,
            Bound::AtMost(most.into()),
        )
    }
}

/// Bits of [`Flags`] that all layouts have: the lowest three.
const FLAG_BITS: u32 = 3;

/// What is true of a value that fits the memory in question.
#[inline(always)]
fn within(field: &'static str, value: u64, fits: bool, bound: Bound) -> Result<(), DoesNotFit> {
    match fits {
        true => Ok(()),
        false => Err(DoesNotFit {
            target: "this memory",
            field,
            value,
            bound,
        }),
    }
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
    fn set_port(&mut self, port: u8) -> Result<(), DoesNotFit> {
        Desc::set_port(self, port);
        Ok(())
    }
    #[inline(always)]
    fn set_valid(&mut self, valid: bool) {
        let others = self.flags().without(Flags::VALID);
        self.set_flags(others.with(Flags(u8::from(valid) * Flags::VALID.0)));
    }
}
