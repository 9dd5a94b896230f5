//! A frame of an interface as the kernel's filters see it, although its outer VLAN tag was put back.

use super::{
    code,
    machine::{Loads, half},
};
use crate::port::{Direction, Frame, LinkType};

/// The two MAC addresses, which precede the tag.
const ADDRESSES: usize = 12;
const TAG_BYTES: u32 = 4;

/// A frame without the outer VLAN tag, which is metadata.
#[derive(Clone, Copy)]
pub(super) struct Restored<'a> {
    data: &'a [u8],
    is_tagged: bool,
    direction: Direction,
}

impl<'a> Restored<'a> {
    /// The kernel removes tags of these two kinds (`eth_type_vlan`) from frames of Ethernet.
    pub fn new(frame: &Frame<'a>, link: LinkType) -> Self {
        let kind = half(frame.data, ADDRESSES);
        let is_tagged = matches!(kind, Some(0x8100 | 0x88A8));
        Restored {
            data: frame.data,
            is_tagged: is_tagged && link == LinkType::ETHERNET,
            direction: frame.direction,
        }
    }

    /// The length on the wire of a frame with this length, as the kernel counts it.
    pub fn wire_len(&self, wire_len: u32) -> u32 {
        match self.is_tagged {
            true => wire_len.saturating_sub(TAG_BYTES),
            false => wire_len,
        }
    }

    /// The kernel's metadata.
    #[cold]
    fn metadata(&self, at: u32) -> Option<u32> {
        match (at, self.direction) {
            (code::KERNEL_VLAN_PRESENT, _) => Some(self.is_tagged.into()),
            (code::KERNEL_VLAN_TAG, _) if self.is_tagged => half(self.data, ADDRESSES + 2),
            (code::KERNEL_VLAN_TAG, _) => Some(0),
            (code::KERNEL_PACKET_TYPE, Direction::Inbound) => Some(0),
            (code::KERNEL_PACKET_TYPE, Direction::Outbound) => Some(code::OUTGOING),
            _ => None,
        }
    }

    #[inline]
    fn load<const N: usize>(&self, at: usize) -> Option<u32> {
        if let Ok(at @ code::KERNEL..) = u32::try_from(at) {
            return self.metadata(at);
        }
        let mut value = 0;
        for at in at..at + N {
            let is_after = self.is_tagged && at >= ADDRESSES;
            let at = if is_after {
                at + TAG_BYTES as usize
            } else {
                at
            };
            value = value << 8 | u32::from(*self.data.get(at)?);
        }
        Some(value)
    }
}

impl Loads for Restored<'_> {
    fn word(self, at: usize) -> Option<u32> {
        self.load::<4>(at)
    }

    fn half(self, at: usize) -> Option<u32> {
        self.load::<2>(at)
    }

    fn byte(self, at: usize) -> Option<u32> {
        self.load::<1>(at)
    }
}
