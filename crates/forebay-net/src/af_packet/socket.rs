//! The packet socket: opened, given its ring, bound; its statistics; and how it is let go.
//!
//! The order matters. A socket of protocol 0 receives nothing; the ring, the reserve and the filter
//! are in place before `bind` says which frames it wants, so nothing is received the wrong way:
//!
//! ```text
//!  socket(0) ▶ VERSION ▶ RESERVE ▶ RX_RING ▶ mmap ▶ filter ▶ bind(ETH_P_ALL) ▶ … ▶ bind(0xFFFF)
//! ```
//!
//! What it may touch: this one descriptor. The kernel's side is Documentation/networking/packet_mmap.rst
//! and net/packet/af_packet.c. Where to read next: the parent module, which decides when.

use super::config::Config;
use super::ring::{Blocks, TAG_BYTES};
use crate::filter::bpf::{Instruction, code};
use crate::link::Link;
use crate::sys::{self, Mapping};
use forebay::{Error, Result};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// `PACKET_STATISTICS` since the last time it was read, which sets it back to zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Statistics {
    /// Frames the socket was to get, the dropped ones included.
    pub packets: u64,
    /// Of these, frames for which the ring had no room.
    pub drops: u64,
    /// How often the kernel came to a block that was still ours, and had to wait.
    pub freezes: u64,
}

/// How the socket came off its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detached {
    /// The kernel has waited until no frame was in flight: the next statistics are the last.
    Clean,
    /// A frame may be on its way yet: the statistics count once they stand still.
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

impl Socket {
    /// A socket that receives nothing yet, for this interface.
    pub(super) fn open(link: &Link) -> Result<Self> {
        let fd = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(|cause| {
            let error = Error::new(&link.name, "opening a packet socket");
            let advice = match cause.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    "Run as root, or: sudo setcap cap_net_raw,cap_net_admin+ep $(command -v forebay). Where user namespaces are allowed, unshare -rn gives you a network of your own to capture from"
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

    /// Asks for the ring and maps it.
    pub(super) fn map_ring(&self, blocks: Blocks, config: &Config) -> Result<Mapping> {
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
        let request = libc::tpacket_req3 {
            tp_block_size: blocks.bytes,
            tp_block_nr: blocks.count,
            // Version 3 has no fixed frames: one "frame" a block satisfies packet_set_ring's sums.
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

    /// Lets every frame pass, but only its first bytes; with 0, none.
    pub(super) fn keep_first(&self, bytes: u32) -> Result<()> {
        self.filter(&[Instruction::new(code::RET_K, bytes)])
    }

    /// Lets pass what this program keeps, and as much of it as it says.
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

    /// Leaves out what this machine sends.
    pub(super) fn ignore_outgoing(&self) -> Result<()> {
        self.set(
            libc::PACKET_IGNORE_OUTGOING,
            &1,
            "leaving out outgoing frames",
        )
    }

    /// Asks for other machines' frames too, until the socket is closed.
    pub(super) fn promiscuous(&self) -> Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: self.index as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(
            libc::PACKET_ADD_MEMBERSHIP,
            &request,
            "switching to promiscuous mode",
        )
    }

    /// From here on frames come in.
    pub(super) fn attach(&self) -> Result<()> {
        let failed = |cause: io::Error| match cause.raw_os_error() {
            Some(libc::ENODEV) => Error::new(&self.name, "the interface is gone"),
            Some(libc::ENETDOWN) => self.is_down(),
            _ => Error::new(&self.name, "binding a packet socket").because(cause),
        };
        sys::bind_link(self.as_fd(), libc::ETH_P_ALL as u16, self.index).map_err(failed)?;
        // An interface that is down is no error of bind, but of the socket (packet_do_bind).
        self.take_error().map_or(Ok(()), |cause| Err(failed(cause)))
    }

    pub(super) fn is_down(&self) -> Error {
        Error::new(&self.name, "the interface is down")
            .advise(format!("Bring it up: ip link set {} up", self.name))
    }

    /// From here on none do. Binding to protocol 0 would keep the present one (packet_bind).
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

    /// What was counted since the last call.
    pub(super) fn statistics(&self) -> Statistics {
        let zero = libc::tpacket_stats_v3 {
            tp_packets: 0,
            tp_drops: 0,
            tp_freeze_q_cnt: 0,
        };
        // The option of our own live socket cannot fail; nothing new is the honest answer if it did.
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

    /// The socket's pending error, once: `ENETDOWN` when the interface went down (packet_notifier).
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
