//! Opens a record file to go on where it ends.
//!
//! ```text
//!  │ block │ block │ block │ torn │        locked, read, cut after the last whole block
//!                          │ block │ …     the same file number, the next record number
//! ```

use super::{
    block::{MAGIC, Shape},
    reader::Recovered,
    recover,
};
use crate::{
    Error, Result,
    store::{FileConfig, FileSink, Sink, appender::Start, sink::create_new},
};
use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

/// A file that is cut back to its last whole block, and how to go on.
pub(super) struct Opened {
    pub sink: Box<dyn Sink>,
    pub start: Start,
    /// The number of the file in its blocks, where it has any.
    pub file: Option<u64>,
    pub found: Recovered,
}

/// Opens the file at `path`, or makes it, for records of `shape`.
pub(super) fn open(path: &Path, shape: Shape, config: &FileConfig) -> Result<Opened> {
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

/// Where going on would lose something that no crash of a writer explains, or mix records.
fn refuse(path: &Path, file: &File, shape: Shape, found: &Recovered) -> Result<()> {
    let error = |what: &str, advice: &str| {
        let error = Error::new(path.display().to_string(), format!("appending: {what}"));
        Err(error.advise(advice))
    };
    if let Some(there) = found.shape.filter(|&there| there != shape) {
        let what = format!("it holds {}, and these are {}", of(there), of(shape));
        return error(
            &what,
            "Open it with the type of its records, or name another file",
        );
    }
    let Some(cut) = found.cut else {
        return Ok(());
    };
    if found.blocks == 0 && !begins_with_a_block(file) {
        let advice = "Name another file; if this is a record file, it holds nothing: remove it";
        return error("there is no block of records in it", advice);
    }
    if cut.later.blocks > 0 {
        let what = format!(
            "{} at byte {}, and {} blocks follow that",
            cut.fault, cut.at, cut.later.blocks
        );
        return error(
            &what,
            "Copy the file, then cut it there with store::recover",
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

/// Whether the first bytes are those of a block, as far as there are any: then all of the file is what a crash left of one.
fn begins_with_a_block(file: &File) -> bool {
    let mut begin = [0; MAGIC.len()];
    let len = file.read_at(&mut begin, 0).unwrap_or(0);
    begin[..len] == MAGIC[..len]
}
