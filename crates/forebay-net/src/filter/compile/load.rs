//! Loads of fields, relative to the headers that hold them.

use super::{
    Compiler,
    test::{Step, step},
};
use crate::filter::{bpf::code, link::Offset};

/// What a field's offset counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// The innermost link header.
    Link,
    /// The field of the link header that says what the payload is.
    Protocol,
    /// What is behind the link header: an LLC header on 802.3.
    Payload,
    Network,
    /// The network header behind an LLC header without SNAP.
    NetworkBehindLlc,
    /// Behind an IPv4 header with its options.
    Behind4,
    /// Behind an IPv6 header, not its extensions.
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
    /// The first byte of `base`, where that is a fixed place or one in a scratch cell. Behind an
    /// IPv4 header it is the place that [`ipv4_header_len`](Compiler::ipv4_header_len) is added to.
    pub(super) fn base(&self, base: Base) -> Offset {
        let layers = &self.layers;
        match base {
            Base::Link => {
                self.reads_link.set(true);
                layers.header
            }
            Base::Protocol => layers.protocol,
            Base::Payload => layers.payload,
            Base::Network | Base::Behind4 => layers.payload.plus(layers.network),
            Base::NetworkBehindLlc => layers.payload.plus(layers.network_behind_llc),
            Base::Behind6 => layers.payload.plus(layers.network + 40),
        }
    }

    /// `A =` the field `offset` bytes behind `base`.
    pub(super) fn load(&self, base: Base, offset: u32, size: Size) -> Vec<Step> {
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

    /// `X =` the length of the IPv4 header, and the scratch cell of its offset if there is one.
    pub(super) fn ipv4_header_len(&self) -> Vec<Step> {
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
