//! `verify`: reads stored segments whole, and compares them with their hashes and their directories.
//!
//! `status` reads only directories and the index, so it does not notice a byte that has changed in the middle of a segment.

use crate::{
    archive::{Archive, Faults, OtherSegment, StoreFault},
    ledger, rebuild, segment,
    table::now_ms,
};
use anyhow::{Error, Result, anyhow, ensure};
use forebay_net::units::counted;
use object_store::ObjectMeta;
use std::{
    hash::{BuildHasher, RandomState},
    num::NonZero,
    str::FromStr,
    thread,
    time::Duration,
};
use tokio::task::JoinSet;

/// Which segments are read.
#[derive(Clone, Debug, Default)]
pub struct VerifyConfig {
    /// Only segments that were stored within this time.
    pub since: Option<Duration>,
    /// Only segments of these sensors. Empty: of all.
    pub sensors: Vec<String>,
    /// Of these, only a part, chosen at random.
    pub sample: Option<Sample>,
}

/// A part of the segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sample {
    /// This number.
    Number(u64),
    /// This percentage, and at least one segment.
    Percent(f64),
}

impl FromStr for Sample {
    type Err = String;

    fn from_str(text: &str) -> Result<Sample, String> {
        let found = match text.strip_suffix('%') {
            Some(percent) => {
                let percent = percent.trim_end().parse().ok();
                percent.filter(|it| *it > 0.0 && *it <= 100.0)
            }
            .map(Sample::Percent),
            None => text.parse().ok().filter(|it| *it > 0).map(Sample::Number),
        };
        found.ok_or_else(|| "is no number of segments (100) and no percentage (5%)".into())
    }
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Segments that are what they were when they were stored.
    pub sound: u64,
    /// Their packets.
    pub packets: u64,
    /// Their bytes, as stored.
    pub bytes: u64,
    /// Segments that are damaged.
    pub damaged: u64,
    /// Segments that the store did not return.
    pub unreadable: u64,
    /// Segments that are to be read.
    pub chosen: u64,
    /// Segments that `sample` left out.
    pub left_out: u64,
}

impl Verified {
    /// Segments that were read so far.
    pub fn read(&self) -> u64 {
        self.sound + self.damaged + self.unreadable
    }
}

/// Reads segments, several at a time, and at most one block of each at once. `progress` is called after each one, with its error if it is
/// damaged or cannot be read; if it returns `false`, reading ends.
///
/// # Errors
/// The store failed, there is no such sensor, or there is none at all.
pub async fn verify(
    archive: &Archive,
    config: &VerifyConfig,
    progress: &mut dyn FnMut(&Verified, Option<&Error>) -> bool,
) -> Result<Verified> {
    archive.check_sensors("--sensor", &config.sensors).await?;
    let mut objects = archive.list(segment::FOLDER).await?;
    // A wrong name of the archive must not look like a sound one.
    ensure!(
        !objects.is_empty() || !archive.sensors().await?.is_empty(),
        "{}: no sensor has shipped anything here",
        archive.name()
    );
    let cutoff = config.since.map_or(i64::MIN, |it| {
        now_ms().saturating_sub(it.as_millis().try_into().unwrap_or(i64::MAX))
    });
    objects.retain(|it| {
        let is_wanted = |(sensor, ..): (&str, &str, &str)| {
            config.sensors.is_empty() || config.sensors.iter().any(|it| it == sensor)
        };
        segment::parse_key(it.location.as_ref()).is_some_and(is_wanted)
            && it.last_modified.timestamp_millis() >= cutoff
    });
    let all = objects.len() as u64;
    let wanted = match config.sample {
        None => all,
        Some(Sample::Number(number)) => all.min(number),
        Some(Sample::Percent(percent)) => all.min((all as f64 * percent / 100.0).ceil() as u64),
    };
    let mut done = Verified {
        chosen: wanted,
        left_out: all - wanted,
        ..Verified::default()
    };
    if wanted < all {
        let order = RandomState::new();
        objects.sort_by_cached_key(|it| order.hash_one(&it.location));
        objects.truncate(wanted as usize);
    }
    let at_once = thread::available_parallelism()
        .map_or(1, NonZero::get)
        .max(2);
    let (mut objects, mut running) = (objects.into_iter(), JoinSet::new());
    let mut faults = Faults::default();
    loop {
        while running.len() < at_once
            && let Some(object) = objects.next()
        {
            running.spawn(read(archive.clone(), object));
        }
        let Some(read) = running.join_next().await else {
            return Ok(done);
        };
        let goes_on = match faults.pass(read?)? {
            Ok(None) => true,
            Ok(Some((packets, bytes))) => {
                done.sound += 1;
                done.packets += packets;
                done.bytes += bytes;
                progress(&done, None)
            }
            Err(error) if StoreFault::of(&error).is_some() => {
                done.unreadable += 1;
                progress(&done, Some(&error))
            }
            Err(error) => {
                done.damaged += 1;
                progress(&done, Some(&error))
            }
        };
        if !goes_on {
            return Ok(done);
        }
    }
}

/// Reads a segment: its packets and its bytes; `None`: `expire` has removed it meanwhile.
async fn read(archive: Archive, object: ObjectMeta) -> Result<Option<(u64, u64)>> {
    let key = object.location.as_ref();
    match rebuild::check(&archive, key).await {
        Ok(directory) => Ok(Some((directory.packets, object.size))),
        Err(error) => {
            let is_expired =
                archive.len(key).await?.is_none() && ledger::has_expired(&archive, key).await?;
            match is_expired {
                true => Ok(None),
                false => Err(with_salvage(&archive, key, error).await),
            }
        }
    }
}

/// The error of a damaged segment, with what `find` returns of it nevertheless.
async fn with_salvage(archive: &Archive, key: &str, error: Error) -> Error {
    match archive.directory(key, None).await {
        Err(unread) if StoreFault::of(&unread).is_none() && !unread.is::<OtherSegment>() => {}
        _ => return error,
    }
    match archive.salvage(key, None).await {
        Ok(intact) if intact.packets > 0 => {
            let packets = counted(intact.packets, "packet", "packets");
            let blocks = counted(intact.blocks.len() as u64, "block", "blocks");
            anyhow!("{error:#}. `find` salvages {packets} in {blocks} of it")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testing::folder::Folder;
    use jiff::Timestamp;
    use object_store::path::Path;

    #[test]
    fn a_segment_that_expires_before_it_is_read_is_no_damage() {
        let folder = Folder::new();
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        let hash = "0".repeat(64);
        let key = format!("segments/sensor=a/date=2026-11-21/hour=00/{hash}.pcapng");
        let object = ObjectMeta {
            location: Path::from(key),
            last_modified: std::time::SystemTime::from(Timestamp::UNIX_EPOCH).into(),
            size: 100,
            e_tag: None,
            version: None,
        };
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            assert!(read(archive.clone(), object.clone()).await.is_err());
            let record = format!("sensors/a/expired-{hash}.json");
            archive.put_new(&record, "{}".into()).await.unwrap();
            assert_eq!(read(archive, object).await.unwrap(), None);
        });
    }
}
