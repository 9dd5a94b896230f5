//! Programs in C, compiled with the header and linked to the library that cargo built beside this test.

use forebay_testing::{children::skip, folder::Folder};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub const WARNINGS: [&str; 5] = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file that cargo built beside this test.
pub fn built(name: &str) -> PathBuf {
    let built = std::env::current_exe().unwrap().with_file_name(name);
    assert!(built.exists(), "{built:?} was not built");
    built
}

/// The compilers in `FOREBAY_C_COMPILERS`, or gcc; prints which of them is missing.
pub fn compilers() -> Vec<String> {
    let names = std::env::var("FOREBAY_C_COMPILERS").unwrap_or("gcc".into());
    let names = names.split_whitespace().map(str::to_owned);
    names.filter(|name| is_there(name)).collect()
}

/// The first of them.
pub fn compiler() -> Option<String> {
    compilers().into_iter().next()
}

/// Whether this program is here; prints if it is not.
pub fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        skip(program);
    }
    found
}

/// A folder with the library under the names by which programs are linked and run.
pub fn library() -> Folder {
    let folder = Folder::new();
    for name in ["libforebay.so.0", "libforebay.so"] {
        let place = folder.path(name);
        if fs::hard_link(built("libforebay_c.so"), &place).is_err() {
            fs::copy(built("libforebay_c.so"), &place).unwrap();
        }
    }
    folder
}

/// Runs a command, and returns what it printed; fails if it fails.
pub fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let [out, errors] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(
        output.status.success(),
        "{command:?}: {:?}\n{out}{errors}",
        output.status
    );
    out
}

/// A program of the crate's folder, compiled and linked in the library's folder.
pub fn compiled(compiler: &str, folder: &Folder, source: &Path) -> String {
    let program = folder.path(source.file_stem().unwrap().to_str().unwrap());
    let mut command = Command::new(compiler);
    command
        .args(WARNINGS)
        .args(["-g", "-O1", "-pthread", "-o", &program]);
    command.arg(source).arg("-I").arg(root().join("include"));
    command.args(["-L", &folder.path(""), "-lforebay"]);
    output(command.arg(format!("-Wl,-rpath,{}", folder.path(""))));
    program
}

/// The files of a folder of the crate with this ending.
pub fn sources(folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut sources: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|it| it == ending))
        .collect();
    sources.sort();
    assert!(!sources.is_empty(), "no program in {folder}");
    sources
}
