//! Captures made by other programs. They are not part of the repository.

use std::{
    env,
    path::{Path, PathBuf},
};

/// The variable with the folder of these captures. It has a folder for each kind: `pcap` and `pcapng`.
pub const VARIABLE: &str = "FOREBAY_FOREIGN_FILES";

/// The captures of a kind, in order. The folder is the one that [`VARIABLE`] names, or `../shared/data` beside the repository.
///
/// Without that folder there are none, and the reason is printed. That is not a failure in CI: a clone has no such folder.
///
/// # Panics
/// If the folder is empty, or if the variable names one that does not exist.
pub fn captures(kind: &str) -> Vec<PathBuf> {
    let named = env::var_os(VARIABLE);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = named.as_ref().map_or_else(beside, PathBuf::from).join(kind);
    let Ok(entries) = folder.read_dir() else {
        assert!(named.is_none(), "{VARIABLE}: no folder {folder:?}");
        eprintln!(
            "\n*** skipped: needs ../shared/data/{kind} beside the repository, or {VARIABLE} ***"
        );
        return Vec::new();
    };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no file in {folder:?}");
    files
}
