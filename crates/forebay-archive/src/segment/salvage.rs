//! What is intact of a segment whose directory cannot be read.

use super::{
    Block, Directory,
    pack::BLOCK_BYTES,
    read::{self, Record},
};
use anyhow::{Result, anyhow, ensure};
use forebay_net::format::read::Decoder;

/// Blocks of a segment: those of a terabyte, as `ship` makes them.
const MAX_BLOCKS: usize = 1 << 20;
/// The longest block, as stored and unpacked.
const MAX_BLOCK_BYTES: usize = 32 << 20;
/// The longest sections and interfaces: a directory with more is not written.
const MAX_HEAD_BYTES: usize = 128 << 20;
/// How a zstd frame begins that is not skipped.
const ZSTD_MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
/// How the directory of a plain segment begins.
const DIRECTORY: [u8; 4] = 0x8000_f0b5_u32.to_le_bytes();

/// Walks the blocks of a segment from its beginning up to the first damage, and rebuilds their part of its directory.
///
/// The blocks after a damaged one are lost: the interfaces of their packets may have been described in it.
pub struct Salvage {
    directory: Directory,
    decoder: Option<Decoder>,
    is_packed: bool,
    /// Where a block ends, if it is known. Then nothing after it is needed.
    end: Option<u64>,
    /// Bytes of the segment, how many of them were walked, and where the next one is in the segment.
    rest: Vec<u8>,
    walked: usize,
    at: u64,
    /// The block that was begun.
    block: Block,
    head: Vec<(u64, Vec<u8>)>,
    head_bytes: usize,
}

impl Salvage {
    /// `end`: where a block ends, as the index knows it.
    pub fn new(is_packed: bool, end: Option<u64>) -> Salvage {
        Salvage {
            directory: Directory::default(),
            decoder: None,
            is_packed,
            end,
            rest: Vec::new(),
            walked: 0,
            at: 0,
            block: Block::default(),
            head: Vec::new(),
            head_bytes: 0,
        }
    }

    /// Takes the next bytes of the segment. `false`: no more blocks can be found.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        self.rest.drain(..std::mem::take(&mut self.walked));
        self.rest.extend_from_slice(bytes);
        while self.end.is_none_or(|end| self.at < end) {
            match self.next_block() {
                Ok(Some(len)) => {
                    self.walked += len;
                    self.at += len as u64;
                }
                Ok(None) => return self.rest.len() - self.walked < MAX_BLOCK_BYTES,
                Err(_) => return false,
            }
        }
        false
    }

    /// The sections, interfaces and blocks that were found. It names no sensor and no capture file.
    pub fn finish(self) -> Directory {
        self.directory
    }

    /// Walks the next block, and returns its length as stored. `None`: more bytes are needed.
    fn next_block(&mut self) -> Result<Option<usize>> {
        ensure!(self.directory.blocks.len() < MAX_BLOCKS, "too many blocks");
        if !self.is_packed {
            let plain = std::mem::take(&mut self.rest);
            let is_whole = self.walk(&plain[self.walked..]);
            self.rest = plain;
            let len = self.block.plain_length as usize;
            return Ok(is_whole?.then(|| self.end_block(len)));
        }
        let rest = &self.rest[self.walked..];
        if rest.len() < ZSTD_MAGIC.len() {
            return Ok(None);
        }
        ensure!(rest.starts_with(&ZSTD_MAGIC), "the blocks end");
        // An incomplete frame and a damaged one are the same error.
        let Ok(len) = zstd_safe::find_frame_compressed_size(rest) else {
            return Ok(None);
        };
        let stored = &rest[..len];
        let plain_length = zstd_safe::get_frame_content_size(stored).ok().flatten();
        let plain_length = plain_length.ok_or_else(|| anyhow!("it has no length"))?;
        let plain = read::unpack(stored, plain_length, true)?;
        ensure!(self.walk(&plain)?, "a block ends in the middle of a record");
        Ok(Some(self.end_block(len)))
    }

    /// Walks the records of the block that was begun, in these bytes from its beginning on. `false`: it is incomplete.
    fn walk(&mut self, plain: &[u8]) -> Result<bool> {
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            empty => match Decoder::begin(plain).map_err(|fault| anyhow!("{}", fault.what()))? {
                Some(decoder) => empty.insert(decoder),
                None => return Ok(false),
            },
        };
        let begin = self.directory.plain_bytes;
        loop {
            let len = self.block.plain_length as usize;
            let bytes = &plain[len..];
            let is_end = match (self.is_packed, self.end) {
                (true, _) => bytes.is_empty(),
                (false, Some(end)) => len >= BLOCK_BYTES || self.at + len as u64 == end,
                (false, None) => len >= BLOCK_BYTES || bytes.starts_with(&DIRECTORY),
            };
            if is_end {
                ensure!(len > 0, "the blocks end");
                return Ok(true);
            }
            let Some(Record {
                packet,
                len,
                is_head,
            }) = read::record(decoder, bytes)?
            else {
                return Ok(false);
            };
            if let Some(frame) = packet {
                self.block.add(frame.time_ns);
            } else if is_head {
                let at = begin + self.block.plain_length;
                self.head.push((at, bytes[..len].to_vec()));
                self.head_bytes += len;
                ensure!(self.head_bytes <= MAX_HEAD_BYTES, "too many interfaces");
            }
            self.block.plain_length += len as u64;
        }
    }

    /// Adds the block that was walked.
    fn end_block(&mut self, stored: usize) -> usize {
        let block = std::mem::take(&mut self.block);
        self.directory.head.append(&mut self.head);
        self.directory.push(Block {
            offset: self.at,
            length: stored as u64,
            ..block
        });
        if let Some(decoder) = &mut self.decoder {
            decoder.take_blocks(); // it keeps names, secrets and comments for a copy
        }
        stored
    }
}
