//! `rebuild`: the rows of segments that have none, or not all, from the segments themselves. Rows of segments that do not exist are
//! removed.

use crate::{
    archive::{self, Archive, Faults, StoreFault},
    index::Indexer,
    ledger,
    segment::{self, Directory},
    status::packets_by_segment,
    table::{Rows, Table},
};
use anyhow::{Context, Result, anyhow, ensure};
use forebay_net::format::read::Decoder;
use object_store::ObjectMeta;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};

/// What `rebuild` did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Segments in the archive.
    pub segments: u64,
    /// Segments whose rows did not have their packets.
    pub missing: u64,
    /// Of these, segments whose rows are now in the index.
    pub added: u64,
    /// Segments that the store did not return: whether the index has their packets is not known, or they were not added.
    pub unreadable: u64,
    /// Segments that do not exist and whose rows were removed.
    pub removed: u64,
}

/// Adds the rows of all segments that have none, replaces rows that do not have the packets of their segment, and removes rows of segments
/// that do not exist. `failed` is called with the error of each segment that cannot be read.
///
/// # Errors
/// The store failed, or the table is of a newer version.
pub async fn rebuild(archive: &Archive, failed: &mut dyn FnMut(anyhow::Error)) -> Result<Rebuilt> {
    let mut table = Table::open_or_create(archive).await?;
    let mut objects = archive.list(segment::FOLDER).await?;
    // After the list of segments, so that rows which were added meanwhile are known.
    table.refresh().await?;
    let known = packets_by_segment(&table).await?;
    let gone = without_segment(archive, &objects, &known).await?;
    if !gone.is_empty() {
        table.replace_rows(&gone, &[]).await?;
    }
    objects.retain(|it| segment::parse_key(it.location.as_ref()).is_some());
    let expired = ledger::expired(archive, &objects).await?;
    objects.retain(|it| {
        segment::identity(it.location.as_ref()).is_some_and(|it| !expired.contains_key(&it))
    });
    let mut done = Rebuilt {
        segments: objects.len() as u64,
        removed: gone.len() as u64,
        ..Rebuilt::default()
    };
    let directories = archive.directories(&objects).await?;
    let mut faults = Faults::default();
    for (object, directory) in objects.iter().zip(directories) {
        let key = object.location.as_ref();
        let packets = match directory {
            Ok(directory) => directory.packets,
            Err(error) => {
                match StoreFault::is_cause(&error) {
                    true => done.unreadable += 1,
                    false => done.missing += 1,
                }
                failed(error);
                continue;
            }
        };
        let is_known = table.has(key).await?;
        if is_known && known.get(key).copied().unwrap_or(0) == packets {
            continue;
        }
        done.missing += 1;
        match faults.pass(rows_of(archive, key).await)? {
            Ok(rows) => {
                if is_known || known.contains_key(key) {
                    let replaced = HashMap::from([(key, u64::MAX)]);
                    table.replace_rows(&replaced, &[rows]).await?;
                } else {
                    table.append(&[rows]).await?;
                }
                done.added += 1;
            }
            Err(error) => {
                if StoreFault::is_cause(&error) {
                    (done.unreadable, done.missing) = (done.unreadable + 1, done.missing - 1);
                }
                failed(error);
            }
        }
    }
    Ok(done)
}

/// The segments of these rows that do not exist, as [`Table::replace_rows`] takes them. `expire` removes rows before their segment; but a program that is killed directly after
/// it has added rows cannot remove them if `expire` ran meanwhile.
async fn without_segment<'k>(
    archive: &Archive,
    objects: &[ObjectMeta],
    known: &'k HashMap<String, u64>,
) -> Result<HashMap<&'k str, u64>> {
    let listed: HashSet<&str> = objects.iter().map(|it| it.location.as_ref()).collect();
    let others = known.keys().map(String::as_str);
    let others = others.filter(|it| !listed.contains(it));
    // A segment may have been created after the list was read.
    let asked = others.map(async |key| Ok((key, archive.len(key).await?)));
    let found = archive::at_once(asked).await?;
    let gone = found.into_iter().filter(|(_, len)| len.is_none());
    Ok(gone.map(|(key, _)| (key, u64::MAX)).collect())
}

/// Reads a whole segment, checks it against its hash, and builds its rows.
///
/// # Errors
/// The store failed, or the segment is damaged.
pub async fn rows_of(archive: &Archive, key: &str) -> Result<Rows> {
    let (directory, reading) = read(archive, key, Some(Indexer::default())).await?;
    let rest = directory
        .lost_kernel
        .unwrap_or(0)
        .saturating_sub(reading.marked);
    let indexer = reading.indexer.unwrap_or_default();
    let files = indexer.finish(&directory, key, rest);
    Ok(Rows {
        segment: key.into(),
        files: files
            .with_context(|| format!("{}: the segment {key} is damaged", archive.name()))?,
    })
}

/// Reads a whole segment, and checks it against its hash and its directory.
///
/// # Errors
/// As [`rows_of`].
pub async fn check(archive: &Archive, key: &str) -> Result<Directory> {
    Ok(read(archive, key, None).await?.0)
}

async fn read(
    archive: &Archive,
    key: &str,
    indexer: Option<Indexer>,
) -> Result<(Directory, Reading)> {
    let directory = archive.directory(key, None).await?;
    ensure!(
        segment::key(&directory, key.ends_with(".zst")) == key,
        "{}: the segment {key} is damaged: its directory is that of another segment",
        archive.name()
    );
    let damaged = || format!("{}: the segment {key} is damaged", archive.name());
    let mut reading = Reading {
        indexer,
        ..Reading::default()
    };
    for block in &directory.blocks {
        let plain = archive.block(key, block).await?;
        let read = reading.block(&plain, (block.offset, block.length));
        read.with_context(damaged)?;
    }
    reading.finish(&directory).with_context(damaged)?;
    Ok((directory, reading))
}

#[derive(Default)]
struct Reading {
    decoder: Option<Decoder>,
    indexer: Option<Indexer>,
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
            let (frame, len) = segment::next_record(decoder, &plain[at..])?;
            if let Some(frame) = frame {
                if let Some(indexer) = &mut self.indexer {
                    let link = decoder.interfaces()[frame.interface as usize].link;
                    indexer.packet(link, &frame);
                }
                self.marked = self.marked.saturating_add(frame.dropped_before);
                self.packets += 1;
            }
            at += len;
        }
        decoder.take_blocks(); // it keeps names, secrets and comments for a copy
        match &mut self.indexer {
            Some(indexer) => indexer.end_block(place.0, place.1),
            None => Ok(()),
        }
    }

    /// Compares what was read with the directory.
    fn finish(&mut self, directory: &Directory) -> Result<()> {
        let sha256 = segment::hex(&std::mem::take(&mut self.hash).finalize());
        ensure!(
            sha256 == directory.sha256 && self.packets == directory.packets,
            "its {} packets have the hash {sha256}, its directory says {} and {}",
            self.packets,
            directory.packets,
            directory.sha256
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_have_no_packets_are_not_kept() {
        let block = |kind: u32, body: &[u8]| {
            let len = (body.len() as u32 + 12).to_le_bytes();
            [&kind.to_le_bytes(), &len[..], body, &len].concat()
        };
        let section = [&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat();
        let mut reading = Reading::default();
        // A section, and names of hosts.
        for plain in [block(0x0a0d_0d0a, &section), block(4, &[0; 4])] {
            reading.block(&plain, (0, 100)).unwrap();
        }
        assert!(reading.decoder.unwrap().take_blocks().is_empty());
    }
}
