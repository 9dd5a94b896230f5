//! Live capture with AF_XDP: frames go from the driver, or from the kernel's earliest hook, into memory of this process.
//!
//! ```text
//!   interface ─ queue 0 ─▶ XDP program ─▶ socket 0: fill ring, receive ring ─┐
//!             └ queue 1 ─▶ (the same)  ─▶ socket 1                          ─┴▶ receive() ─▶ Burst
//! ```
//!
//! **It takes frames away from the network stack**, unlike [`af_packet`](crate::af_packet), which watches: a sink or a dedicated card, not
//! a tap. So an interface that has an address is refused unless [`AfXdpConfig::take_traffic`] is set. Frames that this machine sends are
//! not seen.
//!
//! The program is assembled here and attached with a link, so it needs no compiler and no library, and goes away with this process however
//! that ends. All receive queues of the interface have a socket; packets of several queues are handed out in the order of their time
//! stamps, as far as they have arrived.
//!
//! What is available depends on the driver. The port asks for the first of each, and shows what it got in [`Port::info`](crate::port::Port::info):
//!
//! | | first | otherwise |
//! |---|---|---|
//! | mode | native: in the driver | generic: in the kernel, any driver |
//! | memory | zero-copy: the hardware writes frames into our memory | a copy of each frame |
//! | time stamps | of the program, before the frame (Linux 6.1) | of the poll that found the frame |
//!
//! # Losses
//!
//! [`Counts::received`](crate::port::Counts) are the frames that reached a socket, and
//! [`Port::socket_losses`](crate::port::Port::socket_losses) divides those that it lost by cause. A veth interface has a ring of 256 frames before
//! the program; what does not fit is counted only by its peer, and reported as `peer`, or as unknown if the peer cannot be asked. For other
//! interfaces the hardware counts it, in `interface_dropped`.
//!
//! # Sending
//!
//! [`AfXdpTx`] sends from the slots of a pool, without a program and without taking frames away. A [bridge](crate::bridge) of two
//! interfaces sends frames from the chunks in which it received them.
//!
//! # Limits
//!
//! - Ethernet only. At an MTU of up to 1770, frames of up to 1792 bytes; at an MTU of up to 3818, of up to 3840 bytes. Longer ones are lost.
//! - VLAN tags that the hardware removes are lost: `ethtool -K eth0 rxvlan off` keeps them (for a veth interface, `txvlan off` on its peer).
//! - Filters run in this process, not in the kernel.
//! - Attaching a program makes many drivers restart their queues: the interface may lose frames for a moment.
//!
//! Opening a port needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, and CAP_IPC_LOCK if the memory exceeds the limit for locked memory.
//! Afterwards no privilege is needed, except to ask a veth peer in another namespace.

#[cfg(feature = "live")]
mod bpf;
#[cfg(feature = "live")]
mod config;
#[cfg(feature = "live")]
mod memory;
#[cfg(feature = "live")]
mod outgoing;
#[cfg(feature = "live")]
mod port;
#[cfg(feature = "live")]
mod program;
#[cfg(feature = "live")]
mod queue;
#[cfg(feature = "live")]
mod relay;
#[cfg(feature = "live")]
mod rings;
#[cfg(feature = "live")]
mod sending;
#[cfg(feature = "live")]
mod socket;
mod spec;
#[cfg(feature = "live")]
mod traffic;

#[cfg(feature = "live")]
pub use config::AfXdpConfig;
#[cfg(feature = "live")]
pub use port::{AfXdp, probe};
#[cfg(feature = "live")]
pub(crate) use relay::open_pair;
#[cfg(feature = "live")]
pub use sending::AfXdpTx;
pub use spec::{Mode, Spec};
#[cfg(feature = "live")]
pub use traffic::{check_frames, check_unused};

#[cfg(feature = "live")]
const RIGHTS: &str = "Run as root, or: sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep $(command -v forebay). \
    In a user namespace it is not possible";
