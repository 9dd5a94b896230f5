//! The kernel's receive ring, mapped: whose block it is, and the walk over one block's frames.
//!
//! ```text
//!  block 0          block 1          block 2          block 3
//! ┌────────────────┬────────────────┬────────────────┬────────────────┐
//! │ ours: walked   │ ours: closed   │ kernel fills   │ kernel's, free │
//! └────────────────┴────────────────┴────────────────┴────────────────┘
//!    ▲ current
//!
//!  one block: 48 bytes of descriptor, then frames, each padded to 8 bytes
//! ┌──────────────────────────┬───────────────────────────────────────────┬──────────────────
//! │ status, packets, offset  │ tpacket3_hdr 48 │ sockaddr_ll 20 │░░│frame │ tpacket3_hdr …
//! └──────────────────────────┴───────────────────────────────────────────┴──────────────────
//!                              ├──────────────── tp_mac ─────────────▶│
//!                              ├──────────────────────── tp_next_offset ───▶│
//! ```
//!
//! **Ownership.** A block is the kernel's while its status lacks `TP_STATUS_USER`. The kernel sets
//! that bit when it closes the block (`prb_close_block` in net/packet/af_packet.c), full or after
//! the retire time, and from then on leaves all of the block's bytes alone until we store
//! `TP_STATUS_KERNEL`. Blocks come to us strictly in order.
//!
//! | Edge | Released by | Acquired by | What becomes visible |
//! |---|---|---|---|
//! | filled | the kernel, closing a block | [`Ring::look`] | its frames |
//! | emptied | [`Ring::release`] | the kernel, opening a block | that we are done reading |
//!
//! Every length in a block is checked against the block before memory is touched: a damaged block
//! is an error ([`Ring::damage`]), not undefined behaviour. Where to read next: the parent module,
//! which says when a block goes back and who lost what in between.
#![allow(unsafe_code)]

use crate::port::{Direction, Frame};
use crate::sys::Mapping;
use std::mem::{offset_of, size_of};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

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

    /// Bytes of a frame that fit into an otherwise empty block.
    pub(super) fn frame_bytes(self) -> u32 {
        // tpacket_rcv puts a frame at most TPACKET_ALIGN(HEADER + 16) and the reserve behind its header.
        self.bytes - (DESCRIPTOR + 96 + TAG_BYTES) as u32
    }
}

/// Bytes before a block's first frame (`BLK_HDR_LEN` with no private area).
const DESCRIPTOR: usize = size_of::<libc::tpacket_block_desc>();
/// The frame header and, at its own alignment, the address behind it (`TPACKET3_HDRLEN`).
const ADDRESS: usize = size_of::<libc::tpacket3_hdr>();
const HEADER: usize = libc::TPACKET3_HDRLEN;
const STATUS: usize =
    offset_of!(libc::tpacket_block_desc, hdr) + offset_of!(libc::tpacket_hdr_v1, block_status);
/// Room that a stripped VLAN tag needs before the frame, asked for with `PACKET_RESERVE`.
pub(super) const TAG_BYTES: usize = 4;
/// The two MAC addresses, which stand before the tag.
const ADDRESSES: usize = 12;

/// What a block says that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub block: u32,
    /// Offset in the block of the header that is wrong.
    pub at: u32,
    /// Frames that were not handed out because of it.
    pub frames: u32,
}

/// What hardware the frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hardware {
    /// They begin with MAC addresses, so VLAN tags can be put back.
    Ethernet,
    /// They begin with an IP header.
    Raw,
    /// Each tells, and which interface it came from.
    Told,
}

/// The mapped ring, and where we are in it.
#[derive(Debug)]
pub(super) struct Ring {
    memory: Mapping,
    blocks: Blocks,
    hardware: Hardware,
    snaplen: u32,
    /// The oldest block that did not go back to the kernel, and its offset in the mapping.
    current: u32,
    origin: usize,
    /// `current` was seen to be ours.
    held: bool,
    /// Offsets in `current`: the next frame, and the one handed out last.
    next: usize,
    last: usize,
    /// Frames of `current` that were not handed out; the walk pauses when it is down to `floor`.
    left: u32,
    floor: u32,
    /// What `left` was when this burst began.
    began: u32,
    /// Frames lost before the next frame, and before the one handed out last.
    gap: u64,
    last_gap: u64,
    damage: Option<Damage>,
}

impl Ring {
    /// A ring over `memory`, which must have the shape of `blocks`.
    pub(super) fn new(memory: Mapping, blocks: Blocks, hardware: Hardware, snaplen: u32) -> Self {
        assert_eq!(
            memory.len(),
            blocks.total_bytes(),
            "the mapping is not the ring"
        );
        assert!(blocks.bytes as usize >= DESCRIPTOR + HEADER && blocks.bytes.is_multiple_of(8));
        Ring {
            memory,
            blocks,
            hardware,
            snaplen,
            current: 0,
            origin: 0,
            held: false,
            next: 0,
            last: 0,
            left: 0,
            floor: 0,
            began: 0,
            gap: 0,
            last_gap: 0,
            damage: None,
        }
    }

    /// The first byte of a block.
    fn block(&self, block: u32) -> NonNull<u8> {
        assert!(block < self.blocks.count);
        // SAFETY: `new` checked that the mapping has `count` whole blocks.
        unsafe {
            self.memory
                .base()
                .add(block as usize * self.blocks.bytes as usize)
        }
    }

    /// A block's status word, which we and the kernel share.
    fn status_word(&self, block: u32) -> &AtomicU32 {
        // SAFETY: STATUS lies within every block, as `new` checked.
        let word = unsafe { self.block(block).add(STATUS) };
        // SAFETY: aligned, as blocks are to 8 bytes; mapped as long as `self` lives; the kernel writes
        // it whole, and we only through this atomic.
        unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) }
    }

    /// The status of a block, ours or not: bits of `TP_STATUS_…`.
    pub(super) fn status(&self, block: u32) -> u32 {
        self.status_word(block).load(Ordering::Acquire) // edge: filled
    }

    /// The block that waits to be walked or is being walked.
    pub(super) fn current(&self) -> u32 {
        self.current
    }

    pub(super) fn blocks(&self) -> Blocks {
        self.blocks
    }

    /// Takes the current block if the kernel has closed it; says whether we hold it.
    pub(super) fn look(&mut self) -> bool {
        if self.held || self.status(self.current) & libc::TP_STATUS_USER == 0 {
            return self.held;
        }
        let descriptor = self.block(self.current).cast::<libc::tpacket_block_desc>();
        // SAFETY: within the block, aligned, and ours since the status was seen just now (edge:
        // filled); the kernel does not write it before we release the block.
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

    /// Begins a burst of up to `budget` frames of the held block.
    pub(super) fn allow(&mut self, budget: usize) {
        (self.last, self.began) = (0, self.left);
        self.floor = self
            .left
            .saturating_sub(u32::try_from(budget).unwrap_or(u32::MAX));
    }

    /// Frames of the current block that were not handed out.
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// Frames handed out, and not put back, since this burst began.
    pub(super) fn taken(&self) -> u32 {
        self.began - self.left
    }

    /// Counts frames that were lost directly before the next frame.
    pub(super) fn add_gap(&mut self, frames: u64) {
        self.gap += frames;
    }

    /// Frames lost that no frame has told yet.
    pub(super) fn gap(&self) -> u64 {
        self.gap
    }

    /// What was found damaged, once. The rest of that block is not walked.
    pub(super) fn take_damage(&mut self) -> Option<Damage> {
        self.damage.take()
    }

    /// The next frame of the current block, where it lies.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Frame<'_>> {
        // `left` is only above `floor` while the block is held: `look` sets both, `release` clears.
        if self.left <= self.floor {
            return None;
        }
        let at = self.next;
        let Some(header) = self.header(at) else {
            return self.damaged(at);
        };
        if header.tp_status & libc::TP_STATUS_VLAN_VALID != 0 && self.has_addresses(at) {
            self.restore_tag(at);
            return self.next(); // as the frame is now, without that flag
        }
        let (from, caplen) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        let next = header.tp_next_offset as usize;
        // Frames must not overlap (the last one's offset is 0), so the walk always gets on.
        if next < from + caplen && self.left > 1 {
            return self.damaged(at);
        }
        // SAFETY: `header` checked the place.
        let address = unsafe { self.address(at) };
        // SAFETY: `header` checked that the frame's end is within the block.
        let data = unsafe { self.block_unchecked().add(at + from) };
        let len = caplen.min(self.snaplen as usize);
        // SAFETY: `len` bytes within the block, which is ours until `release`; that takes `&mut self`,
        // as does everything that writes into the block, and this slice borrows `self`.
        let data = unsafe { slice::from_raw_parts(data.as_ptr(), len) };
        (self.last, self.next) = (at, at + next);
        self.left -= 1;
        self.last_gap = std::mem::take(&mut self.gap);
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
            ..Frame::default()
        })
    }

    /// The kernel's number for the interface that the next frame of this burst came from, and what hardware that is.
    #[inline]
    pub(super) fn comes_from(&self) -> Option<(u32, u16)> {
        if self.left <= self.floor {
            return None;
        }
        self.header(self.next)?;
        // SAFETY: `header` checked the place.
        let address = unsafe { self.address(self.next) };
        Some((address.sll_ifindex as u32, address.sll_hatype))
    }

    /// Whether the frame at this offset, which `header` has checked, begins with MAC addresses.
    fn has_addresses(&self, at: usize) -> bool {
        match self.hardware {
            Hardware::Ethernet => true,
            Hardware::Raw => false,
            // SAFETY: `header` checked the place.
            Hardware::Told => unsafe { self.address(at) }.sll_hatype != libc::ARPHRD_NONE,
        }
    }

    /// Takes the last frame back; call it at most once a frame, before the block is released.
    pub(super) fn put_back(&mut self) {
        if self.held && self.last != 0 {
            (self.next, self.last) = (self.last, 0);
            self.left += 1;
            self.gap += std::mem::take(&mut self.last_gap);
        }
    }

    /// Gives the current block, with everything in it, back to the kernel and goes on to the next.
    pub(super) fn release(&mut self) {
        assert!(self.held);
        self.held = false;
        (self.left, self.floor, self.began, self.last, self.last_gap) = (0, 0, 0, 0, 0);
        self.status_word(self.current)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release); // edge: emptied
        self.current = (self.current + 1) % self.blocks.count;
        self.origin = self.current as usize * self.blocks.bytes as usize;
    }

    /// The current block, without a check: for the walk.
    #[inline]
    fn block_unchecked(&self) -> NonNull<u8> {
        // SAFETY: `origin` is the offset of a block below `count` (`release` wraps it), and `new`
        // checked that the mapping has that many whole blocks.
        unsafe { self.memory.base().add(self.origin) }
    }

    /// The header at an offset, if it and the frame it describes lie within the block.
    #[inline]
    fn header(&self, at: usize) -> Option<libc::tpacket3_hdr> {
        let bytes = self.blocks.bytes as usize;
        if at > bytes - HEADER || !at.is_multiple_of(4) || at < DESCRIPTOR {
            return None;
        }
        // SAFETY: just checked to be within the block.
        let header = unsafe { self.block_unchecked().add(at) };
        // SAFETY: whole within the block, aligned to 4, and ours: the caller walks a held block.
        let header = unsafe { header.cast::<libc::tpacket3_hdr>().read() };
        let from = usize::from(header.tp_mac);
        let end = at + from + header.tp_snaplen as usize;
        (from >= HEADER && end <= bytes).then_some(header)
    }

    /// Where a frame came from.
    ///
    /// # Safety
    /// [`header`](Ring::header) has found a header at this offset of the current block, which is ours.
    #[inline]
    unsafe fn address(&self, at: usize) -> libc::sockaddr_ll {
        // SAFETY: `header` checked that at + HEADER is within the block, and that ends with the address.
        let address = unsafe { self.block_unchecked().add(at + ADDRESS) };
        // SAFETY: in bounds, in a block that is ours; aligned to 4, as `at` is and ADDRESS; all integers.
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

    /// Puts a VLAN tag that the kernel took out (`skb_vlan_untag` in net/core/dev.c) back into its
    /// place: the MAC addresses move 4 bytes down, into the room that `PACKET_RESERVE` asked for.
    /// The header changes with the frame, so a frame that was put back is not tagged twice.
    #[cold]
    #[inline(never)] // or the whole header lives on the stack of every untagged frame
    fn restore_tag(&mut self, at: usize) {
        let Some(mut header) = self.header(at) else {
            return;
        };
        let from = usize::from(header.tp_mac);
        let known = header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        header.tp_status &= !(libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID);
        let room = from >= HEADER + TAG_BYTES;
        if room {
            header.tp_len = header.tp_len.saturating_add(TAG_BYTES as u32);
        }
        // A snaplen within the addresses cuts the tag off; but for its length nothing changes then.
        if room && header.tp_snaplen as usize >= ADDRESSES {
            let tpid = if known {
                header.hv1.tp_vlan_tpid
            } else {
                libc::ETH_P_8021Q as u16
            };
            let mut front = [0; ADDRESSES + TAG_BYTES];
            // SAFETY: from ≥ HEADER + TAG_BYTES, so the new start lies behind this frame's header, and
            // the check of the frame's end covers the old addresses.
            let start = unsafe { self.block_unchecked().add(at + from - TAG_BYTES) };
            // SAFETY: as many bytes as the copy reads lie between the new start and the frame's end,
            // in a held block; `&mut self` says that no slice of it is alive.
            let bytes = unsafe { slice::from_raw_parts_mut(start.as_ptr(), front.len()) };
            front[..ADDRESSES].copy_from_slice(&bytes[TAG_BYTES..]);
            front[ADDRESSES..ADDRESSES + 2].copy_from_slice(&tpid.to_be_bytes());
            front[ADDRESSES + 2..].copy_from_slice(&(header.hv1.tp_vlan_tci as u16).to_be_bytes());
            bytes.copy_from_slice(&front);
            header.tp_mac -= TAG_BYTES as u16;
            header.tp_snaplen += TAG_BYTES as u32;
        }
        // SAFETY: the offset that `header` has checked.
        let place = unsafe { self.block_unchecked().add(at) };
        // SAFETY: the same place `header` has read from: in bounds, aligned, and in a held block.
        unsafe { place.cast().write(header) };
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
pub(super) mod tests;
