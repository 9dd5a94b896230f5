//! Valid frames as a function of their sequence number: Ethernet, IPv4, UDP.
//!
//! ```text
//!  0        14              34        42          60
//!  │ Ethernet │ IPv4, DF      │ UDP     │ label     │ filler … │
//! ```
//! The [label](crate::label) holds the sequence number. Its words add up to the same for every number, so all frames of a flow
//! have the same UDP checksum. Addresses are from 198.18.0.0/15, reserved for benchmarks by RFC 2544. Source address and port
//! distinguish the flows.

use super::Spec;
use crate::label::{self, Kind, LABEL_BYTES, Label, flow_in, flow_of, fold, mix, sum, turn_of};

const HEADERS: usize = 42;
const LABEL: std::ops::Range<usize> = HEADERS..HEADERS + LABEL_BYTES;
/// The check sequence, which captures do not see.
const FCS: usize = 4;

/// The sequence number of a frame that a simulated card made; `None` for any other frame.
///
/// ```
/// # use forebay_net::sim::sequence_of;
/// assert_eq!(sequence_of(&[0; 60]), None);
/// ```
pub fn sequence_of(frame: &[u8]) -> Option<u64> {
    let label = Label::parse(frame.get(LABEL)?)?;
    (label.kind == Kind::Numbered).then_some(label.sequence)
}

/// Where frames go, if not to the usual addresses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Target {
    /// The address of the interface that sends; `None`: one for each flow.
    pub from_mac: Option<[u8; 6]>,
    pub to_mac: Option<[u8; 6]>,
    pub from: Option<[u8; 4]>,
    pub to: Option<[u8; 4]>,
}

/// Frames of one size: the headers of each flow, and the frame composed last.
struct Class {
    headers: Vec<[u8; HEADERS]>,
    frame: Vec<u8>,
}

pub(crate) struct Generator {
    classes: Vec<Class>,
    /// The class of each place in the cycle of sizes.
    cycle: Vec<u8>,
    log_flows: u8,
    sender: u16,
    /// A round of frames, one of each flow, and how their flows are permuted. It is the same for the whole round.
    round: u64,
    turn: u64,
    /// The sum of the words of a label without a time, except its number and its check.
    label_sum: u64,
}

impl Generator {
    /// `sender` is used if `spec` names none.
    pub fn new(spec: &Spec, sender: u16, target: &Target) -> Self {
        let cycle = spec.sizes.cycle(spec.seed);
        let mut distinct = cycle.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let place = |&size: &u32| distinct.iter().position(|&d| d == size).unwrap_or(0) as u8;
        let mut generator = Generator {
            cycle: cycle.iter().map(place).collect(),
            classes: distinct
                .iter()
                .map(|&size| Class::new(size as usize - FCS, spec, target))
                .collect(),
            log_flows: spec.flows.ilog2() as u8,
            sender: spec.sender.unwrap_or(sender),
            round: u64::MAX,
            turn: 0,
            label_sum: 0,
        };
        // What `frame` leaves as it is.
        let label = generator.label(0, Kind::Numbered, None).bytes();
        generator.label_sum = label::sum_of_words(&label[..16]);
        for class in &mut generator.classes {
            class.frame[..HEADERS].copy_from_slice(&class.headers[0]);
            class.frame[LABEL].copy_from_slice(&label);
        }
        generator
    }

    fn class(&self, sequence: u64) -> usize {
        match self.cycle.len() {
            1 => 0,
            len => usize::from(self.cycle[(sequence % len as u64) as usize]),
        }
    }

    fn label(&self, sequence: u64, kind: Kind, time: Option<u32>) -> Label {
        Label {
            sequence,
            kind,
            log_flows: self.log_flows,
            sender: self.sender,
            time,
        }
    }

    /// The length of the longest frame.
    pub fn max_len(&self) -> usize {
        self.classes
            .iter()
            .map(|it| it.frame.len())
            .max()
            .unwrap_or(0)
    }

    /// The length of the frame with this number.
    #[inline]
    pub fn len_of(&self, sequence: u64) -> usize {
        self.classes[self.class(sequence)].frame.len()
    }

    /// The length of a marker: that of the shortest frame.
    pub fn marker_len(&self) -> usize {
        self.classes
            .iter()
            .map(|it| it.frame.len())
            .min()
            .unwrap_or(0)
    }

    /// Writes the frame with this number, which has the length of `room`.
    #[inline]
    pub fn write(&self, sequence: u64, time: u32, room: &mut [u8]) {
        let class = &self.classes[self.class(sequence)];
        let flow = flow_of(sequence, self.log_flows);
        let label = self.label(sequence, Kind::Numbered, Some(time));
        class.write(flow, &label, room);
    }

    /// Writes a marker, which has the length of `room`: frames sent so far.
    pub fn write_marker(&self, sent: u64, kind: Kind, time: u32, room: &mut [u8]) {
        let class = self.classes.iter().find(|it| it.frame.len() == room.len());
        if let Some(class) = class {
            class.write(0, &self.label(sent, kind, Some(time)), room);
        }
    }

    /// The frame with this number, without a time.
    #[inline]
    pub fn frame(&mut self, sequence: u64) -> &[u8] {
        let class = self.class(sequence);
        let class = &mut self.classes[class];
        // Only the number and the check differ from frame to frame, and the headers if there are several flows.
        let (frame, _) = class.frame.split_at_mut(LABEL.end);
        if self.log_flows > 0 {
            let round = sequence >> self.log_flows;
            if self.round != round {
                (self.round, self.turn) = (round, turn_of(round));
            }
            let flow = flow_in(self.turn, sequence, self.log_flows);
            frame[..HEADERS].copy_from_slice(&class.headers[flow]);
        }
        let label = &mut frame[LABEL];
        let number = sequence.to_be_bytes();
        label[..8].copy_from_slice(&number);
        let check = label::check_of(self.label_sum + label::sum_of_words(&number));
        label[16..].copy_from_slice(&check);
        &class.frame
    }
}

impl Class {
    #[inline]
    fn write(&self, flow: usize, label: &Label, room: &mut [u8]) {
        room.copy_from_slice(&self.frame);
        room[..HEADERS].copy_from_slice(&self.headers[flow]);
        room[LABEL].copy_from_slice(&label.bytes());
    }

    fn new(len: usize, spec: &Spec, target: &Target) -> Self {
        let mut frame = vec![0; len];
        for (at, byte) in frame[HEADERS..].iter_mut().enumerate() {
            *byte = at as u8;
        }
        // Any label works: its sum is always the same. Zeros have the same sum, too.
        frame[LABEL].fill(0);
        let flows = spec.flows as usize;
        Class {
            headers: (0..flows)
                .map(|flow| headers(flow, spec.seed, target, &frame[HEADERS..]))
                .collect(),
            frame,
        }
    }
}

fn headers(flow: usize, seed: u64, target: &Target, payload: &[u8]) -> [u8; HEADERS] {
    let random = mix(seed.wrapping_mul(64).wrapping_add(flow as u64));
    let udp_len = 8 + payload.len() as u16;
    let ip_len = 20 + udp_len;
    let mut h = [0; HEADERS];
    // Locally administered.
    h[..6].copy_from_slice(&target.to_mac.unwrap_or([2, 0, 0, 0, 0, 1]));
    h[6..12].copy_from_slice(&target.from_mac.unwrap_or([2, 0, 0, 0, 1, flow as u8]));
    h[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    h[16..18].copy_from_slice(&ip_len.to_be_bytes());
    h[20..24].copy_from_slice(&[0x40, 0, 64, 17]); // don't fragment, time to live, UDP
    let from = [198, 18, (random >> 8) as u8, flow as u8];
    h[26..30].copy_from_slice(&target.from.unwrap_or(from));
    h[30..34].copy_from_slice(&target.to.unwrap_or([198, 19, 0, 1]));
    let ip_sum = checksum(&[&h[14..34]]);
    h[24..26].copy_from_slice(&ip_sum.to_be_bytes());
    // The dynamic range, where analysers expect nothing in particular.
    let source_port = 49_152 + (random >> 16) as u16 % 16_384;
    h[34..36].copy_from_slice(&source_port.to_be_bytes());
    h[36..38].copy_from_slice(&label::PORT.to_be_bytes());
    h[38..40].copy_from_slice(&udp_len.to_be_bytes());
    let pseudo = [0, 17, (udp_len >> 8) as u8, udp_len as u8];
    let udp_sum = match checksum(&[&h[26..34], &pseudo, &h[34..42], payload]) {
        0 => 0xffff,
        sum => sum,
    };
    h[40..42].copy_from_slice(&udp_sum.to_be_bytes());
    h
}

/// The Internet checksum (RFC 1071) over parts of even length, except for the last.
fn checksum(parts: &[&[u8]]) -> u16 {
    let sums = parts.iter().map(|part| u64::from(sum(part)));
    !fold(sums.sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Sizes;

    #[test]
    fn every_frame_is_valid_and_says_its_number() {
        for (sizes, seed, flows) in [
            (Sizes::Fixed(64), 1, 64),
            (Sizes::Fixed(65), 2, 1),
            (Sizes::Imix, 3, 8),
        ] {
            let spec = Spec {
                sizes,
                seed,
                flows,
                ..Spec::default()
            };
            let mut generator = Generator::new(&spec, 0, &Target::default());
            let cycle = sizes.cycle(seed);
            for sequence in (0..200).chain([u64::MAX - 1, 1 << 40]) {
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
            let spec = Spec {
                sizes: Sizes::Imix,
                seed,
                ..Spec::default()
            };
            let mut generator = Generator::new(&spec, 0, &Target::default());
            (0..100)
                .map(|k| generator.frame(k).to_vec())
                .collect::<Vec<_>>()
        };
        assert_eq!(frames(5), frames(5));
        assert_ne!(frames(5), frames(6));
    }
}
