//! The file of `--metrics-file`, for the textfile collector of Prometheus' node exporter.
//!
//! Each version is written beside it as `NAME.part` and replaces it by `rename`, so that a reader sees a whole version.

use anyhow::{Context, Result, bail};
use forebay::store::resolve;
use std::{
    collections::hash_map::RandomState,
    fs::{File, OpenOptions, remove_file, rename, symlink_metadata},
    hash::BuildHasher,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// The time between two versions.
pub const EVERY: Duration = Duration::from_secs(5);

pub struct MetricsFile {
    path: PathBuf,
    has_failed: bool,
}

impl MetricsFile {
    pub fn new(path: PathBuf) -> Self {
        MetricsFile {
            path,
            has_failed: false,
        }
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// Another kind of file has its name, or the system rejects the request.
    pub fn write(&mut self, text: &str) -> Result<()> {
        let shown = self.path.display();
        if symlink_metadata(&self.path).is_ok_and(|about| !about.is_file()) {
            bail!(
                "--metrics-file {shown}: this exists and is no regular file. Choose another name"
            );
        }
        let part = resolve(&self.path).and_then(|_| new_part(&self.path));
        let written = part.and_then(|(mut file, part)| {
            file.write_all(text.as_bytes())?;
            rename(&part, &self.path)
        });
        written.with_context(|| format!("--metrics-file {shown}: cannot write"))
    }

    /// Writes a version; prints the first error only. The next version is tried in any case.
    pub fn renew(&mut self, written: Result<()>) {
        match written {
            Ok(()) => self.has_failed = false,
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                crate::output::warning(crate::output::causes(&error));
            }
            Err(_) => {}
        }
    }
}

/// Creates `NAME.part`, or a random name after that if it is taken. Nothing that is there is opened: it may be a file of another user,
/// and that user could then write the metrics.
fn new_part(path: &Path) -> io::Result<(File, PathBuf)> {
    let mut part = path.to_owned().into_os_string();
    part.push(".part");
    // What a killed capture left.
    let _ = remove_file(&part);
    loop {
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).mode(0o644).open(&part) {
            Err(taken) if taken.kind() == io::ErrorKind::AlreadyExists => {
                part.push(format!("{:016x}", RandomState::new().hash_one(0)));
            }
            created => return created.map(|file| (file, part.into())),
        }
    }
}
