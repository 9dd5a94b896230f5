//! What the TCP headers of a connection show about it: flags, retransmissions, and round-trip times.
//!
//! Memory is fixed: of each direction only the end of the data seen so far, the latest gap in it, and one segment that has not been
//! acknowledged are kept. A capture between the two ends sees a segment that was lost after it twice. One that was lost before it
//! leaves a gap, which a later segment fills.

use std::time::Duration;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RESET: u8 = 4;
pub const ACK: u8 = 16;
/// The flags that begin and end connections.
const TURNS: u8 = FIN | SYN | RESET;

/// A segment that fills a gap within this time was only overtaken by others.
const REORDERED_WITHIN_NS: u64 = 3_000_000;
/// A SYN with a number further than this before the end of the data begins another connection.
const MAX_REPEATED: u32 = 1 << 20;

/// The fields of a TCP segment that show what happens to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// From the lowest bit on: FIN, SYN, RST, PSH, ACK, URG, ECE, CWR.
    pub flags: u8,
    pub sequence: u32,
    pub acknowledged: u32,
    /// Sequence numbers that the segment takes: its bytes of data, and one each for SYN and FIN.
    pub len: u32,
}

impl Segment {
    /// The segment that begins with `data`. It had `len` bytes on the wire, header included; `None` if its header is cut or damaged. The
    /// options may be cut.
    #[inline]
    pub fn of(data: &[u8], len: usize) -> Option<Segment> {
        let fixed = data.first_chunk::<20>()?;
        let word = |at: usize| {
            u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let flags = fixed[13];
        let payload = u32::try_from(len.checked_sub(header_len(data)?)?).ok()?;
        Some(Segment {
            flags,
            sequence: word(4),
            acknowledged: word(8),
            len: payload + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0),
        })
    }

    fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.len)
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The length of the header of TCP at the beginning of `data`; `None` if it is cut or damaged.
pub fn header_len(data: &[u8]) -> Option<usize> {
    let len = usize::from(data.get(12)? >> 4) * 4;
    (len >= 20).then_some(len)
}

/// Whether the sequence number `one` is before `two`.
fn is_before(one: u32, two: u32) -> bool {
    (one.wrapping_sub(two) as i32) < 0
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Half {
    flags: u8,
    retransmissions: u64,
    reordered: u64,
    /// The end of the data so far.
    next: Option<u32>,
    /// The latest data that is missing: its beginning, its end, and when it was noticed.
    gap: Option<(u32, u32, u64)>,
    /// The end of a segment that is timed, and when it was seen.
    timed: Option<(u32, u64)>,
    /// The shortest time from a segment to its acknowledgement.
    min_rtt_ns: Option<u64>,
}

impl Half {
    fn send(&mut self, segment: &Segment, time_ns: u64) {
        self.flags |= segment.flags;
        let Some(next) = self.next else {
            (self.next, self.timed) = (Some(segment.end()), timed(segment, time_ns));
            return;
        };
        if segment.len == 0 {
            return;
        }
        if !is_before(segment.sequence, next) {
            if segment.sequence != next {
                self.gap = Some((next, segment.sequence, time_ns));
            }
            self.timed = self.timed.or(timed(segment, time_ns));
            self.next = Some(segment.end());
            return;
        }
        let is_keep_alive = segment.len == 1
            && segment.flags & TURNS == 0
            && segment.sequence == next.wrapping_sub(1);
        if is_keep_alive {
            return;
        }
        let fills = |(begin, end, _): &(u32, u32, u64)| {
            !is_before(segment.sequence, *begin) && !is_before(*end, segment.end())
        };
        match self.gap.filter(fills) {
            Some((_, _, since)) if time_ns.saturating_sub(since) <= REORDERED_WITHIN_NS => {
                self.reordered += 1;
            }
            _ => {
                self.retransmissions += 1;
                // An acknowledgement may be that of either copy (P. Karn and C. Partridge, 1987).
                self.timed = None;
            }
        }
        if is_before(next, segment.end()) {
            self.next = Some(segment.end());
        }
    }

    /// The other end has acknowledged everything before `number`.
    fn acknowledged(&mut self, number: u32, time_ns: u64) {
        let Some((end, since)) = self.timed else {
            return;
        };
        if is_before(number, end) {
            return;
        }
        self.timed = None;
        if let Some(passed) = time_ns.checked_sub(since) {
            self.min_rtt_ns = Some(self.min_rtt_ns.map_or(passed, |min| min.min(passed)));
        }
    }
}

fn timed(segment: &Segment, time_ns: u64) -> Option<(u32, u64)> {
    (segment.len > 0).then_some((segment.end(), time_ns))
}

/// Both directions of a connection, or of several that followed each other between the same ports. Index 0 is what the first end
/// sent, index 1 what the second end sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    halves: [Half; 2],
}

impl Connection {
    /// Takes the next segment into account. `is_back`: the second end sent it.
    pub fn see(&mut self, segment: Segment, is_back: bool, time_ns: u64) {
        let [one, two] = &mut self.halves;
        let (own, other) = if is_back { (two, one) } else { (one, two) };
        // A SYN that is not sent again begins another connection between the same ports.
        let begins = segment.has(SYN)
            && (own.next).is_some_and(|next| next.wrapping_sub(segment.end()) >= MAX_REPEATED);
        if begins {
            (own.next, own.gap, own.timed) = (None, None, None);
            if !segment.has(ACK) {
                (other.next, other.gap, other.timed) = (None, None, None);
            }
        }
        if segment.has(ACK) {
            other.acknowledged(segment.acknowledged, time_ns);
        }
        own.send(&segment, time_ns);
    }

    /// The flags that each end has set.
    pub fn flags(&self) -> [u8; 2] {
        self.halves.map(|half| half.flags)
    }

    /// Segments that each end has sent again.
    pub fn retransmissions(&self) -> [u64; 2] {
        self.halves.map(|half| half.retransmissions)
    }

    /// Segments that arrived here after later ones.
    pub fn reordered(&self) -> [u64; 2] {
        self.halves.map(|half| half.reordered)
    }

    /// The shortest time from here to the second end and back, and from here to the first end and back.
    pub fn round_trips(&self) -> [Option<Duration>; 2] {
        self.halves
            .map(|half| half.min_rtt_ns.map(Duration::from_nanos))
    }

    /// The round-trip time between the ends: the sum of both ways, as far as they are known.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trips()
            .into_iter()
            .flatten()
            .reduce(Duration::saturating_add)
    }
}

/// The flags as letters, from the lowest bit on, as tcpdump prints them.
pub fn letters(flags: u8) -> String {
    let letters = "FSRP.UEW".chars().enumerate();
    letters
        .filter_map(|(bit, letter)| (flags >> bit & 1 == 1).then_some(letter))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PSH_ACK: u8 = 24;

    fn segment(flags: u8, sequence: u32, acknowledged: u32, len: u32) -> Segment {
        Segment {
            flags,
            sequence,
            acknowledged,
            len,
        }
    }

    /// A connection after its handshake, as seen 1 ms from the first end and 9 ms from the second one.
    fn open(first: u32) -> Connection {
        let mut connection = Connection::default();
        connection.see(segment(SYN, first, 0, 1), false, 0);
        let syn_ack = segment(SYN | ACK, 5000, first.wrapping_add(1), 1);
        connection.see(syn_ack, true, 18_000_000);
        let ack = segment(ACK, first.wrapping_add(1), 5001, 0);
        connection.see(ack, false, 20_000_000);
        connection
    }

    #[test]
    fn the_handshake_shows_the_round_trip_time_of_both_ways() {
        let connection = open(u32::MAX - 1);
        let millis = Duration::from_millis;
        assert_eq!(
            connection.round_trips(),
            [Some(millis(18)), Some(millis(2))]
        );
        assert_eq!(connection.round_trip(), Some(millis(20)));
        assert_eq!(connection.retransmissions(), [0, 0]);
        assert_eq!(connection.flags().map(letters), ["S.", "S."]);
    }

    #[test]
    fn segments_that_are_seen_twice_or_that_fill_an_old_gap_are_retransmissions() {
        // The numbers wrap.
        let first = u32::MAX - 150;
        let mut connection = open(first);
        let data = |number: u32| {
            let sequence = first.wrapping_add(1 + 100 * number);
            segment(PSH_ACK, sequence, 5001, 100)
        };
        let ms = |ms: u64| ms * 1_000_000;
        connection.see(data(0), false, ms(30));
        connection.see(data(1), false, ms(31));
        connection.see(data(0), false, ms(400));
        assert_eq!(connection.retransmissions(), [1, 0]);
        // 2 is missing, and is sent again.
        connection.see(data(3), false, ms(401));
        connection.see(data(2), false, ms(600));
        assert_eq!(connection.retransmissions(), [2, 0]);
        // 4 is overtaken by 5.
        connection.see(data(5), false, ms(700));
        connection.see(data(4), false, ms(701));
        assert_eq!(
            (connection.retransmissions(), connection.reordered()),
            ([2, 0], [1, 0])
        );
        // A keep-alive repeats the last byte.
        let last = first.wrapping_add(600);
        connection.see(segment(ACK, last, 5001, 1), false, ms(9000));
        assert_eq!(connection.retransmissions(), [2, 0]);
    }

    #[test]
    fn an_acknowledgement_of_data_that_was_sent_twice_is_not_timed() {
        let mut connection = open(0);
        let data = segment(PSH_ACK, 1, 5001, 100);
        connection.see(data, false, 1_000_000_000);
        connection.see(data, false, 1_200_000_000);
        connection.see(segment(ACK, 5001, 101, 0), true, 1_200_000_001);
        assert_eq!(connection.round_trips()[0], Some(Duration::from_millis(18)));
    }

    #[test]
    fn a_lost_syn_is_sent_again_and_another_connection_begins_anew() {
        let mut connection = Connection::default();
        let syn = segment(SYN, 700, 0, 1);
        connection.see(syn, false, 0);
        connection.see(syn, false, 1_000_000_000);
        assert_eq!(connection.retransmissions(), [1, 0]);
        connection.see(segment(SYN, 3_000_000_000, 0, 1), false, 60_000_000_000);
        connection.see(
            segment(SYN | ACK, 9, 3_000_000_001, 1),
            true,
            60_005_000_000,
        );
        assert_eq!(connection.retransmissions(), [1, 0]);
        assert_eq!(connection.round_trip(), Some(Duration::from_millis(5)));
    }

    proptest! {
        #[test]
        fn any_bytes_and_any_order_are_survived(
            packets in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..70), any::<bool>(), any::<u64>(), 0_usize..70_000), 0..50),
        ) {
            let mut connection = Connection::default();
            for (bytes, is_back, time_ns, len) in packets {
                if let Some(segment) = Segment::of(&bytes, len) {
                    connection.see(segment, is_back, time_ns);
                }
            }
            let segments: u64 = connection.retransmissions().iter().chain(&connection.reordered()).sum();
            prop_assert!(segments <= 50);
        }
    }
}
