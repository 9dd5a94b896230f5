//! Captures made by other programs. They are not part of the repository.

use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The variable with the folder of these captures. It has a folder for each kind: `pcap` and `pcapng`.
pub const VARIABLE: &str = "FOREBAY_FOREIGN_FILES";

/// The captures of a kind, in order.
///
/// If the variable is not set there are none, and the reason is printed. That is not a failure in CI: a clone has no such folder.
///
/// # Panics
/// If the folder is empty or does not exist.
pub fn captures(kind: &str) -> Vec<PathBuf> {
    let Some(named) = env::var_os(VARIABLE) else {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        // Not captured by the test runner, so that `.ci/run` can count it.
        let _ = writeln!(io::stderr(), "\n*** {test}: skipped: needs {VARIABLE} ***");
        return Vec::new();
    };
    let folder = Path::new(&named).join(kind);
    let entries = folder.read_dir();
    let entries = entries.unwrap_or_else(|error| panic!("{VARIABLE}: {folder:?}: {error}"));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no file in {folder:?}");
    files
}
