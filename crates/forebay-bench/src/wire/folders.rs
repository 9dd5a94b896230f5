//! Where files go: in memory, and on a disk; removed however this program ends.
//!
//! ```text
//!   this program ── standard input ──▶ the keeper:  makes the folders ─▶ "ready" ─▶ waits
//!        └─ ends, however that happens: standard input ends ─▶ the keeper removes them and ends
//! ```
//! The keeper is in a separate process group, so that Ctrl-C reaches all others, but not the process that cleans up.

use super::roles::{Role, keeper, wait_for_end_of_input};
use crate::method::process::Running;
use anyhow::{Context, Result};
use rustix::fs::statfs;
use std::{
    env,
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Why there are no figures of files on a disk.
pub const NEEDS_DISK: &str = "needs a folder on a disk for temporary files: set TMPDIR";

/// Two folders for this program alone, as long as this exists.
pub struct Folders {
    pub memory: PathBuf,
    pub disk: PathBuf,
    _keeper: Running,
}

impl Folders {
    /// Makes them.
    pub fn new() -> Result<Folders> {
        let name = format!("forebay-bench-wire-{}", std::process::id());
        let memory = Path::new("/dev/shm").join(&name);
        let disk = env::temp_dir().join(&name);
        let folders = vec![memory.clone(), disk.clone()];
        Ok(Folders {
            memory,
            disk,
            _keeper: keeper("the keeper of folders", &Role::Keep { folders })?,
        })
    }
}

/// The keeper's part: makes folders that only we may use, and removes those that it made.
pub fn keep(folders: &[PathBuf]) -> Result<()> {
    let mut made = Vec::new();
    let all = folders.iter().try_for_each(|folder| {
        let new = DirBuilder::new().mode(0o700).create(folder);
        new.with_context(|| format!("making {}", folder.display()))?;
        made.push(folder);
        anyhow::Ok(())
    });
    if all.is_ok() {
        println!("ready");
        wait_for_end_of_input();
    }
    for folder in made {
        let _ = fs::remove_dir_all(folder); // no process is left that could report it
    }
    all
}

/// The file system that a folder is in.
pub fn file_system(folder: &Path) -> String {
    let Ok(stat) = statfs(folder) else {
        return "an unknown file system".into();
    };
    match stat.f_type as u32 {
        0x0102_1994 => "tmpfs".into(),
        0xEF53 => "ext4".into(),
        0x5846_5342 => "xfs".into(),
        0x9123_683E => "btrfs".into(),
        0x794C_7630 => "overlayfs".into(),
        other => format!("file system {other:#x}"),
    }
}
