//! `ship`: brings the finished files of a spool into an archive.
//!
//! ```text
//!  finished file ─▶ pack and index ─▶ create the segment ─▶ read it back ─▶ commit its rows ─▶ free the file
//! ```
//! Every step can be repeated: the key of a segment is the hash of the file, and rows are added once for each key. So a `ship` that was
//! killed anywhere begins with the same file again, loses nothing and doubles nothing. A file leaves the spool only after its rows
//! are committed.

pub mod spool;
#[cfg(test)]
mod tests;

use crate::{
    announce::{Address, Announcement, Queue},
    archive::{Archive, BadRequest, StoreFault},
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
    collections::{HashMap, HashSet},
    fs::{self, File},
    path::PathBuf,
    time::{Duration, SystemTime},
};

/// The longest wait before the store is tried again.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// How often the spool is searched for finished files.
const INTERVAL: Duration = Duration::from_secs(2);
/// Bytes that are read back at once.
const READ_BYTES: u64 = 16 << 20;
/// Warnings that are remembered.
const MAX_WARNED: usize = 1000;
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
    /// Announce segments here, for an indexer. Their rows are not committed then.
    pub announce: Option<Address>,
    /// Return when nothing waits, and at the first failure of the store.
    pub once: bool,
    /// Report snapshots ([`Event::Progress`]). The packets of each file that waits are counted for them.
    pub snapshots: bool,
}

/// Files, their packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Files.
    pub files: u64,
    /// Packets in them.
    pub packets: u64,
    /// Their length.
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, packets: u64, bytes: u64) {
        self.files += 1;
        self.packets += packets;
        self.bytes += bytes;
    }
}

/// What was done, and what waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// What was done since `ship` began.
    pub counts: Counts,
    /// What waits now.
    pub waiting: Amount,
    /// When the oldest file that waits was finished.
    pub oldest: Option<SystemTime>,
}

impl Snapshot {
    /// All files that `ship` has found.
    pub fn captured(&self) -> Amount {
        let Counts {
            shipped,
            dropped,
            failed,
            ..
        } = self.counts;
        let parts = [shipped, dropped, failed, self.waiting];
        let sum = |of: fn(&Amount) -> u64| parts.iter().map(of).sum();
        Amount {
            files: sum(|it| it.files),
            packets: sum(|it| it.packets),
            bytes: sum(|it| it.bytes),
        }
    }
}

/// What `ship` did since it began. Packets are those that files contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that are in the archive with their rows.
    pub shipped: Amount,
    /// Of these, files that another run had already brought there.
    pub repeated_files: u64,
    /// Bytes sent as segments.
    pub sent_bytes: u64,
    /// Files that were dropped because the spool was full.
    pub dropped: Amount,
    /// Files in the folder `failed`: nothing in them can be read, or their segment in the archive was removed or is damaged.
    pub failed: Amount,
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
    /// The counts have changed.
    Progress(Snapshot),
}

/// Ships until `once` is done, or forever.
pub struct Ship<'a> {
    config: ShipConfig,
    spool: Spool,
    table: Option<Table>,
    queue: Option<Queue>,
    /// The file that was being shipped when the index or the queue failed. Its segment is verified.
    verified: Option<Pending>,
    is_claimed: bool,
    /// How often the store did not take a file that is still there, by [`Finished::mark`], and one.
    failed_tries: HashMap<String, u32>,
    /// The identity of the archive, for announcements.
    identity: Option<String>,
    is_full: bool,
    /// Files were cut or dropped, so there is more to ship.
    has_more: bool,
    /// The packets of files that wait.
    known: HashMap<String, u64>,
    /// Warnings that were reported: a file that cannot be shipped is found again and again.
    warned: HashSet<String>,
    /// What was done so far.
    pub counts: Counts,
    report: &'a mut (dyn FnMut(Event<'_>) + 'a),
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
            segment::is_sensor_name(sensor),
            BadRequest(format!(
                "{sensor}: cannot be the name of a sensor. Use up to 64 letters, digits, dots, dashes and underscores"
            ))
        );
        let spool = Spool::open(&config.spool, sensor)?;
        Ok(Ship {
            queue: config.announce.clone().map(Queue::new),
            config,
            spool,
            table: None,
            verified: None,
            is_claimed: false,
            failed_tries: HashMap::new(),
            identity: None,
            is_full: false,
            has_more: false,
            known: HashMap::new(),
            warned: HashSet::new(),
            counts: Counts::default(),
            report,
        })
    }

    /// Ships until everything is shipped (`once`), or until the future is dropped, which is safe at any point.
    ///
    /// # Errors
    /// The spool cannot be read, the name of the sensor belongs to another spool, or the store ignores that objects must only be created.
    /// With `once` also: the store failed, or finished files are left.
    pub async fn run(&mut self) -> Result<()> {
        let mut wait = Duration::from_secs(1);
        loop {
            self.report_snapshot();
            let shipped = self.counts.shipped.files;
            let done = self.pass().await;
            self.report_snapshot();
            if self.counts.shipped.files > shipped {
                wait = Duration::from_secs(1);
            }
            match done {
                Ok(()) => wait = Duration::from_secs(1),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Store(error) | Failure::Segment(error)) if self.config.once => {
                    return Err(error);
                }
                Err(Failure::Store(error) | Failure::Segment(error)) => {
                    self.counts.failures += 1;
                    self.table = None;
                    if let Some(queue) = &mut self.queue {
                        queue.disconnect();
                    }
                    let seconds = wait.as_secs();
                    (self.report)(Event::Warning(format!(
                        "{error:#}. Trying again in {seconds} s"
                    )));
                    self.keep_limit();
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(MAX_WAIT);
                    continue;
                }
            }
            self.spool.trim_kept(self.config.keep)?;
            if self.config.once {
                if std::mem::take(&mut self.has_more) {
                    continue;
                }
                let left = self.finished()?.len();
                let spool = self.config.spool.display();
                ensure!(left == 0, "{spool}: {left} finished files are left");
                return Ok(());
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Ships every file that is finished now.
    async fn pass(&mut self) -> Result<(), Failure> {
        self.claim().await?;
        self.ship_records().await?;
        let mut files = self.finished().map_err(Failure::Final)?;
        // Files that the store did not take must not hold up the others: those with the fewest failures come first. Other runs may have
        // failed with files that are marked. But if no other file can be marked, those come first, because each that is shipped makes
        // room for a mark.
        let marked = files.iter().filter(|it| self.spool.is_marked(it)).count();
        let is_full = marked >= spool::MAX_SENDING;
        let there: HashSet<_> = files.iter().map(Finished::mark).collect();
        self.failed_tries.retain(|mark, _| there.contains(mark));
        files.sort_by_cached_key(|it| {
            let is_marked = self.spool.is_marked(it);
            let tries = self.failed_tries.get(&it.mark()).copied();
            (is_full && !is_marked, tries.unwrap_or(u32::from(is_marked)))
        });
        let (mut failure, mut is_second) = (None, false);
        for file in files {
            self.keep_limit();
            match self.ship_file(&file).await {
                Ok(()) => is_second = false,
                Err(Failure::Final(error)) => self.warn_once(&error),
                Err(Failure::Segment(error)) => {
                    *self.failed_tries.entry(file.mark()).or_insert(1) += 1;
                    if is_second && !(self.config.once && self.store_answers().await) {
                        return Err(Failure::Store(error));
                    }
                    is_second = true;
                    if failure.is_some() {
                        self.warn_once(&error);
                    }
                    failure.get_or_insert(error);
                }
                other => return other,
            }
            self.report_snapshot();
        }
        failure.map_or(Ok(()), |error| Err(Failure::Store(error)))
    }

    /// Reports what was done and what waits, if that is wanted.
    fn report_snapshot(&mut self) {
        if !self.config.snapshots {
            return;
        }
        let Ok(files) = spool::finished_in(&self.config.spool) else {
            return; // the next pass reports it
        };
        let mut snapshot = Snapshot {
            counts: self.counts,
            oldest: files.iter().map(|it| it.modified).min(),
            ..Snapshot::default()
        };
        let mut known = HashMap::new();
        for file in &files {
            let mark = file.mark();
            let packets = self.known.remove(&mark);
            let packets = packets.unwrap_or_else(|| spool::packets(&file.path));
            snapshot.waiting.add(packets, file.bytes);
            known.insert(mark, packets);
        }
        self.known = known;
        (self.report)(Event::Progress(snapshot));
    }

    /// The finished files.
    fn finished(&mut self) -> Result<Vec<Finished>> {
        let mut failed = Vec::new();
        let found = self.spool.finished(&mut |error| failed.push(error));
        failed.iter().for_each(|error| self.warn_once(error));
        found
    }

    fn warn_once(&mut self, error: &anyhow::Error) {
        let text = format!("{error:#}");
        if self.warned.len() >= MAX_WARNED {
            self.warned.clear();
        }
        if self.warned.insert(text.clone()) {
            (self.report)(Event::Warning(text));
        }
    }

    /// The object that every [`claim`](Self::claim) leaves in the archive.
    fn claim_key(&self) -> String {
        format!("sensors/{}/claim.json", self.config.sensor)
    }

    /// Whether the store can be reached, and so refused only a segment.
    async fn store_answers(&self) -> bool {
        let claim = self.config.archive.len(&self.claim_key()).await;
        matches!(claim, Ok(Some(_)))
    }

    /// Two sensors with one name would mix their captures and their counts, so the first spool that uses a name owns it.
    async fn claim(&mut self) -> Result<(), Failure> {
        if self.is_claimed {
            return Ok(());
        }
        let (archive, sensor) = (&self.config.archive, &self.config.sensor);
        let key = self.claim_key();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let (host, folder) = (
            host.trim(),
            self.config.spool.canonicalize().unwrap_or_default(),
        );
        let folder = folder.display().to_string();
        let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let machine = segment::hex(&Sha256::digest(machine.trim()));
        let claim = json!({"schema": 1, "spool": self.spool.id, "host": host, "folder": folder, "machine": machine});
        let put = async || {
            let put = archive.put_new(&key, claim.to_string().into()).await;
            put.map_err(Failure::Store)
        };
        // Reading comes first: a store that ignores that objects must only be created would replace the claim of another spool.
        let mut there = archive.get(&key).await.map_err(Failure::Store)?;
        if there.is_none() {
            put().await?;
            there = archive.get(&key).await.map_err(Failure::Store)?;
        }
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
        if put().await? {
            return Err(Failure::Final(anyhow!(
                "{}: this store creates an object although it exists, so programs could replace each other's index. It must support \
                 `If-None-Match: *`: use a newer version of the store, or leave out the proxy before it",
                archive.name()
            )));
        }
        if text("machine") != machine {
            (self.report)(Event::Warning(format!(
                "{}: the spool of {sensor} was on another machine ({}). If this machine is a copy of that one, both ship as one sensor: \
                 remove {folder}/.forebay-ship here and choose another name with --sensor",
                archive.name(),
                text("host")
            )));
        }
        if self.queue.is_some() {
            let identity = self.config.archive.identity_or(&self.spool.id).await;
            self.identity = Some(identity.map_err(Failure::Store)?);
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
        let known = self.verified.take().filter(|it| it.mark == found.mark());
        let mut pending = match known {
            Some(pending) => pending,
            None => match self.pack(&file) {
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
        let freed = self.spool.free(found, self.config.keep != Keep::Nothing);
        freed
            .or_else(|error| marked.and(Err(error)))
            .map_err(Failure::Final)?;
        self.counts
            .shipped
            .add(packed.directory.packets, found.bytes);
        self.counts.repeated_files += u64::from(matches!(stored, Stored::Before));
        (self.report)(Event::Shipped(found, &packed));
        // After an outage a pass is long, and what it frees must not fill the disk.
        match self.config.keep {
            Keep::Nothing => Ok(()),
            keep => self.spool.trim_kept(keep).map_err(Failure::Final),
        }
    }

    /// Packs a file; on a full disk into the system's folder for temporary files.
    fn pack(&self, file: &File) -> Result<(Packed, File)> {
        let options = Pack {
            sensor: &self.config.sensor,
            compress: self.config.compress,
        };
        let pack = |in_spool: bool| {
            let mut scratch = self.spool.scratch(in_spool)?;
            let plain = spool::plain(file).context("reading it")?;
            segment::pack(plain, &mut scratch, &options).map(|packed| (packed, scratch))
        };
        pack(true).or_else(|error| match is_full(&error) {
            true => pack(false).context(
                "the disk of the spool is full. Set TMPDIR to a folder on another disk, with room for one packed file",
            ),
            false => Err(error),
        })
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
                let table = self.table.as_mut().context("the index is not open")?;
                match table.append(&[rows]).await? {
                    // `expire` may have removed it meanwhile.
                    0 if self.was_removed(packed).await? => return Ok(Stored::Removed),
                    added => added > 0,
                }
            }
        };
        Ok(match is_new {
            true => Stored::Now,
            false => Stored::Before,
        })
    }

    /// Whether the index has the rows of a segment. Rows that were added since the index was read last are found when rows are committed.
    async fn has_rows(&mut self, key: &str) -> Result<bool> {
        let table = match &mut self.table {
            Some(table) => table,
            None => {
                let opened = Table::open_or_create(&self.config.archive).await?;
                self.table.insert(opened)
            }
        };
        if !table.has(key).await? {
            return Ok(false);
        }
        // The index may have been replaced.
        table.refresh().await?;
        table.has(key).await
    }

    /// Whether `expire` has removed this file's segment, or is removing it.
    async fn was_removed(&self, packed: &Packed) -> Result<bool> {
        let directory = &packed.directory;
        let record = segment::expired_record(&directory.sensor, &directory.sha256);
        Ok(self.config.archive.len(&record).await?.is_some())
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
        pending.is_new = archive.put_file(&packed.key, scratch, packed.bytes).await?;
        if pending.is_new {
            self.counts.sent_bytes += packed.bytes;
        }
        let hash = stored_hash(&archive, &packed.key).await?;
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
                Err(error) if error.downcast_ref::<StoreFault>().is_some() => return Err(error),
                Err(error) => {
                    ensure!(
                        stored_hash(&archive, &packed.key).await? == hash,
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

    /// Drops the oldest files if more wait than the limit allows.
    fn keep_limit(&mut self) {
        let Some(limit) = self.config.limit_bytes else {
            return;
        };
        let waiting = match self.finished() {
            Ok(waiting) => waiting,
            Err(error) => return self.warn_once(&error),
        };
        let mut bytes: u64 = waiting.iter().map(|it| it.bytes).sum();
        let was_full = std::mem::replace(&mut self.is_full, bytes > limit);
        if bytes > limit && !self.config.drops_oldest && !was_full {
            (self.report)(Event::Warning(format!(
                "{bytes} bytes wait in the spool, more than --spool-limit {limit}. They stay, and the capture ends when the disk is full"
            )));
        }
        if !self.config.drops_oldest {
            return;
        }
        for file in waiting {
            if bytes <= limit {
                break;
            }
            // Its packets may be in the archive, or in a compressed copy.
            if self.spool.is_marked(&file) || file.is_being_compressed() {
                continue;
            }
            match self.drop_file(&file) {
                Ok(true) => bytes -= file.bytes,
                Ok(false) => {}
                Err(error) => self.warn_once(&error),
            }
        }
    }

    /// Drops a file, unless it is in use.
    fn drop_file(&mut self, file: &Finished) -> Result<bool> {
        let opened = file.open();
        let opened = opened.with_context(|| format!("{}: opening it", file.path.display()))?;
        let Some(_lock) = opened else {
            return Ok(false);
        };
        let packets = spool::packets(&file.path);
        let record =
            json!({"schema": 1, "file": file.name(), "packets": packets, "bytes": file.bytes});
        self.spool.drop_unshipped(file, &record.to_string())?;
        self.counts.dropped.add(packets, file.bytes);
        self.has_more = true;
        (self.report)(Event::Dropped(file, packets));
        Ok(true)
    }
}

/// Whether there was no room on a disk.
fn is_full(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let causes = error
        .chain()
        .filter_map(|it| it.downcast_ref::<std::io::Error>());
    causes
        .map(std::io::Error::kind)
        .any(|it| it == StorageFull || it == QuotaExceeded)
}

/// A file that is being shipped.
struct Pending {
    /// The version of the file.
    mark: String,
    packed: Packed,
    /// The packed copy. `None`: the segment is in the archive, and was read back.
    scratch: Option<File>,
    /// This run has created the segment.
    is_new: bool,
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

enum Failure {
    /// Trying again may help.
    Store(anyhow::Error),
    /// The same, while a segment was being created. Perhaps only this segment is refused.
    Segment(anyhow::Error),
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
