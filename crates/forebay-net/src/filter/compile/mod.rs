//! Compiles an expression to a program for one link type.
//!
//! ```text
//!  Expr ──▶ Test: a tree, in program order       ──▶ graph ──▶ optimize ──▶ layout ──▶ Program
//!           protocols · addresses · ports ·          control   test and      jumps
//!           layers · arithmetic                      flow      load once
//! ```
//!
//! The expression is compiled in the order of its text, because `vlan`, `mpls`, `pppoes`, `geneve` and `vxlan` move the headers for
//! everything after them, also after an `or`. Loads follow libpcap's order: a load beyond the end of a packet rejects the
//! packet, so the order of loads affects verdicts.

mod addresses;
mod arithmetic;
mod compiler;
mod graph;
mod headers;
mod layers;
mod layout;
mod load;
mod optimize;
mod ports;
mod protochain;
mod protocols;
mod test;
mod wifi;

use crate::{
    filter::{
        ast::{ByteRelation, Expr, Llc, Primitive},
        bpf::{Program, code},
        error::{Said, Wrong},
        link::{Layers, LinkLayer},
        view::View,
    },
    port::LinkType,
};
use arithmetic::within;
use compiler::{Compiler, unsupported_link};
use load::{Base, Size};
use std::{cell::Cell, ops::Range};
use test::{Test, step};

pub(super) fn compile(
    expression: Option<&Expr>,
    link: LinkType,
    view: View,
    snaplen: u32,
    untold_is_false: bool,
) -> Result<Program, Wrong> {
    let mut compiler = Compiler {
        layers: Layers::of(LinkLayer::of(link)),
        view,
        lowest_offset: code::SCRATCH as u8,
        numbers: 0,
        untold_is_false,
        reads_link: Cell::new(false),
        reads_payload: Cell::new(false),
    };
    let starts = compiler.starts().map_err(|what| Wrong::new(0..0, what))?;
    let test = match expression {
        Some(expression) => {
            let test = compiler.expression(expression)?;
            compiler.after(starts, test)
        }
        None => Test::Always(true),
    };
    let of_all = |what: String| Wrong::new(0..0, what);
    if compiler.numbers > compiler.lowest_offset {
        let what =
            "the expression needs more than the 16 scratch cells of BPF; use fewer operators";
        return Err(of_all(what.into()));
    }
    let mut graph = graph::build(&test).map_err(of_all)?;
    optimize::optimize(&mut graph);
    if graph.start == graph::REJECT && !untold_is_false {
        let name = LinkLayer::of(link).name();
        return Err(Wrong {
            matches_nothing: true,
            ..of_all(format!(
                "no packet of link type {name} can match this; write 'or' where either may hold"
            ))
        });
    }
    layout::lay_out(&graph, view, snaplen).map_err(of_all)
}

impl Compiler {
    fn expression(&mut self, expression: &Expr) -> Result<Test, Wrong> {
        match expression {
            Expr::Chain(first, rest) => {
                let first = self.expression(first)?;
                let mut chain = Vec::new();
                for (joint, next) in rest {
                    chain.push((*joint, self.expression(next)?));
                }
                Ok(Test::Chain(Box::new(first), chain))
            }
            Expr::Not(inner) => Ok(self.expression(inner)?.not()),
            Expr::Primitive(primitive, span) => self.placed(span, |c| c.primitive(primitive)),
            Expr::Relation {
                left,
                relation,
                right,
                span,
            } => self.placed(span, |c| c.relation(left, *relation, right)),
        }
    }

    fn placed(
        &mut self,
        span: &Range<usize>,
        compile: impl FnOnce(&mut Self) -> Said<Test>,
    ) -> Result<Test, Wrong> {
        match compile(self) {
            Err(_) if self.untold_is_false => Ok(Test::Always(false)),
            compiled => compiled.map_err(|what| Wrong::new(span.clone(), what)),
        }
    }

    fn primitive(&mut self, primitive: &Primitive) -> Said<Test> {
        match primitive {
            Primitive::Protocol(protocol) => self.protocol(*protocol),
            Primitive::Next(of, number) => self.next_protocol(*of, *number),
            Primitive::Chain(of, number) => self.protochain(*of, *number),
            Primitive::Llc(kind) => self.llc(*kind),
            Primitive::Wifi(test) => self.wifi(test),
            Primitive::Ipv4(protocol, direction, address, mask) => {
                self.ipv4(*protocol, *direction, *address, *mask)
            }
            Primitive::Ipv6(direction, address, mask) => self.ipv6(*direction, *address, *mask),
            Primitive::Host(protocol, direction, addresses) => {
                self.host(*protocol, *direction, addresses)
            }
            Primitive::Ether(direction, address) => self.ether(*direction, *address, "ether host"),
            Primitive::Decnet(direction, address) => self.decnet(*direction, *address),
            Primitive::Broadcast(protocol) => self.broadcast(*protocol),
            Primitive::Multicast(protocol) => self.multicast(*protocol),
            Primitive::Ports(ports) => self.ports(*ports),
            Primitive::AtMost(bytes) => {
                Ok(Test::Value(vec![step(code::LD_LEN, 0)], code::JGT_K, *bytes).not())
            }
            Primitive::AtLeast(bytes) => Ok(Test::Value(
                vec![step(code::LD_LEN, 0)],
                code::JGE_K,
                *bytes,
            )),
            Primitive::Byte(index, relation, value) => {
                let mut steps = self.load(Base::Link, within(*index)?, Size::Byte);
                Ok(match relation {
                    ByteRelation::Less => Test::Value(steps, code::JGE_K, *value).not(),
                    ByteRelation::Greater => Test::Value(steps, code::JGT_K, *value),
                    ByteRelation::Equal => Test::equal(steps, *value),
                    ByteRelation::And => Test::masked(steps, *value, 0).not(),
                    ByteRelation::Or => {
                        steps.push(step(code::OR_K, *value));
                        Test::equal(steps, 0).not()
                    }
                })
            }
            Primitive::Outbound(outbound) => self.outbound(*outbound),
            Primitive::Interface(number) => self.interface(*number),
            Primitive::Vlan(number) => self.vlan(*number),
            Primitive::Mpls(label) => self.mpls(*label),
            Primitive::PppoeDiscovery => self.payload_is(0x8863),
            Primitive::PppoeSession(number) => self.pppoe_session(*number),
            Primitive::Geneve(network) => self.geneve(*network),
            Primitive::Vxlan(network) => self.vxlan(*network),
        }
    }

    fn outbound(&mut self, outbound: bool) -> Said<Test> {
        let word = if outbound { "outbound" } else { "inbound" };
        let steps = match (self.layers.link, self.view) {
            (LinkLayer::CookedV1, _) => self.load(Base::Link, 0, Size::Half),
            (LinkLayer::CookedV2, _) => self.load(Base::Link, 10, Size::Byte),
            (_, View::Socket | View::Restored) => {
                vec![step(code::LD_ABS, code::KERNEL_PACKET_TYPE)]
            }
            (link, View::Packet) => return Err(only_live(word, link)),
        };
        let test = Test::equal(steps, code::OUTGOING);
        Ok(if outbound { test } else { test.not() })
    }

    fn interface(&mut self, number: u32) -> Said<Test> {
        let steps = match (self.layers.link, self.view) {
            (LinkLayer::CookedV2, _) => self.load(Base::Link, 4, Size::Word),
            (_, View::Socket) => vec![step(code::LD_ABS, code::KERNEL_INTERFACE)],
            (link, _) => return Err(only_live("ifindex", link)),
        };
        Ok(Test::equal(steps, number))
    }

    fn llc(&mut self, kind: Llc) -> Said<Test> {
        let any = match self.layers.link {
            LinkLayer::Ethernet => {
                let novell = Test::equal(self.load(Base::Payload, 0, Size::Half), 0xFFFF);
                self.is_802_3().and(novell.not())
            }
            LinkLayer::Wifi(_) => self.is_wifi_data(),
            link => return Err(unsupported_link("llc", link)),
        };
        Ok(match kind {
            Llc::Any => any,
            Llc::Control(value, mask) => any.and(Test::masked(
                self.load(Base::Payload, 2, Size::Byte),
                mask,
                value,
            )),
        })
    }
}

fn only_live(word: &str, link: LinkLayer) -> String {
    let name = link.name();
    format!("'{word}' is not in packets of link type {name}; only a live capture knows it")
}
