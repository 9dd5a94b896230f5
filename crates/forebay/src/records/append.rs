//! Opens a record file to append to it.
//!
//! ```text
//!  │ block │ block │ block │ torn │        locked, read, cut after the last whole block
//!                          │ block │ …     the same file number, the next record number
//! ```

use super::{
    Records,
    block::{MAGIC, Shape},
    reader::Recovered,
    recover,
};
use crate::{
    Error, Result,
    error::Code,
    store::{FileConfig, FileSink, Sink, Start, StoreConfig, create_new},
};
use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

/// What records in blocks may be: of one type, or bytes.
pub trait InBlocks {
    /// The length of the records.
    const SHAPE: Shape;

    /// Checks what can be checked before a file is opened.
    fn check(config: &StoreConfig) -> Result<()>;

    /// Records whose blocks hold the number `file`, or a random one, continued at `start`.
    fn blocks(
        sink: Box<dyn Sink>,
        config: &StoreConfig,
        file: Option<u64>,
        start: Start,
    ) -> Result<Records<Self>>;
}

impl<T: InBlocks + ?Sized> Records<T> {
    /// Opens the file at `path` to append to it, or creates it (mode 0600). The file is locked, read to its end, and truncated
    /// after its last whole block; what was cut off is reported. Existing records stay, and the new ones continue their numbers.
    ///
    /// [`Totals`](crate::store::Totals) count the new records only.
    ///
    /// # Errors
    /// * Those of `in_blocks`.
    /// * It is not a regular file; it cannot be opened, locked, read, truncated or synced.
    /// * A store of this or another process writes it.
    /// * It holds records of another length, or contains no block at all.
    /// * Blocks follow the damage. Truncating would lose them; call [`recover`](recover()) to do so.
    pub fn open_append(
        path: impl AsRef<Path>,
        file: &FileConfig,
        config: &StoreConfig,
    ) -> Result<(Self, Recovered)> {
        T::check(config)?;
        let opened = open(path.as_ref(), Some(T::SHAPE), file)?;
        let log = T::blocks(opened.sink, config, opened.file, opened.start)?;
        Ok((log, opened.found))
    }
}

/// A file truncated after its last whole block, and how to continue it.
pub(super) struct Opened {
    pub sink: Box<dyn Sink>,
    pub start: Start,
    /// The file number stored in its blocks, if it has any.
    pub file: Option<u64>,
    pub found: Recovered,
}

/// Opens or creates the file at `path`, for records of `shape`, or of the shape that it has.
pub(super) fn open(path: &Path, shape: Option<Shape>, config: &FileConfig) -> Result<Opened> {
    match create_new(path) {
        Ok(made) => drop(made),
        Err(there) if there.kind() == io::ErrorKind::AlreadyExists => {}
        Err(cause) => return Err(recover::failed(path, "creating the file", cause)),
    }
    let file = recover::open(path)?;
    let (found, last) = recover::read(&file, path)?;
    refuse(path, &file, shape, &found)?;
    recover::cut(&file, path, &found)?;
    let start = Start {
        bytes: found.bytes,
        records: last.map_or(0, |head| head.next()),
    };
    Ok(Opened {
        sink: FileSink::after(file, path, config, found.bytes)?,
        start,
        file: last.map(|head| head.file),
        found,
    })
}

/// Refuses if appending would mix records, or would lose something that a crash of the writer does not explain.
fn refuse(path: &Path, file: &File, shape: Option<Shape>, found: &Recovered) -> Result<()> {
    let error = |code, what: &str, advice: &str| {
        let error = Error::coded(
            code,
            path.display().to_string(),
            format!("appending: {what}"),
        );
        Err(error.advise(advice))
    };
    if let (Some(there), Some(shape)) = (found.shape, shape)
        && there != shape
    {
        let what = format!("it holds {}, and these are {}", of(there), of(shape));
        return error(
            Code::Invalid,
            &what,
            "Open it with the type of its records, or choose another file",
        );
    }
    let Some(cut) = found.cut else {
        return Ok(());
    };
    if found.blocks == 0 && !begins_with_a_block(file) {
        let advice =
            "Choose another file; if this is a record file, it holds no records: remove it";
        return error(Code::Damaged, "there is no block of records in it", advice);
    }
    if cut.later.blocks > 0 {
        let what = format!(
            "{} at byte {}, and {} blocks follow that",
            cut.fault, cut.at, cut.later.blocks
        );
        return error(
            Code::Damaged,
            &what,
            "Copy the file, then cut it there with records::recover",
        );
    }
    Ok(())
}

fn of(shape: Shape) -> String {
    match shape {
        Shape::Fixed(bytes) => format!("records of {bytes} bytes"),
        Shape::Varying => "records of any length".into(),
    }
}

/// Whether the first bytes, if any, are those of a block. Then the whole file is what a crash left of its first block.
fn begins_with_a_block(file: &File) -> bool {
    let mut begin = [0; MAGIC.len()];
    let len = file.read_at(&mut begin, 0).unwrap_or(0);
    begin[..len] == MAGIC[..len]
}
