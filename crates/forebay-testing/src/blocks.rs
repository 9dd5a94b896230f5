//! Little-endian blocks of pcapng files, to compose and to take apart.
#![allow(missing_docs)]

use std::{fs, path::Path};

pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub fn option(code: u16, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    let mut bytes = [code.to_le_bytes(), (value.len() as u16).to_le_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let len = 12 + padded as u32;
    let padding = vec![0; padded - body.len()];
    [&words(&[kind, len]), body, &padding, &words(&[len])].concat()
}

/// A section header with these options.
pub fn section(options: &[u8]) -> Vec<u8> {
    let head = words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]);
    block(0x0a0d_0d0a, &[&head, options].concat())
}

/// The header of a classic file with nanoseconds or microseconds.
pub fn classic(magic: u32, snaplen: u32, link: u32) -> Vec<u8> {
    words(&[magic, 2 | 4 << 16, 0, 0, snaplen, link])
}

/// The blocks of a file: kinds and bodies.
pub fn found(path: impl AsRef<Path>) -> Vec<(u32, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut found) = (0, Vec::new());
    while at < bytes.len() {
        let len = word(at + 4) as usize;
        assert_eq!(len, word(at + len - 4) as usize);
        found.push((word(at), bytes[at + 8..at + len - 4].to_vec()));
        at += len;
    }
    found
}
