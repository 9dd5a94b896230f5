//! The actions of the log: a commit is a list of them, and so is a checkpoint.

use super::super::name::FOLDER;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap};

type Map = BTreeMap<String, Option<String>>;

/// A row of a checkpoint that becomes JSON loses the values that are null, so they are not kept anywhere.
fn without_nulls<'m>(maps: impl IntoIterator<Item = &'m mut Map>) {
    for map in maps {
        map.retain(|_, value| value.is_some());
    }
}

/// An action. Any other kind belongs to a feature of Delta tables that this program does not know, and is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::table) enum Action {
    CommitInfo(Value),
    Protocol(Protocol),
    MetaData(MetaData),
    Add(Add),
    Remove(Remove),
    Txn(Txn),
}

impl Action {
    /// As the state has it: without values that are null, and without what only its commit means.
    pub(super) fn normal(mut self) -> Action {
        match &mut self {
            Action::MetaData(it) => without_nulls([&mut it.configuration, &mut it.format.options]),
            Action::Add(it) => {
                without_nulls([&mut it.partition_values].into_iter().chain(&mut it.tags));
                it.data_change = false;
            }
            Action::Remove(it) => {
                without_nulls(&mut it.partition_values);
                it.data_change = false;
            }
            _ => {}
        }
        self
    }
}

/// The actions of a commit: JSON objects.
pub(super) fn actions_in(json: &[u8]) -> impl Iterator<Item = serde_json::Result<Action>> {
    serde_json::Deserializer::from_slice(json).into_iter()
}

/// A path as the store has it. In the log, each program may write other characters as `%` and two digits.
pub(super) fn decoded(path: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy()
}

/// The versions of the protocol that a reader and a writer must know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::table) struct Protocol {
    pub min_reader_version: u32,
    pub min_writer_version: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::table) struct MetaData {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub format: Format,
    pub schema_string: String,
    pub partition_columns: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_time: Option<i64>,
    #[serde(default)]
    pub configuration: Map,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::table) struct Format {
    pub provider: String,
    #[serde(default)]
    pub options: Map,
}

/// A file of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::table) struct Add {
    pub path: String,
    pub partition_values: Map,
    pub size: u64,
    pub modification_time: i64,
    pub data_change: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Map>,
    #[serde(default, skip_serializing)]
    deletion_vector: Option<Value>,
}

impl Add {
    pub(in crate::table) fn new(path: String, date: &str, size: u64, time_ms: i64) -> Add {
        let date = (crate::schema::DATE.to_owned(), Some(date.to_owned()));
        Add {
            path,
            partition_values: [date].into(),
            size,
            modification_time: time_ms,
            data_change: true,
            stats: None,
            tags: None,
            deletion_vector: None,
        }
    }

    /// The date of its rows.
    pub(in crate::table) fn date(&self) -> &str {
        let date = self.partition_values.get(crate::schema::DATE);
        date.and_then(Option::as_deref).unwrap_or_default()
    }

    /// The key of the file in the archive.
    pub(in crate::table) fn key(&self) -> String {
        format!("{FOLDER}/{}", decoded(&self.path))
    }

    pub(super) fn check(&self) -> Result<()> {
        let path = &self.path;
        ensure!(
            self.deletion_vector.is_none(),
            "the file {path} has a deletion vector, which this program does not know"
        );
        let date = self.date();
        let is_date = date.len() == 10 && date.parse::<jiff::civil::Date>().is_ok();
        let decoded = decoded(path);
        let folder = decoded.strip_prefix("date=");
        let name = folder.and_then(|it| it.strip_prefix(date)?.strip_prefix('/'));
        let is_special = |it| ["", ".", ".."].contains(&it);
        // Two names that are no text would become the same one.
        let is_text = !decoded.contains(char::REPLACEMENT_CHARACTER);
        let is_plain = is_text && name.is_some_and(|it| !it.split('/').any(is_special));
        ensure!(
            is_date && is_plain,
            "the file {path} is not in the folder of its date"
        );
        Ok(())
    }

    /// The action that removes this file.
    pub(in crate::table) fn removal(&self, time_ms: i64, data_change: bool) -> Action {
        Action::Remove(Remove {
            path: self.path.clone(),
            deletion_timestamp: Some(time_ms),
            data_change,
            extended_file_metadata: Some(true),
            partition_values: Some(self.partition_values.clone()),
            size: Some(self.size),
        })
    }
}

/// A file that is no longer part of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::table) struct Remove {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<i64>,
    pub data_change: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_file_metadata: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_values: Option<Map>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// An application transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::table) struct Txn {
    pub app_id: String,
    pub version: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<i64>,
}
