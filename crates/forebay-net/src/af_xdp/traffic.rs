//! Whether this machine uses an interface, so that taking its frames away would break connections; and the peer of a veth interface.

use super::config;
use crate::link::{Link, Netlink};
use forebay::{Error, Result};
use std::net::IpAddr;

/// Checks that frames of this interface fit into memory for AF_XDP.
///
/// # Errors
/// Its MTU is too large.
pub fn check_frames(link: &Link) -> Result<()> {
    config::chunk_bytes(link).map(|_| ())
}

/// Checks that this machine does not use the interface. Otherwise it can be opened only with
/// [`AfXdpConfig::take_traffic`](super::AfXdpConfig::take_traffic).
///
/// # Errors
/// The machine uses it; or netlink does not answer.
pub fn check_unused(link: &Link) -> Result<()> {
    refuse_used(link, &Netlink::open()?)
}

/// Refuses an interface with an address, one that is a part of a bridge or bond, or one that other interfaces of this namespace,
/// such as VLANs, use.
///
/// Every IPv6 interface that is up has a link-local address (fe80::), so it says nothing about its use, and does not count.
///
/// # Errors
/// This machine uses the interface; or netlink does not answer.
pub(super) fn refuse_used(link: &Link, netlink: &Netlink) -> Result<()> {
    let refuse = |what: String| {
        Err(Error::invalid(&link.name, what).advise(format!(
            "AF_XDP takes every frame away from this machine's network stack, so connections over {0} would break. \
             Use -i {0} or -i xdp:{0},pass=yes to watch, or --take-traffic to take them",
            link.name
        )))
    };
    if link.master != 0 {
        let master = netlink.link(link.master)?;
        let name = master.map_or_else(|| format!("interface {}", link.master), |it| it.name);
        return refuse(format!("the interface is a part of {name}"));
    }
    // A VLAN or a macvlan, for example. The peer of a veth interface uses this link, too, but not its traffic.
    let links = netlink.links()?;
    let uses = |it: &&Link| {
        it.linked == link.index && it.linked_namespace.is_none() && it.kind != "veth" && it.is_up()
    };
    if let Some(user) = links.iter().find(uses) {
        return refuse(format!("the interface {} uses it", user.name));
    }
    let addresses = netlink.addresses(link.index)?;
    match addresses.iter().find(|address| is_of_use(address)) {
        Some(address) => refuse(format!("the interface has the address {address}")),
        None => Ok(()),
    }
}

fn is_of_use(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    }
}

/// The other end of a veth interface. Its `tx_dropped` is the only count of frames for which our end's receive ring had no room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    index: u32,
    namespace: Option<i32>,
}

impl Peer {
    pub(super) fn of(link: &Link) -> Option<Peer> {
        let is_veth = link.kind == "veth" && link.linked != 0;
        is_veth.then_some(Peer {
            index: link.linked,
            namespace: link.linked_namespace,
        })
    }

    /// Frames that it could not pass on since it was made. `None`: unknown, because it is in another network namespace and this
    /// process lacks CAP_NET_ADMIN there, or because it was deleted.
    pub(super) fn unsent(self, netlink: &Netlink) -> Option<u64> {
        let link = netlink.link_in(self.index, self.namespace).ok()??;
        Some(link.unsent)
    }
}
