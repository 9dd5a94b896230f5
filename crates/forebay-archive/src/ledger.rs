//! The account of a sensor: which segments it has shipped, kept apart from the segments and from the index.
//!
//! ```text
//!  sensors/S/shipped/DATE/0000.json   up to 100 segments of that date; the newest page is written again for each segment
//!  sensors/S/vanished-SHA256.json     a segment that is gone, and whose loss was accepted
//! ```
//! `ship` adds a segment after it was read back, and before its rows are committed or announced, and before its file leaves the spool. So a
//! segment that vanishes afterwards, with its rows or before it had any, is still in the account. Nothing else writes the account of a sensor.

use crate::{
    archive::{self, Archive},
    segment::{self, Directory},
};
use anyhow::Result;
use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, HashSet};

/// Segments on a page.
const MAX_ENTRIES: usize = 100;
const SCHEMA: u64 = 1;

/// A segment that was shipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its key.
    pub segment: String,
    /// Its packets.
    pub packets: u64,
    /// Packets that the capture counted. `None`: it has no statistics.
    pub captured: Option<u64>,
    /// Packets that the kernel lost before. `None`: unknown.
    pub lost_kernel: Option<u64>,
    /// Packets that the interface lost before. `None`: unknown.
    pub lost_interface: Option<u64>,
}

impl Entry {
    /// The entry of a segment with this key.
    pub fn of(key: &str, directory: &Directory) -> Entry {
        Entry {
            segment: key.into(),
            packets: directory.packets,
            captured: directory.captured,
            lost_kernel: directory.lost_kernel,
            lost_interface: directory.lost_interface,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Page {
    schema: u64,
    segments: Vec<Entry>,
}

impl Page {
    fn empty() -> Page {
        Page {
            schema: SCHEMA,
            segments: Vec::new(),
        }
    }
}

/// The page that a running `ship` writes.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    present: Option<(String, u64, Page)>,
}

impl Ledger {
    /// Adds a segment, unless it is on the page already.
    pub(crate) async fn add(&mut self, archive: &Archive, entry: Entry) -> Result<()> {
        let Some((sensor, date, _)) = segment::parse_key(&entry.segment) else {
            return Ok(());
        };
        let folder = format!("sensors/{sensor}/shipped/{date}");
        let known = self.present.take().filter(|it| it.0 == folder);
        let (folder, mut number, mut page) = match known {
            Some(known) => known,
            None => newest(archive, folder).await?,
        };
        if !page.segments.contains(&entry) {
            if page.segments.len() >= MAX_ENTRIES {
                (number, page) = (number + 1, Page::empty());
            }
            page.segments.push(entry);
            let text = serde_json::to_vec(&page)?;
            // After a failure the page is read again: it may have been stored, or not.
            archive.put(&key(&folder, number), text.into()).await?;
        }
        self.present = Some((folder, number, page));
        Ok(())
    }
}

fn key(folder: &str, number: u64) -> String {
    format!("{folder}/{number:04}.json")
}

/// The page of a date that has room. One that cannot be read stays as it is.
async fn newest(archive: &Archive, folder: String) -> Result<(String, u64, Page)> {
    let listed = archive.list(&folder).await?;
    let number = |it: &ObjectMeta| it.location.filename()?.strip_suffix(".json")?.parse().ok();
    let Some(last) = listed.iter().filter_map(number).max() else {
        return Ok((folder, 0, Page::empty()));
    };
    let bytes = archive.get(&key(&folder, last)).await?;
    Ok(match bytes.as_deref().and_then(parse) {
        Some(page) => (folder, last, page),
        None => (folder, last.saturating_add(1), Page::empty()),
    })
}

fn parse(bytes: &[u8]) -> Option<Page> {
    let page: Page = serde_json::from_slice(bytes).ok()?;
    (page.schema == SCHEMA).then_some(page)
}

/// The record that says that the loss of a segment was accepted.
fn vanished_record(sensor: &str, sha256: &str) -> String {
    format!("sensors/{sensor}/vanished-{sha256}.json")
}

/// Segments that were shipped, and that are neither stored nor expired.
#[derive(Debug, Default)]
pub struct Missing {
    /// The segments, each with its sensor, by their keys, and whether the loss was accepted.
    pub segments: BTreeMap<String, (String, Entry, bool)>,
    /// Pages that cannot be read, each with its sensor.
    pub damaged: Vec<(String, String)>,
}

/// Compares the accounts of all sensors with what is there. `records`: all objects in `sensors`, listed after `stored`, which has the sensor and
/// the SHA-256 of each segment.
///
/// # Errors
/// The store failed.
pub async fn missing(
    archive: &Archive,
    records: &[ObjectMeta],
    stored: &HashSet<(String, String)>,
) -> Result<Missing> {
    let pages = records.iter().filter_map(|it| {
        let key = it.location.as_ref();
        let (sensor, rest) = key.strip_prefix("sensors/")?.split_once('/')?;
        let is_page = rest.starts_with("shipped/") && key.ends_with(".json");
        (is_page && segment::is_sensor_name(sensor)).then_some((key, sensor))
    });
    let read = pages.map(async |(key, sensor)| Ok((key, sensor, archive.get(key).await?)));
    let known: HashSet<&str> = records.iter().map(|it| it.location.as_ref()).collect();
    let (mut missing, mut asked) = (Missing::default(), Vec::new());
    for (key, sensor, bytes) in archive::at_once(read).await? {
        let Some(page) = bytes.as_deref().and_then(parse) else {
            let what = format!(
                "{}: the account {key} is damaged: which segments it had is not known",
                archive.name()
            );
            missing.damaged.push((sensor.into(), what));
            continue;
        };
        for entry in page.segments {
            // A sensor accounts only for itself.
            let named = segment::parse_key(&entry.segment).filter(|it| it.0 == sensor);
            let Some((_, _, sha256)) = named else {
                continue;
            };
            let is_there = stored.contains(&(sensor.to_owned(), sha256.to_owned()))
                || known.contains(&*segment::expired_record(sensor, sha256));
            if !is_there {
                let is_accepted = known.contains(&*vanished_record(sensor, sha256));
                asked.push((sensor.to_owned(), entry, is_accepted));
            }
        }
    }
    // It may have been stored, or may have expired, after the lists were read.
    let asked = asked.into_iter().map(async |it| {
        let key = it.1.segment.clone();
        let (sensor, _, sha256) = segment::parse_key(&key).unwrap_or_default();
        let plain = key.strip_suffix(".zst").unwrap_or(&key);
        let mut is_there = false;
        for key in [
            plain.to_owned(),
            format!("{plain}.zst"),
            segment::expired_record(sensor, sha256),
        ] {
            is_there = is_there || archive.len(&key).await?.is_some();
        }
        Ok((key, it, is_there))
    });
    let asked = archive::at_once(asked).await?;
    let gone = asked.into_iter().filter(|(.., is_there)| !is_there);
    missing.segments.extend(gone.map(|(key, it, _)| (key, it)));
    Ok(missing)
}

/// Accepts that segments are gone. Their packets stay in the sum of `status`, as vanished. Returns the number of segments.
///
/// # Errors
/// The store failed.
pub async fn accept(archive: &Archive) -> Result<u64> {
    let stored = archive.list(segment::FOLDER).await?;
    let stored = stored.iter().filter_map(|it| {
        let (sensor, _, sha256) = segment::parse_key(it.location.as_ref())?;
        Some((sensor.to_owned(), sha256.to_owned()))
    });
    let stored = stored.collect();
    let records = archive.list("sensors").await?;
    let missing = missing(archive, &records, &stored).await?;
    let mut accepted = 0;
    for (key, (sensor, entry, is_accepted)) in &missing.segments {
        let (.., sha256) = segment::parse_key(key).unwrap_or_default();
        if !is_accepted {
            let record = json!({"schema": SCHEMA, "segment": key, "packets": entry.packets});
            let name = vanished_record(sensor, sha256);
            archive.put_new(&name, record.to_string().into()).await?;
            accepted += 1;
        }
    }
    Ok(accepted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::faulty::{Faulty, Put};
    use forebay_testing::folder::Folder;
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    };

    fn entry(sensor: &str, number: u64) -> Entry {
        let sha256 = segment::hex(&[number as u8; 32]);
        Entry {
            segment: format!(
                "segments/sensor={sensor}/date=2026-11-21/hour=00/{sha256}.pcapng.zst"
            ),
            packets: number,
            captured: None,
            lost_kernel: Some(0),
            lost_interface: None,
        }
    }

    /// The number of segments on each page of `hall`.
    async fn pages(archive: &Archive) -> Vec<usize> {
        let mut pages = archive.list("sensors/hall/shipped").await.unwrap();
        pages.sort_by(|one, other| one.location.cmp(&other.location));
        let mut lengths = Vec::new();
        for page in pages {
            let bytes = archive.get(page.location.as_ref()).await.unwrap().unwrap();
            lengths.push(parse(&bytes).unwrap().segments.len());
        }
        lengths
    }

    #[test]
    fn pages_are_continued_after_a_restart_and_no_segment_is_there_twice() {
        let folder = Folder::new();
        let plain = Archive::open(&folder.path("to"), true).unwrap();
        // Of each page, the first try fails; every second one was stored nevertheless.
        let puts = Arc::new(AtomicU32::new(0));
        let put = Arc::new(move |_: &str| match puts.fetch_add(1, Relaxed) % 4 {
            0 => Put::Lost,
            2 => Put::Repeated,
            _ => Put::Done,
        });
        let archive = plain.wrapped(|store| Arc::new(Faulty::over(store, put.clone())));
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let mut ledger = Ledger::default();
            for number in 0..205 {
                if number % 50 == 0 {
                    ledger = Ledger::default();
                }
                while ledger.add(&archive, entry("hall", number)).await.is_err() {}
                ledger.add(&plain, entry("hall", number)).await.unwrap();
            }
            assert_eq!(pages(&plain).await, [100, 100, 5]);
            // A page that is damaged stays as it is.
            let last = "sensors/hall/shipped/2026-11-21/0002.json";
            plain.put(last, "{".into()).await.unwrap();
            let mut ledger = Ledger::default();
            ledger.add(&plain, entry("hall", 205)).await.unwrap();
            assert_eq!(&*plain.get(last).await.unwrap().unwrap(), b"{");
            let records = plain.list("sensors").await.unwrap();
            let found = missing(&plain, &records, &HashSet::new()).await.unwrap();
            assert_eq!((found.segments.len(), found.damaged.len()), (201, 1));
        });
    }

    #[test]
    fn what_is_stored_or_expired_is_not_missing_and_no_sensor_accounts_for_another() {
        let folder = Folder::new();
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let mut ledger = Ledger::default();
            for number in 0..4 {
                ledger.add(&archive, entry("hall", number)).await.unwrap();
            }
            let foreign = Page {
                schema: SCHEMA,
                segments: vec![entry("hall", 9)],
            };
            let foreign = serde_json::to_vec(&foreign).unwrap();
            let page = "sensors/lab/shipped/2026-11-21/0000.json";
            archive.put(page, foreign.into()).await.unwrap();
            let sha256 = |number: u8| segment::hex(&[number; 32]);
            let expired = segment::expired_record("hall", &sha256(1));
            archive.put(&expired, "{}".into()).await.unwrap();
            // It was stored after the list was read, by a version that packs otherwise.
            let other = entry("hall", 2).segment;
            let other = other.strip_suffix(".zst").unwrap();
            archive.put(other, "".into()).await.unwrap();
            let stored = HashSet::from([("hall".to_owned(), sha256(0))]);
            let records = archive.list("sensors").await.unwrap();
            let found = missing(&archive, &records, &stored).await.unwrap();
            let found: Vec<_> = found.segments.into_values().collect();
            assert_eq!(found, [("hall".to_owned(), entry("hall", 3), false)]);
        });
    }
}
