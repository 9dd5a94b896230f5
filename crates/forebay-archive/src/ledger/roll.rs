//! Rolling up the accounts of sensors, by day.
//!
//! ```text
//!  shipped/DATE/0000.json 0001.json …  ─▶ days/DATE/HASH.json      ┐
//!  expired/DATE/HASH.json HASH.json …  ─▶ expired/DATE/HASH.json   ├ all segments have expired ─▶ days/DATE.json: only sums
//!  vanished/DATE/HASH.json …           ─▶ vanished/DATE/HASH.json  ┘
//!  dropped-….json dropped-….json …     ─▶ dropped/DATE/HASH.json
//! ```
//! The new object is there before the old ones are deleted, and says nothing else than they do. So a program that reads both counts nothing twice,
//! and a run that was killed is completed by the next one.

use super::{
    expired::put_all,
    key::{PageKind, parse_page, parse_single, parse_sums, sums_of},
    page::{Entry, SCHEMA, entries, named, page},
    read::stored_on,
    sums::{Sum, Sums},
    turn::{Change, Turn},
};
use crate::{
    archive::{self, Archive},
    segment,
};
use anyhow::Result;
use bytes::Bytes;
use object_store::ObjectMeta;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Days that ended less than this before are left alone, and so are pages of `ship` that are younger: it may write them again.
const MIN_AGE: Duration = Duration::from_hours(2 * 24);
/// Segments that expired less than this before stay on their pages: programs may still add their rows.
const MIN_EXPIRED_AGE: Duration = Duration::from_hours(7 * 24);
/// Segments on a page of a day.
const MAX_ENTRIES: usize = if cfg!(test) { 300 } else { 50_000 };
/// Single records that are read at a time, and the bytes of one: it has a name and a few numbers.
const MAX_SINGLES: usize = 1000;
const MAX_SINGLE: u64 = 64 << 10;

/// What [`roll_up`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolledUp {
    /// Objects that were replaced by fewer ones.
    pub objects: u64,
    /// Days of sensors that have only their sums left.
    pub closed: u64,
}

/// The objects of a day of a sensor.
#[derive(Debug, Default)]
struct Day {
    shipped: Vec<ObjectMeta>,
    expired: Vec<ObjectMeta>,
    vanished: Vec<ObjectMeta>,
    dropped: Vec<ObjectMeta>,
    has_sums: bool,
}

impl Day {
    /// The pages that its sums replace.
    fn summed(&self) -> impl Iterator<Item = &ObjectMeta> {
        self.shipped
            .iter()
            .chain(&self.expired)
            .chain(&self.vanished)
    }
}

/// Merges the pages of days that ended more than two days ago, and leaves only the sums of days whose segments have all expired. Damaged pages
/// stay, and so do the others of their day. Does nothing while `undelete` is running.
///
/// # Errors
/// The store failed.
pub async fn roll_up(archive: &Archive) -> Result<RolledUp> {
    let Some(turn) = Turn::take(archive, Change::Merge).await? else {
        return Ok(RolledUp::default());
    };
    let done = roll(archive, Some(&turn)).await;
    let ended = turn.end().await;
    let done = done?;
    ended.map(|()| done)
}

/// What the next [`roll_up`] would do now.
///
/// # Errors
/// The store failed.
pub async fn plan_roll_up(archive: &Archive) -> Result<RolledUp> {
    roll(archive, None).await
}

/// Without a turn, only counts.
async fn roll(archive: &Archive, turn: Option<&Turn>) -> Result<RolledUp> {
    let mut done = RolledUp::default();
    let listed = archive.list("sensors").await?;
    let now = turn.map_or_else(SystemTime::now, Turn::now);
    done.objects += gather(archive, &listed, turn, now).await?;
    let mut days: BTreeMap<(&str, &str), Day> = BTreeMap::new();
    for object in &listed {
        let key = object.location.as_ref();
        if let Some((sensor, date, kind)) = parse_page(key) {
            let day = days.entry((sensor, date)).or_default();
            let pages = match kind {
                PageKind::Shipped => &mut day.shipped,
                PageKind::Expired => &mut day.expired,
                PageKind::Vanished => &mut day.vanished,
                PageKind::Dropped => &mut day.dropped,
            };
            pages.push(object.clone());
        } else if let Some(day) = parse_sums(key) {
            days.entry(day).or_default().has_sums = true;
        }
    }
    let ended = now.duration_since(UNIX_EPOCH);
    let ended = ended.unwrap_or_default().saturating_sub(MIN_AGE);
    let (today, _) = segment::date_and_hour(u64::try_from(ended.as_nanos()).unwrap_or(u64::MAX));
    days.retain(|day, _| day.1 < &*today);
    let singles = listed.iter().map(|it| it.location.as_ref());
    let accepted = singles.filter_map(parse_single);
    let accepted = accepted.filter(|it| it.1 == PageKind::Vanished);
    let accepted: HashSet<String> = accepted.map(|it| it.2).collect();
    let mut stored: HashMap<&str, BTreeSet<String>> = HashMap::new();
    for ((sensor, date), mut day) in days {
        let mut merged = 0;
        if day.has_sums {
            merged += finish(archive, sensor, date, &mut day, turn).await?;
        }
        let kinds = [
            (PageKind::Shipped, &day.shipped),
            (PageKind::Expired, &day.expired),
            (PageKind::Vanished, &day.vanished),
            (PageKind::Dropped, &day.dropped),
        ];
        for (kind, pages) in kinds {
            // `undelete` takes segments out of pages that are not young.
            let may_change = |it: &ObjectMeta| match kind {
                PageKind::Shipped => !is_older(it, MIN_AGE, now),
                _ => archive::is_young(it, now),
            };
            if (pages.len() > 1 || pages.iter().any(is_numbered)) && !pages.iter().any(may_change) {
                let folder = format!("sensors/{sensor}/{}/{date}", kind.folder());
                merged += merge(archive, &folder, pages, day.has_sums, turn).await?;
            }
        }
        done.objects += merged;
        if merged == 0
            && !day.has_sums
            && !day.expired.is_empty()
            && day.summed().all(|it| is_older(it, MIN_EXPIRED_AGE, now))
        {
            let stored = match stored.entry(sensor) {
                std::collections::hash_map::Entry::Occupied(it) => it.into_mut(),
                std::collections::hash_map::Entry::Vacant(it) => {
                    it.insert(archive.dates_of(sensor).await?)
                }
            };
            if !stored.contains(date) && close(archive, sensor, date, &day, &accepted, turn).await?
            {
                done.objects += match turn {
                    Some(_) => finish(archive, sensor, date, &mut day, turn).await?,
                    None => day.summed().count() as u64,
                };
                done.closed += 1;
            }
        }
    }
    Ok(done)
}

/// Whether it is a page of `ship`.
fn is_numbered(page: &ObjectMeta) -> bool {
    page.location
        .parts()
        .nth(2)
        .is_some_and(|it| it.as_ref() == "shipped")
}

fn is_older(object: &ObjectMeta, age: Duration, now: SystemTime) -> bool {
    let is = now.duration_since(object.last_modified.into());
    is.is_ok_and(|it| it > age)
}

/// The segments on these pages, by their identity; of a segment that is on several ones, the last entry. `None`: a page is damaged or gone.
async fn read(archive: &Archive, pages: &[ObjectMeta]) -> Result<Option<BTreeMap<String, Entry>>> {
    let mut keys: Vec<&str> = pages.iter().map(|it| it.location.as_ref()).collect();
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

/// Replaces pages by as few as possible, unless one of them is damaged. Returns the number of objects that were deleted.
///
/// The pages may be those that came after the sums of their day. The same segments may be in the sums, so the new page must have another name.
async fn merge(
    archive: &Archive,
    folder: &str,
    pages: &[ObjectMeta],
    has_sums: bool,
    turn: Option<&Turn>,
) -> Result<u64> {
    let Some(all) = read(archive, pages).await? else {
        return Ok(0);
    };
    let stored = pages.iter().map(|it| it.last_modified.timestamp_millis());
    let recorded_ms = stored.max().filter(|_| has_sums);
    let recorded_ms = recorded_ms.map(|it| it.max(0) as u64);
    let all: Vec<Entry> = all.into_values().collect();
    let made = all.chunks(MAX_ENTRIES);
    let made = made.map(|it| named(folder, recorded_ms, it.to_vec()));
    let made: HashMap<String, Bytes> = made.collect::<Result<_>>()?;
    if made.len() >= pages.len() && !pages.iter().any(is_numbered) {
        return Ok(0);
    }
    if let Some(turn) = turn {
        turn.check()?;
        for (key, text) in &made {
            archive.put(key, text.clone()).await?;
        }
    }
    let old = pages
        .iter()
        .filter(|it| !made.contains_key(it.location.as_ref()));
    let old: Vec<&ObjectMeta> = old.collect();
    let ask = async |it: &&ObjectMeta| archive.head(it.location.as_ref()).await;
    let now = archive::at_once(old.iter().map(ask)).await?;
    let is_same = |(then, now): (&&ObjectMeta, &Option<ObjectMeta>)| {
        let now = now.as_ref().map(|it| (it.size, it.last_modified));
        now == Some((then.size, then.last_modified))
    };
    // One that `ship` has written again meanwhile has more than was read.
    let old = old.iter().zip(&now).filter(|it| is_same((it.0, it.1)));
    delete(archive, old.map(|it| it.0.location.as_ref()), turn).await
}

async fn delete<'k>(
    archive: &Archive,
    keys: impl Iterator<Item = &'k str>,
    turn: Option<&Turn>,
) -> Result<u64> {
    let Some(turn) = turn else {
        return Ok(keys.count() as u64);
    };
    turn.check()?;
    let deleted = archive::at_once(keys.map(async |it| archive.delete(it).await)).await?;
    Ok(deleted.len() as u64)
}

/// Writes the sums of a day whose segments have all expired, or have vanished with consent. `false`: it has others.
async fn close(
    archive: &Archive,
    sensor: &str,
    date: &str,
    day: &Day,
    accepted: &HashSet<String>,
    turn: Option<&Turn>,
) -> Result<bool> {
    let [Some(shipped), Some(expired), Some(vanished)] = [
        read(archive, &day.shipped).await?,
        read(archive, &day.expired).await?,
        read(archive, &day.vanished).await?,
    ] else {
        return Ok(false);
    };
    let others = shipped.iter().filter(|it| !expired.contains_key(it.0));
    let others: Vec<_> = others.collect();
    let is_accepted = |id: &String| accepted.contains(id) || vanished.contains_key(id);
    if !others.iter().all(|it| is_accepted(it.0)) {
        return Ok(false);
    }
    let sums = Sums {
        schema: SCHEMA,
        expired: Sum::of(expired.values()),
        vanished: Sum::of(others.into_iter().map(|it| it.1)),
        pages: day.summed().map(|it| it.location.to_string()).collect(),
    };
    let text = serde_json::to_vec(&sums)?;
    match turn {
        Some(_) => archive.put_new(&sums_of(sensor, date), text.into()).await,
        None => Ok(true),
    }
}

/// Deletes the pages that are in the sums of a day, and leaves those that came later.
async fn finish(
    archive: &Archive,
    sensor: &str,
    date: &str,
    day: &mut Day,
    turn: Option<&Turn>,
) -> Result<u64> {
    if day.summed().next().is_none() {
        return Ok(0);
    }
    let bytes = archive.get(&sums_of(sensor, date)).await?;
    let Some(sums) = bytes.and_then(|it| Sums::parse(&it)) else {
        // Which pages are in them is not known.
        for pages in [&mut day.shipped, &mut day.expired, &mut day.vanished] {
            pages.clear();
        }
        return Ok(0);
    };
    let is_late = |it: &ObjectMeta| !sums.pages.contains(it.location.as_ref());
    let in_sums = day.summed().map(|it| it.location.as_ref());
    let in_sums = in_sums.filter(|it| sums.pages.contains(*it));
    let deleted = delete(archive, in_sums, turn).await?;
    for pages in [&mut day.shipped, &mut day.expired, &mut day.vanished] {
        pages.retain(is_late);
    }
    Ok(deleted)
}

/// Brings the records of single segments and files to the pages of their days.
async fn gather(
    archive: &Archive,
    listed: &[ObjectMeta],
    turn: Option<&Turn>,
    now: SystemTime,
) -> Result<u64> {
    let old = listed.iter().filter(|it| !archive::is_young(it, now));
    let singles = old.filter_map(|it| Some((it, parse_single(it.location.as_ref())?)));
    let singles: Vec<_> = singles.collect();
    let mut moved = 0;
    for kind in [PageKind::Expired, PageKind::Vanished, PageKind::Dropped] {
        let of_kind: Vec<_> = singles.iter().filter(|it| it.1.1 == kind).collect();
        for singles in of_kind.chunks(MAX_SINGLES) {
            let keys = singles.iter().map(|it| it.0.location.as_ref());
            let short = async |it| archive.get_short(it, MAX_SINGLE).await;
            let bytes = archive::at_once(keys.map(short)).await?;
            let mut entries = Vec::new();
            for ((object, (.., id)), bytes) in singles.iter().copied().zip(bytes) {
                let bytes = bytes.unwrap_or_default();
                let Ok(mut entry) = serde_json::from_slice::<Entry>(&bytes) else {
                    continue;
                };
                if kind == PageKind::Dropped {
                    entry.segment.clone_from(id);
                }
                let date = segment::parse_key(&entry.segment).map(|it| it.1.to_owned());
                let date = date.unwrap_or_else(|| stored_on(object));
                if entry.identity().is_some_and(|it| it.1 == *id) {
                    entries.push((object.location.as_ref(), (date, entry)));
                }
            }
            if let Some(turn) = turn {
                turn.check()?;
                put_all(archive, kind, entries.iter().map(|it| it.1.clone())).await?;
            }
            moved += delete(archive, entries.iter().map(|it| it.0), turn).await?;
        }
    }
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use super::super::{
        Ledger, Records,
        account::tests::entry,
        expired::{expired, forget, record},
    };
    use super::*;
    use crate::status::date_before;
    use forebay_testing::folder::Folder;
    use std::{fs, sync::LazyLock};

    /// A day that has ended.
    static DAY: LazyLock<String> = LazyLock::new(|| date_before(Duration::from_hours(24 * 10)));

    /// Makes the records of `hall` this old.
    fn age(folder: &Folder, days: u64) {
        let mut folders = vec![folder.path("to/sensors/hall")];
        while let Some(path) = folders.pop() {
            for entry in fs::read_dir(path).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path.to_str().unwrap().to_owned());
                    continue;
                }
                let then = SystemTime::now() - Duration::from_hours(24 * days + 1);
                let file = fs::File::options().write(true).open(path).unwrap();
                file.set_modified(then).unwrap();
            }
        }
    }

    fn named(number: u32) -> Entry {
        let mut named = entry("hall", 1);
        named.segment = format!(
            "segments/sensor=hall/date={}/hour=00/{number:064x}.pcapng.zst",
            *DAY
        );
        named
    }

    async fn records(archive: &Archive) -> Records {
        Records::read(archive, &[], &|_, _| true).await.unwrap()
    }

    async fn keys(archive: &Archive) -> Vec<String> {
        let listed = archive.list("sensors").await.unwrap();
        let keys = listed.iter().map(|it| it.location.to_string());
        let mut keys: Vec<String> = keys.collect();
        keys.sort_unstable();
        keys
    }

    /// An archive with a closed day of this many segments.
    async fn closed(folder: &Folder, segments: u32) -> Archive {
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        let mut ledger = Ledger::default();
        for number in 0..segments {
            ledger.add(&archive, named(number)).await.unwrap();
        }
        record(&archive, (0..segments).map(named)).await.unwrap();
        age(folder, 8);
        roll_up(&archive).await.unwrap();
        for _ in 0..3 {
            age(folder, 8);
            roll_up(&archive).await.unwrap();
        }
        archive
    }

    #[test]
    fn segments_of_a_closed_day_that_are_shipped_and_expire_again_are_recorded_and_merged_again() {
        let folder = Folder::new();
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let archive = closed(&folder, 3).await;
            let sums = format!("sensors/hall/days/{}.json", *DAY);
            assert_eq!(keys(&archive).await, [&*sums]);
            let mut ledger = Ledger::default();
            for number in 0..4 {
                ledger.add(&archive, named(number)).await.unwrap();
            }
            let expired_ = async || {
                let records = records(&archive).await;
                assert_eq!(records.sums[0].1.expired.segments, 3);
                assert_eq!(records.shipped.len(), 4);
                records.expired.len()
            };
            // The same page as in the sums, and another one.
            record(&archive, (0..3).map(named)).await.unwrap();
            assert_eq!(expired_().await, 3);
            record(&archive, (0..4).map(named)).await.unwrap();
            assert_eq!(expired_().await, 4);
            // What is left after an `undelete` has the segments that are in the sums.
            age(&folder, 8);
            let last = segment::identity(&named(3).segment).unwrap();
            for page in keys(&archive).await {
                if page.contains("/expired/") {
                    let ids = HashSet::from([last.clone()]);
                    assert!(
                        forget(&archive, &page, &ids, SystemTime::now())
                            .await
                            .unwrap()
                    );
                }
            }
            assert_eq!(expired_().await, 3);
            age(&folder, 8);
            // What comes after the sums is merged, too, and then left alone.
            assert_eq!(roll_up(&archive).await.unwrap().closed, 0);
            assert_eq!(expired_().await, 3);
            let late = keys(&archive).await;
            assert_eq!(late.len(), 3, "{late:?}");
            age(&folder, 8);
            assert_eq!(roll_up(&archive).await.unwrap(), RolledUp::default());
            // All that was in the sums again: its page is not taken for that in the sums.
            record(&archive, (0..3).map(named)).await.unwrap();
            record(&archive, (1..4).map(named)).await.unwrap();
            age(&folder, 8);
            assert_eq!(roll_up(&archive).await.unwrap().objects, 3);
            assert_eq!(keys(&archive).await.len(), 3);
            assert_eq!(expired_().await, 4);
        });
    }

    #[test]
    fn a_day_with_several_merged_pages_is_closed_and_not_written_again() {
        let folder = Folder::new();
        let segments = MAX_ENTRIES as u32 + 50;
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let archive = Archive::open(&folder.path("to"), true).unwrap();
            let mut ledger = Ledger::default();
            for number in 0..segments {
                ledger.add(&archive, named(number)).await.unwrap();
            }
            age(&folder, 3);
            assert_eq!(roll_up(&archive).await.unwrap().objects, 4);
            let pages = archive.list("sensors/hall/days").await.unwrap();
            assert_eq!(pages.len(), 2);
            age(&folder, 3);
            let before = archive.list("sensors/hall/days").await.unwrap();
            assert_eq!(roll_up(&archive).await.unwrap(), RolledUp::default());
            let mut after = archive.list("sensors/hall/days").await.unwrap();
            after.sort_by_key(|it| before.iter().position(|old| old.location == it.location));
            assert_eq!(before, after);
            for from in [0, 100] {
                let part = (from..segments).step_by(2).map(named);
                record(&archive, part).await.unwrap();
            }
            record(&archive, (0..segments).map(named)).await.unwrap();
            age(&folder, 8);
            assert_eq!(roll_up(&archive).await.unwrap().closed, 0);
            age(&folder, 8);
            let done = roll_up(&archive).await.unwrap();
            assert_eq!((done.objects, done.closed), (4, 1));
            let left = records(&archive).await;
            assert_eq!(left.sums[0].1.expired.segments, u64::from(segments));
            assert_eq!(keys(&archive).await.len(), 1);
        });
    }

    /// Rolls up what a plan says, and the plan changes nothing.
    async fn planned(archive: &Archive) -> RolledUp {
        let before = keys(archive).await;
        let plan = plan_roll_up(archive).await.unwrap();
        assert_eq!(keys(archive).await, before);
        assert_eq!(roll_up(archive).await.unwrap(), plan);
        plan
    }

    #[test]
    fn records_of_dropped_files_and_of_accepted_losses_become_a_page_a_day_and_count_once() {
        let folder = Folder::new();
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let mut ledger = Ledger::default();
            let mut singles = Vec::new();
            for number in 0..20 {
                ledger.add(&archive, named(number)).await.unwrap();
                let lost = serde_json::to_vec(&named(number)).unwrap();
                singles.push((format!("sensors/hall/vanished-{number:064x}.json"), lost));
                let dropped =
                    format!(r#"{{"schema": 1, "file": "a{number}", "packets": 2, "bytes": 9}}"#);
                singles.push((
                    format!("sensors/hall/dropped-{number}.json"),
                    dropped.into(),
                ));
            }
            for (key, text) in &singles {
                archive.put(key, text.clone().into()).await.unwrap();
            }
            age(&folder, 3);
            let state = async || {
                let records = records(&archive).await;
                let dropped = records.dropped.values().map(|it| it.1.packets);
                (dropped.sum::<u64>(), records.accepted.len())
            };
            assert_eq!(state().await, (40, 20));
            assert_eq!(planned(&archive).await.objects, 41);
            assert_eq!(keys(&archive).await.len(), 3);
            assert_eq!(state().await, (40, 20));
            // A run that was killed, and records that came later. What is damaged stays.
            for (key, text) in &singles[10..30] {
                archive.put(key, text.clone().into()).await.unwrap();
            }
            let damaged = "sensors/hall/dropped-x.json";
            archive.put(damaged, "{".into()).await.unwrap();
            let late = "sensors/hall/dropped-y.json";
            archive.put(late, r#"{"packets": 2}"#.into()).await.unwrap();
            assert_eq!(state().await, (42, 20));
            for _ in 0..2 {
                age(&folder, 3);
                planned(&archive).await;
            }
            assert_eq!(state().await, (42, 20));
            let left = keys(&archive).await;
            assert!(
                left.len() == 4 && left.iter().any(|it| it == damaged),
                "{left:?}"
            );
            let dropped = &records(&archive).await.dropped["sensors/hall/dropped-7.json"];
            assert_eq!(dropped.1.file.as_deref(), Some("a7"));
            assert_eq!((&*dropped.0, dropped.1.plain_bytes), ("hall", Some(9)));
        });
    }

    #[test]
    fn no_segment_is_taken_as_unexpired_because_a_page_is_damaged() {
        let folder = Folder::new();
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            record(&archive, [named(1)].into_iter()).await.unwrap();
            archive.put(&named(1).segment, "".into()).await.unwrap();
            let stored = archive.list("segments").await.unwrap();
            assert_eq!(expired(&archive, &stored).await.unwrap().len(), 1);
            let page = keys(&archive).await.swap_remove(0);
            let newer = r#"{"schema": 2, "segments": []}"#;
            archive.put(&page, newer.into()).await.unwrap();
            let error = expired(&archive, &stored).await.unwrap_err();
            assert!(format!("{error:#}").contains(&page), "{error:#}");
            age(&folder, 1);
            assert!(
                forget(&archive, &page, &HashSet::new(), SystemTime::now())
                    .await
                    .is_err()
            );
            assert_eq!(keys(&archive).await, [page]);
        });
    }

    #[test]
    fn pages_of_a_day_become_one_and_only_sums_are_left_when_all_its_segments_have_expired() {
        let folder = Folder::new();
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        let rolled = |objects, closed| RolledUp { objects, closed };
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let mut ledger = Ledger::default();
            for number in 0..250 {
                ledger.add(&archive, named(number)).await.unwrap();
            }
            // `ship` may write the last page again.
            age(&folder, 1);
            assert_eq!(planned(&archive).await, rolled(0, 0));
            // After a day it begins a new one, also after a restart.
            Ledger::default().add(&archive, named(250)).await.unwrap();
            assert_eq!(keys(&archive).await.len(), 4);
            let before = records(&archive).await.shipped;
            assert_eq!(before.len(), 251);
            age(&folder, 2);
            // A run that was killed before it deleted the old pages.
            let kept = folder.path("kept");
            fs::create_dir(&kept).unwrap();
            let page = folder.path(&format!("to/sensors/hall/shipped/{}/0001.json", *DAY));
            fs::copy(&page, format!("{kept}/page")).unwrap();
            assert_eq!(planned(&archive).await, rolled(4, 0));
            assert_eq!(keys(&archive).await.len(), 1);
            fs::create_dir_all(folder.path(&format!("to/sensors/hall/shipped/{}", *DAY))).unwrap();
            fs::copy(format!("{kept}/page"), &page).unwrap();
            assert_eq!(records(&archive).await.shipped, before);
            age(&folder, 2);
            assert_eq!(planned(&archive).await, rolled(1, 0));
            assert_eq!(records(&archive).await.shipped, before);
            assert_eq!(planned(&archive).await, rolled(0, 0));

            // Two runs of `expire`, and a record of an earlier version. One segment has vanished.
            record(&archive, (0..100).map(named)).await.unwrap();
            record(&archive, (100..249).map(named)).await.unwrap();
            let sha256 = format!("{:064x}", 249);
            let old = serde_json::to_vec(&named(249)).unwrap();
            let key = format!("sensors/hall/expired-{sha256}.json");
            archive.put(&key, old.into()).await.unwrap();
            let expired = records(&archive).await.expired;
            assert_eq!(expired.len(), 250);
            age(&folder, 2);
            assert_eq!(planned(&archive).await, rolled(3, 0));
            assert_eq!(keys(&archive).await.len(), 3); // the record of the last one is young
            age(&folder, 2);
            assert_eq!(planned(&archive).await, rolled(2, 0));
            assert_eq!(records(&archive).await.expired, expired);
            // It stays until its loss is accepted, and while a segment is stored.
            age(&folder, 8);
            assert_eq!(planned(&archive).await, rolled(0, 0));
            let gone = serde_json::to_vec(&named(250)).unwrap();
            let key = format!("sensors/hall/vanished-{:064x}.json", 250);
            archive.put(&key, gone.into()).await.unwrap();
            let stored = named(3).segment;
            archive.put(&stored, "".into()).await.unwrap();
            assert_eq!(planned(&archive).await, rolled(0, 0));
            archive.delete(&stored).await.unwrap();
            let pages = keys(&archive).await;
            let page = archive.get(&pages[0]).await.unwrap().unwrap();
            assert_eq!(planned(&archive).await, rolled(2, 1));
            let sums = format!("sensors/hall/days/{}.json", *DAY);
            assert_eq!(keys(&archive).await, [sums, key]);
            // Again, a run that was killed: nothing counts twice.
            archive.put(&pages[0], page).await.unwrap();
            let left = records(&archive).await;
            assert!(left.shipped.is_empty() && left.expired.is_empty());
            let (sensor, sums) = &left.sums[0];
            assert_eq!(
                (&**sensor, sums.expired.segments, sums.vanished.segments),
                ("hall", 250, 1)
            );
            let packets = |sum: &Sum| {
                (
                    sum.packets,
                    sum.captured,
                    sum.lost_kernel,
                    sum.lost_interface,
                )
            };
            assert_eq!(packets(&sums.expired), (250, 250, Some(0), None));
            assert_eq!(planned(&archive).await, rolled(1, 0));
            assert_eq!(keys(&archive).await.len(), 2);
        });
    }
}
