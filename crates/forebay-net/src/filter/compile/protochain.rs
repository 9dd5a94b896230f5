//! `protochain`: the protocols that follow each other in a packet, after any extension headers.
//!
//! libpcap compiles a loop, which no kernel accepts. Here the steps for one header are repeated, so a program needs no loop and ends
//! for every packet.

use super::{
    compiler::Compiler,
    load::{Base, Size},
    protocols::{IPV4, IPV6, unsupported},
    test::{PlainInstruction, Test, step},
};
use crate::filter::{ast::Protocol, bpf::code, error::Said, link::Offset};

/// The maximum number of headers that a program passes. A header after more than these is not found.
const MAX_HEADERS: usize = 16;

/// Hop-by-hop and destination options, routing, fragment. They begin with the next protocol, and with their length in units of 8 bytes
/// without the first unit.
const EXTENSIONS: [u32; 4] = [0, 60, 43, 44];
/// The length of this header is in words, without the first two.
const AUTHENTICATION: u32 = 51;

impl Compiler {
    /// True if a header of `of`, or an extension header after it, has `number` as its next protocol.
    pub(super) fn protochain(&mut self, of: Protocol, number: u32) -> Said<Test> {
        let network = self.base(Base::Network);
        // The number of the next protocol, and the offset of its header from `network`.
        let (next, at) = (self.number_cell(0), self.number_cell(1));
        let (is_ip, mut begin, extensions) = match of {
            Protocol::Any => {
                let ip = self.protochain(Protocol::Ip, number)?;
                return Ok(ip.or(self.protochain(Protocol::Ip6, number)?));
            }
            Protocol::Ip => {
                let mut begin = self.ipv4_header_len();
                begin.push(step(code::STX, at));
                begin.extend(self.load(Base::Network, 9, Size::Byte));
                (self.payload_is(IPV4)?, begin, &[][..])
            }
            Protocol::Ip6 => {
                let mut begin = match network.cell {
                    Some(cell) => vec![step(code::LD_MEM, cell.into()), step(code::ADD_K, 40)],
                    None => vec![step(code::LD_IMM, 40)],
                };
                begin.push(step(code::ST, at));
                begin.extend(self.load(Base::Network, 6, Size::Byte));
                (self.payload_is(IPV6)?, begin, &EXTENSIONS[..])
            }
            _ => return Err(unsupported(of, "protochain")),
        };
        begin.push(step(code::ST, next));
        let is = |number| Test::equal(vec![step(code::LD_MEM, next)], number);
        let passed = |first, shift| Test::Do(pass(network, next, at, first, shift));
        let mut test = is(number);
        for _ in 0..MAX_HEADERS {
            let extension = Test::any(extensions.iter().map(|it| is(*it)));
            let authentication = is(AUTHENTICATION).and(passed(2, 2));
            let header = Test::If(Box::new([extension, passed(1, 3), authentication]));
            test = is(number).or(header.and(test));
        }
        Ok(is_ip.and(Test::Do(begin)).and(test))
    }
}

/// Passes the header at `at`, whose length is that in its second byte plus `first`, in units of `1 << shift` bytes.
fn pass(network: Offset, next: u32, at: u32, first: u32, shift: u32) -> Vec<PlainInstruction> {
    vec![
        step(code::LDX_MEM, at),
        step(code::LDB_IND, network.bytes),
        step(code::ST, next),
        step(code::LDB_IND, network.bytes + 1),
        step(code::ADD_K, first),
        step(code::LSH_K, shift),
        step(code::ADD_X, 0),
        step(code::ST, at),
    ]
}
