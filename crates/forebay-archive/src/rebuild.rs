//! `rebuild`: the rows of segments that have none, from the segments themselves.

use crate::{
    archive::Archive,
    index::Indexer,
    segment::{self, Directory},
    status::packets_by_segment,
    table::{Rows, Table},
};
use anyhow::{Context, Result, anyhow, ensure};
use forebay_net::format::read::{Decoder, Step};
use sha2::{Digest, Sha256};

/// What `rebuild` did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Segments in the archive.
    pub segments: u64,
    /// Segments that had no rows.
    pub missing: u64,
    /// Of these, segments whose rows are now in the index.
    pub added: u64,
}

/// Adds the rows of all segments that have none. `failed` is called with the error of each segment that cannot be read.
///
/// # Errors
/// The store failed, or the table is of a newer version.
pub async fn rebuild(archive: &Archive, failed: &mut dyn FnMut(anyhow::Error)) -> Result<Rebuilt> {
    let mut table = Table::open_or_create(archive).await?;
    let known = packets_by_segment(&table).await?;
    let mut done = Rebuilt::default();
    for object in archive.list(segment::FOLDER).await? {
        let key = object.location.as_ref();
        if segment::parse_key(key).is_none() {
            continue;
        }
        done.segments += 1;
        if known.contains_key(key) || table.has(key).await? {
            continue;
        }
        done.missing += 1;
        match rows_of(archive, key).await {
            Ok(rows) => done.added += table.append(&[rows]).await? as u64,
            Err(error) => failed(error),
        }
    }
    Ok(done)
}

/// Reads a whole segment, checks it against its hash, and builds its rows.
///
/// # Errors
/// The store failed, or the segment is damaged.
pub async fn rows_of(archive: &Archive, key: &str) -> Result<Rows> {
    let directory = archive.directory(key, None).await?;
    let mut reading = Reading::default();
    for block in &directory.blocks {
        let plain = archive.block(key, block).await?;
        reading.block(&plain, (block.offset, block.length))?;
    }
    let files = reading.finish(&directory, key);
    Ok(Rows {
        segment: key.into(),
        files: files
            .with_context(|| format!("{}: the segment {key} is damaged", archive.name()))?,
    })
}

#[derive(Default)]
struct Reading {
    decoder: Option<Decoder>,
    indexer: Indexer,
    hash: Sha256,
    marked: u64,
    packets: u64,
}

impl Reading {
    fn block(&mut self, plain: &[u8], place: (u64, u64)) -> Result<()> {
        self.hash.update(plain);
        if self.decoder.is_none() {
            self.decoder = Decoder::begin(plain).map_err(|fault| anyhow!("{}", fault.what()))?;
        }
        let decoder = self.decoder.as_mut().context("a block is too short")?;
        let mut at = 0;
        while at < plain.len() {
            match decoder.next(&plain[at..]) {
                Ok(Step::Packet(frame, len)) => {
                    let link = decoder.interfaces()[frame.interface as usize].link;
                    self.indexer.packet(link, &frame);
                    self.marked = self.marked.saturating_add(frame.dropped_before);
                    self.packets += 1;
                    at += len;
                }
                Ok(Step::Other(len) | Step::Described(len)) => at += len,
                Ok(Step::More(_) | Step::Zeros) => {
                    return Err(anyhow!("a block ends in the middle of a record"));
                }
                Err(fault) => return Err(anyhow!("{}", fault.what())),
            }
        }
        self.indexer.end_block(place.0, place.1)
    }

    fn finish(self, directory: &Directory, key: &str) -> Result<Vec<crate::index::IndexFile>> {
        let sha256 = segment::hex(&self.hash.finalize());
        ensure!(
            sha256 == directory.sha256 && self.packets == directory.packets,
            "its {} packets have the hash {sha256}, its directory says {} and {}",
            self.packets,
            directory.packets,
            directory.sha256
        );
        let rest = directory
            .lost_kernel
            .unwrap_or(0)
            .saturating_sub(self.marked);
        self.indexer.finish(directory, key, rest)
    }
}
