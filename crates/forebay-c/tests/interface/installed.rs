//! What `scripts/install-c` installs: programs find it by pkg-config and by CMake, and run on it.

use crate::support::{built, compiler, is_there, output, root};
use forebay_testing::folder::Folder;
use std::{path::Path, process::Command};

/// An installation of what cargo built for this test.
fn prefix() -> Folder {
    let folder = Folder::new();
    let mut install = Command::new(root().join("../../scripts/install-c"));
    let library = built("libforebay_c.so");
    install.args([&folder.path(""), "--from"]);
    output(install.arg(library.parent().unwrap()));
    folder
}

#[test]
fn a_program_finds_the_library_by_pkg_config_and_runs_on_it() {
    let Some(compiler) = compiler().filter(|_| is_there("pkg-config")) else {
        return;
    };
    let prefix = prefix();
    let flags = |more: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", prefix.path("lib/pkgconfig"));
        let flags = output(
            command
                .args(["--cflags", "--libs"])
                .args(more)
                .arg("forebay"),
        );
        flags
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let source = root().join("examples/ring.c");
    let program = prefix.path("program");
    let mut link = Command::new(&compiler);
    output(link.arg("-o").arg(&program).arg(&source).args(flags(&[])));
    let needed = output(Command::new("readelf").args(["-d", &program]));
    assert!(needed.contains("[libforebay.so.0]"), "{needed}");
    let printed = output(Command::new(&program).env("LD_LIBRARY_PATH", prefix.path("lib")));
    assert!(!printed.is_empty());

    let mut link = Command::new(compiler);
    link.arg("-o")
        .arg(&program)
        .arg(&source)
        .args(flags(&["--static"]));
    // The linker prefers the shared library: leave it out.
    std::fs::remove_file(prefix.path("lib/libforebay.so")).unwrap();
    output(&mut link);
    assert_eq!(output(&mut Command::new(&program)), printed);
}

#[test]
fn a_program_finds_the_library_by_cmake() {
    let Some(compiler) = compiler().filter(|_| is_there("cmake")) else {
        return;
    };
    let prefix = prefix();
    let build = prefix.path("build");
    let mut configure = Command::new("cmake");
    configure
        .arg("-S")
        .arg(root().join("tests/install"))
        .args(["-B", &build]);
    configure.args([
        format!("-DCMAKE_PREFIX_PATH={}", prefix.path("")),
        format!("-DCMAKE_C_COMPILER={compiler}"),
    ]);
    output(&mut configure);
    output(Command::new("cmake").args(["--build", &build]));
    let run = |name: &str| output(&mut Command::new(Path::new(&build).join(name)));
    assert_eq!(run("shared"), run("static"));
}

/// Programs see the functions of the header, and no other name.
#[test]
fn the_library_exports_the_functions_of_the_header() {
    let Some(_) = compiler().filter(|_| is_there("nm")) else {
        return;
    };
    let library = built("libforebay_c.so");
    let symbols = output(
        Command::new("nm")
            .args(["-D", "--defined-only", "--format=posix"])
            .arg(library),
    );
    let mut exported: Vec<_> = symbols
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    exported.sort_unstable();
    let header = std::fs::read_to_string(root().join("include/forebay.h")).unwrap();
    let code = header
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let words = code
        .flat_map(|line| line.split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || c == '_')));
    let functions = words.filter_map(|word| word.strip_suffix('('));
    let mut declared: Vec<_> = functions
        .filter(|name| name.starts_with("forebay_"))
        .collect();
    declared.sort_unstable();
    assert_eq!(exported, declared);
}
