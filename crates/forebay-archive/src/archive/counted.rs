//! An object store that counts what is read from it.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, OBJECT_STORE_COALESCE_DEFAULT,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result, coalesce_ranges, path::Path,
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
}

impl Counted {
    pub fn over(store: Arc<dyn ObjectStore>, reads: Arc<Reads>) -> Counted {
        Counted { store, reads }
    }
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

    /// As object stores do it: near ranges with one request.
    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if let [_] = ranges {
            let found = self.store.get_ranges(location, ranges).await;
            let bytes = found.iter().flatten().map(|it| it.len() as u64).sum();
            self.reads.of(location.as_ref()).add(bytes);
            return found;
        }
        let get = |range: Range<u64>| async move {
            let options = GetOptions::new().with_range(Some(range));
            self.get_opts(location, options).await?.bytes().await
        };
        coalesce_ranges(ranges, get, OBJECT_STORE_COALESCE_DEFAULT).await
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
