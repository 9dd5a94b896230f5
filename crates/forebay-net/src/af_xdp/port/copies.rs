//! The source of a port that lets frames pass: hands out the copies that the XDP program has put into a ring buffer.
//!
//! ```text
//!   nothing for a hold: asleep, the program wakes ─▶ frames ─▶ for a hold, nothing is looked for, unless a quarter of the ring is filled
//!          ▲                                          ▲                                   │
//!          └────────────────────── nothing ◀──────────┴──────── frames ◀──────────────────┘
//! ```
//!
//! A wake-up costs the processor that receives an interrupt, and this one two switches: much more than the copy of a frame. So while frames
//! arrive, they are taken every millisecond, and the program wakes nobody. A small ring is looked at more often, because nothing wakes the reader
//! when it fills up.

use super::{
    super::{program::RECORD_BYTES, socket::Losses},
    clocks::Clocks,
    source::Source,
};
use crate::{
    ebpf::RingBuffer,
    port::{Direction, Frame, Frames, PortInfo},
};
use forebay::time::Clock;

/// How long frames wait after others.
pub(super) const HOLD_NS: u64 = 1_000_000;
/// In a small ring, they wait as long as this number of bytes each nanosecond takes to fill it: 4 GB/s fill a quarter. That is more than small
/// frames at 25 Gbit/s.
const FILLING: u64 = 16;
/// The share of the ring from which on they do not wait.
const FILLED: f64 = 0.25;

/// How long frames wait in a ring of this size.
fn hold_ns(ring_bytes: usize) -> u64 {
    HOLD_NS.min(ring_bytes as u64 / FILLING)
}

/// The ring buffer, and what was read of it.
#[derive(Debug)]
pub(super) struct Copies {
    ring: RingBuffer,
    /// Frames that this burst may still hand out.
    left: usize,
    clocks: Clocks,
    clock: Clock,
    /// Until this time of `clock`, frames wait. `None`: nothing arrives any more, so none waits.
    held_until: Option<u64>,
    /// Frames handed out; and once nothing arrives any more, those together with the ones that are left.
    handed_out: u64,
    all: Option<u64>,
    /// Frames lost, as read last; those that frames have reported, and of these those of the last frame.
    lost: u64,
    lost_reported: u64,
    last_gap: u64,
    /// A frame of this burst can be put back.
    has_last: bool,
    damage: Option<String>,
}

/// What the program has written before a frame.
struct Record<'a> {
    stamp: u64,
    len: u32,
    lost: u64,
    data: &'a [u8],
}

impl<'a> Record<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (head, room) = bytes.split_first_chunk::<RECORD_BYTES>()?;
        let double = |at: usize| Some(u64::from_ne_bytes(*head[at..].first_chunk()?));
        let word = |at: usize| Some(u32::from_ne_bytes(*head[at..].first_chunk()?));
        Some(Record {
            stamp: double(0)?,
            len: word(8)?,
            lost: double(16)?,
            data: room.get(..word(12)? as usize)?,
        })
    }
}

impl Copies {
    pub(super) fn new(ring: RingBuffer, clock: Clock) -> Self {
        Copies {
            ring,
            left: 0,
            clocks: Clocks::default(),
            clock,
            held_until: Some(0),
            handed_out: 0,
            all: None,
            lost: 0,
            lost_reported: 0,
            last_gap: 0,
            has_last: false,
            damage: None,
        }
    }

    /// Until when frames wait, if they do.
    fn held(&self) -> Option<u64> {
        let until = self.held_until?;
        let waits = until > self.clock.now() && self.ring.fill_level() < FILLED;
        waits.then_some(until)
    }
}

impl Source for Copies {
    fn look(&mut self, budget: usize) -> bool {
        self.release();
        let is_known = self.ring.has_known();
        if !is_known && self.held().is_some() {
            return false;
        }
        let is_empty = self.ring.is_empty().unwrap_or_else(|damage| {
            self.damage = Some(damage.to_string());
            true
        });
        if !is_empty && !is_known && self.held_until.is_some() {
            self.held_until = Some(self.clock.now() + hold_ns(self.ring.capacity()));
        }
        if !is_empty && budget > 0 {
            self.clocks.read();
            self.left = budget;
        }
        !is_empty
    }

    fn before_sleep(&mut self) -> Option<u64> {
        let held = self.held();
        if held.is_none() {
            self.ring.before_sleep();
        }
        held
    }

    fn stop(&mut self) {
        self.release();
        self.held_until = None;
        // Damage is found again where it is reported.
        self.all = Some(self.handed_out + self.ring.waiting().unwrap_or(0));
    }

    fn take_damage(&mut self) -> Option<String> {
        let damage = self.damage.take()?;
        Some(format!("the kernel's ring buffer is damaged: {damage}"))
    }

    fn read_losses(&mut self) {
        self.lost = self.ring.lost();
    }

    fn losses(&self) -> Losses {
        Losses {
            ring_full: self.lost,
            ..Losses::default()
        }
    }

    fn arrived(&self) -> u64 {
        self.all.unwrap_or(self.handed_out)
    }

    fn fill_level(&self) -> Option<f64> {
        Some(self.ring.fill_level())
    }

    fn info(&self) -> PortInfo {
        PortInfo {
            backend: "xdp",
            ring_bytes: self.ring.capacity() as u64,
            timestamps: "kernel (XDP program)",
            clock: Some(self.clock.clone()),
            ..PortInfo::default()
        }
    }
}

impl Frames for Copies {
    #[inline]
    fn next_frame(&mut self) -> Option<Frame<'_>> {
        if self.left == 0 {
            return None;
        }
        let record = match self.ring.next() {
            Ok(record) => Record::of(record?),
            Err(damage) => {
                self.damage = Some(damage.to_string());
                return None;
            }
        };
        let Some(record) = record else {
            self.damage = Some("a record is too short for its frame".into());
            return None;
        };
        self.left -= 1;
        self.handed_out += 1;
        self.has_last = true;
        // Processors count losses without waiting for each other, so a later frame may have an earlier count.
        self.last_gap = record.lost.saturating_sub(self.lost_reported);
        self.lost_reported += self.last_gap;
        Some(Frame {
            data: record.data,
            wire_len: record.len,
            time_ns: self.clocks.time_ns(record.stamp),
            direction: Direction::Inbound,
            dropped_before: self.last_gap,
            ..Frame::default()
        })
    }

    fn put_back(&mut self) {
        if std::mem::take(&mut self.has_last) {
            self.ring.put_back();
            self.left += 1;
            self.handed_out -= 1;
            self.lost_reported -= std::mem::take(&mut self.last_gap);
        }
    }

    fn release(&mut self) {
        self.ring.release();
        (self.left, self.has_last) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_in_a_small_ring_wait_for_a_shorter_time() {
        for (ring_bytes, expected) in [(256 << 10, 16_384), (16 << 20, HOLD_NS), (1 << 31, HOLD_NS)]
        {
            assert_eq!(hold_ns(ring_bytes), expected);
        }
    }

    #[test]
    fn a_record_whose_frame_is_longer_than_its_room_is_refused() {
        let bytes = |kept: u32, room: usize| {
            let mut bytes = vec![0; RECORD_BYTES + room];
            bytes[8..12].copy_from_slice(&1514_u32.to_ne_bytes());
            bytes[12..16].copy_from_slice(&kept.to_ne_bytes());
            bytes
        };
        let whole = bytes(64, 64);
        let record = Record::of(&whole).unwrap();
        assert_eq!((record.len, record.data.len()), (1514, 64));
        assert!(Record::of(&bytes(65, 64)).is_none() && Record::of(&bytes(u32::MAX, 64)).is_none());
        assert!(Record::of(&whole[..RECORD_BYTES - 1]).is_none());
    }
}
