//! Reading the records of sensors.

use super::{
    Entry, Page,
    expired::{id, parse_old},
    parse,
};
use crate::{
    archive::{self, Archive},
    segment,
};
use anyhow::Result;
use bytes::Bytes;
use object_store::ObjectMeta;
use std::collections::{HashMap, HashSet};

/// A longer page is damaged.
const MAX_PAGE: u64 = 64 << 20;
/// Times that the list is read again because `compact` has merged pages meanwhile.
pub(super) const MAX_TRIES: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Shipped,
    Expired,
}

/// The sensor, the date and the kind of a page; `None`: it is another object.
pub(super) fn parse_page(key: &str) -> Option<(&str, &str, Kind)> {
    let mut parts = key.strip_prefix("sensors/")?.split('/');
    let (sensor, folder) = (parts.next()?, parts.next()?);
    let (date, file) = (parts.next()?, parts.next()?);
    let kind = match folder {
        "shipped" => Kind::Shipped,
        "expired" => Kind::Expired,
        _ => return None,
    };
    let is_page =
        segment::is_sensor_name(sensor) && file.ends_with(".json") && parts.next().is_none();
    is_page.then_some((sensor, date, kind))
}

/// The segments on a page of a sensor. A sensor accounts only for itself.
pub(super) fn entries(bytes: &[u8], sensor: &str) -> Option<Vec<Entry>> {
    let Page { mut segments, .. } = parse(bytes)?;
    segments.retain(|it| segment::parse_key(&it.segment).is_some_and(|it| it.0 == sensor));
    Some(segments)
}

/// The page with this key; `None`: it is not there any more. An empty one: it is too long.
pub(super) async fn page(archive: &Archive, key: &str) -> Result<Option<Bytes>> {
    match archive.get_short(key, MAX_PAGE).await? {
        None if archive.len(key).await?.is_some() => Ok(Some(Bytes::new())),
        page => Ok(page),
    }
}

/// The records of sensors.
#[derive(Debug, Default)]
pub struct Records {
    /// The segments that were shipped, by their identity.
    pub shipped: HashMap<String, Entry>,
    /// Those that `expire` has removed, or is removing.
    pub expired: HashMap<String, Entry>,
    /// Records that cannot be read: the sensor, and the key.
    pub damaged: Vec<(String, String)>,
    /// All other objects in `sensors`.
    pub others: Vec<ObjectMeta>,
}

impl Records {
    /// Reads the pages of these sensors, or of all if there is none, and of the dates that are wanted. A segment that moves on meanwhile, from one page to another one, is there.
    ///
    /// # Errors
    /// The store failed.
    pub async fn read(
        archive: &Archive,
        sensors: &[String],
        wanted: &dyn Fn(&str, &str) -> bool,
    ) -> Result<Records> {
        let mut folders: Vec<String> = sensors.iter().map(|it| format!("sensors/{it}")).collect();
        if folders.is_empty() {
            folders.push("sensors".into());
        }
        let (mut records, mut read) = (Records::default(), HashSet::new());
        for _ in 0..MAX_TRIES {
            let listed = folders.iter().map(async |it| archive.list(it).await);
            let listed = archive::at_once(listed).await?.into_iter().flatten();
            let listed: Vec<ObjectMeta> = listed.collect();
            let is_new = |key: &str| match (parse_page(key), parse_old(key)) {
                (Some((sensor, date, _)), _) => wanted(sensor, date) && !read.contains(key),
                (None, Some(_)) => !read.contains(key),
                (None, None) => false,
            };
            let keys = listed.iter().map(|it| it.location.to_string());
            let mut new: Vec<String> = keys.filter(|it| is_new(it)).collect();
            new.sort_unstable(); // of a segment that was shipped again, the last entry counts
            let fetched = new.iter().map(async |it| page(archive, it).await);
            let fetched = archive::at_once(fetched).await?;
            let is_whole = fetched.iter().all(Option::is_some);
            for (key, bytes) in new.into_iter().zip(fetched) {
                if let Some(bytes) = bytes {
                    records.add(&key, &bytes, wanted);
                    read.insert(key);
                }
            }
            let is_other = |key: &str| parse_page(key).is_none() && parse_old(key).is_none();
            let others = listed.into_iter();
            let others = others.filter(|it| is_other(it.location.as_ref()));
            records.others = others.collect();
            if is_whole {
                break; // otherwise `compact` has merged a page
            }
        }
        Ok(records)
    }

    fn add(&mut self, key: &str, bytes: &[u8], wanted: &dyn Fn(&str, &str) -> bool) {
        let by_id = |it: Entry| (segment::identity(&it.segment).unwrap_or_default(), it);
        if let Some((sensor, _, kind)) = parse_page(key) {
            let Some(entries) = entries(bytes, sensor) else {
                return self.damaged.push((sensor.to_owned(), key.to_owned()));
            };
            let to = match kind {
                Kind::Shipped => &mut self.shipped,
                Kind::Expired => &mut self.expired,
            };
            to.extend(entries.into_iter().map(by_id));
        } else if let Some((sensor, sha256)) = parse_old(key) {
            let Ok(entry) = serde_json::from_slice::<Entry>(bytes) else {
                return self.damaged.push((sensor.to_owned(), key.to_owned()));
            };
            let date = segment::parse_key(&entry.segment).map(|it| it.1);
            if date.is_none_or(|date| wanted(sensor, date)) {
                self.expired.insert(id(sensor, sha256), entry);
            }
        }
    }
}
