//! Where control sockets are: finding their paths, creating them, and connecting to them.
//!
//! A socket belongs to one capture. Its mode is 0600, and its folder may not be writable by other users, unless it is sticky as
//! `/tmp` is. A capture removes its socket at its end. After `kill -9` the socket stays, but no process answers: the next capture of
//! that name replaces it.

use crate::{output, usage::refuse};
use anyhow::{Context, Result, bail};
use nix::unistd::geteuid;
use rustix::{
    fs::{FlockOperation, Mode, fchmod, flock},
    io::{Errno, ioctl_fionbio},
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
        sockopt::{Timeout, set_socket_timeout},
    },
};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder, File},
    io::ErrorKind,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt},
    },
    path::{Component, Path, PathBuf},
    thread::sleep,
    time::Duration,
};

/// Names that are listed.
const MAX_LISTED: usize = 1000;
/// The longest wait for a connection, and for a request to be accepted.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });
/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 64;

/// The folder of sockets that are named without a path.
fn folder() -> Result<PathBuf> {
    let variable = |name: &str| {
        let value = std::env::var_os(name).unwrap_or_default();
        // systemd separates several folders by colons.
        let first = value.to_str().and_then(|value| value.split(':').next());
        first.map(PathBuf::from).filter(|path| path.is_absolute())
    };
    if let Some(folder) = variable("RUNTIME_DIRECTORY") {
        return Ok(folder);
    }
    if geteuid().is_root() {
        return Ok("/run/forebay".into());
    }
    match variable("XDG_RUNTIME_DIR") {
        Some(folder) => Ok(folder.join("forebay")),
        None => refuse(
            "XDG_RUNTIME_DIR is not set, so a NAME has no folder. Give a path, such as ./lan.control",
        ),
    }
}

/// The path of a socket: a name without `/` is in the folder for such sockets.
///
/// # Errors
/// The text is no name of a file, or there is no such folder.
pub fn path_of(name: &OsStr) -> Result<PathBuf> {
    let path = Path::new(name);
    if !matches!(path.components().next_back(), Some(Component::Normal(_))) {
        return refuse(format!("'{}' is not a name of a file", path.display()));
    }
    match name.as_encoded_bytes().contains(&b'/') {
        true => Ok(path.into()),
        false => Ok(folder()?.join(path)),
    }
}

/// The path of the socket of a running capture. For a name without `/` that is a folder, it is the socket of that name in there: a
/// service does not share its folder, because its user may not replace the sockets of root's captures.
///
/// # Errors
/// As [`path_of`].
pub fn find(name: &OsStr) -> Result<PathBuf> {
    let path = path_of(name)?;
    let is_folder = !name.as_encoded_bytes().contains(&b'/') && path.is_dir();
    Ok(if is_folder { path.join(name) } else { path })
}

/// The captures in the folder for sockets, by name, with a connection unless none is accepted at once: such a capture hangs, or its process
/// is stopped. A service's socket is in a folder of its name.
///
/// # Errors
/// There is no such folder for this user, or it cannot be read.
pub fn running() -> Result<Vec<(OsString, Option<OwnedFd>)>> {
    let folder = folder()?;
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => {
            entries.with_context(|| format!("the folder {} cannot be read", folder.display()))?
        }
    };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut names: Vec<_> = names.take(MAX_LISTED).collect();
    names.sort();
    let reached = names.into_iter().filter_map(|name| {
        let path = find(&name).ok()?;
        let is_socket = fs::symlink_metadata(&path).ok()?.file_type().is_socket();
        // A capture that hangs, with a full queue of connections, must not stop the list.
        let stream = socket(SocketFlags::NONBLOCK).ok().filter(|_| is_socket)?;
        match connect(&stream, &address(&path).ok()?) {
            Ok(()) => ioctl_fionbio(&stream, false).ok()?,
            Err(Errno::AGAIN) => return Some((name, None)),
            Err(_) => return None,
        }
        Some((name, Some(stream)))
    });
    Ok(reached.collect())
}

/// A listening socket. Dropping it removes its file.
#[derive(Debug)]
pub struct Bound {
    pub listener: OwnedFd,
    path: PathBuf,
    identity: (u64, u64),
}

impl Bound {
    /// Creates the socket at `path`, in place of one that no process answers on.
    ///
    /// # Errors
    /// A capture answers there, another file has this name, the folder is not safe, or the system rejects the request.
    pub fn new(path: &Path) -> Result<Bound> {
        let shown = path.display();
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        make(folder)?;
        let _lock = lock(folder)?;
        refuse_what_is_there(path)?;
        let failed = || format!("--control {shown}: the socket cannot be created");
        let listener = socket(SocketFlags::empty()).with_context(failed)?;
        let address = address(path)?;
        // Before `bind`, so that the file never has another mode.
        fchmod(&listener, Mode::RUSR | Mode::WUSR).with_context(failed)?;
        bind(&listener, &address).with_context(failed)?;
        listen(&listener, BACKLOG).with_context(failed)?;
        let about = fs::symlink_metadata(path).with_context(failed)?;
        Ok(Bound {
            listener,
            path: path.into(),
            identity: (about.dev(), about.ino()),
        })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let about = fs::symlink_metadata(&self.path);
        if about.is_ok_and(|about| (about.dev(), about.ino()) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Connects to the capture at `path`.
///
/// # Errors
/// No capture answers there.
pub fn reach(path: &Path) -> Result<OwnedFd> {
    let shown = path.display();
    let stream = socket(SocketFlags::empty()).context("a socket cannot be created")?;
    // Otherwise it would wait for ever for a process that is stopped.
    set_socket_timeout(&stream, Timeout::Send, Some(PATIENCE))
        .context("a socket cannot be prepared")?;
    match connect(&stream, &address(path)?) {
        Ok(()) => Ok(stream),
        Err(Errno::NOENT) => bail!(
            "{shown}: there is no such capture. Start one with: forebay capture --control NAME"
        ),
        Err(Errno::CONNREFUSED) => bail!("{shown}: the capture with this name has ended"),
        Err(Errno::AGAIN) => bail!(
            "{shown}: the capture does not answer: it accepted no connection within {} s. It hangs, or its process is stopped",
            PATIENCE.as_secs()
        ),
        Err(Errno::ACCESS) => {
            bail!("{shown}: permission denied. Only the user who started the capture controls it")
        }
        Err(error) => Err(error).with_context(|| format!("{shown}: cannot connect")),
    }
}

fn socket(flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

fn address(path: &Path) -> Result<SocketAddrUnix> {
    let address = SocketAddrUnix::new(path);
    address.with_context(|| {
        format!(
            "{}: too long for the path of a socket, which has at most 107 bytes",
            path.display()
        )
    })
}

/// Makes sure that `folder` exists and that no other user can replace files in it.
fn make(folder: &Path) -> Result<()> {
    let shown = folder.display();
    let failed = || format!("--control: the folder {shown} cannot be used");
    // Other users may list root's folder.
    let mode = if geteuid().is_root() { 0o755 } else { 0o700 };
    match DirBuilder::new().mode(mode).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(error).with_context(failed);
        }
        _ => {}
    }
    let about = fs::metadata(folder).with_context(failed)?;
    let is_ours = [0, geteuid().as_raw()].contains(&about.uid());
    let is_shared = about.mode() & 0o022 != 0 && about.mode() & 0o1000 == 0;
    if !is_ours || is_shared {
        bail!(
            "--control: other users can replace files in the folder {shown}. Choose another one, or: chmod go-w {shown}"
        );
    }
    Ok(())
}

/// Keeps other captures from checking the same folder at the same time. The lock ends when the result is dropped.
///
/// Every user who can read the folder can lock it, so the lock is not required: it only protects two captures of the same name that
/// start at the same moment from each other.
fn lock(folder: &Path) -> Result<File> {
    let failed = || {
        format!(
            "--control: the folder {} cannot be locked",
            folder.display()
        )
    };
    let file = File::open(folder).with_context(failed)?;
    for _ in 0..40 {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => sleep(Duration::from_millis(50)),
            locked => return locked.map(|()| file).with_context(failed),
        }
    }
    output::warning(format_args!(
        "--control: another program keeps the folder {} locked. The capture starts without the lock",
        folder.display()
    ));
    Ok(file)
}

/// Removes a socket that no process answers on, and rejects everything else.
fn refuse_what_is_there(path: &Path) -> Result<()> {
    let shown = path.display();
    let about = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        about => about.with_context(|| format!("--control {shown}"))?,
    };
    if !about.file_type().is_socket() {
        bail!("--control {shown}: this file exists and is no socket. Choose another name");
    }
    let stream = socket(SocketFlags::empty()).context("a socket cannot be created")?;
    match connect(&stream, &address(path)?) {
        Err(Errno::CONNREFUSED) => {
            fs::remove_file(path).with_context(|| format!("--control {shown}: cannot be replaced"))
        }
        Err(Errno::ACCESS) => bail!("--control {shown}: this socket belongs to another user"),
        _ => bail!("--control {shown}: another capture uses this name. Choose another one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testing::folder::Folder;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_is_for_its_owner_only_and_is_removed_at_the_end() {
        let folder = Folder::new();
        let path = PathBuf::from(folder.path("lan"));
        let bound = Bound::new(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        reach(&path).unwrap();
        let error = Bound::new(&path).unwrap_err().to_string();
        assert!(error.contains("another capture uses this name"), "{error}");
        drop(bound);
        let error = reach(&path).unwrap_err().to_string();
        assert!(error.contains("no such capture"), "{error}");
    }

    #[test]
    fn a_stale_socket_is_replaced_and_no_other_file() {
        let folder = Folder::new();
        let path = PathBuf::from(folder.path("lan"));
        let mut stale = Bound::new(&path).unwrap();
        stale.identity = (0, 0);
        drop(stale); // as after kill -9
        let error = reach(&path).unwrap_err().to_string();
        assert!(error.contains("has ended"), "{error}");
        let newer = Bound::new(&path).unwrap();
        reach(&path).unwrap();
        drop(newer);
        fs::write(&path, "precious").unwrap();
        let error = Bound::new(&path).unwrap_err().to_string();
        assert!(error.contains("no socket"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_folder_that_others_can_write_is_rejected_unless_it_is_sticky() {
        let folder = Folder::new();
        let path = PathBuf::from(folder.path("lan"));
        let set = |mode| fs::set_permissions(folder.path(""), PermissionsExt::from_mode(mode));
        set(0o777).unwrap();
        let error = Bound::new(&path).unwrap_err().to_string();
        assert!(error.contains("other users can replace files"), "{error}");
        set(0o1777).unwrap();
        Bound::new(&path).unwrap();
        set(0o700).unwrap();
    }

    #[test]
    fn a_folder_that_another_program_locks_does_not_keep_a_capture_from_starting() {
        let folder = Folder::new();
        let held = lock(Path::new(&folder.path(""))).unwrap();
        let path = PathBuf::from(folder.path("lan"));
        let bound = Bound::new(&path).unwrap();
        reach(&path).unwrap();
        drop((bound, held));
    }

    #[test]
    fn names_that_are_no_files_and_long_paths_are_rejected() {
        for name in ["", "..", "/", "a/.."] {
            path_of(OsStr::new(name)).unwrap_err();
        }
        assert_eq!(path_of(OsStr::new("./a")).unwrap(), Path::new("./a"));
        let error = reach(Path::new(&"x".repeat(200))).unwrap_err().to_string();
        assert!(error.contains("at most 107 bytes"), "{error}");
    }

    #[test]
    fn a_process_that_accepts_nothing_is_given_up() {
        let folder = Folder::new();
        let path = PathBuf::from(folder.path("stopped"));
        let listener = socket(SocketFlags::empty()).unwrap();
        bind(&listener, &address(&path).unwrap()).unwrap();
        listen(&listener, 0).unwrap();
        let _waiting = reach(&path).unwrap();
        let error = reach(&path).unwrap_err().to_string();
        assert!(
            error.contains("accepted no connection within 1 s"),
            "{error}"
        );
    }
}
