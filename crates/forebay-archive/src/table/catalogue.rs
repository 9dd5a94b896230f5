//! The files of a table, for reading only.

use super::{TableFile, log::Log};
use crate::archive::Archive;
use anyhow::Result;
use futures::Stream;

/// One version of a table, for reading.
pub struct Catalogue {
    log: Log,
}

impl Catalogue {
    /// Opens the newest version of the table of an archive; `None`: there is none yet.
    ///
    /// # Errors
    /// The store failed, the log is damaged, or the table is of a newer version.
    pub async fn open(archive: &Archive) -> Result<Option<Catalogue>> {
        Ok(Log::open(archive).await?.map(|log| Catalogue { log }))
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.log.version
    }

    /// The files that make up the table.
    pub fn files(&self) -> impl Stream<Item = Result<TableFile>> {
        let files = self.log.state.files.values();
        futures::stream::iter(files.map(TableFile::of))
    }
}
