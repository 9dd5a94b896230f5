//! Pages: objects with the entries of segments.

use super::key::{id, parse_page, parse_single};
use crate::{
    archive::{self, Archive},
    segment::{self, Directory},
};
use anyhow::Result;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The version of all records.
pub(super) const SCHEMA: u64 = 1;
/// A longer page is damaged. A day of 50,000 segments has 15 MB.
const MAX_PAGE: u64 = 64 << 20;
/// A longer record of a single segment or file is damaged: it has a name and a few numbers.
const MAX_SINGLE: u64 = 64 << 10;
/// Times that the list is read again because `compact` has merged pages meanwhile.
pub(super) const MAX_TRIES: usize = 5;

/// A segment that was shipped, or a file that was dropped before that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its key. Empty: a record of an earlier version does not have it. For a file that was dropped, the key of its record.
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
    #[serde(default, alias = "bytes", skip_serializing_if = "Option::is_none")]
    pub plain_bytes: Option<u64>,
    /// The name of a file that was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
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
            file: None,
        }
    }

    /// Its sensor, and what all records about the same segment or file have in common.
    pub(super) fn identity(&self) -> Option<(&str, String)> {
        match segment::parse_key(&self.segment) {
            Some((sensor, _, sha256)) => Some((sensor, id(sensor, sha256))),
            None => parse_single(&self.segment).map(|(sensor, _, id)| (sensor, id)),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Page {
    pub(super) schema: u64,
    /// When it was written, in ms since 1970, if its day has sums. Its name, a hash, is then different from those that are in the sums.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) recorded_ms: Option<u64>,
    pub(super) segments: Vec<Entry>,
}

impl Page {
    pub(super) fn empty() -> Page {
        Page {
            schema: SCHEMA,
            recorded_ms: None,
            segments: Vec::new(),
        }
    }
}

/// `None`: it is damaged, or of a newer version.
pub(super) fn parse(bytes: &[u8]) -> Option<Page> {
    let page: Page = serde_json::from_slice(bytes).ok()?;
    (page.schema == SCHEMA).then_some(page)
}

/// The segments on a page of a sensor. A sensor accounts only for itself.
pub(super) fn entries(bytes: &[u8], sensor: &str) -> Option<Vec<Entry>> {
    let Page { mut segments, .. } = parse(bytes)?;
    segments.retain(|it| it.identity().is_some_and(|it| it.0 == sensor));
    Some(segments)
}

/// The segments on these pages, by their identity; of a segment that is on several ones, the last entry. `None`: a page is damaged or gone.
pub(super) async fn by_identity(
    archive: &Archive,
    pages: &[&str],
) -> Result<Option<BTreeMap<String, Entry>>> {
    let mut keys = pages.to_vec();
    keys.sort_unstable();
    let bytes = archive::at_once(keys.iter().map(async |it| page(archive, it).await)).await?;
    let mut all = BTreeMap::new();
    for (key, bytes) in keys.iter().zip(bytes) {
        let sensor = parse_page(key).map_or("", |it| it.0);
        let Some(entries) = bytes.and_then(|it| entries(&it, sensor)) else {
            return Ok(None);
        };
        let by_id = |it: Entry| Some((it.identity()?.1, it));
        all.extend(entries.into_iter().filter_map(by_id));
    }
    Ok(Some(all))
}

/// The page or the single record with this key; `None`: it is not there any more. An empty one: it is too long.
pub(super) async fn page(archive: &Archive, key: &str) -> Result<Option<Bytes>> {
    let max = match parse_single(key) {
        Some(_) => MAX_SINGLE,
        None => MAX_PAGE,
    };
    match archive.get_short(key, max).await? {
        None if archive.len(key).await?.is_some() => Ok(Some(Bytes::new())),
        page => Ok(page),
    }
}

/// A page with these segments, and its key in a folder: pages with the same content have the same key.
pub(super) fn named(
    folder: &str,
    recorded_ms: Option<u64>,
    segments: Vec<Entry>,
) -> Result<(String, Bytes)> {
    let page = Page {
        schema: SCHEMA,
        recorded_ms,
        segments,
    };
    let text = serde_json::to_vec(&page)?;
    let key = format!("{folder}/{}.json", segment::hex(&Sha256::digest(&text)));
    Ok((key, text.into()))
}
