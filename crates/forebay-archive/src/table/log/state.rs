//! What the actions of the log add up to.

use super::{
    action::{Action, Add, MetaData, Protocol, Remove, Txn, actions_in, decoded},
    packed::Packed,
};
use crate::{
    schema::{self, Kind},
    table::name::now_ms,
};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// Removals and transactions are kept for this long: seven days.
pub(in crate::table) const KEPT_MS: i64 = 7 * DAY_MS;
pub(in crate::table) const DAY_MS: i64 = 86_400_000;
/// A transaction. Its version is [`State::kept_from`].
const KEPT_FROM: &str = "forebay.kept_from";
/// The versions of the protocol that this program knows. Later ones have features that may change the meaning of a file.
const PROTOCOL: Protocol = Protocol {
    min_reader_version: 1,
    min_writer_version: 2,
};

/// Which files a search needs. `None`: all.
#[derive(Clone, Default)]
pub(in crate::table) struct Needed(pub Option<Arc<IsNeeded>>);

type IsNeeded = dyn Fn(&Add) -> bool + Send + Sync;

impl fmt::Debug for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "some" } else { "all" })
    }
}

impl PartialEq for Needed {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_some() == other.0.is_some()
    }
}

/// The table at one version.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::table) struct State {
    protocol: Option<Protocol>,
    metadata: Option<MetaData>,
    /// The files by path, decoded. It begins with their date.
    pub files: BTreeMap<String, Packed<Add>>,
    /// Files that are not needed. No checkpoint may be made of a state with such files.
    pub left_out: BTreeSet<String>,
    pub needed: Needed,
    /// With the time of the removal.
    pub removed: BTreeMap<String, (Option<i64>, Packed<Remove>)>,
    /// By their identifiers.
    pub transactions: BTreeMap<String, Transaction>,
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::table) struct Transaction {
    pub version: i64,
    pub last_updated: Option<i64>,
}

impl State {
    pub(super) fn of(needed: Needed) -> State {
        State {
            needed,
            ..State::default()
        }
    }

    /// Applies an action, which is newer than all before it.
    pub(super) fn apply(&mut self, action: Action) -> Result<()> {
        match action.normal() {
            Action::CommitInfo(_) => {}
            Action::Protocol(it) => {
                ensure!(
                    it.min_reader_version <= PROTOCOL.min_reader_version
                        && it.min_writer_version <= PROTOCOL.min_writer_version,
                    "The table is of a newer version than this program knows: it needs reader version {} and writer version {}. \
                     Install a newer forebay-archive",
                    it.min_reader_version,
                    it.min_writer_version
                );
                self.protocol = Some(it);
            }
            Action::MetaData(it) => {
                check(&it)?;
                self.metadata = Some(it);
            }
            Action::Add(add) => {
                add.check()?;
                let path = decoded(&add.path).into_owned();
                self.removed.remove(&path);
                match &self.needed.0 {
                    Some(is_needed) if !is_needed(&add) => {
                        self.files.remove(&path);
                        self.left_out.insert(path);
                    }
                    _ => {
                        self.left_out.remove(&path);
                        self.files.insert(path, Packed::of(add)?);
                    }
                }
            }
            Action::Remove(mut it) => {
                let path = decoded(&it.path).into_owned();
                self.files.remove(&path);
                self.left_out.remove(&path);
                // Without a time, it would have to be kept for ever.
                let time = it.deletion_timestamp.filter(|it| *it > 0);
                it.deletion_timestamp = time.or_else(|| Some(now_ms()));
                self.removed
                    .insert(path, (it.deletion_timestamp, Packed::of(it)?));
            }
            Action::Txn(it) => {
                let Txn {
                    app_id,
                    version,
                    last_updated,
                } = it;
                self.transactions.insert(
                    app_id,
                    Transaction {
                        version,
                        last_updated,
                    },
                );
            }
        }
        Ok(())
    }

    /// Applies the actions of a commit: JSON objects.
    pub(super) fn apply_json(&mut self, json: &[u8]) -> Result<()> {
        let mut is_empty = true;
        for action in actions_in(json) {
            self.apply(action?)?;
            is_empty = false;
        }
        ensure!(!is_empty, "it is empty");
        Ok(())
    }

    /// Every log begins with both.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(
            self.protocol.is_some() && self.metadata.is_some(),
            "the log says nothing about its protocol or its columns"
        );
        Ok(())
    }

    /// Whether these actions of a commit were applied, as far as the state has them.
    pub(super) fn has(&self, actions: &[Action]) -> bool {
        actions.iter().all(|action| match action {
            Action::Add(it) => {
                let path = &*decoded(&it.path);
                self.files.contains_key(path) || self.removed.contains_key(path)
            }
            Action::Remove(it) => !self.files.contains_key(&*decoded(&it.path)),
            Action::Txn(it) => self.transactions.contains_key(&it.app_id),
            _ => true,
        })
    }

    /// Whether files may be removed from the table.
    pub(super) fn is_append_only(&self) -> bool {
        let metadata = self.metadata.as_ref();
        let value = metadata.and_then(|it| it.configuration.get("delta.appendOnly"));
        value.and_then(Option::as_deref) == Some("true")
    }

    /// Forgets removals and transactions that nobody needs any longer. The version of a transaction of a segment is its day.
    pub(in crate::table) fn forget_old(&mut self, now_ms: i64) {
        let oldest = now_ms - KEPT_MS;
        let is_young = |time: Option<i64>| time.is_none_or(|it| it >= oldest);
        self.removed.retain(|_, (time, _)| is_young(*time));
        let mut kept_from = self.kept_from();
        self.transactions.retain(|name, it| {
            let is_other = !name.starts_with("segments/");
            let is_kept =
                is_other || is_young(it.last_updated) || it.version >= oldest.div_euclid(DAY_MS);
            if !is_kept {
                // Earlier versions of this program have not recorded the day. It was committed then or later.
                let last_day = it.last_updated.unwrap_or(0).div_euclid(DAY_MS);
                let day = if it.version == 1 {
                    last_day
                } else {
                    it.version
                };
                kept_from = kept_from.max(day.saturating_add(1));
            }
            is_kept
        });
        if kept_from > self.kept_from() {
            let transaction = Transaction {
                version: kept_from,
                last_updated: Some(now_ms),
            };
            self.transactions.insert(KEPT_FROM.into(), transaction);
        }
    }

    /// From this day on, in days since 1970, no transaction was forgotten. The clock of the program that forgot them may have been wrong,
    /// so other programs cannot derive it from theirs.
    pub(in crate::table) fn kept_from(&self) -> i64 {
        self.transactions.get(KEPT_FROM).map_or(0, |it| it.version)
    }

    /// The actions that make this state.
    pub(super) fn actions(&self) -> impl Iterator<Item = Result<Action>> {
        let protocol = self.protocol.iter().cloned().map(Action::Protocol);
        let metadata = self.metadata.iter().cloned().map(Action::MetaData);
        let transactions = self.transactions.iter().map(|(app_id, it)| {
            Action::Txn(Txn {
                app_id: app_id.clone(),
                version: it.version,
                last_updated: it.last_updated,
            })
        });
        let removed = self.removed.values();
        let removed = removed.map(|(_, it)| it.unpack().map(Action::Remove));
        let files = self.files.values().map(|it| it.unpack().map(Action::Add));
        protocol
            .chain(metadata)
            .chain(transactions)
            .map(Ok)
            .chain(removed)
            .chain(files)
    }
}

/// The actions of a new table.
pub(super) fn created(id: String) -> [Action; 2] {
    let metadata = MetaData {
        id,
        name: Some("forebay".into()),
        description: Some(
            "One row for each flow in each block of a segment, by forebay-archive".into(),
        ),
        format: super::action::Format {
            provider: "parquet".into(),
            options: BTreeMap::new(),
        },
        schema_string: json!({"type": "struct", "fields": fields()}).to_string(),
        partition_columns: vec![schema::DATE.into()],
        created_time: Some(now_ms()),
        configuration: BTreeMap::new(),
    };
    [Action::Protocol(PROTOCOL), Action::MetaData(metadata)]
}

/// The columns as the log has them.
fn fields() -> Vec<Value> {
    let field = |column: &schema::Column| {
        let kind = match column.kind {
            Kind::Date => "date",
            Kind::Text => "string",
            Kind::Long => "long",
            Kind::Int => "integer",
        };
        json!({"name": column.name, "type": kind, "nullable": column.nullable, "metadata": {}})
    };
    schema::COLUMNS.iter().map(field).collect()
}

/// Refuses other columns, except that an older table lacks the last ones, and columns with conditions or other names in the files.
fn check(metadata: &MetaData) -> Result<()> {
    ensure!(
        metadata.format.provider == "parquet",
        "its files are not Parquet"
    );
    ensure!(
        metadata.partition_columns == [schema::DATE],
        "it is not partitioned by date alone"
    );
    for name in ["delta.columnMapping.mode", "delta.enableDeletionVectors"] {
        let value = metadata.configuration.get(name).and_then(Option::as_deref);
        if let Some(value) = value.filter(|it| !["none", "false"].contains(it)) {
            bail!("it has the property {name}={value}, which this program does not know");
        }
    }
    let schema: Value = serde_json::from_str(&metadata.schema_string).context("its columns")?;
    let found = schema["fields"].as_array().context("it has no columns")?;
    for (found, ours) in found.iter().zip(fields()) {
        ensure!(*found == ours, "its column {found} should be {ours}");
    }
    let (found, ours) = (found.len(), schema::COLUMNS.len());
    ensure!(
        (ours - schema::ADDED..=ours).contains(&found),
        "it has {found} columns and should have {ours}"
    );
    Ok(())
}
