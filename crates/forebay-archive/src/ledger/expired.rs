//! Segments that `expire` has removed, or is removing.
//!
//! A page never changes: its name is the hash of what it has. So it is read once, and a list of the pages of a day says whether there is
//! anything new.

use super::{
    key::{PageKind, id, old_record, parse_page, parse_single, sums_of},
    page::{Entry, MAX_TRIES, entries, named, page},
};
use crate::{
    archive::{self, Archive},
    segment,
};
use anyhow::{Context, Result};
use jiff::Timestamp;
use object_store::ObjectMeta;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::SystemTime,
};

/// Segments on a page of one `expire`.
const MAX_ENTRIES: usize = 1000;

/// Records that these segments are removed, before they are.
///
/// # Errors
/// The store failed.
pub async fn record(archive: &Archive, segments: impl Iterator<Item = Entry>) -> Result<()> {
    let dated = segments.filter_map(|it| {
        let date = segment::parse_key(&it.segment)?.1.to_owned();
        Some((date, it))
    });
    put_all(archive, PageKind::Expired, dated).await
}

/// Writes entries, each with the date that it counts for, to pages of their days.
pub(super) async fn put_all(
    archive: &Archive,
    kind: PageKind,
    entries: impl Iterator<Item = (String, Entry)>,
) -> Result<()> {
    let mut by_day: BTreeMap<(String, String), Vec<Entry>> = BTreeMap::new();
    for (date, entry) in entries {
        if let Some((sensor, _)) = entry.identity() {
            let day = by_day.entry((sensor.to_owned(), date));
            day.or_default().push(entry);
        }
    }
    let pages = by_day.iter().flat_map(|((sensor, date), entries)| {
        let pages = entries.chunks(MAX_ENTRIES);
        pages.map(move |it| put(archive, kind, sensor, date, it.to_vec()))
    });
    archive::at_once(pages).await.map(|_| ())
}

/// Writes a page. One that is there becomes young again. On a day with sums it is a new page: the same segments may have expired, and be in
/// the sums, before they were shipped again.
async fn put(
    archive: &Archive,
    kind: PageKind,
    sensor: &str,
    date: &str,
    segments: Vec<Entry>,
) -> Result<()> {
    let has_sums = archive.len(&sums_of(sensor, date)).await?.is_some();
    let recorded_ms = has_sums.then(|| Timestamp::now().as_millisecond() as u64);
    let folder = format!("sensors/{sensor}/{}/{date}", kind.folder());
    let (key, text) = named(&folder, recorded_ms, segments)?;
    archive.put(&key, text).await
}

/// Answers whether segments have expired.
#[derive(Clone, Debug, Default)]
pub struct Expired {
    /// The identities on the pages of the days that were asked for last, by their keys.
    pages: HashMap<String, HashSet<String>>,
}

impl Expired {
    /// Those of these segments that `expire` has removed, or is removing. Costs a list for each sensor and day, and a question for each
    /// segment, because earlier versions had a record for each one. Pages that cannot be read are left out: `status` names them.
    ///
    /// # Errors
    /// The store failed.
    pub async fn among<'s>(
        &mut self,
        archive: &Archive,
        segments: &[&'s str],
    ) -> Result<HashSet<&'s str>> {
        let days = segments.iter().filter_map(|it| segment::parse_key(it));
        let days: HashSet<(&str, &str)> = days.map(|(sensor, date, _)| (sensor, date)).collect();
        // `compact` moves an old record to a page: so the pages come last.
        let asked = segments.iter().filter_map(|key| {
            let (sensor, _, sha256) = segment::parse_key(key)?;
            Some((*key, id(sensor, sha256), old_record(sensor, sha256)))
        });
        let asked: Vec<(&str, String, String)> = asked.collect();
        let records: Vec<String> = asked.iter().map(|it| it.2.clone()).collect();
        let found = records.into_iter();
        let found = found.map(|it| async move { archive.len(&it).await });
        let found = archive::at_once(found).await?;
        for _ in 0..MAX_TRIES {
            if self.refresh(archive, &days).await? {
                break;
            }
        }
        let is_on_page = |id: &String| self.pages.values().any(|it| it.contains(id));
        let expired = asked.iter().zip(found);
        let expired = expired.filter(|(it, found)| found.is_some() || is_on_page(&it.1));
        Ok(expired.map(|it| it.0.0).collect())
    }

    /// Reads the new pages of these days. `false`: a page was merged into another one meanwhile, which is in the next list.
    async fn refresh(&mut self, archive: &Archive, days: &HashSet<(&str, &str)>) -> Result<bool> {
        let folders = days.iter();
        let folders = folders.map(|(sensor, date)| format!("sensors/{sensor}/expired/{date}"));
        let folders: Vec<String> = folders.collect();
        let listed = folders.into_iter();
        let listed = listed.map(|it| async move { archive.list(&it).await });
        let listed = archive::at_once(listed).await?.into_iter().flatten();
        let listed: HashSet<String> = listed.map(|it| it.location.to_string()).collect();
        self.pages.retain(|key, _| listed.contains(key));
        let new = listed.into_iter();
        let new: Vec<String> = new.filter(|it| !self.pages.contains_key(it)).collect();
        let read = new.clone().into_iter();
        let read = read.map(|it| async move { page(archive, &it).await });
        let read = archive::at_once(read).await?;
        let mut is_whole = true;
        for (key, bytes) in new.into_iter().zip(read) {
            is_whole &= bytes.is_some();
            if let (Some(bytes), Some((sensor, ..))) = (bytes, parse_page(&key)) {
                let entries = entries(&bytes, sensor).unwrap_or_default();
                let ids = entries
                    .iter()
                    .filter_map(|it| segment::identity(&it.segment));
                self.pages.insert(key.clone(), ids.collect());
            }
        }
        Ok(is_whole)
    }
}

/// Whether `expire` has removed a segment that is not stored, or is removing it. After all segments of its day, only that is known.
///
/// # Errors
/// The store failed.
pub async fn has_expired(archive: &Archive, segment: &str) -> Result<bool> {
    let mut expired = Expired::default();
    if !expired.among(archive, &[segment]).await?.is_empty() {
        return Ok(true);
    }
    let Some((sensor, date, _)) = segment::parse_key(segment) else {
        return Ok(false);
    };
    Ok(archive.len(&sums_of(sensor, date)).await?.is_some())
}

/// Those of these segments that have expired, by their identity, each with its records. Reads the pages of their days only.
///
/// # Errors
/// The store failed, or a page is damaged or of a newer version.
pub async fn expired(
    archive: &Archive,
    objects: &[ObjectMeta],
) -> Result<HashMap<String, Vec<ObjectMeta>>> {
    let keys = objects.iter().map(|it| it.location.as_ref());
    let keys: Vec<(&str, &str, &str)> = keys.filter_map(segment::parse_key).collect();
    let days: HashSet<(&str, &str)> = keys.iter().map(|it| (it.0, it.1)).collect();
    let ids: HashSet<String> = keys.iter().map(|it| id(it.0, it.2)).collect();
    let mut found: HashMap<String, Vec<ObjectMeta>> = HashMap::new();
    for _ in 0..MAX_TRIES {
        found.clear();
        let listed = archive.list("sensors").await?;
        let read = listed.iter().map(async |object| {
            let key = object.location.as_ref();
            let of_page = parse_page(key).filter(|it| it.2 == PageKind::Expired);
            if let Some((sensor, date, _)) = of_page
                && days.contains(&(sensor, date))
            {
                let Some(bytes) = page(archive, key).await? else {
                    return Ok(None);
                };
                let entries = entries(&bytes, sensor).with_context(|| damaged(archive, key))?;
                return Ok(Some((object, entries)));
            }
            Ok(Some((object, Vec::new())))
        });
        let read = archive::at_once(read).await?;
        let is_whole = read.iter().all(Option::is_some);
        for (object, entries) in read.into_iter().flatten() {
            let old = parse_single(object.location.as_ref()).filter(|it| it.1 == PageKind::Expired);
            let old = old.map(|it| it.2);
            let on_page = entries
                .iter()
                .filter_map(|it| segment::identity(&it.segment));
            for id in on_page.chain(old).filter(|it| ids.contains(it)) {
                found.entry(id).or_default().push(object.clone());
            }
        }
        if is_whole {
            break; // otherwise `compact` has merged a page
        }
    }
    Ok(found)
}

/// The sensors and dates on which segments have expired, except those with only their sums. `None`: there is a record of an earlier version,
/// and its date is not in its name.
///
/// # Errors
/// The store failed.
pub async fn dates_with_expired(archive: &Archive) -> Result<Option<HashSet<(String, String)>>> {
    let listed = archive.list("sensors").await?;
    let keys = || listed.iter().map(|it| it.location.as_ref());
    let is_old = |it: &str| parse_single(it).is_some_and(|it| it.1 == PageKind::Expired);
    let pages = keys()
        .filter_map(parse_page)
        .filter(|it| it.2 == PageKind::Expired);
    let dates = pages.map(|(sensor, date, _)| (sensor.to_owned(), date.to_owned()));
    Ok((!keys().any(is_old)).then(|| dates.collect()))
}

fn damaged(archive: &Archive, key: &str) -> String {
    let name = archive.name();
    format!(
        "{name}: {key} is damaged or of a newer version: which segments have expired is not known"
    )
}

/// Takes segments out of the record with this key. `false`: an `expire` has renewed it, and may be deleting them. `now` is the time of the
/// store.
///
/// # Errors
/// The store failed, or the record is damaged or of a newer version.
pub(crate) async fn forget(
    archive: &Archive,
    key: &str,
    segments: &HashSet<String>,
    now: SystemTime,
) -> Result<bool> {
    let Some(object) = archive.head(key).await? else {
        return Ok(true);
    };
    if archive::is_young(&object, now) {
        return Ok(false);
    }
    if let Some((sensor, date, _)) = parse_page(key) {
        let Some(bytes) = page(archive, key).await? else {
            return Ok(true);
        };
        let mut rest = entries(&bytes, sensor).with_context(|| damaged(archive, key))?;
        rest.retain(|it| segment::identity(&it.segment).is_none_or(|it| !segments.contains(&it)));
        if !rest.is_empty() {
            put(archive, PageKind::Expired, sensor, date, rest).await?;
        }
    }
    archive.delete(key).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::counted::Reads;
    use forebay_testing::folder::Folder;
    use sha2::{Digest, Sha256};
    use std::sync::Arc;

    fn entries(day: u8, numbers: std::ops::Range<u32>) -> impl Iterator<Item = Entry> {
        numbers.map(move |number| {
            let sha256 = segment::hex(&Sha256::digest(number.to_string()));
            let folder = format!("segments/sensor=hall/date=2026-11-{day}/hour=00");
            let mut entry = super::super::account::tests::entry("hall", 1);
            entry.segment = format!("{folder}/{sha256}.pcapng.zst");
            entry
        })
    }

    #[test]
    fn a_run_writes_a_page_a_day_and_a_question_costs_one_list_and_no_page_that_was_read() {
        let folder = Folder::new();
        let plain = Archive::open(&folder.path("to"), true).unwrap();
        let reads = Arc::<Reads>::default();
        let archive = plain.counted(&reads);
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let all = entries(20, 0..1500).chain(entries(21, 0..3));
            record(&archive, all).await.unwrap();
            assert_eq!(archive.list("sensors").await.unwrap().len(), 3);
            let keys: Vec<String> = entries(20, 1498..1502).map(|it| it.segment).collect();
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let mut expired = Expired::default();
            for requests in [7, 5] {
                let before = reads.index.requests();
                let found = expired.among(&archive, &keys).await.unwrap();
                assert_eq!(found, HashSet::from([keys[0], keys[1]]));
                assert_eq!(reads.index.requests() - before, requests);
            }
            // The same again, and a record of an earlier version.
            record(&archive, entries(21, 0..3)).await.unwrap();
            let (_, _, sha256) = segment::parse_key(keys[2]).unwrap();
            plain
                .put(&old_record("hall", sha256), "{}".into())
                .await
                .unwrap();
            assert_eq!(archive.list("sensors").await.unwrap().len(), 4);
            let found = expired.among(&archive, &keys).await.unwrap();
            assert_eq!(found, HashSet::from([keys[0], keys[1], keys[2]]));
        });
    }
}
