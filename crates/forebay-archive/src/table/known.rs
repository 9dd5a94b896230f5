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

use super::{
    FOLDER, Table, explain, transaction,
    transactions::{Found, all_ids, id, ids_of},
};
use crate::archive;
use anyhow::{Context, Result};
use deltalake_core::{DeltaTableError, logstore::LogStore};
use object_store::ObjectMeta;

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

/// The version of a commit, by the name of its object; `None`: it is another object of the log.
fn version_of(object: &ObjectMeta) -> Option<u64> {
    let number = object.location.filename()?.strip_suffix(".json")?;
    let is_number = number.len() == 20 && number.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| number.parse().ok())?
}
