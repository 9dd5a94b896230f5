//! Ports of TCP, UDP and SCTP: over IPv6 without extension headers but that of BIG TCP, and over IPv4 if the packet is not a later fragment, which
//! has no ports.

use super::{
    compiler::Compiler,
    load::{Base, Size},
    protocols::{IPV4, IPV6, TCP},
    test::Test,
};
use crate::filter::{
    ast::{Ports, Transport},
    bpf::code,
    error::Said,
};

impl Compiler {
    pub(super) fn ports(&mut self, ports: Ports) -> Said<Test> {
        let over_ipv6 = self.ports_over_ipv6(ports)?;
        Ok(over_ipv6.or(self.ports_over_ipv4(ports)?))
    }

    pub(super) fn ports_over_ipv4(&mut self, ports: Ports) -> Said<Test> {
        let ip = self.payload_is(IPV4)?;
        let any = self.each(ports.transport, |c, number| {
            let next = Test::equal(c.load(Base::Network, 9, Size::Byte), number);
            let between = c.between((Base::Behind4, 0), ports)?;
            Ok(next.and(c.is_first_fragment()).and(between))
        })?;
        Ok(ip.and(any))
    }

    pub(super) fn ports_over_ipv6(&mut self, ports: Ports) -> Said<Test> {
        let ip6 = self.payload_is(IPV6)?;
        let any = self.each(ports.transport, |c, number| {
            let next = Test::equal(c.load(Base::Network, 6, Size::Byte), number);
            let plain = next.and(c.between((Base::Behind6, 0), ports)?);
            Ok(match number {
                TCP => plain.or(c.is_big_tcp().and(c.between((Base::Behind6, 8), ports)?)),
                _ => plain,
            })
        })?;
        Ok(ip6.and(any))
    }

    /// True if the packet is not fragmented, or is the first fragment.
    pub(super) fn is_first_fragment(&self) -> Test {
        let offset = self.load(Base::Network, 6, Size::Half);
        Test::Value(offset, code::JSET_K, 0x1FFF).not()
    }

    fn each(
        &mut self,
        transport: Option<Transport>,
        mut test: impl FnMut(&mut Self, u32) -> Said<Test>,
    ) -> Said<Test> {
        let all = [Transport::Sctp, Transport::Tcp, Transport::Udp].into_iter();
        let asked = all.filter(|it| transport.is_none_or(|only| only == *it));
        let tests: Said<Vec<_>> = asked.map(|it| test(self, it.number())).collect();
        Ok(Test::any(tests?))
    }

    fn between(&mut self, (base, at): (Base, u32), ports: Ports) -> Said<Test> {
        let Ports { first, last, .. } = ports;
        self.directed(ports.direction, |c, is_source| {
            let port = c.load(base, at + if is_source { 0 } else { 2 }, Size::Half);
            if first == last {
                return Ok(Test::equal(port, first.into()));
            }
            let at_least = Test::Value(port.clone(), code::JGE_K, first.into());
            Ok(at_least.and(Test::Value(port, code::JGT_K, last.into()).not()))
        })
    }
}
