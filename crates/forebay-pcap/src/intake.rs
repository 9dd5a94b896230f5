//! Packets of a port that the program may take: those that the filter and the direction accept, copied.
//!
//! ```text
//!  port ── a burst of frames ──▶ link type ──▶ direction ──▶ cooked header ──▶ filter ──▶ ahead
//! ```
//! They stay in `ahead` until the handle takes them, whole: a filter may read bytes that the program does not want. Where the kernel
//! filters, the filter runs here only over what was received before it was set, because the kernel has cut the later frames, and knows more
//! about them.

use crate::{
    abi,
    border::attach,
    cooked::Cooked,
    failure::{Failure, of_port as failure},
};
use forebay::time::Clock;
use forebay_net::{
    filter::{
        View,
        bpf::{Instruction, Program, code},
    },
    port::{Direction, Frame, LinkType, Port, Wake},
};
use std::os::fd::BorrowedFd;

/// Packets that are taken from the port at once.
pub const BATCH: usize = 64;
/// Bursts without a packet for the program, after which others get their turn.
const MAX_REJECTED: usize = 64;

pub struct Intake {
    pub port: Box<dyn Port>,
    pub clock: Clock,
    /// The link type of the handle, and that of the port's frames.
    link: LinkType,
    pub frames: LinkType,
    /// Frames get another header.
    cooked: Option<Cooked>,
    pub view: View,
    direction: Option<Direction>,
    filter: Option<Program>,
    /// Frames that the port has handed out.
    taken: u64,
    /// The next frames of the port, which the kernel has not filtered. `None`: it filters none.
    unfiltered: Option<u64>,
    /// Packets of other link types than the handle's.
    pub left_out: u64,
    /// Packets of another direction, or that the filter rejected here.
    pub rejected: u64,
    pub ahead: Batch,
    /// For the next call of the program.
    failure: Option<Failure>,
}

/// Packets in memory, in order.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    packets: Vec<Taken>,
    next: usize,
}

/// A packet of a batch.
#[derive(Clone, Copy)]
pub struct Taken {
    begin: usize,
    pub len: usize,
    pub wire_len: u32,
    pub time_ns: u64,
    direction: Direction,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.next == self.packets.len()
    }

    pub fn len(&self) -> u64 {
        (self.packets.len() - self.next) as u64
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
        self.next = 0;
    }

    /// The next packet and its bytes.
    pub fn next(&mut self) -> Option<(Taken, &[u8])> {
        let taken = *self.packets.get(self.next)?;
        self.next += 1;
        Some((taken, &self.bytes[taken.begin..taken.begin + taken.len]))
    }

    /// Drops the packets that `keeps` rejects, and returns how many. The others stay in place.
    fn retain(&mut self, keeps: impl Fn(&Frame<'_>) -> bool) -> u64 {
        let before = self.len();
        let waiting = self.packets.drain(..).skip(self.next);
        self.packets = waiting
            .filter(|taken| {
                let frame = Frame {
                    data: &self.bytes[taken.begin..taken.begin + taken.len],
                    wire_len: taken.wire_len,
                    direction: taken.direction,
                    ..Frame::default()
                };
                keeps(&frame)
            })
            .collect();
        self.next = 0;
        before - self.len()
    }
}

impl Intake {
    pub fn new(port: Box<dyn Port>, clock: Clock) -> Intake {
        let first = port.interfaces().first();
        let link = first.map_or(LinkType::ETHERNET, |first| first.link);
        Intake {
            view: first.map_or(View::Packet, View::of),
            port,
            clock,
            link,
            frames: link,
            cooked: None,
            direction: None,
            filter: None,
            taken: 0,
            unfiltered: None,
            left_out: 0,
            rejected: 0,
            ahead: Batch::default(),
            failure: None,
        }
    }

    /// Copies packets with this link type from now on, unfiltered. Those that wait here and in `current` have another one.
    pub fn set_link(&mut self, link: LinkType, current: &mut Batch) {
        self.link = link;
        self.cooked = Cooked::new(link);
        let first = self.port.interfaces().first();
        let first = first.filter(|_| link == self.frames);
        self.view = first.map_or(View::Packet, View::of);
        self.filter = None;
        for batch in [&mut self.ahead, current] {
            self.left_out += batch.len();
            batch.clear();
        }
    }

    /// Filters from now on, also the packets that wait here and in `current`. The kernel filters what `socket` receives, if it can.
    ///
    /// # Errors
    /// The filter reads what only the kernel knows, which does not run it here. An earlier filter stays in force.
    pub fn set_filter(
        &mut self,
        filter: &Program,
        current: &mut Batch,
        socket: Option<BorrowedFd<'_>>,
    ) -> Result<(), Failure> {
        let is_attached = socket.is_some_and(|it| attach(it, filter.instructions()).is_ok());
        if !is_attached {
            if !self.can_run(filter) {
                return Err("the filter reads metadata that only the kernel has, which does not run it on this device".into());
            }
            // Instead of an earlier filter.
            let all = [Instruction::new(code::RET_K, u32::MAX)];
            let removed = socket.map_or(Ok(()), |socket| attach(socket, &all));
            removed.map_err(|error| format!("can't remove the kernel's filter: {error}"))?;
        }
        self.unfiltered = is_attached.then(|| {
            let counts = self.port.counts();
            let accepted = counts.received - counts.dropped.unwrap_or(0);
            accepted.saturating_sub(self.taken)
        });
        self.filter = Some(filter.clone());
        let (view, link) = (self.view, self.link);
        for batch in [&mut self.ahead, current] {
            self.rejected += batch.retain(|frame| accepts(filter, frame, view, link));
        }
        Ok(())
    }

    /// Whether all that the filter reads is known here.
    fn can_run(&self, filter: &Program) -> bool {
        let known: &[u32] = match self.view {
            View::Packet => &[],
            _ => &[
                code::KERNEL_PACKET_TYPE,
                code::KERNEL_VLAN_TAG,
                code::KERNEL_VLAN_PRESENT,
            ],
        };
        let loads =
            |it: &&Instruction| [code::LD_ABS, code::LDH_ABS, code::LDB_ABS].contains(&it.code);
        let mut places = filter.instructions().iter().filter(loads).map(|it| it.k);
        places.all(|at| at < code::KERNEL || known.contains(&at))
    }

    /// Takes only packets of this direction from now on, also of those that wait here and in `current`.
    pub fn set_direction(&mut self, direction: Option<Direction>, current: &mut Batch) {
        self.direction = direction;
        for batch in [&mut self.ahead, current] {
            self.rejected += batch.retain(|frame| is_asked(direction, frame));
        }
    }

    /// Whether the kernel only wakes the program for packets that it gets.
    pub fn is_woken_exactly(&self) -> bool {
        self.direction.is_none() && (self.filter.is_none() || self.unfiltered == Some(0))
    }

    /// Whether packets wait; takes a burst of the port if none do.
    ///
    /// # Errors
    /// The port failed, now or when it was last waited for.
    pub fn fill(&mut self) -> Result<bool, Failure> {
        if self.ahead.is_empty() {
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            self.refill()?;
        }
        Ok(!self.ahead.is_empty())
    }

    /// `None`: a packet waits, or an error for the program's next call. Otherwise, what to wait for.
    pub fn watch(&mut self) -> Option<Wake<'_>> {
        if self.failure.is_some() {
            return None;
        }
        match self.fill() {
            Ok(false) => {}
            Ok(true) => return None,
            Err(failure) => {
                self.failure = Some(failure);
                return None;
            }
        }
        match self.port.arm() {
            Ok(Wake::End) => {
                self.failure = Some(ended());
                None
            }
            Ok(wake) => Some(wake),
            Err(error) => {
                self.failure = Some(failure(&error));
                None
            }
        }
    }

    /// Takes a burst of packets from the port.
    fn refill(&mut self) -> Result<(), Failure> {
        self.ahead.clear();
        let Batch { bytes, packets, .. } = &mut self.ahead;
        for _ in 0..MAX_REJECTED {
            let interfaces = self.port.interfaces().to_vec();
            let mut burst = self.port.receive(BATCH).map_err(|error| failure(&error))?;
            let mut is_empty = true;
            while let Some(frame) = burst.next_frame() {
                is_empty = false;
                self.taken += 1;
                let is_filtered = self.unfiltered == Some(0);
                self.unfiltered = self.unfiltered.map(|frames| frames.saturating_sub(1));
                let interface = interfaces.get(frame.interface as usize);
                if interface.is_some_and(|interface| interface.link != self.frames) {
                    self.left_out += 1;
                    continue;
                }
                if !is_asked(self.direction, &frame) {
                    self.rejected += 1;
                    continue;
                }
                let begin = bytes.len();
                let name = interface.map_or("", |interface| &interface.name);
                let wire_len = match &mut self.cooked {
                    Some(cooked) => cooked.append(&frame, name, bytes),
                    None => {
                        bytes.extend_from_slice(frame.data);
                        Some(frame.wire_len)
                    }
                };
                let Some(wire_len) = wire_len else {
                    self.left_out += 1;
                    continue;
                };
                let seen = Frame {
                    data: &bytes[begin..],
                    wire_len,
                    ..frame
                };
                let filter = self.filter.as_ref().filter(|_| !is_filtered);
                if filter.is_some_and(|filter| !accepts(filter, &seen, self.view, self.link)) {
                    self.rejected += 1;
                    bytes.truncate(begin);
                    continue;
                }
                packets.push(Taken {
                    begin,
                    len: seen.data.len(),
                    wire_len,
                    time_ns: frame.time_ns,
                    direction: frame.direction,
                });
            }
            if is_empty || !packets.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

fn is_asked(direction: Option<Direction>, frame: &Frame<'_>) -> bool {
    direction.is_none_or(|asked| asked == frame.direction)
}

fn accepts(program: &Program, frame: &Frame<'_>, view: View, link: LinkType) -> bool {
    let kept = match view {
        View::Packet => program.run(frame.data, frame.wire_len),
        _ => program.run_restored(frame, link),
    };
    kept > 0
}

/// A source without end has none; the simulated card may have.
pub fn ended() -> Failure {
    Failure::new(abi::BREAK, "the device has no more packets")
}
