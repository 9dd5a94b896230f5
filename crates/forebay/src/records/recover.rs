//! Inspects a record file after a crash, and truncates what is not whole.

use super::{
    block::Head,
    reader::{Reader, Recovered},
};
use crate::{
    Error, Result,
    error::Code,
    store::{open_existing, written_elsewhere},
    sys::file as sys,
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
};

/// Reports what the file at `path` holds, and changes nothing.
///
/// # Errors
/// It cannot be opened or read.
pub fn check(path: impl AsRef<Path>) -> Result<Recovered> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|cause| failed(path, "opening", cause))?;
    let found = Reader::new(file).finish();
    found.map_err(|error| error.about(path.display().to_string()))
}

/// Cuts off what a crash left after the last whole block of the file at `path`, and reports what was cut. Afterwards the file
/// holds exactly what is reported, durably. [`Records::open_append`](crate::records::Records) does this itself, so it is not needed
/// before appending.
///
/// ```
/// use forebay::{records::{Records, recover}, store::{StoreConfig, FileConfig, FileSink}};
/// use std::io::Write;
/// let path = std::env::temp_dir().join(format!("forebay-doc-recover-{}", std::process::id()));
/// let mut log = Records::<[u8]>::in_blocks(FileSink::create(&path, &FileConfig::default())?, &StoreConfig::default())?;
/// log.append(b"kept")?;
/// log.close().finish();
/// let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
/// file.write_all(b"torn").unwrap();
///
/// let found = recover(&path)?;
/// assert_eq!((found.records, found.cut.expect("a torn block").bytes), (1, 4));
/// assert_eq!(recover(&path)?.cut, None);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// * It is not a regular file; it cannot be opened for writing, locked, read, truncated or synced.
/// * A store of this or another process writes it: it is locked.
/// * There is something to cut but not a single whole block: it may not be a record file.
pub fn recover(path: impl AsRef<Path>) -> Result<Recovered> {
    let path = path.as_ref();
    let file = open(path)?;
    let (found, _) = read(&file, path)?;
    if found.cut.is_some() && found.blocks == 0 {
        return Err(Error::coded(
            Code::Damaged,
            path.display().to_string(),
            "cutting: there is no whole block before the damage",
        )
        .advise("If it is a record file, it holds no whole records: remove it"));
    }
    cut(&file, path, &found)?;
    Ok(found)
}

/// Opens a regular file to read and write it, and locks it.
pub(super) fn open(path: &Path) -> Result<File> {
    // Only once it is known to be a regular file: opening a FIFO could block, and it might never end.
    let about = fs::metadata(path).map_err(|cause| failed(path, "opening", cause))?;
    if !about.is_file() {
        let name = path.display().to_string();
        return Err(Error::invalid(
            name,
            "is no regular file: nothing can be cut there",
        ));
    }
    // Use one descriptor throughout: what is cut is what was read, even if another file gets the name meanwhile.
    let file = open_existing(path, OpenOptions::new().read(true).write(true));
    let file = file.map_err(|cause| failed(path, "opening for writing", cause))?;
    match sys::lock(&file) {
        Ok(true) => Ok(file),
        Ok(false) => Err(written_elsewhere(path)),
        Err(cause) => Err(failed(path, "locking", cause)),
    }
}

/// What the file holds, and the head of its last whole block.
pub(super) fn read(file: &File, path: &Path) -> Result<(Recovered, Option<Head>)> {
    let found = Reader::new(file).finish_with_last();
    found.map_err(|error| error.about(path.display().to_string()))
}

/// Truncates the file after the last whole block, and syncs it.
pub(super) fn cut(file: &File, path: &Path, found: &Recovered) -> Result<()> {
    if found.cut.is_some() {
        file.set_len(found.bytes)
            .map_err(|cause| failed(path, "cutting", cause))?;
    }
    // Sync even if everything is whole: a process that died may have written it without syncing.
    let synced = file.sync_all();
    synced.map_err(|cause| failed(path, "syncing", cause))
}

pub(super) fn failed(path: &Path, tried: &str, cause: io::Error) -> Error {
    Error::new(path.display().to_string(), tried).because(cause)
}
