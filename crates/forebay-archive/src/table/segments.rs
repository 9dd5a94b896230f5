//! The segments with rows in a file.

use crate::{find, index, schema};
use anyhow::Result;
use futures::TryStreamExt;
use std::{collections::HashSet, pin::pin};

/// Their keys. Reads one column, which is a small part of a file.
pub(super) async fn segments_in(file: find::IndexFile) -> Result<HashSet<String>> {
    let mut batches = pin!(index::columns(file, &[schema::SEGMENT]).await?);
    let mut found = HashSet::new();
    while let Some(batch) = batches.try_next().await? {
        for key in index::texts(&batch, schema::SEGMENT)?.iter().flatten() {
            if !found.contains(key) {
                found.insert(key.to_owned());
            }
        }
    }
    Ok(found)
}
