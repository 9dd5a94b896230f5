//! Captures from one Linux interface or from all, with an `AF_PACKET` socket and a ring that the kernel shares with this process.
//!
//! ```text
//!   interface ──▶ socket ──▶ ┌─────┬─────┬─────┬─────┬─────┐  TPACKET_V3: the kernel fills blocks.
//!                            │ours │ours │fills│free │free │  When a block is full, or after 100 ms,
//!                            └─────┴─────┴─────┴─────┴─────┘  the kernel hands it to this process
//!                              │  ▲
//!             receive() ──▶ Burst └── returned to the kernel when all its frames were handed out and the burst has ended
//! ```
//!
//! Frames are read in place, in the memory that the kernel wrote them to. A VLAN tag that the kernel removed is inserted again.
//!
//! If frames are not taken, the ring fills up, and *the kernel* drops and counts frames. [`Counts::dropped`] is the total.
//! [`Frame::dropped_before`] is the number dropped before a frame; it may be reported at a later frame than the right one.
//! [`AfPacket::trailing_drops`] is the number dropped after the last frame. When `arm()` has returned [`Wake::End`]:
//!
//! ```text
//! Counts::dropped  = Σ dropped_before + trailing_drops
//! Counts::received = number of frames + Counts::dropped + Counts::filtered
//! ```
//! The kernel counts what the filter rejects ([`Counts::filtered`]) only for a process that may load eBPF programs (CAP_BPF), and
//! not with `any`.
//!
//! If an interface goes down, the port waits for it and counts the outage in [`PortReport::outages`](crate::port::PortReport::outages). Deleting the interface ends the
//! port.
//!
//! Note:
//! - [`Port::stop`] blocks for 8 to 20 ms, until the kernel writes no more frames into the ring.
//! - A frame may be up to [`AfPacketConfig::retire`] old when `receive` returns it.
//! - Outgoing frames are captured too, except on the loopback interface or with [`AfPacketConfig::incoming_only`].
//!
//! Opening a port needs CAP_NET_RAW. Afterwards no privilege is needed.
//!
//! ```
//! use forebay_net::af_packet::{AfPacket, AfPacketConfig};
//! use forebay_net::port::{Port, Wake};
//!
//! let mut port = match AfPacket::open("lo", &AfPacketConfig::default()) {
//!     Ok(port) => port,
//!     Err(reason) => return println!("skipped: {reason}"), // needs CAP_NET_RAW
//! };
//! port.stop().unwrap(); // a real program first captures for some time
//! let mut bytes = 0;
//! loop {
//!     let mut burst = port.receive(64).unwrap();
//!     while let Some(frame) = burst.next_frame() {
//!         bytes += frame.data.len();
//!     }
//!     drop(burst);
//!     match port.arm().unwrap() {
//!         Wake::End => break,
//!         Wake::Fd(_) => std::thread::sleep(std::time::Duration::from_millis(1)), // or poll(2)
//!         _ => {}
//!     }
//! }
//! println!("{bytes} bytes, {:?}", port.counts());
//! ```

mod config;
mod fanout;
mod gaps;
mod interfaces;
mod link_types;
mod names;
mod ring;
mod sending;
mod shut;
mod socket;
mod tx_ring;
mod wire;

pub use config::AfPacketConfig;
pub use link_types::link_type;
pub(crate) use names::find as find_link;
pub use sending::AfPacketTx;
pub(crate) use shut::Shut;
pub use socket::probe;
pub(crate) use socket::promiscuous as hold_promiscuous;

use crate::ebpf::KernelCounters;
use crate::filter::bpf::Instruction;
use crate::link::Netlink;
use crate::port::{
    self, Burst, Counts, Frame, Frames, Interface, LentMemory, LinkType, Outages, Port, PortInfo,
    PortReport, TimeSource, Wake,
};
use forebay::{Error, Result};
use gaps::Gaps;
use interfaces::{Interfaces, Which};
use ring::{Damage, Ring};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use socket::{Detached, Socket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// A packet socket on one interface, or on all, with its mapped ring.
#[derive(Debug)]
pub struct AfPacket {
    reader: Reader,
    snaplen: u32,
    /// Wakes a drain that waits for the kernel to close the last block.
    timer: OwnedFd,
    /// The maximum time to wait for that block.
    patience: Duration,
    /// The kernel filters for us.
    filters: bool,
    time: Option<TimeSource>,
    /// Offloads that change frames, and the command that turns them off.
    offloads: Vec<&'static str>,
    offloads_off: Option<String>,
    stop_on_down: bool,
    state: State,
    empty_looks: u32,
    /// Ended outages, and the present one since the state became `Down`.
    outages: Outages,
}

#[derive(Debug)]
enum State {
    /// Attached to the interface.
    Live,
    /// The interface is down. The kernel attaches the socket again when it comes up, but does not report that, so we poll.
    Down {
        since: Instant,
        next_check: Instant,
    },
    /// Detached; accepted frames are still being read.
    Draining(Drain),
    Ended,
}

#[derive(Debug)]
struct Drain {
    detached: Detached,
    /// The interface went away, as opposed to a stop by us.
    lost: bool,
    /// Frames that the socket had accepted at the last query.
    accepted: Option<u64>,
    /// Set when nothing can be read but frames are missing.
    deadline: Option<Instant>,
}

/// A spinning caller never arms, so every this many empty polls the interface is checked, too.
const LOOKS_BETWEEN_CHECKS: u32 = 1024;
/// The interval between checks of an interface that is down.
const DOWN_CHECK: Duration = Duration::from_millis(100);
/// The interval between polls while a block is lent: the socket then stays readable, as the block was not returned (packet_poll).
const LENT_CHECK: Duration = Duration::from_millis(2);

impl AfPacket {
    /// Opens the interface `name`, or all interfaces with `any`, and starts to capture.
    ///
    /// With `any`, the first entry of [`interfaces`](Port::interfaces) is the socket, whose counts cover all interfaces together.
    /// The other entries are the interfaces that are up, and later any interface whose first frame arrives. Frames of unsupported
    /// hardware are left out. No interface is put into promiscuous mode, and the port does not end when an interface goes
    /// down or is deleted.
    ///
    /// # Errors
    /// Each error advises what to do:
    /// - The interface does not exist, is down, or has neither Ethernet nor raw IP frames.
    /// - CAP_NET_RAW is missing.
    /// - A value of `config` is invalid, or its filter is not valid for this link type.
    /// - There is not enough memory for the ring.
    pub fn open(name: &str, config: &AfPacketConfig) -> Result<Self> {
        Self::attached(name, config, true).map(|(port, _)| port)
    }

    /// Opens a port, also returning its filter; `accepts`: the filter is in force. Otherwise the port accepts no frame.
    fn attached(
        name: &str,
        config: &AfPacketConfig,
        accepts: bool,
    ) -> Result<(Self, Option<Vec<Instruction>>)> {
        config.validate()?;
        let netlink = Netlink::open()?;
        let links = netlink.links()?;
        let which = Which::called(name, &links)?;
        let link = which.link();
        let blocks = config.blocks(link.mtu);
        config.fits_memory(blocks)?;
        let socket = Socket::open(&link)?;
        if !link.is_up() {
            return Err(socket.is_down());
        }
        let (offloads, offloads_off) = wire::offloads(&which)?;
        if config.time == Some(TimeSource::Hardware) {
            wire::check_stamps(&which)?;
            socket.stamp_in_hardware()?;
        }
        let memory = socket.map_ring(blocks, config)?;
        let snaplen = config.snaplen.min(blocks.frame_bytes());
        let program = which.program(config, snaplen)?;
        let filters = config.filter.is_some();
        let rejections = match &program {
            _ if !accepts => socket.keep_first(0).map(|()| None)?,
            Some(program) if filters => socket.count_and_filter(program)?,
            Some(program) => socket.filter(program).map(|()| None)?,
            None => None,
        };
        if config.incoming_only || link.is_loopback() {
            socket.ignore_outgoing()?;
        }
        if config.promiscuous && !link.is_loopback() && matches!(which, Which::One(..)) {
            socket.promiscuous()?;
        }
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )
        .map_err(|cause| Error::new(name, "making a timer").because(cause))?;
        let mut interfaces = Interfaces::new(&which, config, snaplen, netlink);
        // Creating the ring takes a while: earlier drops do not count.
        interfaces.begin()?;
        socket.attach(config.protocol)?;
        let port = AfPacket {
            reader: Reader {
                ring: Ring::new(memory, blocks, which.hardware(), snaplen)
                    .reporting_unfinished(config.reports_unfinished),
                gaps: Gaps::new(blocks.count),
                socket,
                interfaces,
                received: 0,
                dropped: 0,
                rejections,
                rejected: 0,
                delivered: 0,
                damage: None,
            },
            snaplen,
            timer,
            patience: config.retire * 2 + Duration::from_secs(1),
            filters,
            time: config.time,
            offloads,
            offloads_off,
            stop_on_down: config.stop_on_down,
            state: State::Live,
            empty_looks: 0,
            outages: Outages::default(),
        };
        Ok((port, program))
    }

    /// Drops that no frame has reported in `dropped_before`: those after the last frame, and those whose next frame has not
    /// arrived yet.
    pub fn trailing_drops(&self) -> u64 {
        self.reader.gaps.untold(&self.reader.ring)
    }

    fn name(&self) -> &str {
        self.reader.socket.name()
    }

    /// Detaches from the interface and starts to drain.
    fn drain(&mut self, lost: bool) -> Result<()> {
        let was_down = self.end_outage();
        let detached = self.reader.socket.detach()?;
        // When the interface goes down by itself, the kernel does not wait for frames in flight (packet_notifier).
        let detached = match lost || was_down {
            true => Detached::Settling,
            false => detached,
        };
        self.state = State::Draining(Drain {
            detached,
            lost,
            accepted: None,
            deadline: None,
        });
        Ok(())
    }

    /// Handles a report of the socket that the interface went down, or checks whether it is up again.
    fn check_link(&mut self) -> Result<Wake<'_>> {
        let now = Instant::now();
        if let State::Down { next_check, .. } = self.state
            && now < next_check
        {
            return self.sleep_for(next_check - now);
        }
        if self.stop_on_down {
            self.drain(true)?;
            return self.wait_for_the_rest();
        }
        let was_live = matches!(self.state, State::Live);
        if was_live {
            self.begin_outage(now);
        }
        match self.reader.interfaces.is_up() {
            Ok(None) => {
                // Deleting an interface is not an outage.
                self.end_outage();
                self.outages.count -= u64::from(was_live);
                self.drain(true)?;
                self.wait_for_the_rest()
            }
            Ok(Some(true)) => {
                self.end_outage();
                Ok(Wake::Ready)
            }
            // If netlink does not answer now, it is queried again later.
            Ok(Some(false)) | Err(_) => self.sleep_for(DOWN_CHECK),
        }
    }

    fn begin_outage(&mut self, now: Instant) {
        self.outages.count += 1;
        self.outages.last = Duration::ZERO;
        self.state = State::Down {
            since: now,
            next_check: now,
        };
    }

    /// Ends the present outage and returns whether there was one. The port is live again.
    fn end_outage(&mut self) -> bool {
        let State::Down { since, .. } = self.state else {
            return false;
        };
        self.outages.last = since.elapsed();
        self.outages.total += self.outages.last;
        self.state = State::Live;
        true
    }

    /// Wakes the caller after `time`, for events that no descriptor reports.
    fn sleep_for(&mut self, time: Duration) -> Result<Wake<'_>> {
        if let State::Down { next_check, .. } = &mut self.state {
            *next_check = Instant::now() + time;
        }
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: time.as_secs() as i64,
                tv_nsec: i64::from(time.subsec_nanos()).max(1),
            },
        };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)
            .map_err(|cause| Error::new(self.name(), "setting a timer").because(cause))?;
        Ok(Wake::Fd(self.timer.as_fd()))
    }

    /// Adds the interface of the next frame. A burst ends before a frame from an unknown interface.
    fn meet(&mut self) {
        let Reader {
            ring, interfaces, ..
        } = &mut self.reader;
        if interfaces.are_any()
            && let Some(index) = ring.comes_from()
            && interfaces.number(index).is_none()
        {
            interfaces.meet(index, self.snaplen);
        }
    }

    /// Damage ends the port: a kernel that writes a damaged block is not trusted with the next one.
    fn check_damage(&mut self) -> Result<()> {
        let Some(damage) = self.reader.damage.take() else {
            return Ok(());
        };
        self.reader.read_statistics();
        self.reader.read_rejections();
        self.state = State::Ended;
        let place = format!("block {}, byte {}", damage.block, damage.at);
        let error = Error::new(
            self.name(),
            format!("the kernel's ring is damaged at {place}"),
        );
        self.reader.socket.detach()?;
        Err(error.advise(format!(
            "{} frames of that block were not read",
            damage.frames
        )))
    }

    /// Ends a drain if it is complete; otherwise the caller polls again in a millisecond.
    fn wait_for_the_rest(&mut self) -> Result<Wake<'_>> {
        let State::Draining(drain) = &mut self.state else {
            return Ok(Wake::End);
        };
        self.reader.read_statistics();
        if self.reader.look() {
            return Ok(Wake::Ready);
        }
        let accepted = self.reader.received - self.reader.dropped;
        let final_count = drain.detached == Detached::Clean || drain.accepted == Some(accepted);
        drain.accepted = Some(accepted);
        let now = Instant::now();
        let deadline = *drain.deadline.get_or_insert(now + self.patience);
        if final_count && self.reader.delivered >= accepted || now >= deadline {
            self.reader.read_rejections();
            let lost = drain.lost;
            self.state = State::Ended;
            return if lost {
                Err(self.reader.interfaces.lost_because())
            } else {
                Ok(Wake::End)
            };
        }
        // The socket becomes readable when the kernel closes a block, but it reports neither settled statistics nor a deadline.
        self.sleep_for(Duration::from_millis(1))
    }
}

impl AsFd for AfPacket {
    /// The packet socket, for options that [`AfPacketConfig`] does not have, such as `PACKET_FANOUT`.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.socket.as_fd()
    }
}

impl Port for AfPacket {
    fn interfaces(&self) -> &[Interface] {
        self.reader.interfaces.list()
    }

    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        self.reader.settle();
        self.check_damage()?;
        if self.reader.look() {
            if let State::Draining(drain) = &mut self.state {
                drain.deadline = None;
            }
        } else {
            self.empty_looks = self.empty_looks.wrapping_add(1);
            if self.empty_looks.is_multiple_of(LOOKS_BETWEEN_CHECKS) {
                self.arm()?;
            }
        }
        self.reader.ring.allow(budget);
        self.meet();
        Ok(Burst::new(&mut self.reader))
    }

    fn arm(&mut self) -> Result<Wake<'_>> {
        self.reader.settle();
        self.check_damage()?;
        if self.reader.look() {
            return Ok(Wake::Ready);
        }
        match self.state {
            State::Live if self.reader.socket.take_error().is_none() => {
                if self.reader.ring.kept() > 0 {
                    return self.sleep_for(LENT_CHECK);
                }
                Ok(Wake::Fd(self.reader.socket.as_fd()))
            }
            State::Live | State::Down { .. } => self.check_link(),
            State::Draining(_) | State::Ended => self.wait_for_the_rest(),
        }
    }

    /// Detaches from the interface. Blocks for 8 to 20 ms, until the kernel has no frame in flight.
    ///
    /// From then on [`arm`](Port::arm) returns [`Wake::End`] once every accepted frame was delivered. If a frame never arrives
    /// (the kernel must close its last block within [`AfPacketConfig::retire`]), it returns `End` a second later, and `received -
    /// dropped` exceeds the number of delivered frames.
    fn stop(&mut self) -> Result<()> {
        if matches!(self.state, State::Live) && self.reader.socket.take_error().is_some() {
            // An outage that was not noticed before; it may have ended or still last.
            match self.stop_on_down {
                true => self.drain(true)?,
                false => self.begin_outage(Instant::now()),
            }
        }
        if matches!(self.state, State::Live | State::Down { .. }) {
            self.drain(false)?;
        }
        self.reader.read_statistics();
        Ok(())
    }

    fn counts(&mut self) -> Counts {
        if !matches!(self.state, State::Ended) {
            self.reader.read_statistics();
            self.reader.read_rejections();
        }
        let Reader {
            received, rejected, ..
        } = self.reader;
        let is_counted = !self.filters || self.reader.rejections.is_some();
        Counts {
            received: received + rejected,
            dropped: Some(self.reader.dropped),
            interface_dropped: self.reader.interfaces.dropped(),
            filtered: is_counted.then_some(rejected),
        }
    }

    fn report(&self) -> PortReport<'_> {
        let is_chosen = self.time == Some(TimeSource::Hardware);
        PortReport {
            ring_fill: Some(self.reader.ring.fill_level()),
            outages: self.outages.during(match self.state {
                State::Down { since, .. } => Some(since.elapsed()),
                _ => None,
            }),
            hardware_times: is_chosen.then(|| self.reader.ring.hardware_times()),
            ..PortReport::default()
        }
    }

    fn info(&self) -> PortInfo {
        PortInfo {
            backend: "af_packet",
            copy: "mapped ring",
            ring_bytes: self.reader.ring.blocks().total_bytes() as u64,
            ring_frames: 0,
            waits: false,
            filters: self.filters,
            in_turn: false,
            reads_ahead: false,
            timestamps: match self.time {
                Some(TimeSource::Hardware) => "hardware",
                _ => port::KERNEL_TIME,
            },
            offloads: self.offloads.clone(),
            offloads_off: self.offloads_off.clone(),
            ..PortInfo::default()
        }
    }
}

/// Returns the link type of the interface `name`; for `any`, that of most interfaces.
///
/// A filter for `any` is compiled to two programs: one for this link type, and one for raw IP.
///
/// # Errors
/// There is no such interface, or its hardware is not supported.
pub fn link_of(name: &str) -> Result<LinkType> {
    let links = Netlink::open()?.links()?;
    Which::called(name, &links).map(|which| which.link_type())
}

/// The part of a port that a burst borrows.
#[derive(Debug)]
struct Reader {
    ring: Ring,
    gaps: Gaps,
    socket: Socket,
    interfaces: Interfaces,
    /// Σ tp_packets and Σ tp_drops.
    received: u64,
    dropped: u64,
    /// Counts what the kernel's filter rejects, if it can; and the count when it was last read. These frames are not in `received`.
    rejections: Option<KernelCounters>,
    rejected: u64,
    /// Frames handed out in bursts that have ended.
    delivered: u64,
    damage: Option<Damage>,
}

impl Reader {
    fn look(&mut self) -> bool {
        self.gaps.look(&mut self.ring)
    }

    /// Ends a burst, even if it was forgotten instead of dropped.
    fn settle(&mut self) {
        self.delivered += u64::from(self.ring.taken());
        self.ring.allow(0);
        self.damage = self.damage.or(self.ring.take_damage());
        let is_done = self.ring.held() && self.ring.left() == 0;
        if is_done || self.ring.can_give_back() {
            self.read_statistics();
            match is_done {
                true => self.gaps.release(&mut self.ring),
                false => self.gaps.give_back(&mut self.ring),
            }
            self.read_statistics();
        }
    }

    fn read_statistics(&mut self) {
        let new = self
            .gaps
            .account(&mut self.ring, || self.socket.statistics());
        self.received += new.packets;
        self.dropped += new.drops;
    }

    fn read_rejections(&mut self) {
        self.rejected = self.rejections.as_ref().map_or(0, KernelCounters::sum);
    }
}

impl Drop for Reader {
    /// The mapping of a block that is still lent keeps the socket open. Otherwise a process that was forked may go on with the socket.
    fn drop(&mut self) {
        if self.ring.is_lent() {
            let _ = self.socket.detach();
            let _ = self.socket.leave_promiscuous(); // an error if it was not asked for
        }
    }
}

impl Frames for Reader {
    #[inline]
    fn next_frame(&mut self) -> Option<Frame<'_>> {
        if !self.interfaces.are_any() {
            return self.ring.next();
        }
        let number = match self.ring.comes_from() {
            Some(index) => self.interfaces.number(index)?,
            None => 0, // the end of the burst, or damage
        };
        let frame = self.ring.next()?;
        Some(Frame {
            interface: number,
            ..frame
        })
    }

    fn put_back(&mut self) {
        self.ring.put_back();
    }

    fn memory(&self) -> Option<&[u8]> {
        self.ring.memory()
    }

    fn lend(&mut self) -> Option<LentMemory> {
        self.ring.lend()
    }

    fn release(&mut self) {
        self.settle();
    }
}
