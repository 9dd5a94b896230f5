//! Composes the bytes of capture files, in either byte order: the oracle of `composed`.

use super::Packet;
use forebay_net::port::Direction;

/// A growing file, and the packets that a reader must find in it.
#[derive(Clone, Debug)]
pub struct Composed {
    pub bytes: Vec<u8>,
    pub packets: Vec<Packet>,
    /// The end of each record.
    pub ends: Vec<usize>,
    big: bool,
}

impl Composed {
    pub fn new(big: bool) -> Self {
        Composed {
            bytes: Vec::new(),
            packets: Vec::new(),
            ends: Vec::new(),
            big,
        }
    }

    /// A pcapng file that begins with a section and an Ethernet interface.
    pub fn pcapng(big: bool) -> Self {
        let mut file = Composed::new(big);
        file.section(&[]);
        file.interface(1, 0, &[]);
        file
    }

    /// Sets the byte order of what follows.
    pub fn order(&mut self, big: bool) {
        self.big = big;
    }

    pub fn u16(&self, n: u16) -> Vec<u8> {
        self.ordered(n.to_be_bytes())
    }

    pub fn u32(&self, n: u32) -> Vec<u8> {
        self.ordered(n.to_be_bytes())
    }

    pub fn u64(&self, n: u64) -> Vec<u8> {
        self.ordered(n.to_be_bytes())
    }

    fn ordered<const N: usize>(&self, mut big: [u8; N]) -> Vec<u8> {
        if !self.big {
            big.reverse();
        }
        big.to_vec()
    }

    pub fn words(&self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|&word| self.u32(word)).collect()
    }

    pub fn option(&self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [self.u16(code), self.u16(value.len() as u16), value.to_vec()].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// Appends a pcapng block around `body`.
    pub fn block(&mut self, kind: u32, body: &[u8]) {
        let len = 12 + body.len().next_multiple_of(4);
        let begin = self.bytes.len();
        self.bytes.extend(self.words(&[kind, len as u32]));
        self.bytes.extend(body);
        self.bytes.resize(begin + len - 4, 0);
        self.bytes.extend(self.u32(len as u32));
        self.ends.push(self.bytes.len());
    }

    pub fn section(&mut self, options: &[u8]) {
        let head = [
            self.u32(0x1a2b_3c4d),
            self.u16(1),
            self.u16(0),
            vec![0xff; 8],
        ];
        self.block(0x0a0d_0d0a, &[&head.concat(), options].concat());
    }

    pub fn interface(&mut self, link: u16, snaplen: u32, options: &[u8]) {
        let head = [self.u16(link), vec![0; 2], self.u32(snaplen)].concat();
        self.block(1, &[&head, options].concat());
    }

    /// Appends a packet block of kind 6 or 2, with this interface number and time. `packet` is what a reader must find.
    pub fn packet(&mut self, kind: u32, number: u32, ticks: u64, options: &[u8], packet: Packet) {
        let interface = match kind {
            2 => [number as u16, packet.dropped_before as u16]
                .map(|it| self.u16(it))
                .concat(),
            _ => self.u32(number),
        };
        let (high, len) = ((ticks >> 32) as u32, packet.data.len() as u32);
        let rest = self.words(&[high, ticks as u32, len, packet.wire_len]);
        let mut body = [interface, rest, packet.data.clone()].concat();
        body.resize(body.len().next_multiple_of(4), 0xee);
        body.extend(options);
        self.block(kind, &body);
        self.packets.push(packet);
    }

    pub fn simple(&mut self, packet: Packet) {
        let body = [self.u32(packet.wire_len), packet.data.clone()].concat();
        self.block(3, &body);
        self.packets.push(packet);
    }

    /// Appends the classic file header.
    pub fn header(&mut self, magic: u32, version: (u16, u16), snaplen: u32, link: u32) {
        let version = [self.u16(version.0), self.u16(version.1)].concat();
        let head = [self.u32(magic), version, self.words(&[0, 0, snaplen, link])].concat();
        self.bytes.extend(head);
        self.ends.push(self.bytes.len());
    }

    /// Appends a classic record, with `extra` between header and data.
    pub fn record(&mut self, words: [u32; 4], extra: &[u8], data: &[u8], packet: Packet) {
        let head = self.words(&words);
        self.bytes.extend([&head, extra, data].concat());
        self.ends.push(self.bytes.len());
        self.packets.push(packet);
    }

    /// The number of packets in the first `len` bytes. All records that are not packets must precede the first packet.
    pub fn packets_before(&self, len: usize) -> usize {
        let whole = self.ends.iter().filter(|&&end| end <= len).count();
        whole.saturating_sub(self.ends.len() - self.packets.len())
    }
}

/// A packet of `len` bytes that begins with this one.
pub fn packet_with(first: u8, len: usize) -> Packet {
    let mut packet = packet(len);
    packet.data[..len.min(1)].fill(first);
    packet
}

/// An ordinary packet of `len` bytes.
pub fn packet(len: usize) -> Packet {
    Packet {
        data: (0..len).map(|n| n as u8 ^ 0x5a).collect(),
        wire_len: len as u32 + 9,
        time_ns: 0,
        link: 1,
        interface: 0,
        direction: Direction::Unknown,
        dropped_before: 0,
    }
}
