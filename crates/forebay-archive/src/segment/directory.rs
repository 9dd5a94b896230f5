//! What a segment holds: its blocks, its sections and interfaces, and its sums.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// One block of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Its first byte in the segment, as stored.
    pub offset: u64,
    /// Its length in the segment, as stored.
    pub length: u64,
    /// Its length before it was packed.
    pub plain_length: u64,
    /// Packets in it.
    pub packets: u64,
    /// The earliest and the latest time of its packets, in nanoseconds since 1970; both 0 if it has none.
    pub span: (u64, u64),
}

/// The directory of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// The sensor that captured it.
    pub sensor: String,
    /// The SHA-256 of the capture file, in hexadecimal digits.
    pub sha256: String,
    /// `pcapng` or `pcap`.
    pub format: String,
    /// The length of the capture file.
    pub plain_bytes: u64,
    /// Packets in it.
    pub packets: u64,
    /// Packets that the capture counted for this file in its statistics. `None`: it has none.
    pub captured: Option<u64>,
    /// Packets that the source lost. `None`: unknown.
    pub lost_kernel: Option<u64>,
    /// Packets that the interface lost. `None`: unknown.
    pub lost_interface: Option<u64>,
    /// The earliest time of its packets, in nanoseconds since 1970.
    pub first_ns: Option<u64>,
    /// The latest time of its packets.
    pub last_ns: Option<u64>,
    /// Sections and interfaces: the position of each in the capture file, and its bytes.
    pub head: Vec<(u64, Vec<u8>)>,
    /// The blocks, in order.
    pub blocks: Vec<Block>,
}

impl Block {
    /// Counts a packet with this time.
    pub(super) fn add(&mut self, time: u64) {
        self.span = match self.packets {
            0 => (time, time),
            _ => (self.span.0.min(time), self.span.1.max(time)),
        };
        self.packets += 1;
    }
}

const SCHEMA: u64 = 1;
/// Every record is at most 16 MiB, so a block has at most this plus what precedes the last record.
const MAX_BLOCK_BYTES: u64 = 32 << 20;

impl Directory {
    /// The directory as JSON.
    pub fn encode(&self) -> Vec<u8> {
        let head = self.head.iter().map(|(at, bytes)| json!([at, hex(bytes)]));
        let blocks = self.blocks.iter().map(|it| {
            let (first, last) = it.span;
            json!([
                it.offset,
                it.length,
                it.plain_length,
                it.packets,
                first,
                last
            ])
        });
        let value = json!({
            "forebay_segment": SCHEMA,
            "sensor": self.sensor,
            "sha256": self.sha256,
            "format": self.format,
            "plain_bytes": self.plain_bytes,
            "packets": self.packets,
            "captured": self.captured,
            "lost_kernel": self.lost_kernel,
            "lost_interface": self.lost_interface,
            "first_ns": self.first_ns,
            "last_ns": self.last_ns,
            "head": head.collect::<Vec<_>>(),
            "blocks": blocks.collect::<Vec<_>>(),
        });
        value.to_string().into_bytes()
    }

    /// Decodes a directory and checks it: its blocks follow each other from the beginning of the segment, and their sums are the
    /// segment's.
    ///
    /// # Errors
    /// It is malformed, or of a newer version of forebay.
    pub fn decode(bytes: &[u8]) -> Result<Directory> {
        let value: Value = serde_json::from_slice(bytes).context("its directory is not JSON")?;
        let number = |name: &str| value[name].as_u64();
        let text = |name: &str| {
            let text = value[name].as_str().map(str::to_owned);
            text.with_context(|| format!("its directory has no `{name}`"))
        };
        let needed = |name: &str| {
            number(name).with_context(|| format!("its directory has no number `{name}`"))
        };
        let schema = needed("forebay_segment")?;
        ensure!(
            schema == SCHEMA,
            "its directory has version {schema}, this program knows {SCHEMA}: install a newer forebay-archive"
        );
        let list = |name: &str| value[name].as_array().map_or(&[][..], Vec::as_slice);
        let head = list("head").iter().map(|piece| {
            let bytes = piece[1].as_str().and_then(unhex);
            Some((piece[0].as_u64()?, bytes?))
        });
        let head = head.collect::<Option<Vec<_>>>();
        let mut blocks = Vec::new();
        for entry in list("blocks") {
            let numbers: Option<Vec<u64>> = (0..6).map(|at| entry[at].as_u64()).collect();
            let Some(&[offset, length, plain_length, packets, first, last]) = numbers.as_deref()
            else {
                bail!("its directory has a malformed block");
            };
            blocks.push(Block {
                offset,
                length,
                plain_length,
                packets,
                span: (first, last),
            });
        }
        let directory = Directory {
            sensor: text("sensor")?,
            sha256: text("sha256")?,
            format: text("format")?,
            plain_bytes: needed("plain_bytes")?,
            packets: needed("packets")?,
            captured: number("captured"),
            lost_kernel: number("lost_kernel"),
            lost_interface: number("lost_interface"),
            first_ns: number("first_ns"),
            last_ns: number("last_ns"),
            head: head.context("its directory has a malformed section or interface")?,
            blocks,
        };
        directory.check()?;
        Ok(directory)
    }

    fn check(&self) -> Result<()> {
        let (mut stored, mut plain, mut packets) = (0_u64, 0_u64, 0_u64);
        for block in &self.blocks {
            ensure!(
                block.offset == stored,
                "its blocks do not follow each other"
            );
            ensure!(
                block.length.max(block.plain_length) <= MAX_BLOCK_BYTES,
                "a block is too long"
            );
            let sums = [
                (&mut stored, block.length),
                (&mut plain, block.plain_length),
                (&mut packets, block.packets),
            ];
            for (sum, more) in sums {
                *sum = sum.checked_add(more).context("its blocks are too long")?;
            }
        }
        ensure!(
            (plain, packets) == (self.plain_bytes, self.packets),
            "its blocks have {packets} packets in {plain} bytes, its directory says {} in {}",
            self.packets,
            self.plain_bytes
        );
        Ok(())
    }

    /// Adds the next block, and its sums.
    pub(super) fn push(&mut self, block: Block) {
        self.plain_bytes += block.plain_length;
        self.packets += block.packets;
        if block.packets > 0 {
            let (first, last) = block.span;
            self.first_ns = Some(self.first_ns.map_or(first, |it| it.min(first)));
            self.last_ns = Some(self.last_ns.map_or(last, |it| it.max(last)));
        }
        self.blocks.push(block);
    }

    /// The position of a block in the capture file.
    pub fn plain_offset(&self, block: usize) -> u64 {
        self.blocks[..block].iter().map(|it| it.plain_length).sum()
    }

    /// The number of the block that begins at this byte of the segment.
    pub fn block_at(&self, offset: u64) -> Option<usize> {
        self.blocks
            .binary_search_by_key(&offset, |it| it.offset)
            .ok()
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|&byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|it| it.to_digit(16)).collect();
    let digits = digits?;
    let pairs = digits.chunks(2).map(|pair| match *pair {
        [high, low] => Some((high << 4 | low) as u8),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_decoded_as_it_was_encoded_and_a_false_one_is_refused() {
        let block = |offset, packets| Block {
            offset,
            length: 10,
            plain_length: 40,
            packets,
            span: (1, 2),
        };
        let directory = Directory {
            sensor: "a".into(),
            sha256: "00".into(),
            format: "pcapng".into(),
            plain_bytes: 80,
            packets: 5,
            captured: Some(5),
            first_ns: Some(u64::MAX),
            head: vec![(0, vec![0x0a, 0xff])],
            blocks: vec![block(0, 2), block(10, 3)],
            ..Directory::default()
        };
        assert_eq!(Directory::decode(&directory.encode()).unwrap(), directory);
        assert_eq!(directory.block_at(10), Some(1));
        for (packets, offset) in [(6, 10), (5, 11)] {
            let mut wrong = directory.clone();
            wrong.packets = packets;
            wrong.blocks[1].offset = offset;
            assert!(Directory::decode(&wrong.encode()).is_err());
        }
        assert!(Directory::decode(b"{}").is_err());
    }
}
