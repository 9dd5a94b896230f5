//! Reading the records of sensors.

use super::{
    key::{PageKind, parse_page, parse_single, parse_sums},
    page::{Entry, MAX_TRIES, entries, page},
    summary::{self, DaySummary, Summary},
    sums::Sums,
};
use crate::{
    archive::{self, Archive},
    segment,
};
use anyhow::{Result, bail};
use object_store::ObjectMeta;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The records of sensors.
#[derive(Debug, Default)]
pub struct Records {
    /// The segments that were shipped, by their identity.
    pub shipped: HashMap<String, Entry>,
    /// Those that `expire` has removed, or is removing.
    pub expired: HashMap<String, Entry>,
    /// Files that were dropped, by the keys of their records, each with its sensor.
    pub dropped: HashMap<String, (String, Entry)>,
    /// The identities of segments whose loss was accepted.
    pub(super) accepted: HashSet<String>,
    /// The sums of days that have nothing else, each with its sensor.
    pub sums: Vec<(String, Sums)>,
    /// Days that were taken from a summary instead of their records, each with its sensor and date.
    pub days: BTreeMap<(String, String), DaySummary>,
    /// Records that cannot be read: the sensor, and the key.
    pub damaged: Vec<(String, String)>,
}

impl Records {
    /// Reads the pages of these sensors, or of all if there is none, and of the dates that are wanted. A segment that moves on meanwhile, from one page to another one, is there.
    /// A day with a summary that `takes` accepts is not read.
    ///
    /// # Errors
    /// The store failed, or records changed each time that they were read.
    pub async fn read(
        archive: &Archive,
        sensors: &[String],
        wanted: &dyn Fn(&str, &str) -> bool,
        takes: &dyn Fn(&str, &str, &DaySummary) -> bool,
    ) -> Result<Records> {
        let mut folders: Vec<String> = sensors.iter().map(|it| format!("sensors/{it}")).collect();
        if folders.is_empty() {
            folders.push("sensors".into());
        }
        for _ in 0..MAX_TRIES {
            let listed = folders.iter().map(async |it| archive.list(it).await);
            let listed = archive::at_once(listed).await?.into_iter().flatten();
            let listed: Vec<ObjectMeta> = listed.collect();
            let mut records = Records {
                days: summed(archive, &listed, wanted, takes).await?,
                ..Records::default()
            };
            let is_summed = |sensor: &str, date: &str| {
                let day = (sensor.to_owned(), date.to_owned());
                records.days.contains_key(&day)
            };
            let is_read =
                |sensor: &str, date: &str| wanted(sensor, date) && !is_summed(sensor, date);
            let (mut sums, mut pages, mut accepted) = (Vec::new(), Vec::new(), HashSet::new());
            for object in &listed {
                let key = object.location.to_string();
                if let Some((sensor, date)) = parse_sums(&key) {
                    is_read(sensor, date).then(|| sums.push(key.clone()));
                } else if let Some((sensor, date, kind)) = parse_page(&key) {
                    let is_read = match kind {
                        PageKind::Dropped => wanted(sensor, date),
                        _ => is_read(sensor, date),
                    };
                    is_read.then(|| pages.push(key.clone()));
                } else if let Some((sensor, kind, id)) = parse_single(&key) {
                    match kind {
                        PageKind::Vanished => drop(accepted.insert(id)),
                        PageKind::Dropped if !wanted(sensor, &stored_on(object)) => {}
                        // The date of a segment with a record of an earlier version is in the record.
                        _ => pages.push(key),
                    }
                }
            }
            records.accepted = accepted;
            // Of a segment that was shipped again, the last entry counts.
            pages.sort_unstable();
            let fetched = archive::at_once(sums.iter().map(async |it| page(archive, it).await));
            for (key, bytes) in sums.iter().zip(fetched.await?) {
                records.add_sums(key, &bytes.unwrap_or_default());
            }
            let closed = records.sums.iter().flat_map(|(sensor, sums)| {
                let is_of = |it: &&String| parse_page(it).is_some_and(|it| it.0 == *sensor);
                sums.pages.iter().filter(is_of)
            });
            let closed: HashSet<&String> = closed.collect();
            pages.retain(|key| !closed.contains(key));
            let read = async |key: &String| {
                let bytes = page(archive, key).await?;
                Ok(bytes.map(|it| parse(key, &it)))
            };
            let found = archive::at_once(pages.iter().map(read)).await?;
            let is_whole = found.iter().all(Option::is_some);
            for (key, found) in pages.iter().zip(found) {
                if let Some(entries) = found {
                    records.add(key, entries, wanted);
                }
            }
            // Otherwise `compact` has merged a page.
            if is_whole {
                return Ok(records);
            }
        }
        bail!(
            "{}: the records of the sensors changed while they were read: try again",
            archive.name()
        )
    }

    fn add_sums(&mut self, key: &str, bytes: &[u8]) {
        let sensor = parse_sums(key).map_or("", |it| it.0).to_owned();
        match Sums::parse(bytes) {
            Some(sums) => self.sums.push((sensor, sums)),
            None => self.damaged.push((sensor, key.to_owned())),
        }
    }

    /// Adds the entries of a page, or of a single record. `None`: they cannot be read.
    fn add(&mut self, key: &str, entries: Option<Vec<Entry>>, wanted: &dyn Fn(&str, &str) -> bool) {
        let of_page = parse_page(key).map(|(sensor, _, kind)| (sensor, kind, None));
        let of_single = |(sensor, kind, id)| (sensor, kind, Some(id));
        let Some((sensor, kind, single)) = of_page.or_else(|| parse_single(key).map(of_single))
        else {
            return;
        };
        let Some(entries) = entries else {
            return self.damaged.push((sensor.to_owned(), key.to_owned()));
        };
        for entry in entries {
            let is_wanted = match segment::parse_key(&entry.segment) {
                Some((_, date, _)) if single.is_some() => wanted(sensor, date),
                // A file that was dropped is in no segment, and an earlier version did not record which segment had expired.
                None if single.is_none() => matches!(kind, PageKind::Dropped | PageKind::Expired),
                _ => true,
            };
            let id = single.clone().or(entry.identity().map(|it| it.1));
            let Some(id) = id.filter(|_| is_wanted) else {
                continue;
            };
            match kind {
                PageKind::Shipped => drop(self.shipped.insert(id, entry)),
                PageKind::Expired => drop(self.expired.insert(id, entry)),
                PageKind::Vanished => drop(self.accepted.insert(id)),
                PageKind::Dropped => drop(self.dropped.insert(id, (sensor.to_owned(), entry))),
            }
        }
    }
}

/// The days that need not be read, because a summary was made from just these objects.
async fn summed(
    archive: &Archive,
    listed: &[ObjectMeta],
    wanted: &dyn Fn(&str, &str) -> bool,
    takes: &dyn Fn(&str, &str, &DaySummary) -> bool,
) -> Result<BTreeMap<(String, String), DaySummary>> {
    let keys: HashSet<&str> = listed.iter().map(|it| it.location.as_ref()).collect();
    // Their dates are not known before they are read.
    let of_earlier = keys.iter().filter_map(|it| parse_single(it));
    let of_earlier = of_earlier.filter(|it| it.1 == PageKind::Expired);
    let of_earlier: HashSet<&str> = of_earlier.map(|it| it.0).collect();
    let mut sensors = summary::objects(listed);
    sensors.retain(|sensor, days| {
        days.retain(|date, _| wanted(sensor, date));
        let has_summary = keys.contains(&*Summary::key(sensor));
        has_summary && !days.is_empty() && !of_earlier.contains(sensor)
    });
    let read = sensors.keys();
    let read = read.map(async |sensor| Summary::read(archive, sensor).await);
    let read = archive::at_once(read).await?;
    let mut summed = BTreeMap::new();
    for ((sensor, days), summary) in sensors.iter().zip(&read) {
        for (date, objects) in days {
            if let Some(day) = summary.day(date, objects)
                && takes(sensor, date, day)
            {
                summed.insert(((*sensor).to_owned(), (*date).to_owned()), day.clone());
            }
        }
    }
    Ok(summed)
}

/// The date (UTC) on which an object was stored.
pub(super) fn stored_on(object: &ObjectMeta) -> String {
    let ms = object.last_modified.timestamp_millis().max(0) as u64;
    segment::date_and_hour(ms.saturating_mul(1_000_000)).0
}

/// The entries of a page, or of a single record. `None`: they cannot be read.
fn parse(key: &str, bytes: &[u8]) -> Option<Vec<Entry>> {
    match parse_page(key) {
        Some((sensor, ..)) => entries(bytes, sensor),
        None => Some(vec![serde_json::from_slice(bytes).ok()?]),
    }
}
