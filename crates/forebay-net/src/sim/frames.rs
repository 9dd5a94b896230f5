//! Valid frames as a function of their sequence number: Ethernet, IPv4, UDP.
//!
//! ```text
//!  0        14              34        42          50          58
//!  │ Ethernet │ IPv4, DF      │ UDP     │ sequence  │ !sequence │ filler … │
//! ```
//! The payload holds the sequence number (big-endian) and its complement. A reader that finds both knows that it is
//! a simulated frame. Their one's-complement sum is constant, so all frames of a flow have the same UDP checksum.
//! Addresses are from 198.18.0.0/15, reserved for benchmarks by RFC 2544. Source address and port distinguish 64 flows.

use super::pace::{Sizes, mix};

const FLOWS: usize = 64;
const HEADERS: usize = 42;
const LABEL: usize = 16;
/// The check sequence, which captures do not see.
const FCS: usize = 4;

/// The sequence number of a frame that a simulated card made; `None` for any other frame.
///
/// ```
/// # use forebay_net::sim::sequence_of;
/// assert_eq!(sequence_of(&[0; 60]), None);
/// ```
pub fn sequence_of(frame: &[u8]) -> Option<u64> {
    let label = frame.get(HEADERS..HEADERS + LABEL)?;
    let (sequence, complement) = label.split_at(8);
    let sequence = u64::from_be_bytes(sequence.try_into().ok()?);
    let complement = u64::from_be_bytes(complement.try_into().ok()?);
    (sequence == !complement).then_some(sequence)
}

/// Frames of one size: the headers of each flow, and the frame composed last.
struct Class {
    headers: Vec<[u8; HEADERS]>,
    frame: Vec<u8>,
}

pub(super) struct Generator {
    classes: Vec<Class>,
    /// The class of each place in the cycle of sizes.
    cycle: Vec<u8>,
    seed: u64,
}

impl Generator {
    pub fn new(sizes: Sizes, seed: u64) -> Self {
        let cycle = sizes.cycle(seed);
        let mut distinct = cycle.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let place = |&size: &u32| distinct.iter().position(|&d| d == size).unwrap_or(0) as u8;
        Generator {
            cycle: cycle.iter().map(place).collect(),
            classes: distinct
                .iter()
                .map(|&size| Class::new(size as usize - FCS, seed))
                .collect(),
            seed,
        }
    }

    #[inline]
    pub fn frame(&mut self, sequence: u64) -> &[u8] {
        let class = match self.cycle.len() {
            1 => 0,
            len => self.cycle[(sequence % len as u64) as usize],
        };
        let class = &mut self.classes[class as usize];
        let flow = (sequence ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let (headers, payload) = class.frame.split_at_mut(HEADERS);
        headers.copy_from_slice(&class.headers[flow as usize % FLOWS]);
        payload[..8].copy_from_slice(&sequence.to_be_bytes());
        payload[8..LABEL].copy_from_slice(&(!sequence).to_be_bytes());
        &class.frame
    }
}

impl Class {
    fn new(len: usize, seed: u64) -> Self {
        let mut frame = vec![0; len];
        for (at, byte) in frame[HEADERS..].iter_mut().enumerate() {
            *byte = at as u8;
        }
        // Any number works: the sum of a number and its complement does not depend on it.
        frame[HEADERS..HEADERS + 8].fill(0);
        frame[HEADERS + 8..HEADERS + LABEL].fill(0xff);
        Class {
            headers: (0..FLOWS)
                .map(|flow| headers(flow, seed, &frame[HEADERS..]))
                .collect(),
            frame,
        }
    }
}

fn headers(flow: usize, seed: u64, payload: &[u8]) -> [u8; HEADERS] {
    let random = mix(seed.wrapping_mul(FLOWS as u64).wrapping_add(flow as u64));
    let udp_len = 8 + payload.len() as u16;
    let ip_len = 20 + udp_len;
    let mut h = [0; HEADERS];
    h[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]); // locally administered
    h[6..12].copy_from_slice(&[2, 0, 0, 0, 1, flow as u8]);
    h[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    h[16..18].copy_from_slice(&ip_len.to_be_bytes());
    h[20..24].copy_from_slice(&[0x40, 0, 64, 17]); // don't fragment, time to live, UDP
    h[26..30].copy_from_slice(&[198, 18, (random >> 8) as u8, flow as u8]);
    h[30..34].copy_from_slice(&[198, 19, 0, 1]);
    let ip_sum = checksum(&[&h[14..34]]);
    h[24..26].copy_from_slice(&ip_sum.to_be_bytes());
    // The dynamic range, where analysers expect nothing in particular.
    let source_port = 49_152 + (random >> 16) as u16 % 16_384;
    h[34..36].copy_from_slice(&source_port.to_be_bytes());
    h[36..38].copy_from_slice(&9u16.to_be_bytes()); // discard
    h[38..40].copy_from_slice(&udp_len.to_be_bytes());
    let pseudo = [0, 17, (udp_len >> 8) as u8, udp_len as u8];
    let udp_sum = match checksum(&[&h[26..34], &pseudo, &h[34..42], payload]) {
        0 => 0xffff,
        sum => sum,
    };
    h[40..42].copy_from_slice(&udp_sum.to_be_bytes());
    h
}

/// The Internet checksum (RFC 1071) over parts of even length, but for the last.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for pair in parts.iter().flat_map(|part| part.chunks(2)) {
        sum += u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]) as u32;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_is_valid_and_says_its_number() {
        for (sizes, seed) in [
            (Sizes::Fixed(64), 1),
            (Sizes::Fixed(65), 2),
            (Sizes::Imix, 3),
        ] {
            let mut generator = Generator::new(sizes, seed);
            let cycle = sizes.cycle(seed);
            for sequence in (0..200).chain([u64::MAX, 1 << 40]) {
                let frame = generator.frame(sequence);
                let expected = cycle[(sequence % cycle.len() as u64) as usize] as usize - 4;
                assert_eq!(frame.len(), expected);
                assert_eq!(sequence_of(frame), Some(sequence));
                assert_eq!(checksum(&[&frame[14..34]]), 0, "IPv4 header");
                let pseudo = [0, 17, frame[38], frame[39]];
                assert_eq!(checksum(&[&frame[26..34], &pseudo, &frame[34..]]), 0, "UDP");
            }
        }
    }

    #[test]
    fn a_seed_fixes_every_byte_and_another_one_changes_them() {
        let frames = |seed| {
            let mut generator = Generator::new(Sizes::Imix, seed);
            (0..100)
                .map(|k| generator.frame(k).to_vec())
                .collect::<Vec<_>>()
        };
        assert_eq!(frames(5), frames(5));
        assert_ne!(frames(5), frames(6));
    }
}
