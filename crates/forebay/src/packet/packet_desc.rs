//! The description that travels in rings: it owns its slot.
//!
//! The same 16 bytes as a [`Desc`], but neither `Copy` nor `Clone`. Dropping it returns the slot to its pool. It is made
//! from a [`Packet`] and becomes one again.
//!
//! ```text
//!  Packet ──into_desc──▶ PacketDesc ──ring──▶ into_packet ──▶ Packet
//!                            └── dropped ──▶ the slot returns
//! ```
#![allow(unsafe_code)]

use super::{Desc, Flags, Packet, local_cache::release_slots, remote_free::NONE, shared::PoolRef};
use std::mem;

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
    #[inline(always)] // see docs/performance-notes.md
    pub fn into_packet(self) -> Packet {
        let desc = self.0;
        mem::forget(self);
        // SAFETY: the descriptor owned a slot of that pool, which now belongs to the packet.
        let pool = unsafe { PoolRef::of(desc.pool()) };
        // SAFETY: the slot and the slots chained to it belonged to the descriptor, and now belong to the packet.
        unsafe { Packet::adopted(pool, desc) }
    }

    /// The descriptor as two numbers, for code that cannot hold it, such as in another language. Nothing is dropped: the slot stays
    /// in use until [`from_raw`](PacketDesc::from_raw).
    ///
    /// ```
    /// use forebay::packet::{PacketDesc, Pool};
    /// let mut pool = Pool::new(&Default::default())?;
    /// let mut packet = pool.take().unwrap();
    /// packet.put(5).unwrap().copy_from_slice(b"hello");
    /// let raw = packet.into_desc().unwrap().into_raw();
    /// // SAFETY: from `into_raw` above, once.
    /// let desc = unsafe { PacketDesc::from_raw(raw) };
    /// assert_eq!(desc.into_packet().as_slice(), b"hello");
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    #[must_use = "otherwise its slot stays in use"]
    pub fn into_raw(self) -> [u64; 2] {
        let raw = self.0.into();
        mem::forget(self);
        raw
    }

    /// The descriptor from its numbers.
    ///
    /// # Safety
    /// `raw` comes from [`into_raw`](PacketDesc::into_raw) in this process, and each such value is used once. If another thread
    /// called `into_raw`, what it did before has to be visible to this thread.
    #[inline]
    pub unsafe fn from_raw(raw: [u64; 2]) -> PacketDesc {
        PacketDesc(raw.into())
    }

    /// The descriptor as the owner of its slot.
    ///
    /// # Safety
    /// The caller owns the slots of `desc`, and hands them over. What other threads wrote to them is visible to this thread.
    #[inline(always)]
    pub(super) unsafe fn owning(desc: Desc) -> PacketDesc {
        PacketDesc(desc)
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

impl Packet {
    /// Packs the packet into 16 bytes, for a ring.
    ///
    /// # Errors
    /// Other packets share its slot and their data begins or ends elsewhere: the beginning is stored once for each slot. The packet
    /// is returned: [`unshare`](Packet::unshare) it.
    ///
    /// ```
    /// # let mut pool = forebay::packet::Pool::new(&Default::default())?;
    /// let mut packet = pool.take().unwrap();
    /// packet.put(10).unwrap();
    /// let mut other = packet.share();
    /// let desc = packet.into_desc().unwrap(); // as when it was shared
    /// other.pull(4).unwrap();
    /// let mut other = other.into_desc().unwrap_err();
    /// other.unshare(&mut pool).unwrap();
    /// assert_eq!((desc.len(), other.into_desc().unwrap().len()), (10, 6));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline(always)]
    #[allow(clippy::result_large_err)] // the error returns the packet
    pub fn into_desc(mut self) -> Result<PacketDesc, Packet> {
        let cold = self.cold();
        let settled = match self.is_alone() {
            true => {
                self.facts().store(cold);
                true
            }
            false => self.facts().settle(cold),
        };
        if !settled {
            return Err(self);
        }
        let desc = self.described();
        mem::forget(self);
        // SAFETY: our slot, and the slots chained to it, belong to the descriptor now.
        Ok(unsafe { PacketDesc::owning(desc) })
    }
}

impl From<PacketDesc> for Packet {
    #[inline]
    fn from(desc: PacketDesc) -> Packet {
        desc.into_packet()
    }
}

derefs!([] PacketDesc, Desc, |this| this.0);

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
