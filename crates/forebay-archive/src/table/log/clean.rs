//! Cleaning the log: commits and checkpoints that no reader begins with any longer.

use super::{CHECKPOINT_COMMITS, Log, hint, list::Listed};
use crate::clock;
use anyhow::Result;
use object_store::ObjectMeta;
use std::time::{Duration, SystemTime};

const MIN_AGE: Duration = Duration::from_hours(24);

impl Log {
    /// Writes a checkpoint if commits have piled up, and deletes commits and checkpoints that are older than the checkpoint before the
    /// last one, and older than a day by the clock of the store. Returns how many.
    pub(in crate::table) async fn clean(&mut self) -> Result<u64> {
        if self.version - self.checkpoint.0.min(self.version) >= CHECKPOINT_COMMITS[0] {
            self.write_checkpoint().await?;
        }
        // It was read back before it was named.
        let Some(last) = hint(&self.archive).await? else {
            return Ok(0);
        };
        let listed = Listed::from(&self.archive, 0).await?;
        let before = listed.checkpoints.range(..last).next_back();
        let (true, Some((first, _))) = (listed.checkpoints.contains_key(&last), before) else {
            return Ok(0);
        };
        let checkpoints = listed.checkpoints.range(..first).flat_map(|it| it.1);
        let commits = listed.commits.range(..first).map(|it| it.1);
        // The oldest commits first, so that those that are left have no gap; before them the checkpoints that need them.
        let mut objects = checkpoints.chain(commits).peekable();
        if objects.peek().is_none() {
            return Ok(0);
        }
        let oldest = clock::of_store(&self.archive).await? - MIN_AGE;
        let is_old = |it: &&ObjectMeta| SystemTime::from(it.last_modified) < oldest;
        let mut deleted = 0;
        for object in objects.filter(is_old) {
            self.archive.delete(object.location.as_ref()).await?;
            deleted += 1;
        }
        Ok(deleted)
    }
}
