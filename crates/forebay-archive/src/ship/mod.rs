//! `ship`: brings the finished files of a spool into an archive.
//!
//! ```text
//!  finished file ─▶ pack and index ─▶ create the segment ─▶ read it back ─▶ commit its rows ─▶ free the file
//! ```
//! Every step can be repeated: the key of a segment is the hash of the file, and rows are added once for each key. So a `ship` that was
//! killed anywhere begins with the same file again, loses nothing and doubles nothing. A file leaves the spool only after its rows
//! are committed.

mod dropped;
mod file;
mod pending;
mod refused;
pub mod spool;
mod state;
#[cfg(test)]
mod tests;

use crate::{
    announce::{Address, Queue},
    archive::Archive,
    ledger::{Expired, Ledger},
    segment::{self, Packed},
    table::Table,
};
use anyhow::{Context, Result, anyhow, ensure};
use pending::Pending;
use refused::Refused;
use serde_json::json;
use sha2::{Digest, Sha256};
use spool::{Finished, Keep, Spool};
use std::{
    collections::{HashMap, HashSet},
    fs,
    path::PathBuf,
    pin::pin,
    time::{Duration, Instant, SystemTime},
};

/// The shortest and the longest wait before the store is tried again.
const MIN_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(60);
/// How often the spool is searched for finished files, and its limit is checked.
const INTERVAL: Duration = Duration::from_secs(2);
/// Warnings that are remembered.
const MAX_WARNED: usize = 1000;

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
    /// How many seconds the clock of the sensor was ahead of that of the store when the last segment was created.
    pub clock_ahead_s: Option<i64>,
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
    refused: Refused,
    /// The file that is being shipped, in the form of [`Finished::mark`].
    present: Option<String>,
    /// When the spool was looked at last.
    looked: Option<Instant>,
    /// The identity of the archive, for announcements.
    identity: Option<String>,
    ledger: Ledger,
    expired: Expired,
    is_full: bool,
    clock_ahead_s: Option<i64>,
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
        let spool = Spool::open(&config.spool, &config.sensor)?;
        Ok(Ship {
            queue: config.announce.clone().map(Queue::new),
            config,
            spool,
            table: None,
            verified: None,
            is_claimed: false,
            refused: Refused::default(),
            present: None,
            looked: None,
            identity: None,
            ledger: Ledger::default(),
            expired: Expired::default(),
            is_full: false,
            clock_ahead_s: None,
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
        let mut wait = MIN_WAIT;
        loop {
            self.report_snapshot();
            let shipped = self.counts.shipped.files;
            let done = self.pass().await;
            self.report_snapshot();
            if self.counts.shipped.files > shipped {
                wait = MIN_WAIT;
            }
            if done.is_err() {
                // The next pass asks the store first: before it answers, packing a file is useless.
                self.is_claimed = false;
            }
            match done {
                Ok(()) => wait = MIN_WAIT,
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
                    self.watched(tokio::time::sleep(wait)).await;
                    wait = (wait * 2).min(MAX_WAIT);
                    continue;
                }
            }
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
        if let Err(error) = self.spool.trim_kept(self.config.keep) {
            self.warn_once(&error);
        }
        self.claim().await?;
        self.ship_records().await?;
        let mut files = self.finished().map_err(Failure::Final)?;
        if !files.is_empty() && self.queue.is_none() {
            self.table().await.map_err(Failure::Store)?;
        }
        // Files that the store did not take must not hold up the others: those with the fewest failures come first. Other runs may have
        // failed with files that are marked. But if no other file can be marked, those come first, because each that is shipped makes
        // room for a mark.
        let marked = files.iter().filter(|it| self.spool.is_marked(it)).count();
        let is_full = self.spool.is_all_marked(marked);
        let there: HashSet<_> = files.iter().map(Finished::mark).collect();
        self.refused.retain(&there);
        files.sort_by_cached_key(|it| {
            let (mark, is_marked) = (it.mark(), self.spool.is_marked(it));
            let is_verified = self.verified.as_ref().is_some_and(|it| it.mark == mark);
            let tries = self.refused.tries(&mark);
            (!is_verified, is_full && !is_marked, tries, is_marked)
        });
        let (mut failure, mut is_second) = (None, false);
        for file in files {
            let mark = file.mark();
            if !self.config.once && self.refused.is_waiting(&mark, Instant::now()) {
                continue;
            }
            self.look();
            self.present = Some(mark.clone());
            let shipped = self.ship_file(&file).await;
            self.present = None;
            match shipped {
                Ok(()) => is_second = false,
                Err(Failure::Final(error)) => self.warn_once(&error),
                Err(Failure::Segment(error)) => {
                    if !self.store_answers().await {
                        return Err(Failure::Store(error));
                    }
                    let wait = self.refused.add(mark, Instant::now());
                    if self.config.once {
                        if failure.is_some() {
                            self.warn_once(&error);
                        }
                        failure.get_or_insert(error);
                    } else if is_second {
                        // Perhaps it refuses everything.
                        return Err(Failure::Store(error));
                    } else {
                        is_second = true;
                        self.counts.failures += 1;
                        let seconds = wait.as_secs();
                        (self.report)(Event::Warning(format!(
                            "{error:#}. Trying this file again in {seconds} s"
                        )));
                    }
                }
                other => return other,
            }
        }
        failure.map_or(Ok(()), |error| Err(Failure::Store(error)))
    }

    /// Keeps the limit of the spool and reports what waits, once in an [`INTERVAL`]: both list the folder.
    fn look(&mut self) {
        if self.looked.is_some_and(|it| it.elapsed() < INTERVAL) {
            return;
        }
        self.looked = Some(Instant::now());
        self.keep_limit();
        self.report_snapshot();
    }

    /// Does this, and looks at the spool meanwhile.
    async fn watched<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            self.look();
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    /// The index.
    async fn table(&mut self) -> Result<&mut Table> {
        Ok(match &mut self.table {
            Some(table) => table,
            none => none.insert(Table::open_or_create(&self.config.archive).await?),
        })
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
            clock_ahead_s: self.clock_ahead_s,
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
        let claim = json!({"schema": 1, "spool": self.spool.id(), "host": host, "folder": folder, "machine": machine});
        let put = async || {
            let put = archive.put_new(&key, claim.to_string().into()).await;
            put.map_err(Failure::Store)
        };
        // Reading comes first: a store that ignores that objects must only be created would replace the claim of another spool.
        let mut there = archive.get(&key).await.map_err(Failure::Store)?;
        if there.is_none() {
            self.spool.keep();
            put().await?;
            there = archive.get(&key).await.map_err(Failure::Store)?;
        }
        let there =
            there.and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
        let text = |name: &str| {
            let text = there.as_ref().and_then(|it| it[name].as_str());
            text.unwrap_or("?").to_owned()
        };
        let is_ours = text("spool") == self.spool.id()
            || self.spool.adopt(&text("spool")).map_err(Failure::Final)?;
        if !is_ours {
            // Without its name, the spool would take another one.
            let step = match self.spool.is_bound() {
                true => format!(
                    "Otherwise remove {folder}/.forebay-ship and choose another name with --sensor"
                ),
                false => "Otherwise choose another name with --sensor".to_owned(),
            };
            return Err(Failure::Final(anyhow!(
                "{}: the name {sensor} belongs to the spool {} on {}. If this spool replaces that one, delete {key} in the archive. {step}",
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
        self.spool.bind(sensor).map_err(Failure::Final)?;
        if text("machine") != machine {
            let warning = anyhow!(
                "{}: the spool of {sensor} was on another machine ({}). If this machine is a copy of that one, both ship as one sensor: \
                 remove {folder}/.forebay-ship here and choose another name with --sensor",
                archive.name(),
                text("host")
            );
            self.warn_once(&warning);
        }
        if self.queue.is_some() {
            let identity = self.config.archive.identity_or(self.spool.id()).await;
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
            let name = spool::name_of(&path);
            let key = format!("sensors/{}/dropped-{name}", self.config.sensor);
            let put = self.config.archive.put_new(&key, record.into()).await;
            put.map_err(Failure::Store)?;
            let removed = fs::remove_file(&path);
            removed
                .with_context(|| format!("{}: removing it", path.display()))
                .map_err(Failure::Final)?;
        }
        Ok(())
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
            let is_present = self.present.as_ref() == Some(&file.mark());
            if is_present || self.spool.is_marked(&file) || file.is_being_compressed() {
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

enum Failure {
    /// Trying again may help.
    Store(anyhow::Error),
    /// The same, while a segment was being created. Perhaps only this segment is refused.
    Segment(anyhow::Error),
    /// Trying again does not help.
    Final(anyhow::Error),
}
