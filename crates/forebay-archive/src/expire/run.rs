//! Which segments go, in the order of the steps.

use super::{
    ExpireConfig, Expired, Verdict, clock,
    index::{self, Class, Index, Span, Staying},
    listed,
    remove::{self, Segment},
    rule::{self, Keeps, Rule},
};
use crate::{
    archive::{self, Archive},
    hold::{self, Hold},
    ledger, segment,
    table::Table,
};
use anyhow::Result;
use object_store::ObjectMeta;
use std::{
    collections::{HashMap, HashSet},
    time::{Duration, SystemTime},
};

/// Segments whose directories are read before the next ones.
const AT_ONCE: usize = 256;

/// Removes old segments and their rows.
///
/// # Errors
/// The store failed, a hold cannot be read, a rule is for a sensor that does not exist, the right to delete segments is missing, or the
/// table is of a newer version.
pub async fn expire(
    archive: &Archive,
    config: &ExpireConfig,
    report: &mut dyn FnMut(Verdict<'_>),
) -> Result<Expired> {
    // A mistyped name would keep nothing.
    let named: Vec<String> = config
        .keep
        .iter()
        .filter_map(|it| it.sensor().cloned())
        .collect();
    archive.check_sensors("--keep: sensor", &named).await?;
    let holds = hold::all(archive).await?;
    let rules = rules(config);
    let mut objects = match config.max_bytes {
        Some(_) => archive.list(segment::FOLDER).await?,
        None => listed::by_age(archive, &rules).await?,
    };
    objects.retain(|it| segment::parse_key(it.location.as_ref()).is_some());
    if objects.is_empty() {
        return Ok(Expired::default());
    }
    objects.sort_by_cached_key(clock::hour_of);
    // By a clock that is ahead, packets would go too early, and segments whose rows are on their way. A dry run writes nothing, so it cannot ask
    // the store for its time.
    let now = match config.dry_run {
        true => SystemTime::now(),
        false => remove::probe(archive).await?.min(SystemTime::now()),
    };
    let index = Index::open(archive).await?;
    let held = index.held(&holds).await?;
    let mut run = Run {
        archive,
        now,
        table: Table::open(archive).await?,
        index,
        rules,
        holds,
        held,
        counted: HashSet::new(),
        unreadable: HashSet::new(),
        done: Expired::default(),
        report,
    };
    // An `expire` that was killed may have left some of them, and their rows.
    let recorded = ledger::expired(archive, &objects).await?;
    let is_recorded = |it: &ObjectMeta| {
        segment::identity(it.location.as_ref()).is_some_and(|it| recorded.contains_key(&it))
    };
    let (left, objects): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_recorded);
    let why = "it has expired, and an earlier run did not delete it";
    let mut chosen = run.segments(left, why).await?;
    chosen = run.without_held(chosen).await?;
    let old = run.by_age(&objects).await?;
    let mut left_bytes = objects.iter().map(|it| it.size).sum::<u64>() - bytes_of(&old);
    chosen.extend(old);
    if let Some(max) = config.max_bytes {
        left_bytes = run.by_size(&objects, left_bytes, max, &mut chosen).await?;
    }
    if !config.dry_run && !chosen.is_empty() {
        // A hold may have been placed meanwhile.
        let before = std::mem::replace(&mut run.holds, hold::all(archive).await?);
        run.holds.retain(|it| !before.contains(it));
        run.held = run.index.held(&run.holds).await?;
        left_bytes += bytes_of(&chosen);
        chosen = run.without_held(chosen).await?;
        left_bytes -= bytes_of(&chosen);
    }
    let max = config.max_bytes.unwrap_or(u64::MAX);
    run.done.over_bytes = left_bytes.saturating_sub(max);
    for it in &chosen {
        (run.report)(Verdict::Goes(&it.key, it.bytes, &it.why));
    }
    run.done.segments = chosen.len() as u64;
    run.done.packets = chosen.iter().map(|it| it.packets).sum();
    run.done.bytes = bytes_of(&chosen);
    if !config.dry_run && !chosen.is_empty() {
        let (left, why) = remove::remove(archive, run.table.as_mut(), &chosen).await?;
        run.done.not_deleted = left.len() as u64;
        run.done.not_deleted_bytes = left.iter().map(|at| chosen[*at].bytes).sum();
        why.into_iter()
            .for_each(|it| (run.report)(Verdict::Failed(it)));
    }
    Ok(run.done)
}

fn bytes_of(segments: &[Segment]) -> u64 {
    segments.iter().map(|it| it.bytes).sum()
}

/// The rules in their order, with what no rule matches at the end.
fn rules(config: &ExpireConfig) -> Vec<Rule> {
    let mut rules = config.keep.clone();
    match config.older_than {
        Some(age) => rules.push(Rule::rest(age, "--older-than")),
        None if rules.is_empty() => {}
        None => rules.push(Rule::rest(Duration::MAX, "what no rule matches")),
    }
    rules
}

struct Run<'a> {
    archive: &'a Archive,
    now: SystemTime,
    table: Option<Table>,
    index: Index,
    rules: Vec<Rule>,
    holds: Vec<Hold>,
    /// The segments that these holds hold, as far as the index knows it.
    held: Staying,
    /// Held segments that were reported.
    counted: HashSet<String>,
    unreadable: HashSet<String>,
    done: Expired,
    report: &'a mut dyn FnMut(Verdict<'_>),
}

impl Run<'_> {
    /// Reads the directories of segments. Those that cannot be read are reported.
    async fn segments(&mut self, objects: Vec<ObjectMeta>, why: &str) -> Result<Vec<Segment>> {
        let mut segments = Vec::with_capacity(objects.len());
        for objects in objects.chunks(AT_ONCE) {
            let directories = self.archive.directories(objects).await?;
            for (object, directory) in objects.iter().zip(directories) {
                match directory {
                    Ok(directory) => segments.push(Segment::of(object, directory, why)),
                    Err(error) => {
                        self.unreadable.insert(object.location.to_string());
                        (self.report)(Verdict::Failed(error));
                    }
                }
            }
        }
        Ok(segments)
    }

    /// Whether a segment is so young that its rows may be on their way.
    async fn is_being_shipped(&mut self, object: &ObjectMeta) -> Result<bool> {
        if !archive::is_young(object, self.now) {
            return Ok(false);
        }
        match &mut self.table {
            Some(table) => Ok(!table.has(object.location.as_ref()).await?),
            None => Ok(true),
        }
    }

    fn stays(&mut self, key: &str, bytes: u64, why: &str) {
        (self.report)(Verdict::Stays(key, bytes, why));
    }

    fn is_held(&mut self, key: &str, bytes: u64) -> bool {
        let Some(why) = self.held.get(key).cloned() else {
            return false;
        };
        if self.counted.insert(key.to_owned()) {
            self.done.held += 1;
            self.done.held_bytes += bytes;
            self.stays(key, bytes, &why);
        }
        true
    }

    /// Leaves out segments that a hold holds, and those that it may hold because the index does not have all of their packets.
    async fn without_held(&mut self, segments: Vec<Segment>) -> Result<Vec<Segment>> {
        let may_hold = |it: &&Segment| self.holds.iter().any(|hold| may_hold(hold, it));
        let asked: Vec<&Segment> = segments.iter().filter(may_hold).collect();
        for key in self.incomplete(&asked).await? {
            let why = "may have packets of a hold: the index does not have all of its packets";
            self.held.entry(key.into()).or_insert_with(|| why.into());
        }
        let free = segments.into_iter();
        Ok(free.filter(|it| !self.is_held(&it.key, it.bytes)).collect())
    }

    /// Those of these segments whose packets the index does not have, or not all of them.
    async fn incomplete(&self, segments: &[&Segment]) -> Result<HashSet<String>> {
        if segments.is_empty() {
            return Ok(HashSet::new());
        }
        let packets = self.index.packets(segments).await?;
        let is_whole = |it: &Segment| packets.get(&*it.key).copied().unwrap_or(0) >= it.packets;
        let incomplete = segments.iter().filter(|it| !is_whole(it));
        Ok(incomplete.map(|it| it.key.clone()).collect())
    }

    /// What the rules keep of segments of this sensor and age, in nanoseconds.
    fn keeps(&self, sensor: &str, age: u64) -> Keeps {
        rule::keeps_at(&self.rules, sensor, age)
    }

    /// Asks the index which of these segments the rules keep: their keys, spans, and ages.
    async fn kept<'k>(
        &self,
        segments: impl Iterator<Item = (&'k str, Span, u64)>,
    ) -> Result<Staying> {
        // Segments for which the same rules have ended are asked for together.
        let mut classes: HashMap<(String, usize), Class<'_>> = HashMap::new();
        for (key, span, age) in segments {
            let sensor = sensor_of(key);
            let of = self.rules.iter().filter(|it| it.is_of(sensor));
            let ended = of.filter(|it| age > it.age_ns()).count();
            let named = self.rules.iter().any(|it| it.names(sensor));
            let name = if named { sensor } else { "" };
            let class = classes.entry((name.to_owned(), ended));
            let class = class.or_insert_with(|| (self.keeps(sensor, age), Vec::new()));
            class.1.push((key, span));
        }
        self.index.kept(classes.into_values().collect()).await
    }

    /// The segments that no rule keeps.
    async fn by_age(&mut self, objects: &[ObjectMeta]) -> Result<Vec<Segment>> {
        if self.rules.is_empty() {
            return Ok(Vec::new());
        }
        let now = clock::ns_of(self.now);
        let age_of = |time: u64| now.saturating_sub(time);
        let mut old = Vec::new();
        for object in objects {
            let key = object.location.as_ref();
            let keeps = self.keeps(sensor_of(key), age_of(clock::hour_of(object)));
            if keeps != Keeps::Everything
                && !self.is_being_shipped(object).await?
                && !self.is_held(key, object.size)
            {
                old.push(object.clone());
            }
        }
        // Most of those that a rule keeps are found without reading them: their packets are not older than the hour in their key.
        let spans = old.iter().map(|it| {
            let age = age_of(clock::hour_of(it));
            (it.location.as_ref(), index::span_of_hour(it), age)
        });
        let kept = self.kept(spans).await?;
        let old = self.without_kept(old, &kept, |it| (it.location.as_ref(), it.size));
        let why = "its last packet is so old that no rule keeps a packet of it";
        let mut old = self.segments(old, why).await?;
        old.retain(|it| self.keeps(&it.sensor, age_of(it.end())) != Keeps::Everything);
        let spans = old.iter();
        let spans = spans.map(|it| (&*it.key, it.span_or_stored(), age_of(it.end())));
        let mut kept = self.kept(spans).await?;
        let is_asked = |it: &&Segment| {
            matches!(
                self.keeps(&it.sensor, age_of(it.end())),
                Keeps::Matching(..)
            )
        };
        let asked: Vec<&Segment> = old.iter().filter(is_asked).collect();
        for key in self.incomplete(&asked).await? {
            let why = "may have packets of a rule: the index does not have all of its packets";
            kept.entry(key.into()).or_insert_with(|| why.into());
        }
        let old = self.without_kept(old, &kept, |it| (&it.key, it.bytes));
        self.without_held(old).await
    }

    fn without_kept<T>(
        &mut self,
        mut all: Vec<T>,
        kept: &Staying,
        of: impl Fn(&T) -> (&str, u64),
    ) -> Vec<T> {
        all.retain(|it| {
            let (key, bytes) = of(it);
            let why = kept.get(key);
            why.into_iter().for_each(|why| self.stays(key, bytes, why));
            why.is_none()
        });
        all
    }

    /// Adds the oldest of the remaining segments, until at most `max` of these bytes are left. Returns the bytes that are left.
    async fn by_size(
        &mut self,
        objects: &[ObjectMeta],
        mut bytes: u64,
        max: u64,
        chosen: &mut Vec<Segment>,
    ) -> Result<u64> {
        let known: HashSet<String> = chosen.iter().map(|it| it.key.clone()).collect();
        let mut objects = objects.iter();
        while bytes > max {
            let (mut next, mut over) = (Vec::new(), bytes - max);
            while over > 0
                && next.len() < AT_ONCE
                && let Some(object) = objects.next()
            {
                let key = object.location.as_ref();
                if known.contains(key) || self.is_held(key, object.size) {
                    continue;
                }
                // No newer segment is removed in its place.
                if self.unreadable.contains(key) || self.is_being_shipped(object).await? {
                    bytes -= object.size;
                } else {
                    next.push(object.clone());
                }
                over = over.saturating_sub(object.size);
            }
            if next.is_empty() && over > 0 {
                break;
            }
            let all: u64 = next.iter().map(|it| it.size).sum();
            let read = self
                .segments(next, "the archive is larger than --max")
                .await?;
            // Those that cannot be read.
            bytes -= all - bytes_of(&read);
            let read = self.without_held(read).await?;
            bytes -= bytes_of(&read);
            chosen.extend(read);
        }
        Ok(bytes)
    }
}

fn sensor_of(key: &str) -> &str {
    segment::parse_key(key).map_or("", |it| it.0)
}

/// Whether a hold may hold packets of a segment, by its sensor and its times.
fn may_hold(hold: &Hold, segment: &Segment) -> bool {
    let is_of = hold.sensors.is_empty() || hold.sensors.contains(&segment.sensor);
    let ns = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    let is_between = segment.span.is_some_and(|(first, last)| {
        hold.from_ns.is_none_or(|from| ns(last) >= from)
            && hold.to_ns.is_none_or(|to| ns(first) < to)
    });
    is_of && is_between
}
