//! The address of an end of a packet.

use super::text::Text;

/// An address of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    V4([u8; 4]),
    V6([u8; 16]),
}

impl Address {
    pub fn print(self, out: &mut Text) {
        match self {
            Address::V4(address) => out.ipv4(address),
            Address::V6(address) => out.ipv6(address),
        };
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Address::V4(address) => address,
            Address::V6(address) => address,
        }
    }
}
