//! Removing segments, and bringing back those that could not be deleted.

use super::clock;
use crate::{
    archive::{self, Archive},
    segment::{self, Directory},
    table::Table,
};
use anyhow::{Context, Result};
use object_store::ObjectMeta;
use serde_json::json;
use std::collections::HashMap;

/// An object that is created and deleted again where segments are. Its name is always the same, so that a store that refuses the deletion
/// holds one of them.
const PROBE: &str = "segments/.probe";

/// A segment that is removed.
#[derive(Clone, Debug)]
pub struct Segment {
    pub key: String,
    /// Its length as stored.
    pub bytes: u64,
    pub sensor: String,
    pub sha256: String,
    pub packets: u64,
    pub captured: Option<u64>,
    pub lost: [Option<u64>; 2],
    /// The times of its first and last packet.
    pub span: Option<(u64, u64)>,
    stored_ns: u64,
    /// Why it is removed.
    pub why: String,
}

impl Segment {
    pub fn of(object: &ObjectMeta, directory: Directory, why: &str) -> Segment {
        Segment {
            key: object.location.to_string(),
            bytes: object.size,
            packets: directory.packets,
            captured: directory.captured,
            lost: [directory.lost_kernel, directory.lost_interface],
            span: directory.first_ns.zip(directory.last_ns),
            sensor: directory.sensor,
            sha256: directory.sha256,
            stored_ns: clock::stored_ns(object),
            why: why.to_owned(),
        }
    }

    /// The time of its last packet, as far as it can be believed.
    pub fn end(&self) -> u64 {
        clock::end_of(self.span.map(|it| it.1), self.stored_ns)
    }

    /// Its packets are from the first time on and before the second one.
    pub fn span_or_stored(&self) -> (u64, u64) {
        let (first, last) = self.span.unwrap_or((self.stored_ns, self.stored_ns));
        (first, last.saturating_add(1))
    }
}

/// Whether these credentials may delete segments. Without this right nothing must be hidden.
///
/// # Errors
/// They may not, or the store failed.
pub async fn probe(archive: &Archive) -> Result<()> {
    let refused = || {
        format!(
            "{}: the right to delete segments is missing, so nothing was changed",
            archive.name()
        )
    };
    let put = archive.put_new(PROBE, b"forebay".as_slice().into()).await;
    put.with_context(refused)?;
    archive.delete(PROBE).await.with_context(refused)
}

/// Records that segments are removed, removes their rows, and deletes them. Returns the segments that the store did not delete, and the
/// first reason.
///
/// # Errors
/// The store failed before the first deletion.
pub async fn remove(
    archive: &Archive,
    table: Option<&mut Table>,
    segments: &[Segment],
) -> Result<(Vec<usize>, Option<anyhow::Error>)> {
    let record = async |it: &Segment| {
        let record = json!({
            "schema": 1,
            "segment": it.key,
            "packets": it.packets,
            "captured": it.captured,
            "lost_kernel": it.lost[0],
            "lost_interface": it.lost[1],
        });
        let name = segment::expired_record(&it.sensor, &it.sha256);
        // One of an earlier run becomes young again, so that no `undelete` takes it back meanwhile.
        archive.put(&name, record.to_string().into()).await
    };
    let _: Vec<()> = archive::at_once(segments.iter().map(record)).await?;
    if let Some(table) = table {
        let last = |it: &Segment| it.span.map_or(u64::MAX, |it| it.1);
        let rows: HashMap<&str, u64> = segments.iter().map(|it| (&*it.key, last(it))).collect();
        table.replace_rows(&rows, &[]).await?;
    }
    let delete = async |it: &Segment| Ok(archive.delete(&it.key).await);
    let done: Vec<Result<()>> = archive::at_once(segments.iter().map(delete)).await?;
    let (mut left, mut why) = (Vec::new(), None);
    for (at, done) in done.into_iter().enumerate() {
        if let Err(error) = done {
            left.push(at);
            why.get_or_insert(error);
        }
    }
    Ok((left, why))
}

/// What [`undelete`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undeleted {
    /// Segments that do not count as expired any more.
    pub segments: u64,
    /// Segments that were recorded less than an hour ago: an `expire` that runs may be deleting them.
    pub young: u64,
}

/// Deletes the records of segments that have expired and are still stored. `rebuild` adds their rows then.
///
/// # Errors
/// The store failed.
pub async fn undelete(archive: &Archive) -> Result<Undeleted> {
    let records = archive.list("sensors").await?;
    let records: HashMap<&str, &ObjectMeta> = records
        .iter()
        .map(|it| (it.location.as_ref(), it))
        .collect();
    let mut done = Undeleted::default();
    let mut deleting = Vec::new();
    for object in archive.list(segment::FOLDER).await? {
        let named = segment::parse_key(object.location.as_ref());
        let name = named.map(|(sensor, _, sha256)| segment::expired_record(sensor, sha256));
        match name.and_then(|it| records.get(&*it)) {
            Some(record) if archive::is_young(record) => done.young += 1,
            Some(record) => deleting.push(record.location.as_ref()),
            None => {}
        }
    }
    let delete = async |key: &str| {
        // An `expire` that has begun since the list was read has renewed it.
        let is_young = archive
            .head(key)
            .await?
            .is_some_and(|it| archive::is_young(&it));
        if !is_young {
            archive.delete(key).await?;
        }
        Ok(is_young)
    };
    for is_young in archive::at_once(deleting.into_iter().map(delete)).await? {
        match is_young {
            true => done.young += 1,
            false => done.segments += 1,
        }
    }
    Ok(done)
}
