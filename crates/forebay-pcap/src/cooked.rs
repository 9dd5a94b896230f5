//! Frames of all interfaces with a header of Linux "cooked" captures in place of Ethernet's. That of version 2 has the interface.
//!
//! ```text
//!  LINUX_SLL   kind (2 bytes) │ hardware │ length (2 bytes) │ sender's address (8 bytes) │ protocol │ payload …
//!  LINUX_SLL2  protocol │ 0 │ interface (4 bytes) │ hardware │ kind │ length │ sender's address (8 bytes) │ payload …
//! ```

use crate::devices::station;
use forebay_net::{
    link::{self, Link},
    port::{Direction, Frame, LinkType},
};
use std::collections::HashMap;

pub const LINUX_SLL: LinkType = LinkType(113);
pub const LINUX_SLL2: LinkType = LinkType(276);

const ETHERNET_LEN: usize = 14;
/// Smaller numbers in Ethernet's type field are lengths.
const LEAST_TYPE: u16 = 0x600;
/// The protocol of frames with a length: 802.2.
const ETH_P_802_2: u16 = 4;

/// Gives frames their headers.
pub struct Cooked {
    is_version_2: bool,
    /// The interfaces of frames, by name.
    interfaces: HashMap<String, Known>,
}

/// The index, the hardware type and the address of an interface.
type Known = (u32, u16, Option<[u8; 6]>);

impl Cooked {
    /// For frames with this link type. `None`: it is not one of cooked frames.
    pub fn new(link: LinkType) -> Option<Cooked> {
        let is_cooked = [LINUX_SLL, LINUX_SLL2].contains(&link);
        let mut cooked = is_cooked.then(|| Cooked {
            is_version_2: link == LINUX_SLL2,
            interfaces: HashMap::new(),
        })?;
        // Now, while the program has its rights and its root directory.
        for link in link::interfaces().unwrap_or_default() {
            cooked.note(&link);
        }
        Some(cooked)
    }

    fn note(&mut self, link: &Link) -> Known {
        let known = (link.index, link.hardware, station(&link.name));
        self.interfaces.insert(link.name.clone(), known);
        known
    }

    /// What is known of an interface; its index is 0 if it is gone.
    fn interface(&mut self, name: &str) -> Known {
        if let Some(&known) = self.interfaces.get(name) {
            return known;
        }
        let links = link::interfaces().unwrap_or_default();
        let found = links.iter().find(|link| link.name == name);
        found.map_or((0, 1, None), |link| self.note(link))
    }

    /// Appends a frame of this interface to `bytes`. Returns its length on the wire; `None`: it has no whole header.
    pub fn append(&mut self, frame: &Frame<'_>, name: &str, bytes: &mut Vec<u8>) -> Option<u32> {
        let (header, payload) = frame.data.split_first_chunk::<ETHERNET_LEN>()?;
        let (index, hardware, station) = self.interface(name);
        let protocol = match u16::from_be_bytes([header[12], header[13]]) {
            number @ LEAST_TYPE.. => number,
            _ => ETH_P_802_2,
        };
        // PACKET_OUTGOING, PACKET_BROADCAST, PACKET_MULTICAST, PACKET_OTHERHOST and PACKET_HOST.
        let kind = match frame.direction {
            Direction::Outbound => 4,
            _ if header[..6] == [0xff; 6] => 1,
            _ if header[0] & 1 != 0 => 2,
            _ if station.is_some_and(|station| header[..6] != station) => 3,
            _ => 0,
        };
        let begin = bytes.len();
        if self.is_version_2 {
            bytes.extend(protocol.to_be_bytes());
            bytes.extend([0, 0]);
            bytes.extend(index.to_be_bytes());
            bytes.extend(hardware.to_be_bytes());
            bytes.extend([kind, 6]);
        } else {
            bytes.extend([0, kind]);
            bytes.extend(hardware.to_be_bytes());
            bytes.extend([0, 6]);
        }
        bytes.extend(&header[6..12]);
        bytes.extend([0, 0]);
        if !self.is_version_2 {
            bytes.extend(protocol.to_be_bytes());
        }
        let header_len = bytes.len() - begin;
        bytes.extend(payload);
        Some(frame.wire_len - ETHERNET_LEN as u32 + header_len as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_known_before_their_first_frames() {
        let cooked = Cooked::new(LINUX_SLL2).unwrap();
        let expected: Vec<_> = link::interfaces().unwrap();
        for link in expected {
            assert_eq!(cooked.interfaces[&link.name].0, link.index);
        }
    }
}
