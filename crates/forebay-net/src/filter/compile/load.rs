//! Loads of fields, relative to the headers that contain them.

use super::{
    compiler::Compiler,
    test::{PlainInstruction, step},
};
use crate::filter::{bpf::code, link::Offset};

/// The header that a field's offset is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// The innermost link header.
    Link,
    /// The field of the link header with the payload's protocol.
    Protocol,
    /// After the link header; an LLC header on 802.3.
    Payload,
    Network,
    /// The network header after an LLC header without SNAP.
    NetworkBehindLlc,
    /// After an IPv4 header with its options.
    Behind4,
    /// After the fixed IPv6 header; extension headers are not skipped.
    Behind6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Byte,
    Half,
    Word,
}

impl Size {
    pub fn absolute(self) -> u16 {
        match self {
            Size::Byte => code::LDB_ABS,
            Size::Half => code::LDH_ABS,
            Size::Word => code::LD_ABS,
        }
    }

    pub fn indexed(self) -> u16 {
        match self {
            Size::Byte => code::LDB_IND,
            Size::Half => code::LDH_IND,
            Size::Word => code::LD_IND,
        }
    }
}

impl Compiler {
    /// The first byte of `base`, if that is a fixed offset or one in a scratch cell. For the payload of IPv4 it is the offset to
    /// which [`ipv4_header_len`](Compiler::ipv4_header_len) is added.
    pub(super) fn base(&self, base: Base) -> Offset {
        let layers = &self.layers;
        match base {
            Base::Link => self.reads_link.set(true),
            _ => self.reads_payload.set(true),
        }
        match base {
            Base::Link => layers.header,
            Base::Protocol => layers.protocol,
            Base::Payload => layers.payload,
            Base::Network | Base::Behind4 => layers.payload.plus(layers.network),
            Base::NetworkBehindLlc => layers.payload.plus(layers.network_behind_llc),
            Base::Behind6 => layers.payload.plus(layers.network + 40),
        }
    }

    /// Loads into A the field `offset` bytes after the start of `base`.
    pub(super) fn load(&self, base: Base, offset: u32, size: Size) -> Vec<PlainInstruction> {
        let place = self.base(base).plus(offset);
        match (base, place.cell) {
            (Base::Behind4, _) => {
                let mut steps = self.ipv4_header_len();
                steps.push(step(size.indexed(), place.bytes));
                steps
            }
            (_, Some(cell)) => vec![
                step(code::LDX_MEM, u32::from(cell)),
                step(size.indexed(), place.bytes),
            ],
            (_, None) => vec![step(size.absolute(), place.bytes)],
        }
    }

    /// Loads into X the length of the IPv4 header, plus the scratch cell of its offset if there is one.
    pub(super) fn ipv4_header_len(&self) -> Vec<PlainInstruction> {
        let place = self.base(Base::Network);
        match place.cell {
            None => vec![step(code::LDX_MSH, place.bytes)],
            Some(cell) => vec![
                step(code::LDX_MEM, u32::from(cell)),
                step(code::LDB_IND, place.bytes),
                step(code::AND_K, 0xF),
                step(code::LSH_K, 2),
                step(code::ADD_X, 0),
                step(code::TAX, 0),
            ],
        }
    }
}
