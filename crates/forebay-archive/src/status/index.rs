//! The packets in the index.
//!
//! Each file has a tag with its packets, by sensor and date of their segments, in the log. Where these sums are those of the segments, nothing
//! else is read. Otherwise two columns of the files with rows of that sensor and date say which segments differ.

use super::config::{self, Day, StatusConfig};
use crate::{
    archive::{self, Archive},
    find, index, schema, segment,
    table::{Table, TableFile},
};
use anyhow::{Context, Result, ensure};
use arrow_array::{Array, Int64Array};
use futures::TryStreamExt;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The sensor and date of rows whose segment has no valid key, as in the tags.
const UNKNOWN: (&str, &str, &str) = ("?", "?", "");

/// The index, with the packets of each sensor and date.
#[derive(Debug, Default)]
pub(super) struct IndexSums {
    files: Vec<TableFile>,
    pub(super) sums: BTreeMap<Day, u64>,
}

impl IndexSums {
    /// Adds up the tags. The columns of files without a tag are read.
    pub(super) async fn read(
        archive: &Archive,
        table: &Table,
        config: &StatusConfig,
    ) -> Result<IndexSums> {
        let mut files = table.files()?;
        // Rows are not before the date of their segment.
        files.retain(|it| config.since.as_ref().is_none_or(|since| it.date >= *since));
        let folder = crate::table::FOLDER;
        let listed = match &config.since {
            Some(since) => {
                let after = format!("{folder}/{}={since}", schema::DATE);
                archive.list_after(folder, &after).await?
            }
            None => archive.list(folder).await?,
        };
        let lengths = listed.iter().map(|it| (it.location.as_ref(), it.size));
        let lengths: HashMap<&str, u64> = lengths.collect();
        for file in &files {
            let is_whole = lengths.get(&*file.key) == Some(&file.bytes);
            ensure!(is_whole, file.damaged(archive));
        }
        let mut sums = BTreeMap::new();
        let mut add = |sensor: &str, date: &str, packets: u64| {
            if config.wants(sensor, date) {
                let day = (sensor.to_owned(), date.to_owned());
                config::add(sums.entry(day).or_insert(0), packets);
            }
        };
        for (day, packets) in files.iter().filter_map(|it| it.packets.as_ref()).flatten() {
            if let Some((sensor, date)) = day.split_once('/') {
                add(sensor, date, *packets);
            }
        }
        let untagged = files.iter().filter(|it| it.packets.is_none());
        for (key, packets) in by_segment(archive, untagged).await? {
            let (sensor, date, _) = segment::parse_key(&key).unwrap_or(UNKNOWN);
            add(sensor, date, packets);
        }
        Ok(IndexSums { files, sums })
    }

    /// The packets in the rows of each segment of these days.
    pub(super) async fn of(
        &self,
        archive: &Archive,
        days: &HashSet<Day>,
    ) -> Result<HashMap<String, u64>> {
        let is_of = |day: &String| {
            let day = day.split_once('/').unwrap_or_default();
            days.contains(&(day.0.to_owned(), day.1.to_owned()))
        };
        let may_have = |it: &&TableFile| it.packets.as_ref().is_none_or(|it| it.keys().any(is_of));
        let mut found = match days.is_empty() {
            true => HashMap::new(),
            false => by_segment(archive, self.files.iter().filter(may_have)).await?,
        };
        found.retain(|key, _| {
            let (sensor, date, _) = segment::parse_key(key).unwrap_or(UNKNOWN);
            days.contains(&(sensor.to_owned(), date.to_owned()))
        });
        Ok(found)
    }
}

/// The packets in the rows of each segment.
///
/// # Errors
/// The store failed, or a file of the table is damaged.
pub async fn packets_by_segment(table: &Table) -> Result<HashMap<String, u64>> {
    by_segment(table.archive(), table.files()?.iter()).await
}

async fn by_segment(
    archive: &Archive,
    files: impl Iterator<Item = &TableFile>,
) -> Result<HashMap<String, u64>> {
    let read = files.map(async |file| {
        let read = of_file(archive, file).await;
        read.map_err(|error| file.unread(archive, error))
    });
    let mut sums = HashMap::new();
    for (key, packets) in archive::at_once(read).await?.into_iter().flatten() {
        config::add(sums.entry(key).or_insert(0), packets);
    }
    Ok(sums)
}

async fn of_file(archive: &Archive, file: &TableFile) -> Result<HashMap<String, u64>> {
    let file = find::IndexFile::open(find::End::read(archive, file).await?).await?;
    let batches = index::columns(file, &[schema::SEGMENT, schema::PACKETS]).await?;
    let mut batches = std::pin::pin!(batches);
    let mut sums: HashMap<String, u64> = HashMap::new();
    while let Some(batch) = batches.try_next().await? {
        let segments = index::texts(&batch, schema::SEGMENT)?;
        let packets = batch.column_by_name(schema::PACKETS);
        let packets = packets.and_then(|it| it.as_any().downcast_ref::<Int64Array>());
        let packets = packets.context("its column of packets has another type")?;
        for (key, packets) in segments.iter().zip(packets) {
            let (key, packets) = (key.unwrap_or_default(), packets.unwrap_or(0) as u64);
            match sums.get_mut(key) {
                Some(sum) => config::add(sum, packets),
                None => drop(sums.insert(key.to_owned(), packets)),
            }
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::super::status;
    use super::*;
    use crate::{index::Row, table::Rows};
    use forebay_testing::folder::Folder;

    #[test]
    fn rows_without_a_valid_key_are_named_and_no_number_is_too_large_for_a_sum() {
        let folder = Folder::new();
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        let row = Row {
            packets: u64::MAX,
            ..Row::default()
        };
        let run = async {
            let mut table = Table::open_or_create(&archive).await.unwrap();
            let files = index::write(vec![row; 3], "hall", "other").unwrap();
            let segment = "other".to_owned();
            table.append(&[Rows { segment, files }]).await.unwrap();
            for number in 0..2 {
                let key = format!("sensors/hall/dropped-{number}.json");
                let record = format!(r#"{{"packets": {}}}"#, u64::MAX);
                archive.put(&key, record.into()).await.unwrap();
            }
            let sensors = status(&archive, &StatusConfig::default()).await.unwrap();
            let unknown = &sensors["?"];
            assert_eq!(unknown.dangling, ["other"]);
            assert_eq!((unknown.indexed, unknown.is_sound()), (u64::MAX, false));
            assert_eq!(sensors["hall"].dropped, u64::MAX);
        };
        tokio::runtime::Runtime::new().unwrap().block_on(run);
    }
}
