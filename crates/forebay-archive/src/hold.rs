//! Holds: packets that no expiry removes.
//!
//! A hold is the object `holds/CASE.json` with an expression, a time range and sensors. `expire` reads all holds, and removes nothing if it
//! cannot understand one of them.

use crate::{
    archive::{Archive, BadRequest},
    find::{Wanted, is_known, matching_segments},
    segment,
    table::Catalogue,
};
use anyhow::{Context, Result, anyhow, bail, ensure};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The folder of all holds in an archive.
pub const FOLDER: &str = "holds";
/// Larger objects are not read.
const MAX_BYTES: u64 = 64 << 10;
const SCHEMA: u32 = 1;

/// A hold, as its object has it. A member that this version does not know may change its meaning, so it is an error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    schema: u32,
    /// Its name.
    pub case: String,
    /// Empty: all packets.
    pub expression: String,
    /// Packets from this time on, in nanoseconds since 1970. `None`: all earlier ones, too.
    pub from_ns: Option<i64>,
    /// Packets before this time.
    pub to_ns: Option<i64>,
    /// Empty: all sensors.
    pub sensors: Vec<String>,
    /// When it was placed.
    pub placed: String,
}

impl Hold {
    /// A hold that is not placed yet. The times are those of `find`.
    ///
    /// # Errors
    /// The name, the expression, a time or the name of a sensor is malformed.
    pub fn new(
        case: &str,
        expression: &str,
        times: [Option<&str>; 2],
        sensors: &[String],
    ) -> Result<Hold> {
        let bad = |what: String| BadRequest(what);
        ensure!(
            segment::is_sensor_name(case),
            bad(format!(
                "{case}: cannot be the name of a case. It has up to 64 letters, digits, dots, hyphens and underscores"
            ))
        );
        let wanted = Wanted::parse(expression, times, sensors);
        let wanted = wanted.map_err(|error| bad(format!("{error:#}")))?;
        Ok(Hold {
            schema: SCHEMA,
            case: case.to_owned(),
            expression: expression.to_owned(),
            from_ns: Some(wanted.from).filter(|it| *it != i64::MIN),
            to_ns: Some(wanted.to).filter(|it| *it != i64::MAX),
            sensors: wanted.sensors,
            placed: format!("{:.0}", Timestamp::now()),
        })
    }

    /// Whether the index knows everything that the expression asks for.
    ///
    /// # Errors
    /// The expression is malformed.
    pub fn is_known(&self) -> Result<bool> {
        Ok(is_known(&self.wanted()?.tree))
    }

    /// Its packets.
    pub(crate) fn wanted(&self) -> Result<Wanted> {
        let (from, to) = (
            self.from_ns.unwrap_or(i64::MIN),
            self.to_ns.unwrap_or(i64::MAX),
        );
        Wanted::of(&self.expression, from, to, &self.sensors)
    }

    fn read(key: &str, bytes: &[u8]) -> Result<Hold> {
        let hold: Hold = serde_json::from_slice(bytes)?;
        ensure!(hold.schema == SCHEMA, "it is of a newer version");
        ensure!(
            segment::is_sensor_name(&hold.case) && self::key(&hold.case) == key,
            "it has the name of another case"
        );
        hold.wanted()?;
        Ok(hold)
    }
}

fn key(case: &str) -> String {
    format!("{FOLDER}/{case}.json")
}

/// Places a hold.
///
/// # Errors
/// There is one with this name, or the store failed.
pub async fn place(archive: &Archive, hold: &Hold) -> Result<()> {
    let text = serde_json::to_vec_pretty(hold).context("writing a hold")?;
    ensure!(
        text.len() as u64 <= MAX_BYTES,
        BadRequest("the expression is too long".into())
    );
    if !archive.put_new(&key(&hold.case), text.into()).await? {
        bail!(
            "{}: there is a hold with the name {}. Choose another name, or release it first",
            archive.name(),
            hold.case
        );
    }
    Ok(())
}

/// The number of segments that the hold holds now, as far as the index knows it.
///
/// # Errors
/// The store failed, or the index is damaged.
pub async fn segments(archive: &Archive, hold: &Hold) -> Result<usize> {
    let Some(catalogue) = Catalogue::open(archive).await? else {
        return Ok(0);
    };
    let matching = matching_segments(archive, &catalogue, hold.wanted()?).await?;
    Ok(matching.len())
}

/// Releases the hold with this name, also one that cannot be read, or another object in the folder of the holds.
///
/// # Errors
/// There is none, or the store failed.
pub async fn release(archive: &Archive, case: &str) -> Result<()> {
    let keys = [key(case), format!("{FOLDER}/{case}"), case.to_owned()];
    let objects = archive.list(FOLDER).await?;
    let is_there = |key: &&String| objects.iter().any(|it| it.location.as_ref() == *key);
    let key = keys.iter().find(is_there).with_context(|| {
        let name = archive.name();
        format!("{name}: there is no hold with the name {case}")
    })?;
    archive.delete(key).await
}

/// All holds, in the order of their names; an error for each object in their folder that is none.
///
/// # Errors
/// The store failed.
pub async fn list(archive: &Archive) -> Result<Vec<Result<Hold>>> {
    let mut objects = archive.list(FOLDER).await?;
    objects.sort_by(|a, b| a.location.cmp(&b.location));
    let mut holds = Vec::new();
    for object in objects {
        let key = object.location.as_ref();
        let damaged = || format!("{}: {key} is no hold that can be read", archive.name());
        if object.size > MAX_BYTES {
            holds.push(Err(anyhow!("it is too large")).with_context(damaged));
            continue;
        }
        // It may have been released meanwhile.
        if let Some(bytes) = archive.get(key).await? {
            holds.push(Hold::read(key, &bytes).with_context(damaged));
        }
    }
    Ok(holds)
}

/// All holds. If one of them cannot be read, it is not known what it holds.
///
/// # Errors
/// The store failed, or an object in the folder of the holds is none.
pub async fn all(archive: &Archive) -> Result<Vec<Hold>> {
    let holds: Result<Vec<Hold>> = list(archive).await?.into_iter().collect();
    holds.context("nothing expires while a hold cannot be read. Correct it, or release it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_read_back_and_what_could_mean_something_else_is_refused() {
        let sensors = ["hall".to_owned()];
        let times = [Some("2026-11-01T00:00:00Z"), None];
        let hold = Hold::new("case-7", "host 10.0.0.1", times, &sensors).unwrap();
        let text = serde_json::to_string(&hold).unwrap();
        let key = "holds/case-7.json";
        assert_eq!(Hold::read(key, text.as_bytes()).unwrap(), hold);
        for (from, to) in [
            ("\"schema\":1", "\"schema\":2"),
            ("\"schema\":1", "\"schema\":1,\"until\":5"),
            ("case-7", "case-8"),
            ("host 10.0.0.1", "host ("),
            ("[\"hall\"]", "[\"../hall\"]"),
            ("\"sensors\":", "\"sensor\":"),
        ] {
            assert!(text.contains(from), "{text}");
            let other = text.replace(from, to);
            assert!(Hold::read(key, other.as_bytes()).is_err(), "{other}");
        }
        for case in ["", ".a", "a/b", "a b"] {
            assert!(Hold::new(case, "", [None; 2], &[]).is_err(), "{case}");
        }
    }
}
