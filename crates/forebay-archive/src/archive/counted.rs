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
        let found = self.store.get_ranges(location, &joined).await?;
        let reads = self.reads.of(location.as_ref());
        found.iter().for_each(|it| reads.add(it.len() as u64));
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
