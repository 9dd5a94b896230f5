//! Changes addresses, ports and VLAN tags of frames, and updates checksums.
//!
//! ```text
//!  mac-src=02:00:00:00:00:01          ip=10.0.0.0/8=172.16.0.0/12 … both sides      vlan=none
//!  mac=OLD=NEW                        port=80=8080                                  vlan=7   vlan=5=7
//! ```
//!
//! Checksums are updated by the difference (RFC 1624), so no payload is needed. A right checksum stays right and a wrong one
//! stays wrong, also in the first fragment of a datagram and in frames that were cut when they were captured. `checksums`
//! computes them anew instead, where the whole datagram is in the frame.
//!
//! The first IP header after the Ethernet header and its VLAN tags is changed, and the addresses in ARP and neighbour discovery. Packets
//! that ICMP errors and redirects quote are changed as they would be themselves. Headers inside tunnels are not.

mod frame;
mod message;
mod spec;

#[cfg(test)]
mod tests;

pub use frame::Outcome;

use std::net::IpAddr;

/// The changes to make to each frame. Parsed from text, several changes separated by commas; the default makes none.
///
/// ```
/// use forebay_net::replay::Rewrite;
/// let mut rewrite: Rewrite = "mac-dst=02:00:00:00:00:02,ip=10.0.0.0/24=192.168.7.0/24".parse()?;
/// rewrite.extend("port=80=8080".parse()?);
/// assert!(rewrite.is_some());
/// assert!("ip=10.0.0.0/8=192.168.7.0/24".parse::<Rewrite>().is_err());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    changes: Vec<Change>,
}

impl Rewrite {
    /// Whether there is anything to change.
    pub fn is_some(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Adds these changes after those that are there. For each field, the first change that applies is made.
    pub fn extend(&mut self, more: Rewrite) {
        self.changes.extend(more.changes);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// `from`: only addresses that are equal to it.
    Mac {
        sides: Sides,
        from: Option<[u8; 6]>,
        to: [u8; 6],
    },
    Ip {
        sides: Sides,
        from: Prefix,
        to: Prefix,
    },
    Port {
        sides: Sides,
        from: u16,
        to: u16,
    },
    /// Sets the number of the outer tag, which is added if there is none.
    SetVlan(u16),
    MapVlan {
        from: u16,
        to: u16,
    },
    RemoveVlan,
    Checksums,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sides {
    Source,
    Destination,
    Both,
}

impl Sides {
    /// Whether a change of these sides applies to a field of `side`. `Both`: a field that belongs to neither.
    fn apply_to(self, side: Sides) -> bool {
        self == Sides::Both || self == side
    }
}

/// An address and the number of its leading bits that count. Both prefixes of a change have the same length and family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    /// Left-aligned: an IPv4 address is the upper 32 bits.
    bits: u128,
    len: u32,
    is_v4: bool,
}

impl Prefix {
    fn new(address: IpAddr, len: u32) -> Prefix {
        let (bits, is_v4) = match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, true),
            IpAddr::V6(address) => (address.to_bits(), false),
        };
        let bits = bits & mask(len);
        Prefix { bits, len, is_v4 }
    }

    /// The address with this prefix replaced, if it has this one.
    fn replaced(&self, address: u128, is_v4: bool, to: &Prefix) -> Option<u128> {
        let mask = mask(self.len);
        let applies = is_v4 == self.is_v4 && address & mask == self.bits;
        applies.then_some(to.bits | address & !mask)
    }
}

/// The leading `len` bits.
fn mask(len: u32) -> u128 {
    match len {
        0 => 0,
        len => u128::MAX << (128 - len),
    }
}
