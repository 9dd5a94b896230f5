//! `forebay with`: which programs run on another libpcap, and why the others cannot.

use crate::support::*;
use forebay_testing::lab::have;
use nix::unistd::geteuid;
use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt},
    process::{Command, Output},
};

/// A library that is none of Debian's, and programs that load it. `None`, with a message, without a compiler.
fn programs() -> Option<Folder> {
    if !have("cc") {
        children::skip("cc");
        return None;
    }
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    let library = "const char *pcap_lib_version(void) { return \"the folder's\"; }";
    folder.file("library.c", library);
    folder.file("program.c", "#include <stdio.h>\n#include <stdlib.h>\nextern const char *pcap_lib_version(void);\nint main(int n, char **words) { const char *device = getenv(\"FOREBAY_PCAP_DEVICE\"); printf(\"%s %s %s\\n\", pcap_lib_version(), device ? device : \"-\", n > 1 ? words[1] : words[0]); return 7; }");
    folder.file("plain.c", "int main(void) { return 0; }");
    fs::create_dir(path("lib")).unwrap();
    let compile = |words: &str| {
        let status = Command::new("cc")
            .args(words.split(' '))
            .current_dir(path(""))
            .status();
        assert!(status.unwrap().success(), "{words}");
    };
    compile("-shared -fPIC -Wl,-soname,libpcap.so.0.8 -o lib/libpcap.so.0.8 library.c");
    compile("-o program program.c lib/libpcap.so.0.8");
    compile("-o plain plain.c");
    compile("-static -o static plain.c");
    compile("-static-pie -o static-pie plain.c");
    Some(folder)
}

fn with(folder: &Folder, line: &str) -> Output {
    run!("with --library {} {line}", folder.path("lib"))
}

/// The same as a user without rights, for whom set-user-ID and capabilities add some.
fn as_nobody(folder: &Folder, line: &str) -> Output {
    let mut command = forebay!("with --library {} {line}", folder.path("lib"));
    command.uid(65534).gid(65534).output().unwrap()
}

#[test]
fn a_program_runs_on_the_library_of_the_folder() {
    let Some(folder) = programs() else { return };
    let program = folder.path("program");
    let output = with(&folder, &format!("--device share:lan {program} -w"));
    assert_eq!(
        output.text(),
        "the folder's share:lan -w\n",
        "{}",
        output.log()
    );
    assert_eq!((output.status.code(), output.log()), (Some(7), ""));

    // By its name in PATH, with folders that were set before.
    let mut command = forebay!("with --library {} program", folder.path("lib"));
    command
        .env("PATH", folder.path(""))
        .env("LD_LIBRARY_PATH", "/nowhere");
    let output = command.output().unwrap();
    assert_eq!(
        output.text(),
        "the folder's - program\n",
        "{}",
        output.log()
    );

    let output = with(&folder, &folder.path("plain"));
    contains(output.succeeds().log(), "itself does not load libpcap");
    // A script has no headers. It hands the variables on.
    let script = folder.file("script", format!("#!/bin/sh\nexec {program}\n"));
    set_mode(&script, 0o755);
    contains(with(&folder, &script).text(), "the folder's");
}

#[test]
fn a_program_for_which_the_loader_ignores_the_folder_is_refused() {
    let Some(folder) = programs() else { return };
    for name in ["static", "static-pie"] {
        with(&folder, &folder.path(name)).fails(126, "it is static");
    }
    for (line, advice) in [
        ("sudo tcpdump -i eth0", "sudo forebay with tcpdump -i eth0"),
        (
            "/usr/bin/sudo -u nobody tcpdump",
            "sudo forebay with PROGRAM",
        ),
        ("doas ngrep", "doas forebay with ngrep"),
    ] {
        with(&folder, line).fails(126, advice);
    }
    with(&folder, "no-such-program").fails(127, "there is no such program");
    with(&folder, "/dev/null").fails(127, "there is no such program");
    let foreign = folder.path("foreign");
    let mut bytes = fs::read(folder.path("program")).unwrap();
    bytes[18] = 8; // MIPS
    fs::write(&foreign, bytes).unwrap();
    set_mode(&foreign, 0o755);
    with(&folder, &foreign).fails(126, "another kind of processor");
}

#[test]
fn a_program_with_more_rights_than_its_user_is_refused() {
    let Some(folder) = programs() else { return };
    if !geteuid().is_root() || !have("setcap") {
        return children::skip("root, and setcap");
    }
    set_mode(folder.path(""), 0o755);
    let program = folder.path("program");
    set_mode(&program, 0o4755);
    as_nobody(&folder, &program).fails(126, "it is set-user-ID");
    assert_eq!(
        with(&folder, &program).text(),
        format!("the folder's - {program}\n")
    );
    chown(&program, Some(65534), None).unwrap();
    set_mode(&program, 0o4755);
    assert_eq!(as_nobody(&folder, &program).status.code(), Some(7)); // its own
    set_mode(&program, 0o2755);
    as_nobody(&folder, &program).fails(126, "it is set-group-ID");
    set_mode(&program, 0o755);
    tool_output(format!("setcap cap_net_raw+ep {program}"));
    as_nobody(&folder, &program).fails(126, "it has file capabilities");
    assert_eq!(with(&folder, &program).status.code(), Some(7));
}

#[test]
fn a_missing_library_is_said_before_the_program_runs() {
    let folder = Folder::new();
    run!("with --library {} true", folder.path("")).fails(2, "there is no libpcap.so.0.8 in it");
    run!("with --device sim:rate=fast true").fails(2, "rate=fast");
    run!("with").fails(2, "PROGRAM");
}
