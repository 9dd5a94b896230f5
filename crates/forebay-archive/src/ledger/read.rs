//! Reading the records of sensors.

use super::{
    key::{PageKind, id, parse_old, parse_page, parse_sums},
    page::{Entry, MAX_TRIES, entries, page},
    sums::Sums,
};
use crate::{
    archive::{self, Archive},
    segment,
};
use anyhow::Result;
use object_store::ObjectMeta;
use std::collections::HashMap;

/// The records of sensors.
#[derive(Debug, Default)]
pub struct Records {
    /// The segments that were shipped, by their identity.
    pub shipped: HashMap<String, Entry>,
    /// Those that `expire` has removed, or is removing.
    pub expired: HashMap<String, Entry>,
    /// The sums of days that have nothing else, each with its sensor.
    pub sums: Vec<(String, Sums)>,
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
        let mut attempt = 0;
        loop {
            attempt += 1;
            let listed = folders.iter().map(async |it| archive.list(it).await);
            let listed = archive::at_once(listed).await?.into_iter().flatten();
            let mut records = Records::default();
            let (mut sums, mut pages) = (Vec::new(), Vec::new());
            for object in listed {
                let key = object.location.to_string();
                let of_page = parse_page(&key).map(|(sensor, date, _)| (sensor, date));
                match (
                    parse_sums(&key),
                    of_page.or(parse_old(&key).map(|it| (it.0, ""))),
                ) {
                    (Some((sensor, date)), _) if wanted(sensor, date) => sums.push(key),
                    (Some(_), _) => {}
                    // The date of a segment with a record of an earlier version is in the record.
                    (None, Some((sensor, date))) if date.is_empty() || wanted(sensor, date) => {
                        pages.push(key);
                    }
                    (None, Some(_)) => {}
                    (None, None) => records.others.push(object),
                }
            }
            // Of a segment that was shipped again, the last entry counts.
            pages.sort_unstable();
            let fetched = archive::at_once(sums.iter().map(async |it| page(archive, it).await));
            for (key, bytes) in sums.iter().zip(fetched.await?) {
                records.add_sums(key, &bytes.unwrap_or_default());
            }
            pages.retain(|key| !records.sums.iter().any(|it| it.1.pages.contains(key)));
            let fetched = archive::at_once(pages.iter().map(async |it| page(archive, it).await));
            let fetched = fetched.await?;
            let is_whole = fetched.iter().all(Option::is_some);
            for (key, bytes) in pages.iter().zip(fetched) {
                if let Some(bytes) = bytes {
                    records.add(key, &bytes, wanted);
                }
            }
            // Otherwise `compact` has merged a page.
            if is_whole || attempt >= MAX_TRIES {
                return Ok(records);
            }
        }
    }

    fn add_sums(&mut self, key: &str, bytes: &[u8]) {
        let sensor = parse_sums(key).map_or("", |it| it.0).to_owned();
        match Sums::parse(bytes) {
            Some(sums) => self.sums.push((sensor, sums)),
            None => self.damaged.push((sensor, key.to_owned())),
        }
    }

    fn add(&mut self, key: &str, bytes: &[u8], wanted: &dyn Fn(&str, &str) -> bool) {
        let by_id = |it: Entry| (segment::identity(&it.segment).unwrap_or_default(), it);
        if let Some((sensor, _, kind)) = parse_page(key) {
            let Some(entries) = entries(bytes, sensor) else {
                return self.damaged.push((sensor.to_owned(), key.to_owned()));
            };
            let to = match kind {
                PageKind::Shipped => &mut self.shipped,
                PageKind::Expired => &mut self.expired,
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
