//! `ship`: brings the finished files of a spool into an archive.
//!
//! ```text
//!  finished file ─▶ pack and index ─▶ create the segment ─▶ read it back ─▶ commit its rows ─▶ free the file
//! ```
//! Every step can be repeated: the key of a segment is the hash of the file, and rows are added once for each key. So a `ship` that was
//! killed anywhere begins with the same file again, loses nothing and doubles nothing. A file leaves the spool only after its rows
//! are committed.

pub mod spool;

use crate::{
    archive::Archive,
    rebuild,
    segment::{self, Pack, Packed},
    table::{Rows, Table},
};
use anyhow::{Context, Result, anyhow, bail, ensure};
use forebay_net::repair::Examined;
use serde_json::json;
use sha2::{Digest, Sha256};
use spool::{Finished, Keep, Spool};
use std::{
    fs::{self, File},
    path::PathBuf,
    time::Duration,
};

/// The longest wait before the store is tried again.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// How often the spool is searched for finished files.
const INTERVAL: Duration = Duration::from_secs(2);
/// Bytes that are read back at once.
const READ_BYTES: u64 = 16 << 20;
/// Packets whose times are further than this ahead of this machine's clock are reported.
const MAX_AHEAD_NS: u64 = 300_000_000_000;

/// How a spool is shipped.
#[derive(Clone, Debug)]
pub struct ShipConfig {
    /// The folder of the spool.
    pub spool: PathBuf,
    /// The archive.
    pub archive: Archive,
    /// The name of the sensor: letters, digits, dots, dashes and underscores.
    pub sensor: String,
    /// What is kept of files that were shipped.
    pub keep: Keep,
    /// The bytes that may wait in the spool. `None`: no limit.
    pub limit_bytes: Option<u64>,
    /// If more wait: drop the oldest files. Otherwise they stay, and are only reported.
    pub drops_oldest: bool,
    /// Compress the segments.
    pub compress: bool,
    /// Return when nothing waits, and at the first failure of the store.
    pub once: bool,
}

/// What `ship` did since it began. Packets are those that files contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that are in the archive with their rows.
    pub shipped_files: u64,
    /// Their packets.
    pub shipped_packets: u64,
    /// Of these, files that another run had already brought there.
    pub repeated_files: u64,
    /// Bytes sent as segments.
    pub sent_bytes: u64,
    /// Files that were dropped because the spool was full.
    pub dropped_files: u64,
    /// Their packets.
    pub dropped_packets: u64,
    /// Files in which nothing can be read.
    pub failed_files: u64,
    /// Tries that the store failed.
    pub failures: u64,
}

/// What `ship` reports while it runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// A file is in the archive.
    Shipped(&'a Finished, &'a Packed),
    /// A file was dropped, with this number of packets.
    Dropped(&'a Finished, u64),
    /// Something a person should know.
    Warning(String),
}

/// Ships until `once` is done, or forever.
pub struct Ship<'a> {
    config: ShipConfig,
    spool: Spool,
    table: Option<Table>,
    is_claimed: bool,
    is_full: bool,
    /// What was done so far.
    pub counts: Counts,
    report: &'a mut (dyn FnMut(Event<'_>) + 'a),
}

/// Whether a sensor may have this name.
pub fn is_sensor_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_allowed) && !name.starts_with('.')
}

impl<'a> Ship<'a> {
    /// Opens the spool.
    ///
    /// # Errors
    /// The name of the sensor is malformed, the spool cannot be used, or another `ship` works on it.
    pub fn new(
        config: ShipConfig,
        report: &'a mut (dyn FnMut(Event<'_>) + 'a),
    ) -> Result<Ship<'a>> {
        let sensor = &config.sensor;
        ensure!(
            is_sensor_name(sensor),
            "{sensor}: cannot be the name of a sensor. Use up to 64 letters, digits, dots, dashes and underscores"
        );
        let spool = Spool::open(&config.spool)?;
        Ok(Ship {
            config,
            spool,
            table: None,
            is_claimed: false,
            is_full: false,
            counts: Counts::default(),
            report,
        })
    }

    /// Ships until everything is shipped (`once`), or until the future is dropped, which is safe at any point.
    ///
    /// # Errors
    /// The spool cannot be read, another spool has the name of the sensor, or with `once`: the store failed.
    pub async fn run(&mut self) -> Result<()> {
        let mut wait = Duration::from_secs(1);
        loop {
            match self.pass().await {
                Ok(()) => wait = Duration::from_secs(1),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Store(error)) if self.config.once => return Err(error),
                Err(Failure::Store(error)) => {
                    self.counts.failures += 1;
                    let seconds = wait.as_secs();
                    (self.report)(Event::Warning(format!(
                        "{error:#}. Trying again in {seconds} s"
                    )));
                    self.keep_limit()?;
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(MAX_WAIT);
                    continue;
                }
            }
            self.spool.trim_kept(self.config.keep)?;
            if self.config.once {
                return Ok(());
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Ships every file that is finished now.
    async fn pass(&mut self) -> Result<(), Failure> {
        self.claim().await?;
        self.ship_records().await?;
        for file in self.spool.finished().map_err(Failure::Final)? {
            self.keep_limit().map_err(Failure::Final)?;
            match self.ship_file(&file).await {
                Ok(()) => {}
                Err(Failure::Final(error)) => {
                    (self.report)(Event::Warning(format!("{error:#}")));
                }
                other => return other,
            }
        }
        Ok(())
    }

    /// Two sensors with one name would mix their captures and their counts, so the first spool that uses a name owns it.
    async fn claim(&mut self) -> Result<(), Failure> {
        if self.is_claimed {
            return Ok(());
        }
        let (archive, sensor) = (&self.config.archive, &self.config.sensor);
        let key = format!("sensors/{sensor}/claim.json");
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let (host, folder) = (
            host.trim(),
            self.config.spool.canonicalize().unwrap_or_default(),
        );
        let folder = folder.display().to_string();
        let claim = json!({"schema": 1, "spool": self.spool.id, "host": host, "folder": folder});
        let is_new = archive.put_new(&key, claim.to_string().into()).await;
        if !is_new.map_err(Failure::Store)? {
            let there = archive.get(&key).await.map_err(Failure::Store)?;
            let there =
                there.and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
            let text = |name: &str| {
                there
                    .as_ref()
                    .and_then(|it| it[name].as_str())
                    .unwrap_or("?")
                    .to_owned()
            };
            if text("spool") != self.spool.id {
                return Err(Failure::Final(anyhow!(
                    "{}: the name {sensor} belongs to the spool {} on {}. Choose another name with --sensor. If this spool replaces that one, \
                     delete {key} in the archive",
                    archive.name(),
                    text("folder"),
                    text("host")
                )));
            }
        }
        self.is_claimed = true;
        Ok(())
    }

    /// Brings the records of dropped files into the archive.
    async fn ship_records(&mut self) -> Result<(), Failure> {
        for path in self.spool.dropped().map_err(Failure::Final)? {
            let Ok(record) = fs::read(&path) else {
                continue;
            };
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let key = format!("sensors/{}/dropped-{name}", self.config.sensor);
            self.config
                .archive
                .put_new(&key, record.into())
                .await
                .map_err(Failure::Store)?;
            let removed =
                fs::remove_file(&path).with_context(|| format!("{}: removing it", path.display()));
            removed.map_err(Failure::Final)?;
        }
        Ok(())
    }

    async fn ship_file(&mut self, found: &Finished) -> Result<(), Failure> {
        let opened = found
            .open()
            .with_context(|| format!("{}: opening it", found.path.display()));
        let Some(file) = opened.map_err(Failure::Final)? else {
            return Ok(()); // a capture still writes it
        };
        let mut scratch = self.spool.scratch().map_err(Failure::Store)?;
        let packed = match self.pack(&file, &mut scratch) {
            Ok(packed) => packed,
            Err(error) => {
                drop(file); // a file is not cut while it is open anywhere
                return self.mend(found, error).map_err(Failure::Final);
            }
        };
        if !found.is_unchanged() {
            return Ok(()); // a program without locks writes it; the next pass looks again
        }
        self.warn_of_clock(found, &packed);
        let stored = self.store(&packed, &mut scratch).await;
        let stored = stored.map_err(Failure::Store)?;
        if stored == Stored::Removed {
            self.counts.failed_files += 1;
            (self.report)(Event::Warning(format!(
                "{}: was in the archive, and its segment {} was removed from there. It is moved to the folder `failed`, and not stored again",
                found.path.display(),
                packed.key
            )));
            return self.spool.set_aside(found).map_err(Failure::Final);
        }
        let freed = self.spool.free(found, self.config.keep != Keep::Nothing);
        freed.map_err(Failure::Final)?;
        self.counts.shipped_files += 1;
        self.counts.shipped_packets += packed.directory.packets;
        self.counts.repeated_files += u64::from(stored == Stored::Before);
        (self.report)(Event::Shipped(found, &packed));
        Ok(())
    }

    fn pack(&self, file: &File, scratch: &mut File) -> Result<Packed> {
        let plain = spool::plain(file).context("reading it")?;
        let options = Pack {
            sensor: &self.config.sensor,
            compress: self.config.compress,
        };
        segment::pack(plain, scratch, &options)
    }

    /// Cuts a damaged file to what is whole, which the next pass ships, or sets it aside.
    fn mend(&mut self, found: &Finished, error: anyhow::Error) -> Result<()> {
        let path = &found.path;
        let examined = Examined::of(path);
        let what = match examined {
            Ok(examined) if !examined.is_whole() && examined.packets > 0 => {
                examined.cut()?;
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
                self.spool.set_aside(found)?;
                self.counts.failed_files += 1;
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

    /// Creates the segment, reads it back and commits its rows.
    async fn store(&mut self, packed: &Packed, scratch: &mut File) -> Result<Stored> {
        let archive = self.config.archive.clone();
        let table = match &mut self.table {
            Some(table) => table,
            None => self.table.insert(Table::open_or_create(&archive).await?),
        };
        table.refresh().await?;
        if table.has(&packed.key).await? {
            let is_there = archive.len(&packed.key).await?.is_some();
            return Ok(match is_there {
                true => Stored::Before,
                false => Stored::Removed,
            });
        }
        let is_new = archive.put_file(&packed.key, scratch, packed.bytes).await?;
        if is_new {
            self.counts.sent_bytes += packed.bytes;
        }
        let is_same = stored_hash(&archive, &packed.key).await? == packed.stored_sha256;
        let index = match is_same {
            true => packed.index.clone(),
            false if is_new => bail!(
                "{}: the segment {} was read back with other bytes than were sent: the store or the network damages data",
                archive.name(),
                packed.key
            ),
            // Another version packed the same file: the rows must have its offsets.
            false => rebuild::rows_of(&archive, &packed.key).await?.files,
        };
        let rows = Rows {
            segment: packed.key.clone(),
            files: index,
        };
        Ok(match table.append(&[rows]).await? {
            0 => Stored::Before,
            _ => Stored::Now,
        })
    }

    /// Drops the oldest files if more wait than the limit allows.
    fn keep_limit(&mut self) -> Result<()> {
        let Some(limit) = self.config.limit_bytes else {
            return Ok(());
        };
        let waiting = self.spool.finished()?;
        let mut bytes: u64 = waiting.iter().map(|it| it.bytes).sum();
        let was_full = std::mem::replace(&mut self.is_full, bytes > limit);
        if bytes > limit && !self.config.drops_oldest && !was_full {
            (self.report)(Event::Warning(format!(
                "{bytes} bytes wait in the spool, more than --spool-limit {limit}. They stay, and the capture ends when the disk is full"
            )));
        }
        if !self.config.drops_oldest {
            return Ok(());
        }
        for file in waiting {
            if bytes <= limit {
                break;
            }
            let Some(_lock) = file.open()? else {
                continue;
            };
            let packets = spool::packets(&file.path);
            let record =
                json!({"schema": 1, "file": file.name(), "packets": packets, "bytes": file.bytes});
            self.spool.drop_unshipped(&file, &record.to_string())?;
            bytes -= file.bytes;
            self.counts.dropped_files += 1;
            self.counts.dropped_packets += packets;
            (self.report)(Event::Dropped(&file, packets));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    Now,
    /// It is in the archive since an earlier try.
    Before,
    /// It was in the archive, and was removed from there.
    Removed,
}

enum Failure {
    /// Trying again may help.
    Store(anyhow::Error),
    /// Trying again does not help.
    Final(anyhow::Error),
}

/// The SHA-256 of an object, as the store returns it.
async fn stored_hash(archive: &Archive, key: &str) -> Result<String> {
    let len = archive.len(key).await?;
    let len = len.with_context(|| format!("{}: the segment {key} is gone", archive.name()))?;
    let mut hash = Sha256::new();
    let mut at = 0;
    while at < len {
        let end = (at + READ_BYTES).min(len);
        hash.update(archive.range(key, at..end).await?);
        at = end;
    }
    Ok(segment::hex(&hash.finalize()))
}
