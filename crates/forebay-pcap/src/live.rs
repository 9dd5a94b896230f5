//! Devices: ports of `forebay_net`, as a handle reads them.
//!
//! ```text
//!  port ──▶ intake ──▶ current: a batch of packets ──▶ the program, one by one
//! ```
//! A program may call any function while it handles a packet, also with the same handle. So the port is free again by then: frames are copied
//! out of its memory, or it has lent the block that they are in.

use crate::{
    abi::{PacketHeader, Stats, Stats64},
    cooked,
    failure::{Failure, of_port as failure},
    intake::{BATCH, Batch, Intake, ended},
    opened::Opened,
    selectable::Selectable,
    sending::Sender,
    settings::Settings,
    timestamps::Precision,
    waiting::Wait,
    watcher::{Watcher, forks, locked},
};
use forebay_net::{
    filter::{View, bpf::Program},
    ledger::Ledger,
    link,
    open::Name,
    port::{Counts, Direction, LinkType, Wake},
};
use std::{
    ffi::c_int,
    io, mem,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// How old the counts may be that a signal handler gets, unless handling the last `BATCH` packets took longer.
const STATS_INTERVAL: Duration = Duration::from_millis(500);

/// An open device.
pub struct Live {
    /// Before the port, which is then closed as if it had lent nothing.
    current: Batch,
    /// Shared with the watcher's thread.
    intake: Arc<Mutex<Intake>>,
    /// Bytes of a packet that the program gets.
    snaplen: u32,
    name: Name,
    /// The socket to which the kernel can attach a filter.
    socket: Option<OwnedFd>,
    precision: Precision,
    timeout: Option<Duration>,
    nonblocking: bool,
    /// Packets handed to the program.
    delivered: u64,
    /// When the counts were read last.
    counted: Instant,
    /// Packets handed over when the time was last asked for.
    checked: u64,
    /// A descriptor of the port that was waited for, by its number, and its duplicate for waits.
    waited: Option<(RawFd, Arc<OwnedFd>)>,
    watcher: Option<Watcher>,
    selectable: Option<Selectable>,
    /// The process that opened it, if only that one can read it: the kernel writes frames of AF_XDP to its memory.
    process: Option<u64>,
}

impl Live {
    /// Opens the device, and returns its link type, too.
    pub fn open(settings: &Settings) -> Result<(Live, LinkType), Failure> {
        let Opened {
            name,
            port,
            clock,
            socket,
            snaplen,
            timeout,
        } = Opened::open(settings)?;
        let process = matches!(name, Name::Xdp(_)).then(forks);
        let intake = Intake::new(port, clock, socket.is_some());
        let link = intake.frames;
        let mut live = Live {
            intake: Arc::new(Mutex::new(intake)),
            current: Batch::default(),
            snaplen,
            name,
            socket,
            precision: settings.precision,
            timeout,
            nonblocking: false,
            delivered: 0,
            counted: Instant::now(),
            checked: 0,
            waited: None,
            watcher: None,
            selectable: None,
            process,
        };
        live.set_nonblocking(settings.nonblocking)?;
        Ok((live, link))
    }

    fn intake(&self) -> MutexGuard<'_, Intake> {
        locked(&self.intake)
    }

    /// How filters see its packets.
    pub fn view(&self) -> View {
        self.intake().view
    }

    /// The link types that the handle can have.
    pub fn links(&self) -> Vec<LinkType> {
        let frames = self.intake().frames;
        let is_ethernet = |interface: &str| {
            let links = link::interfaces().unwrap_or_default();
            let its = links.iter().find(|link| link.name == interface);
            its.is_some_and(|link| link.hardware == libc::ARPHRD_ETHER)
        };
        match &self.name {
            name if name.is_any() => vec![frames, cooked::LINUX_SLL, cooked::LINUX_SLL2],
            // Programs that know the interface as a tap of a cable modem's network select it.
            Name::Interface(interface) if is_ethernet(interface) => vec![frames, DOCSIS],
            _ => vec![frames],
        }
    }

    /// Delivers packets with this link type, one of [`links`](Live::links), from now on. Filters have to be set again.
    pub fn set_link(&mut self, link: LinkType) {
        let mut intake = locked(&self.intake);
        intake.set_link(link, &mut self.current);
        drop(intake);
        self.show_waiting();
    }

    pub fn snaplen(&self) -> c_int {
        self.snaplen as c_int
    }

    pub fn buffer_bytes(&self) -> c_int {
        c_int::try_from(self.intake().port.info().ring_bytes).unwrap_or(c_int::MAX)
    }

    /// The port's counts. Packets that the handle left out count as dropped.
    pub fn counts(&mut self) -> Counts {
        let mut intake = self.intake();
        let mut counts = intake.port.counts();
        counts.dropped = counts.dropped.map(|dropped| dropped + intake.left_out);
        counts
    }

    /// [`counts`](Live::counts) as `pcap_stats` returns them.
    pub fn stats(&mut self) -> Stats {
        self.counted = Instant::now();
        self.counts().into()
    }

    /// The counts, from time to time. To ask for the time takes as long as a packet.
    pub fn due_stats(&mut self) -> Option<Stats> {
        let since = self.delivered - self.checked;
        let is_time_asked = self.current.is_empty() || since >= BATCH as u64;
        if !is_time_asked {
            return None;
        }
        self.checked = self.delivered;
        (self.counted.elapsed() > STATS_INTERVAL).then(|| self.stats())
    }

    /// Every count by itself.
    pub fn exact_counts(&mut self) -> Stats64 {
        let mut intake = self.intake();
        let Ledger {
            received,
            filtered,
            dropped,
            interface_dropped,
            ..
        } = Ledger::of_port(intake.port.as_mut());
        let outages = intake.port.report().outages;
        let known = |count: Option<u64>| count.unwrap_or(u64::MAX);
        Stats64 {
            size: size_of::<Stats64>() as u64,
            received,
            delivered: self.delivered,
            waiting: self.current.len() + intake.ahead.len(),
            filtered: filtered + intake.rejected,
            left_out: intake.left_out,
            kernel: known(dropped.kernel),
            rx_ring: dropped.rx_ring,
            fill_ring: dropped.fill_ring,
            peer: known(dropped.peer),
            overrun: dropped.overrun,
            interface_dropped: known(interface_dropped),
            outages: outages.count,
            outage_ns: outages.total.as_nanos() as u64,
        }
    }

    pub fn is_nonblocking(&self) -> bool {
        self.nonblocking
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
        locked(&self.intake).set_direction(direction, &mut self.current);
        self.show_waiting();
        Ok(())
    }

    /// Has the kernel apply the filter, if it can, and drops waiting packets that it rejects.
    pub fn set_filter(&mut self, program: &Program) -> Result<(), Failure> {
        let socket = self.socket.as_ref().map(|socket| socket.as_fd());
        let set = locked(&self.intake).set_filter(program, &mut self.current, socket);
        self.show_waiting();
        set
    }

    pub fn is_its_process(&self) -> bool {
        self.process.is_none_or(|process| process == forks())
    }

    /// The next packet, if there is one now. It stays in place until the next call.
    pub fn next(&mut self) -> Result<Option<(PacketHeader, *const u8)>, Failure> {
        if !self.is_its_process() {
            return Err("after a fork, only the parent can read an AF_XDP device".into());
        }
        if self.current.is_empty() {
            self.current.clear();
            let mut intake = locked(&self.intake);
            if intake.fill()? {
                mem::swap(&mut self.current, &mut intake.ahead);
            }
        }
        Ok(self.ready())
    }

    /// The next packet of those that the handle has already.
    #[inline(always)]
    pub fn ready(&mut self) -> Option<(PacketHeader, *const u8)> {
        let (taken, data) = self.current.next()?;
        self.delivered += 1;
        let (seconds, fraction) = self.precision.split(taken.time_ns);
        let header = PacketHeader {
            seconds,
            fraction,
            caplen: taken.len.min(self.snaplen),
            len: taken.wire_len,
        };
        Some((header, data))
    }

    /// What to wait for, for the time that the program has set and up to `limit`. `None`: there may be packets already, or the program does not wait.
    pub fn prepare_wait(&mut self, limit: Option<Duration>) -> Result<Option<Wait>, Failure> {
        let mut intake = locked(&self.intake);
        if self.nonblocking {
            return match intake.port.arm().map_err(|error| failure(&error))? {
                Wake::End => Err(ended()),
                _ => Ok(None),
            };
        }
        if let Some(watcher) = &self.watcher {
            watcher.pause();
        }
        let clock = intake.clock.clone();
        let limit = self
            .timeout
            .into_iter()
            .chain(limit)
            .min()
            .map(|timeout| clock.now() + timeout.as_nanos() as u64);
        let (port, until) = match intake.port.arm().map_err(|error| failure(&error))? {
            Wake::Fd(fd) => {
                let number = fd.as_raw_fd();
                // The port has it open for as long as the device.
                let known = self.waited.take().filter(|known| known.0 == number);
                let duplicate = match known {
                    Some((_, duplicate)) => duplicate,
                    None => Arc::new(
                        fd.try_clone_to_owned()
                            .map_err(|error| format!("can't wait for packets: {error}"))?,
                    ),
                };
                self.waited = Some((number, duplicate.clone()));
                (Some(duplicate), limit)
            }
            Wake::At(then) if clock.is_virtual() => {
                clock.sleep_until(then);
                return Ok(None);
            }
            Wake::At(then) => (None, Some(limit.map_or(then, |limit| limit.min(then)))),
            Wake::End => return Err(ended()),
            _ => return Ok(None),
        };
        Ok(Some(Wait {
            port,
            flag: self.selectable.as_ref().map(|it| it.flag.clone()),
            until,
            clock,
        }))
    }

    /// A descriptor that is readable while packets wait.
    pub fn descriptor(&mut self) -> Result<c_int, Failure> {
        if self.selectable.is_none() {
            // The kernel reports a socket as readable while it lacks a block.
            self.intake().lends = false;
            self.selectable = Some(Selectable::new().map_err(|error| error.to_string())?);
            self.show_waiting();
        }
        Ok(self.selectable.as_ref().map_or(-1, |it| it.descriptor()))
    }

    /// What sends on its interface.
    pub fn sender(&self) -> Result<Sender, Failure> {
        Sender::of(&self.name, self.socket.as_ref())
    }

    /// The socket, too, is then non-blocking, for sending.
    pub fn set_nonblocking(&mut self, is_nonblocking: bool) -> Result<(), Failure> {
        if let Some(socket) = &self.socket {
            let set = rustix::io::ioctl_fionbio(socket, is_nonblocking);
            set.map_err(|error| format!("ioctl(FIONBIO): {error}"))?;
        }
        self.nonblocking = is_nonblocking;
        Ok(())
    }

    /// Makes the descriptor readable if packets wait, and has it become readable when one arrives otherwise.
    pub fn show_waiting(&mut self) {
        let is_its_process = self.is_its_process();
        let Some(selectable) = &mut self.selectable else {
            return;
        };
        let mut intake = locked(&self.intake);
        let reports_exactly =
            self.socket.is_some() && intake.is_woken_exactly() && !self.current.is_lent();
        let (flag, clock) = (selectable.flag.clone(), intake.clock.clone());
        let wake = match self.current.is_empty() && is_its_process {
            true => intake.watch(),
            false => None,
        };
        match wake {
            None => {
                let _ = selectable.watch(None);
                flag.set();
            }
            Some(Wake::Fd(fd)) if reports_exactly && selectable.watch(Some(fd)).is_ok() => {
                flag.clear();
            }
            // Without a descriptor for that, a thread tries again.
            Some(wake) => {
                let has_thread = |watcher: &Option<Watcher>| {
                    watcher.as_ref().is_some_and(|watcher| watcher.is_here())
                };
                if !has_thread(&self.watcher) {
                    self.watcher = Watcher::start(&self.intake, &flag).ok();
                }
                let shown = match wake {
                    _ if self.watcher.is_some() => selectable.watch(None),
                    // Without a thread, the program also wakes for packets that it does not get.
                    Wake::Fd(fd) => selectable.watch(Some(fd)),
                    Wake::At(then) if !clock.is_virtual() => {
                        selectable.watch_timer(then.saturating_sub(clock.now()))
                    }
                    _ => Err(io::ErrorKind::Unsupported.into()),
                };
                match shown {
                    Ok(()) => flag.clear(),
                    Err(_) => flag.set(),
                }
                drop(intake);
                if let Some(watcher) = &self.watcher {
                    watcher.resume();
                }
            }
        }
    }
}

/// `DOCSIS`.
const DOCSIS: LinkType = LinkType(143);
