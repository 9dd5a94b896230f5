//! `forebay archive` and `forebay find` run `forebay-archive`, a separate program with many dependencies.

use crate::{output, privileges};
use std::{
    ffi::OsStr,
    io::ErrorKind,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode},
};

/// Runs `forebay-archive` instead of this program, if the first argument asks for it: the one next to this program, or the one in
/// PATH. Returns only if that fails, or if the first argument is another one.
pub fn delegate() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let first = args.next()?;
    let find = (first == "find").then_some(OsStr::new("find"));
    if find.is_none() && first != "archive" {
        return None;
    }
    if let Err(error) = privileges::reject_setuid() {
        output::error(output::causes(&error));
        return Some(ExitCode::FAILURE);
    }
    let beside = std::env::current_exe().ok();
    let beside = beside.map(|it| it.with_file_name("forebay-archive"));
    let program = beside.filter(|it| it.is_file());
    let program = program.as_deref().unwrap_or(Path::new("forebay-archive"));
    let error = Command::new(program).args(find).args(args).exec();
    output::error(match error.kind() {
        ErrorKind::NotFound => "forebay-archive is not installed. Build it with cargo build --release -p forebay-archive, and put it next to forebay or \
             into a folder of PATH (see docs/archive.md)"
            .to_owned(),
        _ => format!("{}: starting it: {error}", program.display()),
    });
    Some(ExitCode::FAILURE)
}
