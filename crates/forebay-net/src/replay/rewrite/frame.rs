//! Changes the bytes of one Ethernet frame. Every length is checked: frames come from files.

use super::{Change, Rewrite, Sides};
use crate::port::{folded, sum};
use forebay::packet::Packet;

/// What was done to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Something was changed.
    pub changed: bool,
    /// A change may have been due in a header, a quoted packet or a checksum that the frame does not contain: it was cut when it was
    /// captured, or its headers are damaged. Or the target of a neighbour solicitation was changed, and the group to which it is sent
    /// was not.
    pub incomplete: bool,
}

/// The two MAC addresses, after which VLAN tags and the type follow.
const ADDRESSES: usize = 12;
const TAG: usize = 4;
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const MAX_TAGS: usize = 8;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_LITE: u8 = 136;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

impl Rewrite {
    /// Makes the changes to the Ethernet frame in `packet`, which must not be shared. `wire_len` is its length when it was captured.
    ///
    /// A tag is added in the headroom if there are 4 bytes of it.
    pub fn apply(&self, packet: &mut Packet, wire_len: u32) -> Outcome {
        let mut outcome = Outcome::default();
        let is_cut = packet.len() < wire_len;
        if !self.retag(packet, &mut outcome) {
            outcome.incomplete = true;
            return outcome;
        }
        let Ok(bytes) = packet.as_mut_slice() else {
            outcome.incomplete = true;
            return outcome;
        };
        let mut edit = Edit {
            rewrite: self,
            bytes,
            delta: 0,
            is_cut,
            is_quote: false,
            outcome,
        };
        if edit.frame().is_none() {
            edit.outcome.incomplete = true;
        }
        edit.outcome
    }

    /// Changes VLAN tags. Returns whether the frame was long enough.
    fn retag(&self, packet: &mut Packet, outcome: &mut Outcome) -> bool {
        let number = |tci: u16| tci & 0x0fff;
        for change in &self.changes {
            let bytes = packet.as_slice();
            let wants = match *change {
                Change::RemoveVlan => None,
                Change::SetVlan(to) => Some((None, to)),
                Change::MapVlan { from, to } => Some((Some(from), to)),
                _ => continue,
            };
            let Some(kind) = word(bytes, ADDRESSES) else {
                return false;
            };
            let is_tagged = TAGS.contains(&kind);
            let tci = word(bytes, ADDRESSES + 2);
            match (wants, tci.filter(|_| is_tagged)) {
                (None, Some(_)) => {
                    outcome.changed = true;
                    while remove_tag(packet) {}
                }
                (Some((from, to)), Some(tci)) => {
                    if from.is_some_and(|from| from != number(tci)) {
                        continue;
                    }
                    outcome.changed |= number(tci) != to;
                    let tci = (tci & 0xf000 | to).to_be_bytes();
                    if let Ok(bytes) = packet.as_mut_slice() {
                        bytes[ADDRESSES + 2..ADDRESSES + TAG].copy_from_slice(&tci);
                    }
                    return true; // the first change that applies
                }
                (Some((None, to)), None) if !is_tagged => {
                    outcome.changed = true;
                    return add_tag(packet, to);
                }
                (_, None) if is_tagged => return false,
                _ => {}
            }
        }
        true
    }
}

/// Removes the outer tag, if there is one.
fn remove_tag(packet: &mut Packet) -> bool {
    let bytes = packet.as_slice();
    let is_tagged = word(bytes, ADDRESSES).is_some_and(|kind| TAGS.contains(&kind));
    if !is_tagged || bytes.len() < ADDRESSES + TAG {
        return false;
    }
    let Ok(bytes) = packet.as_mut_slice() else {
        return false;
    };
    bytes.copy_within(..ADDRESSES, TAG);
    packet.pull(TAG as u32).is_ok()
}

fn add_tag(packet: &mut Packet, number: u16) -> bool {
    if packet.push(TAG as u32).is_err() {
        return false;
    }
    let Ok(bytes) = packet.as_mut_slice() else {
        return false;
    };
    bytes.copy_within(TAG..TAG + ADDRESSES, 0);
    bytes[ADDRESSES..ADDRESSES + 2].copy_from_slice(&TAGS[0].to_be_bytes());
    bytes[ADDRESSES + 2..ADDRESSES + TAG].copy_from_slice(&number.to_be_bytes());
    true
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// One frame that is being changed.
pub(super) struct Edit<'a> {
    pub rewrite: &'a Rewrite,
    /// Up to the end of the IP datagram, if its header has been read.
    pub bytes: &'a mut [u8],
    /// What the changes since this was 0 add to the sum of all words: new words, and complements of old ones.
    pub delta: u64,
    pub is_cut: bool,
    /// The headers are those of a packet that an ICMP message quotes, which may be only the beginning of it.
    pub is_quote: bool,
    pub outcome: Outcome,
}

/// All functions return `None` if the frame ends too early.
impl Edit<'_> {
    fn frame(&mut self) -> Option<()> {
        self.mac(0, Sides::Destination)?;
        self.mac(6, Sides::Source)?;
        let mut at = ADDRESSES;
        let mut kind = word(self.bytes, at)?;
        for _ in 0..MAX_TAGS {
            if !TAGS.contains(&kind) {
                break;
            }
            at += TAG;
            kind = word(self.bytes, at)?;
        }
        self.delta = 0; // no checksum covers MAC addresses
        at += 2;
        match kind {
            IPV4 => self.ipv4(at),
            IPV6 => self.ipv6(at),
            ARP => self.arp(at),
            _ => Some(()),
        }
    }

    /// Replaces the bytes at an even offset from the header's start.
    fn replace(&mut self, at: usize, new: &[u8]) {
        let old = &mut self.bytes[at..at + new.len()];
        if old == new {
            return;
        }
        self.delta += sum(new) + new.len() as u64 / 2 * 0xffff - sum(old);
        old.copy_from_slice(new);
        self.outcome.changed = true;
    }

    /// The first change that applies.
    fn first<T>(&self, new: impl Fn(&Change) -> Option<T>) -> Option<T> {
        self.rewrite.changes.iter().find_map(new)
    }

    pub fn mac(&mut self, at: usize, side: Sides) -> Option<()> {
        let old: [u8; 6] = self.bytes.get(at..at + 6)?.try_into().ok()?;
        let new = self.first(|change| match *change {
            Change::Mac { sides, from, to } => {
                let applies = sides.apply_to(side) && from.is_none_or(|from| from == old);
                applies.then_some(to)
            }
            _ => None,
        });
        if let Some(new) = new {
            self.replace(at, &new);
        }
        Some(())
    }

    pub fn address(&mut self, at: usize, is_v4: bool, side: Sides) -> Option<()> {
        let (len, bits) = if is_v4 { (4, 32) } else { (16, 128) };
        self.prefix((at, len), bits, is_v4, side)
    }

    /// The first `len` bytes of an address, whose first `bits` bits count. A change for longer prefixes does not apply.
    pub fn prefix(
        &mut self,
        (at, len): (usize, usize),
        bits: u32,
        is_v4: bool,
        side: Sides,
    ) -> Option<()> {
        let mut old = [0; 16];
        old.get_mut(..len)?
            .copy_from_slice(self.bytes.get(at..at + len)?);
        let old = u128::from_be_bytes(old);
        let new = self.first(|change| match change {
            Change::Ip { sides, from, to } if sides.apply_to(side) && from.len <= bits => {
                from.replaced(old, is_v4, to)
            }
            _ => None,
        });
        if let Some(new) = new {
            self.replace(at, &new.to_be_bytes()[..len]);
        }
        Some(())
    }

    /// Adds the difference to a checksum (RFC 1624, equation 3).
    fn mend(&mut self, at: usize) -> Option<()> {
        let old = word(self.bytes, at)?;
        if self.delta > 0 {
            let new = !folded(u64::from(!old) + self.delta);
            self.bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
        }
        Some(())
    }

    fn arp(&mut self, at: usize) -> Option<()> {
        let is_ethernet_and_ipv4 = [0, 1, 0x08, 0, 6, 4];
        if *self.bytes.get(at..at + 6)? == is_ethernet_and_ipv4 {
            self.mac(at + 8, Sides::Source)?;
            self.address(at + 14, true, Sides::Source)?;
            // A request does not have it yet.
            if *self.bytes.get(at + 18..at + 24)? != [0; 6] {
                self.mac(at + 18, Sides::Destination)?;
            }
            self.address(at + 24, true, Sides::Destination)?;
        }
        Some(())
    }

    pub fn ipv4(&mut self, at: usize) -> Option<()> {
        let header = self.bytes.get(at..at + 20)?;
        let header_len = usize::from(header[0] & 0x0f) * 4;
        if header[0] >> 4 != 4 || header_len < 20 {
            return None;
        }
        let total = usize::from(word(header, 2)?);
        let fragment = word(header, 6)?;
        let protocol = header[9];
        self.address(at + 12, true, Sides::Source)?;
        self.address(at + 16, true, Sides::Destination)?;
        self.mend(at + 10)?;
        // The pseudo-header holds the same words, so the difference goes on to the next checksum.
        if fragment & 0x1fff == 0 {
            let pseudo = sum(&self.bytes[at + 12..at + 20]) + u64::from(protocol);
            let is_whole = fragment & 0x2000 == 0 && !self.is_cut;
            // It is 0 if the hardware was to split the packet.
            if total >= header_len {
                self.end_at(at + total);
            }
            let end = (is_whole && total >= header_len).then_some(at + total);
            self.transport(at + header_len, protocol, pseudo, end, true)?;
        }
        if self.recomputes() {
            let old = word(self.bytes, at + 10);
            let header = self.bytes.get_mut(at..at + header_len)?;
            header[10..12].fill(0);
            let new = !folded(sum(header));
            header[10..12].copy_from_slice(&new.to_be_bytes());
            self.outcome.changed |= old != Some(new);
        }
        Some(())
    }

    pub fn ipv6(&mut self, at: usize) -> Option<()> {
        let header = self.bytes.get(at..at + 40)?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let end = at + 40 + usize::from(word(header, 4)?);
        let mut next = header[6];
        self.address(at + 8, false, Sides::Source)?;
        let before = self.delta;
        self.address(at + 24, false, Sides::Destination)?;
        // It is 0 in a jumbogram.
        if end > at + 40 {
            self.end_at(end);
        }
        let mut is_whole = !self.is_cut;
        let mut pseudo = sum(&self.bytes[at + 8..at + 40]);
        let mut from = at + 40;
        loop {
            let len = match next {
                // Hop-by-hop options, destination options, routing.
                0 | 60 | 43 => 8 + 8 * usize::from(*self.bytes.get(from + 1)?),
                // An authentication header covers the addresses: it is wrong afterwards anyway.
                51 => 8 + 4 * usize::from(*self.bytes.get(from + 1)?),
                44 => {
                    let offset = word(self.bytes, from + 2)?;
                    if offset & 0xfff8 != 0 {
                        return Some(()); // not the first fragment: the checksum is in the first one
                    }
                    is_whole &= offset & 1 == 0;
                    8
                }
                _ => break,
            };
            // With a routing header, the checksum covers the final destination and not the present one.
            if next == 43 && *self.bytes.get(from + 3)? > 0 {
                self.delta = before;
                is_whole = false;
            }
            next = *self.bytes.get(from)?;
            from += len;
        }
        pseudo += u64::from(next);
        self.transport(from, next, pseudo, is_whole.then_some(end), false)
    }

    /// What follows the datagram, such as padding, is not looked at.
    fn end_at(&mut self, end: usize) {
        if !self.is_quote && end < self.bytes.len() {
            self.bytes = &mut std::mem::take(&mut self.bytes)[..end];
        }
    }

    /// `end`: where the datagram ends, if all of it may be in the frame.
    fn transport(
        &mut self,
        at: usize,
        protocol: u8,
        pseudo: u64,
        end: Option<usize>,
        is_v4: bool,
    ) -> Option<()> {
        let checksum = match protocol {
            TCP => at + 16,
            UDP | UDP_LITE => at + 6,
            ICMPV6 if !is_v4 => at + 2,
            ICMP if is_v4 => at + 2,
            // Without a checksum over the addresses, or unknown.
            _ => return Some(()),
        };
        let (has_ports, has_pseudo) = (!matches!(protocol, ICMP | ICMPV6), protocol != ICMP);
        if has_ports {
            self.port(at, Sides::Source)?;
            self.port(at + 2, Sides::Destination)?;
        }
        if !has_pseudo {
            self.delta = 0;
        }
        let inside = match has_ports {
            true => Some(()),
            false => self.message(at, is_v4),
        };
        let is_wanted = self.delta > 0 || self.recomputes();
        if !is_wanted {
            return inside;
        }
        let Some(old) = word(self.bytes, checksum) else {
            // Few bytes are quoted of TCP. They may end before the checksum.
            return (self.is_quote && !self.is_cut).then_some(());
        };
        // In IPv4, 0 means that there is no checksum.
        if matches!(protocol, UDP | UDP_LITE) && is_v4 && old == 0 {
            return inside;
        }
        self.mend(checksum)?;
        if self.recomputes() && protocol != UDP_LITE {
            let datagram = self.bytes.get_mut(at..end?)?;
            let len = datagram.len();
            datagram.get_mut(checksum - at..checksum - at + 2)?.fill(0);
            let pseudo = if has_pseudo { pseudo + len as u64 } else { 0 };
            let new = !folded(sum(datagram) + pseudo);
            self.outcome.changed |= new != old;
            self.bytes[checksum..checksum + 2].copy_from_slice(&new.to_be_bytes());
        }
        if matches!(protocol, UDP | UDP_LITE) && word(self.bytes, checksum) == Some(0) {
            self.bytes[checksum..checksum + 2].fill(0xff);
        }
        inside
    }

    fn port(&mut self, at: usize, side: Sides) -> Option<()> {
        let wants = |change: &Change| matches!(change, Change::Port { .. });
        let Some(old) = word(self.bytes, at) else {
            return (!self.rewrite.changes.iter().any(wants)).then_some(());
        };
        let new = self.first(|change| match *change {
            Change::Port { sides, from, to } if sides.apply_to(side) && from == old => Some(to),
            _ => None,
        });
        if let Some(new) = new {
            self.replace(at, &new.to_be_bytes());
        }
        Some(())
    }

    fn recomputes(&self) -> bool {
        // Of a quoted packet, not all is there.
        !self.is_quote && self.rewrite.changes.contains(&Change::Checksums)
    }
}
