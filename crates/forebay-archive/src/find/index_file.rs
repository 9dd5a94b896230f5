//! A Parquet file of the index, read in ranges.

use crate::{archive::Archive, table::TableFile};
use anyhow::Result;
use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use object_store::path::Path;
use parquet::{
    arrow::{arrow_reader::ArrowReaderOptions, async_reader::AsyncFileReader},
    errors::ParquetError,
    file::metadata::{ParquetMetaData, ParquetMetaDataReader},
};
use std::{ops::Range, sync::Arc};

/// Bytes at the end of a file that are read first: its footer, or all of a small file.
const TAIL_BYTES: u64 = 64 << 10;

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
        let mut wanted = TAIL_BYTES.min(file.bytes);
        loop {
            let begin = file.bytes - wanted;
            let tail = archive.range(&file.key, begin..file.bytes).await?;
            let mut reader = ParquetMetaDataReader::new();
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
