//! What travels in rings: a description that owns its slot.
//!
//! The same 16 bytes as a [`Desc`], but neither `Copy` nor `Clone`, and dropping it brings the slot home. It is made
//! from a [`Packet`] and becomes one again. Imports its parent's `shared` and `chains`. Read `packet` next.
//!
//! ```text
//!  Packet ──into_desc──▶ PacketDesc ──ring──▶ into_packet, or Pool::adopt, which checks the pool
//!                            └── dropped ──▶ the slot goes home
//! ```
#![allow(unsafe_code)]

use super::{
    Desc, Flags,
    packet::{Packet, release_slots},
    returns::NONE,
    shared::PoolRef,
};
use std::{mem, ops::Deref};

const _: () = assert!(size_of::<PacketDesc>() == 16 && align_of::<PacketDesc>() == 16);

/// A [`Desc`] that owns its slot (or its share of it).
///
/// ```
/// use forebay::{packet::{Pool, PoolConfig}, ring::spsc};
/// let mut pool = Pool::new(&PoolConfig::default())?;
/// let (mut producer, mut consumer) = spsc::ring(64)?;
/// let mut packet = pool.take().unwrap();
/// packet.put(5).unwrap().copy_from_slice(b"hello");
/// producer.push(packet.into_desc().unwrap()).unwrap();
/// let desc = consumer.pop().unwrap();
/// assert_eq!(desc.len(), 5); // without a look at the slot
/// assert_eq!(desc.into_packet().as_slice(), b"hello");
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// A copy would own the slot twice, so there is none:
///
/// ```compile_fail
/// # use forebay::packet::PacketDesc;
/// fn twice(desc: &PacketDesc) -> PacketDesc {
///     desc.clone()
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct PacketDesc(Desc);

impl PacketDesc {
    /// The packet that it describes, with its bytes.
    #[inline(always)] // or the packet goes through memory
    pub fn into_packet(self) -> Packet {
        let desc = self.into_raw();
        // SAFETY: the desc owned a slot of that pool, and it becomes the packet's.
        let pool = unsafe { PoolRef::of(desc.pool()) };
        // SAFETY: the slot, and what hangs on it, was the desc's and is the packet's now.
        unsafe { Packet::adopted(pool, desc) }
    }

    /// The plain description; the slot stays out until [`from_raw`](PacketDesc::from_raw). For memory that cannot hold
    /// what has a `Drop`.
    #[inline]
    pub fn into_raw(self) -> Desc {
        let desc = self.0;
        mem::forget(self);
        desc
    }

    /// Owns again what [`into_raw`](PacketDesc::into_raw) gave up.
    ///
    /// # Safety
    /// `desc` came from `into_raw` in this process (time, port, hash and all flags but `CHAINED` may have been set
    /// since), it was not made a `PacketDesc` since, and what was written of its packet by other threads is visible.
    ///
    /// ```
    /// # #![allow(unsafe_code)]
    /// use forebay::packet::{PacketDesc, Pool, PoolConfig};
    /// let mut pool = Pool::new(&PoolConfig::default())?;
    /// let plain = pool.take().unwrap().into_desc().unwrap().into_raw();
    /// // SAFETY: given up in the line above, and taken back once.
    /// drop(unsafe { PacketDesc::from_raw(plain) });
    /// assert!(pool.close().is_none());
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub unsafe fn from_raw(desc: Desc) -> PacketDesc {
        PacketDesc(desc)
    }

    /// Bytes of its slot before the data, which the 16 bytes do not say: a look at what is cold, beside the slot.
    ///
    /// ```
    /// # let mut pool = forebay::packet::Pool::new(&Default::default())?;
    /// let mut packet = pool.take().unwrap();
    /// packet.put(100).unwrap();
    /// packet.pull(14).unwrap();
    /// assert_eq!(packet.into_desc().unwrap().headroom(), 128 + 14);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn headroom(&self) -> u32 {
        // SAFETY: we own a slot of that pool, and outlive the look.
        let pool = unsafe { PoolRef::of(self.0.pool()) };
        pool.facts(self.0.slot()).load().offset
    }

    /// Sets the time; its lower 48 bits are kept.
    #[inline]
    pub fn set_time(&mut self, time_ns: u64) {
        self.0.set_time(time_ns);
    }

    /// Sets where it came in or goes out.
    #[inline]
    pub fn set_port(&mut self, port: u8) {
        self.0.set_port(port);
    }

    /// Sets the user's flags; [`Flags::CHAINED`] stays as it is.
    #[inline]
    pub fn set_flags(&mut self, flags: Flags) {
        self.0.set_flags(flags.kept(self.0.flags()));
    }

    /// Sets the hash of its flow.
    #[inline]
    pub fn set_hash(&mut self, hash: u16) {
        self.0.set_hash(hash);
    }
}

impl Deref for PacketDesc {
    type Target = Desc;
    #[inline]
    fn deref(&self) -> &Desc {
        &self.0
    }
}

impl Drop for PacketDesc {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: we own a slot of that pool.
        let pool = unsafe { PoolRef::of(self.0.pool()) };
        let slot = self.0.slot();
        let facts = pool.facts(slot);
        if facts.references.release() {
            let next = match self.0.flags().has(Flags::CHAINED) {
                true => facts.load().next,
                false => NONE,
            };
            release_slots(pool, slot, next);
        }
    }
}
