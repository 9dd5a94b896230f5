//! The file of `--metrics-file`, for the textfile collector of Prometheus' node exporter.
//!
//! Each version is written beside it as `NAME.part` and replaces it by `rename`, so that a reader sees a whole version.

use super::snapshot::Peaks;
use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use std::{
    collections::VecDeque,
    fs::{OpenOptions, rename, symlink_metadata},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    time::Duration,
};

/// The time between two versions.
pub const EVERY: Duration = Duration::from_secs(5);
/// Versions that a peak stays in: those of a minute, the longest time between two scrapes that is usual.
const VERSIONS: usize = 12;

pub struct MetricsFile {
    path: PathBuf,
    peaks: VecDeque<Peaks>,
    has_failed: bool,
}

impl MetricsFile {
    pub fn new(path: PathBuf) -> Self {
        MetricsFile {
            path,
            peaks: VecDeque::new(),
            has_failed: false,
        }
    }

    /// The peaks of the last minute, which ends with `newest`.
    pub fn peaks(&mut self, newest: Peaks) -> Peaks {
        if self.peaks.len() == VERSIONS {
            self.peaks.pop_front();
        }
        self.peaks.push_back(newest);
        let mut all = Peaks::default();
        self.peaks.iter().for_each(|peaks| all.raise(peaks));
        all
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
        let mut part = self.path.clone().into_os_string();
        part.push(".part");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o644);
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
        let written = options
            .open(&part)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| rename(&part, &self.path));
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
