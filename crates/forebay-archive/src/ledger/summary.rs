//! What the account of a sensor adds up to, day by day, in one object: `sensors/S/days/summary`.
//!
//! A day of it names the objects that it was made from, with their lengths. These objects never change: a page has the hash of its content as
//! name, and the sums of a day are written once. So a day is right as long as the list of the store has just these objects, whichever
//! program wrote the summary and whenever. Otherwise [`Records`](super::Records) reads the objects.

use super::{
    key::{PageKind, parse_page, parse_sums},
    page::{SCHEMA, by_identity, page},
    sums::{Sum, Sums},
};
use crate::{archive::Archive, segment};
use anyhow::Result;
use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// A longer summary is not read. A day has about 800 bytes, and those of its segments whose statistics differ.
const MAX_BYTES: u64 = 64 << 20;

/// A day of a sensor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaySummary {
    /// The objects that it was made from, and their lengths.
    objects: BTreeMap<String, u64>,
    /// The segments that should be stored: a hash of their keys and lengths. Empty: not known, because an object is damaged or of an earlier version.
    list: String,
    /// These segments.
    pub stored: Sum,
    /// Their length as stored.
    pub stored_bytes: u64,
    /// The length of their capture files.
    pub plain_bytes: u64,
    /// Of these, the ones whose statistics count other packets than they have: the segment, the packets in its statistics, and its packets.
    pub differing: Vec<(String, u64, u64)>,
    /// Segments that have expired.
    pub expired: Sum,
    /// Segments that have vanished, and whose loss was accepted.
    pub vanished: Sum,
    /// Whether only sums are left of the day.
    pub is_closed: bool,
}

impl DaySummary {
    /// Whether these segments, and no others, should be stored.
    pub fn has_just<'k>(&self, listed: impl Iterator<Item = (&'k str, u64)>) -> bool {
        self.list == hash_of(listed)
    }

    /// A day without sums: no list of segments has its hash, so `status` reads its objects.
    fn without_sums(objects: &BTreeMap<String, u64>) -> DaySummary {
        DaySummary {
            objects: objects.clone(),
            ..DaySummary::default()
        }
    }

    /// `None`: an object is damaged or gone, or of an earlier version, so `status` has to read more.
    async fn of(
        archive: &Archive,
        sensor: &str,
        date: &str,
        objects: &BTreeMap<String, u64>,
    ) -> Result<Option<DaySummary>> {
        let mut day = DaySummary::without_sums(objects);
        let mut pages: [Vec<&str>; 3] = Default::default();
        for key in objects.keys() {
            let at = match parse_page(key) {
                Some((_, _, PageKind::Shipped)) if is_numbered(key) => return Ok(None),
                Some((_, _, PageKind::Shipped)) => 0,
                Some((_, _, PageKind::Expired)) => 1,
                Some((_, _, PageKind::Vanished)) => 2,
                _ if objects.len() > 1 => return Ok(None), // sums, and what came later
                _ => {
                    let bytes = page(archive, key).await?.unwrap_or_default();
                    let Some(sums) = Sums::parse(&bytes) else {
                        return Ok(None);
                    };
                    (day.expired, day.vanished) = (sums.expired, sums.vanished);
                    (day.is_closed, day.list) = (true, hash_of(std::iter::empty()));
                    return Ok(Some(day));
                }
            };
            pages[at].push(key);
        }
        let [Some(mut shipped), Some(expired), Some(accepted)] = [
            by_identity(archive, &pages[0]).await?,
            by_identity(archive, &pages[1]).await?,
            by_identity(archive, &pages[2]).await?,
        ] else {
            return Ok(None);
        };
        shipped.retain(|id, _| !expired.contains_key(id));
        let (gone, stored): (Vec<_>, Vec<_>) = shipped
            .into_iter()
            .partition(|it| accepted.contains_key(&it.0));
        let gone = gone.iter().map(|it| &it.1);
        let stored = || stored.iter().map(|it| &it.1);
        let is_known = |key: &str, len: Option<u64>| {
            let of = segment::parse_key(key).map(|it| (it.0, it.1));
            of == Some((sensor, date)) && len.is_some()
        };
        if !stored().all(|it| is_known(&it.segment, it.stored_bytes)) {
            return Ok(None);
        }
        let lengths = stored().map(|it| (&*it.segment, it.stored_bytes.unwrap_or(0)));
        day.stored_bytes = lengths.clone().fold(0, |sum, it| sum.saturating_add(it.1));
        day.list = hash_of(lengths);
        let plain = stored().map(|it| it.plain_bytes.unwrap_or(0));
        day.plain_bytes = plain.fold(0, u64::saturating_add);
        let counts =
            stored().map(|it| (&it.segment, it.captured.unwrap_or(it.packets), it.packets));
        let differing = counts.filter(|it| it.1 != it.2);
        day.differing = differing.map(|it| (it.0.clone(), it.1, it.2)).collect();
        day.stored = Sum::of(stored());
        day.expired = Sum::of(expired.values());
        day.vanished = Sum::of(gone);
        Ok(Some(day))
    }
}

/// Whether it is a page of `ship`, which may write it again.
pub(super) fn is_numbered(page: &str) -> bool {
    page.split('/').nth(2) == Some("shipped")
}

/// A hash of the keys and lengths of segments, whatever their order.
fn hash_of<'k>(segments: impl Iterator<Item = (&'k str, u64)>) -> String {
    let mut all: Vec<_> = segments.collect();
    all.sort_unstable();
    let mut hash = Sha256::new();
    for (key, len) in all {
        hash.update(key);
        hash.update([b' ']);
        hash.update(len.to_be_bytes());
    }
    segment::hex(&hash.finalize())
}

/// The objects of each sensor and date from which its summary is made, with their lengths.
type Objects<'k> = BTreeMap<&'k str, BTreeMap<&'k str, BTreeMap<String, u64>>>;

pub(super) fn objects(listed: &[ObjectMeta]) -> Objects<'_> {
    let mut sensors = Objects::new();
    for object in listed {
        let key = object.location.as_ref();
        let of_page = parse_page(key).filter(|it| it.2 != PageKind::Dropped);
        let of_page = of_page.map(|(sensor, date, _)| (sensor, date));
        if let Some((sensor, date)) = parse_sums(key).or(of_page) {
            let days = sensors.entry(sensor).or_default();
            let of_day = days.entry(date).or_default();
            of_day.insert(key.to_owned(), object.size);
        }
    }
    sensors
}

/// The days of a sensor, by their dates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Summary {
    schema: u64,
    days: BTreeMap<String, DaySummary>,
}

impl Summary {
    /// The key of the summary of a sensor. It is the name of no page and of no sums.
    pub(super) fn key(sensor: &str) -> String {
        format!("sensors/{sensor}/days/summary")
    }

    /// An empty one if there is none that can be used.
    pub(super) async fn read(archive: &Archive, sensor: &str) -> Result<Summary> {
        let bytes = archive.get_short(&Summary::key(sensor), MAX_BYTES).await?;
        let summary = bytes.and_then(|it| serde_json::from_slice::<Summary>(&it).ok());
        let summary = summary.filter(|it| it.schema == SCHEMA);
        Ok(summary.unwrap_or_default())
    }

    /// This day, if it was made from these objects.
    pub(super) fn day(&self, date: &str, objects: &BTreeMap<String, u64>) -> Option<&DaySummary> {
        self.days.get(date).filter(|it| it.objects == *objects)
    }
}

/// Writes the summaries of the sensors whose days before `today` have changed. Objects of days that are in a summary are not read again.
pub(super) async fn write(archive: &Archive, listed: &[ObjectMeta], today: &str) -> Result<()> {
    for (sensor, days) in objects(listed) {
        let key = Summary::key(sensor);
        let before = match listed.iter().any(|it| it.location.as_ref() == key) {
            true => Summary::read(archive, sensor).await?,
            false => Summary::default(),
        };
        let mut now = Summary {
            schema: before.schema,
            ..Summary::default()
        };
        for (date, objects) in days.range(..today) {
            let day = match before.day(date, objects) {
                Some(day) => day.clone(),
                // `status` reads these objects, and the next `compact` does not read them again.
                None => DaySummary::of(archive, sensor, date, objects)
                    .await?
                    .unwrap_or_else(|| DaySummary::without_sums(objects)),
            };
            now.days.insert((*date).to_owned(), day);
        }
        if now != before {
            now.schema = SCHEMA;
            archive.put(&key, serde_json::to_vec(&now)?.into()).await?;
        }
    }
    Ok(())
}
