//! The end of a segment: where its directory is, written and found again.

use super::Directory;
use anyhow::{Context, Result, ensure};

/// The end of a packed segment's directory: its length as 4 bytes, and these.
const MARK: &[u8; 8] = b"FOREBAY1";
/// A zstd frame that decompressors skip.
const SKIPPABLE: u32 = 0x184d_2a50;
/// The skippable frame of the seek table.
const SEEK_TABLE: u32 = 0x184d_2a5e;
const SEEKABLE_MAGIC: u32 = 0x8f92_eab1;
/// A pcapng block for local use.
const PCAPNG_BLOCK: u32 = 0x8000_f0b5;
/// The longest end of a segment that is written and read.
const MAX_BYTES: u64 = 256 << 20;

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// What follows the blocks of a segment.
pub(super) fn write_tail(directory: &Directory, is_packed: bool) -> Result<Vec<u8>> {
    let mut json = directory.encode();
    let mut out = Vec::with_capacity(json.len() + 64);
    if !is_packed {
        json.resize(json.len().next_multiple_of(4), b' ');
        let len = u32::try_from(json.len() + 12).context("the directory is too long")?;
        out.extend(PCAPNG_BLOCK.to_le_bytes());
        out.extend(len.to_le_bytes());
        out.extend(json);
        out.extend(len.to_le_bytes());
        return check_len(out);
    }
    let len = u32::try_from(json.len()).context("the directory is too long")?;
    out.extend(SKIPPABLE.to_le_bytes());
    out.extend((len + 12).to_le_bytes());
    out.extend(json);
    out.extend(len.to_le_bytes());
    out.extend(MARK);
    out.extend(SEEK_TABLE.to_le_bytes());
    out.extend((8 * directory.blocks.len() as u32 + 9).to_le_bytes());
    for block in &directory.blocks {
        for len in [block.length, block.plain_length] {
            let len = u32::try_from(len).context("a block is too long for the seek table")?;
            out.extend(len.to_le_bytes());
        }
    }
    out.extend((directory.blocks.len() as u32).to_le_bytes());
    out.push(0); // no checksums: each frame has its own
    out.extend(SEEKABLE_MAGIC.to_le_bytes());
    check_len(out)
}

fn check_len(tail: Vec<u8>) -> Result<Vec<u8>> {
    let len = tail.len();
    ensure!(
        len as u64 <= MAX_BYTES,
        "its sections, interfaces and blocks need a directory of {len} bytes, and at most {MAX_BYTES} can be read. Split it into \
         smaller files, for example with `forebay capture -r FILE -C SIZE -w NEW`"
    );
    Ok(tail)
}

/// What the last bytes of a segment hold.
#[derive(Debug)]
pub enum Tail {
    /// The directory.
    Found(Box<Directory>),
    /// The last `n` bytes of the segment are needed.
    More(u64),
}

/// Reads the directory from the last bytes of a segment of `len` bytes.
///
/// # Errors
/// The segment is damaged, was not written by `ship`, or is of a newer version.
pub fn read_tail(last: &[u8], len: u64) -> Result<Tail> {
    let from_end = |n: u64| -> Result<Option<usize>> {
        ensure!(n <= len.min(MAX_BYTES), "its end is damaged");
        Ok(last.len().checked_sub(n as usize))
    };
    let Some(end) = from_end(4)? else {
        return Ok(Tail::More(len.min(64 << 10)));
    };
    let (begin, end) = match word(last, end) {
        Some(SEEKABLE_MAGIC) => {
            let Some(footer) = from_end(9)? else {
                return Ok(Tail::More(len.min(64 << 10)));
            };
            let blocks = u64::from(word(last, footer).context("its end is damaged")?);
            let after = 17 + 8 * blocks + 12;
            let Some(mark) = from_end(after)? else {
                return Ok(Tail::More((after + (64 << 10)).min(len)));
            };
            let json = u64::from(word(last, mark).context("its end is damaged")?);
            ensure!(last[mark + 4..].starts_with(MARK), "it has no directory");
            let Some(begin) = from_end(after + json)? else {
                return Ok(Tail::More(after + json));
            };
            (begin, mark)
        }
        Some(block) => {
            ensure!(block >= 12, "it has no directory");
            let Some(begin) = from_end(block.into())? else {
                return Ok(Tail::More(block.into()));
            };
            let is_ours =
                [word(last, begin), word(last, begin + 4)] == [Some(PCAPNG_BLOCK), Some(block)];
            ensure!(is_ours, "it has no directory");
            (begin + 8, end)
        }
        None => anyhow::bail!("its end is damaged"),
    };
    Directory::decode(&last[begin..end]).map(|it| Tail::Found(Box::new(it)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Block;

    #[test]
    fn a_directory_that_could_not_be_read_is_not_written() {
        assert!(check_len(vec![0; MAX_BYTES as usize]).is_ok());
        assert!(check_len(vec![0; MAX_BYTES as usize + 1]).is_err());
    }

    #[test]
    fn a_directory_is_found_with_any_number_of_bytes_read_first() {
        let block = |offset| Block {
            offset,
            length: 5,
            plain_length: 9,
            packets: 1,
            span: (1, 1),
        };
        for count in [0, 1, 300] {
            let directory = Directory {
                sensor: "a".into(),
                plain_bytes: 9 * count,
                packets: count,
                blocks: (0..count).map(|n| block(5 * n)).collect(),
                ..Directory::default()
            };
            for is_packed in [true, false] {
                let mut segment = vec![0; 5 * count as usize];
                segment.extend(write_tail(&directory, is_packed).unwrap());
                let len = segment.len();
                for first in [0, 1, 20, 100, len] {
                    let mut n = first.min(len);
                    let mut reads = 0;
                    let found = loop {
                        match read_tail(&segment[len - n..], len as u64).unwrap() {
                            Tail::Found(found) => break found,
                            Tail::More(more) => {
                                assert!(more as usize > n, "no progress");
                                n = more as usize;
                            }
                        }
                        reads += 1;
                        assert!(reads < 5);
                    };
                    assert_eq!(*found, directory);
                }
                segment.pop();
                assert!(read_tail(&segment, segment.len() as u64).is_err());
            }
        }
        assert!(read_tail(b"abc", 3).is_err());
    }
}
