//! What a subcommand still has to do after it has entered the sandbox.

use rustix::process::Pid;
use std::path::{Path, PathBuf};

/// What a subcommand still has to do after it has entered the sandbox.
#[derive(Default)]
pub struct Needs {
    /// Files to read, and folders to sync.
    pub reads: Vec<PathBuf>,
    /// Folders in which files are made, written, renamed and removed.
    pub folders: Vec<PathBuf>,
    /// Folders in which files are made, and written without reading them.
    pub new_files: Vec<PathBuf>,
    /// Folders in which files are removed.
    pub removes: Vec<PathBuf>,
    /// Files that are written in place: FIFOs, devices, files to repair.
    pub outputs: Vec<PathBuf>,
    /// The terminal of this process, also if standard input is another file.
    pub terminal: bool,
    /// New connections to servers, and their names.
    pub network: bool,
    /// New connections to shares.
    pub shares: bool,
    /// Sending frames.
    pub sends: bool,
    /// Handing memory to the readers of a share.
    pub readers: bool,
    /// Becoming another user.
    pub identity: bool,
    /// Moving the calling thread to a processor.
    pub pins: bool,
    /// Looking at the files that another process has open.
    pub processes: bool,
    /// A process group that may be sent signals.
    pub helper: Option<Pid>,
}

impl Needs {
    /// Reads these files. `-` is standard input, which is open already.
    pub fn reading(mut self, files: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.reads.extend(files.into_iter().map(Into::into));
        self
    }

    /// Writes this file, FIFO or device, or creates this file. No file is created through a link.
    pub fn writing(mut self, path: &Path) -> Self {
        let target = target_of(path);
        match target.metadata() {
            Err(_) if path.is_symlink() => {}
            Err(_) => self.new_files.push(folder(&target).into()),
            Ok(found) => {
                if found.is_file() {
                    self.reads.push(folder(&target).into());
                }
                self.outputs.push(target);
            }
        }
        self
    }

    /// Replaces this file by a new one, or writes to this FIFO or device.
    pub fn replacing(mut self, path: &Path) -> Self {
        let target = target_of(path);
        match target.metadata() {
            Ok(found) if !found.is_file() => self.outputs.push(target),
            _ => {
                self.new_files.push(folder(&target).into());
                self.removes.push(folder(&target).into());
            }
        }
        self
    }

    /// Removes this file at the end.
    pub fn removing(mut self, path: &Path) -> Self {
        self.removes.push(folder(path).into());
        self
    }

    /// Changes this file, and makes another one beside it.
    pub fn repairing(mut self, path: &Path) -> Self {
        self.outputs.push(path.into());
        self.folders.push(folder(path).into());
        self
    }

    /// Whether an existing output that every user may write gets mode 0600. `get` replaces its output and changes none.
    pub(super) fn narrows(&self) -> bool {
        let lists = [&self.folders, &self.new_files, &self.outputs];
        !self.network && lists.iter().any(|paths| !paths.is_empty())
    }

    /// Creates files beside `path`. The folder's name may contain times (`%Y`), which make up names later.
    pub fn writing_beside(mut self, path: &Path) -> Self {
        let is_fixed = |folder: &&Path| !folder.as_os_str().as_encoded_bytes().contains(&b'%');
        let fixed = folder(path).ancestors().find(is_fixed);
        let fixed = fixed.filter(|it| !it.as_os_str().is_empty());
        self.folders.push(fixed.unwrap_or(Path::new(".")).into());
        self
    }
}

/// The file that a link leads to.
fn target_of(path: &Path) -> PathBuf {
    let resolved = path.canonicalize();
    let resolved = resolved.or_else(|_| forebay::store::resolve(path));
    resolved.unwrap_or_else(|_| path.into())
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}
