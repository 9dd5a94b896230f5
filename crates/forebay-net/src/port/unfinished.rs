//! What a sender on this machine left for the hardware to do on a frame, and the Internet checksum.

/// Work on a frame that its sender left for the hardware (offloads), and that was not done because no hardware sent the frame: its TCP
/// or UDP checksum is missing, and it may hold several segments. Also the kernel's merged segments (GRO) are described in this way.
///
/// A frame can be sent on with this description ([`TxConfig::takes_unfinished`](crate::transmit::TxConfig::takes_unfinished)), or
/// its checksum can be finished here. By default nothing is to be done.
///
/// ```
/// use forebay_net::port::Unfinished;
/// // A `struct virtio_net_hdr`: the sum from byte 34 is to be stored 6 bytes later.
/// let header = [1, 0, 0, 0, 0, 0, 34_u16.to_ne_bytes()[0], 34_u16.to_ne_bytes()[1], 6_u16.to_ne_bytes()[0], 6_u16.to_ne_bytes()[1]];
/// let unfinished = Unfinished::from_header(header);
/// assert!(unfinished.is_some() && !unfinished.is_merged());
/// let mut frame = [0; 60];
/// assert!(unfinished.finish(&mut frame));
/// assert_eq!(frame[40..42], [0xff, 0xff]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// The offset from which the checksum is computed; 0: nothing is to be done.
    from: u16,
    /// Payload bytes of each segment but the last one; 0: the frame is one segment.
    segment_bytes: u16,
    /// Where the checksum is stored, from `from`.
    at: u8,
    /// `VIRTIO_NET_HDR_GSO_…`.
    kind: u8,
}

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;
const UDP_HEADER: usize = 8;

impl Unfinished {
    /// Bytes of the header that describes it (`struct virtio_net_hdr`).
    pub const HEADER_BYTES: usize = 10;

    /// Reads the header that the kernel puts before a frame.
    pub fn from_header(header: [u8; Self::HEADER_BYTES]) -> Self {
        let [flags, kind, _, _, s0, s1, f0, f1, a0, a1] = header;
        let word = |a, b| u16::from_ne_bytes([a, b]);
        // In every known protocol, the checksum is within the first bytes of its header.
        match u8::try_from(word(a0, a1)) {
            Ok(at) if flags & NEEDS_CHECKSUM != 0 => Unfinished {
                from: word(f0, f1),
                segment_bytes: if kind == 0 { 0 } else { word(s0, s1) },
                at,
                kind,
            },
            _ => Unfinished::default(),
        }
    }

    /// The header for this frame.
    pub fn header(self, frame: &[u8]) -> [u8; Self::HEADER_BYTES] {
        if !self.is_some() {
            return [0; Self::HEADER_BYTES];
        }
        let headers = self.headers(frame).unwrap_or(0).min(frame.len());
        let [h0, h1] = (headers as u16).to_ne_bytes();
        let [s0, s1] = self.segment_bytes.to_ne_bytes();
        let [f0, f1] = self.from.to_ne_bytes();
        let [a0, a1] = u16::from(self.at).to_ne_bytes();
        [NEEDS_CHECKSUM, self.kind, h0, h1, s0, s1, f0, f1, a0, a1]
    }

    /// Whether anything is to be done.
    #[inline]
    pub fn is_some(self) -> bool {
        self.from != 0
    }

    /// Whether the frame holds several segments.
    pub fn is_merged(self) -> bool {
        self.segment_bytes != 0
    }

    /// The bytes of the longest frame that is sent for this one: of a segment with its headers, or of the frame.
    pub fn longest_frame(self, frame: &[u8]) -> usize {
        let segment = self.headers(frame).filter(|_| self.is_merged());
        let segment = segment.map(|headers| headers + usize::from(self.segment_bytes));
        segment.map_or(frame.len(), |bytes| bytes.min(frame.len()))
    }

    /// Bytes before the payload.
    fn headers(self, frame: &[u8]) -> Option<usize> {
        let from = usize::from(self.from);
        let transport = match self.kind & !GSO_ECN {
            GSO_TCPV4 | GSO_TCPV6 => usize::from(*frame.get(from + 12)? >> 4) * 4,
            _ => UDP_HEADER,
        };
        Some(from + transport)
    }

    /// Computes the checksum of this frame, which must be whole, and stores it. Returns whether that was possible: a merged frame has no
    /// checksum, and the offsets may lie outside of the frame.
    pub fn finish(self, frame: &mut [u8]) -> bool {
        let (from, at) = (usize::from(self.from), usize::from(self.at));
        if !self.is_some() || self.is_merged() || from + at + 2 > frame.len() {
            return false;
        }
        // The sender has stored the sum of the pseudo header there.
        let sum = match !folded(sum(&frame[from..])) {
            0 => 0xffff, // in UDP, 0 means that there is no checksum; both are the same number
            sum => sum,
        };
        frame[from + at..from + at + 2].copy_from_slice(&sum.to_be_bytes());
        true
    }

    /// The same after this number of bytes, such as a VLAN tag, was inserted before the network header.
    pub fn moved(self, bytes: u16) -> Self {
        match self.from.checked_add(bytes) {
            Some(from) if self.is_some() => Unfinished { from, ..self },
            _ => self,
        }
    }
}

/// The sum of 16-bit words, not folded; an odd byte at the end counts as the upper half of a word.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks(2);
    let words = pairs.map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)));
    words.sum()
}

pub(crate) fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of these words: kind, bytes of headers, of a segment, offsets of the sum and of its place.
    fn header(kind: u8, words: [u16; 4]) -> [u8; 10] {
        let mut header = [1, kind, 0, 0, 0, 0, 0, 0, 0, 0];
        for (to, word) in header[2..].chunks_exact_mut(2).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        header
    }

    #[test]
    fn a_header_of_the_kernel_is_given_back_to_it() {
        let mut frame = vec![0; 4000];
        frame[34 + 12] = 8 << 4; // the length of a TCP header with options
        let given = header(GSO_TCPV4, [66, 1448, 34, 16]);
        let unfinished = Unfinished::from_header(given);
        assert_eq!(unfinished.header(&frame), given);
        assert_eq!(unfinished.longest_frame(&frame), 66 + 1448);
        assert_eq!(unfinished.longest_frame(&frame[..700]), 700);
        let tagged = header(GSO_TCPV4, [0, 1448, 38, 16]);
        assert_eq!(unfinished.moved(4), Unfinished::from_header(tagged));
        assert_eq!(Unfinished::default().header(&frame), [0; 10]);
        assert_eq!(Unfinished::default().moved(4), Unfinished::default());
    }

    #[test]
    fn a_merged_frame_and_one_that_is_too_short_are_not_finished() {
        let merged = Unfinished::from_header(header(GSO_TCPV4, [66, 1448, 34, 16]));
        assert!(!merged.finish(&mut [0; 4000]));
        let udp = Unfinished::from_header(header(0, [0, 0, 34, 6]));
        let mut frame = [7; 41];
        assert!(!udp.finish(&mut frame) && frame == [7; 41]);
        assert_eq!(merged.longest_frame(&frame), 41);
        assert!(!Unfinished::default().finish(&mut [0; 60]));
    }

    #[test]
    fn a_finished_checksum_makes_the_sum_with_the_pseudo_header_whole() {
        // The sum of the pseudo header is where the checksum will be; an odd length.
        for len in [60, 61] {
            let mut frame: Vec<u8> = (0..len).map(|n: u8| n.wrapping_mul(7)).collect();
            let pseudo = [frame[40], frame[41]];
            assert!(Unfinished::from_header(header(0, [0, 0, 34, 6])).finish(&mut frame));
            let all = sum(&frame[34..]) + sum(&pseudo);
            assert_eq!(folded(all), 0xffff);
        }
    }
}
