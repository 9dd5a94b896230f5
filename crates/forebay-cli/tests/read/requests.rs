//! What is refused before anything is made, so that nothing is lost by a wrong request.

use crate::{
    recorded,
    support::{Folder, fails, forebay, run, text},
};
use std::{fs::File, io::Write, path::Path, process::Stdio};

#[test]
fn what_is_read_is_not_overwritten() {
    let folder = Folder::new();
    let input = recorded(&folder, "in.pcapng", "100");
    let before = std::fs::read(&input).unwrap();
    let link = folder.path("link.pcapng");
    std::os::unix::fs::symlink(&input, &link).unwrap();
    for output in [&input, &link] {
        let ran = run(&["-r", &input, "-w", output]);
        fails(&ran, 2, "would overwrite");
    }
    let mut appended = File::options().append(true).open(&input).unwrap();
    let opened = || File::open(&input).unwrap();
    for (stdin, stdout, args) in [
        (
            Stdio::null(),
            appended.try_clone().unwrap().into(),
            ["-r", &input, "-w", "-"],
        ),
        (opened().into(), Stdio::null(), ["-r", "-", "-w", &input]),
    ] {
        let ran = forebay(&args).stdin(stdin).stdout(stdout).output().unwrap();
        assert_eq!(
            ran.status.code(),
            Some(2),
            "{args:?}: {}",
            text(&ran.stderr)
        );
    }
    appended.flush().unwrap();
    assert_eq!(std::fs::read(&input).unwrap(), before);
}

#[test]
fn nonsense_is_refused_before_anything_is_made() {
    let folder = Folder::new();
    let input = recorded(&folder, "in.pcapng", "10");
    let output = folder.path("out.pcapng");
    let empty = folder.path("empty");
    std::fs::write(&empty, "").unwrap();
    let text_file = folder.path("text");
    std::fs::write(&text_file, "not a capture at all, only some text").unwrap();
    let missing = folder.path("missing");
    for (code, args, expected) in [
        (
            2,
            &["-r", &input, "tcp prot 80"][..],
            "  tcp prot 80\n      ^^^^\n",
        ),
        (2, &["-r", &input, "host"], "host\n"),
        (2, &["-r", &input, "-F", &text_file], "not a capture at all"),
        (2, &["-r", &input, "-F", &text_file, "udp"], "-F"),
        (1, &["-r", &input, "-F", &missing], "No such file"),
        (2, &["-r", "-", "-r", "-"], "only once"),
        (1, &["-r", &input, "inbound"], "inbound"),
        (1, &["-r", &missing], "no such file"),
        (1, &["-r", &empty], "is empty"),
        (1, &["-r", &text_file], "neither pcap nor pcapng"),
        (1, &["-r", "/"], "directory"),
    ] {
        let ran = run(&[args, &["-w", &output]].concat());
        fails(&ran, code, expected);
        assert!(!Path::new(&output).exists(), "{args:?}");
    }
}
