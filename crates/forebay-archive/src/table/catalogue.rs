//! The files of a table, read from its log one after the other.

use super::{TableFile, explain, opened};
use crate::archive::Archive;
use anyhow::Result;
use deltalake_core::{kernel::Snapshot, logstore::LogStoreRef};
use futures::{Stream, StreamExt};

/// One version of a table, for reading.
///
/// [`Table`](super::Table) holds its files with all their statistics in memory. A search excludes most of them at first sight, so this type
/// reads them when they are asked for.
pub struct Catalogue {
    archive: Archive,
    log_store: LogStoreRef,
    snapshot: Snapshot,
}

impl Catalogue {
    /// Opens the newest version of the table of an archive; `None`: there is none yet.
    ///
    /// # Errors
    /// The store failed, or the table is of a newer version.
    pub async fn open(archive: &Archive) -> Result<Option<Catalogue>> {
        let catalogue = opened(archive, async |log_store| {
            let snapshot = Snapshot::try_new(log_store.as_ref(), None).await?;
            Ok(Catalogue {
                archive: archive.clone(),
                log_store,
                snapshot,
            })
        });
        catalogue.await
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.snapshot.version()
    }

    /// The files that make up the table. Each one is an error if the store failed.
    pub fn files(&self) -> impl Stream<Item = Result<TableFile>> {
        let views = self.snapshot.file_views(self.log_store.as_ref(), None);
        views.map(move |view| match view {
            Ok(view) => Ok(TableFile::of(&view)),
            Err(error) => Err(explain(&self.archive, error, "reading its index")),
        })
    }
}
