//! The account of a sensor: which segments it has shipped, kept apart from the segments and from the index.
//!
//! ```text
//!  sensors/S/shipped/DATE/0000.json   up to 100 segments of that date; the newest page is written again for each segment
//!  sensors/S/expired/DATE/HASH.json   segments of that date that `expire` has removed, or is removing; never changed
//!  sensors/S/expired-SHA256.json      the same, for one segment, as earlier versions wrote it
//!  sensors/S/vanished-SHA256.json     a segment that is gone, and whose loss was accepted
//! ```
//! `ship` adds a segment after it was read back, and before its rows are committed or announced, and before its file leaves the spool. So a
//! segment that vanishes afterwards, with its rows or before it had any, is still in the account. Nothing else writes the account of a sensor.

mod expired;
mod read;

pub use expired::{Expired, Record, expired, forget, has_expired, id, record, sensor_of};
pub use read::Records;

use crate::{
    archive::{self, Archive},
    segment::{self, Directory},
};
use anyhow::Result;
use object_store::ObjectMeta;
use read::{Kind, parse_page};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, HashSet};

/// Segments on a page.
const MAX_ENTRIES: usize = 100;
const SCHEMA: u64 = 1;

/// A segment that was shipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its key. Empty: a record of an earlier version does not have it.
    #[serde(default)]
    pub segment: String,
    /// Its packets.
    pub packets: u64,
    /// Packets that the capture counted. `None`: it has no statistics.
    pub captured: Option<u64>,
    /// Packets that the kernel lost before. `None`: unknown.
    pub lost_kernel: Option<u64>,
    /// Packets that the interface lost before. `None`: unknown.
    pub lost_interface: Option<u64>,
    /// Its length as stored. `None`: an earlier version has written this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
    /// The length of its capture file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain_bytes: Option<u64>,
}

impl Entry {
    /// The entry of a segment with this key and length.
    pub fn of(key: &str, directory: &Directory, stored_bytes: u64) -> Entry {
        Entry {
            segment: key.into(),
            packets: directory.packets,
            captured: directory.captured,
            lost_kernel: directory.lost_kernel,
            lost_interface: directory.lost_interface,
            stored_bytes: Some(stored_bytes),
            plain_bytes: Some(directory.plain_bytes),
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
            // It was stored again, and may be packed better now.
            page.segments.retain(|it| it.segment != entry.segment);
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

/// `None`: it is damaged, or of a newer version.
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

/// Compares the accounts of all sensors with what is there. `records` were read after `stored`, which has the identity of each segment.
///
/// # Errors
/// The store failed.
pub async fn missing(
    archive: &Archive,
    records: &Records,
    stored: &HashSet<String>,
) -> Result<Missing> {
    let mut missing = Missing::default();
    for (sensor, key) in &records.damaged {
        let name = archive.name();
        let what =
            format!("{name}: the account {key} is damaged: which segments it had is not known");
        missing.damaged.push((sensor.clone(), what));
    }
    let is_gone =
        |it: &(&String, &Entry)| !stored.contains(it.0) && !records.expired.contains_key(it.0);
    let gone: Vec<_> = records.shipped.iter().filter(is_gone).collect();
    // It may have been stored, or may have expired, after the lists were read.
    let stored = gone.iter().map(async |(_, it)| {
        let plain = it.segment.strip_suffix(".zst").unwrap_or(&it.segment);
        let packed = format!("{plain}.zst");
        Ok(archive.len(plain).await?.is_some() || archive.len(&packed).await?.is_some())
    });
    let stored = archive::at_once(stored).await?;
    let keys: Vec<&str> = gone.iter().map(|it| &*it.1.segment).collect();
    let expired = Expired::default().among(archive, &keys).await?;
    let others = records.others.iter().map(|it| it.location.as_ref());
    let others: HashSet<&str> = others.collect();
    for ((_, entry), is_stored) in gone.into_iter().zip(stored) {
        let (sensor, _, sha256) = segment::parse_key(&entry.segment).unwrap_or_default();
        if !is_stored && !expired.contains(&*entry.segment) {
            let is_accepted = others.contains(&*vanished_record(sensor, sha256));
            let it = (sensor.to_owned(), entry.clone(), is_accepted);
            missing.segments.insert(entry.segment.clone(), it);
        }
    }
    Ok(missing)
}

/// Accepts that segments are gone. Their packets stay in the sum of `status`, as vanished. Returns the number of segments.
///
/// # Errors
/// The store failed.
pub async fn accept(archive: &Archive) -> Result<u64> {
    let stored = archive.list(segment::FOLDER).await?;
    let stored = stored.iter();
    let stored = stored.filter_map(|it| segment::identity(it.location.as_ref()));
    let stored = stored.collect();
    let records = Records::read(archive, &[], &|_, _| true).await?;
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

    pub(super) fn entry(sensor: &str, number: u64) -> Entry {
        let sha256 = segment::hex(&[number as u8; 32]);
        Entry {
            segment: format!(
                "segments/sensor={sensor}/date=2026-11-21/hour=00/{sha256}.pcapng.zst"
            ),
            packets: number,
            captured: None,
            lost_kernel: Some(0),
            lost_interface: None,
            stored_bytes: None,
            plain_bytes: None,
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
            let records = Records::read(&plain, &[], &|_, _| true).await.unwrap();
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
            let expired = format!("sensors/hall/expired-{}.json", sha256(1));
            archive
                .put(&expired, r#"{"packets":1}"#.into())
                .await
                .unwrap();
            // It was stored after the list was read, by a version that packs otherwise.
            let other = entry("hall", 2).segment;
            let other = other.strip_suffix(".zst").unwrap();
            archive.put(other, "".into()).await.unwrap();
            let stored = HashSet::from([id("hall", &sha256(0))]);
            let records = Records::read(&archive, &[], &|_, _| true).await.unwrap();
            let found = missing(&archive, &records, &stored).await.unwrap();
            let found: Vec<_> = found.segments.into_values().collect();
            assert_eq!(found, [("hall".to_owned(), entry("hall", 3), false)]);
        });
    }
}
