//! The log of a Delta table: reading it, and committing to it.
//!
//! ```text
//!  _last_checkpoint ─▶ 20.checkpoint.parquet ─▶ 21.json ─▶ 22.json ─▶ State
//!  commit: 23.json is created only if it does not exist, and State is brought forward
//! ```
//! - Whatever this program does not know, does not understand, or does not find, is an error that names the object.
//! - A commit costs the same whatever was committed before it. A checkpoint is written when the commits since the last one are larger
//!   than that, so all checkpoints together are not much larger than all commits.
//! - The state holds the files compressed, and writing a checkpoint holds one batch of them besides its bytes.
//! - A checkpoint is read back before `_last_checkpoint` names it. `_last_checkpoint` is a hint: if it is wrong, the list decides.

pub(super) mod action;
#[cfg(test)]
mod attack_tests;
mod checkpoint;
mod clean;
mod list;
pub(super) mod packed;
pub(super) mod state;
#[cfg(test)]
mod tests;

use super::name::{now_ms, unique_id};
use crate::archive::{self, Archive, StoreFault};
use action::Action;
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use list::{HINT, Listed, checkpoint_key, commit_key, key};
use object_store::ObjectMeta;
use serde_json::{Value, json};
use state::{Needed, State};
use std::sync::Arc;

/// Commits after which a checkpoint may be written, and after which it is written.
const CHECKPOINT_COMMITS: [u64; 2] = [20, 500];
/// A commit that took longer since the log was read is checked. Commits are cleaned after a day.
const SLOW_MS: u64 = 3_600_000;
/// Times that a log is read before it is damaged: another program may clean it meanwhile.
const READ_TRIES: u32 = 2;

/// The log in the state of its last reading.
#[derive(Clone, Debug)]
pub(super) struct Log {
    pub(super) archive: Archive,
    pub(super) state: Arc<State>,
    pub(super) version: u64,
    /// The newest commit that was listed. If its object is another one, the table was replaced.
    newest: Option<(u64, ObjectMeta)>,
    /// The version and the bytes of the last checkpoint.
    checkpoint: (u64, u64),
    /// The bytes of the commits since.
    commit_bytes: u64,
    /// The version at which a checkpoint was tried last.
    tried: u64,
    /// The time at which the last reading began.
    read_ms: i64,
    /// Times that it was read from the beginning again, for example because another table has taken its place.
    pub(super) times_anew: u64,
}

impl Log {
    /// Reads the log; `None`: there is no table yet.
    pub(super) async fn open(archive: &Archive) -> Result<Option<Log>> {
        Log::open_for(archive, &Needed::default()).await
    }

    /// As [`open`](Log::open), without files that are not needed. It is for reading only.
    pub(super) async fn open_for(archive: &Archive, needed: &Needed) -> Result<Option<Log>> {
        let mut tries = 1;
        loop {
            match Log::read(archive, needed).await {
                Err(error) if tries < READ_TRIES && StoreFault::of(&error).is_none() => {
                    tries += 1;
                }
                read => return read,
            }
        }
    }

    async fn read(archive: &Archive, needed: &Needed) -> Result<Option<Log>> {
        let (read_ms, hint) = (now_ms(), hint(archive).await?);
        let mut listed = Listed::from(archive, hint.unwrap_or(0)).await?;
        if hint.is_some() && listed.checkpoints.is_empty() {
            listed = Listed::from(archive, 0).await?;
        }
        let mut state = State::of(needed.clone());
        let (mut next, mut checkpoint) = (0, (0, 0));
        if let Some((version, parts)) = listed.checkpoints.last_key_value() {
            for part in parts {
                let name = part.location.as_ref();
                let bytes = object(archive, name).await?;
                let read = checkpoint::read(bytes, state).await;
                state = read.with_context(|| damaged(archive, name))?;
            }
            checkpoint = (*version, parts.iter().map(|it| it.size).sum());
            next = version + 1;
        } else if listed.commits.is_empty() {
            return Ok(None);
        }
        let Some(end) = listed.commits.last_key_value().map(|it| it.0 + 1) else {
            bail!("{}: the log of its index has no commits", archive.name());
        };
        let mut log = Log {
            archive: archive.clone(),
            state: Arc::new(state),
            version: next.saturating_sub(1),
            newest: None,
            checkpoint,
            commit_bytes: 0,
            tried: checkpoint.0,
            read_ms,
            times_anew: 0,
        };
        log.read_commits(next..end.max(next), &listed).await?;
        log.newest = listed.commits.pop_last().filter(|it| it.0 == log.version);
        let checked = log.state.check();
        checked.with_context(|| format!("{}: the log of its index is damaged", archive.name()))?;
        Ok(Some(log))
    }

    /// Reads these commits, several at a time.
    async fn read_commits(
        &mut self,
        versions: std::ops::Range<u64>,
        listed: &Listed,
    ) -> Result<()> {
        let archive = self.archive.clone();
        if let Some(gap) = versions.clone().find(|it| !listed.commits.contains_key(it)) {
            let gap = commit_key(gap);
            bail!(
                "{}: {gap} is missing: the log of its index is damaged",
                archive.name()
            );
        }
        let read = versions.map(async |version| {
            let name = commit_key(version);
            Ok((version, object(&archive, &name).await?))
        });
        for (version, bytes) in archive::at_once(read).await? {
            let applied = Arc::make_mut(&mut self.state).apply_json(&bytes);
            applied.with_context(|| damaged(&archive, &commit_key(version)))?;
            self.version = version;
            self.commit_bytes += bytes.len() as u64;
        }
        Ok(())
    }

    /// Creates the table, unless another program has.
    pub(super) async fn create(archive: &Archive) -> Result<()> {
        let actions = state::created(unique_id());
        let commit = lines("CREATE TABLE", &actions)?;
        archive.put_new(&commit_key(0), commit).await.map(|_| ())
    }

    /// Reads what was committed since. If the table was replaced by another one, reads that.
    pub(super) async fn refresh(&mut self) -> Result<()> {
        let read_ms = now_ms();
        // In a folder, a list takes longer the more objects there are. The next commit is asked for first: the oldest commits are deleted
        // first, so if the older one is there afterwards, the next one was not deleted either.
        let next = commit_key(self.version + 1);
        if self.newest.is_some()
            && self.archive.head(&next).await?.is_none()
            && self.has_newest().await?
        {
            self.read_ms = read_ms;
            return Ok(());
        }
        let first = self.newest.as_ref().map_or(self.version, |it| it.0);
        let listed = Listed::from(&self.archive, first).await?;
        let is_same = match &self.newest {
            Some((_, before)) => listed.commits.get(&first) == Some(before),
            None => listed.commits.contains_key(&first),
        };
        let newest = listed.commits.last_key_value();
        let end = newest.map_or(0, |it| it.0 + 1);
        let versions = self.version + 1..end;
        let has_all = versions.clone().all(|it| listed.commits.contains_key(&it));
        if !is_same || end <= self.version || !has_all {
            return self.read_anew().await;
        }
        if let Err(error) = self.read_commits(versions, &listed).await {
            return match StoreFault::of(&error) {
                Some(_) => Err(error), // nothing was applied
                None => self.read_anew().await,
            };
        }
        self.newest = newest.map(|(version, object)| (*version, object.clone()));
        self.read_ms = read_ms;
        if let Some((version, parts)) = listed.checkpoints.last_key_value()
            && *version > self.checkpoint.0
        {
            let later = listed.commits.range(version + 1..);
            self.commit_bytes = later.map(|it| it.1.size).sum();
            self.checkpoint = (*version, parts.iter().map(|it| it.size).sum());
        }
        Ok(())
    }

    /// Whether the newest commit that was listed is still there.
    async fn has_newest(&self) -> Result<bool> {
        let Some((version, object)) = &self.newest else {
            return Ok(false);
        };
        let found = self.archive.head(&commit_key(*version)).await?;
        Ok(found.as_ref() == Some(object))
    }

    async fn read_anew(&mut self) -> Result<()> {
        let opened = Log::open(&self.archive).await?;
        let mut log =
            opened.with_context(|| format!("{}: its index is gone", self.archive.name()))?;
        log.times_anew = self.times_anew + 1;
        *self = log;
        Ok(())
    }

    /// Commits to the version after the one that was read. `false`: another program has created that version.
    pub(super) async fn commit(&mut self, operation: &str, actions: Vec<Action>) -> Result<bool> {
        ensure!(
            self.state.needed.0.is_none(),
            "this log is for reading only"
        );
        let removes = actions.iter().any(|it| matches!(it, Action::Remove(_)));
        ensure!(
            !removes || !self.state.is_append_only(),
            "{}: nothing may be removed from its index: it has the property delta.appendOnly",
            self.archive.name()
        );
        let commit = lines(operation, &actions)?;
        let (version, bytes) = (self.version + 1, commit.len() as u64);
        if !self.archive.put_new(&commit_key(version), commit).await? {
            return Ok(false);
        }
        // This program may have been suspended. If the version was committed and cleaned meanwhile, no reader sees this commit.
        let was_slow = now_ms().abs_diff(self.read_ms) > SLOW_MS;
        if was_slow && !self.has_newest().await? {
            self.read_anew().await?;
            return Ok(self.state.has(&actions));
        }
        let state = Arc::make_mut(&mut self.state);
        for action in actions {
            state.apply(action)?;
        }
        self.version = version;
        self.commit_bytes += bytes;
        let [may, must] = CHECKPOINT_COMMITS;
        let commits = version - self.checkpoint.0.max(self.tried).min(version);
        let is_due = commits >= may && self.commit_bytes > self.checkpoint.1;
        if is_due || commits >= must {
            // The commit is done. If this fails, a later commit tries again.
            let _ = self.write_checkpoint().await;
        }
        Ok(true)
    }

    /// Writes a checkpoint of this version, reads it back, and only then lets readers begin with it.
    pub(super) async fn write_checkpoint(&mut self) -> Result<()> {
        self.tried = self.version;
        // By the clock of the store, if that of this machine is ahead.
        let newest = self.archive.head(&commit_key(self.version)).await?;
        let newest_ms = newest.map_or(0, |it| it.last_modified.timestamp_millis());
        Arc::make_mut(&mut self.state).forget_old(newest_ms.min(now_ms()));
        let (bytes, actions) = checkpoint::write(self.state.clone()).await?;
        let (name, size) = (checkpoint_key(self.version), bytes.len() as u64);
        if !self.archive.put_new(&name, bytes).await? {
            return Ok(()); // another program was faster
        }
        let stored = object(&self.archive, &name).await?;
        let compared = checkpoint::compare(stored, self.state.clone()).await;
        if compared.is_err() {
            self.archive.delete(&name).await?;
            bail!(
                "{}: {name} was read back with other actions than were written",
                self.archive.name()
            );
        }
        let files = self.state.files.len();
        let hint = json!({
            "version": self.version, "size": actions, "sizeInBytes": size, "numOfAddFiles": files,
        });
        self.archive
            .put(&key(HINT), hint.to_string().into())
            .await?;
        (self.checkpoint, self.commit_bytes) = ((self.version, size), 0);
        Ok(())
    }
}

/// The version of the last checkpoint, as far as the log says.
async fn hint(archive: &Archive) -> Result<Option<u64>> {
    let hint = archive.get(&key(HINT)).await?.unwrap_or_default();
    let hint: Option<Value> = serde_json::from_slice(&hint).ok();
    Ok(hint.and_then(|it| it["version"].as_u64()))
}

/// The bytes of an object of the log.
async fn object(archive: &Archive, name: &str) -> Result<Bytes> {
    let bytes = archive.get(name).await?;
    bytes.with_context(|| format!("{}: {name} is missing", archive.name()))
}

fn damaged(archive: &Archive, name: &str) -> String {
    format!("{}: reading {name} of the log of its index", archive.name())
}

/// The bytes of a commit.
fn lines(operation: &str, actions: &[Action]) -> Result<Bytes> {
    let info = json!({
        "timestamp": now_ms(),
        "operation": operation,
        "operationParameters": {},
        "engineInfo": concat!("forebay-archive/", env!("CARGO_PKG_VERSION")),
    });
    let mut bytes = Vec::new();
    for action in std::iter::once(&Action::CommitInfo(info)).chain(actions) {
        serde_json::to_writer(&mut bytes, action)?;
        bytes.push(b'\n');
    }
    Ok(bytes.into())
}
