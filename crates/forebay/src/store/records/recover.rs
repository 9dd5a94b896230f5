//! A record file after a crash: what it holds, and the rest cut off.

use super::reader::{Reader, Recovered};
use crate::{Error, Result};
use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
};

/// Says what the file at `path` holds, and changes nothing.
///
/// # Errors
/// It cannot be opened or read.
pub fn check(path: &Path) -> Result<Recovered> {
    let file = File::open(path).map_err(|cause| failed(path, "opening", cause))?;
    let found = Reader::new(file).finish();
    found.map_err(|error| error.about(path.display().to_string()))
}

/// Cuts off what a crash left behind the last whole block of the file at `path`, and says what that was. Afterwards the
/// file holds what is reported, durably, and nothing else. Nobody may write it any more: whatever comes meanwhile may be cut
/// off, too.
///
/// ```
/// use forebay::store::{Config, FileSink, Records, recover};
/// use std::io::Write;
/// let path = std::env::temp_dir().join(format!("forebay-doc-recover-{}", std::process::id()));
/// let mut log = Records::<[u8]>::in_blocks(FileSink::create(&path, true)?, &Config::default())?;
/// log.append(b"kept")?;
/// log.close().wait_to_the_end();
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
/// It is no regular file; it cannot be opened for writing, read, cut or synced. Also, nothing is cut of a file without a single
/// whole block: it may be none of ours.
pub fn recover(path: &Path) -> Result<Recovered> {
    // Not before it is known to be a file: a FIFO would be waited for, and read to an end that never comes.
    let about = fs::metadata(path).map_err(|cause| failed(path, "opening", cause))?;
    if !about.is_file() {
        let name = path.display().to_string();
        return Err(Error::new(
            name,
            "is no regular file: nothing can be cut there",
        ));
    }
    // One descriptor for all of it: what is cut is what was read, whoever gives the name to another file meanwhile.
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|cause| failed(path, "opening for writing", cause))?;
    let found = Reader::new(&file).finish();
    let found = found.map_err(|error| error.about(path.display().to_string()))?;
    if found.cut.is_some() {
        if found.blocks == 0 {
            return Err(Error::new(
                path.display().to_string(),
                "cutting: there is no whole block in front",
            )
            .advise("If it is a record file, it holds nothing: remove it"));
        }
        file.set_len(found.bytes)
            .map_err(|cause| failed(path, "cutting", cause))?;
    }
    // Also where all is whole: who died may have written it, and not synced.
    file.sync_all()
        .map_err(|cause| failed(path, "syncing", cause))?;
    Ok(found)
}

fn failed(path: &Path, tried: &str, cause: io::Error) -> Error {
    Error::new(path.display().to_string(), tried).because(cause)
}
