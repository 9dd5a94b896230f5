//! `vlan`, `mpls`, `pppoes`, `geneve` and `vxlan`. Each is a test, and moves the headers for everything after it in the text of the
//! expression.

use super::{
    compiler::{Compiler, unsupported_link},
    load::{Base, Size},
    test::{Test, step},
};
use crate::filter::{
    ast::{Direction, Ports, Transport},
    bpf::code,
    error::Said,
    link::{Layers, LinkLayer, Offset},
    view::View,
};

const GENEVE_PORT: u16 = 6081;
const VXLAN_PORT: u16 = 4789;
/// The EtherType of an encapsulated Ethernet frame.
const BRIDGED_ETHERNET: u32 = 0x6558;

impl Compiler {
    pub(super) fn vlan(&mut self, number: Option<u32>) -> Said<Test> {
        if self.layers.labels > 0 {
            return Err("'vlan' after 'mpls' is not supported".to_owned());
        }
        if !matches!(self.layers.link, LinkLayer::Ethernet | LinkLayer::Wifi(_)) {
            return Err(unsupported_link("vlan", self.layers.link));
        }
        let beside = self.view != View::Packet
            && self.layers.link == LinkLayer::Ethernet
            && self.layers.vlans == 0
            && self.layers.header == Offset::at(0);
        self.layers.vlans += 1;
        let tagged = [0x8100, 0x88A8, 0x9100].map(|kind| self.payload_is(kind));
        let [c_tag, s_tag, old] = tagged;
        let tagged = Test::any([c_tag?, s_tag?, old?]);
        let is = |steps| number.map(|number| Test::masked(steps, 0xFFF, number));
        let in_packet = is(self.load(Base::Network, 0, Size::Half));
        if !beside {
            self.layers.payload = self.layers.payload.plus(4);
            self.layers.protocol = self.layers.protocol.plus(4);
            return Ok(match in_packet {
                Some(in_packet) => tagged.and(in_packet),
                None => tagged,
            });
        }
        // The kernel removes the outer VLAN tag and keeps it as metadata. So the following headers move by 4 bytes only if the tag
        // is still in the packet.
        let cell = self.offset_cell()?;
        self.layers.payload.cell = Some(cell);
        self.layers.protocol.cell = Some(cell);
        let present = vec![step(code::LDB_ABS, code::KERNEL_VLAN_PRESENT)];
        let present = Test::equal(present, 1);
        let in_kernel = is(vec![step(code::LDB_ABS, code::KERNEL_VLAN_TAG)]);
        let moved = Test::Do(vec![step(code::LD_IMM, 4), step(code::ST, cell.into())]);
        let moved = moved.and(tagged);
        Ok(Test::If(Box::new(match (in_kernel, in_packet) {
            (Some(in_kernel), Some(in_packet)) => [present, in_kernel, moved.and(in_packet)],
            _ => [present, Test::Always(true), moved],
        })))
    }

    pub(super) fn mpls(&mut self, label: Option<u32>) -> Said<Test> {
        let labelled = match (self.layers.labels, self.layers.link) {
            (0, LinkLayer::Ethernet | LinkLayer::CiscoHdlc) => self.payload_is(0x8847)?,
            (0, LinkLayer::Ppp) => self.payload_is(0x0281)?,
            (0, link) => return Err(unsupported_link("mpls", link)),
            _ => {
                let bottom = self.load(Base::Network, 2_u32.wrapping_neg(), Size::Byte);
                Test::masked(bottom, 1, 0)
            }
        };
        let test = match label {
            Some(label) => {
                let entry = self.load(Base::Network, 0, Size::Word);
                labelled.and(Test::masked(entry, 0xFFFF_F000, label << 12))
            }
            None => labelled,
        };
        self.layers.network += 4;
        self.layers.network_behind_llc += 4;
        self.layers.labels += 1;
        Ok(test)
    }

    pub(super) fn pppoe_session(&mut self, number: Option<u32>) -> Said<Test> {
        let mut test = self.payload_is(0x8864)?;
        if let Some(number) = number {
            let session = self.load(Base::Network, 0, Size::Word);
            test = test.and(Test::masked(session, 0xFFFF, number));
        }
        let layers = &mut self.layers;
        layers.link = LinkLayer::Ppp;
        layers.header = layers.payload.plus(layers.network + 6);
        layers.protocol = layers.header;
        layers.payload = layers.header.plus(2);
        layers.network = 0;
        layers.network_behind_llc = 0;
        layers.in_geneve = false;
        Ok(test)
    }

    /// Geneve's header and the IPv4 header before it vary in length, so the start of the inner packet is computed into scratch
    /// cells.
    pub(super) fn geneve(&mut self, network: Option<u32>) -> Said<Test> {
        let [protocol, header, payload] = [
            self.offset_cell()?,
            self.offset_cell()?,
            self.offset_cell()?,
        ]
        .map(u32::from);
        let tunnel = self.udp_tunnel(GENEVE_PORT, protocol, 0, |c, base| {
            let version = Test::masked(c.load(base, 8, Size::Byte), 0xC0, 0);
            version.and(c.is_network(base, network))
        })?;
        // A Geneve header: 8 bytes, then options. Their length in words is at 0, the protocol at 2.
        let inside = vec![
            step(code::LD_MEM, protocol),
            step(code::TAX, 0),
            step(code::ADD_K, 2),
            step(code::ST, protocol),
            step(code::LDB_IND, 0),
            step(code::AND_K, 0x3F),
            step(code::LSH_K, 2),
            step(code::ADD_K, 8),
            step(code::ADD_X, 0),
            step(code::ST, header),
        ];
        let carried = vec![step(code::LDX_MEM, protocol), step(code::LDH_IND, 0)];
        let ethernet = Test::equal(carried, BRIDGED_ETHERNET);
        let with_ethernet = Test::Do(vec![
            step(code::LD_MEM, header),
            step(code::ADD_K, 12),
            step(code::ST, protocol),
            step(code::ADD_K, 2),
            step(code::ST, payload),
        ]);
        let without = Test::Do(vec![step(code::LD_MEM, header), step(code::ST, payload)]);

        let cell = |cell: u32| Offset {
            bytes: 0,
            cell: Some(cell as u8),
        };
        self.layers.link = LinkLayer::Ethernet;
        self.layers.header = cell(header);
        self.layers.protocol = cell(protocol);
        self.layers.payload = cell(payload);
        self.layers.network = 0;
        self.layers.in_geneve = true;

        let inner = Test::If(Box::new([ethernet, with_ethernet, without]));
        Ok(tunnel.and(Test::Do(inside)).and(inner))
    }

    /// A VXLAN header has 8 bytes, and an Ethernet frame follows. As in newer libpcap, its first byte has the flag for a valid
    /// number of the network, and no other one.
    pub(super) fn vxlan(&mut self, network: Option<u32>) -> Said<Test> {
        let cell = self.offset_cell()?;
        let tunnel = self.udp_tunnel(VXLAN_PORT, cell.into(), 8, |c, base| {
            let flag = Test::equal(c.load(base, 8, Size::Byte), 0x08);
            flag.and(c.is_network(base, network))
        })?;
        let vlans = self.layers.vlans;
        self.layers = Layers::of(LinkLayer::Ethernet).within(cell);
        self.layers.vlans = vlans;
        Ok(tunnel)
    }

    /// True for UDP to `port` whose payload passes `check`, relative to the UDP header. Stores in a cell the offset of what is `bytes`
    /// after the UDP header.
    fn udp_tunnel(
        &mut self,
        port: u16,
        cell: u32,
        bytes: u32,
        check: impl Fn(&Self, Base) -> Test,
    ) -> Said<Test> {
        let ports = Ports {
            transport: Some(Transport::Udp),
            direction: Direction::Destination,
            first: port,
            last: port,
        };
        let over_ipv4 = self.ports_over_ipv4(ports)?.and(check(self, Base::Behind4));
        let over_ipv6 = self.ports_over_ipv6(ports)?.and(check(self, Base::Behind6));
        let place = self.base(Base::Network);
        let behind_udp = place.bytes + 8 + bytes;
        let mut behind_ipv4 = self.ipv4_header_len();
        behind_ipv4.extend([
            step(code::TXA, 0),
            step(code::ADD_K, behind_udp),
            step(code::ST, cell),
        ]);
        let behind_ipv6 = vec![
            match place.cell {
                Some(cell) => step(code::LD_MEM, cell.into()),
                None => step(code::LD_IMM, 0),
            },
            step(code::ADD_K, 40 + behind_udp),
            step(code::ST, cell),
        ];
        let over_ipv4 = over_ipv4.and(Test::Do(behind_ipv4));
        Ok(over_ipv4.or(over_ipv6.and(Test::Do(behind_ipv6))))
    }

    /// True if a tunnel's header after UDP has this number of a network, in 24 bits. `None`: any.
    fn is_network(&self, base: Base, network: Option<u32>) -> Test {
        network.map_or(Test::Always(true), |network| {
            Test::masked(self.load(base, 12, Size::Word), 0xFFFF_FF00, network << 8)
        })
    }
}
