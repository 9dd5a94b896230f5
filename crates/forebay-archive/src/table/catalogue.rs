//! The files of a table, for reading only.

use super::{
    TableFile,
    log::{
        Log,
        state::{Needed, State},
    },
};
use crate::archive::Archive;
use anyhow::Result;
use futures::Stream;
use std::sync::Arc;

/// One version of a table, for reading.
pub struct Catalogue {
    state: Arc<State>,
    version: u64,
}

impl Catalogue {
    /// Opens the newest version of the table of an archive; `None`: there is none yet.
    ///
    /// # Errors
    /// The store failed, the log is damaged, or the table is of a newer version.
    pub async fn open(archive: &Archive) -> Result<Option<Catalogue>> {
        Catalogue::of(archive, Needed::default()).await
    }

    /// As [`open`](Catalogue::open), only with the files that are needed, by their date and their statistics: all others take no more
    /// memory than their names.
    ///
    /// # Errors
    /// As [`open`](Catalogue::open).
    pub async fn open_for(
        archive: &Archive,
        is_needed: impl Fn(&str, Option<&str>) -> bool + Send + Sync + 'static,
    ) -> Result<Option<Catalogue>> {
        let needed = Needed(Some(Arc::new(move |file| {
            is_needed(file.date(), file.stats.as_deref())
        })));
        Catalogue::of(archive, needed).await
    }

    async fn of(archive: &Archive, needed: Needed) -> Result<Option<Catalogue>> {
        let log = Log::open_for(archive, &needed).await?;
        Ok(log.map(|log| Catalogue {
            state: log.state,
            version: log.version,
        }))
    }

    /// The number of files that are not needed.
    pub fn left_out(&self) -> u64 {
        self.state.left_out.len() as u64
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The files that make up the table, except those that are not needed.
    pub fn files(&self) -> impl Stream<Item = Result<TableFile>> {
        let files = self.state.files.values();
        futures::stream::iter(files.map(TableFile::of))
    }
}
