//! An object store that fails as a test wants it.

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// What happens to a request that creates an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is done.
    Done,
    /// The answer is that the object exists, as if another program had created it.
    Lost,
    /// The object is created, and the answer is that it exists.
    Repeated,
}

/// A store with faults.
pub struct Faulty {
    store: Arc<dyn ObjectStore>,
    put: Arc<dyn Fn(&str) -> Put + Send + Sync>,
    before_get: Arc<dyn Fn(&str) + Send + Sync>,
    is_away: Arc<dyn Fn() -> bool + Send + Sync>,
    ahead_s: i64,
}

impl Faulty {
    /// `put` returns what happens to the creation of the object with this key.
    pub fn over(store: Arc<dyn ObjectStore>, put: Arc<dyn Fn(&str) -> Put + Send + Sync>) -> Self {
        Faulty {
            store,
            put,
            before_get: Arc::new(|_| {}),
            is_away: Arc::new(|| false),
            ahead_s: 0,
        }
    }

    /// A request for which `is_away` returns `true` is not done: the store is not available.
    pub fn away(self, is_away: Arc<dyn Fn() -> bool + Send + Sync>) -> Self {
        Faulty { is_away, ..self }
    }

    /// The clock of the store is ahead by this number of seconds.
    pub fn clock_ahead(self, ahead_s: i64) -> Self {
        Faulty { ahead_s, ..self }
    }

    fn ask(&self) -> Result<()> {
        match (self.is_away)() {
            true => Err(unavailable()),
            false => Ok(()),
        }
    }

    /// `before_get` is called with the key before an object is read or asked for.
    pub fn before_get(self, before_get: Arc<dyn Fn(&str) + Send + Sync>) -> Self {
        Faulty { before_get, ..self }
    }
}

fn later(mut object: ObjectMeta, seconds: i64) -> ObjectMeta {
    let time = SystemTime::from(object.last_modified);
    let by = Duration::from_secs(seconds.unsigned_abs());
    object.last_modified = if seconds < 0 { time - by } else { time + by }.into();
    object
}

fn unavailable() -> Error {
    let source = "Server returned non-2xx status code: 503 Service Unavailable".into();
    Error::Generic {
        store: "S3",
        source,
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.ask()?;
        let (path, source) = (location.to_string(), "as the test wants it".into());
        match (self.put)(&path) {
            Put::Done => return self.store.put_opts(location, payload, options).await,
            Put::Lost => {}
            Put::Repeated => {
                self.store.put_opts(location, payload, options).await?;
            }
        }
        Err(Error::AlreadyExists { path, source })
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.ask()?;
        self.store.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.ask()?;
        (self.before_get)(location.as_ref());
        let mut found = self.store.get_opts(location, options).await?;
        found.meta = later(found.meta, self.ahead_s);
        Ok(found)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        match self.ask() {
            Ok(()) => self.store.delete_stream(locations),
            Err(error) => futures::stream::iter([Err(error)]).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.ask() {
            Ok(()) => {
                let ahead_s = self.ahead_s;
                let listed = self.store.list(prefix);
                listed.map_ok(move |it| later(it, ahead_s)).boxed()
            }
            Err(error) => futures::stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.ask()?;
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}
