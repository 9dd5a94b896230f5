//! A Parquet file of the index, read in ranges.

use crate::{archive::Archive, table::TableFile};
use anyhow::Result;
use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use object_store::path::Path;
use parquet::{
    arrow::{arrow_reader::ArrowReaderOptions, async_reader::AsyncFileReader},
    errors::ParquetError,
    file::metadata::{
        PageIndexPolicy, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader,
        ParquetStatisticsPolicy,
    },
};
use std::{ops::Range, sync::Arc};

/// Bytes at the end of a file that are read first: its footer and, if it has few rows, its bloom filters.
const TAIL_BYTES: u64 = 64 << 10;
/// Files up to this length are read at once. Of longer ones, half of it and an eighth of the file is read first, up to [`TAIL_BYTES`]: bloom
/// filters are about a twentieth of a file.
const WHOLE_BYTES: u64 = 32 << 10;
/// Row groups with fewer rows have few pages.
const MIN_ROWS_OF_PAGES: i64 = 8192;

/// A Parquet file of the index. Its end is read once.
pub struct IndexFile {
    archive: Archive,
    key: Path,
    /// The last bytes, and where they begin.
    tail: (u64, Bytes),
    pub metadata: Arc<ParquetMetaData>,
}

impl IndexFile {
    /// Reads the footer.
    ///
    /// # Errors
    /// The store failed, or the file is damaged.
    pub async fn open(archive: &Archive, file: &TableFile) -> Result<IndexFile> {
        let mut wanted = match file.bytes {
            ..=WHOLE_BYTES => file.bytes,
            bytes => TAIL_BYTES.min(WHOLE_BYTES / 2 + bytes / 8),
        };
        loop {
            let begin = file.bytes - wanted;
            let tail = archive.range(&file.key, begin..file.bytes).await?;
            let mut reader = ParquetMetaDataReader::new().with_metadata_options(Some(options()));
            match reader.try_parse_sized(&tail, file.bytes) {
                Err(ParquetError::NeedMoreData(needed))
                    if needed as u64 > wanted && needed as u64 <= file.bytes =>
                {
                    wanted = needed as u64;
                }
                parsed => {
                    parsed?;
                    return Ok(IndexFile {
                        archive: archive.clone(),
                        key: Path::from(file.key.as_str()),
                        tail: (begin, tail),
                        metadata: Arc::new(reader.finish()?),
                    });
                }
            }
        }
    }

    /// Reads where the pages of large row groups are, so that pages without a row that may match need not be read.
    ///
    /// # Errors
    /// The store failed, or the file is damaged.
    pub async fn read_pages(&mut self) -> Result<()> {
        let groups = self.metadata.row_groups();
        if groups.iter().all(|it| it.num_rows() < MIN_ROWS_OF_PAGES) {
            return Ok(());
        }
        let mut reader = ParquetMetaDataReader::new_with_metadata((*self.metadata).clone())
            .with_offset_index_policy(PageIndexPolicy::Optional);
        reader.load_page_index(&mut *self).await?;
        self.metadata = Arc::new(reader.finish()?);
        Ok(())
    }

    /// Reads ranges of bytes.
    ///
    /// # Errors
    /// The store failed.
    pub async fn ranges(&self, ranges: &[Range<u64>]) -> object_store::Result<Vec<Bytes>> {
        let (begin, tail) = &self.tail;
        let end = begin + tail.len() as u64;
        if ranges
            .iter()
            .all(|it| *begin <= it.start && it.start <= it.end && it.end <= end)
        {
            let slice = |it: &Range<u64>| {
                tail.slice((it.start - begin) as usize..(it.end - begin) as usize)
            };
            return Ok(ranges.iter().map(slice).collect());
        }
        self.archive.store().get_ranges(&self.key, ranges).await
    }
}

/// What is decoded of a footer: `find` needs no counts of encodings and sizes.
fn options() -> ParquetMetaDataOptions {
    ParquetMetaDataOptions::new()
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll)
}

impl AsyncFileReader for IndexFile {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        async move {
            let mut found = self.ranges(std::slice::from_ref(&range)).await?;
            found
                .pop()
                .ok_or_else(|| ParquetError::EOF("nothing was read".into()))
        }
        .boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        async move { Ok(self.ranges(&ranges).await?) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        let metadata = self.metadata.clone();
        async move { Ok(metadata) }.boxed()
    }
}
