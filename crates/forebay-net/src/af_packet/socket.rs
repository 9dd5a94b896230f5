//! The packet socket: opening, ring set-up, binding, statistics, and detaching.
//!
//! The order matters. A socket of protocol 0 receives nothing. The ring, the reserve and the filter are set before `bind`
//! selects the frames, so no frame is received with incomplete settings:
//!
//! ```text
//!  socket(0) ▶ VERSION ▶ RESERVE ▶ VNET_HDR ▶ RX_RING ▶ mmap ▶ filter ▶ bind(protocol) ▶ … ▶ bind(0xFFFF)
//! ```
//! Only an attached socket can join a fanout group, and until then it receives every frame. So the members of a group accept
//! nothing at first, and get their filter when all have joined.
//!
//! The module uses only this descriptor. The kernel's side is Documentation/networking/packet_mmap.rst and
//! net/packet/af_packet.c. The parent module decides when each step happens.

use super::config::AfPacketConfig;
use super::ring::{Blocks, TAG_BYTES};
use crate::ebpf::{self, KernelCounters, ProgramKind};
use crate::filter::bpf::{Instruction, code};
use crate::link::Link;
use crate::port::Fanout;
use crate::sys::{self, Mapping};
use forebay::{Error, Result};
use rustix::net::{AddressFamily, SocketType};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The counters of `PACKET_STATISTICS` since the last read. Reading resets them to zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Statistics {
    /// Frames for this socket, including dropped ones.
    pub packets: u64,
    /// Of these, frames for which the ring had no room.
    pub drops: u64,
    /// How often the kernel reached a block that was still ours, and had to wait.
    pub freezes: u64,
}

/// How the socket was detached from its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detached {
    /// The kernel has waited until no frame was in flight: the next statistics are final.
    Clean,
    /// A frame may still be in flight: the statistics are final once they no longer change.
    Settling,
}

#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    name: String,
    index: u32,
}

/// No frame has this protocol number: IEEE 802.3 reserves it.
const NO_PROTOCOL: u16 = 0xFFFF;

/// Opens a packet socket that receives nothing, and asks for the version of the ring that a capture needs. Nothing is left of it.
///
/// # Errors
/// As opening an interface: the right is missing, or the kernel lacks the support.
pub fn probe() -> Result<()> {
    let link = Link {
        name: "this system".into(),
        ..Link::default()
    };
    let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
    let socket = Socket::open(&link)?;
    socket.set(libc::PACKET_VERSION, &version, "asking for TPACKET_V3")
}

/// Puts an interface into promiscuous mode for as long as the descriptor is open. It is a socket that receives nothing.
pub(crate) fn promiscuous(link: &Link) -> Result<OwnedFd> {
    let socket = Socket::open(link)?;
    socket.promiscuous()?;
    Ok(socket.fd)
}

impl Socket {
    /// Creates a socket for this interface that receives nothing yet.
    pub(super) fn open(link: &Link) -> Result<Self> {
        let fd = sys::socket(AddressFamily::PACKET, SocketType::RAW, None).map_err(|cause| {
            let error = Error::new(&link.name, "opening a packet socket");
            let advice = match cause.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    "Run as root, or: sudo setcap cap_net_raw+ep $(command -v forebay). Where user namespaces are allowed, unshare -rn provides a separate network to capture from"
                }
                Some(libc::EAFNOSUPPORT) => "This kernel has no packet sockets (CONFIG_PACKET)",
                _ => "",
            };
            error.because(cause).advise(advice)
        })?;
        Ok(Socket {
            fd,
            name: link.name.clone(),
            index: link.index,
        })
    }

    pub(super) fn map_ring(&self, blocks: Blocks, config: &AfPacketConfig) -> Result<Mapping> {
        self.set(
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V3 as libc::c_int),
            "asking for TPACKET_V3",
        )?;
        self.set(
            libc::PACKET_RESERVE,
            &(TAG_BYTES as libc::c_int),
            "reserving room for VLAN tags",
        )?;
        if config.reports_unfinished {
            self.carry_offloads()?;
        }
        let request = libc::tpacket_req3 {
            tp_block_size: blocks.bytes,
            tp_block_nr: blocks.count,
            // Version 3 has no fixed frames: one "frame" per block satisfies the checks in packet_set_ring.
            tp_frame_size: blocks.bytes,
            tp_frame_nr: blocks.count,
            tp_retire_blk_tov: config.retire_ms(),
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        let smaller = |error: Error, cause: io::Error| match cause.raw_os_error() {
            Some(libc::ENOMEM | libc::ENOBUFS) => {
                error.because(cause).advise("Choose a smaller ring with -B")
            }
            _ => error.because(cause),
        };
        let tried = |what| {
            Error::new(
                &self.name,
                format!("{what} a ring of {} KiB", blocks.total_bytes() >> 10),
            )
        };
        sys::set_option(
            self.as_fd(),
            libc::SOL_PACKET,
            libc::PACKET_RX_RING,
            &request,
        )
        .map_err(|cause| smaller(tried("making"), cause))?;
        Mapping::of(self.as_fd(), blocks.total_bytes())
            .map_err(|cause| smaller(tried("mapping"), cause))
    }

    /// Accepts every frame, truncated to this many bytes; with 0, none.
    pub(super) fn keep_first(&self, bytes: u32) -> Result<()> {
        self.filter(&[Instruction::new(code::RET_K, bytes)])
    }

    /// Attaches this program, which selects frames and the number of bytes to keep.
    pub(super) fn filter(&self, program: &[Instruction]) -> Result<()> {
        let mut program: Vec<_> = program
            .iter()
            .map(|instruction| libc::sock_filter {
                code: instruction.code,
                jt: instruction.jump_true,
                jf: instruction.jump_false,
                k: instruction.k,
            })
            .collect();
        let program = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        sys::set_option(
            self.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            &program,
        )
        .map_err(|cause| {
            let error = Error::new(&self.name, "attaching a filter");
            match cause.raw_os_error() {
                Some(libc::ENOMEM) => error.because(cause).advise(
                    "It is too long for the kernel's limit: shorten it, or raise net.core.optmem_max",
                ),
                _ => error.because(cause),
            }
        })
    }

    /// As [`filter`](Socket::filter). Returns the count of rejected frames, if the kernel can count them: it then runs the same program
    /// as eBPF.
    pub(super) fn count_and_filter(
        &self,
        program: &[Instruction],
    ) -> Result<Option<KernelCounters>> {
        let counting = KernelCounters::new().ok().and_then(|counters| {
            let program = ebpf::counting(program, &counters)?;
            let program = ebpf::load(ProgramKind::SocketFilter, &program).ok()?;
            let (level, attach) = (libc::SOL_SOCKET, libc::SO_ATTACH_BPF);
            let attached = sys::set_option(self.as_fd(), level, attach, &program.as_raw_fd());
            attached.is_ok().then_some(counters)
        });
        match counting {
            Some(counters) => Ok(Some(counters)),
            None => self.filter(program).map(|()| None),
        }
    }

    /// Detaches the filter: every frame is accepted.
    pub(super) fn no_filter(&self) -> Result<()> {
        sys::set_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
            .map_err(|cause| Error::new(&self.name, "detaching a filter").because(cause))
    }

    /// Joins the fanout group with this number, which distributes its frames in this mode; `None`: makes a group. Returns its number.
    /// The socket has to be attached, and cannot be bound again afterwards. The group, not its members, decides whether
    /// outgoing frames are ignored, so it takes this socket's setting.
    pub(super) fn join(&self, group: Option<u16>, mode: Fanout) -> Result<u16> {
        let mode = match mode {
            Fanout::Hash => libc::PACKET_FANOUT_HASH,
            Fanout::LoadBalance => libc::PACKET_FANOUT_LB,
            Fanout::Cpu => libc::PACKET_FANOUT_CPU,
            Fanout::Queue => libc::PACKET_FANOUT_QM,
            Fanout::Rollover => libc::PACKET_FANOUT_ROLLOVER,
        };
        let unique = match group {
            Some(_) => 0,
            // Linux 4.12: the kernel chooses a number that no group of this network namespace has.
            None => libc::PACKET_FANOUT_FLAG_UNIQUEID,
        };
        let tried = "joining a fanout group";
        let ignored = sys::get_option(
            self.as_fd(),
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            0,
        )
        .map_err(|cause| Error::new(&self.name, tried).because(cause))?;
        let without = match ignored {
            0 => 0,
            _ => libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING,
        };
        let request = u32::from(group.unwrap_or(0)) | (mode | unique | without) << 16;
        let option = libc::PACKET_FANOUT;
        sys::set_option(self.as_fd(), libc::SOL_PACKET, option, &request).map_err(|cause| {
            let error = Error::new(&self.name, tried);
            match cause.raw_os_error() {
                // It is then not attached.
                Some(libc::EINVAL) if self.take_error().is_some() => self.is_down(),
                Some(libc::EINVAL) => error
                    .because(cause)
                    .advise("The interface may have gone down, or the kernel is older than 4.12, for the loopback interface than 6.0"),
                _ => error.because(cause),
            }
        })?;
        let got = sys::get_option(self.as_fd(), libc::SOL_PACKET, option, 0)
            .map_err(|cause| Error::new(&self.name, tried).because(cause))?;
        Ok((got & 0xFFFF) as u16)
    }

    /// Excludes frames that this machine sends.
    pub(super) fn ignore_outgoing(&self) -> Result<()> {
        self.set(
            libc::PACKET_IGNORE_OUTGOING,
            &1,
            "excluding outgoing frames",
        )
    }

    /// Lets a header before each frame describe which offloads are not done: of received frames, and of frames to send.
    pub(super) fn carry_offloads(&self) -> Result<()> {
        const PACKET_VNET_HDR: libc::c_int = 15; // linux/if_packet.h
        self.set(PACKET_VNET_HDR, &1, "asking for descriptions of offloads")
    }

    /// Asks for the times of the hardware, where it has taken them.
    pub(super) fn stamp_in_hardware(&self) -> Result<()> {
        const PACKET_TIMESTAMP: libc::c_int = 17; // linux/if_packet.h
        self.set(
            PACKET_TIMESTAMP,
            &(libc::SOF_TIMESTAMPING_RAW_HARDWARE as libc::c_int),
            "asking for the time stamps of the hardware",
        )
    }

    /// Enables promiscuous mode until the socket is closed.
    pub(super) fn promiscuous(&self) -> Result<()> {
        let what = "switching to promiscuous mode";
        self.set_promiscuous(libc::PACKET_ADD_MEMBERSHIP, what)
    }

    /// Takes that back.
    ///
    /// # Errors
    /// The socket did not request it, or the interface is gone.
    pub(super) fn leave_promiscuous(&self) -> Result<()> {
        let what = "switching promiscuous mode off";
        self.set_promiscuous(libc::PACKET_DROP_MEMBERSHIP, what)
    }

    fn set_promiscuous(&self, option: libc::c_int, what: &str) -> Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: self.index as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(option, &request, what)
    }

    /// Binds the socket: frames of this protocol arrive from here on.
    pub(super) fn attach(&self, protocol: u16) -> Result<()> {
        let failed = |cause: io::Error| match cause.raw_os_error() {
            Some(libc::ENODEV) => Error::new(&self.name, "the interface is gone")
                .of_kind(std::io::ErrorKind::NotConnected),
            Some(libc::ENETDOWN) => self.is_down(),
            _ => Error::new(&self.name, "binding a packet socket").because(cause),
        };
        sys::bind_link(self.as_fd(), protocol, self.index).map_err(failed)?;
        // If the interface is down, not bind but the socket reports an error (packet_do_bind).
        self.take_error().map_or(Ok(()), |cause| Err(failed(cause)))
    }

    /// Binds the socket for sending only: protocol 0 receives nothing.
    pub(super) fn attach_sender(&self) -> Result<()> {
        sys::bind_link(self.as_fd(), 0, self.index)
            .map_err(|cause| Error::new(&self.name, "binding a packet socket").because(cause))
    }

    /// Skips the queueing discipline of the interface.
    pub(super) fn bypass_qdisc(&self) -> Result<()> {
        let tried = "skipping the queueing discipline";
        self.set(libc::PACKET_QDISC_BYPASS, &1, tried)
    }

    /// Makes and maps a transmit ring of `count` slots of `bytes` each, in blocks of `block_bytes`.
    pub(super) fn map_tx_ring(&self, bytes: u32, count: u32, block_bytes: u32) -> Result<Mapping> {
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        self.set(libc::PACKET_VERSION, &version, "asking for TPACKET_V2")?;
        let total = count as usize * bytes as usize;
        let request = libc::tpacket_req {
            tp_block_size: block_bytes,
            tp_block_nr: (total / block_bytes as usize) as u32, // at most `count`
            tp_frame_size: bytes,
            tp_frame_nr: count,
        };
        let failed = |cause: io::Error| {
            let tried = format!("making a transmit ring of {} KiB", total >> 10);
            Error::new(&self.name, tried)
                .because(cause)
                .advise("Choose a smaller queue, or send without a ring")
        };
        let (fd, level) = (self.as_fd(), libc::SOL_PACKET);
        sys::set_option(fd, level, libc::PACKET_TX_RING, &request).map_err(failed)?;
        Mapping::of(fd, total).map_err(failed)
    }

    pub(super) fn is_down(&self) -> Error {
        Error::new(&self.name, "the interface is down")
            .advise(format!("Bring it up: ip link set {} up", self.name))
    }

    /// Stops reception. Binding to protocol 0 would keep the present protocol (packet_bind).
    pub(super) fn detach(&self) -> Result<Detached> {
        let Err(cause) = sys::bind_link(self.as_fd(), NO_PROTOCOL, self.index) else {
            return Ok(Detached::Clean);
        };
        match cause.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO | libc::ENETDOWN) => Ok(Detached::Settling),
            // A member of a fanout group cannot be bound again.
            Some(libc::EINVAL) => self.keep_first(0).map(|()| Detached::Settling),
            _ => Err(Error::new(&self.name, "detaching from the interface").because(cause)),
        }
    }

    /// The statistics since the last call.
    pub(super) fn statistics(&self) -> Statistics {
        let zero = libc::tpacket_stats_v3 {
            tp_packets: 0,
            tp_drops: 0,
            tp_freeze_q_cnt: 0,
        };
        // This option cannot fail on our own live socket; if it did, the statistics would be zero.
        let read = sys::get_option(
            self.as_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            zero,
        )
        .unwrap_or(zero);
        Statistics {
            packets: read.tp_packets.into(),
            drops: read.tp_drops.into(),
            freezes: read.tp_freeze_q_cnt.into(),
        }
    }

    /// Takes the socket's pending error: `ENETDOWN` when the interface went down (packet_notifier).
    pub(super) fn take_error(&self) -> Option<io::Error> {
        match sys::get_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR, 0) {
            Ok(0) => None,
            Ok(errno) => Some(io::Error::from_raw_os_error(errno)),
            Err(cause) => Some(cause),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn set<T: Copy>(&self, option: libc::c_int, value: &T, tried: &str) -> Result<()> {
        sys::set_option(self.as_fd(), libc::SOL_PACKET, option, value)
            .map_err(|cause| Error::new(&self.name, tried).because(cause))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
