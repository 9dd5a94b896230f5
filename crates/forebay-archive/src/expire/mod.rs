//! `expire`: removes old segments and their rows.
//!
//! ```text
//!  check the right to delete ─▶ record what is removed ─▶ commit the removal of the rows ─▶ delete the segments
//! ```
//! In this order no row ever leads to a segment that is gone, and the packets of a segment count as expired from the first step on.
//! An `expire` that was killed, or whose deletions the store refused, is completed by the next one, or taken back by [`undelete`]. Rows that another program adds after the second step are removed by that
//! program ([`Table::append`]). A segment without rows that is younger than an hour is being shipped, and stays.

mod remove;

pub use remove::{Undeleted, undelete};

use crate::{
    archive::{self, Archive},
    segment,
    table::{Table, now_ms},
};
use anyhow::Result;
use object_store::ObjectMeta;
use remove::Segment;
use std::time::Duration;

/// Packets before this time, in nanoseconds since 1970 (the year 2001), are those of a sensor whose clock was not set.
const CLOCK_IS_SET_NS: u64 = 978_307_200_000_000_000;
/// Packets this long after their segment was stored, in nanoseconds, have a broken time: a day.
const MAX_AHEAD_NS: u64 = 86_400_000_000_000;

/// Which segments are removed. A segment is removed if one of the limits asks for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpireConfig {
    /// Segments whose last packet is older than this.
    pub older_than: Option<Duration>,
    /// The oldest segments, until the rest has at most this many bytes. Segments that cannot be read do not count.
    pub max_bytes: Option<u64>,
    /// Only count.
    pub dry_run: bool,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Segments.
    pub segments: u64,
    /// Their packets.
    pub packets: u64,
    /// Their bytes, as stored.
    pub bytes: u64,
    /// Of these, segments that have expired and that the store did not delete. The next `expire` tries again.
    pub not_deleted: u64,
    /// Their bytes.
    pub not_deleted_bytes: u64,
}

/// Removes old segments and their rows. `failed` is called with the error of each segment that cannot be read, which stays, and with the
/// first error of the deletions.
///
/// # Errors
/// The store failed, the right to delete segments is missing, or the table is of a newer version.
pub async fn expire(
    archive: &Archive,
    config: &ExpireConfig,
    failed: &mut dyn FnMut(anyhow::Error),
) -> Result<Expired> {
    let mut objects = archive.list(segment::FOLDER).await?;
    objects.retain(|it| segment::parse_key(it.location.as_ref()).is_some());
    objects.sort_by_cached_key(hour_of);
    // An `expire` that was killed may have left some of them, and their rows.
    let recorded = archive.expired_records().await?;
    let mut table = Table::open(archive).await?;
    let now = (now_ms() as u64).saturating_mul(1_000_000);
    let cutoff = config
        .older_than
        .map(|age| now.saturating_sub(age.as_nanos() as u64));
    let mut bytes: u64 = objects.iter().map(|it| it.size).sum();
    let mut chosen: Vec<Segment> = Vec::new();
    for object in objects {
        let key = object.location.as_ref();
        let is_recorded = segment::parse_key(key).is_some_and(|(sensor, _, sha256)| {
            recorded.contains(&segment::expired_record(sensor, sha256))
        });
        let is_over = is_recorded || config.max_bytes.is_some_and(|max| bytes > max);
        // The time of its first packet is at least that of its hour.
        let may_be_old = cutoff.is_some_and(|cutoff| hour_of(&object) < time_of(cutoff));
        if !is_over && !may_be_old {
            continue;
        }
        if !is_recorded && archive::is_young(&object) && !has_rows(&mut table, key).await? {
            bytes -= object.size;
            continue;
        }
        match archive.directory(key, Some(object.size)).await {
            Ok(directory) => {
                let is_old = cutoff.is_some_and(|cutoff| end_of(&object, &directory) < cutoff);
                if is_over || is_old {
                    bytes -= object.size;
                    chosen.push(Segment::of(&object, directory));
                }
            }
            Err(error) => {
                // It stays, but no newer segment is removed in its place.
                bytes -= object.size;
                failed(error);
            }
        }
    }
    let mut done = Expired {
        segments: chosen.len() as u64,
        packets: chosen.iter().map(|it| it.packets).sum(),
        bytes: chosen.iter().map(|it| it.bytes).sum(),
        ..Expired::default()
    };
    if config.dry_run || chosen.is_empty() {
        return Ok(done);
    }
    remove::probe(archive).await?;
    let (left, why) = remove::remove(archive, table.as_mut(), &chosen).await?;
    done.not_deleted = left.len() as u64;
    done.not_deleted_bytes = left.iter().map(|at| chosen[*at].bytes).sum();
    why.into_iter().for_each(failed);
    Ok(done)
}

/// Whether the rows of a segment are in the index. They are added after the segment, so one without rows may be on its way.
async fn has_rows(table: &mut Option<Table>, key: &str) -> Result<bool> {
    match table {
        Some(table) => table.has(key).await,
        None => Ok(false),
    }
}

/// The time of a segment's last packet. A sensor whose clock was not set begins in 1970, and a broken time may be in the future: then, and
/// without packets, it is the time at which the segment was stored.
fn end_of(object: &ObjectMeta, directory: &segment::Directory) -> u64 {
    let stored = stored_ns(object);
    let may_be = CLOCK_IS_SET_NS..=latest_ns(stored);
    let last = directory.last_ns.filter(|it| may_be.contains(it));
    last.unwrap_or(stored)
}

/// The latest time that a packet can have. The time at which the segment was stored may be wrong, too: too early, if the clock was not set.
fn latest_ns(stored: u64) -> u64 {
    let now = (now_ms() as u64).saturating_mul(1_000_000);
    stored.max(now).saturating_add(MAX_AHEAD_NS)
}

/// When a segment was stored.
fn stored_ns(object: &ObjectMeta) -> u64 {
    (object.last_modified.timestamp_millis().max(0) as u64).saturating_mul(1_000_000)
}

/// The hour of a segment's first packet, in the form of [`time_in_key`]; like [`end_of`] without a clock.
fn hour_of(object: &ObjectMeta) -> (String, String) {
    let (in_key, stored) = (time_in_key(object.location.as_ref()), stored_ns(object));
    if *in_key.0 < *"date=2001" || in_key > hour_at(latest_ns(stored)) {
        return hour_at(stored);
    }
    in_key
}

/// The date and the hour in the key of a segment, which sort as times do.
fn time_in_key(key: &str) -> (String, String) {
    let mut parts = key.split('/').skip(2).map(str::to_owned);
    (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    )
}

/// A time in the form of [`time_in_key`]: the end of its hour, because segments of this hour may be older.
fn time_of(time_ns: u64) -> (String, String) {
    hour_at(time_ns.saturating_add(3_600_000_000_000))
}

/// The hour of a time in the form of [`time_in_key`].
fn hour_at(time_ns: u64) -> (String, String) {
    let (date, hour) = segment::date_and_hour(time_ns);
    (format!("date={date}"), format!("hour={hour:02}"))
}
