//! Devices: ports of `forebay_net`, as a handle reads them.
//!
//! ```text
//!  port ── a burst of frames ──▶ batch: those that the filter accepts, copied ──▶ the program, one by one
//! ```
//! A program may call any function while it handles a packet, also with the same handle. So frames are copied out of the port's memory, and the
//! port is free again. Where the kernel can filter, it does; the filter then also runs here, for what was received before it was set.

use crate::{
    abi::{self, PacketHeader, Stats64},
    border::attach,
    cooked,
    device_name::exists_and_is_up,
    failure::{Failure, of_port as failure},
    selectable::{Selectable, timespec},
    sending::Sender,
    settings::Settings,
    timestamps::Precision,
};
use forebay::time::Clock;
use forebay_net::{
    af_packet::{AfPacket, AfPacketConfig},
    filter::{View, bpf::Program},
    open::{self, Name, Options},
    port::{
        Counts, DEFAULT_SNAPLEN, Direction, Frame, LinkType, MAX_SNAPLEN, Port, TimeSource, Wake,
    },
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use std::{
    ffi::c_int,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

/// Packets that are taken from the port at once.
pub const BATCH: usize = 64;
/// Bursts without a packet for the program, after which others get their turn.
const MAX_REJECTED: usize = 64;
/// How long the kernel collects packets if the program sets no limit.
const DEFAULT_DELAY: Duration = Duration::from_millis(100);
const SHORT_DELAY: Duration = Duration::from_millis(10);
/// The bytes of a block of the kernel's ring if packets are handed over soon.
const SMALL_BLOCK_BYTES: u32 = 128 << 10;

/// An open device.
pub struct Live {
    port: Box<dyn Port>,
    name: Name,
    /// The socket to which the kernel can attach a filter.
    socket: Option<OwnedFd>,
    clock: Clock,
    /// The link type of the handle, and that of the port's frames.
    link: LinkType,
    frames: LinkType,
    /// Frames get another header.
    cooked: Option<cooked::Interfaces>,
    view: View,
    snaplen: u32,
    precision: Precision,
    timeout: Option<Duration>,
    pub nonblocking: bool,
    direction: Option<Direction>,
    batch: Vec<Taken>,
    bytes: Vec<u8>,
    next: usize,
    /// Packets of other link types than the handle's.
    left_out: u64,
    /// Packets handed to the program.
    delivered: u64,
    selectable: Option<Selectable>,
    sender: Sender,
}

/// A packet of the batch.
struct Taken {
    begin: usize,
    len: usize,
    wire_len: u32,
    time_ns: u64,
    direction: Direction,
}

impl Live {
    /// Opens the device, and returns its link type, too.
    pub fn open(settings: &Settings) -> Result<(Live, LinkType), Failure> {
        let device = settings.device.to_string_lossy();
        let name: Name = device.parse().map_err(|error| failure(&error))?;
        exists_and_is_up(&name)?;
        if settings.protocol != 0 {
            return Err("selecting an Ethernet protocol is not supported".into());
        }
        let snaplen = match u32::try_from(settings.snaplen) {
            Ok(snaplen @ 1..=MAX_SNAPLEN) => snaplen,
            _ => DEFAULT_SNAPLEN,
        };
        let timeout = u64::try_from(settings.timeout).ok().filter(|&ms| ms > 0);
        let timeout = timeout.map(Duration::from_millis);
        let delay = match settings.immediate {
            true => Duration::from_millis(1),
            false => timeout
                .unwrap_or(DEFAULT_DELAY)
                .min(Duration::from_secs(10)),
        };
        let buffer = u64::try_from(settings.buffer)
            .ok()
            .filter(|&bytes| bytes > 0);
        let clock = open::clock(std::slice::from_ref(&name)).map_err(|error| failure(&error))?;
        let time =
            (settings.tstamp_type == abi::TSTAMP_ADAPTER_UNSYNCED).then_some(TimeSource::Hardware);
        let opened = match &name {
            Name::Interface(interface) => {
                let mut config = AfPacketConfig {
                    promiscuous: settings.promiscuous,
                    snaplen,
                    retire: delay,
                    ethernet_only: true,
                    time,
                    ..AfPacketConfig::default()
                };
                config.ring_bytes = buffer.unwrap_or(config.ring_bytes).max(MIN_RING_BYTES);
                if delay < SHORT_DELAY || buffer.is_some() {
                    config.block_bytes = SMALL_BLOCK_BYTES;
                }
                AfPacket::open(interface, &config).map(|port| {
                    let socket = port.as_fd().try_clone_to_owned().ok();
                    // The filter of all interfaces also selects those with Ethernet.
                    let socket = socket.filter(|_| !name.is_any());
                    (Box::new(port) as Box<dyn Port>, socket)
                })
            }
            _ => {
                let options = Options {
                    ring_bytes: buffer,
                    promiscuous: settings.promiscuous,
                    snaplen,
                    delay,
                    ..Options::default()
                };
                let names = std::slice::from_ref(&name);
                open::ports(names, &options, &clock).and_then(|mut ports| {
                    let none = || forebay::Error::new(device.as_ref(), "opening it");
                    Ok((ports.pop().ok_or_else(none)?, None))
                })
            }
        };
        let (port, socket) = opened.map_err(|error| failure(&error))?;
        let first = port.interfaces().first();
        let link = first.map_or(LinkType::ETHERNET, |first| first.link);
        let view = first.map_or(View::Packet, View::of);
        let live = Live {
            port,
            name,
            socket,
            clock,
            link,
            frames: link,
            cooked: None,
            view,
            snaplen,
            precision: settings.precision,
            timeout,
            nonblocking: settings.nonblocking,
            direction: None,
            batch: Vec::new(),
            bytes: Vec::new(),
            next: 0,
            left_out: 0,
            delivered: 0,
            selectable: None,
            sender: Sender::default(),
        };
        Ok((live, link))
    }

    /// How filters see its packets.
    pub fn view(&self) -> View {
        self.view
    }

    /// The link types that the handle can have.
    pub fn links(&self) -> Vec<LinkType> {
        match self.name.is_any() {
            true => vec![self.frames, cooked::LINK],
            false => vec![self.frames],
        }
    }

    /// Delivers packets with this link type, one of [`links`](Live::links), from now on. Filters have to be set again.
    pub fn set_link(&mut self, link: LinkType) {
        self.link = link;
        self.cooked = (link != self.frames).then(cooked::Interfaces::default);
        let first = self
            .port
            .interfaces()
            .first()
            .filter(|_| link == self.frames);
        self.view = first.map_or(View::Packet, View::of);
        self.next = self.batch.len();
    }

    pub fn snaplen(&self) -> c_int {
        self.snaplen as c_int
    }

    pub fn buffer_bytes(&self) -> c_int {
        c_int::try_from(self.port.info().ring_bytes).unwrap_or(c_int::MAX)
    }

    /// The port's counts. Packets that the handle left out count as dropped.
    pub fn counts(&mut self) -> Counts {
        let mut counts = self.port.counts();
        counts.dropped = counts.dropped.map(|dropped| dropped + self.left_out);
        counts
    }

    /// Every count by itself.
    pub fn exact_counts(&mut self) -> Stats64 {
        let counts = self.port.counts();
        let known = |count: Option<u64>| count.unwrap_or(u64::MAX);
        Stats64 {
            received: counts.received,
            dropped: known(counts.dropped),
            interface_dropped: known(counts.interface_dropped),
            left_out: self.left_out,
            delivered: self.delivered,
        }
    }

    /// Delivers all packets, or only those that were received (1) or sent (2).
    pub fn set_direction(&mut self, number: c_int) -> Result<(), Failure> {
        let direction = match number {
            0 => None,
            1 => Some(Direction::Inbound),
            2 => Some(Direction::Outbound),
            _ => return Err("Invalid direction".into()),
        };
        if direction.is_some() && !self.name.has_directions_and_clocks() {
            return Err("Setting direction is not supported on this device".into());
        }
        self.direction = direction;
        Ok(())
    }

    /// Has the kernel apply the filter, if it can, and drops packets from the batch that it rejects.
    pub fn set_filter(&mut self, program: &Program) {
        if let Some(socket) = &self.socket {
            // If the kernel does not accept it, the filter still runs here.
            let _ = attach(socket.as_fd(), program.instructions());
        }
        let waiting = self.batch.drain(..).skip(self.next);
        self.batch = waiting
            .filter(|taken| {
                let frame = Frame {
                    data: &self.bytes[taken.begin..taken.begin + taken.len],
                    wire_len: taken.wire_len,
                    direction: taken.direction,
                    ..Frame::default()
                };
                accepts(program, &frame, self.view, self.link)
            })
            .collect();
        self.next = 0;
    }

    /// The next packet, if there is one now. It stays in place until the next call.
    pub fn next(
        &mut self,
        filter: Option<&Program>,
    ) -> Result<Option<(PacketHeader, *const u8)>, Failure> {
        if self.next == self.batch.len() {
            self.refill(filter)?;
        }
        let Some(taken) = self.batch.get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        self.delivered += 1;
        let (seconds, fraction) = self.precision.split(taken.time_ns);
        let header = PacketHeader {
            seconds,
            fraction,
            caplen: taken.len as u32,
            len: taken.wire_len,
        };
        let data = &self.bytes[taken.begin..taken.begin + taken.len];
        Ok(Some((header, data.as_ptr())))
    }

    /// Takes a burst of packets from the port.
    fn refill(&mut self, filter: Option<&Program>) -> Result<(), Failure> {
        self.batch.clear();
        self.bytes.clear();
        self.next = 0;
        for _ in 0..MAX_REJECTED {
            let interfaces = self.port.interfaces().to_vec();
            let mut burst = self.port.receive(BATCH).map_err(|error| failure(&error))?;
            let mut is_empty = true;
            while let Some(frame) = burst.next_frame() {
                is_empty = false;
                let interface = interfaces.get(frame.interface as usize);
                if interface.is_some_and(|interface| interface.link != self.frames) {
                    self.left_out += 1;
                    continue;
                }
                if self.direction.is_some_and(|asked| asked != frame.direction) {
                    continue;
                }
                let begin = self.bytes.len();
                let name = interface.map_or("", |interface| &interface.name);
                let wire_len = match &mut self.cooked {
                    Some(cooked) => cooked.append(&frame, name, &mut self.bytes),
                    None => {
                        self.bytes.extend_from_slice(frame.data);
                        Some(frame.wire_len)
                    }
                };
                let Some(wire_len) = wire_len else {
                    self.left_out += 1;
                    continue;
                };
                let seen = Frame {
                    data: &self.bytes[begin..],
                    wire_len,
                    ..frame
                };
                if filter.is_some_and(|filter| !accepts(filter, &seen, self.view, self.link)) {
                    self.bytes.truncate(begin);
                    continue;
                }
                let len = seen.data.len().min(self.snaplen as usize);
                self.bytes.truncate(begin + len);
                self.batch.push(Taken {
                    begin,
                    len,
                    wire_len,
                    time_ns: frame.time_ns,
                    direction: frame.direction,
                });
            }
            if is_empty || !self.batch.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Waits until there may be packets, for the time that the program has set, or until `wake` is written to.
    pub fn wait(&mut self, wake: &OwnedFd) -> Result<(), Failure> {
        if self.nonblocking {
            return Ok(());
        }
        let clock = self.clock.clone();
        let until = self
            .timeout
            .map(|timeout| clock.now() + timeout.as_nanos() as u64);
        let (mut waits, limit) = (vec![PollFd::new(wake, PollFlags::IN)], until);
        let until = match self.port.arm().map_err(|error| failure(&error))? {
            Wake::Fd(fd) => {
                waits.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
                limit
            }
            Wake::At(then) if clock.is_virtual() => {
                clock.sleep_until(then);
                return Ok(());
            }
            Wake::At(then) => Some(limit.map_or(then, |limit| limit.min(then))),
            Wake::End => return Err(ended()),
            _ => return Ok(()),
        };
        let left = until.map(|until| timespec(until.saturating_sub(clock.now())));
        match poll(&mut waits, left.as_ref()) {
            Ok(_) => {
                // The request to stop was stored before this write. If it stayed readable, every later wait would end at once.
                if !waits[0].revents().is_empty() {
                    let _ = rustix::io::read(wake, &mut [0; 8]);
                }
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(error) => Err(format!("can't wait for packets: {error}").into()),
        }
    }

    /// A descriptor that is readable while packets wait.
    pub fn descriptor(&mut self) -> Result<c_int, Failure> {
        if self.selectable.is_none() {
            self.selectable = Some(Selectable::new().map_err(|error| error.to_string())?);
            self.show_waiting()?;
        }
        Ok(self.selectable.as_ref().map_or(-1, |it| it.descriptor()))
    }

    /// Sends a frame, and waits until the kernel has accepted it.
    pub fn send(&mut self, frame: &[u8]) -> Result<(), Failure> {
        self.sender.send(&self.name, frame)
    }

    /// Makes the descriptor readable if packets wait, and has the port make it readable otherwise.
    pub fn show_waiting(&mut self) -> Result<(), Failure> {
        let Some(selectable) = &self.selectable else {
            return Ok(());
        };
        let shown = if self.next < self.batch.len() {
            selectable.fire_after(Some(0))
        } else {
            match self.port.arm().map_err(|error| failure(&error))? {
                Wake::Fd(fd) => selectable
                    .watch(fd)
                    .and_then(|()| selectable.fire_after(None)),
                Wake::At(then) => {
                    selectable.fire_after(Some(then.saturating_sub(self.clock.now())))
                }
                _ => selectable.fire_after(Some(0)),
            }
        };
        shown.map_err(|error| format!("can't show that packets wait: {error}").into())
    }
}

fn accepts(program: &Program, frame: &Frame<'_>, view: View, link: LinkType) -> bool {
    let kept = match view {
        View::Packet => program.run(frame.data, frame.wire_len),
        _ => program.run_restored(frame, link),
    };
    kept > 0
}

/// The least size of the kernel's ring, in bytes.
const MIN_RING_BYTES: u64 = 1 << 20;

/// A source without end has none; the simulated card may have.
fn ended() -> Failure {
    Failure::new(abi::BREAK, "the device has no more packets")
}
