//! Opens a port: checks what there is, loads and attaches the program, and binds a socket to each queue.

use super::{
    super::{
        AfXdpConfig, Mode, RIGHTS, Spec, config,
        memory::{Memory, Shape, Umem},
        program,
        queue::Queue,
        socket::{Binding, Losses, Socket, while_busy},
        traffic::{self, Peer},
    },
    AfXdp, State,
    clocks::Clocks,
    copies::Copies,
    reader::{Hold, Reader},
    source::Source,
};
use crate::{
    af_packet::{find_link, hold_promiscuous, link_type},
    ebpf::{self, Attach, ProgramKind, RingBuffer},
    link::{Link, Netlink},
    port::{Interface, LinkType, Outages, PortInfo},
    units,
};
use forebay::{Error, Result, error::Code, memory};
use rustix::event::epoll;
use std::{
    fs, io,
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::Arc,
};

/// Makes a map for sockets, loads the program, and opens a socket. Nothing is left of it.
///
/// # Errors
/// As opening an interface: a right is missing, or the kernel lacks the support.
pub fn probe() -> Result<()> {
    const NAME: &str = "this system";
    let map = socket_map(NAME, 1)?;
    load(NAME, map.as_fd())?;
    Socket::open(NAME, RIGHTS).map(|_| ())
}

fn socket_map(name: &str, queues: u32) -> Result<OwnedFd> {
    ebpf::socket_map(queues).map_err(|cause| refused(name, "making a map for", cause))
}

/// The error of what was tried with an XDP program.
fn refused(name: &str, tried: &str, cause: io::Error) -> Error {
    let error = Error::new(name, format!("{tried} an XDP program"));
    let advice = match cause.raw_os_error() {
        Some(libc::EPERM) => RIGHTS,
        _ => "",
    };
    error.because(cause).advise(advice)
}

/// Loads the program, and returns whether it stamps frames. Linux before 6.1 has no clock for that.
fn load(name: &str, map: BorrowedFd<'_>) -> Result<(OwnedFd, bool)> {
    let load = |stamps| {
        let kind = ProgramKind::Xdp { fragments: false };
        ebpf::load(kind, &program::redirect(map, stamps)).map(|it| (it, stamps))
    };
    let loaded = load(true).or_else(|cause| match cause.raw_os_error() {
        Some(libc::EPERM) => Err(cause),
        _ => load(false),
    });
    loaded.map_err(|cause| refused(name, "loading", cause))
}

impl AfXdp {
    /// Opens an interface and takes its frames, or copies of them, from here on.
    ///
    /// # Errors
    /// Each error advises what to do:
    /// - The interface does not exist, is down, or has no Ethernet frames, or frames that are too long.
    /// - This machine uses it, and neither [`Spec::passes`] nor [`AfXdpConfig::take_traffic`] is set.
    /// - A privilege is missing, or the limit for locked memory is too low.
    /// - Another XDP program is attached, another program has a queue, or there is no such queue.
    /// - The driver or the kernel lacks the support.
    pub fn open(spec: &Spec, config: &AfXdpConfig) -> Result<Self> {
        let plan = Plan::new(spec)?;
        if spec.passes {
            return plan.open_passing(config);
        }
        let queues = plan.queues.len() as u32;
        let shape = config.shape(&plan.link, queues, plan.hardware_ring)?;
        config::fits_memory(&plan.link.name, shape, queues, memory::available())?;
        plan.open(config, shape, &mut |stamps, to| {
            let memory = Arc::new(Memory::new(shape, 1, false)?);
            let (queue, name) = (0, to.name);
            Queue::bind(
                Socket::open(name, RIGHTS)?,
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
pub(in crate::af_xdp) struct Plan<'a> {
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
    pub(in crate::af_xdp) fn new(spec: &'a Spec) -> Result<Self> {
        let name = &spec.interface[..];
        let netlink = Netlink::open()?;
        let link = find_link(&netlink.links()?, name)?.clone();
        if link_type(&link)? != LinkType::ETHERNET {
            return Err(
                Error::coded(Code::Unsupported, name, "AF_XDP takes Ethernet frames only")
                    .advise(format!("Use -i {name}")),
            );
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
    pub(in crate::af_xdp) fn open(
        self,
        config: &AfXdpConfig,
        shape: Shape,
        bind: &mut dyn FnMut(bool, Binding<'_>) -> Result<Queue>,
    ) -> Result<AfXdp> {
        let (spec, name) = (self.spec, &self.spec.interface[..]);
        self.refuse_down()?;
        if !config.take_traffic {
            traffic::refuse_used(&self.link, &self.netlink)?;
        }
        let map = socket_map(name, self.queues.end)?;
        let (program, stamps) = load(name, map.as_fd())?;
        let attached = self.attach(program.as_fd())?;
        let mode = attached.mode;
        let binding = |queue| Binding {
            name,
            index: self.link.index,
            queue,
            // What the hardware would write is not what generic mode reads.
            copies: self.copies || mode == Mode::Generic,
            busy_poll: spec.busy_poll,
        };
        let mut queues = Vec::new();
        for queue in self.queues.clone() {
            queues.push(bind(stamps, binding(queue))?);
        }
        let is_zero_copy = queues.iter().all(|queue| queue.socket.is_zero_copy());
        let sockets: Vec<_> = queues.iter().map(|queue| queue.socket.clone()).collect();
        let description = format!(
            "AF_XDP {mode}, {}, {} of {} frames",
            if is_zero_copy { "zero-copy" } else { "copied" },
            match queues.len() {
                1 => "1 queue".into(),
                many => format!("{many} queues"),
            },
            shape.slots
        );
        let copy = match (mode, is_zero_copy) {
            (Mode::Native, true) => "native, zero-copy",
            (Mode::Native, false) => "native, copied",
            (Mode::Generic, _) => "generic, copied",
        };
        let snaplen = config.snaplen.min(shape.chunk_bytes);
        let interface = Interface {
            name: name.into(),
            description,
            link: LinkType::ETHERNET,
            snaplen,
            ..Interface::default()
        };
        let reader = Reader {
            queues,
            last: None,
            left: 0,
            stamps,
            snaplen,
            polls_busily: spec.busy_poll.is_some(),
            is_zero_copy,
            clocks: Clocks::default(),
            losses: Losses::default(),
            losses_reported: 0,
            gap: 0,
            last_gap: 0,
            damage: None,
            hold: Hold::new(config, stamps && spec.busy_poll.is_none(), shape.slots),
        };
        let numbers = self.queues.clone();
        let fds: Vec<_> = sockets.iter().map(|it| it.as_fd()).collect();
        let port = self.port(config, attached, interface, copy, Box::new(reader), &fds)?;
        for (number, socket) in numbers.zip(&fds) {
            ebpf::set_socket(map.as_fd(), number, *socket).map_err(|cause| {
                let tried = format!("giving frames of queue {number} to its socket");
                Error::new(name, tried).because(cause)
            })?;
        }
        Ok(port)
    }

    /// Attaches the program that copies frames and lets them pass.
    ///
    /// # Errors
    /// As [`open`](Plan::open), but the machine may use the interface.
    fn open_passing(self, config: &AfXdpConfig) -> Result<AfXdp> {
        let (spec, name) = (self.spec, &self.spec.interface[..]);
        self.refuse_down()?;
        // Its readers sleep until times of this clock, and frames arrive in those of the machine's.
        PortInfo::default().runs_on(&config.clock, name)?;
        let bytes = config.buffer_bytes(name)?;
        let failed = |cause| refused(name, "making a ring buffer for", cause);
        let ring = RingBuffer::new(bytes).map_err(failed)?;
        let snaplen = config.snaplen.min(program::MAX_KEPT);
        let copies = program::copy(&ring, snaplen, spec.queue);
        let kind = ProgramKind::Xdp { fragments: true };
        let program = ebpf::load(kind, &copies).map_err(|cause| {
            let is_old = cause.raw_os_error() == Some(libc::EINVAL);
            let error = refused(name, "loading", cause);
            match is_old {
                true => error.advise(format!("pass=yes needs Linux 6.1: use -i {name}")),
                false => error,
            }
        })?;
        let map = ring.as_fd().try_clone_to_owned();
        let map = map.map_err(|cause| refused(name, "watching the ring buffer of", cause))?;
        let attached = self.attach(program.as_fd())?;
        let interface = Interface {
            name: name.into(),
            description: format!(
                "XDP {}, copied and passed on, ring of {}",
                attached.mode,
                units::binary(u64::from(bytes))
            ),
            link: LinkType::ETHERNET,
            snaplen,
            ..Interface::default()
        };
        let copy = match attached.mode {
            Mode::Native => "native, copied",
            Mode::Generic => "generic, copied",
        };
        let source = Box::new(Copies::new(ring, config.clock.clone()));
        self.port(config, attached, interface, copy, source, &[map.as_fd()])
    }

    fn refuse_down(&self) -> Result<()> {
        let name = &self.link.name;
        match self.link.is_up() {
            true => Ok(()),
            false => Err(Error::new(name, "the interface is down")
                .advise(format!("Bring it up: ip link set {name} up"))),
        }
    }

    fn attach(&self, program: BorrowedFd<'_>) -> Result<Attached> {
        let news = Netlink::listen()?;
        let (attachment, mode) = attach(program, &self.link, self.spec.mode)?;
        Ok(Attached {
            attachment,
            mode,
            news,
        })
    }

    /// The port that reads `source`, which has frames when one of `fds` is readable.
    fn port(
        self,
        config: &AfXdpConfig,
        attached: Attached,
        interface: Interface,
        copy: &'static str,
        source: Box<dyn Source>,
        fds: &[BorrowedFd<'_>],
    ) -> Result<AfXdp> {
        let (link, netlink, name) = (self.link, self.netlink, &self.spec.interface[..]);
        let Attached {
            attachment, news, ..
        } = attached;
        let events = wait_for(fds.iter().copied().chain([news.as_fd()]))
            .map_err(|cause| Error::new(name, "making an epoll instance").because(cause))?;
        let promiscuous = config.promiscuous && !link.is_loopback();
        let promiscuous = promiscuous.then(|| hold_promiscuous(&link)).transpose()?;
        let peer = Peer::of(&link);
        let fresh = netlink.link(link.index)?.unwrap_or_else(|| link.clone());
        let began = (fresh.dropped, peer.and_then(|peer| peer.unsent(&netlink)));
        Ok(AfXdp {
            source,
            interfaces: [interface],
            index: link.index,
            attachment: Some(attachment),
            _promiscuous: promiscuous,
            events,
            netlink,
            news,
            is_unanswered: false,
            peer,
            copy,
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

/// The program on its interface.
struct Attached {
    attachment: OwnedFd,
    mode: Mode,
    /// Hears what happens to the interface.
    news: Netlink,
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
        while_busy(|| ebpf::attach(program, link.index, how)).map(|link| (link, mode))
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
                "Another one is attached, and an interface can have only one: bpftool net shows it, and ip link set {name} xdp off removes it if no program holds it"
            ),
            Some(libc::EPERM) => RIGHTS.into(),
            Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ERANGE) if wanted == Some(Mode::Native) => {
                format!("The driver cannot: leave mode=native out, or use -i {name}")
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
}
