//! Addresses: hosts and networks of IPv4, IPv6 and DECnet, Ethernet addresses, broadcast, multicast.

use super::{
    compiler::Compiler,
    load::{Base, Size},
    protocols::{ARP, DECNET, IPV4, IPV6, RARP},
    test::{Test, step},
};
use crate::filter::{
    ast::{Direction, Protocol},
    bpf::code,
    error::Said,
    link::LinkLayer,
};
use std::net::{IpAddr, Ipv6Addr};

impl Compiler {
    pub(super) fn ipv4(
        &mut self,
        protocol: Protocol,
        direction: Direction,
        address: u32,
        mask: u32,
    ) -> Said<Test> {
        // An EtherType, and the offsets of the source and destination in its packets.
        let (kind, source, destination) = match protocol {
            Protocol::Any => {
                let ip = self.ipv4(Protocol::Ip, direction, address, mask)?;
                // After MPLS labels only IP can be recognized.
                if self.layers.labels > 0 {
                    return Ok(ip);
                }
                let arp = self.ipv4(Protocol::Arp, direction, address, mask)?;
                let rarp = self.ipv4(Protocol::Rarp, direction, address, mask)?;
                return Ok(Test::any([ip, arp, rarp]));
            }
            Protocol::Arp => (ARP, 14, 24),
            Protocol::Rarp => (RARP, 14, 24),
            _ => (IPV4, 12, 16),
        };
        self.directed(direction, |c, is_source| {
            let offset = if is_source { source } else { destination };
            let field = c.load(Base::Network, offset, Size::Word);
            Ok(c.payload_is(kind)?.and(Test::masked(field, mask, address)))
        })
    }

    pub(super) fn ipv6(
        &mut self,
        direction: Direction,
        address: Ipv6Addr,
        mask: Ipv6Addr,
    ) -> Said<Test> {
        let word = |of: Ipv6Addr, i: u32| (of.to_bits() >> (96 - 32 * i)) as u32;
        self.directed(direction, |c, is_source| {
            let offset = if is_source { 8 } else { 24 };
            let mut test = c.payload_is(IPV6)?;
            for i in 0..4 {
                let field = c.load(Base::Network, offset + 4 * i, Size::Word);
                test = test.and(Test::masked(field, word(mask, i), word(address, i)));
            }
            Ok(test)
        })
    }

    /// True for any of a name's addresses.
    pub(super) fn host(
        &mut self,
        protocol: Protocol,
        direction: Direction,
        addresses: &[IpAddr],
    ) -> Said<Test> {
        let mut tests = Vec::new();
        for address in addresses {
            tests.push(match address {
                IpAddr::V4(address) => {
                    self.ipv4(protocol, direction, (*address).into(), u32::MAX)?
                }
                IpAddr::V6(address) => {
                    self.ipv6(direction, *address, Ipv6Addr::from_bits(u128::MAX))?
                }
            });
        }
        Ok(Test::any(tests))
    }

    pub(super) fn ether(
        &mut self,
        direction: Direction,
        address: [u8; 6],
        what: &str,
    ) -> Said<Test> {
        if self.is_wifi() {
            return self.directed(direction, |c, is_source| {
                Ok(c.wifi_end(is_source, |at| c.address_is(at, address)))
            });
        }
        if self.layers.link != LinkLayer::Ethernet {
            return Err(format!(
                "'{what}' needs Ethernet, and this is link type {}",
                self.layers.link.name()
            ));
        }
        let test = self.directed(direction, |c, is_source| {
            Ok(c.address_is(if is_source { 6 } else { 0 }, address))
        })?;
        Ok(self.behind_ethernet_header(test))
    }

    /// True if the link header has this address at `offset`.
    pub(super) fn address_is(&self, offset: u32, [a, b, c, d, e, f]: [u8; 6]) -> Test {
        let end = u32::from_be_bytes([c, d, e, f]);
        let front = u32::from_be_bytes([0, 0, a, b]);
        let ends = Test::equal(self.load(Base::Link, offset + 2, Size::Word), end);
        ends.and(Test::equal(
            self.load(Base::Link, offset, Size::Half),
            front,
        ))
    }

    /// `test` if there is an Ethernet header. Geneve also carries packets without one, whose payload starts where that header
    /// would be.
    fn behind_ethernet_header(&self, test: Test) -> Test {
        match (
            self.layers.in_geneve,
            self.layers.header.cell,
            self.layers.payload.cell,
        ) {
            (true, Some(header), Some(payload)) => {
                let steps = vec![
                    step(code::LD_MEM, u32::from(header)),
                    step(code::LDX_MEM, u32::from(payload)),
                ];
                Test::Value(steps, code::JEQ_X, 0).not().and(test)
            }
            _ => test,
        }
    }

    pub(super) fn broadcast(&mut self, protocol: Protocol) -> Said<Test> {
        match protocol {
            Protocol::Any | Protocol::Link => {
                self.ether(Direction::Destination, [0xFF; 6], "broadcast")
            }
            Protocol::Ip => Err(
                "'ip broadcast' needs the netmask, which is not known here; write dst host ADDRESS"
                    .to_owned(),
            ),
            _ => Err(format!(
                "'{}' has no broadcasts; write ether broadcast",
                protocol.keyword()
            )),
        }
    }

    pub(super) fn multicast(&mut self, protocol: Protocol) -> Said<Test> {
        match protocol {
            Protocol::Any | Protocol::Link if self.layers.link == LinkLayer::Ethernet => {
                let first = self.load(Base::Link, 0, Size::Byte);
                Ok(self.behind_ethernet_header(Test::Value(first, code::JSET_K, 1)))
            }
            Protocol::Any | Protocol::Link if self.is_wifi() => {
                let group =
                    |at| Test::Value(self.load(Base::Link, at, Size::Byte), code::JSET_K, 1);
                Ok(self.wifi_end(false, group))
            }
            Protocol::Any | Protocol::Link => Err(format!(
                "'multicast' needs Ethernet, and this is link type {}; write ip multicast or ip6 multicast",
                self.layers.link.name()
            )),
            Protocol::Ip => {
                let first = self.load(Base::Network, 16, Size::Byte);
                Ok(self
                    .payload_is(IPV4)?
                    .and(Test::Value(first, code::JGE_K, 224)))
            }
            Protocol::Ip6 => {
                let first = self.load(Base::Network, 24, Size::Byte);
                Ok(self.payload_is(IPV6)?.and(Test::equal(first, 255)))
            }
            _ => Err(format!(
                "'{}' has no multicasts; write ether, ip or ip6 multicast",
                protocol.keyword()
            )),
        }
    }

    /// DECnet has short and long headers, both with an optional byte of padding before them.
    pub(super) fn decnet(&mut self, direction: Direction, address: u16) -> Said<Test> {
        let address = u32::from(address.swap_bytes());
        self.directed(direction, |c, is_source| {
            let (short, long) = if is_source { (3, 15) } else { (1, 7) };
            let header = |flags: u32, padded: bool, offset: u32| {
                let kind = if padded {
                    let steps = c.load(Base::Network, 2, Size::Half);
                    Test::masked(steps, 0xFF07, 0x8100 | flags)
                } else {
                    Test::masked(c.load(Base::Network, 2, Size::Byte), 0x07, flags)
                };
                let offset = 2 + u32::from(padded) + offset;
                kind.and(Test::equal(
                    c.load(Base::Network, offset, Size::Half),
                    address,
                ))
            };
            let any = Test::any([
                header(2, false, short),
                header(2, true, short),
                header(6, false, long),
                header(6, true, long),
            ]);
            Ok(c.payload_is(DECNET)?.and(any))
        })
    }
}
