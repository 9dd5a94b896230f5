//! Packets of applications for tests: each kind of message once, with fields at random.

use etherparse::PacketBuilder;
use forebay_testing::dice::Dice;
use rustls::{
    ClientConfig, RootCertStore, Side,
    crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
    quic::{ClientConnection, Keys, Version},
};
use std::sync::Arc;

pub fn udp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let mut packet = Vec::new();
    let udp = builder.udp(ports[0], ports[1]);
    udp.write(&mut packet, payload).unwrap();
    packet
}

pub fn tcp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let mut packet = Vec::new();
    let tcp = builder.tcp(ports[0], ports[1], 1, 1000).ack(1);
    tcp.write(&mut packet, payload).unwrap();
    packet
}

/// Labels, and the byte of 0 after the last.
pub fn name(name: &str) -> Vec<u8> {
    let label = |label: &str| [&[label.len() as u8], label.as_bytes()].concat();
    let mut name: Vec<u8> = name.split('.').flat_map(label).collect();
    name.push(0);
    name
}

/// A message with one question, of this type and class, and these answers: name, type, class and data.
pub fn dns(flags: u16, question: (&str, u16, u16), answers: &[(&str, u16, u16, &[u8])]) -> Vec<u8> {
    let mut message = vec![0, 7];
    for field in [flags, 1, answers.len() as u16, 0, 0] {
        message.extend(field.to_be_bytes());
    }
    message.extend(name(question.0));
    message.extend(question.1.to_be_bytes());
    message.extend(question.2.to_be_bytes());
    for (of, kind, class, data) in answers {
        message.extend(name(of));
        for field in [*kind, *class, 0, 120, data.len() as u16] {
            message.extend(field.to_be_bytes());
        }
        message.extend(*data);
    }
    message
}

fn multicast_dns(dice: &mut Dice) -> Vec<u8> {
    let (kind, class) = (
        dice.one_of(&[1, 12, 28, 255]),
        dice.one_of(&[1, 0x8001, 3, 255]),
    );
    let target = name("printer._ipp._tcp.local");
    let answer = (
        "_ipp._tcp.local",
        12,
        dice.one_of(&[1, 0x8001, 255]),
        &*target,
    );
    let is_answer = dice.below(2_u8) == 0;
    let answers: &[_] = if is_answer { &[answer] } else { &[] };
    let flags = if is_answer { 0x8400 } else { 0 };
    let mut message = dns(flags, ("_ipp._tcp.local", kind, class), answers);
    // Answers repeat no question.
    if is_answer && class == 1 {
        message[5] = 0;
        message.drain(12..12 + name("_ipp._tcp.local").len() + 4);
    }
    message
}

fn ntp(dice: &mut Dice) -> Vec<u8> {
    let mode = dice.below(8_u8);
    let mut message = vec![dice.one_of(&[0x18, 0x20, 0xe0, 0x60]) | mode];
    let fields = match mode {
        6 => vec![
            dice.byte(),
            0,
            7,
            dice.below(2_u8),
            0,
            0,
            1,
            0,
            0,
            0,
            4,
            1,
            2,
            3,
            4,
        ],
        _ => {
            let mut fields = vec![dice.one_of(&[0, 1, 2, 9, 16, 62, 63]), dice.byte(), 0xec];
            fields.extend(dice.bytes(8));
            fields.extend(dice.one_of(&[*b"GPS\0", *b"RATE", [0; 4], [10, 0, 0, 1]]));
            for _ in 0..4 {
                fields.extend(match dice.below(5_u8) {
                    0 => vec![0; 8],
                    1 => [&[0xe8, 1, 2, 3], &*dice.bytes(4)].concat(),
                    _ => dice.bytes(8),
                });
            }
            let more = dice.one_of(&[0, 0, 4, 20, 24, 9]);
            fields.extend(dice.bytes(more));
            fields
        }
    };
    message.extend(fields);
    message
}

fn syslog(dice: &mut Dice) -> Vec<u8> {
    let priority = dice.below(1100_u16);
    format!("<{priority}>Nov 28 10:00:00 host sshd[42]: Accepted").into_bytes()
}

fn ber(tag: u8, value: &[u8]) -> Vec<u8> {
    let len = value.len();
    let mut item = vec![tag];
    match len {
        0..128 => item.push(len as u8),
        _ => item.extend([0x82, (len >> 8) as u8, len as u8]),
    }
    item.extend(value);
    item
}

fn snmp(dice: &mut Dice) -> Vec<u8> {
    let object = ber(6, &[0x2b, 6, 1, 2, 1, 1, 0x81, 5, 0]);
    let values = [
        ber(5, b""),
        ber(2, &[0xff, 7]),
        ber(2, &[3]),
        ber(4, b"router"),
        ber(4, &[1, 2, 0xff]),
        ber(6, &[0x88, 0x37, 3]),
        ber(0x40, &[10, 0, 0, 1]),
        ber(0x41, &[1, 2, 3, 4, 5]),
        ber(0x43, &[1, 2]),
        ber(0x46, &[9; 8]),
        ber(0x80, b""),
        ber(0x81, b""),
        ber(0x82, b""),
    ];
    let mut variables = Vec::new();
    for _ in 0..dice.below(20_u8) {
        let value = dice.one_of(&values);
        variables.extend(ber(0x30, &[&*object, &*value].concat()));
    }
    let variables = ber(0x30, &variables);
    let kind = 0xa0 + dice.below(9_u8);
    let mut small = || ber(2, &[dice.one_of(&[0, 0, 0, 3, 18, 30])]);
    let body = match kind {
        0xa4 => {
            let address = ber(0x40, &[10, 0, 0, 9]);
            [
                object,
                address,
                ber(2, &[6]),
                small(),
                ber(0x43, &[5]),
                variables,
            ]
            .concat()
        }
        _ => [ber(2, &[1, 2]), small(), small(), variables].concat(),
    };
    let pdu = ber(kind, &body);
    let message = match dice.below(5_u8) {
        0 | 1 => [ber(2, &[0]), ber(4, b"public"), pdu].concat(),
        2 => [ber(2, &[1]), ber(4, b"s\"ecret"), pdu].concat(),
        3 => {
            let flags = dice.one_of(&[0, 1, 3, 4, 5, 7]);
            let head = [
                ber(2, &[1]),
                ber(2, &[5, 0]),
                ber(4, &[flags]),
                ber(2, &[3]),
            ]
            .concat();
            let user = [
                ber(4, b"engine"),
                ber(2, &[1]),
                ber(2, &[2]),
                ber(4, b"admin"),
            ];
            let user = [user.concat(), ber(4, b""), ber(4, b"")].concat();
            let scoped = [ber(4, &[0x80, 1]), ber(4, b""), pdu].concat();
            let user = ber(4, &ber(0x30, &user));
            [ber(2, &[3]), ber(0x30, &head), user, ber(0x30, &scoped)].concat()
        }
        _ => [ber(2, &[7]), pdu].concat(),
    };
    ber(0x30, &message)
}

/// The ClientHello of a client that looks for this server, as QUIC carries it.
pub fn hello(server: &str) -> Vec<u8> {
    let roots = RootCertStore::empty();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_protocol_versions(&[&rustls::version::TLS13]);
    let config = config
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = server.to_owned().try_into().unwrap();
    let mut client = ClientConnection::new(Arc::new(config), Version::V1, name, vec![]).unwrap();
    let mut hello = Vec::new();
    client.write_hs(&mut hello);
    hello
}

/// The initial packet of a client with this part of a ClientHello.
pub fn initial(version: Version, id: &[u8; 8], offset: usize, part: &[u8]) -> Vec<u8> {
    let (first, number) = match version {
        Version::V2 => (0xd0, 0x6b33_43cf_u32),
        _ => (0xc0, 1),
    };
    let mut frames = vec![6, 0x80 | (offset >> 24) as u8, (offset >> 16) as u8];
    frames.extend([(offset >> 8) as u8, offset as u8]);
    frames.extend((0x4000 | part.len() as u16).to_be_bytes());
    frames.extend(part);
    frames.resize(frames.len().max(1162), 0);
    let mut header = [&[first][..], &number.to_be_bytes(), &[8], id, &[0, 0]].concat();
    header.extend((0x4000 | (frames.len() + 17) as u16).to_be_bytes());
    header.push(0);
    let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap();
    let quic = suite.quic_suite().unwrap().quic;
    let keys = Keys::initial(version, suite, quic, id, Side::Client).local;
    let tag = keys
        .packet
        .encrypt_in_place(0, &header, &mut frames)
        .unwrap();
    frames.extend(tag.as_ref());
    let (first, rest) = header.split_at_mut(1);
    let number = rest.last_chunk_mut::<1>().unwrap();
    let sample = &frames[3..19];
    keys.header
        .encrypt_in_place(sample, &mut first[0], number)
        .unwrap();
    [header, frames].concat()
}

/// One of each kind.
pub fn all(dice: &mut Dice) -> Vec<Vec<u8>> {
    let high = 40_000 + dice.below(9_u16);
    vec![
        udp([5353, 5353], &multicast_dns(dice)),
        udp([high, 123], &ntp(dice)),
        udp([high, 514], &syslog(dice)),
        udp([161, high], &snmp(dice)),
        udp([high, 162], &snmp(dice)),
        udp([high, 1900], b"M-SEARCH * HTTP/1.1\r\nST: ssdp:all\r\n\r\n"),
        udp(
            [5060, 5060],
            b"REGISTER sip:example.org SIP/2.0\r\nVia: x\r\n",
        ),
        udp([5060, 5060], b"\x01\x02 no text"),
        tcp([22, high], b"SSH-2.0-OpenSSH_9.2p1\r\n"),
        tcp([high, 22], b"SSH-2.0-cut"),
        tcp([high, 22], b"\0\0\0\x0c\x0a\x14more"),
        udp(
            [high, 443],
            &initial(Version::V1, b"8 bytes.", 0, &hello("example.org")),
        ),
        udp([443, high], b"\x40protected, without an ID that is known"),
    ]
}
