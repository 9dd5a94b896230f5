//! Packets from an interface to a file: forebay, other tools and a bare reader on the same load; and our own path at its limit.
//!
//! `captures` sets them side by side, `limits` has the simulated card, which needs no rights. `lab` is the network they are in,
//! `sides` who captures; `roles` lists the processes of ours: `send` sends, `walk` reads and drops, `session` is the whole capture.
//!
//! ```text
//!   a network namespace of its own, which ends with this program, however that ends
//!
//!   send, first processor ─▶ va ◀── veth ──▶ vb ─▶ the kernel's ring ─▶ who captures, second processor ─▶ file
//!                                                  64 MiB each                 │
//!      warm-up ─▶ pause ─▶ [ time on a processor ─▶ frames ─▶ pause ─▶ time on a processor ] ─▶ end ─▶ packets in the file
//! ```

mod captures;
mod lab;
mod limits;
mod roles;
mod send;
mod session;
mod sides;
mod walk;

pub use roles::play;

use crate::method::{Effort, table::Table};
use anyhow::{Context, Result};
use lab::Lab;
use rustix::fs::statfs;
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The interfaces at both ends of the wire.
const SENDER: &str = "va";
const CAPTURED: &str = "vb";

/// What each side gets of the kernel's memory.
const RING_BYTES: u32 = 64 << 20;

/// The captures, to memory and to a disk, and our own path.
///
/// # Errors
/// A folder cannot be made.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let folders = Folders::new()?;
    // As long as it is there, somebody removes the folders also when we are killed.
    let lab = Lab::new(folders.both().map(Clone::clone).to_vec());
    let mut tables = captures::run(&lab, &folders, effort)?;
    tables.extend(limits::run(&folders, effort));
    Ok(tables)
}

/// Where files go: two folders of ours that nobody else writes into, removed at the end.
struct Folders {
    memory: PathBuf,
    disk: PathBuf,
}

impl Folders {
    fn new() -> Result<Folders> {
        let name = format!("forebay-bench-wire-{}", std::process::id());
        let folders = Folders {
            memory: Path::new("/dev/shm").join(&name),
            disk: env::temp_dir().join(&name),
        };
        for folder in folders.both() {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        Ok(folders)
    }

    fn both(&self) -> [&PathBuf; 2] {
        [&self.memory, &self.disk]
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        for folder in self.both() {
            let _ = fs::remove_dir_all(folder); // whoever holds the laboratory may have been first
        }
    }
}

/// The file system that a folder is in.
fn file_system(folder: &Path) -> String {
    let Ok(told) = statfs(folder) else {
        return "an unknown file system".into();
    };
    match told.f_type as u32 {
        0x0102_1994 => "tmpfs".into(),
        0xEF53 => "ext4".into(),
        0x5846_5342 => "xfs".into(),
        0x9123_683E => "btrfs".into(),
        0x794C_7630 => "overlayfs".into(),
        other => format!("file system {other:#x}"),
    }
}
