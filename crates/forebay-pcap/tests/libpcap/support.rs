//! The two libraries, and programs that run on them.

use forebay_testing::folder::Folder;
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Debian's library.
pub const DEBIAN: &str = "/usr/lib/x86_64-linux-gnu/libpcap.so.0.8";

/// Ours, as cargo has built it beside this test.
pub fn ours() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.with_file_name("libpcap.so");
    assert!(built.exists(), "{built:?} was not built");
    built
}

/// A folder with our library under the name that programs load. It is used by the programs that [`on_ours`] runs.
pub fn installed() -> Folder {
    let folder = Folder::new();
    // No link by name: other users may have no access to the folder in which it was built.
    let place = folder.path("libpcap.so.0.8");
    if fs::hard_link(ours(), &place).is_err() {
        fs::copy(ours(), &place).unwrap();
    }
    folder
}

/// This program with its arguments, on our library or on Debian's, in UTC and in plain English.
pub fn command(program: impl AsRef<OsStr>, library: Option<&Folder>) -> Command {
    let mut command = Command::new(program);
    command.env("TZ", "UTC").env("LC_ALL", "C.UTF-8");
    match library {
        Some(folder) => command.env("LD_LIBRARY_PATH", folder.path("")),
        None => command.env_remove("LD_LIBRARY_PATH"),
    };
    command
}

/// Runs a command, and returns what it printed to standard output and to standard error, and its exit code.
pub fn outcome(command: &mut Command) -> (String, String, Option<i32>) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(stdout), text(stderr), status.code())
}

/// Whether Debian's library and its headers are here; prints what is missing.
pub fn has_debians() -> bool {
    let missing = [
        (DEBIAN, "libpcap0.8"),
        ("/usr/include/pcap/pcap.h", "libpcap0.8-dev"),
    ]
    .into_iter()
    .find(|(path, _)| !Path::new(path).exists());
    if let Some((_, package)) = missing {
        forebay_testing::children::skip(package);
    }
    missing.is_none()
}

/// A program of this folder's, compiled with Debian's header and linked to its library.
pub fn compiled(folder: &Folder, source: &str) -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libpcap");
    let program = folder.path(source.trim_end_matches(".c"));
    let mut compiler = Command::new("cc");
    compiler.args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/include")]);
    compiler.args([
        "-Wall",
        "-Werror",
        "-Wno-deprecated-declarations",
        "-Wno-nonnull",
        "-O1",
        "-o",
        &program,
    ]);
    compiler
        .arg(sources.join(source))
        .args([DEBIAN, "-pthread"]);
    let (_, errors, code) = outcome(&mut compiler);
    assert_eq!(code, Some(0), "{errors}");
    program
}
