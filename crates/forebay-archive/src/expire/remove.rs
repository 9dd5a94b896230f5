//! Removing segments, and bringing back those that could not be deleted.

use super::clock;
use crate::{
    archive::{self, Archive},
    ledger::{self, Entry},
    segment::{self, Directory},
    table::Table,
};
use anyhow::{Context, Result};
use object_store::ObjectMeta;
use std::collections::{HashMap, HashSet};

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
    pub packets: u64,
    entry: Entry,
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
            entry: Entry::of(object.location.as_ref(), &directory, object.size),
            span: directory.first_ns.zip(directory.last_ns),
            sensor: directory.sensor,
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
    // Also those of an earlier run: so no `undelete` takes them back meanwhile.
    ledger::record(archive, segments.iter().map(|it| it.entry.clone())).await?;
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
    let mut objects = archive.list(segment::FOLDER).await?;
    objects.retain(|it| segment::parse_key(it.location.as_ref()).is_some());
    let (mut done, mut by_record) = (Undeleted::default(), HashMap::new());
    for (id, records) in ledger::expired(archive, &objects).await? {
        if records.iter().any(|it| it.is_young) {
            done.young += 1;
            continue;
        }
        for record in records {
            let ids: &mut HashSet<String> = by_record.entry(record.key).or_default();
            ids.insert(id.clone());
        }
    }
    // An `expire` that has begun since the list was read has renewed them.
    let forget = async |(key, ids): (String, HashSet<String>)| {
        let is_done = ledger::forget(archive, &key, &ids).await?;
        Ok(ids.into_iter().map(move |id| (id, is_done)))
    };
    let mut is_done: HashMap<String, bool> = HashMap::new();
    let forgotten = archive::at_once(by_record.into_iter().map(forget)).await?;
    for (id, is_forgotten) in forgotten.into_iter().flatten() {
        *is_done.entry(id).or_insert(true) &= is_forgotten;
    }
    // `compact` may have copied a record meanwhile.
    let left = ledger::expired(archive, &objects).await?;
    for (id, is_done) in is_done {
        match is_done && !left.contains_key(&id) {
            true => done.segments += 1,
            false => done.young += 1,
        }
    }
    Ok(done)
}
