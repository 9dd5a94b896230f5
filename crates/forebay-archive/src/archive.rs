//! An archive: a folder, or a prefix in an object store, with segments and the table of their index.
//!
//! ```text
//!  TO/segments/sensor=S/date=YYYY-MM-DD/hour=HH/SHA256.pcapng.zst      segments
//!  TO/index/_delta_log/… · TO/index/date=YYYY-MM-DD/part-….parquet     the Delta table of the index
//!  TO/sensors/S/…                                                      the identity of the sensor, and what it could not ship
//!  TO/holds/CASE.json                                                  packets that no expiry removes
//! ```

pub(crate) mod counted;
mod fault;
#[cfg(test)]
pub(crate) mod faulty;
mod folder;
mod name;
mod ranges;
mod salvage;
mod sensors;

pub(crate) use fault::Faults;
pub use fault::{OtherSegment, StoreFault};
pub use name::{BadRequest, printable, without_password, without_passwords};

use crate::segment::{self, Block, Directory, Tail};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use counted::{Counted, Reads};
use folder::Folder;
use futures::{StreamExt, TryStreamExt, stream::FuturesUnordered};
use object_store::{
    ClientOptions, Error, OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, PutPayload, RetryConfig, aws::AmazonS3Builder, azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder, local::LocalFileSystem, path::Path, prefix::PrefixStore,
};
use std::{
    fs::File,
    io::Read,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};
use url::Url;

/// Bytes at the end of a segment that are read first.
const TAIL_BYTES: u64 = 64 << 10;
/// Larger objects are sent in parts of this length, or longer ones.
const PART_BYTES: u64 = 8 << 20;
/// The most parts of an object. S3 takes 10,000.
const MAX_PARTS_OF_OBJECT: u64 = 9000;
/// Parts that are on their way at the same time.
const MAX_PARTS: usize = 4;
/// How long a request may take, apart from the time for its bytes.
const REQUEST_TIME: Duration = Duration::from_secs(120);
/// The time for the bytes of a request is that at this rate.
const MIN_BYTES_PER_SECOND: u64 = 4 << 10;
/// A segment that is older should have rows.
const IN_FLIGHT: Duration = Duration::from_secs(3600);
/// Ranges of an object with fewer bytes between them are read with one request, which takes less time than two. In a folder, a second
/// read is only a system call.
const GAP: u64 = OBJECT_STORE_COALESCE_DEFAULT;
const FOLDER_GAP: u64 = 16 << 10;
/// Requests that are made at the same time.
const MAX_AT_ONCE: usize = 16;
/// The object with the identity of the archive. No sensor has a name that begins with a dot.
const IDENTITY: &str = "sensors/.archive.json";

/// An open archive. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Archive {
    name: String,
    /// The store with the archive's prefix.
    store: Arc<dyn ObjectStore>,
    /// The same, for requests with many bytes: these have their own time limits.
    bulk: Arc<dyn ObjectStore>,
    /// The folder, if it is one on this machine.
    folder: Option<Folder>,
}

impl Archive {
    /// Opens an archive: a folder, or an URL that begins with `s3://`, `gs://`, `az://` or `file://`.
    ///
    /// Settings of object stores come from the environment: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`,
    /// `AWS_ENDPOINT_URL` and so on; `GOOGLE_…`; `AZURE_…`. `create`: a missing folder is created.
    ///
    /// # Errors
    /// The name is malformed, the settings are incomplete, or the folder does not exist.
    pub fn open(name: &str, create: bool) -> Result<Archive> {
        let given = name;
        // This is printed.
        let name = &*without_password(given);
        let is_url = given.contains("://");
        let schemes = ["s3:", "gs:", "az:", "file:"];
        let bad = |what: &str| BadRequest(format!("{name}: {what}"));
        ensure!(
            is_url || !schemes.iter().any(|it| given.starts_with(it)),
            bad(
                "is no URL: after the colon there must be two slashes. If it is a folder, begin with ./"
            )
        );
        let url = match is_url {
            false => None,
            true => {
                let url = Url::parse(given);
                Some(url.map_err(|error| bad(&format!("is no URL: {error}")))?)
            }
        };
        let url = match url {
            Some(url) if url.scheme() == "file" => {
                let path = url.to_file_path();
                return Self::of_folder(name, path.map_err(|()| bad("names no folder"))?, create);
            }
            Some(url) => url,
            None => return Self::of_folder(name, given.into(), create),
        };
        ensure!(
            url.password().is_none(),
            bad(
                "has a password, which other users of this machine can see in the list of processes. The settings of object stores are \
                 read from the environment; see \"Object stores\" in docs/archive.md"
            )
        );
        let incomplete = || {
            format!(
                "{name}: the settings of this object store are incomplete or malformed; see \"Object stores\" in docs/archive.md"
            )
        };
        let open = |client: ClientOptions| -> Result<Arc<dyn ObjectStore>> {
            Ok(match url.scheme() {
                "s3" | "s3a" => {
                    let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
                    let endpoint = endpoint.iter().find_map(|name| std::env::var(name).ok());
                    let mut builder = AmazonS3Builder::from_env()
                        .with_url(given)
                        .with_client_options(client)
                        .with_retry(retry());
                    if let Some(endpoint) = endpoint {
                        let is_plain = endpoint.starts_with("http://");
                        builder = builder.with_allow_http(is_plain).with_endpoint(endpoint);
                    }
                    Arc::new(builder.build().with_context(incomplete)?)
                }
                "gs" => {
                    let builder = GoogleCloudStorageBuilder::from_env().with_url(given);
                    let builder = builder.with_client_options(client).with_retry(retry());
                    Arc::new(builder.build().with_context(incomplete)?)
                }
                "az" | "azure" | "abfs" | "abfss" => {
                    let builder = MicrosoftAzureBuilder::from_env().with_url(given);
                    let builder = builder.with_client_options(client).with_retry(retry());
                    Arc::new(builder.build().with_context(incomplete)?)
                }
                other => bail!(bad(&format!(
                    "forebay knows no object store {other}://. Use a folder, s3://, gs:// or az://"
                ))),
            })
        };
        let store = open(client().with_timeout(REQUEST_TIME))?;
        let bulk = open(client().with_timeout_disabled())?;
        let prefix = Path::from_url_path(url.path())
            .map_err(|error| bad(&format!("has a malformed path: {error}")))?;
        Ok(Archive {
            name: name.into(),
            store: Arc::new(PrefixStore::new(store, prefix.clone())),
            bulk: Arc::new(PrefixStore::new(bulk, prefix)),
            folder: None,
        })
    }

    fn of_folder(name: &str, folder: PathBuf, create: bool) -> Result<Archive> {
        if create {
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("{name}: creating this folder"))?;
        }
        let folder = folder.canonicalize().with_context(|| {
            format!("{name}: opening this folder. If it should be an object store, begin with s3://, gs:// or az://")
        })?;
        let store = LocalFileSystem::new_with_prefix(&folder)
            .with_context(|| format!("{name}: opening it"))?;
        let store = Folder::over(store, folder);
        Ok(Archive {
            name: name.into(),
            store: Arc::new(store.clone()),
            bulk: Arc::new(store.clone()),
            folder: Some(store),
        })
    }

    /// Its name, as the user typed it, without what may be a password.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same archive with every request through `wrap`, for example to count them.
    pub fn wrapped(&self, wrap: impl Fn(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>) -> Archive {
        Archive {
            store: wrap(self.store.clone()),
            bulk: wrap(self.bulk.clone()),
            ..self.clone()
        }
    }

    /// The same archive with what is read from it counted.
    pub fn counted(&self, reads: &Arc<Reads>) -> Archive {
        let gap = match self.folder {
            Some(_) => FOLDER_GAP,
            None => GAP,
        };
        self.wrapped(|store| Arc::new(Counted::over(store, reads.clone(), gap)))
    }

    /// The store; paths are relative to the archive.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Reads a whole object; `None`: there is none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn get(&self, key: &str) -> Result<Option<Bytes>> {
        self.get_short(key, u64::MAX).await
    }

    /// Reads an object that other programs may have written; `None`: there is none, or it is longer than `max` bytes.
    ///
    /// # Errors
    /// The store failed.
    pub async fn get_short(&self, key: &str, max: u64) -> Result<Option<Bytes>> {
        let explain = |error| self.explain(error, &format!("reading {key}"));
        match self.store.get(&Path::from(key)).await {
            Ok(found) if found.meta.size > max => Ok(None),
            Ok(found) => Ok(Some(found.bytes().await.map_err(explain)?)),
            Err(Error::NotFound { .. }) if !self.is_bucket_missing().await => Ok(None),
            Err(error) => Err(explain(error)),
        }
    }

    /// A missing object and a missing bucket look alike in a single answer.
    async fn is_bucket_missing(&self) -> bool {
        if self.folder.is_some() {
            return false;
        }
        let first = self.store.list(None).next().await;
        matches!(first, Some(Err(error)) if error.to_string().contains("NoSuchBucket") || matches!(error, Error::NotFound { .. }))
    }

    /// The length of an object; `None`: there is none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn len(&self, key: &str) -> Result<Option<u64>> {
        Ok(self.head(key).await?.map(|it| it.size))
    }

    /// The length and the time of an object; `None`: there is none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn head(&self, key: &str) -> Result<Option<ObjectMeta>> {
        match self.store.head(&Path::from(key)).await {
            Ok(found) => Ok(Some(found)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.explain(error, &format!("asking for {key}"))),
        }
    }

    /// Creates an object; `false`: there is one with this key, which stays as it is.
    ///
    /// # Errors
    /// The store failed.
    pub async fn put_new(&self, key: &str, bytes: Bytes) -> Result<bool> {
        let (path, len) = (Path::from(key), bytes.len() as u64);
        let put = self
            .bulk
            .put_opts(&path, PutPayload::from(bytes), PutMode::Create.into());
        match timed(len, put).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(self.explain(error, &format!("creating {key}"))),
        }
    }

    /// Creates or replaces an object.
    ///
    /// # Errors
    /// The store failed.
    pub async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        let len = bytes.len() as u64;
        let path = Path::from(key);
        let put = self.bulk.put(&path, PutPayload::from(bytes));
        let done = timed(len, put).await;
        done.map(|_| ())
            .map_err(|error| self.explain(error, &format!("writing {key}")))
    }

    /// Creates an object from a file, from its present position on; `false`: there is one with this key. The object appears as a
    /// whole or not at all.
    ///
    /// Object stores create a long object from parts, and then have no way to refuse an existing one. The caller must be the only
    /// one that creates this key, as the owner of a spool is for its segments.
    ///
    /// # Errors
    /// The file or the store failed.
    pub async fn put_file(&self, key: &str, file: &mut File, len: u64) -> Result<bool> {
        if let Some(folder) = &self.folder {
            let (folder, to) = (folder.clone(), key.to_owned());
            let mut file = file.try_clone().context("reading the packed segment")?;
            let name = self.name.clone();
            let put = move || {
                let cleaned = folder.remove_leftovers(&to);
                cleaned.with_context(|| {
                    format!("{name}: removing what a killed upload of {to} left")
                })?;
                match folder.put(&Path::from(&*to), &mut file, false) {
                    Ok(_) => Ok(true),
                    Err(Error::AlreadyExists { .. }) => Ok(false),
                    Err(error) => Err(anyhow::Error::new(error)),
                }
            };
            let put = tokio::task::spawn_blocking(put).await?;
            return put.map_err(|error| match error.downcast::<Error>() {
                Ok(error) => self.explain(error, &format!("creating {key}")),
                Err(error) => error,
            });
        }
        let mut read = |len: u64| -> Result<Bytes> {
            let mut bytes = Vec::with_capacity(len as usize);
            let read = file.take(len).read_to_end(&mut bytes);
            let read = read.context("reading the packed segment")?;
            ensure!(read as u64 == len, "the packed segment became shorter");
            Ok(bytes.into())
        };
        if len <= PART_BYTES {
            return self.put_new(key, read(len)?).await;
        }
        if self.len(key).await?.is_some() {
            return Ok(false);
        }
        let explain = |error| self.explain(error, &format!("creating {key}"));
        let path = Path::from(key);
        let upload = timed(0, self.bulk.put_multipart(&path)).await;
        let mut upload = upload.map_err(explain)?;
        let mut sending = FuturesUnordered::new();
        let (mut left, part_len) = (len, part_len(len));
        let sent = loop {
            if left > 0 && sending.len() < MAX_PARTS {
                let bytes = left.min(part_len);
                left -= bytes;
                match read(bytes) {
                    Ok(part) => sending.push(timed(bytes, upload.put_part(part.into()))),
                    Err(error) => break Err(error),
                }
                continue;
            }
            match sending.next().await {
                Some(Ok(())) => {}
                Some(Err(error)) => break Err(explain(error)),
                None => break Ok(()),
            }
        };
        if let Err(error) = sent {
            drop(sending);
            // If this fails, too, the store keeps the parts until a rule of the bucket removes them.
            let _ = timed(0, upload.abort()).await;
            return Err(error);
        }
        timed(0, upload.complete()).await.map_err(explain)?;
        Ok(true)
    }

    /// What distinguishes this archive from others, whatever it is called; `None`: it has no identity yet.
    ///
    /// # Errors
    /// The store failed, or the identity is damaged.
    pub async fn identity(&self) -> Result<Option<String>> {
        let Some(bytes) = self.get(IDENTITY).await? else {
            return Ok(None);
        };
        let value: Option<serde_json::Value> = serde_json::from_slice(&bytes).ok();
        let id = value.and_then(|it| Some(it["id"].as_str()?.to_owned()));
        id.map(Some)
            .with_context(|| format!("{}: {IDENTITY} is damaged", self.name))
    }

    /// The identity of the archive, which is `new` if it has none yet.
    ///
    /// # Errors
    /// As [`identity`](Archive::identity).
    pub async fn identity_or(&self, new: &str) -> Result<String> {
        if let Some(id) = self.identity().await? {
            return Ok(id);
        }
        let value = serde_json::json!({"schema": 1, "id": new});
        // Another sensor may be faster.
        self.put_new(IDENTITY, value.to_string().into()).await?;
        let id = self.identity().await?;
        id.with_context(|| format!("{}: {IDENTITY} was created and is not there", self.name))
    }

    /// Deletes an object; it may be gone already.
    ///
    /// # Errors
    /// The store failed.
    pub async fn delete(&self, key: &str) -> Result<()> {
        match self.store.delete(&Path::from(key)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.explain(error, &format!("deleting {key}"))),
        }
    }

    /// All objects in a folder of the archive.
    ///
    /// # Errors
    /// The store failed.
    pub async fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>> {
        let listed = self
            .store
            .list(Some(&Path::from(folder)))
            .try_collect()
            .await;
        listed.map_err(|error| self.explain(error, &format!("listing {folder}")))
    }

    /// The objects in a folder of the archive whose keys sort after `after`.
    ///
    /// # Errors
    /// The store failed.
    pub async fn list_after(&self, folder: &str, after: &str) -> Result<Vec<ObjectMeta>> {
        let (folder, after) = (Path::from(folder), Path::from(after));
        let listed = self.store.list_with_offset(Some(&folder), &after);
        let listed = listed.try_collect().await;
        listed.map_err(|error| self.explain(error, &format!("listing {folder}")))
    }

    /// Reads the directory of a segment. `len`: its length, if it is known.
    ///
    /// # Errors
    /// The store failed, or the segment is damaged.
    pub async fn directory(&self, key: &str, len: Option<u64>) -> Result<Directory> {
        let len = match len {
            Some(len) => len,
            None => {
                let len = self.len(key).await?;
                len.with_context(|| format!("{}: the segment {key} is missing", self.name))?
            }
        };
        let mut wanted = len.min(TAIL_BYTES);
        loop {
            let last = self.range(key, len - wanted..len).await?;
            let tail = segment::read_tail(&last, len);
            match tail.with_context(|| format!("{}: the segment {key} is damaged", self.name))? {
                Tail::Found(directory) => {
                    if !segment::is_of_key(&directory, key) {
                        let text = format!("{}: the segment {key} is damaged", self.name);
                        return Err(anyhow::Error::new(OtherSegment).context(text));
                    }
                    return Ok(*directory);
                }
                Tail::More(more) => wanted = more,
            }
        }
    }

    /// Reads the directories of segments, several at a time. The results have the order of `segments`.
    ///
    /// # Errors
    /// The store did not return many of them, one after the other.
    pub async fn directories(&self, segments: &[ObjectMeta]) -> Result<Vec<Result<Directory>>> {
        let read = segments
            .iter()
            .map(async |it| self.directory(it.location.as_ref(), Some(it.size)).await);
        let mut read = std::pin::pin!(futures::stream::iter(read).buffered(MAX_AT_ONCE));
        let (mut directories, mut faults) = (Vec::with_capacity(segments.len()), Faults::default());
        while let Some(directory) = read.next().await {
            directories.push(faults.pass(directory)?);
        }
        Ok(directories)
    }

    /// Reads one block of a segment and unpacks it.
    ///
    /// # Errors
    /// The store failed, or the block is damaged.
    pub async fn block(&self, key: &str, block: &Block) -> Result<Vec<u8>> {
        let stored = self
            .range(key, block.offset..block.offset + block.length)
            .await?;
        let plain = segment::unpack(&stored, block.plain_length, key.ends_with(".zst"));
        plain.with_context(|| {
            format!(
                "{}: the segment {key} is damaged at byte {}",
                self.name, block.offset
            )
        })
    }

    /// Makes the names of the objects in the folder of `key` durable: the program that created them may have been killed before that.
    /// Object stores answer when an object is durable.
    pub(crate) fn sync_names(&self, key: &str) -> Result<()> {
        match &self.folder {
            Some(folder) => folder
                .sync_names(key)
                .with_context(|| format!("{}: making {key} durable", self.name)),
            None => Ok(()),
        }
    }

    /// The error of the store, with what to do about it.
    pub fn explain(&self, error: Error, tried: &str) -> anyhow::Error {
        fault::explain(&self.name, error, tried)
    }
}

/// Whether an object is so new that its rows may not be in the index yet: sending a segment over a slow network and reading it back
/// takes minutes.
pub(crate) fn is_young(object: &ObjectMeta, now: SystemTime) -> bool {
    let age = now.duration_since(object.last_modified.into());
    // An error: it is in the future, by another clock.
    age.map_or(true, |age| age < IN_FLIGHT)
}

/// Makes requests, several at a time.
///
/// # Errors
/// That of the first request that failed.
pub(crate) async fn at_once<T, F: Future<Output = Result<T>>>(
    requests: impl Iterator<Item = F>,
) -> Result<Vec<T>> {
    let requests = futures::stream::iter(requests).buffered(MAX_AT_ONCE);
    requests.try_collect().await
}

/// The length of the parts of an object.
fn part_len(len: u64) -> u64 {
    PART_BYTES.max(len.div_ceil(MAX_PARTS_OF_OBJECT))
}

fn client() -> ClientOptions {
    ClientOptions::new().with_connect_timeout(Duration::from_secs(5))
}

/// Waits for a request that sends or returns `len` bytes, longer for more bytes: a slow network is not an outage.
async fn timed<T>(
    len: u64,
    request: impl Future<Output = object_store::Result<T>>,
) -> object_store::Result<T> {
    let limit = REQUEST_TIME + Duration::from_secs(len / MIN_BYTES_PER_SECOND);
    match tokio::time::timeout(limit, request).await {
        Ok(done) => done,
        Err(_) => Err(Error::Generic {
            store: "archive",
            source: format!("the request timed out after {} s", limit.as_secs()).into(),
        }),
    }
}

/// `ship` tries again by itself, and other commands should not seem to hang.
fn retry() -> RetryConfig {
    RetryConfig {
        max_retries: 4,
        retry_timeout: Duration::from_secs(20),
        ..RetryConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_any_length_has_fewer_parts_than_a_store_takes() {
        for len in [1, PART_BYTES, 84 << 30, 5 << 40] {
            assert!(len.div_ceil(part_len(len)) <= MAX_PARTS_OF_OBJECT, "{len}");
        }
        assert_eq!(part_len(1 << 30), PART_BYTES);
    }
}
