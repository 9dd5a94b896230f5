//! Reading one block of a segment alone.

use super::Directory;
use anyhow::{Context, Result, anyhow, ensure};
use forebay_net::{
    format::read::{Decoder, Step},
    port::Frame,
};

/// The decoder in the state that it has at the beginning of a block: after all sections and interfaces that precede the block in the
/// capture file. Interfaces have the numbers that they have in the whole file.
///
/// # Errors
/// The directory does not describe a capture file.
pub fn decoder(directory: &Directory, block: usize) -> Result<Decoder> {
    let end = directory.plain_offset(block);
    let head = directory.head.iter().take_while(|(at, _)| *at < end);
    let mut decoder = None;
    for (_, bytes) in head {
        let decoder = match &mut decoder {
            Some(decoder) => decoder,
            None => decoder.insert(begin(bytes)?),
        };
        match decoder.next(bytes) {
            Ok(Step::Described(len) | Step::Other(len)) if len == bytes.len() => {}
            Ok(_) => {
                return Err(anyhow!(
                    "its directory has a section or interface that is none"
                ));
            }
            Err(fault) => return Err(anyhow!("its directory has a piece that {}", fault.what())),
        }
    }
    match (decoder, directory.head.first()) {
        (Some(decoder), _) => Ok(decoder),
        // The first block begins with the section header.
        (None, Some((_, first))) => begin(first),
        (None, None) => Err(anyhow!("its directory has no section")),
    }
}

fn begin(bytes: &[u8]) -> Result<Decoder> {
    let decoder =
        Decoder::begin(bytes).map_err(|fault| anyhow!("its directory {}", fault.what()))?;
    decoder.context("its directory has an incomplete section")
}

/// The records of a block, from its bytes as stored.
///
/// # Errors
/// The bytes are damaged.
pub fn unpack(stored: &[u8], plain_length: u64, is_packed: bool) -> Result<Vec<u8>> {
    if !is_packed {
        ensure!(
            stored.len() as u64 == plain_length,
            "a block has the wrong length"
        );
        return Ok(stored.to_vec());
    }
    // Every record is at most 16 MiB, so a block has at most this plus one record.
    ensure!(plain_length <= (32 << 20), "a block is too long");
    let mut plain = vec![0; plain_length as usize];
    let len = zstd_safe::decompress(&mut plain[..], stored).map_err(|code| {
        let cause = zstd_safe::get_error_name(code).to_lowercase();
        anyhow!("a block cannot be decompressed: {cause}")
    })?;
    ensure!(len as u64 == plain_length, "a block has the wrong length");
    Ok(plain)
}

/// The record at the beginning of `bytes`, which are the rest of a block: a packet, or something else, and its length.
///
/// # Errors
/// The block is damaged.
pub fn next_record<'a>(
    decoder: &mut Decoder,
    bytes: &'a [u8],
) -> Result<(Option<Frame<'a>>, usize)> {
    let record = record(decoder, bytes)?;
    let record = record.context("a block ends in the middle of a record")?;
    Ok((record.packet, record.len))
}

/// A record of a capture file.
pub(super) struct Record<'a> {
    pub(super) packet: Option<Frame<'a>>,
    pub(super) len: usize,
    /// It is a section or an interface.
    pub(super) is_head: bool,
}

/// As [`next_record`]; `None`: it is incomplete.
pub(super) fn record<'a>(decoder: &mut Decoder, bytes: &'a [u8]) -> Result<Option<Record<'a>>> {
    let other = |len, is_head| Record {
        packet: None,
        len,
        is_head,
    };
    loop {
        return match decoder.next(bytes) {
            Ok(Step::Packet(frame, len)) => {
                if frame.data.is_empty() {
                    decoder.took_empty();
                }
                Ok(Some(Record {
                    packet: Some(frame),
                    ..other(len, false)
                }))
            }
            Ok(Step::Described(len)) => Ok(Some(other(len, true))),
            Ok(Step::Other(len)) => Ok(Some(other(len, false))),
            // Records of zeros at the end of a file are no packets, but a file that ends so is not packed. So these are packets,
            // also at the end of a block: other bytes follow in the next one.
            Ok(Step::Zeros) => {
                let mut bytes = bytes[..bytes.len().min(64)].to_vec();
                bytes.push(1);
                decoder.classify_zeros(&bytes, true);
                continue;
            }
            Ok(Step::More(_)) => Ok(None),
            Err(fault) => Err(anyhow!(
                "a block has a {} that {}",
                decoder.unit(),
                fault.what()
            )),
        };
    }
}
