//! `--install`: a link in Wireshark's folder for programs that capture.

use crate::{output, usage::refuse};
use anyhow::{Context, Result, bail};
use rustix::process::geteuid;
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

/// The folder that tshark names.
fn wiresharks() -> Result<PathBuf> {
    let mut tshark = Command::new("tshark");
    tshark
        .args(["-G", "folders"])
        .stderr(Stdio::null())
        .stdin(Stdio::null());
    let listed = tshark.output().map(|it| it.stdout).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed).into_owned();
    match suitable(&listed, geteuid().is_root()) {
        Some(folder) => Ok(folder),
        None => refuse(
            "tshark does not name the folder. Wireshark does: Help, About, Folders, Extcap path. Then: forebay extcap --install DIR",
        ),
    }
}

/// The folder of this user, or for root that of all users: Wireshark as another user does not look into root's. Versions before 4.2 have one
/// title for that of all users, and those before 4.0 no other folder.
fn suitable(listed: &str, is_root: bool) -> Option<PathBuf> {
    let titles: &[&str] = match is_root {
        true => &["Global Extcap path:", "Extcap path:"],
        false => &["Personal Extcap path:", "Extcap path:"],
    };
    titles.iter().find_map(|title| {
        let path = listed.lines().find_map(|line| line.strip_prefix(title))?;
        Some(PathBuf::from(path.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_installs_for_all_users_and_others_for_themselves() {
        let new =
            "Personal Extcap path:\t/home/ada/extcap\nGlobal Extcap path:  \t/usr/lib/extcap\n";
        let old = "Temp:\t/tmp\nExtcap path:         \t/usr/lib/extcap\n";
        let all = Some(PathBuf::from("/usr/lib/extcap"));
        assert_eq!(suitable(new, true), all);
        assert_eq!(suitable(new, false), Some("/home/ada/extcap".into()));
        assert_eq!(
            (suitable(old, true), suitable(old, false)),
            (all.clone(), all)
        );
        assert_eq!(suitable("", true), None);
    }
}
