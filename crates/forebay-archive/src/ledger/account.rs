//! The page that `ship` writes.

use super::page::{Entry, Page, parse};
use crate::{archive::Archive, segment};
use anyhow::Result;
use object_store::ObjectMeta;
use std::time::{Duration, Instant, SystemTime};

/// Segments on a page.
const MAX_ENTRIES: usize = 100;
/// An older page is not written again: `roll_up` merges it after twice this time, and may be doing so.
const MAX_AGE: Duration = Duration::from_hours(24);

/// The page that a running `ship` writes.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    present: Option<(String, u64, Page)>,
    /// When it was written.
    written: Option<Instant>,
}

impl Ledger {
    /// Adds a segment, unless it is on the page already.
    pub(crate) async fn add(&mut self, archive: &Archive, entry: Entry) -> Result<()> {
        let Some((sensor, date, _)) = segment::parse_key(&entry.segment) else {
            return Ok(());
        };
        let folder = format!("sensors/{sensor}/shipped/{date}");
        let is_new = self.written.is_some_and(|it| it.elapsed() < MAX_AGE);
        let known = self.present.take().filter(|it| it.0 == folder && is_new);
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
            self.written = Some(Instant::now());
        }
        self.present = Some((folder, number, page));
        Ok(())
    }
}

fn key(folder: &str, number: u64) -> String {
    format!("{folder}/{number:04}.json")
}

/// The page of a date that has room. One that is older, or cannot be read, stays as it is.
async fn newest(archive: &Archive, folder: String) -> Result<(String, u64, Page)> {
    let listed = archive.list(&folder).await?;
    let number = |it: &ObjectMeta| it.location.filename()?.strip_suffix(".json")?.parse().ok();
    let numbers = listed.iter().filter_map(|it| Some((number(it)?, it)));
    let Some((last, object)) = numbers.max_by_key(|it| it.0) else {
        return Ok((folder, 0, Page::empty()));
    };
    let written: SystemTime = object.last_modified.into();
    // An error: the clock of the store is ahead.
    let age = written.elapsed().unwrap_or_else(|error| error.duration());
    let bytes = match age < MAX_AGE {
        true => archive.get(&key(&folder, last)).await?,
        false => None,
    };
    Ok(match bytes.as_deref().and_then(parse) {
        Some(page) => (folder, last, page),
        None => (folder, last.saturating_add(1), Page::empty()),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Records, id, missing, page::SCHEMA};
    use super::*;
    use crate::archive::faulty::{Faulty, Put};
    use forebay_testing::folder::Folder;
    use std::collections::HashSet;
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    };

    pub(in crate::ledger) fn entry(sensor: &str, number: u64) -> Entry {
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
            file: None,
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
            let records = Records::read(&plain, &[], &|_, _| true, &|_, _, _| false)
                .await
                .unwrap();
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
                recorded_ms: None,
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
            let records = Records::read(&archive, &[], &|_, _| true, &|_, _, _| false)
                .await
                .unwrap();
            let found = missing(&archive, &records, &stored).await.unwrap();
            let found: Vec<_> = found.segments.into_values().collect();
            assert_eq!(found, [("hall".to_owned(), entry("hall", 3), false)]);
        });
    }
}
