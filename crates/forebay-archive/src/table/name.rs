//! Names in the table: its folder, its files and its transactions. And the time.

use crate::segment;
use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{SystemTime, UNIX_EPOCH},
};

/// The folder of the table in an archive.
pub const FOLDER: &str = "index";

/// The application transaction of a segment: the same for each key that its capture file may have.
pub(super) fn transaction(segment: &str) -> String {
    segment::identity(segment).unwrap_or_else(|| segment.to_owned())
}

/// The date in the key of a segment, in days since 1970.
pub(super) fn day_of(segment: &str) -> Option<i64> {
    let (_, date, _) = segment::parse_key(segment)?;
    let date: jiff::civil::Date = date.parse().ok()?;
    let since = date.duration_since(jiff::civil::date(1970, 1, 1));
    Some(since.as_hours() / 24)
}

/// A name that no other file has: 32 hexadecimal digits.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Each `RandomState` has new keys, which the system's random numbers seed.
    let random = |salt: u64| RandomState::new().hash_one((salt, std::process::id(), now_ms()));
    let next = NEXT.fetch_add(1, Relaxed); // it publishes nothing but itself
    format!("{:016x}{:016x}", random(next), random(!next))
}

/// Such a name in the form of an UUID.
pub(super) fn unique_id() -> String {
    let id = unique();
    let parts = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]];
    parts.join("-")
}

pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| it.as_millis() as i64)
}
