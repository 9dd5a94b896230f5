//! The 16 bytes that describe a packet: the fields that are used for every packet.
//!
//! Plain data: a `Desc` owns nothing and touches no memory. Rarely used fields (where the data begins in its slot, the
//! length on the wire, the reference count) lie beside the slots, see `shared`.
//!
//! ```text
//!  bit   63     56 55     48 47                                       0
//!  word 0 │ flags │  port   │            time, ns, modulo 2⁴⁸          │   what changes on the way, in one word
//!  word 1 │      hash       │ pool │      slot      │     length       │
//!         63             48 47  40 39            20 19                0
//! ```
//!
//! Lengths go up to 1,048,575, so jumbo frames and frames merged by GRO (up to 512 KiB) fit; slots go up to 1,048,575, pools
//! and ports up to 255. Time wraps after 78 hours and is reconstructed from a reference less than 39 hours away.

use super::DoesNotFit;

const TIME_BITS: u32 = 48;
const LEN_BITS: u32 = 20;
const SLOT_BITS: u32 = 20;
const PORT_AT: u32 = 48;
const FLAGS_AT: u32 = 56;
const SLOT_AT: u32 = 20;
const POOL_AT: u32 = 40;
const HASH_AT: u32 = 48;

const _: () = assert!(size_of::<Desc>() == 16 && align_of::<Desc>() == 16);

/// One bit each. [`CHAINED`](Flags::CHAINED) belongs to the packet; the others are for the application.
///
/// ```
/// use forebay::packet::Flags;
/// let flags = Flags::VALID.with(Flags::OUTBOUND);
/// assert!(flags.has(Flags::VALID) && !flags.has(Flags(2)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// The packet is valid.
    pub const VALID: Flags = Flags(1);
    /// This machine sent it.
    pub const OUTBOUND: Flags = Flags(8);
    /// The data lies in several slots. Set and cleared by `Packet` only.
    pub const CHAINED: Flags = Flags(128);

    /// The union of both.
    #[inline]
    pub const fn with(self, more: Flags) -> Flags {
        Flags(self.0 | more.0)
    }

    /// The first without the second.
    #[inline]
    pub const fn without(self, those: Flags) -> Flags {
        Flags(self.0 & !those.0)
    }

    /// These flags, with [`CHAINED`](Flags::CHAINED) unchanged.
    #[inline(always)]
    pub(super) const fn kept(self, before: Flags) -> Flags {
        let chained = Flags::CHAINED.0;
        Flags(self.0 & !chained | before.0 & chained)
    }

    /// Whether all of those are set.
    #[inline]
    pub const fn has(self, those: Flags) -> bool {
        self.0 & those.0 == those.0
    }
}

/// The contents of a [`Desc`], field by field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Nanoseconds since any epoch; the lower 48 bits are kept.
    pub time_ns: u64,
    /// Length of the data in bytes, 0 to 1,048,575.
    pub len: u32,
    /// Number of the (first) slot, 0 to 1,048,575.
    pub slot: u32,
    /// Number of the slot's pool.
    pub pool: u8,
    /// Port where the packet arrived or will be sent.
    pub port: u8,
    /// One bit each.
    pub flags: Flags,
    /// Hash of the flow, for distributing packets.
    pub hash: u16,
}

/// A packet's description in 16 bytes, aligned to 16. Plain data: a copy owns nothing, see `PacketDesc`.
///
/// ```
/// use forebay::packet::{Desc, Facts, Flags};
/// let facts = Facts { time_ns: 5, len: 9000, slot: 7, pool: 1, port: 3, flags: Flags::VALID, hash: 0xbeef };
/// let desc = Desc::new(&facts)?;
/// assert_eq!((desc.len(), desc.slot(), desc.port()), (9000, 7, 3));
/// assert_eq!(desc.facts(), facts);
/// assert_eq!(size_of::<Desc>(), 16);
/// # Ok::<(), forebay::packet::DoesNotFit>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C, align(16))]
pub struct Desc {
    /// Time, port, flags.
    meta: u64,
    /// Length, slot, pool, hash.
    place: u64,
}

/// The description as numbers, for code in another language.
impl From<Desc> for [u64; 2] {
    #[inline]
    fn from(desc: Desc) -> [u64; 2] {
        [desc.meta, desc.place]
    }
}

/// Any numbers are a description; whether it is one of a packet is another question.
impl From<[u64; 2]> for Desc {
    #[inline]
    fn from([meta, place]: [u64; 2]) -> Desc {
        Desc { meta, place }
    }
}

impl Desc {
    /// The longest packet that it can describe.
    pub const MAX_LEN: u32 = (1 << LEN_BITS) - 1;
    /// The largest number of slots in a pool.
    pub const MAX_SLOTS: u32 = 1 << SLOT_BITS;

    /// Packs `facts` into 16 bytes; keeps the lower 48 bits of the time.
    ///
    /// # Errors
    /// A length or a slot above 1,048,575.
    #[inline]
    pub fn new(facts: &Facts) -> Result<Desc, DoesNotFit> {
        DoesNotFit::check_bits("length", facts.len.into(), LEN_BITS)?;
        DoesNotFit::check_bits("slot", facts.slot.into(), SLOT_BITS)?;
        Ok(Desc {
            meta: low(facts.time_ns, TIME_BITS)
                | u64::from(facts.port) << PORT_AT
                | u64::from(facts.flags.0) << FLAGS_AT,
            place: u64::from(facts.len)
                | u64::from(facts.slot) << SLOT_AT
                | u64::from(facts.pool) << POOL_AT
                | u64::from(facts.hash) << HASH_AT,
        })
    }

    /// An empty packet in a slot; all other fields are zero.
    #[inline(always)]
    pub(super) fn empty(slot: u32, pool: u8) -> Desc {
        debug_assert!(slot < Desc::MAX_SLOTS);
        Desc {
            meta: 0,
            place: u64::from(slot) << SLOT_AT | u64::from(pool) << POOL_AT,
        }
    }

    /// The same with another length, at most [`MAX_LEN`](Desc::MAX_LEN).
    #[inline(always)]
    pub(super) fn with_len(self, len: u32) -> Desc {
        debug_assert!(len <= Desc::MAX_LEN);
        let others = self.place >> LEN_BITS << LEN_BITS;
        Desc {
            place: others | u64::from(len),
            ..self
        }
    }

    /// All fields; the time has its lower 48 bits.
    pub fn facts(&self) -> Facts {
        Facts {
            time_ns: self.time_ns(),
            len: self.len(),
            slot: self.slot(),
            pool: self.pool(),
            port: self.port(),
            flags: self.flags(),
            hash: self.hash(),
        }
    }

    /// The time modulo 2⁴⁸ nanoseconds (78 hours).
    #[inline]
    pub fn time_ns(&self) -> u64 {
        low(self.meta, TIME_BITS)
    }

    /// The full time, reconstructed from any time less than 39 hours earlier or later: the current time will do.
    ///
    /// ```
    /// use forebay::packet::{Desc, Facts};
    /// let time_ns = 1_700_000_000_123_456_789;
    /// let desc = Desc::new(&Facts { time_ns, ..Facts::default() })?;
    /// let hours_ns = 3_600_000_000_000;
    /// assert_eq!(desc.time_near(time_ns + 38 * hours_ns), time_ns);
    /// assert_eq!(desc.time_near(time_ns - 38 * hours_ns), time_ns);
    /// # Ok::<(), forebay::packet::DoesNotFit>(())
    /// ```
    #[inline]
    pub fn time_near(&self, reference_ns: u64) -> u64 {
        extend(self.time_ns(), reference_ns)
    }

    /// Bytes of data.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // a description is not a collection
    pub fn len(&self) -> u32 {
        low(self.place, LEN_BITS) as u32
    }

    /// Number of the (first) slot.
    #[inline]
    pub fn slot(&self) -> u32 {
        low(self.place >> SLOT_AT, SLOT_BITS) as u32
    }

    /// Number of the slot's pool.
    #[inline]
    pub fn pool(&self) -> u8 {
        (self.place >> POOL_AT) as u8
    }

    /// Port where the packet arrived or will be sent.
    #[inline]
    pub fn port(&self) -> u8 {
        (self.meta >> PORT_AT) as u8
    }

    /// One bit each.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags((self.meta >> FLAGS_AT) as u8)
    }

    /// Hash of the flow.
    #[inline]
    pub fn hash(&self) -> u16 {
        (self.place >> HASH_AT) as u16
    }

    /// Sets the time; its lower 48 bits are kept.
    #[inline]
    pub fn set_time(&mut self, time_ns: u64) {
        self.meta = self.meta >> PORT_AT << PORT_AT | low(time_ns, TIME_BITS);
    }

    /// Sets the port where the packet arrived or will be sent.
    #[inline]
    pub fn set_port(&mut self, port: u8) {
        self.meta = self.meta & !(0xff << PORT_AT) | u64::from(port) << PORT_AT;
    }

    /// Sets all flags.
    #[inline]
    pub fn set_flags(&mut self, flags: Flags) {
        self.meta = low(self.meta, FLAGS_AT) | u64::from(flags.0) << FLAGS_AT;
    }

    /// Sets the hash of the flow.
    #[inline]
    pub fn set_hash(&mut self, hash: u16) {
        self.place = low(self.place, HASH_AT) | u64::from(hash) << HASH_AT;
    }
}

/// The lower `bits` of a word.
#[inline(always)]
const fn low(word: u64, bits: u32) -> u64 {
    word & (u64::MAX >> (64 - bits))
}

/// The time whose lower 48 bits are `low_ns` and that is nearest to `reference_ns`.
#[inline]
fn extend(low_ns: u64, reference_ns: u64) -> u64 {
    // The distance modulo 2⁴⁸, sign-extended: −39 to +39 hours.
    let distance = (low_ns.wrapping_sub(reference_ns) << (64 - TIME_BITS)) as i64;
    let distance = distance >> (64 - TIME_BITS);
    match reference_ns.checked_add_signed(distance) {
        Some(time) => time,
        // There is no time before 0 or beyond 64 bits, so the other side is right.
        None if distance < 0 => low_ns,
        None => reference_ns - (distance.unsigned_abs().wrapping_neg() & ((1 << TIME_BITS) - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Clock, VIRTUAL_EPOCH_NS};
    use proptest::prelude::*;
    use std::time::Duration;

    fn facts() -> impl Strategy<Value = Facts> {
        let numbers = (any::<u64>(), 0..=Desc::MAX_LEN, 0..Desc::MAX_SLOTS);
        (numbers, any::<(u8, u8, u8, u16)>()).prop_map(
            |((time_ns, len, slot), (pool, port, flags, hash))| Facts {
                time_ns: low(time_ns, TIME_BITS),
                len,
                slot,
                pool,
                port,
                flags: Flags(flags),
                hash,
            },
        )
    }

    /// The same 16 bytes as one number, computed without the code above.
    fn as_number(facts: &Facts) -> u128 {
        let mut number = 0;
        let fields: [(u128, u32); 7] = [
            (facts.hash.into(), 16),
            (facts.pool.into(), 8),
            (facts.slot.into(), 20),
            (facts.len.into(), 20),
            (facts.flags.0.into(), 8),
            (facts.port.into(), 8),
            (u128::from(facts.time_ns) % (1 << 48), 48),
        ];
        for (value, bits) in fields {
            number = number << bits | value;
        }
        number
    }

    proptest! {
        #[test]
        fn every_bit_lies_where_the_picture_says(facts in facts(), other in facts()) {
            let mut desc = Desc::new(&facts).unwrap();
            prop_assert_eq!(u128::from(desc.place) << 64 | u128::from(desc.meta), as_number(&facts));
            prop_assert_eq!(desc.facts(), facts);
            desc.set_time(other.time_ns | 0xabcd << 48);
            desc.set_port(other.port);
            desc.set_flags(other.flags);
            desc.set_hash(other.hash);
            let expected = Facts { len: facts.len, slot: facts.slot, pool: facts.pool, ..other };
            prop_assert_eq!(desc.facts(), expected);
        }

        #[test]
        fn a_time_is_reconstructed_from_any_reference_within_39_hours(
            time_ns in any::<u64>(),
            off in -(1_i64 << 47) + 1..1 << 47,
        ) {
            if let Some(reference) = time_ns.checked_add_signed(off) {
                prop_assert_eq!(extend(low(time_ns, 48), reference), time_ns);
            }
        }

        #[test]
        fn an_extended_time_never_has_other_lower_bits(low_ns in 0_u64..1 << 48, reference in any::<u64>()) {
            prop_assert_eq!(low(extend(low_ns, reference), 48), low_ns);
        }
    }

    #[test]
    fn times_survive_79_hours_of_a_clock_and_the_wrap_in_them() {
        let clock = Clock::virtual_time();
        let mut wraps = 0;
        let mut last = 0;
        let mut waiting = std::collections::VecDeque::new();
        while clock.now() < 79 * 3_600_000_000_000 {
            let time_ns = clock.wall(clock.now());
            let desc = Desc::new(&Facts {
                time_ns,
                ..Facts::default()
            })
            .unwrap();
            wraps += usize::from(desc.time_ns() < last);
            last = desc.time_ns();
            waiting.push_back((desc, time_ns));
            // Reconstructed at once, and after some hours in a queue.
            assert_eq!(desc.time_near(clock.wall(clock.now())), time_ns);
            if waiting.len() > 20 {
                let (desc, time_ns) = waiting.pop_front().unwrap();
                assert_eq!(desc.time_near(clock.wall(clock.now())), time_ns);
            }
            clock.sleep(Duration::from_secs(17 * 60));
        }
        assert!(wraps >= 1 && clock.wall(0) == VIRTUAL_EPOCH_NS);
    }

    #[test]
    fn jumbo_and_gro_frames_fit_and_longer_ones_say_so() {
        let of = |len, slot| {
            Desc::new(&Facts {
                len,
                slot,
                ..Facts::default()
            })
        };
        for len in [9018, 65_535, 262_144, 524_280, Desc::MAX_LEN] {
            assert_eq!(of(len, 0).unwrap().len(), len);
        }
        let message = of(1 << 20, 0).unwrap_err().to_string();
        assert!(
            message.contains("length") && message.contains("1048575"),
            "{message}"
        );
        let message = of(0, 1 << 20).unwrap_err().to_string();
        assert!(message.contains("slot"), "{message}");
    }
}
