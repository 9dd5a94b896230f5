//! Removing the rows of segments.

use super::{Added, MAX_TRIES, Rows, Table, TableFile, committed, segments::segments_in};
use crate::{
    archive::Archive,
    find,
    index::{self, Encoder, IndexFile},
    schema, segment,
};
use anyhow::Result;
use arrow_array::BooleanArray;
use arrow_select::filter::filter_record_batch;
use futures::TryStreamExt;
use serde_json::Value;
use std::{
    collections::{HashMap, HashSet},
    pin::pin,
};

/// Files that one commit replaces, if it only removes rows: replacing more would take longer than other programs wait to commit.
const MAX_REPLACED: usize = 64;

/// What a file of the table holds besides the rows that are to be removed. Files never change, so this is found out once.
enum Rest {
    /// It has none of these rows.
    Same,
    /// All other rows, in new files: none, or one.
    Replaced(Added),
}

impl Table {
    /// Removes all rows of these segments and adds `rows`, in one commit. Without `rows`, in several commits if many files change.
    ///
    /// `segments` has the time of the last packet of each one, in nanoseconds since 1970; `u64::MAX` if it is not known.
    /// Rows of segments that `expire` has removed, or removes meanwhile, are not added.
    ///
    /// # Errors
    /// The store failed, a file of the table is damaged, or the table is of a newer version.
    pub async fn replace_rows(
        &mut self,
        segments: &HashMap<&str, u64>,
        rows: &[Rows],
    ) -> Result<()> {
        self.replace_all(segments, rows).await?;
        let added: Vec<&str> = rows.iter().map(|it| &*it.segment).collect();
        self.remove_expired(&added).await.map(|_| ())
    }

    /// Removes the rows of those of these segments that `expire` has removed, or is removing. Returns these.
    ///
    /// A program that adds rows calls this afterwards: `expire` may not have seen them. It may have been killed before it did, so this
    /// is also for a program that finds its rows already there.
    ///
    /// # Errors
    /// As [`replace_rows`](Table::replace_rows).
    pub async fn remove_expired<'s>(&mut self, segments: &[&'s str]) -> Result<HashSet<&'s str>> {
        let archive = self.archive().clone();
        let expired = self.expired.among(&archive, segments).await?;
        if !expired.is_empty() {
            let rows = expired.iter().map(|it| (*it, u64::MAX)).collect();
            self.replace_all(&rows, &[]).await?;
        }
        Ok(expired)
    }

    async fn replace_all(&mut self, segments: &HashMap<&str, u64>, rows: &[Rows]) -> Result<()> {
        let mut rests: HashMap<String, Rest> = HashMap::new();
        let mut added: Option<Added> = None;
        let mut attempt = 0;
        while attempt < MAX_TRIES {
            self.refresh().await?;
            let (mut old, mut actions, mut replaced) = (Vec::new(), Vec::new(), 0);
            let mut is_all = true;
            for file in self.files()? {
                // The answer to a commit was lost, and the commit was not.
                if added.as_ref().is_some_and(|it| it.has(&file)) {
                    return Ok(());
                }
                match may_have(&file, segments) {
                    May::None => continue,
                    May::Only => {}
                    May::Some if rows.is_empty() && replaced == MAX_REPLACED => {
                        is_all = false;
                        continue;
                    }
                    May::Some => match self.rest(&mut rests, &file, segments).await? {
                        Rest::Same => continue,
                        Rest::Replaced(rest) => {
                            actions.extend(rest.actions.iter().cloned());
                            replaced += 1;
                        }
                    },
                }
                old.push(file);
            }
            let mut transactions = Vec::new();
            for rows in rows {
                if !self.has(&rows.segment).await? {
                    transactions.push(committed(&rows.segment));
                }
            }
            if added.is_none() && !rows.is_empty() {
                let files = rows.iter().flat_map(|it| &it.files);
                added = Some(self.put(files, true).await?);
            }
            if let Some(added) = &added {
                added.check_age()?;
                actions.extend(added.actions.iter().cloned());
            }
            for file in &old {
                if let Some(Rest::Replaced(rest)) = rests.get(&file.key) {
                    rest.check_age()?;
                }
            }
            if old.is_empty() && actions.is_empty() && transactions.is_empty() {
                return Ok(());
            }
            actions.splice(0..0, self.removals(&old, true)?);
            actions.extend(transactions);
            match self.commit("DELETE", actions, attempt).await? {
                true if is_all => return Ok(()),
                true => attempt = 0,
                false => attempt += 1,
            }
        }
        Err(self.too_busy())
    }

    /// What a file holds besides the rows of these segments, as `rests` has it. Otherwise reads the file, and writes the new one.
    async fn rest<'r>(
        &self,
        rests: &'r mut HashMap<String, Rest>,
        file: &TableFile,
        segments: &HashMap<&str, u64>,
    ) -> Result<&'r Rest> {
        let is_usable = |it: &Rest| match it {
            Rest::Same => true,
            Rest::Replaced(rest) => rest.check_age().is_ok(),
        };
        if !rests.get(&file.key).is_some_and(is_usable) {
            let rest = without(self.archive(), file, segments).await;
            let rest = match rest.map_err(|error| file.unread(self.archive(), error))? {
                None => Rest::Same,
                Some(rest) => Rest::Replaced(self.put(rest.iter(), true).await?),
            };
            rests.insert(file.key.clone(), rest);
        }
        Ok(&rests[&file.key])
    }
}

enum May {
    None,
    Some,
    /// It has rows of one segment only, and that is one of them.
    Only,
}

/// What the statistics of a file say about rows of these segments.
fn may_have(file: &TableFile, segments: &HashMap<&str, u64>) -> May {
    let statistics = file
        .statistics
        .as_deref()
        .and_then(|it| serde_json::from_str::<Value>(it).ok());
    let bound = |name: &str| {
        let bound = statistics.as_ref()?[name][schema::SEGMENT].as_str();
        bound.map(str::to_owned)
    };
    // The rows of a segment are not before the date in its key, and not after its last packet.
    let first_ns = || {
        let first = statistics.as_ref()?["minValues"][schema::FIRST_NS].as_i64();
        Some(first?.cast_unsigned())
    };
    let first_ns = first_ns().unwrap_or(0);
    let may_be_in = |(key, last_ns): (&&str, &u64)| {
        let date = segment::parse_key(key).map(|(_, date, _)| date);
        date.is_none_or(|date| date <= &*file.date) && *last_ns >= first_ns
    };
    if !segments.iter().any(may_be_in) {
        return May::None;
    }
    let (Some(min), Some(max)) = (bound("minValues"), bound("maxValues")) else {
        return May::Some;
    };
    // Programs that rewrite the table may keep only the beginning of a bound.
    let has_whole_keys = [&min, &max]
        .iter()
        .all(|it| segment::parse_key(it).is_some());
    if !has_whole_keys {
        return May::Some;
    }
    let may_hold = |it: (&&str, &u64)| (&*min..=&*max).contains(it.0) && may_be_in(it);
    match min == max {
        true if segments.contains_key(&*min) => May::Only,
        false if segments.iter().any(may_hold) => May::Some,
        _ => May::None,
    }
}

/// The rows of a file without those of these segments, as a new file if any are left. `None`: it has no rows of them. Only if it has others,
/// too, more than the names of its segments is read.
async fn without(
    archive: &Archive,
    file: &TableFile,
    segments: &HashMap<&str, u64>,
) -> Result<Option<Option<IndexFile>>> {
    let end = find::End::read(archive, file).await?;
    let rows = find::IndexFile::open(end).await?;
    let has = segments_in(rows.clone()).await?;
    let (gone, stay): (Vec<_>, Vec<_>) = (has.iter()).partition(|it| segments.contains_key(&***it));
    if gone.is_empty() {
        return Ok(None);
    }
    if stay.is_empty() {
        return Ok(Some(None));
    }
    let at_most = rows.metadata.file_metadata().num_rows();
    let mut rest = Encoder::new(&file.date, u64::try_from(at_most).unwrap_or(0))?;
    let columns: Vec<&str> = schema::COLUMNS[1..].iter().map(|it| it.name).collect();
    let mut batches = pin!(index::columns(rows, &columns).await?);
    while let Some(batch) = batches.try_next().await? {
        let keys = index::texts(&batch, schema::SEGMENT)?;
        let stays: BooleanArray = keys
            .iter()
            .map(|it| it.map(|it| !segments.contains_key(it)))
            .collect();
        let staying = filter_record_batch(&batch, &stays)?;
        // Files of other writers may have other columns or types: these are an error here, not a loss.
        rest.put(&staying)?;
    }
    Ok(Some(Some(rest.finish()?)))
}
