//! `--install`: a link in Wireshark's folder for programs that capture.

use crate::{output, usage::refuse};
use anyhow::{Context, Result, bail};
use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

/// Links this program into `folder`, or into the one that tshark names.
///
/// # Errors
/// The folder is not known, or cannot be written; or something else has the name there.
pub fn link(folder: Option<&Path>) -> Result<ExitCode> {
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => wiresharks()?,
    };
    let own = std::env::current_exe().context("the path of this program is not known")?;
    let path = folder.join("forebay");
    let shown = path.display();
    fs::create_dir_all(&folder).with_context(|| format!("{}: making it", folder.display()))?;
    // Only a link is replaced, such as one to an earlier version.
    if path.is_symlink() {
        fs::remove_file(&path).with_context(|| format!("{shown}: replacing it"))?;
    }
    match symlink(&own, &path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!("{shown}: a file with this name is there, and is not replaced")
        }
        linked => linked.with_context(|| format!("{shown}: making the link"))?,
    }
    output::note(format_args!("{shown} is a link to {}", own.display()));
    Ok(ExitCode::SUCCESS)
}

/// The folder of this user, or that of all users if this version of Wireshark has no other.
fn wiresharks() -> Result<PathBuf> {
    let mut tshark = Command::new("tshark");
    tshark
        .args(["-G", "folders"])
        .stderr(Stdio::null())
        .stdin(Stdio::null());
    let listed = tshark.output().map(|it| it.stdout).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let found = ["Personal Extcap path:", "Extcap path:"]
        .into_iter()
        .find_map(|title| {
            let path = listed.lines().find_map(|line| line.strip_prefix(title))?;
            Some(PathBuf::from(path.trim()))
        });
    match found {
        Some(folder) => Ok(folder),
        None => refuse(
            "tshark does not name the folder. Wireshark does: Help, About, Folders, Extcap path. Then: forebay extcap --install DIR",
        ),
    }
}
