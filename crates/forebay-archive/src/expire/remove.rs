//! Removing segments, and bringing back those that could not be deleted.

use super::clock;
use crate::{
    archive::{self, Archive, StoreFault},
    ledger::{self, Change, Entry, Turn},
    segment::{self, Directory},
    table::Table,
};
use anyhow::{Result, bail};
use object_store::{ObjectMeta, path::Path};
use std::{
    collections::{HashMap, HashSet},
    time::SystemTime,
};

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

/// Checks that these credentials may delete segments: without this right nothing must be hidden. Returns the time by the clock of the store.
///
/// # Errors
/// They may not, or the store failed.
pub async fn probe(archive: &Archive) -> Result<SystemTime> {
    let probed = async {
        let is_new = archive.put_new(PROBE, b"forebay".as_slice().into()).await?;
        let created = archive.head(PROBE).await?;
        archive.delete(PROBE).await?;
        Ok(created.filter(|_| is_new))
    };
    let probed = probed.await.map_err(|error| match StoreFault::of(&error) {
        Some(fault) if fault.is_refused => error.context(format!(
            "{}: the right to delete segments is missing, so nothing was changed",
            archive.name()
        )),
        _ => error,
    });
    match probed? {
        Some(created) => Ok(created.last_modified.into()),
        // A run that was killed has left it, or another one has deleted it.
        None => crate::clock::of_store(archive).await,
    }
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
/// The store failed, or `compact` is merging these records.
pub async fn undelete(archive: &Archive) -> Result<Undeleted> {
    let Some(turn) = Turn::take(archive, Change::Undelete).await? else {
        bail!(
            "{}: `compact` is merging the records of expired segments, or was killed less than an hour ago. Nothing was brought back: try again later",
            archive.name()
        );
    };
    let done = take_back(archive, &turn).await;
    turn.end().await?;
    done
}

async fn take_back(archive: &Archive, turn: &Turn) -> Result<Undeleted> {
    let mut objects = archive.list(segment::FOLDER).await?;
    objects.retain(|it| segment::parse_key(it.location.as_ref()).is_some());
    let (mut done, mut by_record) = (Undeleted::default(), HashMap::new());
    for (id, records) in ledger::expired(archive, &objects).await? {
        let now = turn.now();
        if records.iter().any(|it| archive::is_young(it, now)) {
            done.young += 1;
            continue;
        }
        for record in records {
            let ids: &mut HashSet<String> = by_record.entry(record.location).or_default();
            ids.insert(id.clone());
        }
    }
    // An `expire` that has begun since the list was read has renewed them.
    let forget = async |(key, ids): (Path, HashSet<String>)| {
        turn.check()?;
        let is_done = ledger::forget(archive, key.as_ref(), &ids, turn.now()).await?;
        Ok(ids.into_iter().map(move |id| (id, is_done)))
    };
    let mut is_done: HashMap<String, bool> = HashMap::new();
    let forgotten = archive::at_once(by_record.into_iter().map(forget)).await?;
    for (id, is_forgotten) in forgotten.into_iter().flatten() {
        *is_done.entry(id).or_insert(true) &= is_forgotten;
    }
    // An `expire` may have recorded them meanwhile.
    let left = ledger::expired(archive, &objects).await?;
    for (id, is_done) in is_done {
        match is_done && !left.contains_key(&id) {
            true => done.segments += 1,
            false => done.young += 1,
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        archive::faulty::{Faulty, Put},
        ledger::RolledUp,
        status::date_before,
    };
    use forebay_testing::folder::Folder;
    use std::{
        fs,
        sync::{Arc, Mutex},
        time::Duration,
    };

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Runtime::new().unwrap().block_on(work)
    }

    /// Two segments that have expired and are stored, with two records three days old.
    async fn expired(folder: &Folder) -> Archive {
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        let date = date_before(Duration::from_hours(24 * 10));
        for number in 0..2 {
            let key = format!("segments/sensor=hall/date={date}/hour=00/{number:064x}.pcapng.zst");
            archive.put(&key, "".into()).await.unwrap();
            let entry = Entry::of(&key, &Directory::default(), 0);
            ledger::record(&archive, std::iter::once(entry))
                .await
                .unwrap();
        }
        age(folder, &format!("sensors/hall/expired/{date}"));
        archive
    }

    fn age(folder: &Folder, of: &str) {
        for entry in fs::read_dir(folder.path(&format!("to/{of}"))).unwrap() {
            let file = fs::File::options().write(true).open(entry.unwrap().path());
            let then = SystemTime::now() - Duration::from_hours(24 * 3);
            file.unwrap().set_modified(then).unwrap();
        }
    }

    async fn left(archive: &Archive) -> usize {
        let objects = archive.list(segment::FOLDER).await.unwrap();
        ledger::expired(archive, &objects).await.unwrap().len()
    }

    /// The archive with `other` run by another program before the first write of a page.
    fn with<T: Send + 'static>(
        archive: &Archive,
        other: impl FnOnce(Archive) -> T + Send + 'static,
    ) -> (Archive, Arc<Mutex<Option<T>>>) {
        let other = Mutex::new(Some(other));
        let (plain, answer) = (archive.clone(), Arc::<Mutex<Option<T>>>::default());
        let answered = answer.clone();
        let put = Arc::new(move |key: &str| {
            if key.contains("/expired/")
                && let Some(other) = other.lock().unwrap().take()
            {
                let plain = plain.clone();
                let done = std::thread::spawn(move || other(plain)).join().unwrap();
                *answered.lock().unwrap() = Some(done);
            }
            Put::Done
        });
        let raced = archive.wrapped(|store| Arc::new(Faulty::over(store, put.clone())));
        (raced, answer)
    }

    #[test]
    fn what_undelete_brings_back_while_compact_merges_is_never_lost() {
        run(async {
            let folder = Folder::new();
            let archive = expired(&folder).await;
            // `compact` has read the pages, and writes the merged one.
            let (raced, answer) = with(&archive, |it| run(undelete(&it)));
            assert_eq!(ledger::roll_up(&raced).await.unwrap().objects, 2);
            let refused = answer.lock().unwrap().take().unwrap().unwrap_err();
            assert!(format!("{refused:#}").contains("try again later"));
            assert_eq!(left(&archive).await, 2);
            let page = archive.list("sensors/hall/expired").await.unwrap();
            let page = page[0].location.as_ref().rsplit_once('/').unwrap().0;
            age(&folder, page);
            assert_eq!(undelete(&archive).await.unwrap().segments, 2);
            assert_eq!(left(&archive).await, 0);
        });
    }

    #[test]
    fn compact_leaves_records_alone_while_undelete_takes_segments_out_and_no_killed_run_is_in_the_way()
     {
        run(async {
            let folder = Folder::new();
            let archive = expired(&folder).await;
            // One of them was deleted, so the record of the other stays.
            let objects = archive.list(segment::FOLDER).await.unwrap();
            ledger::roll_up(&archive).await.unwrap();
            let page = archive.list("sensors/hall/expired").await.unwrap();
            age(
                &folder,
                page[0].location.as_ref().rsplit_once('/').unwrap().0,
            );
            archive.delete(objects[0].location.as_ref()).await.unwrap();
            let killed = "sensors/.turns/compact-1-1.json";
            archive.put(killed, "".into()).await.unwrap();
            assert!(undelete(&archive).await.is_err());
            age(&folder, "sensors/.turns");
            let (raced, answer) = with(&archive, |it| run(ledger::roll_up(&it)));
            assert_eq!(undelete(&raced).await.unwrap().segments, 1);
            let rolled = answer.lock().unwrap().take().unwrap().unwrap();
            assert_eq!(rolled, RolledUp::default());
            assert_eq!(left(&archive).await, 0);
            assert!(archive.list("sensors/.turns").await.unwrap().is_empty());
        });
    }
}
