//! The segments that are stored, with what is known about them.

use super::config::{Day, StatusConfig};
use crate::{
    archive::{self, Archive, StoreFault},
    ledger::{Entry, Records},
    segment,
};
use anyhow::Result;
use object_store::ObjectMeta;
use std::{collections::BTreeMap, time::SystemTime};

/// A segment that is stored.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) key: String,
    pub(super) sensor: String,
    /// The date in its key.
    pub(super) date: String,
    /// Its length as stored.
    pub(super) bytes: u64,
    /// Its rows may be on their way.
    pub(super) is_young: bool,
    pub(super) is_expired: bool,
    /// Its packets, from the account of the sensor, or from its directory. `None`: nothing can be read.
    pub(super) entry: Option<Entry>,
    /// Why it is damaged.
    pub(super) damage: Option<String>,
    /// Why the store did not return its directory.
    pub(super) unreadable: Option<String>,
}

impl Segment {
    pub(super) fn day(&self) -> Day {
        (self.sensor.clone(), self.date.clone())
    }

    pub(super) fn packets(&self) -> u64 {
        self.entry.as_ref().map_or(0, |it| it.packets)
    }
}

/// The objects of segments that are wanted.
pub(super) async fn listed(archive: &Archive, config: &StatusConfig) -> Result<Vec<ObjectMeta>> {
    let folders = match (config.sensors.is_empty(), &config.since) {
        (true, None) => vec![segment::FOLDER.to_owned()],
        (is_all, _) => {
            let sensors = match is_all {
                true => archive.sensors().await?.into_iter().collect(),
                false => config.sensors.clone(),
            };
            let folder = |it: &String| format!("{}/sensor={it}", segment::FOLDER);
            sensors.iter().map(folder).collect()
        }
    };
    let listed = folders.iter().map(async |folder| match &config.since {
        Some(date) => {
            archive
                .list_after(folder, &format!("{folder}/date={date}"))
                .await
        }
        None => archive.list(folder).await,
    });
    let mut objects: Vec<_> = archive::at_once(listed)
        .await?
        .into_iter()
        .flatten()
        .collect();
    objects.retain(|it| config.wants_key(it.location.as_ref()));
    Ok(objects)
}

/// These segments, by the day in their keys.
pub(super) fn by_day(objects: Vec<ObjectMeta>) -> BTreeMap<Day, Vec<ObjectMeta>> {
    let mut days: BTreeMap<Day, Vec<ObjectMeta>> = BTreeMap::new();
    for object in objects {
        if let Some((sensor, date, _)) = segment::parse_key(object.location.as_ref()) {
            let day = days.entry((sensor.to_owned(), date.to_owned()));
            day.or_default().push(object);
        }
    }
    days
}

/// What is known about these segments. The directory is read of those that are in no account, or whose account has no length.
pub(super) async fn known(
    archive: &Archive,
    objects: impl IntoIterator<Item = ObjectMeta>,
    records: &Records,
) -> Result<Vec<Segment>> {
    let (mut segments, mut unknown) = (Vec::new(), Vec::new());
    let now = SystemTime::now();
    for object in objects {
        let key = object.location.to_string();
        let Some((sensor, date, _)) = segment::parse_key(&key) else {
            continue;
        };
        let id = segment::identity(&key).unwrap_or_default();
        // An account of another packing has another length.
        let entry = records.shipped.get(&id).filter(|it| it.segment == key);
        let len = entry.and_then(|it| it.stored_bytes);
        let is_expired = records.expired.contains_key(&id);
        let damage = len.filter(|it| *it != object.size).map(|len| {
            let (name, bytes) = (archive.name(), object.size);
            format!(
                "{name}: the segment {key} is damaged: it has {bytes} bytes, and {len} were shipped"
            )
        });
        if len.is_none() && !is_expired {
            unknown.push((segments.len(), object.clone()));
        }
        segments.push(Segment {
            sensor: sensor.into(),
            date: date.into(),
            bytes: object.size,
            is_young: archive::is_young(&object, now),
            is_expired,
            entry: entry.cloned(),
            damage,
            unreadable: None,
            key,
        });
    }
    let (places, objects): (Vec<_>, Vec<_>) = unknown.into_iter().unzip();
    let directories = archive.directories(&objects).await?;
    for (at, directory) in places.into_iter().zip(directories) {
        let segment = &mut segments[at];
        match directory {
            Ok(directory) => {
                segment.entry = Some(Entry::of(&segment.key, &directory, segment.bytes))
            }
            Err(error) if StoreFault::is_cause(&error) => {
                segment.unreadable = Some(format!("{error:#}"));
            }
            Err(error) => segment.damage = Some(format!("{error:#}")),
        }
    }
    Ok(segments)
}
