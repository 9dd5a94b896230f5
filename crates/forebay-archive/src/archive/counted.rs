//! An object store that counts what is read from it.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, path::Path,
};
use serde_json::{Value, json};
use std::{
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Requests and the bytes that they returned.
#[derive(Debug, Default)]
pub struct Requests {
    /// Requests, also those that failed.
    requests: AtomicU64,
    /// Bytes of the bodies of answers.
    bytes: AtomicU64,
}

impl Requests {
    fn add(&self, bytes: u64) {
        // Counts that publish nothing but themselves.
        self.requests.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    pub fn to_json(&self) -> Value {
        json!({ "requests": self.requests(), "bytes": self.bytes() })
    }
}

/// What was read, by kind of object.
#[derive(Debug, Default)]
pub struct Reads {
    /// The log of the table.
    pub log: Requests,
    /// The files of the index, and everything else.
    pub index: Requests,
    /// Segments.
    pub segments: Requests,
}

impl Reads {
    fn of(&self, key: &str) -> &Requests {
        match key {
            _ if key.contains("_delta_log") => &self.log,
            _ if key.contains("segments/") => &self.segments,
            _ => &self.index,
        }
    }
}

/// A store whose requests are counted.
#[derive(Debug)]
pub struct Counted {
    store: Arc<dyn ObjectStore>,
    reads: Arc<Reads>,
    /// Ranges with fewer bytes between them are read together.
    gap: u64,
}

impl Counted {
    pub fn over(store: Arc<dyn ObjectStore>, reads: Arc<Reads>, gap: u64) -> Counted {
        Counted { store, reads, gap }
    }
}

/// Ranges that contain these, in order, with at least `gap` bytes between them.
fn joined(ranges: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|it| it.start);
    sorted.dedup_by(|next, last| {
        let is_near = next.start < last.end.saturating_add(gap);
        if is_near {
            last.end = last.end.max(next.end);
        }
        is_near
    });
    sorted
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Counted {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let found = self.store.get_opts(location, options).await;
        let bytes = found.as_ref().map_or(0, |it| it.range.end - it.range.start);
        self.reads
            .of(location.as_ref())
            .add(if is_head { 0 } else { bytes });
        found
    }

    /// Ranges that are near each other are one request.
    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let joined = joined(ranges, self.gap);
        let found = self.store.get_ranges(location, &joined).await;
        let reads = self.reads.of(location.as_ref());
        for at in 0..joined.len() {
            reads.add(found.as_ref().map_or(0, |it| it[at].len() as u64));
        }
        let found = found?;
        let slice = |range: &Range<u64>| {
            let at = joined.partition_point(|it| it.start <= range.start) - 1;
            let begin = (range.start - joined[at].start) as usize;
            // A range may end after the object.
            let end = found[at].len().min((range.end - joined[at].start) as usize);
            found[at].slice(begin.min(end)..end)
        };
        Ok(ranges.iter().map(slice).collect())
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.reads.of(prefix.map_or("", Path::as_ref)).add(0);
        self.store.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.reads.of(prefix.map_or("", Path::as_ref)).add(0);
        self.store.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.reads.of(prefix.map_or("", Path::as_ref)).add(0);
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.store.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::{ObjectStoreExt, memory::InMemory};

    #[test]
    fn near_ranges_are_one_request_and_each_gets_its_bytes() {
        assert_eq!(
            joined(&[30..40, 0..5, 5..6, 0..2, 15..20, 42..42], 10),
            [0..20, 30..42]
        );
        let reads = Arc::new(Reads::default());
        let store = Counted::over(Arc::new(InMemory::new()), reads.clone(), 10);
        let bytes: Vec<u8> = (0..100).collect();
        let path = Path::from("index/part");
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            store.put(&path, bytes.clone().into()).await.unwrap();
            let ranges = [90..95, 0..5, 14..20, 3..4, 40..41];
            let found = store.get_ranges(&path, &ranges).await.unwrap();
            for (range, found) in ranges.iter().zip(&found) {
                assert_eq!(found[..], bytes[range.start as usize..range.end as usize]);
            }
            assert_eq!((reads.index.requests(), reads.index.bytes()), (3, 26));
            let missing = store.get_ranges(&Path::from("index/other"), &ranges).await;
            assert!(missing.is_err());
            assert_eq!((reads.index.requests(), reads.index.bytes()), (6, 26));
        });
    }
}
