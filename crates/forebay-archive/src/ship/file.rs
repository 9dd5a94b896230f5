//! The way of one file into the archive.

use super::{Event, Failure, Ship, pending::Pending, spool};
use crate::{
    announce::Announcement,
    archive::{Archive, StoreFault},
    clock,
    ledger::Entry,
    rebuild,
    segment::{self, Pack, Packed},
    table::Rows,
};
use anyhow::{Context, Result, bail, ensure};
use forebay_net::repair::Examined;
use sha2::{Digest, Sha256};
use spool::Finished;
use std::{fs::File, time::SystemTime};

/// Bytes that are read back at once.
const READ_BYTES: u64 = 16 << 20;
/// Packets whose times are further than this ahead of this machine's clock are reported.
const MAX_AHEAD_NS: u64 = 300_000_000_000;

impl Ship<'_> {
    /// Brings a file into the archive, and frees it.
    pub(super) async fn ship_file(&mut self, found: &Finished) -> Result<(), Failure> {
        let opened = found
            .open()
            .with_context(|| format!("{}: opening it", found.path.display()));
        let Some(file) = opened.map_err(Failure::Final)? else {
            return Ok(()); // a capture still writes it
        };
        let known = self.verified.take().filter(|it| it.mark == found.mark());
        // Without room for a mark it cannot be sent, so packing it is useless.
        self.spool.check_mark(found).map_err(Failure::Final)?;
        let mut pending = match known {
            Some(pending) => pending,
            None => match self.pack(&file).await {
                Ok((packed, scratch)) => {
                    if !found.is_unchanged() {
                        return Ok(()); // a program without locks writes it; the next pass looks again
                    }
                    self.warn_of_clock(found, &packed);
                    Pending {
                        mark: found.mark(),
                        packed,
                        scratch: Some(scratch),
                        is_new: false,
                    }
                }
                Err(error) => {
                    drop(file); // a file is not cut while it is open anywhere
                    return self.mend(found, error).map_err(Failure::Final);
                }
            },
        };
        let stored = match self.store(found, &mut pending).await {
            Ok(stored) => stored,
            Err(error) => {
                // The packed copy takes room on the disk, so it is not kept.
                let is_verified = pending.scratch.is_none();
                self.verified = is_verified.then_some(pending);
                return Err(match is_verified {
                    true => Failure::Store(error),
                    false => Failure::Segment(error),
                });
            }
        };
        let packed = pending.packed;
        let fault = match &stored {
            Stored::Now | Stored::Before => None,
            Stored::Removed => Some(format!(
                "was in the archive, and its segment {} was removed from there. It is moved to the folder `failed`, and not stored again",
                packed.key
            )),
            Stored::Damaged(error) => Some(format!(
                "{error:#}. The file is moved to the folder `failed`. To store it, repair or delete that segment, and move the file back"
            )),
        };
        if let Some(fault) = fault {
            self.spool.set_aside(found).map_err(Failure::Final)?;
            self.counts
                .failed
                .add(packed.directory.packets, found.bytes);
            let path = found.path.display();
            (self.report)(Event::Warning(format!("{path}: {fault}")));
            return Ok(());
        }
        // If it cannot be freed, it must not be dropped later.
        let marked = self.spool.mark(found);
        // Its compressed copy is a finished file from then on.
        self.has_more |= found.is_being_compressed();
        let freed = self.spool.free(found, self.config.keep);
        freed
            .or_else(|error| marked.and(Err(error)))
            .map_err(Failure::Final)?;
        self.refused.taken(&found.mark());
        self.counts
            .shipped
            .add(packed.directory.packets, found.bytes);
        self.counts.repeated_files += u64::from(matches!(stored, Stored::Before));
        (self.report)(Event::Shipped(found, &packed));
        Ok(())
    }

    /// Packs a file; on a full disk into the system's folder for temporary files.
    async fn pack(&mut self, file: &File) -> Result<(Packed, File)> {
        match self.pack_into(self.spool.scratch(true), file).await {
            Err(error) if is_full(&error) => {
                let packed = self.pack_into(self.spool.scratch(false), file).await;
                packed.context(
                    "the disk of the spool is full. Set TMPDIR to a folder on another disk, with room for one packed file",
                )
            }
            packed => packed,
        }
    }

    async fn pack_into(&mut self, scratch: Result<File>, file: &File) -> Result<(Packed, File)> {
        let mut scratch = scratch?;
        let plain = spool::plain(file).context("reading it")?;
        let (sensor, compress) = (self.config.sensor.clone(), self.config.compress);
        let pack = move || {
            let options = Pack {
                sensor: &sensor,
                compress,
            };
            segment::pack(plain, &mut scratch, &options).map(|packed| (packed, scratch))
        };
        self.watched(tokio::task::spawn_blocking(pack)).await?
    }

    /// Cuts a damaged file to what is whole, which the next pass ships, or sets it aside.
    fn mend(&mut self, found: &Finished, error: anyhow::Error) -> Result<()> {
        let path = &found.path;
        let examined = Examined::of(path);
        let what = match examined {
            Ok(examined) if !examined.is_whole() && examined.packets > 0 => {
                examined.cut()?;
                self.has_more = true;
                format!("cut after its {} whole packets", examined.packets)
            }
            Ok(examined) if examined.is_whole() => {
                // The disk was full, or memory was short: the file is not at fault.
                return Err(error.context(format!("{}: packing it", path.display())));
            }
            // Reading failed, or the file is in use: it is not at fault.
            Err(cause)
                if cause.cause().is_some() || cause.to_string().contains("another process") =>
            {
                return Err(cause.into());
            }
            _ => {
                let packets = spool::packets(path);
                self.spool.set_aside(found)?;
                self.counts.failed.add(packets, found.bytes);
                "moved to the folder `failed`: nothing in it can be read".to_owned()
            }
        };
        (self.report)(Event::Warning(format!(
            "{}: {error:#}; {what}",
            path.display()
        )));
        Ok(())
    }

    fn warn_of_clock(&mut self, found: &Finished, packed: &Packed) {
        let now = (crate::table::now_ms() as u64).saturating_mul(1_000_000);
        let ahead = packed.directory.last_ns.unwrap_or(0).saturating_sub(now);
        if ahead > MAX_AHEAD_NS {
            let seconds = ahead / 1_000_000_000;
            (self.report)(Event::Warning(format!(
                "{}: its last packet is {seconds} s ahead of the clock of this machine. Set the clocks (chrony, systemd-timesyncd), or \
                 searches by time will not find these packets where they are expected",
                found.path.display()
            )));
        }
    }

    /// Creates the segment, reads it back, and commits its rows or announces it.
    async fn store(&mut self, found: &Finished, pending: &mut Pending) -> Result<Stored> {
        let archive = self.config.archive.clone();
        if self.was_removed(&pending.packed).await? {
            self.remove_rows(&pending.packed).await?;
            return Ok(Stored::Removed);
        }
        // Another run may have stored the same file with another packing.
        let mut is_there = false;
        for key in segment::keys(&pending.packed.directory) {
            if archive.len(&key).await?.is_some() {
                pending.packed.key = key;
                is_there = true;
                break;
            }
        }
        if self.queue.is_none() && self.has_rows(&pending.packed.key).await? {
            return Ok(match is_there {
                true => Stored::Before,
                false => Stored::Removed,
            });
        }
        if pending.scratch.is_some() {
            if let Some(damage) = self.create(found, pending).await? {
                return Ok(Stored::Damaged(damage));
            }
        } else if !is_there {
            pending.mark.clear(); // so it is packed again
            bail!(
                "{}: the segment {} is gone",
                archive.name(),
                pending.packed.key
            );
        }
        let packed = &pending.packed;
        let entry = Entry::of(&packed.key, &packed.directory, packed.bytes);
        self.ledger.add(&archive, entry).await?;
        let is_new = match &mut self.queue {
            // It is announced again after a failure: the queue drops the second message, or an indexer finds that there are rows.
            Some(queue) => {
                let announced = Announcement {
                    segment: packed.key.clone(),
                    packets: packed.directory.packets,
                    archive: self.identity.clone(),
                };
                queue.announce(&announced).await?;
                pending.is_new
            }
            None => {
                let rows = Rows {
                    segment: packed.key.clone(),
                    files: packed.index.clone(),
                };
                let mut table = self.table.take().context("the index is not open")?;
                let added = self.watched(table.append(&[rows])).await?;
                self.table = Some(table);
                // `expire` may have removed it meanwhile.
                if added == 0 && self.was_removed(packed).await? {
                    return Ok(Stored::Removed);
                }
                added > 0
            }
        };
        Ok(match is_new {
            true => Stored::Now,
            false => Stored::Before,
        })
    }

    /// Whether the index has the rows of a segment. Rows that were added since the index was read last are found when rows are committed.
    async fn has_rows(&mut self, key: &str) -> Result<bool> {
        let table = self.table().await?;
        if !table.has(key).await? {
            return Ok(false);
        }
        // The index may have been replaced.
        table.refresh().await?;
        table.has(key).await
    }

    /// Whether `expire` has removed this file's segment, or is removing it.
    async fn was_removed(&mut self, packed: &Packed) -> Result<bool> {
        let archive = &self.config.archive;
        let removed = self.expired.among(archive, &[&packed.key]).await?;
        Ok(!removed.is_empty())
    }

    /// Removes the rows of a segment that `expire` has removed: a run that was killed may have added them after that.
    async fn remove_rows(&mut self, packed: &Packed) -> Result<()> {
        if self.queue.is_some() {
            return Ok(()); // an indexer adds and removes them
        }
        let [key, other] = segment::keys(&packed.directory);
        if self.has_rows(&key).await? {
            let table = self.table().await?;
            table.remove_expired(&[&key, &other]).await?;
        }
        Ok(())
    }

    /// Reports that the clock of this machine, or of the capture, is wrong, and that it is right again.
    async fn compare_clocks(&mut self, ahead_s: i64) {
        let is_wrong = clock::is_wrong(ahead_s);
        let was_wrong = self.clock_ahead_s.replace(ahead_s).map(clock::is_wrong);
        if was_wrong == Some(is_wrong) {
            return;
        }
        let (archive, sensor) = (&self.config.archive, &self.config.sensor);
        if is_wrong {
            let differ = if ahead_s > 0 {
                "ahead of"
            } else {
                "slower than"
            };
            (self.report)(Event::Warning(format!(
                "{}: the clock of {sensor} is {} s {differ} that of the store. Set the clocks (chrony, systemd-timesyncd)",
                archive.name(),
                ahead_s.unsigned_abs()
            )));
        }
        // The file must not wait for this.
        if let Err(error) = clock::record(archive, sensor, ahead_s).await {
            self.warn_once(&error);
        }
    }

    /// Creates the segment and reads it back. Then `pending` has the rows for its offsets, and no packed copy. `Some`: there is a segment
    /// already, and it is damaged.
    async fn create(
        &mut self,
        found: &Finished,
        pending: &mut Pending,
    ) -> Result<Option<anyhow::Error>> {
        let archive = self.config.archive.clone();
        let packed = &mut pending.packed;
        let scratch = pending.scratch.as_mut().context("the file is not packed")?;
        self.spool.mark(found)?;
        let start = SystemTime::now();
        let put = archive.put_file(&packed.key, scratch, packed.bytes);
        pending.is_new = self.watched(put).await?;
        if pending.is_new {
            self.counts.sent_bytes += packed.bytes;
        }
        let sent = start..SystemTime::now();
        let (hash, created, len) = self.watched(stored_hash(&archive, &packed.key)).await?;
        packed.bytes = len; // of what is stored, whatever packed it
        if pending.is_new {
            let last_ns = packed.directory.last_ns.unwrap_or(0);
            self.compare_clocks(clock::ahead_s(sent, created, last_ns))
                .await;
        }
        if hash != packed.stored_sha256 {
            ensure!(
                !pending.is_new,
                "{}: the segment {} was read back with other bytes than were sent: the store or the network damages data",
                archive.name(),
                packed.key
            );
            // Another version packed the same file, or another packing: the rows must have its offsets.
            match rebuild::rows_of(&archive, &packed.key).await {
                Ok(rows) => packed.index = rows.files,
                Err(error) if StoreFault::of(&error).is_some() => return Err(error),
                Err(error) => {
                    ensure!(
                        stored_hash(&archive, &packed.key).await?.0 == hash,
                        "{}: the segment {} was read twice, with different bytes: the store or the network damages data",
                        archive.name(),
                        packed.key
                    );
                    return Ok(Some(error));
                }
            }
        }
        pending.scratch = None;
        Ok(None)
    }
}

/// Whether there was no room on a disk.
fn is_full(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|it| it.downcast_ref());
    causes.any(super::state::is_full)
}

enum Stored {
    Now,
    /// It is in the archive since an earlier try.
    Before,
    /// It was in the archive, and was removed from there.
    Removed,
    /// It is in the archive, and is damaged there.
    Damaged(anyhow::Error),
}

/// The SHA-256 of an object, as the store returns it, when it was created, and its length.
async fn stored_hash(archive: &Archive, key: &str) -> Result<(String, SystemTime, u64)> {
    let head = archive.head(key).await?;
    let head = head.with_context(|| format!("{}: the segment {key} is gone", archive.name()))?;
    let len = head.size;
    let mut hash = Sha256::new();
    let mut at = 0;
    while at < len {
        let end = (at + READ_BYTES).min(len);
        hash.update(archive.range(key, at..end).await?);
        at = end;
    }
    let hash = segment::hex(&hash.finalize());
    Ok((hash, head.last_modified.into(), len))
}
