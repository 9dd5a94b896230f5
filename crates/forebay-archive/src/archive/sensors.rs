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

    /// The names of the sensors that have shipped something here. Costs two lists of folders, whatever is in them.
    ///
    /// # Errors
    /// The store failed.
    pub async fn sensors(&self) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for (folder, prefix) in [(segment::FOLDER, "sensor="), ("sensors", "")] {
            let path = Path::from(folder);
            let listed = self.store.list_with_delimiter(Some(&path)).await;
            let listed =
                listed.map_err(|error| self.explain(error, &format!("listing {folder}")))?;
            let found = listed.common_prefixes.iter();
            let found = found.filter_map(|it| it.filename()?.strip_prefix(prefix));
            let found = found.filter(|it| segment::is_sensor_name(it));
            names.extend(found.map(str::to_owned));
        }
        Ok(names)
    }
}
