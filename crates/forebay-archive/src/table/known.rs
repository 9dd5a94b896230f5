//! Which segments have rows, without reading the log again for each question.
//!
//! ```text
//!  log   … 19.json  20.checkpoint.parquet  20.json  21.json │ 22.json  23.json
//!                                                   ▲       └ read once, after they were found
//!                                                   └ read up to here; its object in the list shows whether this is still the same table
//! ```
//! Log entries never change. So the application transactions of the whole log are read once, and after that only those of newer
//! commits. If the list does not have the object of the last entry as it was, the table was replaced or its log was cleaned up: then
//! it is opened anew.

use super::{FOLDER, Table, explain, transaction};
use crate::archive;
use anyhow::{Context, Result};
use delta_kernel::{
    DeltaResult, Engine, Error, Snapshot, actions::LOG_TXN_SCHEMA,
    engine::arrow_data::ArrowEngineData,
};
use deltalake_core::{
    DeltaTableError,
    arrow::array::{Array, AsArray, RecordBatch},
    logstore::LogStore,
};
use object_store::ObjectMeta;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use url::Url;

/// The beginning of the SHA-256 of the name of an application transaction. The names take several times as much memory.
type Id = [u8; 16];

/// The application transactions of the log.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Those of all commits up to this version are known. `None`: nothing was read.
    version: Option<u64>,
    ids: HashSet<Id>,
    /// The object of the newest commit that was listed, and its version.
    newest: Option<(u64, ObjectMeta)>,
}

impl Known {
    /// Adds the transactions of the commit of this version, which this program made.
    pub(super) fn committed(&mut self, version: u64, ids: impl Iterator<Item = Id>) {
        if self.version == version.checked_sub(1) {
            self.ids.extend(ids);
            self.version = Some(version);
        }
    }
}

/// What the log has.
pub(super) enum Found {
    /// Nothing new.
    Same,
    /// Newer commits.
    Newer,
    /// The log of another table, or one whose last entry is gone.
    Other,
}

impl Table {
    /// Lists the log from the last entry that was listed before.
    pub(super) async fn look(&mut self) -> Result<Found> {
        let before = self.known.newest.clone();
        let first = before.as_ref().map_or(self.version(), |it| it.0);
        let log = format!("{FOLDER}/_delta_log");
        // This sorts directly before the objects of this version.
        let after = format!("{log}/{first:020}");
        let listed = self.archive.list_after(&log, &after).await?;
        let mut commits: Vec<(u64, ObjectMeta)> = listed
            .into_iter()
            .filter_map(|it| Some((version_of(&it)?, it)))
            .collect();
        commits.sort_by_key(|it| it.0);
        let is_there = match (&before, commits.first()) {
            (Some(before), Some(now)) => before == now,
            (None, Some(now)) => now.0 == first,
            (_, None) => false,
        };
        let newest = commits
            .pop()
            .filter(|it| is_there && it.0 >= self.version());
        let found = match &newest {
            None => Found::Other,
            Some((version, _)) if *version == self.version() => Found::Same,
            Some(_) => Found::Newer,
        };
        self.known.newest = newest;
        Ok(found)
    }

    /// Whether rows of this segment were committed, up to the version that was read.
    pub(super) async fn is_committed(&mut self, segment: &str) -> Result<bool> {
        self.read_transactions().await?;
        Ok(self.known.ids.contains(&id(&transaction(segment))))
    }

    /// Reads the transactions of commits that are not known yet.
    async fn read_transactions(&mut self) -> Result<()> {
        let version = self.version();
        let Some(known) = self.known.version.filter(|it| *it <= version) else {
            return self.read_all_transactions().await;
        };
        let log_store = self.table.log_store();
        let read = async |version| {
            let commit = log_store.read_commit_entry(version).await;
            commit.map_err(|error| explain(&self.archive, error, "reading its index"))
        };
        let commits = archive::at_once((known + 1..=version).map(read)).await?;
        for commit in commits {
            // Commits that a checkpoint replaces are removed after a month.
            let Some(commit) = commit else {
                return self.read_all_transactions().await;
            };
            let ids = ids_of(&commit).with_context(|| {
                format!("{}: the log of its index is damaged", self.archive.name())
            })?;
            self.known.ids.extend(ids);
        }
        self.known.version = Some(version);
        Ok(())
    }

    /// Reads the transactions of the whole log, with its last checkpoint.
    async fn read_all_transactions(&mut self) -> Result<()> {
        let (log_store, version) = (self.table.log_store(), self.version());
        let (engine, root) = (log_store.engine(None), log_store.root_url().clone());
        let read = move || all_ids(&*engine, root, version);
        let ids = tokio::task::spawn_blocking(read).await?;
        self.known.ids = ids.map_err(|error| {
            let error = DeltaTableError::KernelError(error);
            explain(&self.archive, error, "reading its index")
        })?;
        self.known.version = Some(version);
        Ok(())
    }
}

pub(super) fn id(transaction: &str) -> Id {
    let hash = Sha256::digest(transaction);
    std::array::from_fn(|at| hash[at])
}

/// The version of a commit, by the name of its object; `None`: it is another object of the log.
fn version_of(object: &ObjectMeta) -> Option<u64> {
    let number = object.location.filename()?.strip_suffix(".json")?;
    let is_number = number.len() == 20 && number.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| number.parse().ok())?
}

/// The transactions of a commit: JSON objects, one a line.
fn ids_of(commit: &[u8]) -> Result<Vec<Id>> {
    let actions = serde_json::Deserializer::from_slice(commit).into_iter::<Value>();
    let mut ids = Vec::new();
    for action in actions {
        ids.extend(action?["txn"]["appId"].as_str().map(id));
    }
    Ok(ids)
}

fn all_ids(engine: &dyn Engine, root: Url, version: u64) -> DeltaResult<HashSet<Id>> {
    let snapshot = Snapshot::builder_for(root)
        .at_version(version)
        .build(engine)?;
    let log = snapshot.log_segment();
    let mut ids = HashSet::new();
    for batch in log.read_actions(engine, LOG_TXN_SCHEMA.clone())? {
        let batch: RecordBatch = ArrowEngineData::try_from_engine_data(batch?.actions)?.into();
        let actions = batch
            .column_by_name("txn")
            .and_then(|it| it.as_struct_opt());
        let names = actions.and_then(|it| it.column_by_name("appId")?.as_string_opt::<i32>());
        let (actions, names) = actions
            .zip(names)
            .ok_or_else(|| Error::generic("the log has transactions without names"))?;
        let is_transaction = |row: &usize| actions.is_valid(*row) && names.is_valid(*row);
        let rows = (0..names.len()).filter(is_transaction);
        ids.extend(rows.map(|row| id(names.value(row))));
    }
    Ok(ids)
}
