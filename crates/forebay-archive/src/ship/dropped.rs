//! `SPOOL/dropped`: records of files that were removed before they were shipped.
//!
//! A record is written before its file is removed. If the disk has no room for it, the file is renamed instead, which needs none: its new
//! name has the record, which is written when the file is empty.

use super::state::is_full;
use anyhow::{Context, Result};
use forebay::store::open_existing;
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

const FOLDER: &str = "dropped";
const RESERVE: &str = ".forebay-reserve";
/// Bytes that are kept for records.
const RESERVE_BYTES: usize = 64 << 10;
/// What the name of a file begins with that was dropped on a full disk. The name of its record follows, and the record.
const HIDDEN: &str = ".dropped ";

/// The records in a spool.
pub(super) struct Dropped {
    spool: PathBuf,
}

impl Dropped {
    pub(super) fn of(spool: &Path) -> Dropped {
        Dropped {
            spool: spool.into(),
        }
    }

    /// Keeps some room. Without it, a full disk could only be relieved by renaming files.
    pub(super) fn reserve(&self) {
        let path = self.spool.join(RESERVE);
        let is_there = fs::metadata(&path).is_ok_and(|it| it.len() == RESERVE_BYTES as u64);
        if !is_there && fs::write(&path, vec![b' '; RESERVE_BYTES]).is_err() {
            self.give_back(); // the disk is full: later
        }
    }

    /// Gives the room back.
    pub(super) fn give_back(&self) {
        let _ = fs::remove_file(self.spool.join(RESERVE));
    }

    /// Removes a file, and leaves a record with this name first.
    pub(super) fn remove(&self, file: &Path, name: &str, record: &str) -> Result<()> {
        let written = self.write(name, record).or_else(|error| {
            if !is_full(&error) {
                return Err(error);
            }
            self.give_back();
            self.write(name, record)
        });
        let removed = match written {
            Err(error) if is_full(&error) => {
                fs::rename(file, self.spool.join(format!("{HIDDEN}{name} {record}")))
            }
            written => {
                let folder = self.spool.join(FOLDER);
                written
                    .with_context(|| format!("{}: recording a dropped file", folder.display()))?;
                let removed = fs::remove_file(file);
                if removed.is_err() {
                    let _ = fs::remove_file(folder.join(name)); // it stays, so it is not counted as dropped
                }
                removed
            }
        };
        // After a power cut it must not be there again when its record has left the spool.
        let _ = File::open(&self.spool).and_then(|folder| folder.sync_all());
        removed.with_context(|| format!("{}: removing it", file.display()))?;
        self.empty_hidden()
    }

    fn write(&self, name: &str, record: &str) -> io::Result<()> {
        let folder = self.spool.join(FOLDER);
        let path = folder.join(name);
        let part = path.with_extension("part");
        fs::create_dir_all(&folder)?;
        let mut to = File::create(&part)?;
        to.write_all(record.as_bytes())?;
        to.sync_all()?;
        fs::rename(&part, &path)?;
        File::open(&folder)?.sync_all()
    }

    /// Empties the files whose names have their records, and writes these.
    fn empty_hidden(&self) -> Result<()> {
        for path in files_in(&self.spool)? {
            let hidden = path.file_name().unwrap_or_default().to_string_lossy();
            let record = hidden.strip_prefix(HIDDEN);
            let parts = record.and_then(|it| it.split_once(' '));
            let Some((name, record)) = parts.filter(|(name, _)| name.ends_with(".json")) else {
                continue; // another program's
            };
            let emptied = open_existing(&path, File::options().write(true));
            let written = emptied
                .and_then(|file| file.set_len(0))
                .and_then(|()| self.write(name, record))
                .and_then(|()| fs::remove_file(&path));
            match written {
                Err(error) if is_full(&error) => {} // another program took the room: later
                written => written.with_context(|| format!("{}: recording it", path.display()))?,
            }
        }
        Ok(())
    }

    /// The records, after those that wait for room were written.
    pub(super) fn list(&self) -> Result<Vec<PathBuf>> {
        self.empty_hidden()?;
        let folder = self.spool.join(FOLDER);
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let mut paths = files_in(&folder)?;
        paths.retain(|path| path.extension().is_some_and(|it| it == "json"));
        Ok(paths)
    }
}

/// The files of a folder.
pub(super) fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = || -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?;
        entries.map(|entry| Ok(entry?.path())).collect()
    };
    read().with_context(|| format!("{}: reading this folder", folder.display()))
}
