//! Rolling up the accounts of sensors, by day.
//!
//! ```text
//!  shipped/DATE/0000.json 0001.json …  ─▶ days/DATE/HASH.json      ┐
//!  expired/DATE/HASH.json HASH.json …  ─▶ expired/DATE/HASH.json   ├ all segments have expired ─▶ days/DATE.json: only sums
//!  vanished/DATE/HASH.json …           ─▶ vanished/DATE/HASH.json  ┘
//!  dropped-….json dropped-….json …     ─▶ dropped/DATE/HASH.json
//! ```
//! At the end, what the account adds up to is written to the [`summary`] of each sensor.
//!
//! The new object is there before the old ones are deleted, and says nothing else than they do. So a program that reads both counts nothing twice,
//! and a run that was killed is completed by the next one.

use super::{
    expired::put_all,
    key::{PageKind, parse_page, parse_single, parse_sums, sums_of},
    page::{Entry, SCHEMA, by_identity, named, page},
    read::stored_on,
    summary::{self, is_numbered},
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
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, hash_map::Entry as HashEntry},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Days that ended less than this before are left alone, and so are pages of `ship` that are younger: it may write them again.
const MIN_AGE: Duration = Duration::from_hours(2 * 24);
/// Segments that expired less than this before stay on their pages: programs may still add their rows.
const MIN_EXPIRED_AGE: Duration = Duration::from_hours(7 * 24);
/// Segments on a page of a day.
const MAX_ENTRIES: usize = if cfg!(test) { 300 } else { 50_000 };
/// Single records that are read at a time.
const MAX_SINGLES: usize = 1000;

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
    let done = roll_and_sum(archive, &turn).await;
    let ended = turn.end().await;
    let done = done?;
    ended.map(|()| done)
}

async fn roll_and_sum(archive: &Archive, turn: &Turn) -> Result<RolledUp> {
    let (done, mut listed) = roll(archive, Some(turn)).await?;
    if done != RolledUp::default() {
        listed = archive.list("sensors").await?;
    }
    summary::write(archive, &listed, &ended(turn.now())).await?;
    Ok(done)
}

/// What the next [`roll_up`] would do now.
///
/// # Errors
/// The store failed.
pub async fn plan_roll_up(archive: &Archive) -> Result<RolledUp> {
    Ok(roll(archive, None).await?.0)
}

/// The first date that is left alone at this time.
fn ended(now: SystemTime) -> String {
    let ended = now.duration_since(UNIX_EPOCH);
    let ended = ended.unwrap_or_default().saturating_sub(MIN_AGE);
    segment::date_and_hour(u64::try_from(ended.as_nanos()).unwrap_or(u64::MAX)).0
}

/// Without a turn, only counts. Also returns the records as they were listed before.
async fn roll(archive: &Archive, turn: Option<&Turn>) -> Result<(RolledUp, Vec<ObjectMeta>)> {
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
    let today = ended(now);
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
            if (pages.len() > 1 || has_numbered(pages)) && !pages.iter().any(may_change) {
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
                HashEntry::Occupied(it) => it.into_mut(),
                HashEntry::Vacant(it) => it.insert(archive.dates_of(sensor).await?),
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
    Ok((done, listed))
}

/// Whether a page of `ship` is among them.
fn has_numbered(pages: &[ObjectMeta]) -> bool {
    pages.iter().any(|it| is_numbered(it.location.as_ref()))
}

fn is_older(object: &ObjectMeta, age: Duration, now: SystemTime) -> bool {
    let is = now.duration_since(object.last_modified.into());
    is.is_ok_and(|it| it > age)
}

/// The segments on these pages, as [`by_identity`].
async fn read(archive: &Archive, pages: &[ObjectMeta]) -> Result<Option<BTreeMap<String, Entry>>> {
    let keys: Vec<&str> = pages.iter().map(|it| it.location.as_ref()).collect();
    by_identity(archive, &keys).await
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
    if made.len() >= pages.len() && !has_numbered(pages) {
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
    let (mut moved, mut others) = (0, HashMap::new());
    for kind in [PageKind::Expired, PageKind::Vanished, PageKind::Dropped] {
        let of_kind: Vec<_> = singles.iter().filter(|it| it.1.1 == kind).collect();
        for singles in of_kind.chunks(MAX_SINGLES) {
            let keys = singles.iter().map(|it| it.0.location.as_ref());
            let bytes = archive::at_once(keys.map(async |it| page(archive, it).await)).await?;
            let (mut entries, mut gone) = (Vec::new(), Vec::new());
            for ((object, (sensor, _, id)), bytes) in singles.iter().copied().zip(bytes) {
                let bytes = bytes.unwrap_or_default();
                let Ok(mut entry) = serde_json::from_slice::<Entry>(&bytes) else {
                    continue;
                };
                let key = object.location.as_ref();
                if kind == PageKind::Dropped {
                    entry.segment.clone_from(id);
                } else if kind == PageKind::Expired && entry.segment.is_empty() {
                    let others = match others.entry(*sensor) {
                        HashEntry::Occupied(it) => it.into_mut(),
                        HashEntry::Vacant(it) => {
                            it.insert(others_of(archive, sensor, listed).await?)
                        }
                    };
                    match others.get(id) {
                        // The next `expire` deletes it, and records it.
                        Some(Other::Stored) => continue,
                        Some(Other::OnPage(PageKind::Expired, _)) => {
                            gone.push(key);
                            continue;
                        }
                        Some(Other::OnPage(_, segment)) => entry.segment.clone_from(segment),
                        // The date of this segment is not known, and nothing asks for it.
                        None if is_older(object, MIN_EXPIRED_AGE, now) => {
                            key.clone_into(&mut entry.segment);
                        }
                        None => continue,
                    }
                }
                let date = segment::parse_key(&entry.segment).map(|it| it.1.to_owned());
                let date = date.unwrap_or_else(|| stored_on(object));
                if entry.identity().is_some_and(|it| it.1 == *id) {
                    entries.push((key, (date, entry)));
                }
            }
            if let Some(turn) = turn {
                turn.check()?;
                put_all(archive, kind, entries.iter().map(|it| it.1.clone())).await?;
            }
            gone.extend(entries.iter().map(|it| it.0));
            moved += delete(archive, gone.into_iter(), turn).await?;
        }
    }
    Ok(moved)
}

/// Where else a segment of a record of an earlier version is.
enum Other {
    Stored,
    /// On a page of the account, or of expired segments: the key of the segment has its date.
    OnPage(PageKind, String),
}

/// The segments of a sensor that are stored, on pages of expired ones, or in its account, by their identities. The first of these counts.
async fn others_of(
    archive: &Archive,
    sensor: &str,
    listed: &[ObjectMeta],
) -> Result<HashMap<String, Other>> {
    let mut others = HashMap::new();
    for kind in [PageKind::Shipped, PageKind::Expired] {
        for object in listed {
            let key = object.location.as_ref();
            if parse_page(key).is_some_and(|it| (it.0, it.2) == (sensor, kind)) {
                let entries = by_identity(archive, &[key]).await?;
                let dated = entries.into_iter().flatten();
                let dated = dated.filter(|it| segment::parse_key(&it.1.segment).is_some());
                others.extend(dated.map(|it| (it.0, Other::OnPage(kind, it.1.segment))));
            }
        }
    }
    let folder = format!("{}/sensor={sensor}", segment::FOLDER);
    let stored = archive.list(&folder).await?;
    let stored = stored.iter().map(|it| it.location.as_ref());
    let stored = stored.filter_map(segment::identity);
    others.extend(stored.map(|it| (it, Other::Stored)));
    Ok(others)
}

#[cfg(test)]
mod tests;
