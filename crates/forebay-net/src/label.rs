//! The label in the payload of generated frames: their sender and their number.
//!
//! ```text
//!  UDP payload, from byte   0          8       10      11     14       16
//!                           │ sequence │ magic │ flags │ time │ sender │ check │ filler …
//!  flags  bits 0–2: base-2 logarithm of the number of flows   bit 5: end (else begin) of a marker
//!         bit 6: the time is present                          bit 7: a marker, not a numbered frame
//! ```
//! All numbers are big-endian. The label has 18 bytes, so that it fits into a frame of 64 bytes (60 without the frame check sequence).
//!
//! - **Check.** The nine 16-bit words of a label add up to `0xffff` in one's complement (RFC 1071). So a changed label is detected
//!   even if a capture has cut the rest of the frame. Also, all frames of one flow and size have the same UDP checksum.
//! - **Numbers.** Sequence numbers begin at 0 for each sender, and count the frames of all its flows. The flow of a frame follows
//!   from its number ([`flow_of`]), so the flows of lost frames are known, too.
//! - **Markers.** A marker is a frame that announces that a sender begins or has ended. Its sequence number is the number of frames
//!   that the sender has sent so far.
//! - **Destination.** Frames go to the UDP port 9 (discard).

use crate::port::{Frame, LinkType};

/// Bytes of a label.
pub const LABEL_BYTES: usize = 18;
/// The UDP port to which labelled frames go.
pub const PORT: u16 = 9;
/// The largest number of flows of a sender.
pub const MAX_FLOWS: u32 = 64;

const MAGIC: [u8; 2] = *b"FB";
const LOG_FLOWS: u8 = 0b111;
const IS_END: u8 = 1 << 5;
const HAS_TIME: u8 = 1 << 6;
const IS_MARKER: u8 = 1 << 7;
const UDP: u8 = 17;

/// What a labelled frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A numbered frame.
    Numbered,
    /// The sender begins. The sequence number is the number of frames sent so far: 0.
    Begin,
    /// The sender has ended. The sequence number is the number of frames that it has sent.
    End,
}

/// A label.
///
/// ```
/// use forebay_net::label::{Kind, Label};
/// let label = Label { sequence: 7, kind: Kind::Numbered, log_flows: 2, sender: 0xbeef, time: None };
/// assert_eq!(Label::parse(&label.bytes()), Some(label));
/// assert_eq!(label.flow() < 4, true);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The number of the frame, or of frames if this is a marker; less than 2⁶⁴ − 1.
    pub sequence: u64,
    /// What the frame is.
    pub kind: Kind,
    /// The base-2 logarithm of the number of flows, 0 to 6.
    pub log_flows: u8,
    /// The sender.
    pub sender: u16,
    /// When the frame was sent: Unix time in units of 1024 ns, modulo 2²⁴ (17 seconds).
    pub time: Option<u32>,
}

impl Label {
    /// The label as it is sent. Bits that do not fit into their fields are cut off.
    #[inline]
    pub fn bytes(&self) -> [u8; LABEL_BYTES] {
        let kind = match self.kind {
            Kind::Numbered => 0,
            Kind::Begin => IS_MARKER,
            Kind::End => IS_MARKER | IS_END,
        };
        let time = match self.time {
            Some(time) => u32::from(HAS_TIME) << 24 | time & 0xff_ffff,
            None => 0,
        };
        let flags = u32::from(kind | self.log_flows & LOG_FLOWS) << 24 | time;
        let mut bytes = [0; LABEL_BYTES];
        bytes[..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8..10].copy_from_slice(&MAGIC);
        bytes[10..14].copy_from_slice(&flags.to_be_bytes());
        bytes[14..16].copy_from_slice(&self.sender.to_be_bytes());
        let check = check_of(sum_of_words(&bytes));
        bytes[16..].copy_from_slice(&check);
        bytes
    }

    /// The label at the beginning of a UDP payload, if there is one and it is whole.
    #[inline]
    pub fn parse(payload: &[u8]) -> Option<Label> {
        let bytes: &[u8; LABEL_BYTES] = payload.first_chunk()?;
        let flags = bytes[10];
        let kind = match flags & (IS_MARKER | IS_END) {
            0 => Kind::Numbered,
            IS_MARKER => Kind::Begin,
            kind if kind == IS_MARKER | IS_END => Kind::End,
            _ => return None,
        };
        let is_known = flags & !(IS_MARKER | IS_END | HAS_TIME | LOG_FLOWS) == 0;
        let label = Label {
            sequence: u64::from_be_bytes(*bytes.first_chunk()?),
            kind,
            log_flows: flags & LOG_FLOWS,
            sender: u16::from_be_bytes([bytes[14], bytes[15]]),
            time: (flags & HAS_TIME != 0)
                .then(|| u32::from_be_bytes([0, bytes[11], bytes[12], bytes[13]])),
        };
        let is_valid = bytes[8..10] == MAGIC
            && sum(bytes) == 0xffff
            && is_known
            && 1 << label.log_flows <= MAX_FLOWS
            && label.sequence < u64::MAX;
        is_valid.then_some(label)
    }

    /// The flow of a numbered frame, less than the number of flows.
    #[inline]
    pub fn flow(&self) -> usize {
        flow_of(self.sequence, self.log_flows)
    }
}

/// The flow of the frame with this number. Of 2^`log_flows` frames in a row, from a multiple of that, each is of another flow.
#[inline]
pub fn flow_of(sequence: u64, log_flows: u8) -> usize {
    flow_in(turn_of(sequence >> log_flows), sequence, log_flows)
}

/// How the flows of a round are permuted: 2^`log_flows` frames in a row.
#[inline]
pub(crate) fn turn_of(round: u64) -> u64 {
    mix(round)
}

/// The flow of a frame in a round with this permutation.
#[inline]
pub(crate) fn flow_in(turn: u64, sequence: u64, log_flows: u8) -> usize {
    ((sequence ^ turn) & ((1 << log_flows) - 1)) as usize
}

/// The number of frames of `flow` before the one with this number.
pub fn frames_before(sequence: u64, flow: usize, log_flows: u8) -> u64 {
    let rounds = sequence >> log_flows;
    let rest = rounds << log_flows..sequence;
    rounds + u64::from(rest.into_iter().any(|k| flow_of(k, log_flows) == flow))
}

/// The time of a label, for nanoseconds since the Unix epoch.
#[inline]
pub fn time_of(time_ns: u64) -> u32 {
    (time_ns >> 10) as u32 & 0xff_ffff
}

/// What a frame is, as far as labels are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// It carries no label.
    Foreign,
    /// It carries a label, but its label or one of its checksums is wrong.
    Corrupted,
    /// The capture cut it before the end of a possible label.
    Cut,
    /// It carries a whole label, and its checksums are right as far as the frame was captured.
    Whole(Label),
}

/// Looks for a label in a frame: IPv4 and UDP over Ethernet with any number of VLAN tags, raw IP, or Linux' cooked headers.
pub fn find(frame: &Frame<'_>, link: LinkType) -> Found {
    find_in(frame, link).unwrap_or(Found::Foreign)
}

fn find_in(frame: &Frame<'_>, link: LinkType) -> Option<Found> {
    let packet = network_layer(frame.data, link)?;
    let is_cut = frame.data.len() < frame.wire_len as usize;
    let header_len = usize::from(packet.first()? & 0xf) * 4;
    let is_udp = packet[0] >> 4 == 4 && header_len >= 20 && *packet.get(9)? == UDP;
    let fragment = word(packet, 6)? & 0x3fff;
    let (header, rest) = packet.split_at_checked(header_len)?;
    if !is_udp || fragment != 0 || word(rest, 2)? != PORT {
        return None;
    }
    let payload = rest.get(8..)?;
    if payload.len() < LABEL_BYTES {
        return is_cut.then_some(Found::Cut);
    }
    if payload[8..10] != MAGIC {
        return None;
    }
    let udp_len = usize::from(word(rest, 4)?);
    let datagram = rest.get(..udp_len);
    let is_right = usize::from(word(packet, 2)?) == header_len + udp_len
        && udp_len >= 8 + LABEL_BYTES
        && sum(header) == 0xffff
        && match datagram {
            Some(datagram) => has_right_checksum(header, datagram),
            None => is_cut,
        };
    Some(match Label::parse(payload) {
        Some(label) if is_right => Found::Whole(label),
        _ => Found::Corrupted,
    })
}

/// The bytes from the IPv4 header on.
fn network_layer(data: &[u8], link: LinkType) -> Option<&[u8]> {
    const IPV4: u16 = 0x0800;
    const VLANS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
    const SLL2: LinkType = LinkType(276);
    const LINK_IPV4: LinkType = LinkType(228);
    // The position of the type, and the length of the header.
    let (mut at, mut len) = match link {
        LinkType::ETHERNET => (12, 14),
        LinkType::LINUX_SLL => (14, 16),
        SLL2 => (0, 20),
        LinkType::RAW | LINK_IPV4 => return Some(data),
        _ => return None,
    };
    loop {
        match word(data, at)? {
            IPV4 => return data.get(len..),
            kind if VLANS.contains(&kind) => (at, len) = (len + 2, len + 4),
            _ => return None,
        }
    }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn has_right_checksum(header: &[u8], datagram: &[u8]) -> bool {
    let len = datagram.len() as u32;
    let pseudo = u32::from(sum(&header[12..20])) + u32::from(UDP) + len;
    let has_checksum = datagram[6..8] != [0, 0];
    !has_checksum || fold(u64::from(pseudo) + u64::from(sum(datagram))) == 0xffff
}

/// The one's complement sum of the 16-bit words of `bytes` (RFC 1071). A last odd byte counts as the first of a word.
#[inline]
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    // The sum does not depend on the byte order, except for its own.
    fold(sum_of_words(bytes)).to_be()
}

/// The check that completes a label whose other words add up to `sum`.
#[inline]
pub(crate) fn check_of(sum: u64) -> [u8; 2] {
    (!fold(sum)).to_ne_bytes()
}

/// The sum of all words of 32 bits, in the byte order of this machine, before it is folded.
#[inline]
pub(crate) fn sum_of_words(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4);
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    let whole: u64 = words
        .map(|word| u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]])))
        .sum();
    whole + u64::from(u32::from_ne_bytes(last))
}

#[inline]
pub(crate) fn fold(sum: u64) -> u16 {
    // Added to itself with its halves swapped, a number has the one's complement sum of its halves in its upper half.
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

/// A well-mixed function of `x` (the finalizer of SplitMix64).
#[inline]
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{port::Port, sim::Sim};
    use forebay::time::Clock;
    use forebay_testing::dice::Dice;

    /// The first frame of a simulated card.
    fn first_frame(settings: &str) -> Vec<u8> {
        let spec = settings.parse().unwrap();
        let mut card = Sim::new(spec, Clock::virtual_time());
        let mut burst = card.receive(1).unwrap();
        burst.next_frame().unwrap().data.to_vec()
    }

    fn found(data: &[u8], link: LinkType) -> Found {
        find(&Frame::whole(data), link)
    }

    #[test]
    fn a_sum_is_folded_as_by_hand() {
        let by_hand = |mut sum: u64| {
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            sum as u16
        };
        let mut dice = Dice(1);
        let random = (0..1000).map(|_| dice.below(u64::MAX) >> dice.below(64));
        let edges = [0, 1, 0xffff, 0x1_0000, 0xffff_ffff, 1 << 32, u64::MAX];
        for sum in edges.into_iter().chain(random.collect::<Vec<_>>()) {
            assert_eq!(fold(sum), by_hand(sum), "{sum:#x}");
        }
    }

    #[test]
    fn a_label_survives_its_encoding_and_no_changed_bit() {
        let mut dice = Dice(1);
        for _ in 0..200 {
            let time = Some(time_of(dice.any()));
            let label = Label {
                sequence: dice.any() >> (dice.any() % 64),
                kind: dice.one_of(&[Kind::Numbered, Kind::Begin, Kind::End]),
                log_flows: (dice.any() % 7) as u8,
                sender: dice.any() as u16,
                time: dice.one_of(&[None, time]),
            };
            if label.sequence == u64::MAX {
                continue;
            }
            let bytes = label.bytes();
            assert_eq!(Label::parse(&bytes), Some(label));
            for bit in 0..8 * LABEL_BYTES {
                let mut changed = bytes;
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Label::parse(&changed), None, "bit {bit}");
            }
            for len in 0..LABEL_BYTES {
                assert_eq!(Label::parse(&bytes[..len]), None);
            }
        }
    }

    #[test]
    fn each_flow_has_one_frame_of_every_round_and_is_counted_without_a_loop() {
        for log_flows in 0..=6 {
            let flows = 1 << log_flows;
            let mut counted = vec![0; flows];
            for sequence in 0..1000 {
                for (flow, &count) in counted.iter().enumerate() {
                    assert_eq!(frames_before(sequence, flow, log_flows), count);
                }
                counted[flow_of(sequence, log_flows)] += 1;
            }
        }
    }

    #[test]
    fn a_frame_is_found_below_tags_and_cooked_headers_and_whatever_a_router_changes() {
        let frame = first_frame("rate=max");
        let Found::Whole(label) = found(&frame, LinkType::ETHERNET) else {
            panic!("{frame:?}");
        };
        assert_eq!((label.sequence, label.kind), (0, Kind::Numbered));
        let whole = Found::Whole(label);
        let ip = &frame[14..];
        assert_eq!(found(ip, LinkType::RAW), whole);
        let tags = [0x88, 0xa8, 0, 7, 0x81, 0, 0, 9];
        let tagged = [&frame[..12], &tags, &frame[12..]].concat();
        assert_eq!(found(&tagged, LinkType::ETHERNET), whole);
        let cooked = [[0; 14].as_slice(), &[8, 0], ip].concat();
        assert_eq!(found(&cooked, LinkType::LINUX_SLL), whole);
        let cooked = [&[8, 0], [0; 18].as_slice(), ip].concat();
        assert_eq!(found(&cooked, LinkType(276)), whole);
        let padded = [&frame[..], &[0xee; 4]].concat();
        assert_eq!(found(&padded, LinkType::ETHERNET), whole);
        // Another time to live, with the checksum that belongs to it.
        let mut routed = frame.clone();
        routed[22] -= 1;
        routed[24..26].fill(0);
        let sum = !sum(&routed[14..34]);
        routed[24..26].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(found(&routed, LinkType::ETHERNET), whole);
    }

    #[test]
    fn no_changed_bit_of_the_packet_goes_unnoticed_and_no_bytes_panic() {
        let frame = first_frame("rate=max,size=300,sender=3");
        let expected = found(&frame, LinkType::ETHERNET);
        assert!(matches!(expected, Found::Whole(_)));
        for bit in 8 * 14..8 * frame.len() {
            let mut changed = frame.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let found = found(&changed, LinkType::ETHERNET);
            assert!(matches!(found, Found::Corrupted | Found::Foreign), "{bit}");
        }
        for len in 0..frame.len() {
            let cut = Frame {
                wire_len: frame.len() as u32,
                ..Frame::whole(&frame[..len])
            };
            let expected = match len {
                0..42 => Found::Foreign,
                42..60 => Found::Cut,
                _ => expected,
            };
            assert_eq!(find(&cut, LinkType::ETHERNET), expected, "{len} bytes");
            // Without the rest, as it came from the wire.
            let torn = found(&frame[..len], LinkType::ETHERNET);
            assert!(!matches!(torn, Found::Whole(_) | Found::Cut), "{len} bytes");
        }
        let mut dice = Dice(7);
        for _ in 0..20_000 {
            let mut noise = frame.clone();
            for _ in 0..1 + dice.any() % 8 {
                let at = dice.any() as usize % noise.len();
                noise[at] = dice.any() as u8;
            }
            noise.truncate(dice.any() as usize % (noise.len() + 1));
            let links = [1, 101, 113, 276, 228, 0, 12].map(LinkType);
            let _ = found(&noise, dice.one_of(&links));
        }
    }
}
