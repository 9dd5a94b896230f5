//! Changes what ICMP and ICMPv6 messages hold of other packets: quoted packets (RFC 792, RFC 4443), gateways, and the addresses of
//! neighbour discovery (RFC 4861, RFC 8106).
//!
//! ```text
//!  ICMP error      type code sum  …  │ IP header of the quoted packet, ports, …
//!  redirect (v4)   type code sum  gateway  │ quoted packet
//!  discovery       type code sum  …  target  │ option: type, length / 8, address │ option …
//! ```
//!
//! A quoted packet is changed as it would be itself: its source is a source, although the message goes to it.

use super::{Change, Sides, frame::Edit};
use crate::port::sum;

const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;
/// Groups to which solicitations are sent, without the last three bytes, which are those of the target.
const SOLICITED_NODE: [u8; 13] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];

/// All functions return `None` if the message ends too early, or is damaged.
impl Edit<'_> {
    /// Changes what is inside the message at `at`, and adds the difference to `delta`. The checksum stays.
    pub fn message(&mut self, at: usize, is_v4: bool) -> Option<()> {
        let reaches_inside = |it: &Change| match it {
            Change::Ip { .. } | Change::Port { .. } => true,
            Change::Mac { .. } => !is_v4,
            _ => false,
        };
        // No message quotes one that quotes another packet.
        if self.is_quote || !self.rewrite.changes.iter().any(reaches_inside) {
            return Some(());
        }
        let kind = *self.bytes.get(at)?;
        let outside = std::mem::take(&mut self.delta);
        let before = sum(&self.bytes[at..]);
        let done = match (is_v4, kind) {
            (true, 3 | 4 | 11 | 12) => self.quote(at + 8, usize::MAX, true),
            (true, 5) => self
                .address(at + 4, true, Sides::Both)
                .and_then(|()| self.quote(at + 8, usize::MAX, true)),
            (false, 1..=4) => self.quote(at + 8, usize::MAX, false),
            (false, ROUTER_SOLICITATION..=REDIRECT) => self.discovery(at, kind),
            _ => Some(()),
        };
        let message = &self.bytes[at..];
        self.delta = outside;
        if sum(message) != before {
            self.delta += sum(message) + message.len().div_ceil(2) as u64 * 0xffff - before;
        }
        done
    }

    /// The packet that is quoted from `at` to `end`.
    fn quote(&mut self, at: usize, end: usize, is_v4: bool) -> Option<()> {
        let end = end.min(self.bytes.len());
        let mut quoted = Edit {
            rewrite: self.rewrite,
            bytes: &mut self.bytes[..end],
            delta: 0,
            is_cut: self.is_cut,
            is_quote: true,
            outcome: self.outcome,
        };
        let done = match is_v4 {
            true => quoted.ipv4(at),
            false => quoted.ipv6(at),
        };
        self.outcome = quoted.outcome;
        done
    }

    fn discovery(&mut self, at: usize, kind: u8) -> Option<()> {
        match kind {
            NEIGHBOUR_SOLICITATION => self.solicited(at)?,
            NEIGHBOUR_ADVERTISEMENT => self.address(at + 8, false, Sides::Source)?,
            REDIRECT => {
                self.address(at + 8, false, Sides::Both)?;
                self.address(at + 24, false, Sides::Both)?;
            }
            _ => {}
        }
        let mut option = at
            + match kind {
                ROUTER_SOLICITATION => 8,
                ROUTER_ADVERTISEMENT => 16,
                REDIRECT => 40,
                _ => 24,
            };
        // Of a message that was cut, options may be missing.
        self.bytes.get(option..)?;
        while option < self.bytes.len() {
            let len = 8 * usize::from(*self.bytes.get(option + 1)?);
            if len == 0 {
                return None;
            }
            self.option(option, len, kind)?;
            option += len;
        }
        (option == self.bytes.len()).then_some(())
    }

    /// The address whose owner is asked for. In the group to which the message is sent are bytes of it, which stay.
    fn solicited(&mut self, at: usize) -> Option<()> {
        let low = at + 21..at + 24;
        let before = self.bytes.get(low.clone())?.to_vec();
        self.address(at + 8, false, Sides::Destination)?;
        let to_group = self.bytes.get(at - 16..at - 3) == Some(&SOLICITED_NODE);
        self.outcome.incomplete |= to_group && self.bytes[low] != before;
        Some(())
    }

    fn option(&mut self, at: usize, len: usize, kind: u8) -> Option<()> {
        // Options of other lengths than these are damaged.
        let is_whole = match self.bytes[at] {
            3 => len == 32,
            25 => len > 8 && (len - 8).is_multiple_of(16),
            _ => true,
        };
        if !is_whole || at + len > self.bytes.len() {
            return None;
        }
        let bits = u32::from(*self.bytes.get(at + 2)?);
        match self.bytes[at] {
            // Link-layer addresses of the sender, and of the target.
            1 => self.mac(at + 2, Sides::Source),
            2 if kind == NEIGHBOUR_ADVERTISEMENT => self.mac(at + 2, Sides::Source),
            2 => self.mac(at + 2, Sides::Both),
            // A prefix, and a route.
            3 => self.prefix((at + 16, 16), bits, false, Sides::Both),
            24 => self.prefix((at + 8, len - 8), bits, false, Sides::Both),
            4 => self.quote(at + 8, at + len, false),
            // Servers of names.
            25 => {
                for server in (at + 8..at + len).step_by(16) {
                    self.address(server, false, Sides::Both)?;
                }
                Some(())
            }
            _ => Some(()),
        }
    }
}
