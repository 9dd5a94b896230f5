//! Packs a capture file into a segment, and indexes its packets, in one pass.

use super::{Block, Directory, directory::hex, key::key, tail::write_tail};
use crate::index::{IndexFile, Indexer};
use anyhow::{Context, Result, anyhow, bail};
use forebay_net::{
    format::read::{Decoder, Kind, Step, Zeros},
    port::Frame,
};
use sha2::{Digest, Sha256};
use std::{
    fs::File,
    io::{BufWriter, Read, Seek, SeekFrom, Write},
};

/// A block ends with the first record that reaches this length, in bytes, before it is packed.
pub const BLOCK_BYTES: usize = 4 << 20;

/// Bytes that are read at once. They are still in the cache of the processor when their packets are decoded.
const READ_BYTES: usize = 256 << 10;

/// How a file is packed.
#[derive(Clone, Debug)]
pub struct Pack<'a> {
    /// The name of the sensor.
    pub sensor: &'a str,
    /// Compress it.
    pub compress: bool,
}

/// A packed segment and its index.
#[derive(Debug)]
pub struct Packed {
    /// Its directory.
    pub directory: Directory,
    /// Its key in the archive.
    pub key: String,
    /// Its length as stored.
    pub bytes: u64,
    /// The SHA-256 of the stored bytes.
    pub stored_sha256: String,
    /// Its rows, as Parquet files.
    pub index: Vec<IndexFile>,
}

/// Reads a capture file from `input`, writes the segment to `output`, which must be empty, and builds the rows of its index.
///
/// Records are copied as they are, so the unpacked segment has the bytes of the file. Classic pcap files are compressed even if
/// `compress` is false: the plain format has no place for a directory.
///
/// # Errors
/// The file is torn or damaged, or reading or writing fails. The output is useless then.
pub fn pack(mut input: impl Read, output: &mut File, options: &Pack<'_>) -> Result<Packed> {
    let mut bytes = Vec::new();
    let mut decoder = loop {
        match Decoder::begin(&bytes).map_err(|fault| anyhow!("{}", fault.what()))? {
            Some(decoder) => break decoder,
            None if read_up_to(&mut input, &mut bytes, 4)? < 4 => bail!("has no header"),
            None => {}
        }
    };
    let mut packing = Packing::new(decoder.kind(), options)?;
    let mut output = Hashing::over(output);
    let mut begin = 0;
    let mut is_end = false;
    loop {
        let rest = &bytes[begin..];
        let step = match decoder.packet(rest) {
            Some((frame, len)) => Ok(Step::Packet(frame, len)),
            None => decoder.next(rest),
        };
        let needed = match step {
            Ok(Step::Packet(frame, len)) => {
                let link = decoder.interfaces()[frame.interface as usize].link;
                packing.indexer.packet(link, &frame);
                packing.packet(&frame);
                begin += len;
                if frame.data.is_empty() {
                    decoder.took_empty();
                }
                0
            }
            Ok(Step::Described(len)) => {
                let at = packing.directory.plain_bytes + begin as u64;
                let piece = bytes[begin..begin + len].to_vec();
                packing.directory.head.push((at, piece));
                begin += len;
                0
            }
            Ok(Step::Other(len)) => {
                begin += len;
                0
            }
            Ok(Step::More(needed)) if is_end => {
                if begin == bytes.len() {
                    break;
                }
                let at = packing.directory.plain_bytes + begin as u64;
                bail!(
                    "ends in the middle of a {} of {needed} bytes at byte {at}",
                    decoder.unit()
                );
            }
            Ok(Step::More(needed)) => needed,
            Ok(Step::Zeros) => match decoder.classify_zeros(&bytes[begin..], is_end) {
                Zeros::Packets => 0,
                Zeros::More(needed) if !is_end => needed,
                _ => bail!("has zeros in place of packets"),
            },
            Err(fault) => {
                let at = packing.directory.plain_bytes + begin as u64;
                bail!("{}", fault.describe(at, packing.directory.packets));
            }
        };
        if begin >= BLOCK_BYTES {
            packing.end_block(&bytes[..begin], &mut output)?;
            decoder.take_blocks(); // it keeps names, secrets and comments for a copy
            bytes.drain(..begin);
            begin = 0;
        }
        if needed > 0 {
            let wanted = (begin + needed).max(bytes.len() + READ_BYTES);
            is_end = read_up_to(&mut input, &mut bytes, wanted)? < wanted;
        }
    }
    if begin > 0 {
        packing.end_block(&bytes[..begin], &mut output)?;
    }
    packing.finish(&decoder, output)
}

/// Reads until `bytes` has `len` bytes or the input ends; returns its length.
fn read_up_to(input: &mut impl Read, bytes: &mut Vec<u8>, len: usize) -> Result<usize> {
    let missing = len.saturating_sub(bytes.len());
    let mut some = input.by_ref().take(missing as u64);
    some.read_to_end(bytes).context("reading on")?;
    Ok(bytes.len())
}

/// An output that is hashed while it is written.
struct Hashing<'a> {
    output: BufWriter<&'a mut File>,
    hash: Sha256,
    bytes: u64,
}

impl<'a> Hashing<'a> {
    fn over(output: &'a mut File) -> Self {
        Hashing {
            output: BufWriter::with_capacity(1 << 20, output),
            hash: Sha256::new(),
            bytes: 0,
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.output
            .write_all(bytes)
            .context("writing the packed segment")
    }
}

struct Packing {
    directory: Directory,
    indexer: Indexer,
    block: Block,
    hash: Sha256,
    compressor: Option<zstd_safe::CCtx<'static>>,
    compressed: Vec<u8>,
    /// Losses that packets record, by interface.
    marked: Vec<u64>,
}

impl Packing {
    fn new(kind: Kind, options: &Pack<'_>) -> Result<Packing> {
        // The plain directory is a block of pcapng.
        let compressor = match options.compress || kind != Kind::Pcapng {
            true => Some(compressor()?),
            false => None,
        };
        Ok(Packing {
            directory: Directory {
                sensor: options.sensor.into(),
                format: kind.name().into(),
                ..Directory::default()
            },
            indexer: Indexer::default(),
            block: Block::default(),
            hash: Sha256::new(),
            compressor,
            compressed: Vec::new(),
            marked: Vec::new(),
        })
    }

    fn packet(&mut self, frame: &Frame<'_>) {
        self.block.add(frame.time_ns);
        if frame.dropped_before > 0 {
            let interface = frame.interface as usize;
            if self.marked.len() <= interface {
                self.marked.resize(interface + 1, 0);
            }
            let marked = &mut self.marked[interface];
            *marked = marked.saturating_add(frame.dropped_before);
        }
    }

    /// Ends a block of these records.
    fn end_block(&mut self, plain: &[u8], output: &mut Hashing<'_>) -> Result<()> {
        self.hash.update(plain);
        let stored = match &mut self.compressor {
            None => plain,
            Some(compressor) => {
                let room = zstd_safe::compress_bound(plain.len());
                if self.compressed.len() < room {
                    self.compressed.resize(room, 0);
                }
                let len = compressor.compress2(&mut self.compressed[..], plain);
                let len = len
                    .map_err(|code| anyhow!("compressing: {}", zstd_safe::get_error_name(code)))?;
                &self.compressed[..len]
            }
        };
        let block = Block {
            offset: output.bytes,
            length: stored.len() as u64,
            plain_length: plain.len() as u64,
            ..std::mem::take(&mut self.block)
        };
        output.put(stored)?;
        self.indexer.end_block(block.offset, block.length)?;
        self.directory.push(block);
        Ok(())
    }

    fn finish(mut self, decoder: &Decoder, mut output: Hashing<'_>) -> Result<Packed> {
        let directory = &mut self.directory;
        directory.sha256 = hex(&self.hash.finalize());
        let recorded = decoder.recorded();
        // In a capture of all interfaces, `any` has the counts of all, and the others have only those of their packets.
        let has_any = decoder.interfaces().iter().any(|it| it.name == "any");
        let recorded: Vec<_> = recorded
            .iter()
            .filter(|it| !has_any || it.is_some_and(|it| it.dropped.is_some()))
            .collect();
        let sum = |of: &dyn Fn(&forebay_net::port::Statistics) -> Option<u64>| {
            let known = recorded.iter().map(|it| of(it.as_ref()?));
            known.sum::<Option<u64>>().filter(|_| !recorded.is_empty())
        };
        directory.captured = sum(&|it| it.delivered);
        directory.lost_interface = sum(&|it| it.interface_dropped);
        let marked: u64 = self
            .marked
            .iter()
            .fold(0, |sum, it| sum.saturating_add(*it));
        // Losses that no packet follows are only in the statistics.
        let lost = sum(&|it| it.dropped).map(|all| all.max(marked));
        directory.lost_kernel = match (lost, marked) {
            (None, 0) => None,
            (None, marked) => Some(marked),
            (lost, _) => lost,
        };
        let rest = directory.lost_kernel.unwrap_or(0) - marked;
        let key = key(directory, self.compressor.is_some());
        let index = self.indexer.finish(directory, &key, rest)?;
        output.put(&write_tail(directory, self.compressor.is_some())?)?;
        let writer = &mut output.output;
        writer.flush().context("writing the packed segment")?;
        let rewound = writer.get_mut().seek(SeekFrom::Start(0));
        rewound.context("reading it back")?;
        Ok(Packed {
            key,
            bytes: output.bytes,
            stored_sha256: hex(&output.hash.finalize()),
            index,
            directory: self.directory,
        })
    }
}

/// A zstd compressor, which ends each frame with a checksum.
fn compressor() -> Result<zstd_safe::CCtx<'static>> {
    use zstd_safe::{CCtx, CParameter};
    let mut context = CCtx::try_create().context("no memory for compressing")?;
    for parameter in [
        CParameter::CompressionLevel(3),
        CParameter::ChecksumFlag(true),
    ] {
        let set = context.set_parameter(parameter);
        set.map_err(|code| anyhow!("compressing: {}", zstd_safe::get_error_name(code)))?;
    }
    Ok(context)
}
