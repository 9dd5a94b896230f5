//! `status`: the packets of each sensor, and whether they add up.
//!
//! `captured = shipped + waiting + expired + dropped + vanished`, for each sensor, in packets; and the packets of the index are those of the
//! segments. What has vanished is known from the account that each sensor keeps ([`ledger`]). `captured` is what the captures counted themselves, in the statistics at the end of their files; files without
//! statistics count with the packets that they contain.

use crate::{
    archive::{self, Archive},
    index,
    ledger::{self, Records},
    schema, segment,
    ship::spool,
    table::Table,
};
use anyhow::{Context, Result};
use arrow_array::{Array, Int64Array};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::PathBuf,
};

/// A longer record of packets that left is damaged.
const MAX_RECORD: u64 = 64 << 10;

/// The counts of a sensor, in packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sensor {
    /// Segments in the archive.
    pub segments: u64,
    /// Their length as stored.
    pub stored_bytes: u64,
    /// Of these, the length of segments whose directory cannot be read.
    pub damaged_bytes: u64,
    /// The length of the capture files of the others.
    pub plain_bytes: u64,
    /// Packets that the captures counted.
    pub captured: u64,
    /// Packets in segments.
    pub shipped: u64,
    /// Packets in the spool. `None`: the spool was not named.
    pub waiting: Option<u64>,
    /// Packets of segments that `expire` removed.
    pub expired: u64,
    /// Packets of files that `ship` dropped because the spool was full.
    pub dropped: u64,
    /// Packets of segments that were shipped, and are neither stored nor expired.
    pub vanished: u64,
    /// Of these, the segments whose loss was not accepted.
    pub missing: Vec<String>,
    /// Packets in rows of the index.
    pub indexed: u64,
    /// Segments without rows that are younger than an hour: they are being shipped.
    pub in_flight: u64,
    /// Segments that have expired and are still stored: an `expire` is running, was killed, or the store did not delete them.
    pub not_deleted: u64,
    /// Their length as stored.
    pub not_deleted_bytes: u64,
    /// Segments whose packets in the index are not those in the segment: with no rows, and with others.
    pub unindexed: Vec<String>,
    /// Rows of segments that do not exist.
    pub dangling: Vec<String>,
    /// Packets that were lost before the capture received them: by the kernel and by the interface. `None`: unknown.
    pub lost: [Option<u64>; 2],
    /// Segments that cannot be read, and why.
    pub damaged: Vec<String>,
    /// Segments whose statistics count other packets than they have: the segment, the packets in its statistics, and its packets.
    pub differing: Vec<(String, u64, u64)>,
    /// Files in the spool that are in no count, by kind (`unfinished`, `cut`, `failed`): their number and their bytes.
    pub uncounted: Vec<(&'static str, u64, u64)>,
}

impl Sensor {
    /// Adds losses; a part that is unknown makes the sum unknown.
    fn lose(&mut self, lost: [Option<u64>; 2]) {
        for (sum, lost) in self.lost.iter_mut().zip(lost) {
            *sum = sum.zip(lost).map(|(sum, lost)| sum.saturating_add(lost));
        }
    }

    /// The sum that `captured` should be.
    pub fn parts(&self) -> u64 {
        let waiting = self.waiting.unwrap_or(0);
        self.shipped + waiting + self.expired + self.dropped + self.vanished
    }

    /// Whether everything adds up.
    pub fn is_sound(&self) -> bool {
        self.captured == self.parts()
            && self.missing.is_empty()
            && self.unindexed.is_empty()
            && self.dangling.is_empty()
            && self.damaged.is_empty()
    }
}

/// The counts of all sensors of an archive. `spools`: spools on this machine, by the name of the sensor.
///
/// # Errors
/// The store failed, or the table is of a newer version.
pub async fn status(
    archive: &Archive,
    spools: &[(String, PathBuf)],
) -> Result<BTreeMap<String, Sensor>> {
    // What waits comes first, and what was expired last: a file that moves on meanwhile is found at its new place, too, and counted
    // there.
    let mut waiting = Vec::new();
    for (sensor, folder) in spools {
        for file in spool::finished_in(folder)? {
            waiting.extend(spool::contents(&file.path).map(|it| (sensor, it)));
        }
    }
    let mut objects = archive.list(segment::FOLDER).await?;
    objects.retain(|it| segment::parse_key(it.location.as_ref()).is_some());
    let mut rows = match Table::open(archive).await? {
        Some(table) => packets_by_segment(&table).await?,
        None => HashMap::new(),
    };
    // Rows whose segment was created after the list was read.
    let listed: HashSet<&str> = objects.iter().map(|it| it.location.as_ref()).collect();
    let others: Vec<&String> = rows.keys().filter(|it| !listed.contains(&***it)).collect();
    let others = archive::at_once(others.iter().map(async |key| archive.head(key).await)).await?;
    objects.extend(others.into_iter().flatten());
    let directories = archive.directories(&objects).await;
    let records = Records::read(archive, &|_, _| true).await?;
    // An `expire` that was killed may have left some of them, and their rows.
    let is_expired =
        |key: &str| segment::identity(key).is_some_and(|it| records.expired.contains_key(&it));
    let found: HashSet<&str> = objects.iter().map(|it| it.location.as_ref()).collect();
    rows.retain(|key, _| !is_expired(key) || !found.contains(&**key));

    let mut sensors: BTreeMap<String, Sensor> = BTreeMap::new();
    let mut archived = HashSet::new();
    for (object, directory) in objects.iter().zip(directories) {
        let key = object.location.as_ref();
        let Some((name, _, sha256)) = segment::parse_key(key) else {
            continue;
        };
        let sensor = sensors.entry(name.into()).or_insert_with(known_losses);
        if is_expired(key) {
            sensor.not_deleted += 1;
            sensor.not_deleted_bytes += object.size;
            continue;
        }
        archived.insert(ledger::id(name, sha256));
        sensor.segments += 1;
        sensor.stored_bytes += object.size;
        let indexed = rows.remove(key);
        sensor.indexed += indexed.unwrap_or(0);
        match directory {
            Ok(directory) => {
                sensor.plain_bytes += directory.plain_bytes;
                sensor.shipped += directory.packets;
                let captured = directory.captured.unwrap_or(directory.packets);
                sensor.captured += captured;
                if captured != directory.packets {
                    let differing = (key.into(), captured, directory.packets);
                    sensor.differing.push(differing);
                }
                sensor.lose([directory.lost_kernel, directory.lost_interface]);
                match indexed {
                    None if directory.packets > 0 && archive::is_young(object) => {
                        sensor.in_flight += 1;
                    }
                    _ if indexed.unwrap_or(0) == directory.packets => {}
                    _ => sensor.unindexed.push(key.into()),
                }
            }
            Err(error) => {
                sensor.damaged_bytes += object.size;
                sensor.damaged.push(format!("{error:#}"));
            }
        }
    }
    for (key, packets) in rows {
        let name = segment::parse_key(&key)
            .map_or("?", |(name, ..)| name)
            .to_owned();
        let sensor = sensors.entry(name).or_insert_with(known_losses);
        sensor.indexed += packets;
        sensor.dangling.push(key);
    }
    for (id, entry) in &records.expired {
        let Some(name) = ledger::sensor_of(id) else {
            continue;
        };
        let sensor = sensors.entry(name.into()).or_insert_with(known_losses);
        sensor.expired += entry.packets;
        sensor.captured += entry.captured.unwrap_or(entry.packets);
        sensor.lose([entry.lost_kernel, entry.lost_interface]);
    }
    let others = records.others.iter().map(|it| it.location.as_ref());
    let dropped: Vec<_> = others.filter_map(parse_dropped).collect();
    let read = async |(key, _): &(&str, &str)| archive.get_short(key, MAX_RECORD).await;
    let values = archive::at_once(dropped.iter().map(read)).await?;
    for ((key, name), record) in dropped.into_iter().zip(values) {
        let sensor = sensors.entry(name.into()).or_insert_with(known_losses);
        let record = serde_json::from_slice::<Value>(&record.unwrap_or_default());
        match record.ok().and_then(|it| it["packets"].as_u64()) {
            Some(packets) => {
                sensor.dropped += packets;
                sensor.captured += packets;
            }
            None => {
                let name = archive.name();
                let damage = format!("{name}: {key} is damaged: its packets are not known");
                sensor.damaged.push(damage);
            }
        }
    }
    let missing = ledger::missing(archive, &records, &archived).await?;
    for (name, what) in missing.damaged {
        let sensor = sensors.entry(name).or_insert_with(known_losses);
        sensor.damaged.push(what);
    }
    for (key, (name, entry, is_accepted)) in missing.segments {
        let sensor = sensors.entry(name).or_insert_with(known_losses);
        sensor.vanished += entry.packets;
        sensor.captured += entry.captured.unwrap_or(entry.packets);
        sensor.lose([entry.lost_kernel, entry.lost_interface]);
        if !is_accepted {
            sensor.missing.push(key);
        }
    }
    for (name, folder) in spools {
        let sensor = sensors.entry(name.clone()).or_insert_with(known_losses);
        sensor.waiting = Some(0);
        sensor.uncounted = spool::others_in(folder)?;
    }
    for (name, (packets, sha256)) in waiting {
        // `ship` removes a file after its packets are in the archive.
        let id = ledger::id(name, &sha256);
        let is_archived = archived.contains(&id) || records.expired.contains_key(&id);
        if let Some(sensor) = sensors.get_mut(name)
            && !is_archived
        {
            sensor.waiting = sensor.waiting.map(|it| it + packets);
            sensor.captured += packets;
        }
    }
    Ok(sensors)
}

/// The record of a file that was dropped, and its sensor; `None`: it is another object.
fn parse_dropped(key: &str) -> Option<(&str, &str)> {
    let (name, file) = key.strip_prefix("sensors/")?.split_once('/')?;
    let is_record = file.starts_with("dropped-") && file.ends_with(".json") && !file.contains('/');
    (is_record && segment::is_sensor_name(name)).then_some((key, name))
}

fn known_losses() -> Sensor {
    Sensor {
        lost: [Some(0); 2],
        ..Sensor::default()
    }
}

/// The packets in the rows of each segment.
///
/// # Errors
/// The store failed, or a file of the table is damaged.
pub async fn packets_by_segment(table: &Table) -> Result<HashMap<String, u64>> {
    let mut sums = HashMap::new();
    for file in table.files()? {
        let archive = table.archive();
        let damaged = || file.damaged(archive);
        let bytes = archive.get(&file.key).await?.with_context(damaged)?;
        let names = [schema::SEGMENT, schema::PACKETS];
        for batch in index::batches(bytes, &names).with_context(damaged)? {
            let batch = batch.with_context(damaged)?;
            let segments = index::texts(&batch, schema::SEGMENT).with_context(damaged)?;
            let packets = batch.column_by_name(schema::PACKETS);
            let packets = packets.and_then(|it| it.as_any().downcast_ref::<Int64Array>());
            let packets = packets.with_context(damaged)?;
            for row in 0..segments.len() {
                let sum = match sums.get_mut(segments.value(row)) {
                    Some(sum) => sum,
                    None => sums.entry(segments.value(row).to_owned()).or_insert(0),
                };
                *sum += packets.value(row) as u64;
            }
        }
    }
    Ok(sums)
}
