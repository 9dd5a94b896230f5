//! The port: it opens program and sockets, hands out frames of all queues in time order, and notices what happens to the interface.

use super::{
    AfXdpConfig, Mode, RIGHTS, Spec,
    bpf::{self, Attach},
    config,
    memory::Memory,
    program,
    queue::{Damage, Queue, Shape, Umem},
    socket::{Binding, Losses, Socket, while_busy},
    traffic::{self, Peer},
};
use crate::{
    af_packet::{find_link, hold_promiscuous, link_type},
    link::{Link, Netlink},
    port::{
        Burst, Counts, Direction, Frame, Frames, Interface, LinkType, Outages, Port, PortInfo,
        SocketLosses, Wake,
    },
};
use forebay::{Error, Result, memory};
use rustix::{
    event::epoll,
    thread::{MembarrierCommand, membarrier},
    time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic},
};
use std::{
    fs, io,
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// AF_XDP sockets on the receive queues of one interface.
#[derive(Debug)]
pub struct AfXdp {
    reader: Reader,
    interfaces: [Interface; 1],
    index: u32,
    /// The attachment of the program; `None` once the port is stopped.
    attachment: Option<OwnedFd>,
    /// Keeps the interface in promiscuous mode.
    _promiscuous: Option<OwnedFd>,
    /// Readable when a socket or `news` is.
    events: OwnedFd,
    netlink: Netlink,
    news: Netlink,
    /// There was news of the interface, but netlink has not answered what it is.
    is_unanswered: bool,
    peer: Option<Peer>,
    mode: Mode,
    is_zero_copy: bool,
    stop_on_down: bool,
    state: State,
    empty_looks: u32,
    outages: Outages,
    /// Counters of the interface and of its peer when the capture began, and the losses of each at the last query.
    began: (u64, Option<u64>),
    interface_dropped: Option<u64>,
    peer_dropped: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live,
    /// The interface is down. The program and the sockets stay.
    Down {
        since: Instant,
    },
    /// Detached; frames in the receive rings are still being read. An interface that went away is reported after them.
    Draining {
        gone: Option<Gone>,
    },
    Ended,
}

/// Why a port ended without a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    Down,
    Deleted,
}

/// A caller that never arms does not hear netlink, so every this many empty polls the port listens.
const LOOKS_BETWEEN_CHECKS: u32 = 1024;

/// Makes a map for sockets, loads the program, and opens a socket. Nothing is left of it.
///
/// # Errors
/// As opening an interface: a right is missing, or the kernel lacks the support.
pub fn probe() -> Result<()> {
    const NAME: &str = "this system";
    let map = socket_map(NAME, 1)?;
    load(NAME, map.as_fd())?;
    Socket::open(NAME).map(|_| ())
}

fn socket_map(name: &str, queues: u32) -> Result<OwnedFd> {
    bpf::socket_map(queues).map_err(|cause| {
        let error = Error::new(name, "making a map for an XDP program");
        let advice = match cause.raw_os_error() {
            Some(libc::EPERM) => RIGHTS,
            _ => "",
        };
        error.because(cause).advise(advice)
    })
}

/// Loads the program, and returns whether it stamps frames. Linux before 6.1 has no clock for that.
fn load(name: &str, map: BorrowedFd<'_>) -> Result<(OwnedFd, bool)> {
    let load = |stamps| bpf::load(&program::redirect(map, stamps)).map(|it| (it, stamps));
    let loaded = load(true).or_else(|cause| match cause.raw_os_error() {
        Some(libc::EPERM) => Err(cause),
        _ => load(false),
    });
    loaded.map_err(|cause| {
        let error = Error::new(name, "loading an XDP program");
        let advice = match cause.raw_os_error() {
            Some(libc::EPERM) => RIGHTS,
            _ => "",
        };
        error.because(cause).advise(advice)
    })
}

impl AfXdp {
    /// Opens an interface and takes its frames from here on.
    ///
    /// # Errors
    /// Each error advises what to do:
    /// - The interface does not exist, is down, or has no Ethernet frames, or frames that are too long.
    /// - This machine uses it, and [`AfXdpConfig::take_traffic`] is not set.
    /// - A privilege is missing, or the limit for locked memory is too low.
    /// - Another XDP program is attached, another program has a queue, or there is no such queue.
    /// - The driver or the kernel lacks the support.
    pub fn open(spec: &Spec, config: &AfXdpConfig) -> Result<Self> {
        let plan = Plan::new(spec)?;
        let queues = plan.queues.len() as u32;
        let shape = config.shape(&plan.link, queues, plan.hardware_ring)?;
        config::fits_memory(&plan.link.name, shape, queues, memory::available())?;
        plan.open(config, shape, &mut |stamps, to| {
            let memory = Arc::new(Memory::new(shape, 1, false)?);
            let (queue, name) = (0, to.name);
            Socket::open(name)?.bind(
                Umem {
                    memory,
                    queue,
                    stamps,
                },
                to,
            )
        })
    }
}

/// What is to be opened, before anything is.
pub(super) struct Plan<'a> {
    spec: &'a Spec,
    netlink: Netlink,
    pub link: Link,
    /// Its receive queues to open.
    pub queues: Range<u32>,
    /// The number of frames of the hardware's receive ring, if known.
    pub hardware_ring: Option<u32>,
    /// Do not ask for zero-copy.
    pub copies: bool,
}

impl<'a> Plan<'a> {
    /// # Errors
    /// There is no such interface or queue, or it has no Ethernet frames.
    pub(super) fn new(spec: &'a Spec) -> Result<Self> {
        let name = &spec.interface[..];
        let netlink = Netlink::open()?;
        let link = find_link(&netlink.links()?, name)?.clone();
        if link_type(&link)? != LinkType::ETHERNET {
            return Err(Error::new(name, "AF_XDP takes Ethernet frames only")
                .advise(format!("Use -i packet:{name}")));
        }
        let device = link.device()?;
        let present = device.queues.map(|it| it.receive);
        let count = present.or_else(|| queues_in_use(&link)).unwrap_or(1).max(1);
        let queues = match (spec.queue, count) {
            (Some(queue), count) if queue >= count => {
                return Err(Error::invalid(name, format!("there is no queue {queue}"))
                    .advise(format!("It has {count}, numbered from 0")));
            }
            (Some(queue), _) => queue..queue + 1,
            (None, count) => 0..count,
        };
        let hardware_ring = device.rings.map(|rings| match rings.receive {
            0 => rings.max_receive,
            present => present,
        });
        Ok(Plan {
            copies: spec.copies,
            spec,
            netlink,
            link,
            queues,
            hardware_ring,
        })
    }

    /// Attaches the program, and opens each queue with `bind`, which gets whether the program stamps frames.
    pub(super) fn open(
        self,
        config: &AfXdpConfig,
        shape: Shape,
        bind: &mut dyn FnMut(bool, Binding<'_>) -> Result<Queue>,
    ) -> Result<AfXdp> {
        let Plan {
            spec,
            netlink,
            link,
            queues,
            copies,
            ..
        } = self;
        let name = &spec.interface[..];
        if !link.is_up() {
            return Err(Error::new(name, "the interface is down")
                .advise(format!("Bring it up: ip link set {name} up")));
        }
        if !config.take_traffic {
            traffic::refuse_used(&link, &netlink)?;
        }
        let map = socket_map(name, queues.end)?;
        let (program, stamps) = load(name, map.as_fd())?;
        let news = Netlink::listen()?;
        let (attachment, mode) = attach(program.as_fd(), &link, spec.mode)?;
        let binding = |queue| Binding {
            name,
            index: link.index,
            queue,
            // What the hardware would write is not what generic mode reads.
            copies: copies || mode == Mode::Generic,
            busy_poll: spec.busy_poll,
        };
        let mut opened = Vec::new();
        for queue in queues.clone() {
            opened.push(bind(stamps, binding(queue))?);
        }
        let is_zero_copy = opened.iter().all(|queue| queue.socket.is_zero_copy());
        let events = wait_for(
            opened
                .iter()
                .map(|queue| queue.socket.as_fd())
                .chain([news.as_fd()]),
        )
        .map_err(|cause| Error::new(name, "making an epoll instance").because(cause))?;
        let promiscuous = config.promiscuous && !link.is_loopback();
        let promiscuous = promiscuous.then(|| hold_promiscuous(&link)).transpose()?;
        let peer = Peer::of(&link);
        let fresh = netlink.link(link.index)?.unwrap_or_else(|| link.clone());
        let began = (fresh.dropped, peer.and_then(|peer| peer.unsent(&netlink)));
        for (number, queue) in queues.zip(&opened) {
            bpf::set_socket(map.as_fd(), number, queue.socket.as_fd()).map_err(|cause| {
                Error::new(
                    name,
                    format!("giving frames of queue {number} to its socket"),
                )
                .because(cause)
            })?;
        }
        let description = format!(
            "AF_XDP {mode}, {}, {} of {} frames",
            if is_zero_copy { "zero-copy" } else { "copied" },
            match opened.len() {
                1 => "1 queue".into(),
                many => format!("{many} queues"),
            },
            shape.slots
        );
        let snaplen = config.snaplen.min(shape.chunk_bytes);
        Ok(AfXdp {
            reader: Reader {
                queues: opened,
                last: None,
                left: 0,
                stamps,
                snaplen,
                polls_busily: spec.busy_poll.is_some(),
                is_zero_copy,
                tai_ahead_ns: 0,
                now_ns: 0,
                losses: Losses::default(),
                losses_reported: 0,
                gap: 0,
                last_gap: 0,
                damage: None,
            },
            interfaces: [Interface {
                name: name.into(),
                description,
                link: LinkType::ETHERNET,
                snaplen,
                ..Interface::default()
            }],
            index: link.index,
            attachment: Some(attachment),
            _promiscuous: promiscuous,
            events,
            netlink,
            news,
            is_unanswered: false,
            peer,
            mode,
            is_zero_copy,
            stop_on_down: config.stop_on_down,
            state: State::Live,
            empty_looks: 0,
            outages: Outages::default(),
            began,
            interface_dropped: Some(0),
            peer_dropped: None,
        })
    }
}

impl AfXdp {
    fn name(&self) -> &str {
        &self.interfaces[0].name
    }

    /// Detaches the program, and waits until no processor runs it any more.
    fn detach(&mut self, gone: Option<Gone>) {
        self.end_outage();
        drop(self.attachment.take());
        // The kernel waits until each processor has left the code that runs the program and fills the rings.
        if membarrier(MembarrierCommand::Global).is_err() {
            thread::sleep(Duration::from_millis(20));
        }
        // From here on, both interfaces lose frames for other reasons.
        self.read_interfaces();
        self.state = State::Draining { gone };
    }

    /// Reads what the interface and its peer have lost. If one does not report it now, its earlier count stays.
    fn read_interfaces(&mut self) {
        if let Ok(Some(link)) = self.netlink.link(self.index) {
            self.interface_dropped = Some(link.dropped.saturating_sub(self.began.0));
        }
        let unsent = self.peer.and_then(|peer| peer.unsent(&self.netlink));
        if let Some((now, began)) = unsent.zip(self.began.1) {
            self.peer_dropped = Some(now.saturating_sub(began));
        }
    }

    /// Finds out whether the interface went down, is up again, or was deleted, if netlink has news.
    fn hear(&mut self) {
        match self.news.heard() {
            Ok(links)
                if !self.is_unanswered && links.iter().all(|link| link.index != self.index) =>
            {
                return;
            }
            // News of this interface, or some that were lost.
            Ok(_) | Err(_) => {}
        }
        let answer = self.netlink.link(self.index);
        self.is_unanswered = answer.is_err();
        let Ok(link) = answer else {
            return;
        };
        match (link.map(|link| link.is_up()), self.state) {
            (None, _) => self.detach(Some(Gone::Deleted)),
            (Some(false), State::Live) if self.stop_on_down => self.detach(Some(Gone::Down)),
            (Some(false), State::Live) => {
                self.outages.count += 1;
                self.outages.last = Duration::ZERO;
                let since = Instant::now();
                self.state = State::Down { since };
            }
            (Some(true), State::Down { .. }) => self.end_outage(),
            (Some(_), _) => {}
        }
    }

    /// Ends the present outage, if there is one. The port is live again.
    fn end_outage(&mut self) {
        if let State::Down { since } = self.state {
            self.outages.last = since.elapsed();
            self.outages.total += self.outages.last;
            self.state = State::Live;
        }
    }

    /// Damage ends the port: a kernel that writes it is not trusted with the next frame.
    fn check_damage(&mut self) -> Result<()> {
        let Some((queue, damage)) = self.reader.damage.take() else {
            return Ok(());
        };
        self.detach(None);
        self.state = State::Ended;
        let text = format!("the kernel's rings of socket {queue} are damaged: {damage}");
        Err(Error::new(self.name(), text))
    }

    /// Ends a drain whose frames are all handed out.
    fn finish(&mut self, gone: Option<Gone>) -> Result<Wake<'_>> {
        self.reader.read_losses();
        self.state = State::Ended;
        let what = match gone {
            None => return Ok(Wake::End),
            Some(Gone::Down) => "the interface went down",
            Some(Gone::Deleted) => "the interface is gone",
        };
        Err(Error::new(self.name(), what))
    }
}

/// The receive queues in use, if the driver does not report them. `None`: /sys belongs to another network namespace.
fn queues_in_use(link: &Link) -> Option<u32> {
    let folder = Path::new("/sys/class/net").join(&link.name);
    let index = fs::read_to_string(folder.join("ifindex")).ok()?;
    if index.trim().parse() != Ok(link.index) {
        return None;
    }
    let queues = fs::read_dir(folder.join("queues")).ok()?.flatten();
    let receive = queues.filter(|it| it.file_name().as_encoded_bytes().starts_with(b"rx-"));
    Some(receive.count() as u32)
}

/// Attaches the program: to the driver if it can, otherwise before the stack.
fn attach(program: BorrowedFd<'_>, link: &Link, wanted: Option<Mode>) -> Result<(OwnedFd, Mode)> {
    let try_mode = |mode| {
        let how = match mode {
            Mode::Native => Attach::Native,
            Mode::Generic => Attach::Generic,
        };
        while_busy(|| bpf::attach(program, link.index, how)).map(|link| (link, mode))
    };
    let attached = match wanted {
        Some(mode) => try_mode(mode),
        None => try_mode(Mode::Native).or_else(|cause| match is_taken(&cause) {
            true => Err(cause),
            false => try_mode(Mode::Generic),
        }),
    };
    attached.map_err(|cause| {
        let name = &link.name;
        let error = Error::new(name, "attaching an XDP program");
        let advice = match cause.raw_os_error() {
            Some(_) if is_taken(&cause) => format!(
                "Another one is attached, and a frame can be taken only once: bpftool net shows it, and ip link set {name} xdp off removes it if no program holds it"
            ),
            Some(libc::EPERM) => RIGHTS.into(),
            Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ERANGE) if wanted == Some(Mode::Native) => {
                format!("The driver cannot: leave mode=native out, or use -i packet:{name}")
            }
            Some(libc::EINVAL) => "This kernel cannot attach it: Linux 5.9 or later is needed".into(),
            _ => String::new(),
        };
        error.because(cause).advise(advice)
    })
}

/// Whether another program is attached: in this mode, or in the other one.
fn is_taken(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

/// A descriptor that is readable when one of these is.
fn wait_for<'a>(sources: impl Iterator<Item = BorrowedFd<'a>>) -> rustix::io::Result<OwnedFd> {
    let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for source in sources {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&events, source, data, epoll::EventFlags::IN)?;
    }
    Ok(events)
}

impl AsFd for AfXdp {
    /// An epoll instance that is readable when there may be frames.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

impl Port for AfXdp {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        let found = self.reader.look(budget);
        self.check_damage()?;
        if !found {
            self.reader.kick();
            self.empty_looks = self.empty_looks.wrapping_add(1);
            if self.empty_looks.is_multiple_of(LOOKS_BETWEEN_CHECKS) {
                self.arm()?;
            }
        }
        Ok(Burst::new(&mut self.reader))
    }

    fn arm(&mut self) -> Result<Wake<'_>> {
        let found = self.reader.look(0);
        self.check_damage()?;
        if found {
            return Ok(Wake::Ready);
        }
        if matches!(self.state, State::Live | State::Down { .. }) {
            self.hear();
            return match self.state {
                // Frames may have arrived before it went away.
                State::Draining { .. } => Ok(Wake::Ready),
                _ => Ok(Wake::Fd(self.events.as_fd())),
            };
        }
        match self.state {
            State::Draining { gone } => self.finish(gone),
            _ => Ok(Wake::End),
        }
    }

    fn disarm(&mut self) {}

    /// Detaches the program from the interface, whose frames go to the stack again. Blocks until no processor runs the program, some
    /// milliseconds.
    fn stop(&mut self) -> Result<()> {
        if matches!(self.state, State::Live | State::Down { .. }) {
            self.detach(None);
        }
        self.reader.read_losses();
        Ok(())
    }

    fn counts(&mut self) -> Counts {
        if self.state != State::Ended {
            self.reader.read_losses();
        }
        if matches!(self.state, State::Live | State::Down { .. }) {
            self.read_interfaces();
        }
        let dropped = self.reader.losses.total();
        let arrived: u64 = self.reader.queues.iter().map(Queue::arrived).sum();
        Counts {
            received: arrived + dropped,
            dropped: Some(dropped),
            interface_dropped: self.interface_dropped,
            filtered: Some(0),
        }
    }

    fn socket_losses(&self) -> SocketLosses {
        let losses = &self.reader.losses;
        SocketLosses {
            rx_ring: losses.ring_full,
            fill_ring: losses.no_chunk,
            peer: match self.peer {
                Some(_) => self.peer_dropped,
                None => Some(0),
            },
        }
    }

    fn outages(&self) -> Outages {
        let State::Down { since } = self.state else {
            return self.outages;
        };
        let last = since.elapsed();
        Outages {
            total: self.outages.total + last,
            last,
            is_down: true,
            ..self.outages
        }
    }

    fn ring_fill(&self) -> Option<f64> {
        let levels = self.reader.queues.iter().map(Queue::fill_level);
        levels.reduce(f64::max)
    }

    fn info(&self) -> PortInfo {
        let shape = |queue: &Queue| queue.shape();
        PortInfo {
            backend: "af_xdp",
            copy: match (self.mode, self.is_zero_copy) {
                (Mode::Native, true) => "native, zero-copy",
                (Mode::Native, false) => "native, copied",
                (Mode::Generic, _) => "generic, copied",
            },
            ring_bytes: self
                .reader
                .queues
                .iter()
                .map(|it| shape(it).bytes() as u64)
                .sum(),
            ring_frames: self
                .reader
                .queues
                .iter()
                .map(|it| u64::from(shape(it).slots))
                .sum(),
            timestamps: match self.reader.stamps {
                true => "kernel (XDP program)",
                false => "time of reading",
            },
            ..PortInfo::default()
        }
    }
}

/// The part of a port that a burst borrows.
#[derive(Debug)]
struct Reader {
    queues: Vec<Queue>,
    /// The queue of the frame handed out last.
    last: Option<usize>,
    /// Frames that this burst may still hand out.
    left: usize,
    /// The program stamps frames.
    stamps: bool,
    snaplen: u32,
    polls_busily: bool,
    is_zero_copy: bool,
    /// What the program's clock, which has no leap seconds, is ahead of the time of day; and the time of this burst.
    tai_ahead_ns: u64,
    now_ns: u64,
    /// Losses of all sockets together, and those that a frame has reported.
    losses: Losses,
    losses_reported: u64,
    /// Frames lost before the next frame, and before the one handed out last.
    gap: u64,
    last_gap: u64,
    damage: Option<(usize, Damage)>,
}

impl Reader {
    /// Ends a burst, even if it was forgotten instead of dropped.
    fn settle(&mut self) {
        self.queues.iter_mut().for_each(Queue::release);
        (self.last, self.left) = (None, 0);
    }

    /// Begins a burst of up to `budget` frames. Returns whether a queue has frames.
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
            self.read_clocks();
        }
        if found {
            self.kick_empty();
        }
        found
    }

    /// Calls the kernel for queues that wait for it while others have frames.
    fn kick_empty(&self) {
        let waits = |queue: &&Queue| !queue.has_frames() && queue.needs_wakeup();
        let waiting = self.queues.iter().filter(waits);
        waiting.for_each(|queue| queue.socket.kick());
    }

    fn read_clocks(&mut self) {
        let ns = |now: Timespec| now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let real = ns(clock_gettime(ClockId::Realtime));
        let tai = clock_gettime_dynamic(DynamicClockId::Tai).map_or(real, ns);
        // Whole seconds, and the clocks were read one after the other.
        let seconds = (tai.saturating_sub(real) + 500_000_000) / 1_000_000_000;
        (self.tai_ahead_ns, self.now_ns) = (seconds * 1_000_000_000, real);
    }

    /// Calls the kernel if it waits for that.
    fn kick(&self) {
        let waits = |queue: &&Queue| self.polls_busily || queue.needs_wakeup();
        let waiting = self.queues.iter().filter(waits);
        waiting.for_each(|queue| queue.socket.kick());
    }

    /// Adds up what all sockets have lost. If one does not report it now, the earlier sums stay.
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

/// Where the program could not stamp a frame, other bytes may be before it, such as data of the hardware. The clock may have been set.
fn plausible(stamp_ns: u64, now_ns: u64) -> u64 {
    const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;
    match stamp_ns.abs_diff(now_ns) < DAY_NS {
        true => stamp_ns,
        false => now_ns,
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
            0 => self.now_ns,
            stamp => plausible(stamp.saturating_sub(self.tai_ahead_ns), self.now_ns),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_counted_only_for_the_same_interface() {
        let link = |index| Link {
            name: "lo".into(),
            index,
            ..Link::default()
        };
        // Without /sys nothing is known.
        let known = fs::read_to_string("/sys/class/net/lo/ifindex").ok();
        let index = known.and_then(|it| it.trim().parse().ok());
        assert_eq!(
            index.and_then(|it| queues_in_use(&link(it))),
            index.map(|_| 1)
        );
        assert_eq!(queues_in_use(&link(u32::MAX)), None);
    }

    #[test]
    fn bytes_that_are_no_time_of_today_are_not_taken_for_a_stamp() {
        const NOW: u64 = 1_800_000_000_000_000_000;
        assert_eq!(plausible(NOW - 5_000_000_000, NOW), NOW - 5_000_000_000);
        for other in [1, 0xdead_beef, NOW / 2, NOW * 2, u64::MAX] {
            assert_eq!(plausible(other, NOW), NOW);
        }
    }
}
