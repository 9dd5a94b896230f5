//! The source of a port that takes frames: hands out the frames of all queues in time order.

use super::{
    super::{
        queue::{Damage, Queue},
        socket::Losses,
    },
    clocks::Clocks,
    copies::HOLD_NS,
    source::Source,
};
use crate::{
    af_xdp::AfXdpConfig,
    port::{Direction, Frame, Frames, PortInfo},
};
use forebay::time::Clock;

/// In a small ring, frames wait for this time a slot: half of the ring is filled by the smallest frames at 10 Gbit/s.
const NS_PER_SLOT: u64 = 32;
/// The kernel may end a sleep 50 µs late, so frames do not wait in a ring that this time fills to a large part.
const SHORTEST_HOLD_NS: u64 = 100_000;

/// The sockets of all queues.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) queues: Vec<Queue>,
    /// The queue of the frame handed out last.
    pub(super) last: Option<usize>,
    /// Frames that this burst may still hand out.
    pub(super) left: usize,
    /// The program stamps frames.
    pub(super) stamps: bool,
    pub(super) snaplen: u32,
    pub(super) polls_busily: bool,
    pub(super) is_zero_copy: bool,
    pub(super) clocks: Clocks,
    /// Losses of all sockets together, and those that a frame has reported.
    pub(super) losses: Losses,
    pub(super) losses_reported: u64,
    /// Frames lost before the next frame, and before the one handed out last.
    pub(super) gap: u64,
    pub(super) last_gap: u64,
    pub(super) damage: Option<(usize, Damage)>,
    pub(super) hold: Hold,
}

/// After frames, the reader sleeps for a time instead of being woken by the next frame: a wake-up costs the processor that receives an interrupt, and
/// this one two switches.
#[derive(Debug)]
pub(super) struct Hold {
    ns: u64,
    clock: Clock,
    has_found: bool,
    until: u64,
}

impl Hold {
    /// For sockets with this number of slots, if frames may wait there.
    pub(super) fn new(config: &AfXdpConfig, may_wait: bool, slots: u32) -> Self {
        let asked = u64::try_from(config.delay.as_nanos()).unwrap_or(u64::MAX);
        let longest = HOLD_NS.min(u64::from(slots) * NS_PER_SLOT);
        let may_wait = may_wait && longest >= SHORTEST_HOLD_NS && !config.clock.is_virtual();
        Hold {
            ns: if may_wait { asked.min(longest) } else { 0 },
            clock: config.clock.clone(),
            has_found: false,
            until: 0,
        }
    }

    /// Until when frames wait, if there were some not long ago.
    fn until(&mut self) -> Option<u64> {
        if self.ns == 0 {
            return None;
        }
        let now = self.clock.now();
        if std::mem::take(&mut self.has_found) {
            self.until = now + self.ns;
        }
        (self.until > now).then_some(self.until)
    }
}

impl Reader {
    /// Ends a burst, even if it was forgotten instead of dropped.
    fn settle(&mut self) {
        self.queues.iter_mut().for_each(Queue::release);
        (self.last, self.left) = (None, 0);
    }

    /// Calls the kernel for queues that wait for it while others have frames.
    fn kick_empty(&self) {
        let waits = |queue: &&Queue| !queue.has_frames() && queue.needs_wakeup();
        let waiting = self.queues.iter().filter(waits);
        waiting.for_each(|queue| queue.socket.kick());
    }

    /// The queue whose next frame is the oldest.
    #[inline]
    fn oldest(&self) -> Option<usize> {
        if let [_] = &self.queues[..] {
            return Some(0);
        }
        let stamps = self.queues.iter().enumerate();
        let stamps = stamps.filter_map(|(number, queue)| Some((queue.next_stamp()?, number)));
        stamps.min().map(|(_, number)| number)
    }
}

impl Source for Reader {
    fn look(&mut self, budget: usize) -> bool {
        self.settle();
        self.left = budget;
        let (mut found, mut is_gap) = (false, false);
        for (number, queue) in self.queues.iter_mut().enumerate() {
            match queue.look(budget) {
                Ok(has_frames) => found |= has_frames,
                Err(damage) => self.damage = Some((number, damage)),
            }
            is_gap |= queue.take_gap();
        }
        if is_gap {
            self.read_losses();
            let new = self.losses.total() - self.losses_reported;
            self.gap += new;
            self.losses_reported += new;
        }
        if found && budget > 0 {
            self.clocks.read();
        }
        if found {
            self.hold.has_found = true;
            self.kick_empty();
        }
        found
    }

    fn before_sleep(&mut self) -> Option<u64> {
        self.hold.until()
    }

    fn kick(&mut self) {
        let waits = |queue: &&Queue| self.polls_busily || queue.needs_wakeup();
        let waiting = self.queues.iter().filter(waits);
        waiting.for_each(|queue| queue.socket.kick());
    }

    fn take_damage(&mut self) -> Option<String> {
        let (queue, damage) = self.damage.take()?;
        Some(format!(
            "the kernel's rings of socket {queue} are damaged: {damage}"
        ))
    }

    fn read_losses(&mut self) {
        let mut sum = Losses::default();
        for queue in &self.queues {
            let Ok(losses) = queue.socket.losses(self.is_zero_copy) else {
                return;
            };
            sum.ring_full += losses.ring_full;
            sum.no_chunk += losses.no_chunk;
            sum.other += losses.other;
        }
        self.losses = sum;
    }

    fn losses(&self) -> Losses {
        self.losses
    }

    fn arrived(&self) -> u64 {
        self.queues.iter().map(Queue::arrived).sum()
    }

    fn fill_level(&self) -> Option<f64> {
        self.queues.iter().map(Queue::fill_level).reduce(f64::max)
    }

    fn info(&self) -> PortInfo {
        let shapes = || self.queues.iter().map(Queue::shape);
        PortInfo {
            backend: "af_xdp",
            ring_bytes: shapes().map(|it| it.bytes() as u64).sum(),
            ring_frames: shapes().map(|it| u64::from(it.slots)).sum(),
            timestamps: match self.stamps {
                true => "kernel (XDP program)",
                false => "time of reading",
            },
            clock: (self.hold.ns > 0).then(|| self.hold.clock.clone()),
            ..PortInfo::default()
        }
    }
}

impl Frames for Reader {
    #[inline]
    fn next_frame(&mut self) -> Option<Frame<'_>> {
        if self.left == 0 {
            return None;
        }
        let number = self.oldest()?;
        let (data, stamp) = self.queues[number].next()?;
        self.left -= 1;
        self.last = Some(number);
        self.last_gap = std::mem::take(&mut self.gap);
        let time_ns = match stamp {
            0 => self.clocks.now_ns(),
            stamp => self.clocks.time_ns(stamp),
        };
        Some(Frame {
            data: &data[..data.len().min(self.snaplen as usize)],
            wire_len: data.len() as u32,
            time_ns,
            direction: Direction::Inbound,
            dropped_before: self.last_gap,
            ..Frame::default()
        })
    }

    fn put_back(&mut self) {
        if let Some(number) = self.last.take() {
            self.queues[number].put_back();
            self.left += 1;
            self.gap += std::mem::take(&mut self.last_gap);
        }
    }

    fn release(&mut self) {
        self.settle();
    }
}
