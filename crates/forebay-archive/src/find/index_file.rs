//! A Parquet file of the index, read in ranges.

use super::{footer, statistics::Blooms};
use crate::{archive::Archive, table::TableFile};
use anyhow::{Result, ensure};
use bytes::Bytes;
use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use object_store::path::Path;
use parquet::{
    arrow::{arrow_reader::ArrowReaderOptions, async_reader::AsyncFileReader},
    bloom_filter::Sbbf,
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

/// The last bytes of a Parquet file of the index.
#[derive(Clone)]
pub struct End {
    archive: Archive,
    key: Path,
    /// The length of the file.
    len: u64,
    /// Where `bytes` begin.
    begin: u64,
    bytes: Bytes,
}

impl End {
    /// Reads the end of a file, usually all of its footer and its bloom filters.
    ///
    /// # Errors
    /// The store failed, or the file is shorter than the table says.
    pub async fn read(archive: &Archive, file: &TableFile) -> Result<End> {
        let wanted = match file.bytes {
            ..=WHOLE_BYTES => file.bytes,
            bytes => TAIL_BYTES.min(WHOLE_BYTES / 2 + bytes / 8),
        };
        let begin = file.bytes - wanted;
        Ok(End {
            archive: archive.clone(),
            key: Path::from(file.key.as_str()),
            len: file.bytes,
            begin,
            bytes: archive.range(&file.key, begin..file.bytes).await?,
        })
    }

    /// Reads more of the same file.
    async fn extend(&mut self, wanted: u64) -> Result<()> {
        let begin = self.len.saturating_sub(wanted);
        self.bytes = self
            .archive
            .range(self.key.as_ref(), begin..self.len)
            .await?;
        self.begin = begin;
        Ok(())
    }

    /// The bloom filters of these columns for each row group. `None`: they do not lie within this end, or the footer must be decoded
    /// to find them.
    pub fn bloom_filters(&self, columns: &[&'static str]) -> Option<Vec<Blooms>> {
        let groups = footer::bloom_filters(&self.bytes, columns)?;
        let bloom = |(column, range): &footer::Filter| {
            let bytes = self.slice(range)?;
            Some((*column, Sbbf::from_bytes(&bytes).ok()?))
        };
        let blooms = |filters: &Vec<footer::Filter>| filters.iter().map(bloom).collect();
        groups.iter().map(blooms).collect()
    }

    /// Bytes of the file, if they lie within this end.
    fn slice(&self, range: &Range<u64>) -> Option<Bytes> {
        let begin = usize::try_from(range.start.checked_sub(self.begin)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(self.begin)?).ok()?;
        (begin <= end && end <= self.bytes.len()).then(|| self.bytes.slice(begin..end))
    }
}

/// A Parquet file of the index. Its end is read once.
#[derive(Clone)]
pub struct IndexFile {
    end: End,
    pub metadata: Arc<ParquetMetaData>,
}

impl IndexFile {
    /// Decodes the footer.
    ///
    /// # Errors
    /// The store failed, or the file is damaged.
    pub async fn open(mut end: End) -> Result<IndexFile> {
        loop {
            let mut reader = ParquetMetaDataReader::new().with_metadata_options(Some(options()));
            match reader.try_parse_sized(&end.bytes, end.len) {
                Err(ParquetError::NeedMoreData(needed))
                    if needed > end.bytes.len() && needed as u64 <= end.len =>
                {
                    end.extend(needed as u64).await?;
                }
                parsed => {
                    parsed?;
                    let metadata = Arc::new(reader.finish()?);
                    return Ok(IndexFile { end, metadata });
                }
            }
        }
    }

    /// Reads where the pages of large row groups are, so that pages without a row that may match need not be read, and, if
    /// `with_bounds`, their minima and maxima.
    ///
    /// # Errors
    /// The store failed, or the file is damaged.
    pub async fn read_pages(&mut self, with_bounds: bool) -> Result<()> {
        let groups = self.metadata.row_groups();
        if groups.iter().all(|it| it.num_rows() < MIN_ROWS_OF_PAGES) {
            return Ok(());
        }
        let mut reader = ParquetMetaDataReader::new_with_metadata((*self.metadata).clone())
            .with_offset_index_policy(PageIndexPolicy::Optional)
            .with_column_index_policy(match with_bounds {
                true => PageIndexPolicy::Optional,
                false => PageIndexPolicy::Skip,
            });
        reader.load_page_index(&mut *self).await?;
        self.metadata = Arc::new(reader.finish()?);
        Ok(())
    }

    /// Reads ranges of bytes.
    ///
    /// # Errors
    /// The store failed, or the file is damaged.
    pub async fn ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if let Some(slices) = ranges.iter().map(|it| self.end.slice(it)).collect() {
            return Ok(slices);
        }
        let End {
            archive, key, len, ..
        } = &self.end;
        let is_inside = ranges.iter().all(|it| it.end <= *len);
        ensure!(is_inside, "its footer has bytes after its end");
        archive.ranges(key.as_ref(), ranges).await
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
            let mut found = self.get_byte_ranges(vec![range]).await?;
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
        let found = async move { self.ranges(&ranges).await };
        found
            .map_err(|error| ParquetError::External(error.into()))
            .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        let metadata = self.metadata.clone();
        async move { Ok(metadata) }.boxed()
    }
}
