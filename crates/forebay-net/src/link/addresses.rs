//! The addresses of an interface.

use super::netlink::{Answer, Netlink, attributes, header, messages, u32_at};
use forebay::Result;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl Netlink {
    /// Returns the IPv4 and IPv6 addresses of an interface.
    pub(crate) fn addresses(&self, index: u32) -> Result<Vec<IpAddr>> {
        let mut found = Vec::new();
        self.exchange(&header(libc::RTM_GETADDR, true), |answer| {
            let more = messages(answer, &mut true, |kind, message| {
                if kind == libc::RTM_NEWADDR && u32_at(message, 4) == Some(index) {
                    found.extend(address(message));
                }
            })?;
            Ok(more == Answer::More)
        })?;
        Ok(found)
    }
}

/// Parses one `RTM_NEWADDR` message: 8 bytes (`struct ifaddrmsg`), then attributes. Between two points, `IFA_ADDRESS` is the other side's.
fn address(message: &[u8]) -> Option<IpAddr> {
    let find = |wanted| {
        let mut found = attributes(message.get(8..)?);
        found.find(|(kind, _)| *kind == wanted)
    };
    let (_, value) = find(libc::IFA_LOCAL).or_else(|| find(libc::IFA_ADDRESS))?;
    match value.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link;

    #[test]
    fn the_loopback_interface_has_its_address_if_it_is_up() {
        let links = link::interfaces().unwrap();
        let Some(lo) = links.iter().find(|it| it.is_loopback() && it.is_up()) else {
            return println!("skipped: needs a loopback interface that is up");
        };
        let netlink = Netlink::open().unwrap();
        let addresses = netlink.addresses(lo.index).unwrap();
        assert!(
            addresses.iter().all(IpAddr::is_loopback),
            "unexpected addresses: {addresses:?}"
        );
        assert!(netlink.addresses(0x7fff_0000).unwrap().is_empty());
    }

    #[test]
    fn a_message_cut_anywhere_does_no_harm() {
        let mut message = vec![2, 24, 0, 0, 1, 0, 0, 0];
        message.extend([8, 0, 1, 0, 10, 0, 0, 2]); // IFA_ADDRESS
        message.extend([8, 0, 2, 0, 10, 0, 0, 1]); // IFA_LOCAL
        assert_eq!(address(&message), Some(Ipv4Addr::new(10, 0, 0, 1).into()));
        for len in 0..message.len() {
            assert_ne!(
                address(&message[..len]),
                Some(Ipv4Addr::new(10, 0, 0, 1).into())
            );
        }
    }
}
