//! Packets of a port that the program may take: those that the filter and the direction accept. They are copied, or stay in a block that
//! the port lends.
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
    port::{Direction, Frame, Interface, LentMemory, LinkType, Port, Wake},
};
use std::{os::fd::BorrowedFd, ptr::with_exposed_provenance};

/// Packets that are copied from the port at once.
pub const BATCH: usize = 64;
/// Frames taken without a packet for the program, after which others get their turn.
const MAX_REJECTED: u64 = 4096;

pub struct Intake {
    /// Before the port, which is then closed as if it had lent nothing.
    pub ahead: Batch,
    pub port: Box<dyn Port>,
    pub clock: Clock,
    /// As the port had them when it had this number of them.
    interfaces: Vec<Interface>,
    /// Packets stay in the memory of the port, which then has less room for others until the program asks for the next batch.
    pub lends: bool,
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
    /// For the next call of the program.
    failure: Option<Failure>,
}

/// Packets in memory, in order.
#[derive(Default)]
pub struct Batch {
    /// The memory of the port that has their bytes, instead of `bytes`.
    lent: Option<LentMemory>,
    bytes: Vec<u8>,
    /// The address of these bytes.
    base: usize,
    packets: Vec<Taken>,
    next: usize,
}

/// A packet of a batch.
#[derive(Clone, Copy)]
pub struct Taken {
    pub time_ns: u64,
    /// Where its bytes begin among those of the batch.
    begin: u32,
    pub len: u32,
    pub wire_len: u32,
    direction: Direction,
}

impl Taken {
    fn bytes<'a>(&self, all: &'a [u8]) -> &'a [u8] {
        let begin = self.begin as usize;
        &all[begin..begin + self.len as usize]
    }
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.next == self.packets.len()
    }

    pub fn len(&self) -> u64 {
        (self.packets.len() - self.next) as u64
    }

    pub fn clear(&mut self) {
        self.lent = None;
        self.bytes.clear();
        self.packets.clear();
        self.next = 0;
    }

    /// Whether the program may still have a packet in the memory of the port.
    pub fn is_lent(&self) -> bool {
        self.lent.is_some()
    }

    fn bytes(&self) -> &[u8] {
        match &self.lent {
            Some(lent) => (**lent).as_ref(),
            None => &self.bytes,
        }
    }

    /// The next packet, and where its bytes are until this is cleared.
    #[inline]
    pub fn next(&mut self) -> Option<(&Taken, *const u8)> {
        let taken = self.packets.get(self.next)?;
        self.next += 1;
        Some((
            taken,
            with_exposed_provenance(self.base + taken.begin as usize),
        ))
    }

    /// Drops the packets that `keeps` rejects, and returns how many. The others stay in place.
    fn retain(&mut self, keeps: impl Fn(&Frame<'_>) -> bool) -> u64 {
        let before = self.len();
        let mut packets = std::mem::take(&mut self.packets);
        packets.drain(..self.next);
        self.next = 0;
        let bytes = self.bytes();
        packets.retain(|taken| {
            keeps(&Frame {
                data: taken.bytes(bytes),
                wire_len: taken.wire_len,
                direction: taken.direction,
                ..Frame::default()
            })
        });
        self.packets = packets;
        before - self.len()
    }
}

impl Intake {
    pub fn new(port: Box<dyn Port>, clock: Clock, lends: bool) -> Intake {
        let first = port.interfaces().first();
        let link = first.map_or(LinkType::ETHERNET, |first| first.link);
        Intake {
            view: first.map_or(View::Packet, View::of),
            port,
            clock,
            interfaces: Vec::new(),
            lends,
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
        self.left_out += self.ahead.len() + current.len();
        self.ahead.clear();
        // The program may have the packet that it handles, until it asks for the next one.
        current.packets.clear();
        current.next = 0;
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
            let accepted = self.port.counts().accepted();
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
        let Batch {
            lent,
            bytes,
            packets,
            ..
        } = &mut self.ahead;
        let lends = self.lends && self.cooked.is_none();
        let turn_ends = self.taken + MAX_REJECTED;
        loop {
            if self.interfaces.len() != self.port.interfaces().len() {
                self.interfaces = self.port.interfaces().to_vec();
            }
            let budget = if lends { usize::MAX } else { BATCH };
            let burst = self.port.receive(budget);
            let mut burst = burst.map_err(|error| failure(&error))?;
            let memory = burst.memory().filter(|_| lends);
            let memory = memory.map(|memory| memory.as_ptr().addr());
            let mut is_empty = true;
            // Matched in place, because a frame is not small.
            while let Some(ref frame) = burst.next_frame() {
                is_empty = false;
                self.taken += 1;
                let is_filtered = match &mut self.unfiltered {
                    Some(0) => true,
                    Some(frames) => {
                        *frames -= 1;
                        false
                    }
                    None => false,
                };
                let interface = self.interfaces.get(frame.interface as usize);
                if interface.is_some_and(|interface| interface.link != self.frames) {
                    self.left_out += 1;
                    continue;
                }
                if !is_asked(self.direction, frame) {
                    self.rejected += 1;
                    continue;
                }
                let (begin, copied) = match memory {
                    Some(base) => (frame.data.as_ptr().addr() - base, None),
                    None => (bytes.len(), Some(&mut *bytes)),
                };
                let mut wire_len = frame.wire_len;
                let mut data = frame.data;
                if let Some(bytes) = copied {
                    let name = interface.map_or("", |interface| &interface.name);
                    match &mut self.cooked {
                        None => bytes.extend_from_slice(frame.data),
                        Some(cooked) => match cooked.append(frame, name, bytes) {
                            Some(len) => wire_len = len,
                            None => {
                                self.left_out += 1;
                                continue;
                            }
                        },
                    }
                    data = &bytes[begin..];
                }
                if let Some(filter) = self.filter.as_ref().filter(|_| !is_filtered) {
                    let seen = Frame {
                        data,
                        wire_len,
                        ..*frame
                    };
                    if !accepts(filter, &seen, self.view, self.link) {
                        self.rejected += 1;
                        if memory.is_none() {
                            bytes.truncate(begin);
                        }
                        continue;
                    }
                }
                packets.push(Taken {
                    time_ns: frame.time_ns,
                    // Neither a block nor a batch has 4 GiB.
                    begin: begin as u32,
                    len: data.len() as u32,
                    wire_len,
                    direction: frame.direction,
                });
            }
            if !packets.is_empty() && memory.is_some() {
                *lent = burst.lend();
                if lent.is_none() {
                    bytes.extend_from_slice(burst.memory().unwrap_or_default());
                }
            }
            if is_empty || !packets.is_empty() || self.taken >= turn_ends {
                break;
            }
        }
        self.ahead.base = self.ahead.bytes().as_ptr().expose_provenance();
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
