//! The description that travels in rings: it owns its slot.
//!
//! The same 16 bytes as a [`Desc`], but neither `Copy` nor `Clone`. Dropping it returns the slot to its pool. It is made
//! from a [`Packet`] and becomes one again.
//!
//! ```text
//!  Packet ──into_desc──▶ PacketDesc ──ring──▶ into_packet, or Pool::adopt, which checks the pool
//!                            └── dropped ──▶ the slot goes home
//! ```
#![allow(unsafe_code)]

use super::{
    Desc, Flags,
    packet::{Packet, release_slots},
    remote_free::NONE,
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
/// A copy would own the slot twice, so it cannot be copied:
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
    /// The packet that it describes.
    #[inline(always)] // otherwise the packet goes through memory
    pub fn into_packet(self) -> Packet {
        let desc = self.into_raw();
        // SAFETY: the descriptor owned a slot of that pool, which now belongs to the packet.
        let pool = unsafe { PoolRef::of(desc.pool()) };
        // SAFETY: the slot and the slots chained to it belonged to the descriptor, and now belong to the packet.
        unsafe { Packet::adopted(pool, desc) }
    }

    /// The plain description. The slot stays allocated until [`from_raw`](PacketDesc::from_raw). For memory that cannot hold
    /// values with a `Drop`.
    #[inline]
    pub fn into_raw(self) -> Desc {
        let desc = self.0;
        mem::forget(self);
        desc
    }

    /// Takes back the ownership that [`into_raw`](PacketDesc::into_raw) gave up.
    ///
    /// # Safety
    /// `desc` came from `into_raw` in this process (time, port, hash and all flags but `CHAINED` may have been changed). It has
    /// not been made a `PacketDesc` since. What other threads wrote to its packet is visible to this thread.
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

    /// Bytes of the slot before the data. Loads a rarely used field beside the slot.
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
        // SAFETY: we own a slot of that pool for the duration of the call.
        let pool = unsafe { PoolRef::of(self.0.pool()) };
        pool.facts(self.0.slot()).load().offset
    }

    /// Sets the time; its lower 48 bits are kept.
    #[inline]
    pub fn set_time(&mut self, time_ns: u64) {
        self.0.set_time(time_ns);
    }

    /// Sets the port where the packet arrived or will be sent.
    #[inline]
    pub fn set_port(&mut self, port: u8) {
        self.0.set_port(port);
    }

    /// Sets the application's flags; [`Flags::CHAINED`] stays as it is.
    #[inline]
    pub fn set_flags(&mut self, flags: Flags) {
        self.0.set_flags(flags.kept(self.0.flags()));
    }

    /// Sets the hash of the flow.
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
