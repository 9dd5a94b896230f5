//! Captures with AF_XDP: the kernel or the driver puts frames into memory of this process, before the network stack sees them.
//!
//! ```text
//!   interface ─ queue 0 ─▶ XDP program ─▶ socket 0: fill ring, receive ring ─┐
//!             └ queue 1 ─▶ (the same)  ─▶ socket 1                          ─┴▶ receive() ─▶ Burst
//! ```
//!
//! **AF_XDP takes frames away from the network stack.** The machine itself does not receive them any more. (With `af_packet`, both this process and
//! the machine receive them.) Use AF_XDP for an interface that is used only for capturing. An interface that has an address is refused unless
//! [`AfXdpConfig::take_traffic`] is set. Frames that this machine sends are not captured.
//!
//! Each receive queue of the interface has a socket. Of the packets that have arrived in several queues, the one with the earliest time
//! stamp is handed out first. The XDP program that passes frames to the sockets is part of this module. The kernel detaches it when this
//! process ends, for whatever reason.
//!
//! The port prefers the variants in the second column. Where the driver or the kernel does not support one, the port uses the variant in
//! the third column. [`Port::info`](crate::port::Port::info) shows which ones are in use.
//!
//! | | preferred | otherwise |
//! |---|---|---|
//! | where the XDP program runs | native: in the driver | generic: in the kernel, with any driver |
//! | how frames reach this process | zero-copy: the hardware writes them into its memory | the kernel copies them |
//! | when the time stamp is taken | when the XDP program sees the frame (Linux 6.1) | when this process finds the frame |
//!
//! # Copies
//!
//! With [`Spec::passes`], there is no socket: the XDP program copies each frame into a ring buffer, and passes it on to the network stack. So
//! this process and the machine have it, as with `af_packet`, but this process sees it before the stack does. This needs Linux 6.1. Frames
//! may have any length; those of more than 65536 bytes are cut.
//!
//! ```text
//!   interface ─▶ XDP program ─▶ the network stack
//!                     └ copy ─▶ ring buffer ─▶ receive() ─▶ Burst
//! ```
//!
//! # Losses
//!
//! [`Counts::received`](crate::port::Counts) are the frames that reached a socket, and
//! [`PortReport::socket_losses`](crate::port::PortReport::socket_losses) has those that were lost there, by cause. Frames that are lost before the XDP
//! program are counted elsewhere:
//!
//! - A veth interface has a receive ring of 256 frames. Its peer counts frames for which this ring had no room. They are reported as
//!   `peer`, or as unknown if the peer cannot be queried.
//! - On other interfaces the hardware counts lost frames. They are reported as `interface_dropped`.
//!
//! # Sending
//!
//! [`AfXdpTx`] sends from the slots of a pool. It attaches no XDP program and takes no frames away. A [bridge](crate::bridge) between two
//! AF_XDP interfaces sends each frame from the memory in which it was received.
//!
//! # Limits
//!
//! - Ethernet only.
//! - Without [`Spec::passes`], the longest frame has 1792 bytes if the MTU is at most 1770, otherwise 3840 bytes. Longer frames are lost. An interface with an MTU
//!   above 3818 is refused.
//! - VLAN tags that the hardware removes are lost: `ethtool -K eth0 rxvlan off` keeps them (for a veth interface, `txvlan off` on its peer).
//! - Filters run in this process, not in the kernel.
//! - Attaching a program makes many drivers restart their queues: the interface may lose frames for a moment.
//!
//! Opening a port needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, and CAP_IPC_LOCK if the memory exceeds the limit for locked memory.
//! Afterwards no privilege is needed, except to query a veth peer in another namespace.

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
