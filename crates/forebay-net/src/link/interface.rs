//! What the kernel knows about a network interface.

/// One network interface, in its state at the time of the query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The kernel's interface index, from 1.
    pub index: u32,
    /// The interface name, such as `eth0`.
    pub name: String,
    /// `IFF_…` flags (`man 7 netdevice`).
    pub flags: u32,
    /// The hardware type, an `ARPHRD_…` number: 1 is Ethernet, 772 loopback, 65534 none.
    pub hardware: u16,
    /// The largest payload in bytes, without the link-layer header.
    pub mtu: u32,
    /// The operational state of RFC 2863: 0 unknown, 2 down, 6 up, …
    pub operational: u8,
    /// The kind of a virtual interface, such as `veth`, `bridge` or `vlan`; empty for hardware.
    pub kind: String,
    /// The number of receive and of transmit queues for which the kernel has memory. A driver may use fewer ([`Device::queues`](super::Device::queues)).
    pub queues: (u32, u32),
    /// The number of the XDP program that is attached, in any mode.
    pub xdp_program: Option<u32>,
    /// Frames lost before any socket saw them: `rx_missed_errors` + `rx_fifo_errors` since the interface was created.
    pub dropped: u64,
    /// Frames that the interface did not send (`tx_dropped`). On a veth interface these are the frames for which the receive ring of
    /// its peer had no room.
    pub unsent: u64,
    /// The index of the bridge, bond or other interface that it is a part of; 0 if there is none.
    pub master: u32,
    /// The index of the interface that it is linked to: of a veth interface, its peer; 0 if there is none.
    pub linked: u32,
    /// The number of the network namespace of `linked`, if that is another one.
    pub linked_namespace: Option<i32>,
}

impl Link {
    /// Whether the interface is up (`IFF_UP`).
    pub fn is_up(&self) -> bool {
        self.flags & libc::IFF_UP as u32 != 0
    }

    /// Whether it can carry frames (`IFF_RUNNING`), for example because a cable is connected.
    pub fn is_running(&self) -> bool {
        self.flags & libc::IFF_RUNNING as u32 != 0
    }

    /// Whether it is a loopback interface.
    pub fn is_loopback(&self) -> bool {
        self.flags & libc::IFF_LOOPBACK as u32 != 0
    }

    /// The name of the hardware type, or its number.
    ///
    /// ```
    /// let link = forebay_net::link::Link { hardware: 1, ..Default::default() };
    /// assert_eq!(link.hardware_name(), "Ethernet");
    /// ```
    pub fn hardware_name(&self) -> String {
        match self.hardware {
            libc::ARPHRD_ETHER => "Ethernet".into(),
            libc::ARPHRD_LOOPBACK => "loopback".into(),
            libc::ARPHRD_NONE => "raw IP".into(),
            other => format!("hardware type {other}"),
        }
    }
}
