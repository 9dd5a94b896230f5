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
    pub fn restrict(_: &crate::sandbox::Needs) -> bool {
        false
    }
}
mod files;
mod needs;

pub use needs::Needs;

use crate::args;
use forebay::store::open_output;
use serde_json::{Value, json};
use std::{fs::OpenOptions, path::Path};

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
    if path.symlink_metadata().is_err() {
        let _ = open_output(path, OpenOptions::new().write(true));
    }
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
        // Landlock hides all processes outside of its sandbox.
        landlock: (!needs.processes).then(|| files::restrict(needs)).flatten(),
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
