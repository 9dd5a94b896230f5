//! Whether old segments have rows: their transactions may be forgotten, so the files of their date are asked.

use super::{
    Table, TableFile,
    log::state::{DAY_MS, KEPT_MS},
    name::{day_of, now_ms, transaction},
    segments::segments_in,
};
use crate::{
    archive::{self, Archive},
    find, schema, segment,
};
use anyhow::Result;
use std::collections::HashSet;

impl Table {
    /// Whether rows of this segment were committed, up to the version that was read.
    pub(super) async fn is_committed(&mut self, segment: &str) -> Result<bool> {
        let id = transaction(segment);
        if self.log.state.transactions.contains_key(&id) {
            return Ok(true);
        }
        let (Some(day), Some((_, date, _))) = (day_of(segment), segment::parse_key(segment)) else {
            return Ok(false);
        };
        // Rows are committed after their segment was captured, so the transactions of these days are all there. Clocks may differ.
        let today = now_ms() / DAY_MS;
        let first = (today - KEPT_MS / DAY_MS + 1).max(self.log.state.kept_from());
        if (first..=today + 1).contains(&day) {
            return Ok(false);
        }
        let first = format!("{}={date}/", schema::DATE);
        let files = self.log.state.files.range(first.clone()..);
        let files = files.take_while(|(path, _)| path.starts_with(&first));
        let seen = self.dates.0.entry(date.to_owned()).or_default();
        let new: Vec<(String, TableFile)> = files
            .filter(|(path, _)| !seen.paths.contains(*path))
            .map(|(path, file)| Ok((path.clone(), TableFile::of(file)?)))
            .filter(|file| (file.as_ref()).map_or(true, |(_, file)| may_have(file, segment)))
            .collect::<Result<_>>()?;
        let archive = &self.log.archive;
        let read = new.iter().map(async |(_, file)| {
            let read = segments_of(archive, file).await;
            read.map_err(|error| file.unread(archive, error))
        });
        let found = archive::at_once(read).await?;
        seen.segments
            .extend(found.iter().flatten().map(|it| transaction(it)));
        seen.paths.extend(new.into_iter().map(|it| it.0));
        Ok(seen.segments.contains(&id))
    }
}

async fn segments_of(archive: &Archive, file: &TableFile) -> Result<HashSet<String>> {
    let end = find::End::read(archive, file).await?;
    segments_in(find::IndexFile::open(end).await?).await
}

/// Whether the statistics of a file allow rows of this segment, packed or plain.
fn may_have(file: &TableFile, segment: &str) -> bool {
    let statistics = file.statistics.as_deref().unwrap_or_default();
    let Ok(statistics) = serde_json::from_str::<serde_json::Value>(statistics) else {
        return true;
    };
    let bound = |name: &str| statistics[name][schema::SEGMENT].as_str();
    let (Some(min), Some(max)) = (bound("minValues"), bound("maxValues")) else {
        return true;
    };
    // Programs that rewrite the table may keep only the beginning of a bound.
    let are_whole = [min, max].iter().all(|it| segment::parse_key(it).is_some());
    let stem = segment.split_once(".pcap").map_or(segment, |it| it.0);
    !are_whole || (stem <= max && (min <= stem || min.starts_with(stem)))
}
