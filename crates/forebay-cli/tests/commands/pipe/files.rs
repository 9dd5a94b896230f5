//! Files as inputs and outputs, and disks that are full.

use super::{fed, fed_to, is_silent};
use crate::support::*;
use std::fs::{self, File};

#[test]
fn files_are_read_one_after_another_and_every_output_gets_all() {
    let folder = Folder::new();
    let [a, b] = [folder.file("a", noise(100_000)), folder.file("b", "tail")];
    let [x, y] = ["x", "y"].map(|name| folder.path(name));
    let output = fed(format!("-i {a} -i - {b} -o {x} -o - -o {y}"), "middle");
    is_silent(&output);
    let all = [&noise(100_000)[..], b"middle", b"tail"].concat();
    assert!(output.stdout == all && fs::read(x).unwrap() == all && fs::read(y).unwrap() == all);
}

#[test]
fn an_existing_file_is_changed_only_with_truncate_or_append() {
    let folder = Folder::new();
    let file = folder.file("kept", "old ");
    let content = || fs::read_to_string(&file).unwrap();
    let expected = "the file already exists. Choose another name, --truncate or --append";
    fed(format!("-o {file}"), "new").fails(1, expected);
    assert_eq!(content(), "old ");
    is_silent(&fed(format!("-o {file} --append --sync"), "new"));
    assert_eq!(content(), "old new");
    is_silent(&fed(format!("-o {file} --truncate"), "new"));
    assert_eq!(content(), "new");
    File::create(&file).unwrap();
    is_silent(&fed(format!("-o {file}"), "empty is as good as none"));
}

#[test]
fn what_another_user_put_into_a_shared_folder_is_not_written_to() {
    let Some(shared) = shared_folder() else {
        return;
    };
    for output in [
        "file -q",
        "file --append",
        "file --truncate",
        "fifo -q",
        "link --truncate",
    ] {
        let ran = fed(format!("-o {}", shared.path(output)), "secret");
        ran.fails(1, "another user (number 65534)");
    }
    assert_eq!(fs::read(shared.path("file")).unwrap(), b"");
    assert_eq!(fs::read(shared.path("victim")).unwrap(), b"precious");
}

#[test]
fn writes_that_fail_when_the_file_is_closed_are_errors() {
    if !has("strace") {
        return;
    }
    let (_folder, file) = Folder::with("file");
    let options = format!("-P {file} -e inject=close:error=EDQUOT");
    let mut command = strace(&options, "/dev/null", &format!("pipe -o {file}"));
    fed_to(&mut command, "lost").fails(1, "file: closing it: ");
}

#[test]
fn a_file_is_not_written_while_it_is_read() {
    let folder = Folder::new();
    let file = folder.file("both", "precious");
    for flag in ["--append", "--truncate"] {
        run!("pipe {file} -o {file} {flag}").fails(1, "is also an input");
    }
    let both = File::options().append(true).open(&file).unwrap();
    let output = forebay!("pipe {file}").stdout(both).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

#[test]
fn a_full_device_is_reported_with_the_bytes_written_and_other_outputs_go_on() {
    let output = fed("-o /dev/full", noise(5000));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        output.log(),
        "forebay: error: /dev/full: writing: no space left on device (os error 28). 0 bytes were written before\n"
    );
    let output = fed("-o /dev/full -o -", noise(3_000_000));
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout == noise(3_000_000));
}

#[test]
fn a_full_disk_keeps_what_fits_and_reports_how_much() {
    let (folder, mount) = Folder::with("small");
    let source = folder.file("source", noise(3_000_000));
    let kept = folder.path("kept");
    // Past the buffer, and through it.
    for pipe in [
        format!("{FOREBAY} pipe {source}"),
        format!("cat {source} | {FOREBAY} pipe"),
    ] {
        let script = format!("{pipe} -o {mount}/full; code=$?; cp {mount}/full {kept}; exit $code");
        let mut command = children::with_small_disk(mount.as_ref(), "1M", &shell(script));
        let Some(output) = children::on_small_disk(command.output()) else {
            return;
        };
        let there = fs::read(&kept).unwrap();
        assert!(!there.is_empty() && there == noise(3_000_000)[..there.len()]);
        let expected = "writing: no space left on device (os error 28).";
        output.fails(
            1,
            format!("{expected} {} bytes were written before", there.len()),
        );
    }
}

#[test]
fn the_file_size_limit_is_an_error_like_a_full_disk() {
    let (_folder, file) = Folder::with("limited");
    let under_limit = |memory: &str| {
        let pipe = format!("forebay pipe -m {memory} -o {file}");
        let script = format!("ulimit -f 200; head -c 1000000 /dev/zero | {pipe}");
        shell(script).output().unwrap()
    };
    // To the kernel, the buffer is a file.
    under_limit("64M").fails(1, "raise `ulimit -f`");
    let output = under_limit("64k");
    let written = file_len(&file);
    output.fails(
        1,
        format!("file too large (os error 27). {written} bytes were written before"),
    );
}
