//! The application transactions of the log of a table: one for each segment that has rows.

use anyhow::Result;
use delta_kernel::{
    DeltaResult, Engine, Error, Snapshot, actions::LOG_TXN_SCHEMA,
    engine::arrow_data::ArrowEngineData,
};
use deltalake_core::arrow::array::{Array, AsArray, RecordBatch};
use object_store::ObjectMeta;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use url::Url;

/// The beginning of the SHA-256 of the name of an application transaction. The names take several times as much memory.
pub(super) type Id = [u8; 16];

/// The application transactions of the log.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Those of all commits up to this version are known. `None`: nothing was read.
    pub(super) version: Option<u64>,
    pub(super) ids: HashSet<Id>,
    /// The object of the newest commit that was listed, and its version.
    pub(super) newest: Option<(u64, ObjectMeta)>,
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

/// What is kept of a transaction's name.
pub(super) fn id(transaction: &str) -> Id {
    let hash = Sha256::digest(transaction);
    std::array::from_fn(|at| hash[at])
}

/// The transactions of a commit: JSON objects, one a line.
pub(super) fn ids_of(commit: &[u8]) -> Result<Vec<Id>> {
    let actions = serde_json::Deserializer::from_slice(commit).into_iter::<Value>();
    let mut ids = Vec::new();
    for action in actions {
        ids.extend(action?["txn"]["appId"].as_str().map(id));
    }
    Ok(ids)
}

/// Those of the whole log up to a version.
pub(super) fn all_ids(engine: &dyn Engine, root: Url, version: u64) -> DeltaResult<HashSet<Id>> {
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
