//! The clocks of sensors, compared with that of the store.
//!
//! The store notes when it creates a segment. `ship` knows by its own clock when it sent the segment, so the difference is the error of one
//! of them. If it is large, `ship` leaves it in `sensors/S/clock.json`, from where `status` reads it.
//!
//! Programs that delete objects by their age create one to ask the store for its time (`of_store`).

use crate::archive::{Archive, at_once};
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    ops::Range,
    time::{Duration, SystemTime},
};

/// A clock is wrong if it differs from that of the store by more seconds.
const MAX_ERROR_S: u64 = 60;
/// A longer record is none.
const MAX_BYTES: u64 = 4 << 10;

/// Whether a clock is wrong that is this number of seconds ahead.
pub fn is_wrong(ahead_s: i64) -> bool {
    ahead_s.unsigned_abs() > MAX_ERROR_S
}

/// How many seconds the clock of a sensor is ahead of that of the store, which `created` a segment; negative: it is slow. By the clock of the
/// sensor, the segment was `sent` then. No packet in it can be younger.
pub(crate) fn ahead_s(sent: Range<SystemTime>, created: SystemTime, last_ns: u64) -> i64 {
    let seconds = |later: SystemTime, earlier| {
        let difference = later.duration_since(earlier).unwrap_or_default();
        difference.as_secs() as i64
    };
    let last = SystemTime::UNIX_EPOCH + Duration::from_nanos(last_ns);
    let behind = seconds(created, sent.end);
    match seconds(sent.start.max(last), created) {
        0 => -behind,
        ahead => ahead,
    }
}

/// The object whose time is that of the store. Readers of Delta tables ignore it, and each program replaces it.
const NOW: &str = "index/_clock.json";

/// The time by the clock of the store. Replaces an object. If the store is full, it is the time at which that was done last: what is deleted
/// is older.
pub(crate) async fn of_store(archive: &Archive) -> Result<SystemTime> {
    let put = archive.put(NOW, r#"{"schema":1}"#.into()).await;
    if let Some(created) = archive.head(NOW).await? {
        return Ok(created.last_modified.into());
    }
    put?;
    bail!("{}: {NOW} was created and is not there", archive.name())
}

fn key(sensor: &str) -> String {
    format!("sensors/{sensor}/clock.json")
}

/// What the archive knows about the clock of a sensor.
async fn recorded(archive: &Archive, sensor: &str) -> Result<i64> {
    let record = archive.get_short(&key(sensor), MAX_BYTES).await?;
    let record = record.unwrap_or_default();
    let record: Value = serde_json::from_slice(&record).unwrap_or_default();
    Ok(record["ahead_s"].as_i64().unwrap_or(0))
}

/// Records that the clock of a sensor is wrong, or is right again.
pub(crate) async fn record(archive: &Archive, sensor: &str, ahead_s: i64) -> Result<()> {
    if !is_wrong(ahead_s) && !is_wrong(recorded(archive, sensor).await?) {
        return Ok(());
    }
    let (key, text) = (key(sensor), json!({"schema": 1, "ahead_s": ahead_s}));
    archive.put(&key, text.to_string().into()).await
}

/// The sensors whose clocks were wrong when they shipped last, and by how many seconds they were ahead.
///
/// # Errors
/// The store failed.
pub async fn wrong<'a>(
    archive: &Archive,
    sensors: impl Iterator<Item = &'a String>,
) -> Result<BTreeMap<&'a str, i64>> {
    let read = sensors.map(async |it| Ok((&**it, recorded(archive, it).await?)));
    let mut clocks: BTreeMap<_, _> = at_once(read).await?.into_iter().collect();
    clocks.retain(|_, ahead_s| is_wrong(*ahead_s));
    Ok(clocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testing::folder::Folder;

    /// A sensor may write anything there.
    #[test]
    fn a_record_that_is_malformed_or_too_long_is_none() {
        let folder = Folder::new();
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        let padded = |len: usize| format!("{}{{\"ahead_s\":100}}", " ".repeat(len));
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            for (record, ahead_s) in [
                (padded(0), 100),
                (padded(5000), 0),
                ("{".into(), 0),
                ("{\"ahead_s\":\"100\"}".into(), 0),
                ("{\"ahead_s\":-9223372036854775808}".into(), i64::MIN),
            ] {
                archive.put(&key("a"), record.into()).await.unwrap();
                assert_eq!(recorded(&archive, "a").await.unwrap(), ahead_s);
            }
        });
        assert!(is_wrong(i64::MIN));
    }

    #[test]
    fn a_clock_is_compared_with_the_time_of_the_segment_and_of_its_packets() {
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let sent = || at(1000)..at(1500);
        let second = 1_000_000_000;
        // The upload took 500 s.
        assert_eq!(
            [1000, 1200, 1500].map(|it| ahead_s(sent(), at(it), 0)),
            [0; 3]
        );
        assert_eq!(ahead_s(sent(), at(400), 0), 600);
        assert_eq!(ahead_s(sent(), at(8700), 0), -7200);
        assert_eq!(ahead_s(sent(), at(1100), 3100 * second), 2000);
        assert!(is_wrong(-61) && is_wrong(61) && !is_wrong(60));
        assert_eq!(ahead_s(sent(), at(1100), u64::MAX) / 1_000_000_000, 18);
    }
}
