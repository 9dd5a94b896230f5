//! The sandbox: from [`enter`] on, this process can do only what the rest of its work needs.
//!
//! ```text
//!  interfaces, sockets, helper opened ─▶ enter ─▶ first foreign byte ─▶ threads, output files, …
//!                                          ├ files: Landlock, which paths may be opened
//!                                          └ calls: seccomp, which system calls exist
//! ```
//! - A thread inherits both from the thread that starts it. [`enter`] is called while there is one thread, so no thread is outside.
//! - Both are irrevocable, and hold for everything that runs in this process, whatever its code was turned into.
//! - What this kernel or container does not offer is left out and reported ([`Sandbox::parts`]). A capture never fails for it.

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod calls;
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
mod calls {
    pub fn restrict(_: &super::Needs) -> bool {
        false
    }
}
mod files;

use crate::args;
use rustix::process::Pid;
use serde_json::{Value, json};
use std::{
    fs::OpenOptions,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

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
    /// A process group that may be sent signals.
    pub helper: Option<Pid>,
}

impl Needs {
    /// Reads these files. `-` is standard input, which is open already.
    pub fn reading<'a>(mut self, files: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        self.reads.extend(files.into_iter().cloned());
        self
    }

    /// Writes this file, FIFO or device, or creates this file.
    pub fn writing(mut self, path: &Path) -> Self {
        let target = target_of(path);
        match target.metadata() {
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
    fn narrows(&self) -> bool {
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

/// What is in force.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sandbox {
    /// `--no-sandbox`.
    is_off: bool,
    /// The version of Landlock's interface.
    landlock: Option<i32>,
    /// Whether system calls are filtered.
    seccomp: bool,
}

/// Creates an output file (mode 0600), so that [`Needs::writing`] allows this file instead of its folder. Whatever exists at `path` stays as
/// it is. If the file cannot be created, this is reported when it is opened.
pub fn create_output(path: &Path) {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let _ = options.open(path);
}

/// Restricts this process to what it `needs`, for good. Called before any thread is started and any foreign byte is read.
pub fn enter(flags: &args::Sandbox, needs: &Needs) -> Sandbox {
    if flags.no_sandbox {
        return Sandbox {
            is_off: true,
            ..Sandbox::default()
        };
    }
    debug_assert!(is_single_thread(), "a thread is outside of the sandbox");
    // Landlock first: the filter permits none of its calls.
    Sandbox {
        is_off: false,
        landlock: files::restrict(needs),
        seccomp: calls::restrict(needs),
    }
}

fn is_single_thread() -> bool {
    std::fs::read_dir("/proc/self/task").map_or(true, |tasks| tasks.count() == 1)
}

impl Sandbox {
    /// Each part: whether it is in force, and what it is or what is missing.
    pub fn parts(&self) -> [(bool, String); 2] {
        let files = match self.landlock {
            Some(version) => format!("Landlock restricts files (version {version})"),
            None => "no Landlock: files are not restricted".into(),
        };
        let calls = match self.seccomp {
            true => "seccomp restricts system calls",
            false => "no seccomp: system calls are not restricted",
        };
        [
            (self.landlock.is_some(), files),
            (self.seccomp, calls.into()),
        ]
    }

    /// The parts in one line.
    pub fn described(&self) -> String {
        match self.is_off {
            true => "sandbox: off (--no-sandbox)".into(),
            false => {
                let [files, calls] = self.parts().map(|(_, text)| text);
                format!("sandbox: {files}, {calls}")
            }
        }
    }

    /// `null` if it is off.
    pub fn as_json(&self) -> Value {
        match self.is_off {
            true => Value::Null,
            false => json!({ "landlock": self.landlock, "seccomp": self.seccomp }),
        }
    }
}
