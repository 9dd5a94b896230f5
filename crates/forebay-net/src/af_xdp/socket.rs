//! The AF_XDP socket of one queue: memory, rings, binding, statistics.
//!
//! ```text
//!  socket ▶ UMEM_REG ▶ FILL_RING, COMPLETION_RING ▶ RX_RING ▶ mmap ▶ chunks into the fill ring ▶ bind ▶ (the program's map)
//! ```
//!
//! The kernel's side is Documentation/networking/af_xdp.rst and net/xdp/xsk.c.

use super::rings::Ring;
use crate::sys;
use forebay::{Error, Result};
use rustix::net::{
    self, AddressFamily, SocketType, sockopt,
    xdp::{
        SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XdpMmapOffsets,
        XdpOptionsFlags, XdpRingOffset,
    },
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
    time::{Duration, Instant},
};

/// The kernel releases a queue some time after the socket that had it was closed.
const PATIENCE: Duration = Duration::from_secs(1);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Slots of a ring that every socket must have, and that stays empty: completions if nothing is sent, chunks if nothing is received.
pub(super) const UNUSED: u32 = 2;

/// Tries again for a short time while the kernel answers that something is busy.
pub(super) fn while_busy<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(cause)
                if cause.raw_os_error() == Some(libc::EBUSY) && begun.elapsed() < PATIENCE =>
            {
                thread::sleep(BETWEEN_TRIES);
            }
            ended => return ended,
        }
    }
}

/// What a queue is bound to, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding<'a> {
    pub name: &'a str,
    pub index: u32,
    pub queue: u32,
    /// Do not ask for zero-copy.
    pub copies: bool,
    pub busy_poll: Option<Duration>,
}

impl<'a> Binding<'a> {
    pub(super) fn failed(self, what: &str) -> impl FnOnce(io::Error) -> Error + use<'a> {
        let error = Error::new(self.name, format!("{what} of queue {}", self.queue));
        move |cause| error.because(cause)
    }
}

/// The transmit ring and the completion ring.
pub(super) type SendRings = (Ring<libc::xdp_desc>, Ring<u64>);

#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    name: String,
}

/// Frames that a socket lost, from `XDP_STATISTICS`: 64-bit counters since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// The receive ring had no vacant slot.
    pub ring_full: u64,
    /// The fill ring had no chunk.
    pub no_chunk: u64,
    /// Longer than a chunk, or for another reason.
    pub other: u64,
}

impl Losses {
    pub(super) fn total(&self) -> u64 {
        self.ring_full + self.no_chunk + self.other
    }
}

impl Socket {
    /// Opens a socket that is bound to nothing. `rights`: how to get the rights that it needs.
    pub(super) fn open(name: &str, rights: &'static str) -> Result<Self> {
        let fd = sys::socket(AddressFamily::XDP, SocketType::RAW, None).map_err(|cause| {
            let error = Error::new(name, "opening an AF_XDP socket");
            let advice = match cause.raw_os_error() {
                Some(libc::EPERM) => rights,
                Some(libc::EAFNOSUPPORT) => {
                    "This kernel has no AF_XDP (CONFIG_XDP_SOCKETS); -i packet:NAME captures without it"
                }
                _ => "",
            };
            error.because(cause).advise(advice)
        })?;
        Ok(Socket {
            fd,
            name: name.into(),
        })
    }

    /// Registers the memory, makes and maps the rings for sending up to `slots` frames, and binds the socket. `chunks`: the number of
    /// addresses that may be on their way at the same time.
    pub(super) fn bind_sender(
        &self,
        memory: &libc::xdp_umem_reg,
        slots: u32,
        chunks: u32,
        to: Binding<'_>,
    ) -> Result<SendRings> {
        self.register(memory, to)?;
        self.make_rings(
            &[
                (libc::XDP_UMEM_FILL_RING, UNUSED),
                (libc::XDP_UMEM_COMPLETION_RING, chunks),
                (libc::XDP_TX_RING, slots),
            ],
            to,
        )?;
        let rings = self.map_sending(slots, chunks, to)?;
        self.attach(None, to)?;
        Ok(rings)
    }

    pub(super) fn map_sending(
        &self,
        slots: u32,
        completions: u32,
        to: Binding<'_>,
    ) -> Result<SendRings> {
        let offsets = self.offsets(to)?;
        let at = libc::XDP_PGOFF_TX_RING as u64;
        let sent = self.map(offsets.tx, slots, at, to)?;
        let at = libc::XDP_UMEM_PGOFF_COMPLETION_RING;
        let completed = self.map(offsets.cr, completions, at, to)?;
        // Linux 6.18 and later: how many frames one call sends. Otherwise 32, and more calls are made.
        const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
        let _ = self.set(XDP_MAX_TX_SKB_BUDGET, &slots);
        Ok((sent, completed))
    }

    pub(super) fn register(&self, memory: &libc::xdp_umem_reg, to: Binding<'_>) -> Result<()> {
        self.set(libc::XDP_UMEM_REG, memory).map_err(|cause| {
            let advice = match cause.raw_os_error() {
                Some(libc::ENOBUFS | libc::ENOMEM) => {
                    "The memory must be locked: raise the limit (ulimit -l), add cap_ipc_lock, or choose a smaller one with -B"
                }
                _ => "",
            };
            let kib = memory.len >> 10;
            let tried = format!("registering {kib} KiB of memory for queue {}", to.queue);
            Error::new(&self.name, tried).because(cause).advise(advice)
        })
    }

    pub(super) fn make_rings(&self, rings: &[(libc::c_int, u32)], to: Binding<'_>) -> Result<()> {
        rings.iter().try_for_each(|(option, slots)| {
            self.set(*option, slots).map_err(to.failed("making a ring"))
        })
    }

    pub(super) fn offsets(&self, to: Binding<'_>) -> Result<XdpMmapOffsets> {
        let offsets = sockopt::xdp_mmap_offsets(self).map_err(io::Error::from);
        offsets.map_err(to.failed("asking for the layout of the rings"))
    }

    pub(super) fn map<T: sys::AnyBits>(
        &self,
        offsets: XdpRingOffset,
        slots: u32,
        at: u64,
        to: Binding<'_>,
    ) -> Result<Ring<T>> {
        let mapped = Ring::map(self.as_fd(), offsets.into(), slots, at);
        mapped.map_err(to.failed("mapping a ring"))
    }

    pub(super) fn attach(&self, owner: Option<&Socket>, to: Binding<'_>) -> Result<()> {
        let flags = match owner {
            // The rest is as with the owner; other flags are refused.
            Some(_) => SocketAddrXdpFlags::XDP_SHARED_UMEM,
            None if to.copies => {
                SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP | SocketAddrXdpFlags::XDP_COPY
            }
            // Without a flag the kernel tries zero-copy, and falls back.
            None => SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP,
        };
        let addr = SocketAddrXdp::new(flags, to.index, to.queue);
        let bound = while_busy(|| match owner.map(Socket::as_fd) {
            Some(shared_umem_fd) => {
                let addr = addr.clone();
                let shared = SocketAddrXdpWithSharedUmem {
                    addr,
                    shared_umem_fd,
                };
                Ok(net::bind(self, &shared)?)
            }
            None => Ok(net::bind(self, &addr)?),
        });
        bound.map_err(|cause| {
            let error = Error::new(to.name, format!("binding to queue {}", to.queue));
            let advice = match cause.raw_os_error() {
                Some(libc::EBUSY) => {
                    "Another program, or this one in another place, has this queue: queue=N selects another one"
                }
                Some(libc::EINVAL) if owner.is_some() => {
                    "Two interfaces with the same memory need Linux 5.10, and a queue that exists: name one of them without xdp:"
                }
                Some(libc::EINVAL) => "There is no such queue: ethtool -l shows how many there are",
                Some(libc::ENETDOWN) => "The interface is down",
                Some(libc::ENODEV) => "The interface is gone",
                Some(libc::EOPNOTSUPP) => {
                    "Its driver does not support this; -i packet:NAME captures without AF_XDP"
                }
                _ => "",
            };
            error.because(cause).advise(advice)
        })
    }

    /// Lets calls of ours poll the hardware, for up to this time each, instead of its interrupts.
    pub(super) fn poll_busily(&self, time: Duration) -> io::Result<()> {
        // asm-generic/socket.h; not in the libc crate for every target.
        const SO_BUSY_POLL: libc::c_int = 46;
        const SO_PREFER_BUSY_POLL: libc::c_int = 69;
        const SO_BUSY_POLL_BUDGET: libc::c_int = 70;
        const BUDGET: libc::c_int = 64;
        let micros = libc::c_int::try_from(time.as_micros()).unwrap_or(libc::c_int::MAX);
        for (option, value) in [
            (SO_PREFER_BUSY_POLL, 1),
            (SO_BUSY_POLL, micros),
            (SO_BUSY_POLL_BUDGET, BUDGET),
        ] {
            sys::set_option(self.as_fd(), libc::SOL_SOCKET, option, &value)?;
        }
        Ok(())
    }

    /// Calls the kernel, so that it fills chunks or polls the hardware. Never waits.
    pub(super) fn kick(&self) {
        // It answers EAGAIN if there is no frame, and ENETDOWN if the interface is down, which netlink reports.
        let _ = sys::receive_now(self.as_fd(), &mut []);
    }

    /// Whether frames arrive in our memory without a copy.
    pub(super) fn is_zero_copy(&self) -> bool {
        let read = sockopt::xdp_options(self);
        read.is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// What it has lost so far.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub(super) fn losses(&self, is_zero_copy: bool) -> io::Result<Losses> {
        let read = sockopt::xdp_statistics(self)?;
        // Linux before 5.9 does not report this count, nor that of a full ring.
        let chunk_missing = read.rx_fill_ring_empty_descs.unwrap_or(0);
        // A copy for which there is no chunk counts twice: there, and as dropped. A driver without copies that finds no chunk
        // loses no frame by that: it tries again, and the hardware counts what it loses meanwhile.
        let no_chunk = match is_zero_copy {
            true => 0,
            false => chunk_missing.min(read.rx_dropped),
        };
        Ok(Losses {
            ring_full: read.rx_ring_full.unwrap_or(0),
            no_chunk,
            other: read.rx_dropped - no_chunk,
        })
    }

    fn set<T: Copy>(&self, option: libc::c_int, value: &T) -> io::Result<()> {
        sys::set_option(self.as_fd(), libc::SOL_XDP, option, value)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
