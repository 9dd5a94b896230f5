//! `status`: the packets of each sensor, and whether they add up.
//!
//! `captured = shipped + waiting + expired + dropped + vanished`, for each sensor, in packets; and the packets of the index are those of the
//! segments. `captured` and `shipped` come from the account that each sensor keeps ([`ledger`]), and which segments are there from the list of
//! the store. Of a day whose list of segments and whose packets in the index are those of its [summary](DaySummary), the account is not read. `captured` is what the captures counted themselves, in the statistics at the end of their files; files without statistics count
//! with the packets that they contain.

mod config;
#[cfg(test)]
mod fault_tests;
mod index;
#[cfg(test)]
mod many_tests;
mod segments;
#[cfg(test)]
mod summary_tests;

pub use config::StatusConfig;
pub use index::packets_by_segment;

use crate::{
    archive::{self, Archive},
    ledger::{self, DaySummary, Records, Sum},
    segment,
    ship::spool,
    table::{Table, now_ms},
};
use anyhow::Result;
use config::{Day, add};
use index::IndexSums;
use segments::Segment;
use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

/// The counts of a sensor, in packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sensor {
    /// Segments in the archive.
    pub segments: u64,
    /// Their length as stored.
    pub stored_bytes: u64,
    /// Of these, the length of damaged segments.
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
    /// Segments and records that are damaged, and why.
    pub damaged: Vec<String>,
    /// Segments that the store did not return, and why: their packets are only in the count of the index.
    pub unreadable: Vec<String>,
    /// Their length as stored.
    pub unreadable_bytes: u64,
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

    /// Counts a segment that is stored.
    fn count(&mut self, it: &Segment) {
        self.segments += 1;
        add(&mut self.stored_bytes, it.bytes);
        if let Some(damage) = &it.damage {
            add(&mut self.damaged_bytes, it.bytes);
            self.damaged.push(damage.clone());
        }
        if let Some(why) = &it.unreadable {
            add(&mut self.unreadable_bytes, it.bytes);
            self.unreadable.push(why.clone());
        }
        let Some(entry) = &it.entry else {
            return;
        };
        if it.damage.is_none() {
            add(&mut self.plain_bytes, entry.plain_bytes.unwrap_or(0));
        }
        let captured = entry.captured.unwrap_or(entry.packets);
        add(&mut self.shipped, entry.packets);
        add(&mut self.captured, captured);
        if captured != entry.packets {
            let differing = (it.key.clone(), captured, entry.packets);
            self.differing.push(differing);
        }
        self.lose([entry.lost_kernel, entry.lost_interface]);
    }

    /// Counts a day whose list of segments and whose packets in the index are those of its summary.
    fn count_day(&mut self, day: &DaySummary) {
        add(&mut self.segments, day.stored.segments);
        add(&mut self.stored_bytes, day.stored_bytes);
        add(&mut self.plain_bytes, day.plain_bytes);
        add(&mut self.shipped, day.stored.packets);
        add(&mut self.indexed, day.stored.packets);
        self.differing.extend_from_slice(&day.differing);
        self.count_gone(&day.expired, &day.vanished);
        add(&mut self.captured, day.stored.captured);
        self.lose([day.stored.lost_kernel, day.stored.lost_interface]);
    }

    /// Counts the sums of segments that have expired, and of those whose loss was accepted.
    fn count_gone(&mut self, expired: &Sum, vanished: &Sum) {
        add(&mut self.expired, expired.packets);
        add(&mut self.vanished, vanished.packets);
        for sum in [expired, vanished] {
            add(&mut self.captured, sum.captured);
            self.lose([sum.lost_kernel, sum.lost_interface]);
        }
    }

    /// Compares a segment with its packets in the index. `None`: it has no rows.
    fn compare(&mut self, it: &Segment, indexed: Option<u64>) {
        add(&mut self.indexed, indexed.unwrap_or(0));
        match (&it.entry, indexed) {
            (Some(entry), None) if entry.packets > 0 && it.is_young => self.in_flight += 1,
            (Some(entry), _) if entry.packets != indexed.unwrap_or(0) => {
                self.unindexed.push(it.key.clone());
            }
            _ => {}
        }
    }

    /// The sum that `captured` should be.
    pub fn parts(&self) -> u64 {
        let waiting = self.waiting.unwrap_or(0);
        let parts = [
            self.shipped,
            waiting,
            self.expired,
            self.dropped,
            self.vanished,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    /// Whether everything is known, and adds up.
    pub fn is_sound(&self) -> bool {
        self.adds_up() && self.unreadable.is_empty()
    }

    /// Whether everything adds up that the store has returned.
    pub fn adds_up(&self) -> bool {
        self.captured == self.parts()
            && self.missing.is_empty()
            && self.unindexed.is_empty()
            && self.dangling.is_empty()
            && self.damaged.is_empty()
    }
}

/// The counts of the sensors of an archive.
///
/// # Errors
/// The store failed, there is no such sensor, or the table is of a newer version.
pub async fn status(archive: &Archive, config: &StatusConfig) -> Result<BTreeMap<String, Sensor>> {
    let mut config = config.clone();
    config.sensors.sort_unstable();
    config.sensors.dedup();
    let config = &config;
    archive.check_sensors("--sensor", &config.sensors).await?;
    // What waits comes first, and what was expired last: a file that moves on meanwhile is found at its new place, too, and counted
    // there.
    let spools = config.spools.iter().filter(|it| config.wants_sensor(&it.0));
    let mut waiting = Vec::new();
    for (sensor, folder) in spools.clone() {
        for file in spool::finished_in(folder)? {
            waiting.extend(spool::contents(&file.path).map(|it| (sensor, it)));
        }
    }
    let objects = segments::listed(archive, config).await?;
    let mut table = Table::open(archive).await?;
    let mut index = match &table {
        Some(table) => IndexSums::read(archive, table, config).await?,
        None => IndexSums::default(),
    };
    let wanted = |sensor: &str, date: &str| config.wants(sensor, date);
    let mut listed = segments::by_day(objects);
    let waits: HashSet<&String> = waiting.iter().map(|it| it.0).collect();
    let takes = |sensor: &str, date: &str, summary: &DaySummary| {
        let day = (sensor.to_owned(), date.to_owned());
        let listed = listed.get(&day).map_or(&[][..], Vec::as_slice);
        let lengths = listed.iter().map(|it| (it.location.as_ref(), it.size));
        // A file that waits may have expired already. A summary does not have it, and a closed day has forgotten it.
        let is_asked = summary.expired.segments > 0 && !summary.is_closed;
        !(is_asked && waits.contains(&day.0))
            && index.sums.get(&day).copied().unwrap_or(0) == summary.stored.packets
            && summary.has_just(lengths)
    };
    let records = Records::read(archive, &config.sensors, &wanted, &takes).await?;
    let mut archived = HashSet::new();
    for day in records.days.keys() {
        index.sums.remove(day);
        let listed = listed.remove(day).unwrap_or_default();
        if waits.contains(&day.0) {
            let ids = listed
                .iter()
                .map(|it| segment::identity(it.location.as_ref()));
            archived.extend(ids.flatten());
        }
    }
    let others = listed.into_values().flatten();
    let mut stored = segments::known(archive, others, &records).await?;
    let there = stored.iter().filter(|it| !it.is_expired);
    let there = there.filter_map(|it| segment::identity(&it.key)).collect();
    let missing = ledger::missing(archive, &records, &there).await?;
    // The packets of a segment that is gone could hide that others are not in the index.
    let gone = missing.segments.values().filter(|it| !it.2);
    let gone = gone.filter_map(|it| segment::parse_key(&it.1.segment));
    let gone = gone.map(|(sensor, date, _)| (sensor.to_owned(), date.to_owned()));
    // So could the rows of one that cannot be read.
    let unread = stored.iter();
    let unread = unread.filter(|it| it.unreadable.is_some() || it.damage.is_some());
    let gone: HashSet<Day> = gone.chain(unread.map(Segment::day)).collect();
    let (differing, in_flight) = compare(&stored, &index, &gone, table.as_mut()).await?;
    let mut rows = index.of(archive, &differing).await?;
    // Rows whose segment was created after the list was read.
    let listed: HashSet<&str> = stored.iter().map(|it| &*it.key).collect();
    let others: Vec<&String> = rows.keys().filter(|it| !listed.contains(&***it)).collect();
    let others = archive::at_once(others.iter().map(async |key| archive.head(key).await)).await?;
    let others = others.into_iter().flatten();
    stored.extend(segments::known(archive, others, &records).await?);
    // An `expire` that was killed may have left some of them, and their rows.
    stored.iter().filter(|it| it.is_expired).for_each(|it| {
        rows.remove(&it.key);
    });

    let mut sensors: BTreeMap<String, Sensor> = BTreeMap::new();
    for ((name, _), day) in &records.days {
        let sensor = sensors.entry(name.clone()).or_insert_with(known_losses);
        sensor.count_day(day);
    }
    for it in &stored {
        let sensor = sensors
            .entry(it.sensor.clone())
            .or_insert_with(known_losses);
        if it.is_expired {
            sensor.not_deleted += 1;
            add(&mut sensor.not_deleted_bytes, it.bytes);
            continue;
        }
        archived.extend(segment::identity(&it.key));
        sensor.count(it);
        match differing.contains(&it.day()) {
            true => sensor.compare(it, rows.remove(&it.key)),
            false => sensor.in_flight += u64::from(in_flight.contains(&it.key)),
        }
    }
    for (day, packets) in &index.sums {
        if !differing.contains(day) {
            let sensor = sensors.entry(day.0.clone()).or_insert_with(known_losses);
            add(&mut sensor.indexed, *packets);
        }
    }
    for (key, packets) in rows {
        let name = segment::parse_key(&key)
            .map_or("?", |(name, ..)| name)
            .to_owned();
        let sensor = sensors.entry(name).or_insert_with(known_losses);
        add(&mut sensor.indexed, packets);
        sensor.dangling.push(key);
    }
    for (id, entry) in &records.expired {
        let Some(name) = ledger::sensor_of(id) else {
            continue;
        };
        let sensor = sensors.entry(name.into()).or_insert_with(known_losses);
        add(&mut sensor.expired, entry.packets);
        add(
            &mut sensor.captured,
            entry.captured.unwrap_or(entry.packets),
        );
        sensor.lose([entry.lost_kernel, entry.lost_interface]);
    }
    for (name, sums) in &records.sums {
        let sensor = sensors.entry(name.clone()).or_insert_with(known_losses);
        sensor.count_gone(&sums.expired, &sums.vanished);
    }
    for (name, entry) in records.dropped.values() {
        let sensor = sensors.entry(name.clone()).or_insert_with(known_losses);
        add(&mut sensor.dropped, entry.packets);
        add(&mut sensor.captured, entry.packets);
    }
    for (name, what) in missing.damaged {
        let sensor = sensors.entry(name).or_insert_with(known_losses);
        sensor.damaged.push(what);
    }
    for (key, (name, entry, is_accepted)) in missing.segments {
        let sensor = sensors.entry(name).or_insert_with(known_losses);
        add(&mut sensor.vanished, entry.packets);
        add(
            &mut sensor.captured,
            entry.captured.unwrap_or(entry.packets),
        );
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
            sensor.waiting = sensor.waiting.map(|it| it.saturating_add(packets));
            add(&mut sensor.captured, packets);
        }
    }
    Ok(sensors)
}

/// The days on which the packets of the index are not those of the segments, or a segment is gone or unreadable, and the segments of the other days that are being shipped.
async fn compare(
    stored: &[Segment],
    index: &IndexSums,
    gone: &HashSet<Day>,
    mut table: Option<&mut Table>,
) -> Result<(HashSet<Day>, HashSet<String>)> {
    let mut sums: BTreeMap<Day, u64> = BTreeMap::new();
    for it in stored.iter().filter(|it| !it.is_expired) {
        add(sums.entry(it.day()).or_insert(0), it.packets());
    }
    let is_equal = |day: &Day, sums: &BTreeMap<Day, u64>| {
        let sum = |sums: &BTreeMap<Day, u64>| sums.get(day).copied().unwrap_or(0);
        sum(sums) == sum(&index.sums) && !gone.contains(day)
    };
    let days = sums.keys().chain(index.sums.keys());
    let days = days.filter(|it| !is_equal(it, &sums)).cloned();
    let mut differing: HashSet<Day> = days.collect();
    let mut in_flight = HashSet::new();
    for it in stored.iter().filter(|it| it.is_young && !it.is_expired) {
        let day = it.day();
        if it.packets() == 0 || !differing.contains(&day) {
            continue;
        }
        let has_rows = match &mut table {
            Some(table) => table.has(&it.key).await?,
            None => false,
        };
        if !has_rows && let Some(sum) = sums.get_mut(&day) {
            *sum = sum.saturating_sub(it.packets());
            in_flight.insert(it.key.clone());
        }
    }
    differing.retain(|it| !is_equal(it, &sums));
    Ok((differing, in_flight))
}

/// The date (UTC) that was this time ago, as `2026-11-23`.
pub fn date_before(age: Duration) -> String {
    let ns = (now_ms() as u64).saturating_mul(1_000_000);
    let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
    segment::date_and_hour(ns.saturating_sub(age)).0
}

fn known_losses() -> Sensor {
    Sensor {
        lost: [Some(0); 2],
        ..Sensor::default()
    }
}
