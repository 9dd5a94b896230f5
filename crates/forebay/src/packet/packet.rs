//! A packet with its data in a slot, headroom before the data and tailroom after it.
//!
//! A packet touches the bytes of its slot only. `references` decides whether it may write. Packets longer than a slot are in
//! `chain`.
//!
//! ```text
//!  slot   head          data                tail           end
//!          │  headroom   │       data        │  tailroom   │
//!          │             │◀── push    pull ─▶│             │
//!          │                        trim ◀── │ ── put ─▶   │
//!          │ ── reserve ─▶ (while empty)                   │
//! ```
//!
//! As in Linux's `sk_buff`, headers are added and removed by moving the beginning of the data. Unlike there, running out of
//! room is a return value, and shared data cannot be written by mistake.
#![allow(unsafe_code)]

use super::{
    Desc, Flags,
    local_cache::{self, release_slots},
    remote_free::NONE,
    shared::{Cold, DataPlace, PoolRef, SlotFacts},
};
use crate::error::coded;
use std::{
    mem,
    ptr::NonNull,
    slice,
    // Models drive `references` directly.
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// Bytes in a slot of a [`Pool`](super::Pool), with headroom and tailroom. Dropping it returns the slot to the pool, on any
/// thread.
///
/// ```
/// use forebay::packet::{Pool, PoolConfig, Refused};
/// let mut pool = Pool::new(&PoolConfig { headroom: 16, ..PoolConfig::default() })?;
/// let mut packet = pool.take().unwrap();
/// packet.put(6).unwrap().copy_from_slice(b"abcdef");
/// assert_eq!(packet.pull(2).unwrap(), b"ab"); // a header is read and gone
/// packet.push(3).unwrap().copy_from_slice(b"xyz"); // another one is before the data
/// packet.trim(5).unwrap();
/// assert_eq!(packet.as_slice(), b"xyzcd");
/// assert_eq!((packet.headroom(), packet.push(16).err()), (15, Some(Refused::NoRoom { has: 15 })));
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Packet {
    pub(super) pool: PoolRef,
    /// The first byte of the slot.
    start: NonNull<u8>,
    /// The description without its length (0 here), which follows from `data`, `tail` and `paged`.
    desc: Desc,
    /// The slot in `desc`, stored separately so that using it does not wait for the unpacking.
    slot: u32,
    /// Beginning of the data, in bytes from `start`: 0 to `tail`.
    data: u32,
    /// End of the data in this slot, in bytes from `start`: `data` to the slot's size.
    tail: u32,
    /// Bytes of data in further slots.
    pub(super) paged: u32,
    wire_len: u32,
    /// The first further slot, or NONE.
    pub(super) next: u32,
    /// Whether other packets may share the slots. While it is false, the reference count, which is elsewhere, need not be loaded.
    /// Set by `share`, which only borrows the packet. Relaxed: code that relies on it owns the packet or borrows it exclusively, and
    /// so runs after all shared borrows.
    may_be_shared: AtomicBool,
}

// SAFETY: it owns its slot, or shares it with packets that only read; a slot is not bound to a thread.
unsafe impl Send for Packet {}
// SAFETY: through a shared reference bytes are only read, and the reference count is atomic.
unsafe impl Sync for Packet {}

/// Why a packet rejected a call. It is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// There is not enough room before or after the data.
    NoRoom {
        /// Bytes of room.
        has: u32,
    },
    /// It has less data than that (in its first slot, for `pull`).
    TooShort {
        /// Bytes of data.
        has: u32,
    },
    /// Other packets share the bytes: [`unshare`](Packet::unshare) it first.
    Shared,
    /// It would be longer than a descriptor can hold, 1,048,575 bytes.
    TooLong,
    /// Only an empty packet can do that.
    NotEmpty,
    /// The pool has no free slot.
    Exhausted,
    /// The slots that were offered are from another pool.
    ForeignPool,
}

coded!([] Refused, "packet", {
    Refused::NoRoom { has } => Code::TooLong, "a packet has room for {has} more bytes there";
    Refused::TooShort { has } => Code::Invalid, "a packet has {has} bytes of data there";
    Refused::Shared => Code::Busy, "a packet's bytes are shared: unshare it first";
    Refused::TooLong => Code::TooLong, "a packet has at most {} bytes", Desc::MAX_LEN;
    Refused::NotEmpty => Code::Invalid, "a packet has data already";
    Refused::Exhausted => Code::Empty, "a pool has no slot left";
    Refused::ForeignPool => Code::Invalid, "a packet's slots come from one pool";
});

/// Where a packet's data is: the fields of [`Packet`] of these names, packed in pairs.
#[derive(Clone, Copy)]
struct Extent {
    /// `data`, and `tail` in the upper half.
    here: u64,
    /// `paged`, and `next` in the upper half.
    further: u64,
}

impl Extent {
    /// The place of a packet whose slot's facts hold `place`.
    #[inline(always)]
    fn of(pool: PoolRef, place: DataPlace, len: u32, chained: bool) -> Extent {
        if chained {
            return Extent::chained(pool, place, len);
        }
        // Most packets begin after the pool's headroom. A branch lets the processor predict that, and not wait for the facts.
        let data = match place == pool.plain {
            true => opaque(pool.headroom),
            false => place.offset(),
        };
        Extent::within(pool, data, len, 0, NONE)
    }

    /// The place of a packet that lies in several slots.
    #[cold]
    #[inline(never)]
    fn chained(pool: PoolRef, place: DataPlace, len: u32) -> Extent {
        assert!(place.len() <= len, "{CHANGED}");
        Extent::within(
            pool,
            place.offset(),
            place.len(),
            len - place.len(),
            place.next(),
        )
    }

    /// The promise of a raw descriptor is checked again: these numbers bound all accesses.
    #[inline(always)]
    fn within(pool: PoolRef, data: u32, linear: u32, paged: u32, next: u32) -> Extent {
        let tail = data + linear; // 20 bits each
        assert!(tail <= pool.slot_bytes, "{CHANGED}");
        Extent {
            here: u64::from(data) | u64::from(tail) << 32,
            further: u64::from(paged) | u64::from(next) << 32,
        }
    }
}

/// Returns the same number, hidden from the compiler. Otherwise it sees that both sides of a branch give the same, and removes the
/// branch.
#[inline(always)]
fn opaque(number: u32) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mut number = number;
        // SAFETY: an empty instruction sequence.
        unsafe {
            std::arch::asm!("/* {0:e} */", inout(reg) number, options(nomem, nostack, preserves_flags));
        }
        number
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    number
}

const CHANGED: &str = "a descriptor that was changed";

impl Packet {
    /// An empty packet in a slot that belongs to the caller alone.
    ///
    /// # Safety
    /// The caller owns the slot of `pool`, and hands it over to the packet.
    #[inline(always)]
    pub(super) unsafe fn fresh(pool: PoolRef, slot: u32) -> Packet {
        Packet {
            pool,
            start: pool.start(slot),
            desc: Desc::empty(slot, pool.number),
            slot,
            data: pool.headroom,
            tail: pool.headroom,
            paged: 0,
            wire_len: 0,
            next: NONE,
            may_be_shared: AtomicBool::new(false),
        }
    }

    /// The packet of a descriptor.
    ///
    /// # Safety
    /// The caller owns the descriptor's slots, in `pool`, and hands them over to the packet.
    #[inline(always)] // see docs/performance-notes.md
    pub(super) unsafe fn adopted(pool: PoolRef, desc: Desc) -> Packet {
        let slot = desc.slot();
        let start = pool.start(slot);
        // SAFETY: `start` has checked that it is a slot of this pool.
        let facts = unsafe { pool.facts_of(slot) };
        let (len, flags) = (desc.len(), desc.flags());
        let extent = Extent::of(pool, facts.place(), len, flags.has(Flags::CHAINED));
        let mut desc = desc.with_len(0);
        desc.set_flags(flags.without(Flags::CHAINED));
        Packet {
            start,
            pool,
            desc,
            slot,
            data: extent.here as u32,
            tail: (extent.here >> 32) as u32,
            paged: extent.further as u32,
            wire_len: facts.wire_more().wrapping_add(len),
            next: (extent.further >> 32) as u32,
            may_be_shared: AtomicBool::new(!facts.references.is_alone()),
        }
    }

    /// Its rarely used fields.
    #[inline(always)]
    pub(super) fn facts(&self) -> &SlotFacts {
        // SAFETY: every packet was made with the start of its slot, and its slot never changes.
        unsafe { self.pool.facts_of(self.slot()) }
    }

    pub(super) fn cold(&self) -> Cold {
        Cold {
            offset: self.data,
            len: match self.next {
                NONE => 0,
                _ => self.linear(),
            },
            wire_more: self.wire_len.wrapping_sub(self.len()),
            next: self.next,
        }
    }

    /// The description that a descriptor would have now. Plain data: it owns nothing.
    #[inline]
    pub(super) fn described(&self) -> Desc {
        let mut desc = self.desc.with_len(self.len());
        if self.next != NONE {
            desc.set_flags(desc.flags().with(Flags::CHAINED));
        }
        desc
    }

    /// Bytes of data in all its slots.
    #[inline]
    pub fn len(&self) -> u32 {
        self.linear() + self.paged
    }

    /// Bytes of data in the first slot.
    #[inline(always)]
    pub(super) fn linear(&self) -> u32 {
        self.tail - self.data
    }

    /// Whether it has no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of headroom, for [`push`](Packet::push).
    #[inline]
    pub fn headroom(&self) -> u32 {
        self.data
    }

    /// Bytes of tailroom, for [`put`](Packet::put): 0 if the data goes on in another slot.
    #[inline]
    pub fn tailroom(&self) -> u32 {
        match self.next {
            NONE => self.pool.slot_bytes - self.tail,
            _ => 0,
        }
    }

    /// The data in the first slot: all of it, unless the packet is longer than a slot ([`parts`](Packet::parts)).
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the bytes are in our slot (`tail` is at most its size) and initialised (the kernel zeroed them). Nobody writes while
        // we are borrowed: we do not, and packets that share the slot cannot write.
        unsafe { slice::from_raw_parts(self.first().as_ptr(), self.linear() as usize) }
    }

    /// The data in the first slot, for writing.
    ///
    /// # Errors
    /// Other packets share it.
    #[inline]
    pub fn as_mut_slice(&mut self) -> Result<&mut [u8], Refused> {
        self.alone()?;
        // SAFETY: the bytes are in our slot, as in `as_slice`, and initialised. The slot is not shared, and the exclusive borrow
        // prevents sharing.
        Ok(unsafe { slice::from_raw_parts_mut(self.first().as_ptr(), self.linear() as usize) })
    }

    #[inline(always)]
    fn first(&self) -> NonNull<u8> {
        // SAFETY: `data` is at most the slot's size, so the sum stays in the slot or at its end.
        unsafe { self.start.add(self.data as usize) }
    }

    #[inline(always)]
    pub(super) fn alone(&mut self) -> Result<(), Refused> {
        match self.is_alone() {
            true => Ok(()),
            false => Err(Refused::Shared),
        }
    }

    /// Whether its bytes are not shared. If so, that remains true until it is shared again.
    #[inline(always)]
    pub(super) fn is_alone(&mut self) -> bool {
        if *self.may_be_shared.get_mut() {
            *self.may_be_shared.get_mut() = !self.facts().references.is_alone();
        }
        !*self.may_be_shared.get_mut()
    }

    /// Moves the beginning of the data `n` bytes forward, while there is no data: more headroom, less tailroom.
    ///
    /// ```
    /// # let mut pool = forebay::packet::Pool::new(&Default::default())?;
    /// let mut packet = pool.take().unwrap();
    /// let headroom = packet.headroom();
    /// packet.reserve(2).unwrap(); // so that the bytes after 14 bytes of Ethernet are aligned to 4
    /// assert_eq!(packet.headroom(), headroom + 2);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// It has data, or there is not enough room.
    pub fn reserve(&mut self, n: u32) -> Result<(), Refused> {
        if !self.is_empty() {
            return Err(Refused::NotEmpty);
        }
        self.alone()?;
        let has = self.tailroom();
        if n > has {
            return Err(Refused::NoRoom { has });
        }
        self.data += n;
        self.tail += n;
        Ok(())
    }

    /// Adds `n` bytes before the data and returns them for writing. They hold what was there before.
    ///
    /// # Errors
    /// There is not enough headroom; other packets share it; it would be too long.
    #[inline]
    pub fn push(&mut self, n: u32) -> Result<&mut [u8], Refused> {
        if n > self.data {
            return Err(Refused::NoRoom { has: self.data });
        }
        self.grows(n)?;
        self.data -= n;
        // SAFETY: these `n` bytes were headroom, which is in our slot and initialised, and are data now. Nobody shares the slot
        // (`grows`), and the borrow is exclusive.
        Ok(unsafe { slice::from_raw_parts_mut(self.first().as_ptr(), n as usize) })
    }

    /// Removes `n` bytes from the beginning of the data, and returns them.
    ///
    /// # Errors
    /// The first slot has less data.
    #[inline]
    pub fn pull(&mut self, n: u32) -> Result<&[u8], Refused> {
        let has = self.linear();
        if n > has {
            return Err(Refused::TooShort { has });
        }
        let before = self.first();
        self.data += n;
        // SAFETY: these bytes were data and are headroom now: in our slot, and initialised. Nobody writes while we are borrowed, as in
        // `as_slice`.
        Ok(unsafe { slice::from_raw_parts(before.as_ptr(), n as usize) })
    }

    /// Adds `n` bytes after the data and returns them for writing. They hold what was there before.
    ///
    /// # Errors
    /// There is not enough tailroom, or other packets share it.
    #[inline]
    pub fn put(&mut self, n: u32) -> Result<&mut [u8], Refused> {
        let has = self.tailroom();
        if n > has {
            return Err(Refused::NoRoom { has });
        }
        self.alone()?;
        // SAFETY: `tail` is at most the slot's size, so the sum stays in the slot or at its end.
        let behind = unsafe { self.start.add(self.tail as usize) };
        self.tail += n;
        // SAFETY: these `n` bytes were tailroom, which is in our slot and initialised, and are data now. Nobody shares the slot, and the
        // borrow is exclusive.
        Ok(unsafe { slice::from_raw_parts_mut(behind.as_ptr(), n as usize) })
    }

    /// Cuts the data to `len` bytes. Slots that are empty then return to the pool.
    ///
    /// # Errors
    /// It has less data; or other packets share it and it is longer than a slot.
    #[inline]
    pub fn trim(&mut self, len: u32) -> Result<(), Refused> {
        if len > self.len() {
            return Err(Refused::TooShort { has: self.len() });
        }
        if self.next != NONE {
            return self.trim_chain(len);
        }
        self.tail = self.data + len;
        Ok(())
    }

    #[inline(always)]
    fn grows(&mut self, n: u32) -> Result<(), Refused> {
        self.alone()?;
        // A slot is never that long.
        if self.paged > 0 && n > Desc::MAX_LEN - self.len() {
            return Err(Refused::TooLong);
        }
        Ok(())
    }

    /// Cuts the data in the first slot to `len` bytes, which is at most what it has.
    pub(super) fn cut(&mut self, len: u32) {
        assert!(len <= self.linear());
        self.tail = self.data + len;
    }

    /// Another packet with the same bytes, which are not copied. While both exist, neither can write.
    ///
    /// Each has a separate beginning and end of its data.
    ///
    /// ```
    /// use forebay::packet::Refused;
    /// # let mut pool = forebay::packet::Pool::new(&Default::default())?;
    /// let mut packet = pool.take().unwrap();
    /// packet.put(3).unwrap().copy_from_slice(b"abc");
    /// let mut other = packet.share();
    /// other.pull(1).unwrap();
    /// assert_eq!((packet.as_slice(), other.as_slice()), (&b"abc"[..], &b"bc"[..]));
    /// assert_eq!(other.as_mut_slice(), Err(Refused::Shared));
    /// other.unshare(&mut pool).unwrap(); // a separate slot: copy on write
    /// other.as_mut_slice().unwrap()[0] = b'x';
    /// assert_eq!((packet.as_slice(), other.as_slice()), (&b"abc"[..], &b"xc"[..]));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn share(&self) -> Packet {
        self.facts().share(self.cold());
        self.may_be_shared.store(true, Relaxed); // see the field
        // Field by field: the reference just added belongs to the new packet.
        Packet {
            pool: self.pool,
            start: self.start,
            desc: self.desc,
            slot: self.slot,
            data: self.data,
            tail: self.tail,
            paged: self.paged,
            wire_len: self.wire_len,
            next: self.next,
            may_be_shared: AtomicBool::new(true),
        }
    }

    /// Whether other packets share its bytes.
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        self.may_be_shared.load(Relaxed) && !self.facts().references.is_alone() // Relaxed: see there
    }

    /// Leaves as much room before the data of this empty packet as `other` has, unless the slots of this pool are smaller.
    pub(super) fn leave_headroom_of(&mut self, other: &Packet) {
        let room = self.pool.slot_bytes;
        self.data = other.data.min(room.saturating_sub(other.linear()));
        self.tail = self.data;
    }

    /// Copies what describes `other`: its time, port, flags, hash and length on the wire.
    pub(super) fn describe_as(&mut self, other: &Packet) {
        self.wire_len = other.wire_len;
        self.desc.set_time(other.desc.time_ns());
        self.desc.set_port(other.desc.port());
        self.desc.set_flags(other.desc.flags());
        self.desc.set_hash(other.desc.hash());
    }

    /// Number of its (first) slot.
    #[inline(always)]
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// The time modulo 2⁴⁸ nanoseconds; see [`Desc::time_near`].
    #[inline]
    pub fn time_ns(&self) -> u64 {
        self.desc.time_ns()
    }

    /// The full time, reconstructed from any time less than 39 hours away; see [`Desc::time_near`].
    #[inline]
    pub fn time_near(&self, reference_ns: u64) -> u64 {
        self.desc.time_near(reference_ns)
    }

    /// Sets the time; its lower 48 bits are kept.
    #[inline]
    pub fn set_time(&mut self, time_ns: u64) {
        self.desc.set_time(time_ns);
    }

    /// Port where it arrived or will be sent.
    #[inline]
    pub fn port(&self) -> u8 {
        self.desc.port()
    }

    /// Sets the port where it arrived or will be sent.
    #[inline]
    pub fn set_port(&mut self, port: u8) {
        self.desc.set_port(port);
    }

    /// The application's flags.
    #[inline]
    pub fn flags(&self) -> Flags {
        self.desc.flags()
    }

    /// Sets the application's flags; [`Flags::CHAINED`] is not one of them.
    #[inline]
    pub fn set_flags(&mut self, flags: Flags) {
        self.desc.set_flags(flags.without(Flags::CHAINED));
    }

    /// Hash of its flow.
    #[inline]
    pub fn hash(&self) -> u16 {
        self.desc.hash()
    }

    /// Sets the hash of its flow.
    #[inline]
    pub fn set_hash(&mut self, hash: u16) {
        self.desc.set_hash(hash);
    }

    /// Length on the wire in bytes; 0 if it was not set.
    #[inline]
    pub fn wire_len(&self) -> u32 {
        self.wire_len
    }

    /// Sets the length on the wire.
    #[inline]
    pub fn set_wire_len(&mut self, wire_len: u32) {
        self.wire_len = wire_len;
    }

    /// Whether dropping it returns exactly one slot.
    #[inline(always)]
    pub(super) fn is_one_slot(&mut self) -> bool {
        self.next == NONE && self.is_alone()
    }

    /// Gives its slot up without returning it; the caller has checked [`is_one_slot`](Packet::is_one_slot).
    #[inline(always)]
    pub(super) fn into_slot(self) -> u32 {
        let slot = self.slot();
        mem::forget(self);
        slot
    }
}

/// Releases a packet's slots. Takes numbers, not the packet: see docs/performance-notes.md.
#[inline(never)]
fn free_packet(pool: PoolRef, slot: u32, next: u32, may_be_shared: bool) {
    match next {
        NONE if !may_be_shared => local_cache::free(pool, slot),
        _ => free_if_last(pool, slot, next),
    }
}

#[inline(never)]
fn free_if_last(pool: PoolRef, slot: u32, next: u32) {
    if pool.facts(slot).references.release() {
        release_slots(pool, slot, next);
    }
}

impl Drop for Packet {
    #[inline(always)]
    fn drop(&mut self) {
        let may_be_shared = *self.may_be_shared.get_mut();
        free_packet(self.pool, self.slot(), self.next, may_be_shared);
    }
}

debug!([] Packet, |this| desc: this.described().facts(), headroom: this.headroom(), tailroom: this.tailroom(), wire_len: this.wire_len, shared: this.is_shared());
