//! The beginning of a file that an interrupted fetch leaves, and continues the next time.
//!
//! ```text
//!  FILE.part          the bytes so far
//!  FILE.part.version  where they are from: written after the old FILE.part is gone, so it never describes other bytes
//! ```
//! Both must be regular files of this user with one name: in a folder like `/tmp`, others could have put them there.

use super::{Kept, Version};
use forebay::{Error, Result, store::resolve};
use rustix::{
    fs::{FlockOperation, flock},
    process::geteuid,
};
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// How descriptions begin.
const VERSION_BEGIN: [u8; 13] = *b"forebay part ";
/// Larger ones are not ours.
const MAX_VERSION_BYTES: u64 = 64 << 10;

/// Where the beginning of a file is kept.
#[derive(Debug)]
pub struct Parted {
    part: PathBuf,
    version: PathBuf,
    /// What an earlier fetch left, locked, until it is continued.
    kept: Option<(File, Kept)>,
    /// Whether this process has begun or continued what is there, and so holds its lock.
    is_held: bool,
}

impl Parted {
    /// Opens what was left beside the file `name`. If that is a symbolic link, its target counts.
    ///
    /// # Errors
    /// `name` is no file, or another process continues it now.
    pub fn beside(name: &Path) -> Result<Self> {
        let shown = || name.display().to_string();
        let real =
            resolve(name).map_err(|cause| Error::new(shown(), "opening it").because(cause))?;
        if fs::symlink_metadata(&real).is_ok_and(|it| !it.is_file()) {
            return Err(Error::invalid(
                shown(),
                "is no regular file, so its beginning cannot be kept",
            ));
        }
        let with = |ending: &str| {
            let mut path = OsString::from(&real);
            path.push(ending);
            PathBuf::from(path)
        };
        let mut parted = Parted {
            part: with(".part"),
            version: with(".part.version"),
            kept: None,
            is_held: false,
        };
        if let Ok(part) = own(&parted.part, OpenOptions::new().read(true).write(true)) {
            lock(&part, &parted.part)?;
            let bytes = part.metadata().map_or(0, |it| it.len());
            parted.kept = parted
                .read_version()
                .filter(|_| bytes > 0)
                .map(|version| (part, Kept { bytes, version }));
            if bytes > 0 && !parted.is_described() {
                let path = parted.part.display().to_string();
                let what = "is there, and it is not the beginning of an earlier fetch";
                return Err(Error::invalid(path, what).advise("Remove it, or choose another name"));
            }
        }
        Ok(parted)
    }

    /// Whether the description was begun by this program, also if it is torn.
    fn is_described(&self) -> bool {
        let mut begin = [0; VERSION_BEGIN.len()];
        let file = own(&self.version, OpenOptions::new().read(true));
        file.and_then(|mut it| it.read_exact(&mut begin)).is_ok() && begin == VERSION_BEGIN
    }

    fn read_version(&self) -> Option<Version> {
        let file = own(&self.version, OpenOptions::new().read(true)).ok()?;
        let mut text = String::new();
        file.take(MAX_VERSION_BYTES)
            .read_to_string(&mut text)
            .ok()?;
        text.parse().ok()
    }

    /// What was left.
    pub fn kept(&self) -> Option<&Kept> {
        Some(&self.kept.as_ref()?.1)
    }

    /// The name of the beginning.
    pub fn path(&self) -> &Path {
        &self.part
    }

    /// The beginning, to be continued.
    pub(super) fn take(&mut self) -> Option<File> {
        let (part, _) = self.kept.take()?;
        self.is_held = true;
        Some(part)
    }

    /// Begins anew, with a file of this mode.
    pub(super) fn create(&mut self, version: &Version, mode: u32) -> io::Result<File> {
        self.remove();
        let new = |path: &Path, mode| {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(path)
        };
        let part = new(&self.part, mode)?;
        self.is_held = true;
        lock(&part, &self.part).map_err(io::Error::other)?;
        let mut described = new(&self.version, 0o600)?;
        described.write_all(version.to_string().as_bytes())?;
        Ok(part)
    }

    /// Removes what was left: first its description, without which it is nothing. What another process has begun meanwhile stays.
    pub(super) fn remove(&mut self) {
        if self.kept.is_none()
            && !self.is_held
            && let Ok(part) = own(&self.part, OpenOptions::new().read(true))
            && lock(&part, &self.part).is_err()
        {
            return;
        }
        let _ = fs::remove_file(&self.version);
        let _ = fs::remove_file(&self.part);
        self.kept = None;
    }

    /// Whether the beginning that is there is this file.
    pub(super) fn is(&self, file: &File) -> bool {
        let ends = (file.metadata(), fs::symlink_metadata(&self.part));
        matches!(ends, (Ok(one), Ok(two)) if (one.dev(), one.ino()) == (two.dev(), two.ino()))
    }

    /// The beginning is the whole, and was renamed.
    pub(super) fn complete(&self) {
        let _ = fs::remove_file(&self.version);
    }
}

/// Opens a file that only this user can have put there.
fn own(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = options
        .clone()
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    let found = file.metadata()?;
    match found.is_file() && found.uid() == geteuid().as_raw() && found.nlink() == 1 {
        true => Ok(file),
        false => Err(ErrorKind::PermissionDenied.into()),
    }
}

fn lock(part: &File, path: &Path) -> Result<()> {
    flock(part, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Error::new(
            path.display().to_string(),
            "another process writes this file",
        )
        .advise("Wait until it ends")
    })
}
