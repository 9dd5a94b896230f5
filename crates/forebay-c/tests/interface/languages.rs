//! Programs in C++, for both versions of the language, plainly and with the compiler's checkers of memory and of undefined behaviour.
//! `scripts/c-sanitizers` does the same where the library is checked, too.

use crate::support::{compilers, is_there, library, output, root, sources};
use forebay_testing::folder::Folder;
use std::{os::unix::process::ExitStatusExt, path::Path, process::Command};

const WARNINGS: [&str; 6] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g"];
const CHECKED: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

fn run(compiler: &str, flags: &[&str], library: &Folder, source: &Path) -> String {
    let program = library.path("program");
    let mut command = Command::new(compiler);
    command
        .args(WARNINGS)
        .args(flags)
        .args(["-pthread", "-o", &program]);
    command.arg(source).arg("-I").arg(root().join("include"));
    command.args(["-L", &library.path(""), "-lforebay"]);
    output(command.arg(format!("-Wl,-rpath,{}", library.path(""))));
    output(Command::new("timeout").args(["300", &program]))
}

/// The C++ compilers of these compilers.
fn cpp_compilers() -> impl Iterator<Item = &'static str> {
    compilers().into_iter().filter_map(|name| {
        let name = match name.as_str() {
            "clang" => "clang++",
            _ => "g++",
        };
        is_there(name).then_some(name)
    })
}

#[test]
fn programs_in_cpp_find_what_the_headers_say() {
    let library = library();
    for compiler in cpp_compilers() {
        for source in sources("tests/cpp", "cpp") {
            run(compiler, &["-std=c++17"], &library, &source);
            let checked = [&["-std=c++20"], &CHECKED[..]].concat();
            run(compiler, &checked, &library, &source);
        }
        let example = root().join("examples/course.cpp");
        let printed = run(compiler, &["-std=c++17"], &library, &example);
        assert_eq!(printed, "hello, course: 13 bytes\n");
    }
}

/// The linker keeps one of two inline functions of the same name: that of the first file.
#[test]
fn files_with_and_without_exceptions_are_one_program() {
    let library = library();
    for compiler in cpp_compilers() {
        let object = |flag: &str| {
            let path = library.path(&format!("mixed{flag}.o"));
            let mut command = Command::new(compiler);
            command.args(["-std=c++17", "-O0", flag, "-c", "-o", &path]);
            command.arg(root().join("tests/mixed.cpp")).arg("-I");
            output(command.arg(root().join("include")));
            path
        };
        let [with, without] = ["-fexceptions", "-fno-exceptions"].map(object);
        for objects in [[&with, &without], [&without, &with]] {
            let program = library.path("program");
            let mut link = Command::new(compiler);
            link.args(["-o", &program]).args(objects);
            link.args(["-L", &library.path(""), "-lforebay", "-pthread"]);
            output(link.arg(format!("-Wl,-rpath,{}", library.path(""))));
            output(&mut Command::new(&program));
            let ended = Command::new(&program).arg("plain").output().unwrap();
            assert_eq!(ended.status.signal(), Some(6), "{:?}", ended.status);
        }
    }
}

#[test]
fn cpp_without_exceptions_prints_the_error_and_aborts() {
    let library = library();
    for compiler in cpp_compilers() {
        let flags = ["-std=c++17", "-fno-exceptions", "-fno-rtti"];
        run(compiler, &flags, &library, &root().join("tests/plain.cpp"));
        let mut fails = Command::new(library.path("program"));
        let ended = fails.arg("fail").output().unwrap();
        assert_eq!(ended.status.signal(), Some(6), "{:?}", ended.status);
        let text = String::from_utf8(ended.stderr).unwrap();
        assert!(text.contains("no such queue"), "{text}");
    }
}
