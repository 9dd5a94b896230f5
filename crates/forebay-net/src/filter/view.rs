//! How a program sees a packet.

use crate::port::Interface;

/// How a program sees a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// Packets as in files and from `sim`: VLAN tags are in the data.
    Packet,
    /// Packets as Linux presents them to a socket's filter: the outer VLAN tag, the direction and the interface are metadata,
    /// not in the data.
    Socket,
    /// Packets of an interface after a capture, which put the outer VLAN tag back. Programs see them as a
    /// [socket's](View::Socket) filter does, except that the interface is unknown. [`Program::run_restored`](super::bpf::Program::run_restored) runs them.
    Restored,
}

impl View {
    /// How programs see the packets of `interface`, unless the kernel runs them.
    pub fn of(interface: &Interface) -> View {
        match interface.socket_view {
            true => View::Restored,
            false => View::Packet,
        }
    }
}
