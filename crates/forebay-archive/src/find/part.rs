//! A file that gets its name once it is whole.

use anyhow::{Context, Result};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

/// A file that is being written beside the place where it will be. If it is dropped before [`finish`](PartFile::finish), it is removed.
#[derive(Debug)]
pub struct PartFile {
    part: PathBuf,
    path: PathBuf,
}

impl PartFile {
    /// Creates `PATH.PID.part`. A pipe or a device is opened itself, and there is no part.
    ///
    /// # Errors
    /// The file cannot be created, or there is one that cannot be written.
    pub fn create(path: &Path) -> Result<(File, Option<PartFile>)> {
        let creating = || format!("{}: creating it", path.display());
        let old = fs::metadata(path).ok();
        if let Some(old) = &old {
            let file = File::options().write(true).open(path);
            let file = file.with_context(creating)?;
            if !old.is_file() {
                return Ok((file, None));
            }
        }
        // A link keeps leading to the file.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let mut part = path.clone().into_os_string();
        part.push(format!(".{}.part", std::process::id()));
        let file = File::options().write(true).create_new(true).open(&part);
        let file = file.with_context(creating)?;
        let part = PartFile {
            part: part.into(),
            path,
        };
        if let Some(old) = old {
            file.set_permissions(old.permissions())
                .with_context(creating)?;
        }
        Ok((file, Some(part)))
    }

    /// Gives the file its name, and replaces the one that had it.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub fn finish(self) -> Result<()> {
        fs::rename(&self.part, &self.path)
            .with_context(|| format!("{}: creating it", self.path.display()))
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.part); // after `finish` it is not there
    }
}
