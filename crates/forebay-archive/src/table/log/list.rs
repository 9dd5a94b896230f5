//! The objects of the log.

use super::super::name::FOLDER;
use crate::archive::Archive;
use anyhow::{Result, bail};
use object_store::ObjectMeta;
use std::collections::BTreeMap;

/// The object that names the last checkpoint.
pub(super) const HINT: &str = "_last_checkpoint";

/// Versions are positive numbers of 64 bits with a sign. A name with a larger number is no object of the log.
const MAX_VERSION: u64 = i64::MAX as u64;

/// The key of an object of the log.
pub(super) fn key(name: &str) -> String {
    format!("{FOLDER}/_delta_log/{name}")
}

pub(super) fn commit_key(version: u64) -> String {
    key(&format!("{version:020}.json"))
}

pub(super) fn checkpoint_key(version: u64) -> String {
    key(&format!("{version:020}.checkpoint.parquet"))
}

/// Commits, and checkpoints with all of their parts, by version.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub commits: BTreeMap<u64, ObjectMeta>,
    pub checkpoints: BTreeMap<u64, Vec<ObjectMeta>>,
}

impl Listed {
    /// Lists the log from a version on.
    pub(super) async fn from(archive: &Archive, version: u64) -> Result<Listed> {
        let folder = format!("{FOLDER}/_delta_log");
        let objects = match version {
            0 => archive.list(&folder).await?,
            // This sorts directly before the objects of this version.
            _ => {
                archive
                    .list_after(&folder, &key(&format!("{version:020}")))
                    .await?
            }
        };
        let mut listed = Listed::default();
        let mut parts: BTreeMap<(u64, u64), BTreeMap<u64, ObjectMeta>> = BTreeMap::new();
        for object in objects {
            match kind_of(object.location.filename().unwrap_or_default()) {
                Some((version, Kind::Commit)) if object.location == commit_key(version).into() => {
                    listed.commits.insert(version, object);
                }
                Some((version, Kind::Checkpoint { part, of })) => {
                    parts.entry((version, of)).or_default().insert(part, object);
                }
                Some((_, Kind::Other)) => bail!(
                    "{}: {} is a checkpoint of a kind that this program does not know. Install a newer forebay-archive",
                    archive.name(),
                    object.location
                ),
                _ => {}
            }
        }
        for ((version, of), parts) in parts {
            let is_whole = parts.len() as u64 == of && parts.keys().copied().eq(1..=of);
            if is_whole {
                let parts = parts.into_values().collect();
                listed.checkpoints.entry(version).or_insert(parts);
            }
        }
        Ok(listed)
    }
}

enum Kind {
    Commit,
    Checkpoint {
        part: u64,
        of: u64,
    },
    /// A checkpoint of a later version of the protocol.
    Other,
}

fn kind_of(name: &str) -> Option<(u64, Kind)> {
    let number = |text: &str, len: usize| {
        let is_number = text.len() == len && text.bytes().all(|it| it.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().ok())?
    };
    let (version, rest) = name.split_once('.')?;
    let version = number(version, 20).filter(|it| *it <= MAX_VERSION)?;
    let kind = match &*rest.split('.').collect::<Vec<_>>() {
        ["json"] => Kind::Commit,
        ["checkpoint", "parquet"] => Kind::Checkpoint { part: 1, of: 1 },
        ["checkpoint", part, of, "parquet"] => Kind::Checkpoint {
            part: number(part, 10)?,
            of: number(of, 10)?,
        },
        ["checkpoint", _, "parquet" | "json"] => Kind::Other,
        _ => return None,
    };
    Some((version, kind))
}
