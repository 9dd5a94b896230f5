//! Names of addresses that answers of DNS in the capture have given.

use super::address::Address;
use std::collections::{HashMap, VecDeque};

/// The number of addresses that are remembered. Then the oldest is forgotten.
const MAX: usize = 16_384;

#[derive(Default)]
pub struct Hosts {
    names: HashMap<Address, Box<str>>,
    /// The oldest first.
    order: VecDeque<Address>,
}

impl Hosts {
    /// Remembers the name; the newest one of an address is kept. Names that could be taken for something else on a line are not
    /// used: those with other characters than host names have, and those that end like an address.
    pub fn learn(&mut self, address: Address, name: &str) {
        let name = name.trim_end_matches('.');
        let is_usual =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_host = name.bytes().all(is_usual) && last.bytes().any(|it| it.is_ascii_alphabetic());
        if !is_host {
            return;
        }
        if self.names.insert(address, name.into()).is_some() {
            return;
        }
        self.order.push_back(address);
        if self.order.len() > MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
    }

    pub fn name(&self, address: Address) -> Option<&str> {
        self.names.get(&address).map(|name| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_names_are_forgotten_and_odd_ones_are_not_used() {
        let mut hosts = Hosts::default();
        let address = |number: u32| Address::V4(number.to_be_bytes());
        for number in 0..MAX as u32 + 10 {
            hosts.learn(address(number), &format!("host{number}.example.org."));
        }
        assert_eq!(hosts.name(address(9)), None);
        assert_eq!(hosts.name(address(10)), Some("host10.example.org"));
        assert_eq!((hosts.names.len(), hosts.order.len()), (MAX, MAX));
        for odd in ["", "a b", "10.0.0.1", "a\\033[2J", "x > 10.0.0.1.80: Flags"] {
            hosts.learn(address(1), odd);
            assert_eq!(hosts.name(address(1)), None, "{odd}");
        }
    }
}
