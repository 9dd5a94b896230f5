//! Builds nested headers. Only fields that filters test are filled in; checksums are not.

pub type Mac = [u8; 6];

pub const STATIONS: [Mac; 8] = [
    [0x02, 0, 0, 0, 0, 0x01],
    [0x02, 0, 0, 0, 0, 0x02],
    [0x00, 0x1B, 0x21, 0xAA, 0xBB, 0xCC],
    [0xFF; 6],
    [0x01, 0x00, 0x5E, 0, 0, 0x01],
    [0x33, 0x33, 0, 0, 0, 0x01],
    [0x01, 0x80, 0xC2, 0, 0, 0],
    [0xAA, 0, 0x04, 0, 0x01, 0x04],
];
pub const HOSTS: [[u8; 4]; 12] = [
    [10, 0, 0, 1],
    [10, 0, 0, 2],
    [10, 1, 2, 3],
    [127, 0, 0, 1],
    [172, 16, 5, 4],
    [192, 168, 0, 10],
    [192, 168, 1, 1],
    [192, 168, 255, 255],
    [8, 8, 8, 8],
    [224, 0, 0, 1],
    [239, 1, 2, 3],
    [255, 255, 255, 255],
];
pub const HOSTS6: [[u8; 16]; 7] = [
    six([0x2001, 0xDB8, 0, 0, 0, 0, 0, 1]),
    six([0x2001, 0xDB8, 0, 0, 0, 0, 0, 2]),
    six([0x2001, 0xDB8, 0xFF00, 7, 0, 0, 0, 1]),
    six([0xFE80, 0, 0, 0, 0, 0, 0, 1]),
    six([0xFF02, 0, 0, 0, 0, 0, 0, 1]),
    six([0, 0, 0, 0, 0, 0, 0, 1]),
    six([0, 0, 0, 0, 0, 0xFFFF, 0x0A00, 1]),
];

const fn six(groups: [u16; 8]) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut at = 0;
    while at < 8 {
        bytes[2 * at] = (groups[at] >> 8) as u8;
        bytes[2 * at + 1] = groups[at] as u8;
        at += 1;
    }
    bytes
}

pub fn ether(to: Mac, from: Mac, kind: u16, inner: &[u8]) -> Vec<u8> {
    [&to[..], &from, &kind.to_be_bytes(), inner].concat()
}

/// 802.3: a length instead of a type, followed by LLC.
pub fn llc(to: Mac, from: Mac, inner: &[u8]) -> Vec<u8> {
    ether(to, from, inner.len() as u16, inner)
}

pub fn snap(organisation: [u8; 3], kind: u16, inner: &[u8]) -> Vec<u8> {
    let kind = kind.to_be_bytes();
    [&[0xAA, 0xAA, 3], &organisation[..], &kind, inner].concat()
}

/// Inserts a tag after the addresses of a frame.
pub fn tag(kind: u16, control: u16, frame: &[u8]) -> Vec<u8> {
    let tag = [kind.to_be_bytes(), control.to_be_bytes()].concat();
    [&frame[..12], &tag, &frame[12..]].concat()
}

/// A label stack. The last label has the bottom-of-stack bit.
pub fn mpls(labels: &[u32], inner: &[u8]) -> Vec<u8> {
    let entry = |(at, label): (usize, &u32)| {
        let bottom = u32::from(at + 1 == labels.len());
        (label << 12 | bottom << 8 | 64).to_be_bytes()
    };
    let stack: Vec<_> = labels.iter().enumerate().map(entry).collect();
    [&stack.concat(), inner].concat()
}

pub fn pppoe(code: u8, session: u16, inner: &[u8]) -> Vec<u8> {
    let len = (inner.len() as u16).to_be_bytes();
    [&[0x11, code], &session.to_be_bytes()[..], &len, inner].concat()
}

/// IPv4; `fragment` is the flags and the offset.
#[derive(Clone, Default)]
pub struct V4 {
    pub from: [u8; 4],
    pub to: [u8; 4],
    pub protocol: u8,
    pub ttl: u8,
    pub tos: u8,
    pub fragment: u16,
    pub options: Vec<u8>,
}

impl V4 {
    pub fn new(from: usize, to: usize, protocol: u8) -> Self {
        V4 {
            from: HOSTS[from % HOSTS.len()],
            to: HOSTS[to % HOSTS.len()],
            protocol,
            ttl: 64,
            ..V4::default()
        }
    }

    pub fn with(&self, inner: &[u8]) -> Vec<u8> {
        let header = 20 + self.options.len();
        let mut bytes = vec![0x40 | (header / 4) as u8, self.tos];
        bytes.extend(((header + inner.len()) as u16).to_be_bytes());
        bytes.extend([0x12, 0x34]);
        bytes.extend(self.fragment.to_be_bytes());
        bytes.extend([self.ttl, self.protocol, 0, 0]);
        [&bytes, &self.from[..], &self.to, &self.options, inner].concat()
    }
}

pub fn v6(from: usize, to: usize, next: u8, inner: &[u8]) -> Vec<u8> {
    let (from, to) = (HOSTS6[from % HOSTS6.len()], HOSTS6[to % HOSTS6.len()]);
    let len = (inner.len() as u16).to_be_bytes();
    let fixed = [&[0x60, 0, 0x12, 0x34][..], &len, &[next, 64]].concat();
    [&fixed, &from[..], &to, inner].concat()
}

/// An extension header of `8 * (1 + more)` bytes; `AH` counts in other units.
pub fn extension(next: u8, more: u8, inner: &[u8]) -> Vec<u8> {
    let padding = vec![0; 6 + 8 * more as usize];
    [&[next, more], &padding[..], inner].concat()
}

/// The fragment header of IPv6; `offset` includes the flag for more fragments.
pub fn fragment6(next: u8, offset: u16, inner: &[u8]) -> Vec<u8> {
    let [high, low] = offset.to_be_bytes();
    [&[next, 0, high, low, 0, 0, 0, 1], inner].concat()
}

/// An authentication header with a check value of 12 bytes.
pub fn ah(next: u8, inner: &[u8]) -> Vec<u8> {
    let mut header = [0; 24];
    (header[0], header[1]) = (next, 4);
    [&header[..], inner].concat()
}

pub fn tcp(from: u16, to: u16, flags: u8, options: usize, inner: &[u8]) -> Vec<u8> {
    let ports = [from.to_be_bytes(), to.to_be_bytes()].concat();
    let length = ((20 + options) / 4) as u8 * 16;
    let rest = [
        0, 0, 0, 1, 0, 0, 0, 2, length, flags, 0xFF, 0xFF, 0, 0, 0, 0,
    ];
    [&ports[..], &rest, &vec![1; options], inner].concat()
}

pub fn udp(from: u16, to: u16, inner: &[u8]) -> Vec<u8> {
    let words = [from, to, 8 + inner.len() as u16, 0];
    [&words.map(u16::to_be_bytes).concat(), inner].concat()
}

pub fn sctp(from: u16, to: u16, inner: &[u8]) -> Vec<u8> {
    let ports = [from.to_be_bytes(), to.to_be_bytes()].concat();
    [&ports[..], &[0; 8], inner].concat()
}

pub fn icmp(kind: u8, code: u8, inner: &[u8]) -> Vec<u8> {
    [&[kind, code, 0, 0, 0, 1, 0, 1], inner].concat()
}

/// ARP and RARP, which differ only in the EtherType before them.
pub fn arp(operation: u8, from: usize, to: usize) -> Vec<u8> {
    let (from, to) = (HOSTS[from % HOSTS.len()], HOSTS[to % HOSTS.len()]);
    let fixed = [0, 1, 8, 0, 6, 4, 0, operation];
    [&fixed, &STATIONS[0][..], &from, &STATIONS[1], &to].concat()
}

pub fn geneve(network: u32, options: usize, kind: u16, inner: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = network.to_be_bytes();
    let [high, low] = kind.to_be_bytes();
    let header = [(options / 4) as u8, 0, high, low, a, b, c, 0];
    [&header, &vec![0; options][..], inner].concat()
}
