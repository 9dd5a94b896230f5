//! The half that runs on the session's thread: takes the packets of all threads in the order of their times.
//!
//! ```text
//!  thread 0  │ batch │ batch │ ▒▒▒▒  ▲ safe: no earlier packet follows
//!  thread 1  │ batch │ ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ ▲
//!            └ in order up to here ──▲              ▒ waits
//! ```
//! A packet is taken when every thread has reported a safe time that is not before it. If a thread's memory for waiting packets
//! is nearly used up, its packets are taken without waiting for the others. A packet that then arrives too late is marked.

use super::member::{Packet, PacketBatch};
use forebay::ring::spsc::{Consumer, Producer};
use std::collections::VecDeque;

/// The packets of one thread that wait for those of the others.
pub(super) struct Lane {
    pub full: Consumer<PacketBatch>,
    pub empty: Producer<PacketBatch>,
    /// Each batch is in order, and has packets.
    waiting: VecDeque<Waiting>,
    safe_ns: u64,
    /// Packets handed out.
    pub taken: u64,
    /// The thread has ended, and its ring is empty.
    pub has_ended: bool,
}

struct Waiting {
    batch: PacketBatch,
    next: usize,
    /// No later batch of the thread begins before this time. Packets of one ring may be out of order by as long as it takes to fill
    /// several batches.
    later_ns: u64,
}

impl Waiting {
    fn head_ns(&self) -> u64 {
        self.batch.packets[self.next].time_ns
    }
}

impl Lane {
    pub fn new(full: Consumer<PacketBatch>, empty: Producer<PacketBatch>) -> Self {
        Lane {
            full,
            empty,
            waiting: VecDeque::new(),
            safe_ns: 0,
            taken: 0,
            has_ended: false,
        }
    }

    fn collect(&mut self) {
        while let Ok(mut batch) = self.full.try_pop() {
            self.safe_ns = self.safe_ns.max(batch.safe_ns);
            if !batch.packets.is_sorted_by_key(|packet| packet.time_ns) {
                batch.packets.sort_by_key(|packet| packet.time_ns);
            }
            let Some(first) = batch.packets.first() else {
                continue;
            };
            // Further ahead, these times are not later.
            let others = self.waiting.iter_mut().rev();
            for other in others.take_while(|other| other.later_ns > first.time_ns) {
                other.later_ns = first.time_ns;
            }
            self.waiting.push_back(Waiting {
                batch,
                next: 0,
                later_ns: u64::MAX,
            });
        }
    }

    /// The earliest packet: its time, its batch, and up to which time the packets of that batch are the earliest.
    fn head(&self) -> Option<Head> {
        let first = self.waiting.front()?;
        let mut head = Head {
            time_ns: first.head_ns(),
            at: 0,
            until: first.later_ns.max(first.head_ns()),
        };
        let mut later_ns = first.later_ns;
        for (at, waiting) in self.waiting.iter().enumerate().skip(1) {
            if later_ns >= head.time_ns {
                break;
            }
            let time_ns = waiting.head_ns();
            if time_ns < head.time_ns {
                let until = time_ns;
                head = Head { time_ns, at, until };
            }
            later_ns = waiting.later_ns;
        }
        Some(head)
    }
}

/// The next packet of a lane.
#[derive(Clone, Copy)]
struct Head {
    time_ns: u64,
    at: usize,
    until: u64,
}

/// Bytes of a burst with several packets. Every session's store accepts as many at once.
const BURST_BYTES: usize = 64 << 10;

/// Packets of a burst, in order, and their blocks.
#[derive(Default)]
pub(super) struct Merging {
    pub bytes: Vec<u8>,
    pub packets: Vec<Packet>,
    /// The latest time of a packet that was taken.
    last_ns: u64,
}

impl Merging {
    /// Takes what the threads have handed over.
    pub fn collect(lanes: &mut [Lane]) {
        lanes.iter_mut().for_each(Lane::collect);
    }

    /// The time up to which packets can be taken. `high`: the number of batches of one thread at which the others are no longer waited for.
    fn limit(lanes: &[Lane], high: usize) -> u64 {
        if lanes.iter().any(|lane| lane.waiting.len() >= high) {
            return u64::MAX;
        }
        let running = lanes.iter().filter(|lane| !lane.has_ended);
        running.map(|lane| lane.safe_ns).min().unwrap_or(u64::MAX)
    }

    /// Whether a packet can be taken.
    pub fn is_ready(lanes: &[Lane], high: usize) -> bool {
        let limit = Self::limit(lanes, high);
        let heads = lanes.iter().filter_map(Lane::head);
        heads.map(|head| head.time_ns).any(|it| it <= limit)
    }

    /// Replaces the burst by the next packets, up to `budget`. All are plain and fit into [`BURST_BYTES`], or there is only one.
    pub fn fill(&mut self, lanes: &mut [Lane], high: usize, budget: usize) {
        self.bytes.clear();
        self.packets.clear();
        let limit = Self::limit(lanes, high);
        while self.packets.len() < budget {
            let mut first: Option<(usize, Head)> = None;
            let mut next_ns = limit;
            for (number, lane) in lanes.iter().enumerate() {
                let Some(head) = lane.head() else {
                    continue;
                };
                match first {
                    Some((_, earlier)) if earlier.time_ns <= head.time_ns => {
                        next_ns = next_ns.min(head.time_ns);
                    }
                    other => {
                        next_ns = other.map_or(next_ns, |(_, it)| next_ns.min(it.time_ns));
                        first = Some((number, head));
                    }
                }
            }
            let Some((number, head)) = first.filter(|(_, head)| head.time_ns <= limit) else {
                return;
            };
            let until = head.until.min(next_ns);
            if !self.take(&mut lanes[number], head.at, until, budget) {
                return;
            }
        }
    }

    /// Takes packets of one batch up to a time. `false`: the burst ends, as the next packet is not plain or has no room.
    fn take(&mut self, lane: &mut Lane, at: usize, until: u64, budget: usize) -> bool {
        let waiting = &mut lane.waiting[at];
        let begin = self.packets.len();
        let mut goes_on = true;
        let mut run = 0..0;
        let rest = &waiting.batch.packets[waiting.next..];
        for packet in &rest[..rest.len().min(budget - begin)] {
            if packet.time_ns > until {
                break;
            }
            let has_room = self.bytes.len() + run.len() + packet.len as usize <= BURST_BYTES;
            if !has_room && !self.packets.is_empty() {
                goes_on = false;
                break;
            }
            let is_late = packet.time_ns < self.last_ns;
            let mut packet = Packet { is_late, ..*packet };
            if !packet.is_plain() {
                goes_on = false;
                if !self.packets.is_empty() {
                    break;
                }
            }
            // Blocks that follow each other are copied at once.
            let block = packet.at as usize..(packet.at + packet.len) as usize;
            if block.start != run.end {
                self.bytes.extend_from_slice(&waiting.batch.bytes[run]);
                run = block.start..block.start;
            }
            packet.at = (self.bytes.len() + run.len()) as u32;
            run.end = block.end;
            self.last_ns = self.last_ns.max(packet.time_ns);
            self.packets.push(packet);
            if !goes_on {
                break;
            }
        }
        self.bytes.extend_from_slice(&waiting.batch.bytes[run]);
        let taken = self.packets.len() - begin;
        waiting.next += taken;
        lane.taken += taken as u64;
        if waiting.next == waiting.batch.packets.len()
            && let Some(mut done) = lane.waiting.remove(at)
        {
            done.batch.clear();
            // The ring has room for every batch of the thread.
            let _ = lane.empty.try_push(done.batch);
        }
        goes_on
    }
}
