//! `forebay with`: becomes a program that uses libpcap, for which the loader finds forebay's libpcap first.
//!
//! `program` finds the program and what keeps the loader from doing so; `elf` reads the headers of executable files.

mod elf;
mod program;

use crate::{args::With as Flags, output, usage::refuse};
use anyhow::{Result, bail};
use program::{FOLDERS, Program};
use std::{
    ffi::{OsStr, OsString},
    io::ErrorKind,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// The name by which programs load libpcap.
const LIBRARY: &str = "libpcap.so.0.8";
/// Where a package installs it.
const INSTALLED: &str = "/usr/lib/forebay";

/// Exit codes of env(1) and of shells.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Becomes the program. Returns only if that is impossible.
///
/// # Errors
/// The library is not installed.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let folder = library(flags.library.as_deref())?;
    let Some((name, args)) = flags.command.split_first() else {
        return refuse("name a program");
    };
    let not_possible = |code, text: String| {
        output::error(text);
        Ok(ExitCode::from(code))
    };
    if let Some(text) = program::removes_variables(name, args) {
        return not_possible(CANNOT_RUN, text);
    }
    let shown = Path::new(name).display();
    let Some(program) = Program::find(name) else {
        return not_possible(NOT_FOUND, format!("{shown}: there is no such program"));
    };
    if let Some(reason) = program.obstacle(&folder.join(LIBRARY)) {
        let text = format!("{shown} cannot run on forebay's libpcap: it {reason}");
        return not_possible(CANNOT_RUN, text);
    }
    let folders = first_of(&folder, std::env::var_os(FOLDERS));
    if let Some(hint) = program.hint(&folder, &folders) {
        output::note_wrapped(hint);
    }
    let mut command = Command::new(program.path());
    command.arg0(name).args(args).env(FOLDERS, folders);
    if let Some(device) = &flags.device {
        command.env("FOREBAY_PCAP_DEVICE", device);
    }
    let error = command.exec();
    let code = match error.kind() {
        ErrorKind::NotFound => NOT_FOUND,
        _ => CANNOT_RUN,
    };
    not_possible(code, format!("{shown}: starting it: {error}"))
}

/// The folder of the library.
fn library(asked: Option<&Path>) -> Result<PathBuf> {
    let has_it = |folder: &Path| folder.join(LIBRARY).is_file();
    if let Some(folder) = asked {
        return match folder.canonicalize() {
            Ok(folder) if has_it(&folder) => can_be_listed(folder),
            _ => refuse(format!(
                "--library {}: there is no {LIBRARY} in it",
                folder.display()
            )),
        };
    }
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|it| Some(it.parent()?.parent()?.join("lib/forebay")));
    let places = beside.into_iter().chain([PathBuf::from(INSTALLED)]);
    match places.into_iter().find(|it| has_it(it)) {
        Some(folder) => can_be_listed(folder),
        None => bail!(
            "forebay's libpcap is not installed. Install the package libforebay-pcap, or build it (see docs/libpcap.md) and name its folder with --library DIR"
        ),
    }
}

/// The loader would take these characters for the end of a name, or replace what follows them.
fn can_be_listed(folder: PathBuf) -> Result<PathBuf> {
    match folder
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|it| b":;$".contains(it))
    {
        false => Ok(folder),
        true => refuse(format!(
            "{}: the loader cannot use a folder with one of the characters : ; $ in its name",
            folder.display()
        )),
    }
}

/// The value of `LD_LIBRARY_PATH` with `folder` first.
fn first_of(folder: &Path, others: Option<OsString>) -> OsString {
    let mut folders = folder.as_os_str().to_owned();
    if let Some(others) = others.filter(|it| !it.is_empty()) {
        folders.push(OsStr::new(":"));
        folders.push(others);
    }
    folders
}
