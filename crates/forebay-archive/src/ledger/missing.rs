//! Segments that have vanished.

use super::{
    expired::{Expired, put_all},
    key::PageKind,
    page::Entry,
    read::Records,
};
use crate::{
    archive::{self, Archive},
    segment,
};
use anyhow::Result;
use std::collections::{BTreeMap, HashSet};

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
        let what = format!(
            "{name}: the record {key} is damaged or too long: what it counted is not known"
        );
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
    for ((id, entry), is_stored) in gone.into_iter().zip(stored) {
        let (sensor, ..) = segment::parse_key(&entry.segment).unwrap_or_default();
        if !is_stored && !expired.contains(&*entry.segment) {
            let is_accepted = records.accepted.contains(id);
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
    let records = Records::read(archive, &[], &|_, _| true, &|_, _, _| false).await?;
    let missing = missing(archive, &records, &stored).await?;
    let new = missing.segments.into_values().filter(|it| !it.2);
    let new = new.filter_map(|(_, entry, _)| {
        let date = segment::parse_key(&entry.segment)?.1.to_owned();
        Some((date, entry))
    });
    let new: Vec<_> = new.collect();
    let accepted = new.len() as u64;
    put_all(archive, PageKind::Vanished, new.into_iter()).await?;
    Ok(accepted)
}
