//! Where a body goes: standard output, or a file that gets its name when it is complete.
//!
//! ```text
//!   a file without a name ── write, write, … ──▶ finish: sync, name, sync the folder ──▶ FILE
//!                                     failed, dropped or killed: the file is gone, FILE is as it was
//! ```
//!
//! While the file grows it has no name (`O_TMPFILE`), so no other process can open, replace or guess it, and nothing of it
//! remains after `kill -9`. If the file system does not support that, it has a random name, and `Drop` removes it.

use super::{Kept, Parted, Version};
use forebay::standard;
use forebay::{
    Error, Result,
    store::{close, open_existing, resolve},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{AtFlags, CWD, Mode, OFlags, linkat, open},
};
use sha2::{Digest, Sha256};
use std::{
    ffi::OsString,
    fs::{self, File, Permissions},
    hash::{BuildHasher, RandomState},
    io::{self, ErrorKind, Read, Seek, SeekFrom, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

/// The destination of a fetch. The first byte opens it, so a rejected response leaves no trace.
///
/// A path that is not a regular file (a FIFO, a device) is written to directly.
///
/// ```
/// use std::io::Write;
/// let folder = std::env::temp_dir().join(format!("forebay-output-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).unwrap();
/// let mut output = forebay_io::http::Destination::file(folder.join("name"));
/// output.write_all(b"hello").unwrap();
/// assert!(!folder.join("name").exists());
/// output.finish()?;
/// assert_eq!(std::fs::read(folder.join("name")).unwrap(), b"hello");
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Destination {
    /// `None` is standard output.
    name: Option<PathBuf>,
    open: Option<Open>,
    /// The digest of what is written, and the one that is wanted.
    digest: Option<(Sha256, [u8; 32])>,
    /// The permissions of a new file, as far as the umask allows.
    new_mode: u32,
    /// Where the beginning stays after a failure.
    parted: Option<Parted>,
}

#[derive(Debug)]
enum Open {
    /// Written to directly: standard output, a FIFO, a device.
    Plain(File),
    /// Gets the name `name` when it is complete.
    Growing {
        file: File,
        name: PathBuf,
        /// Its temporary name, if it needs one.
        part: Option<Part>,
    },
}

/// A file that is removed unless it was renamed, or may stay.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    stays: bool,
}

impl Drop for Part {
    fn drop(&mut self) {
        // After a rename, this file no longer exists.
        if !self.stays {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Destination {
    /// Whether a file has been begun that is removed unless it is [finished](Destination::finish). Its name keeps what it had until then.
    pub fn is_replacing(&self) -> bool {
        matches!(self.open, Some(Open::Growing { .. })) && self.keeps().is_none()
    }

    /// The beginning that stays if it is not finished, and its bytes.
    pub fn keeps(&self) -> Option<(&Path, u64)> {
        match &self.open {
            Some(Open::Growing {
                file,
                part: Some(part),
                ..
            }) if part.stays => Some((&part.path, file.metadata().ok()?.len())),
            _ => None,
        }
    }

    /// Lets a beginning stay in these files, which must be those beside its own, after a failure.
    pub fn with_parts(mut self, parted: Parted) -> Self {
        self.parted = Some(parted);
        self
    }

    /// What an earlier fetch left.
    pub fn kept(&self) -> Option<&Kept> {
        self.parted.as_ref()?.kept()
    }

    /// Begins before the first byte: with what was kept, or, with 0 bytes, with a new file. Its beginning
    /// may stay if it has a version.
    ///
    /// # Errors
    /// The file cannot be read or created.
    pub fn begin(&mut self, kept_bytes: u64, version: Option<&Version>) -> Result<()> {
        let shown = self.shown();
        let failed = |cause| Error::new(shown, "opening its beginning").because(cause);
        let Some((parted, name)) = self.parted.as_mut().zip(self.name.as_ref()) else {
            return Ok(());
        };
        let name = resolve(name).map_err(failed.clone())?;
        let file = match (kept_bytes, version) {
            (1.., _) => {
                let mut file = parted
                    .take()
                    .ok_or_else(|| failed.clone()(ErrorKind::NotFound.into()))?;
                continued(
                    &mut file,
                    kept_bytes,
                    self.digest.as_mut().map(|it| &mut it.0),
                )
                .map_err(failed)?;
                file
            }
            (0, Some(version)) => {
                let mode = permissions_of(&name).unwrap_or(self.new_mode);
                parted.create(version, mode).map_err(failed)?
            }
            (0, None) => {
                parted.remove();
                return Ok(());
            }
        };
        let part = Some(Part {
            path: parted.path().into(),
            stays: true,
        });
        self.open = Some(Open::Growing { file, name, part });
        Ok(())
    }

    /// Standard output.
    pub fn stdout() -> Self {
        Destination {
            name: None,
            open: None,
            digest: None,
            new_mode: 0o666,
            parted: None,
        }
    }

    /// The file `name`, whose content is replaced when everything is written. If `name` is a symbolic link, its target is
    /// replaced.
    pub fn file(name: impl Into<PathBuf>) -> Self {
        Destination {
            name: Some(name.into()),
            open: None,
            digest: None,
            new_mode: 0o666,
            parted: None,
        }
    }

    /// Lets [`finish`](Destination::finish) fail unless this is the SHA-256 of all bytes written.
    pub fn with_sha256(mut self, wanted: [u8; 32]) -> Self {
        self.digest = Some((Sha256::new(), wanted));
        self
    }

    /// Sets the permissions of a file that is new, `0o666` by default; the umask may still withhold some. For a program that sets
    /// its umask to 0, so that replaced files keep their permissions.
    pub fn with_new_mode(mut self, mode: u32) -> Self {
        self.new_mode = mode;
        self
    }

    /// Completes the output: makes the file durable and gives it its name. If nothing was written, the file is empty.
    ///
    /// A new file gets the permissions that the umask allows. An existing file keeps its permissions, which its replacement gets
    /// when it is created, as far as the umask allows, and the others here. If they cannot be set, it is an error only if the
    /// replacement has more permissions.
    ///
    /// # Errors
    /// The file cannot be created, made durable, renamed or closed, or its bytes have another SHA-256 than wanted. The file `name` is then unchanged.
    pub fn finish(mut self) -> Result<()> {
        self.open()?;
        let shown = self.shown();
        if let Some((digest, wanted)) = self.digest.take() {
            let found: [u8; 32] = digest.finalize().into();
            if found != wanted {
                let hex = |sum: [u8; 32]| sum.map(|byte| format!("{byte:02x}")).concat();
                // Otherwise it would be continued for ever.
                self.parted.iter_mut().for_each(Parted::remove);
                let what = format!("its SHA-256 is {}, and not {}", hex(found), hex(wanted));
                return Err(Error::new(shown, what).of_kind(ErrorKind::InvalidData));
            }
        }
        let failed = |tried: &'static str| {
            let shown = shown.clone();
            move |cause: io::Error| Error::new(shown, tried).because(cause)
        };
        let (file, name, part) = match self.open.take() {
            Some(Open::Growing { file, name, part }) => (file, name, part),
            Some(Open::Plain(file)) => return close(file).map_err(failed("closing it")),
            None => return Ok(()),
        };
        if let Some(wanted) = permissions_of(&name) {
            let has = file.metadata().map_or(0, |it| it.mode() & 0o777);
            let kept = match has == wanted {
                true => Ok(()),
                false => file.set_permissions(Permissions::from_mode(wanted)),
            };
            // In a sandbox they cannot be changed. Fewer permissions than wanted are safe.
            if has & !wanted != 0 {
                kept.map_err(failed("setting its permissions"))?;
            }
        }
        file.sync_all().map_err(failed("making it durable"))?;
        let part = match part {
            Some(part) => part,
            None => named(&file, &name).map_err(failed("giving it a name"))?,
        };
        let is_replaced = |it: &Parted| part.stays && !it.is(&file);
        if self.parted.as_ref().is_some_and(is_replaced) {
            let what = "another process has replaced its beginning";
            return Err(Error::new(self.shown(), what).advise("Fetch it again"));
        }
        fs::rename(&part.path, &name).map_err(failed("renaming the complete file to that"))?;
        if let Some(parted) = &self.parted {
            parted.complete();
        }
        // A folder without read permission cannot be opened, and so not synced.
        if let Ok(folder) = File::open(folder_of(&name)) {
            let synced = folder.sync_all();
            synced.map_err(failed("making its name durable"))?;
        }
        close(file).map_err(failed("closing it"))
    }

    fn open(&mut self) -> Result<&mut File> {
        let open = match self.open.take() {
            Some(open) => open,
            None => self.opened()?,
        };
        match self.open.insert(open) {
            Open::Plain(file) | Open::Growing { file, .. } => Ok(file),
        }
    }

    fn opened(&self) -> Result<Open> {
        let failed = |cause| Error::new(self.shown(), "opening it to write").because(cause);
        let Some(name) = &self.name else {
            return Ok(Open::Plain(standard::output()?));
        };
        let name = resolve(name).map_err(failed)?;
        match fs::symlink_metadata(&name) {
            Ok(found) if !found.is_file() => Ok(Open::Plain(
                open_existing(&name, File::options().write(true)).map_err(failed)?,
            )),
            _ => growing(name, self.new_mode).map_err(failed),
        }
    }

    fn shown(&self) -> String {
        match &self.name {
            Some(name) => format!("output {}", name.display()),
            None => "standard output".into(),
        }
    }
}

/// Creates a file in the folder of `name`, which it will replace. It has the permissions of `name`, or `new_mode`.
fn growing(name: PathBuf, new_mode: u32) -> io::Result<Open> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mode = permissions_of(&name).unwrap_or(new_mode);
    let unnamed = open(folder_of(&name), flags, Mode::from_raw_mode(mode)).map(File::from);
    // Without /proc it could not get a name.
    if let Ok(file) = unnamed
        && Path::new(&in_proc(&file)).exists()
    {
        let part = None;
        return Ok(Open::Growing { file, name, part });
    }
    let (file, part) = with_random_name(&name, |path| {
        let mut options = File::options();
        options.write(true).create_new(true).mode(mode).open(path)
    })?;
    let part = Some(part);
    Ok(Open::Growing { file, name, part })
}

/// Gives a file without a name a random one beside `name`, so that it can replace an existing file.
fn named(file: &File, name: &Path) -> io::Result<Part> {
    let follow = AtFlags::SYMLINK_FOLLOW;
    let link = |path: &Path| Ok(linkat(CWD, in_proc(file), CWD, path, follow)?);
    with_random_name(name, link).map(|((), part)| part)
}

/// Calls `make` to create something under an unpredictable name beside `name`.
fn with_random_name<T>(
    name: &Path,
    make: impl Fn(&Path) -> io::Result<T>,
) -> io::Result<(T, Part)> {
    loop {
        let mut own = OsString::from(".forebay-");
        own.push(format!("{:016x}", RandomState::new().hash_one(0)));
        let path = folder_of(name).join(own);
        match make(&path) {
            Ok(made) => return Ok((made, Part { path, stays: false })),
            Err(there) if there.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Lets `file` continue after its first `bytes`, which are digested.
fn continued(file: &mut File, bytes: u64, digest: Option<&mut Sha256>) -> io::Result<()> {
    if let Some(digest) = digest {
        file.rewind()?;
        io::copy(&mut Read::by_ref(file).take(bytes), digest)?;
    }
    file.seek(SeekFrom::Start(bytes)).map(drop)
}

fn in_proc(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn folder_of(name: &Path) -> &Path {
    let folder = name.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// The permissions of an existing file.
fn permissions_of(name: &Path) -> Option<u32> {
    let found = fs::symlink_metadata(name).ok()?;
    found.is_file().then(|| found.mode() & 0o777)
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = self.open().map_err(io::Error::other)?;
        let written = loop {
            match file.write(bytes) {
                // Another process that shares the descriptor has made it non-blocking.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(&*file, PollFlags::OUT)], None)?;
                }
                written => break written?,
            }
        };
        if let Some((digest, _)) = &mut self.digest {
            digest.update(&bytes[..written]);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_nameless_files_the_part_has_a_random_name_that_is_removed() {
        let folder = forebay_testing::folder::Folder::new();
        let name = folder.join("name");
        let make = |path: &Path| File::options().write(true).create_new(true).open(path);
        let (_, first) = with_random_name(&name, make).unwrap();
        let (mut file, part) = with_random_name(&name, make).unwrap();
        assert_ne!(first.path, part.path);
        drop(first);
        assert_eq!(folder.names().len(), 1);
        file.write_all(b"whole").unwrap();
        let open = Some(Open::Growing {
            file,
            name: name.clone(),
            part: Some(part),
        });
        let output = Destination {
            name: Some(name.clone()),
            open,
            digest: None,
            new_mode: 0o666,
            parted: None,
        };
        output.finish().unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"whole");
        let plain = folder.join("plain");
        fs::write(&plain, "").unwrap();
        assert_eq!(permissions_of(&name), permissions_of(&plain));
        fs::remove_file(&plain).unwrap();
        assert_eq!(folder.names().len(), 1);
    }
}
