//! The half that runs on each thread: composes the packets of its port into batches.

use crate::{
    format::{Described, Format},
    port::{Direction, Frame, Interface, Marks, Port},
    session::{Each, IN_FLIGHT_NS, WINDOW_NS},
};
use forebay::{
    ring::spsc::{Consumer, Producer},
    sync::Signal,
    time::Clock,
};
use std::sync::Arc;

/// A batch is handed over when the next packet does not fit, or when no packet is left and the last one was handed over a while ago
/// ([`REPORT_NS`]).
pub(super) const BATCH_BYTES: usize = 64 << 10;

/// A thread hands over what it has, or reports that it has nothing, this often; more often only while it has more than a batch.
const REPORT_NS: u64 = 5_000_000;

/// A composed packet in a batch, or in a burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub time_ns: u64,
    pub dropped_before: u64,
    /// Its block.
    pub at: u32,
    pub len: u32,
    pub caplen: u32,
    pub wire_len: u32,
    pub direction: Direction,
    pub is_late: bool,
}

impl Packet {
    /// Whether its block is complete: the number of losses and the mark are not in it.
    pub fn is_plain(&self) -> bool {
        self.dropped_before == 0 && !self.is_late
    }
}

/// Packets that are already encoded for a pcapng file. Without packets, it only moves `safe_ns`.
#[derive(Debug, Default)]
pub(super) struct PacketBatch {
    pub bytes: Vec<u8>,
    pub used: usize,
    pub packets: Vec<Packet>,
    /// No packet that follows has an earlier time, unless it is late.
    pub safe_ns: u64,
}

impl PacketBatch {
    pub fn clear(&mut self) {
        self.used = 0;
        self.packets.clear();
    }
}

/// The closure of a member's session.
pub(super) struct Composer {
    pub full: Producer<PacketBatch>,
    pub empty: Consumer<PacketBatch>,
    pub signal: Arc<Signal>,
    pub clock: Clock,
    /// Times of packets follow the system's clock, which may be set.
    pub has_system_time: bool,
    pub described: Described,
    pub snaplen: u32,
    /// The number of batches that may be allocated, and of those that are.
    pub max_batches: usize,
    pub batches: usize,
    pub batch: Option<PacketBatch>,
    /// The time of the last poll, the latest of a packet, and the last that was reported as safe.
    pub looked_ns: u64,
    pub last_ns: u64,
    pub safe_ns: u64,
    /// When packets were handed over, or nothing was found, the last time, by the clock that is never set.
    pub sent_ns: u64,
}

impl Composer {
    fn find_batch(&mut self) -> Option<PacketBatch> {
        if let Ok(batch) = self.empty.try_pop() {
            return Some(batch);
        }
        (self.batches < self.max_batches).then(|| {
            self.batches += 1;
            PacketBatch {
                bytes: vec![0; BATCH_BYTES],
                ..PacketBatch::default()
            }
        })
    }

    /// Hands over the packets composed so far.
    fn send(&mut self) {
        let Some(mut batch) = self.batch.take() else {
            return;
        };
        self.safe_ns = self.safe_ns.max(self.last_ns.saturating_sub(IN_FLIGHT_NS));
        batch.safe_ns = self.safe_ns;
        self.sent_ns = self.clock.now();
        self.push(batch);
    }

    /// The ring has room for all batches, and for those that only move `safe_ns`. If the other side is gone, nothing is needed.
    fn push(&mut self, batch: PacketBatch) {
        let _ = self.full.try_push(batch);
        self.signal.raise();
    }
}

impl Each for Composer {
    fn take(&mut self, frame: &Frame<'_>, _: &Interface) -> bool {
        let plain = Frame {
            interface: 0,
            dropped_before: 0,
            options: &[],
            marks: Marks::default(),
            ..*frame
        };
        let len = Format::Pcapng.frame_len(&plain, self.snaplen);
        let is_full = |batch: &PacketBatch| batch.used > 0 && batch.used + len > BATCH_BYTES;
        if self.batch.as_ref().is_some_and(is_full) {
            self.send();
        }
        if self.batch.is_none() {
            self.batch = self.find_batch();
        }
        let Some(batch) = &mut self.batch else {
            // Without the other side, packets are only counted.
            return self.full.consumer_is_gone();
        };
        let end = batch.used + len;
        if end > batch.bytes.len() {
            batch.bytes.resize(end, 0);
        }
        let slot = &mut batch.bytes[batch.used..end];
        Format::Pcapng.put_frame(slot, &plain, &self.described, self.snaplen);
        batch.packets.push(Packet {
            time_ns: frame.time_ns,
            dropped_before: frame.dropped_before,
            at: batch.used as u32,
            len: len as u32,
            caplen: frame.data.len().min(self.snaplen as usize) as u32,
            wire_len: frame.wire_len,
            direction: frame.direction,
            is_late: false,
        });
        batch.used = end;
        self.last_ns = self.last_ns.max(frame.time_ns);
        true
    }

    fn looking(&mut self) {
        self.looked_ns = match self.has_system_time {
            true => self.clock.wall_now(),
            false => self.clock.wall(self.clock.now()),
        };
    }

    fn found_nothing(&mut self, port: &mut dyn Port, seen: u64) {
        if self.clock.now().saturating_sub(self.sent_ns) < REPORT_NS {
            return;
        }
        self.send();
        self.sent_ns = self.clock.now();
        // Packets that the port has accepted, but cannot hand out yet.
        let has_more = port.counts().accepted() > seen;
        let back = if has_more { WINDOW_NS } else { IN_FLIGHT_NS };
        let safe_ns = self.looked_ns.saturating_sub(back);
        if safe_ns >= self.safe_ns.saturating_add(REPORT_NS)
            && self.full.vacant() > self.max_batches
        {
            self.safe_ns = safe_ns;
            self.push(PacketBatch {
                safe_ns,
                ..PacketBatch::default()
            });
        }
    }
}

impl Drop for Composer {
    fn drop(&mut self) {
        self.send();
    }
}
