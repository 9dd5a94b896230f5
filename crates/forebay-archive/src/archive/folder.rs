//! A folder as an object store in which an object is durable when it appears.
//!
//! ```text
//!  bytes ─▶ KEY#N ── fsync ──▶ link to KEY, which fails if it exists ─▶ remove KEY#N ─▶ fsync the folders
//! ```
//! The bytes are synced before they have their name. So an object that exists never has bytes whose sync failed: the kernel reports such
//! a failure once, and a second sync of the same file means nothing. Folders are synced each time an object is created or is found to
//! exist, because the program that created it may have been killed before that.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result, UploadPart, local::LocalFileSystem, path::Path,
};
use std::{
    fmt,
    fs::{self, File},
    io::{self, Read, Write},
    ops::Range,
    path::{Path as FilePath, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Objects in files.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    store: Arc<LocalFileSystem>,
    /// The archive. Folders above it are not synced.
    top: PathBuf,
}

impl Folder {
    pub(super) fn over(store: LocalFileSystem, top: PathBuf) -> Folder {
        Folder {
            store: store.into(),
            top,
        }
    }

    /// Creates or replaces an object. The thread waits for the disk.
    pub(super) fn put(
        &self,
        location: &Path,
        bytes: &mut dyn Read,
        replaces: bool,
    ) -> Result<PutResult> {
        let path = self.store.path_to_filesystem(location)?;
        let done = write(&path, bytes, replaces).and_then(|()| sync_folders(&path, &self.top));
        match done {
            Ok(()) => Ok(PutResult {
                e_tag: None,
                version: None,
            }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                sync_folders(&path, &self.top).map_err(generic)?;
                Err(Error::AlreadyExists {
                    path: location.to_string(),
                    source: error.into(),
                })
            }
            Err(error) => Err(generic(error)),
        }
    }

    async fn put_bytes(
        &self,
        location: &Path,
        bytes: PutPayload,
        replaces: bool,
    ) -> Result<PutResult> {
        let (folder, location) = (self.clone(), location.clone());
        let put = move || {
            let bytes: Vec<Bytes> = bytes.into_iter().collect();
            folder.put(&location, &mut Pieces(bytes.into_iter()), replaces)
        };
        tokio::task::spawn_blocking(put).await.map_err(generic)?
    }

    /// Makes the names of objects in the folder of `key` durable.
    pub(super) fn sync_names(&self, key: &str) -> io::Result<()> {
        sync_folders(&self.top.join(key), &self.top)
    }

    /// Removes what killed uploads of this object left.
    pub(super) fn remove_leftovers(&self, key: &str) -> io::Result<()> {
        let path = self.top.join(key);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(());
        };
        let name = format!("{}#", name.to_string_lossy());
        let entries = match fs::read_dir(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&name) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Writes `path#N`, syncs it, and gives it its name. `AlreadyExists`: the name is in use.
fn write(path: &FilePath, bytes: &mut dyn Read, replaces: bool) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let (mut file, part) = loop {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Relaxed); // it publishes nothing but itself
        // Digits after a number sign: `LocalFileSystem` does not list such files.
        let mut part = path.to_owned().into_os_string();
        part.push(format!("#{}{next:010}", std::process::id()));
        match File::options().write(true).create_new(true).open(&part) {
            // Another machine has the same number, or a process that was killed had it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => break (file?, PathBuf::from(part)),
        }
    };
    let written = io::copy(bytes, &mut file)
        .and_then(|_| file.flush())
        .and_then(|()| file.sync_all());
    let named = written.and_then(|()| match replaces {
        true => fs::rename(&part, path),
        false => fs::hard_link(&part, path),
    });
    if named.is_err() || !replaces {
        let _ = fs::remove_file(&part);
    }
    named
}

/// Syncs the folders of a file, up to `top`: each of them may be new.
fn sync_folders(path: &FilePath, top: &FilePath) -> io::Result<()> {
    let mut parents = path
        .ancestors()
        .skip(1)
        .take_while(|it| it.starts_with(top));
    parents.try_for_each(|it| File::open(it)?.sync_all())
}

fn generic(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Generic {
        store: "folder",
        source: Box::new(error),
    }
}

/// Pieces of bytes, one after the other.
struct Pieces(std::vec::IntoIter<Bytes>);

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while let Some(piece) = self.0.as_mut_slice().first_mut() {
            if piece.is_empty() {
                self.0.next();
                continue;
            }
            let len = piece.len().min(out.len());
            out[..len].copy_from_slice(&piece.split_to(len));
            return Ok(len);
        }
        Ok(0)
    }
}

/// An upload in parts, which are kept in memory until it is complete.
#[derive(Debug)]
struct Upload {
    folder: Folder,
    location: Path,
    parts: Vec<Bytes>,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, part: PutPayload) -> UploadPart {
        self.parts.extend(part);
        Box::pin(async { Ok(()) })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let parts = std::mem::take(&mut self.parts);
        let bytes = parts.into_iter().collect();
        self.folder.put_bytes(&self.location, bytes, true).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.parts.clear();
        Ok(())
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Folder {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        match options.mode {
            PutMode::Create => self.put_bytes(location, payload, false).await,
            PutMode::Overwrite => self.put_bytes(location, payload, true).await,
            PutMode::Update(_) => self.store.put_opts(location, payload, options).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Ok(Box::new(Upload {
            folder: self.clone(),
            location: location.clone(),
            parts: Vec::new(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.store.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.store.rename_opts(from, to, options).await
    }
}
