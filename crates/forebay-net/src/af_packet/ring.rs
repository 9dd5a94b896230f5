//! The kernel's receive ring, mapped: block ownership, and iteration over the frames of a block.
//!
//! ```text
//!  block 0          block 1          block 2          block 3
//! ┌────────────────┬────────────────┬────────────────┬────────────────┐
//! │ ours: walked   │ ours: closed   │ kernel fills   │ kernel's, free │
//! └────────────────┴────────────────┴────────────────┴────────────────┘
//!    ▲ current, and the oldest, unless blocks before it are lent
//!
//!  one block: 48 bytes of descriptor, then frames, each padded to 8 bytes
//! ┌──────────────────────────┬───────────────────────────────────────────┬──────────────────
//! │ status, packets, offset  │ tpacket3_hdr 48 │ sockaddr_ll 20 │░░│frame │ tpacket3_hdr …
//! └──────────────────────────┴───────────────────────────────────────────┴──────────────────
//!                              ├──────────────── tp_mac ─────────────▶│
//!                              ├──────────────────────── tp_next_offset ───▶│
//!  (a description of offloads, if requested, directly before the frame)
//! ```
//!
//! **Ownership.** A block belongs to the kernel while its status lacks `TP_STATUS_USER`. The kernel sets that bit when it closes
//! the block (`prb_close_block` in net/packet/af_packet.c), either full or after the retire time. From then on it does not touch
//! the block's bytes until we store `TP_STATUS_KERNEL`. Blocks arrive strictly in order.
//!
//! | Edge | Released by | Acquired by | What becomes visible |
//! |---|---|---|---|
//! | filled | the kernel, closing a block | [`Ring::look`] | its frames |
//! | emptied | [`Ring::give_back`] | the kernel, opening a block | that we are done reading |
//!
//! **Loans.** [`Ring::lend`] hands out a block whose frames were all handed out. It is not written to, and returns to the kernel when the
//! last clone of the loan was dropped: [`Ring::give_back`] learns this from the count of an [`Arc`], whose drops it acquires. The
//! kernel needs its blocks in order, so later blocks wait for an earlier one that is lent.
//!
//! Every length in a block is checked against the block before memory is accessed: a damaged block is an error
//! ([`Ring::damage`]), not undefined behaviour. The parent module decides when a block is returned and where drops are counted.
#![allow(unsafe_code)]

use crate::port::{Direction, Frame, LentMemory, Unfinished};
use crate::sys::Mapping;
use std::collections::VecDeque;
use std::mem::{offset_of, size_of};
use std::ptr::NonNull;
use std::slice;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// The shape of a ring: `count` blocks of `bytes` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    pub bytes: u32,
    pub count: u32,
}

impl Blocks {
    pub(super) fn total_bytes(self) -> usize {
        self.bytes as usize * self.count as usize
    }

    /// The maximum bytes of a frame in an otherwise empty block.
    pub(super) fn frame_bytes(self) -> u32 {
        // tpacket_rcv places a frame at most TPACKET_ALIGN(HEADER + 16) plus the reserve after its header.
        self.bytes - (DESCRIPTOR + 96 + TAG_BYTES) as u32
    }
}

/// Bytes before a block's first frame (`BLK_HDR_LEN` with no private area).
const DESCRIPTOR: usize = size_of::<libc::tpacket_block_desc>();
/// The frame header and, at its own alignment, the address after it (`TPACKET3_HDRLEN`).
const ADDRESS: usize = size_of::<libc::tpacket3_hdr>();
const HEADER: usize = libc::TPACKET3_HDRLEN;
const STATUS: usize =
    offset_of!(libc::tpacket_block_desc, hdr) + offset_of!(libc::tpacket_hdr_v1, block_status);
/// Space before the frame for a removed VLAN tag, requested with `PACKET_RESERVE`.
pub(super) const TAG_BYTES: usize = 4;
/// The two MAC addresses, which precede the tag.
const ADDRESSES: usize = 12;

/// Describes a block with invalid contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub block: u32,
    /// Offset of the invalid header in the block.
    pub at: u32,
    /// Frames that were not handed out because of it.
    pub frames: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hardware {
    /// Frames begin with MAC addresses, so VLAN tags can be inserted again.
    Ethernet,
    /// Frames begin with an IP header.
    Raw,
    /// Each frame carries its hardware type and interface.
    Told,
}

/// The mapped ring, and the reading position.
#[derive(Debug)]
pub(super) struct Ring {
    memory: Arc<Mapping>,
    blocks: Blocks,
    hardware: Hardware,
    snaplen: u32,
    /// Each frame follows a description of its offloads.
    reports_unfinished: bool,
    /// The block that is read, or read next, and its offset in the mapping.
    current: u32,
    origin: usize,
    /// The blocks directly before it that are read and not yet returned to the kernel, and the loans of those that are lent.
    kept: VecDeque<Option<Arc<()>>>,
    /// That of the current block.
    loan: Option<Arc<()>>,
    /// Whether `current` was found to belong to us.
    held: bool,
    /// Offsets in `current`: the next frame, and the one handed out last.
    next: usize,
    last: usize,
    /// Frames of `current` not yet handed out. The iteration pauses when this reaches `floor`.
    left: u32,
    floor: u32,
    /// The value of `left` when this burst began.
    began: u32,
    /// Frames handed out with a time of the hardware, and whether the last one is (0 or 1).
    hardware_times: u64,
    last_hardware: u32,
    /// Frames lost before the next frame, and before the one handed out last.
    gap: u64,
    last_gap: u64,
    damage: Option<Damage>,
}

impl Ring {
    /// Creates a ring over `memory`, which must have the shape of `blocks`.
    pub(super) fn new(memory: Mapping, blocks: Blocks, hardware: Hardware, snaplen: u32) -> Self {
        assert_eq!(
            memory.len(),
            blocks.total_bytes(),
            "the mapping is not the ring"
        );
        assert!(blocks.bytes as usize >= DESCRIPTOR + HEADER && blocks.bytes.is_multiple_of(8));
        Ring {
            memory: Arc::new(memory),
            blocks,
            hardware,
            snaplen,
            reports_unfinished: false,
            current: 0,
            origin: 0,
            kept: VecDeque::new(),
            loan: None,
            held: false,
            next: 0,
            last: 0,
            left: 0,
            floor: 0,
            began: 0,
            hardware_times: 0,
            last_hardware: 0,
            gap: 0,
            last_gap: 0,
            damage: None,
        }
    }

    /// The socket puts a description of its offloads before each frame, if `reports`.
    pub(super) fn reporting_unfinished(mut self, reports: bool) -> Self {
        self.reports_unfinished = reports;
        self
    }

    /// The address of a block's first byte.
    fn block(&self, block: u32) -> NonNull<u8> {
        assert!(block < self.blocks.count);
        // SAFETY: `new` checked that the mapping has `count` whole blocks.
        unsafe {
            self.memory
                .base()
                .add(block as usize * self.blocks.bytes as usize)
        }
    }

    /// A block's status word, shared with the kernel.
    fn status_word(&self, block: u32) -> &AtomicU32 {
        // SAFETY: STATUS lies within every block, as `new` checked.
        let word = unsafe { self.block(block).add(STATUS) };
        // SAFETY: aligned, because blocks are aligned to 8 bytes; mapped as long as `self` lives. The kernel writes it whole, and
        // we write it only through this atomic.
        unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) }
    }

    /// The status of any block: bits of `TP_STATUS_…`.
    pub(super) fn status(&self, block: u32) -> u32 {
        self.status_word(block).load(Ordering::Acquire) // edge: filled
    }

    /// The share of the blocks that the kernel has closed and that were not yet returned to it.
    pub(super) fn fill_level(&self) -> f64 {
        let is_ours = |&block: &u32| self.status(block) & libc::TP_STATUS_USER != 0;
        let count = self.blocks.count;
        (0..count).filter(is_ours).count() as f64 / f64::from(count)
    }

    /// The block that is next to read or being read.
    pub(super) fn current(&self) -> u32 {
        self.current
    }

    /// The oldest block that was not yet returned to the kernel.
    pub(super) fn oldest(&self) -> u32 {
        let count = self.blocks.count;
        (self.current + count - self.kept.len() as u32) % count
    }

    /// Blocks that are read or being read, and were not yet returned to the kernel.
    pub(super) fn ours(&self) -> u32 {
        self.kept.len() as u32 + u32::from(self.held)
    }

    /// Blocks before the current one that were not yet returned to the kernel.
    pub(super) fn kept(&self) -> u32 {
        self.kept.len() as u32
    }

    pub(super) fn blocks(&self) -> Blocks {
        self.blocks
    }

    /// Takes the current block if the kernel has closed it. Returns whether we hold it.
    pub(super) fn look(&mut self) -> bool {
        let is_closed = || self.status(self.current) & libc::TP_STATUS_USER != 0;
        // If all blocks are kept, the current one is the oldest of them.
        if self.held || self.kept() == self.blocks.count || !is_closed() {
            return self.held;
        }
        let descriptor = self.block(self.current).cast::<libc::tpacket_block_desc>();
        // SAFETY: within the block, aligned, and ours according to the status just loaded (edge: filled). The kernel does not
        // write it before we release the block.
        let descriptor = unsafe { descriptor.read() };
        // SAFETY: the union's only member, all integers.
        let header = unsafe { descriptor.hdr.bh1 };
        self.held = true;
        self.left = header.num_pkts;
        self.next = header.offset_to_first_pkt as usize;
        (self.floor, self.began) = (self.left, self.left);
        true
    }

    pub(super) fn held(&self) -> bool {
        self.held
    }

    /// Starts a burst of up to `budget` frames of the held block.
    pub(super) fn allow(&mut self, budget: usize) {
        (self.last, self.began) = (0, self.left);
        self.floor = self
            .left
            .saturating_sub(u32::try_from(budget).unwrap_or(u32::MAX));
    }

    /// Frames of the current block not yet handed out.
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// Frames handed out in this burst, without those put back.
    pub(super) fn taken(&self) -> u32 {
        self.began - self.left
    }

    /// Counts frames that were lost directly before the next frame.
    pub(super) fn add_gap(&mut self, frames: u64) {
        self.gap += frames;
    }

    /// Lost frames that no frame has reported yet.
    pub(super) fn gap(&self) -> u64 {
        self.gap
    }

    /// Frames handed out with a time of the hardware, without those put back.
    pub(super) fn hardware_times(&self) -> u64 {
        self.hardware_times
    }

    /// Takes the damage that was found, if any. The rest of that block is skipped.
    pub(super) fn take_damage(&mut self) -> Option<Damage> {
        self.damage.take()
    }

    /// The next frame of the current block, in place.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Frame<'_>> {
        // `left` exceeds `floor` only while the block is held: `look` sets both, `release` clears them.
        if self.left <= self.floor {
            return None;
        }
        let at = self.next;
        let Some(header) = self.header(at) else {
            return self.damaged(at);
        };
        if header.tp_status & libc::TP_STATUS_VLAN_VALID != 0 && self.has_addresses(at) {
            self.restore_tag(at);
            return self.next(); // the frame as it is now, without that flag
        }
        let (from, caplen) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        let next = header.tp_next_offset as usize;
        // Frames must not overlap (the last one's offset is 0), so the iteration always makes progress.
        if next < from + caplen && self.left > 1 {
            return self.damaged(at);
        }
        let unfinished = match header.tp_status & libc::TP_STATUS_CSUMNOTREADY {
            0 => Unfinished::default(),
            _ => self.unfinished(at, from),
        };
        // SAFETY: `header` checked the offset.
        let address = unsafe { self.address(at) };
        // SAFETY: `header` checked that the frame's end is within the block.
        let data = unsafe { self.block_unchecked().add(at + from) };
        let len = caplen.min(self.snaplen as usize);
        // SAFETY: `len` bytes within the block, which is ours until `release`. `release`, like everything that writes into the
        // block, takes `&mut self`, and this slice borrows `self`.
        let data = unsafe { slice::from_raw_parts(data.as_ptr(), len) };
        (self.last, self.next) = (at, at + next);
        self.left -= 1;
        self.last_gap = std::mem::take(&mut self.gap);
        self.last_hardware = u32::from(header.tp_status & libc::TP_STATUS_TS_RAW_HARDWARE != 0);
        self.hardware_times += u64::from(self.last_hardware);
        Some(Frame {
            data,
            wire_len: header.tp_len.max(len as u32),
            time_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
            interface: 0,
            direction: if address.sll_pkttype == libc::PACKET_OUTGOING {
                Direction::Outbound
            } else {
                Direction::Inbound
            },
            dropped_before: self.last_gap,
            unfinished,
            ..Frame::default()
        })
    }

    /// What the description before the frame reports, if there is one. `header` has checked both offsets.
    #[cold]
    fn unfinished(&self, at: usize, from: usize) -> Unfinished {
        if !self.reports_unfinished || from < HEADER + Unfinished::HEADER_BYTES {
            return Unfinished::default();
        }
        // SAFETY: after this frame's header, and before its data.
        let header = unsafe {
            self.block_unchecked()
                .add(at + from - Unfinished::HEADER_BYTES)
        };
        // SAFETY: within the block, as `header` has checked; ours; any bytes are a value.
        Unfinished::from_header(unsafe { header.cast().read() })
    }

    /// The kernel's index and the hardware type of the interface from which the next frame of this burst came.
    #[inline]
    pub(super) fn comes_from(&self) -> Option<(u32, u16)> {
        if self.left <= self.floor {
            return None;
        }
        self.header(self.next)?;
        // SAFETY: `header` checked the offset.
        let address = unsafe { self.address(self.next) };
        Some((address.sll_ifindex as u32, address.sll_hatype))
    }

    /// Whether the frame at this offset, which `header` has checked, begins with MAC addresses.
    fn has_addresses(&self, at: usize) -> bool {
        match self.hardware {
            Hardware::Ethernet => true,
            Hardware::Raw => false,
            // SAFETY: `header` checked the offset.
            Hardware::Told => unsafe { self.address(at) }.sll_hatype != libc::ARPHRD_NONE,
        }
    }

    /// Puts the last frame back. Call it at most once per frame, before the block is released.
    pub(super) fn put_back(&mut self) {
        if self.held && self.last != 0 {
            (self.next, self.last) = (self.last, 0);
            self.left += 1;
            self.gap += std::mem::take(&mut self.last_gap);
            self.hardware_times -= u64::from(std::mem::take(&mut self.last_hardware));
        }
    }

    /// The frames of the current block, which stay where they are until it is released. `None`: no block is held.
    pub(super) fn memory(&self) -> Option<&[u8]> {
        // SAFETY: the block is ours until `release`, which takes `&mut self`, as everything that writes into it does.
        self.held
            .then(|| unsafe { frames(&self.memory, self.origin, self.blocks) })
    }

    /// Lends the current block after its last frame, until the last clone of the result was dropped.
    pub(super) fn lend(&mut self) -> Option<LentMemory> {
        if !self.held || self.left > 0 {
            return None;
        }
        self.last = 0; // so that no frame is put back, and written to
        Some(Arc::new(LentBlock {
            memory: self.memory.clone(),
            origin: self.origin,
            blocks: self.blocks,
            _loan: self.loan.get_or_insert_default().clone(),
        }))
    }

    /// Ends the current block with all its contents, and advances to the next. Returns the number of blocks returned to the kernel.
    pub(super) fn release(&mut self) -> u32 {
        assert!(self.held);
        self.held = false;
        (self.left, self.floor, self.began, self.last, self.last_gap) = (0, 0, 0, 0, 0);
        self.kept.push_back(self.loan.take());
        self.current = (self.current + 1) % self.blocks.count;
        self.origin = self.current as usize * self.blocks.bytes as usize;
        self.give_back()
    }

    /// Whether the oldest block that is kept is no longer lent.
    pub(super) fn can_give_back(&mut self) -> bool {
        // `get_mut` acquires the drop of every clone.
        let is_free =
            |loan: &mut Option<_>| loan.as_mut().is_none_or(|it| Arc::get_mut(it).is_some());
        self.kept.front_mut().is_some_and(is_free)
    }

    /// Whether a block is still lent.
    pub(super) fn is_lent(&mut self) -> bool {
        let loans = self.kept.iter_mut().chain([&mut self.loan]);
        loans.flatten().any(|loan| Arc::get_mut(loan).is_none())
    }

    /// Returns the blocks that are kept to the kernel, up to one that is still lent, and their number.
    pub(super) fn give_back(&mut self) -> u32 {
        let mut count = 0;
        while self.can_give_back() {
            self.status_word(self.oldest())
                .store(libc::TP_STATUS_KERNEL, Ordering::Release); // edge: emptied
            self.kept.pop_front();
            count += 1;
        }
        count
    }

    /// The current block, without a check, for the iteration.
    #[inline]
    fn block_unchecked(&self) -> NonNull<u8> {
        // SAFETY: `origin` is the offset of a block below `count` (`release` wraps it), and `new` checked that the mapping has
        // that many whole blocks.
        unsafe { self.memory.base().add(self.origin) }
    }

    /// The header at an offset, if it and the frame it describes are within the block.
    #[inline]
    fn header(&self, at: usize) -> Option<libc::tpacket3_hdr> {
        let bytes = self.blocks.bytes as usize;
        if at > bytes - HEADER || !at.is_multiple_of(4) || at < DESCRIPTOR {
            return None;
        }
        // SAFETY: just checked to be within the block.
        let header = unsafe { self.block_unchecked().add(at) };
        // SAFETY: entirely within the block, aligned to 4, and ours: the caller reads a held block.
        let header = unsafe { header.cast::<libc::tpacket3_hdr>().read() };
        let from = usize::from(header.tp_mac);
        let end = at + from + header.tp_snaplen as usize;
        (from >= HEADER && end <= bytes).then_some(header)
    }

    /// The address of the interface from which a frame came.
    ///
    /// # Safety
    /// [`header`](Ring::header) must have found a header at this offset of the current block, which must be ours.
    #[inline]
    unsafe fn address(&self, at: usize) -> libc::sockaddr_ll {
        // SAFETY: `header` checked that at + HEADER, where the address ends, is within the block.
        let address = unsafe { self.block_unchecked().add(at + ADDRESS) };
        // SAFETY: in bounds, in a block that is ours; aligned to 4, as `at` and ADDRESS are; all integers.
        unsafe { address.cast::<libc::sockaddr_ll>().read() }
    }

    #[cold]
    fn damaged(&mut self, at: usize) -> Option<Frame<'_>> {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        self.damage = Some(Damage {
            block: self.current,
            at,
            frames: self.left,
        });
        self.began -= self.left;
        (self.left, self.floor, self.last) = (0, 0, 0);
        None
    }

    /// Inserts a VLAN tag that the kernel removed (`skb_vlan_untag` in net/core/dev.c): the MAC addresses move 4 bytes down, into
    /// the space reserved with `PACKET_RESERVE`. The header changes with the frame, so a frame that was put back is not tagged
    /// twice.
    #[cold]
    #[inline(never)] // see docs/performance-notes.md
    fn restore_tag(&mut self, at: usize) {
        let Some(mut header) = self.header(at) else {
            return;
        };
        let from = usize::from(header.tp_mac);
        let known = header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        header.tp_status &= !(libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID);
        let described = match self.reports_unfinished {
            true => Unfinished::HEADER_BYTES,
            false => 0,
        };
        let room = from >= HEADER + TAG_BYTES + described;
        if room {
            header.tp_len = header.tp_len.saturating_add(TAG_BYTES as u32);
        }
        // A snaplen that ends within the addresses cuts off the tag; then only the length changes.
        if room && header.tp_snaplen as usize >= ADDRESSES {
            let tpid = if known {
                header.hv1.tp_vlan_tpid
            } else {
                libc::ETH_P_8021Q as u16
            };
            let (start, len) = (
                at + from - TAG_BYTES - described,
                TAG_BYTES + described + ADDRESSES,
            );
            // SAFETY: from ≥ HEADER + TAG_BYTES + described, so the new start is after this frame's header; the check of the
            // frame's end covers the old addresses.
            let start = unsafe { self.block_unchecked().add(start) };
            // SAFETY: the range between the new start and the frame's end contains as many bytes as the copy reads, in a held
            // block; `&mut self` ensures that no slice of it is alive.
            let bytes = unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) };
            bytes.copy_within(TAG_BYTES.., 0);
            let tag = &mut bytes[described + ADDRESSES..];
            tag[..2].copy_from_slice(&tpid.to_be_bytes());
            tag[2..].copy_from_slice(&(header.hv1.tp_vlan_tci as u16).to_be_bytes());
            // Offsets in the description of offloads count from the frame's first byte.
            if let Some((description, _)) = bytes.split_first_chunk_mut()
                && described > 0
            {
                let unfinished = Unfinished::from_header(*description);
                *description = unfinished.moved(TAG_BYTES as u16).header(&[]);
            }
            header.tp_mac -= TAG_BYTES as u16;
            header.tp_snaplen += TAG_BYTES as u32;
        }
        // SAFETY: `header` has checked the offset.
        let place = unsafe { self.block_unchecked().add(at) };
        // SAFETY: the location from which `header` has read: in bounds, aligned, and in a held block.
        unsafe { place.cast().write(header) };
    }
}

/// A block that is lent.
struct LentBlock {
    memory: Arc<Mapping>,
    origin: usize,
    blocks: Blocks,
    /// The ring waits for the drop of its clones.
    _loan: Arc<()>,
}

impl AsRef<[u8]> for LentBlock {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `lend` took the origin of a block that is ours. Nothing writes into it until this loan was dropped: the ring advances
        // with its next release, and returns the block to the kernel once it alone has the count.
        unsafe { frames(&self.memory, self.origin, self.blocks) }
    }
}

/// The bytes of the block at `origin` after its descriptor.
///
/// # Safety
/// `origin` is that of a whole block in `memory`, to which nothing writes while the result lives.
unsafe fn frames(memory: &Mapping, origin: usize, blocks: Blocks) -> &[u8] {
    // SAFETY: within the block, as the caller promises; `Ring::new` checked that a block is longer than its descriptor.
    let first = unsafe { memory.base().add(origin + DESCRIPTOR) };
    // SAFETY: the rest of the block, mapped as long as `memory` lives, and not written to, as the caller promises.
    unsafe { slice::from_raw_parts(first.as_ptr(), blocks.bytes as usize - DESCRIPTOR) }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
pub(super) mod tests;
