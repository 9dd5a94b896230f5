//! How old a segment is, also if the clock of its sensor was wrong.

use jiff::{civil::Date, tz::TimeZone};
use object_store::ObjectMeta;
use std::time::{SystemTime, UNIX_EPOCH};

/// Packets before this time, in nanoseconds since 1970 (the year 2001), are those of a sensor whose clock was not set.
const CLOCK_IS_SET_NS: u64 = 978_307_200_000_000_000;
const HOUR_NS: u64 = 3_600_000_000_000;
/// Packets this long after their segment was stored, in nanoseconds, have a broken time: a day.
const MAX_AHEAD_NS: u64 = 24 * HOUR_NS;

pub fn now_ns() -> u64 {
    ns_of(SystemTime::now())
}

/// A time in nanoseconds since 1970.
pub fn ns_of(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The time of a segment's last packet. A sensor whose clock was not set begins in 1970, and a broken time may be in the future: then, and
/// without packets, it is the time at which the segment was stored.
pub fn end_of(last: Option<u64>, stored: u64) -> u64 {
    let may_be = CLOCK_IS_SET_NS..=latest_ns(stored);
    last.filter(|it| may_be.contains(it)).unwrap_or(stored)
}

/// The latest time that a packet can have. The time at which the segment was stored may be wrong, too: too early, if the clock was not set.
fn latest_ns(stored: u64) -> u64 {
    stored.max(now_ns()).saturating_add(MAX_AHEAD_NS)
}

/// When a segment was stored.
pub fn stored_ns(object: &ObjectMeta) -> u64 {
    (object.last_modified.timestamp_millis().max(0) as u64).saturating_mul(1_000_000)
}

/// The beginning of the hour in a segment's key, which is that of its first packet; like [`end_of`] without a clock.
pub fn hour_of(object: &ObjectMeta) -> u64 {
    let stored = stored_ns(object);
    let may_be = CLOCK_IS_SET_NS..=latest_ns(stored);
    let in_key = hour_in_key(object.location.as_ref());
    let hour = in_key.filter(|it| may_be.contains(it)).unwrap_or(stored);
    hour - hour % HOUR_NS
}

/// The earliest [`hour_of`] of the segments with this date in their keys. `None`: the date may be wrong, so it can be any time.
pub fn begin_of(date: &str) -> Option<u64> {
    let hour = hour_in_key(&format!("segments/sensor=/date={date}/hour=00"));
    hour.filter(|it| (CLOCK_IS_SET_NS..=now_ns()).contains(it))
}

fn hour_in_key(key: &str) -> Option<u64> {
    let mut parts = key.split('/').skip(2);
    let date: Date = parts.next()?.strip_prefix("date=")?.parse().ok()?;
    let hour: i8 = parts.next()?.strip_prefix("hour=")?.parse().ok()?;
    let time = date.to_datetime(jiff::civil::Time::new(hour, 0, 0, 0).ok()?);
    let time = time.to_zoned(TimeZone::UTC).ok()?.timestamp();
    u64::try_from(time.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hour_in_a_key_is_read_and_a_malformed_one_is_not() {
        let key = |date: &str, hour: &str| format!("segments/sensor=a/date={date}/hour={hour}/b");
        let hour = hour_in_key(&key("2023-11-14", "22"));
        assert_eq!(hour, Some(1_699_999_200_000_000_000));
        for (date, hour) in [("2023-13-14", "22"), ("2023-11-14", "24"), ("", "-1")] {
            assert_eq!(hour_in_key(&key(date, hour)), None);
        }
    }
}
