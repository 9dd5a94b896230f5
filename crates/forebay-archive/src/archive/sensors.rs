//! The sensors of an archive.

use super::{Archive, BadRequest};
use crate::segment;
use anyhow::Result;
use object_store::path::Path;
use std::collections::BTreeSet;

/// Sensors that an error lists.
const MAX_NAMES: usize = 20;

impl Archive {
    /// Refuses the name of a sensor, in this flag, that has shipped nothing here: nothing found would look like an answer.
    ///
    /// # Errors
    /// There is no such sensor, or the store failed.
    pub async fn check_sensors(&self, flag: &str, names: &[String]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let known = self.sensors().await?;
        let Some(unknown) = names.iter().find(|it| !known.contains(*it)) else {
            return Ok(());
        };
        let mut there: Vec<&str> = known.iter().map(String::as_str).collect();
        let more = there.len().saturating_sub(MAX_NAMES);
        there.truncate(MAX_NAMES);
        let mut there = match *there {
            [] => "none".to_owned(),
            _ => there.join(", "),
        };
        if more > 0 {
            there += &format!(" and {more} more");
        }
        let name = self.name();
        let what = format!("{flag} {unknown}: {name} has no sensor with this name. It has {there}");
        Err(BadRequest(what).into())
    }

    /// The dates of the segments of a sensor that are stored. In an object store this costs one list of folders.
    ///
    /// # Errors
    /// The store failed.
    pub async fn dates_of(&self, sensor: &str) -> Result<BTreeSet<String>> {
        let folder = format!("{}/sensor={sensor}", segment::FOLDER);
        // A folder on this machine may be empty.
        if self.folder.is_some() {
            let listed = self.list(&folder).await?;
            let keys = listed.iter().map(|it| it.location.as_ref());
            let dates = keys.filter_map(|it| Some(segment::parse_key(it)?.1.to_owned()));
            return Ok(dates.collect());
        }
        self.date_folders(sensor).await
    }

    /// The same with one list of folders in any case. In a folder on this machine, a date may have no segment any longer.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn date_folders(&self, sensor: &str) -> Result<BTreeSet<String>> {
        let folder = format!("{}/sensor={sensor}", segment::FOLDER);
        self.folders(&folder, "date=").await
    }

    /// The names of the sensors that have shipped something here. Costs two lists of folders, whatever is in them.
    ///
    /// # Errors
    /// The store failed.
    pub async fn sensors(&self) -> Result<BTreeSet<String>> {
        let mut names = self.folders(segment::FOLDER, "sensor=").await?;
        names.extend(self.folders("sensors", "").await?);
        names.retain(|it| segment::is_sensor_name(it));
        Ok(names)
    }

    /// What follows this prefix in the names of the folders in a folder.
    async fn folders(&self, folder: &str, prefix: &str) -> Result<BTreeSet<String>> {
        let listed = self
            .store
            .list_with_delimiter(Some(&Path::from(folder)))
            .await;
        let listed = listed.map_err(|error| self.explain(error, &format!("listing {folder}")))?;
        let names = listed.common_prefixes.iter();
        let names = names.filter_map(|it| it.filename()?.strip_prefix(prefix));
        Ok(names.map(str::to_owned).collect())
    }
}
