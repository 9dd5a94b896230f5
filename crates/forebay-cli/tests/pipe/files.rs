//! Files as inputs and outputs, and disks that are full.

use super::{
    feed, is_silent, pipe, run_with,
    support::{self, Folder, children, dice::noise, fails, has, text},
};
use std::{
    fs::{self, File},
    process::{Command, Stdio},
};

#[test]
fn files_are_read_one_after_another_and_every_output_gets_all() {
    let folder = Folder::new();
    let [a, b, x, y] = ["a", "b", "x", "y"].map(|name| folder.path(name));
    fs::write(&a, noise(100_000)).unwrap();
    fs::write(&b, "tail").unwrap();
    let output = run_with(
        &["-i", &a, "-i", "-", &b, "-o", &x, "-o", "-", "-o", &y],
        b"middle".into(),
    );
    is_silent(&output);
    let all = [&noise(100_000)[..], b"middle", b"tail"].concat();
    assert!(output.stdout == all && fs::read(x).unwrap() == all && fs::read(y).unwrap() == all);
}

#[test]
fn an_existing_file_is_changed_only_with_truncate_or_append() {
    let folder = Folder::new();
    let file = folder.path("kept");
    fs::write(&file, "old ").unwrap();
    let output = run_with(&["-o", &file], b"new".into());
    assert_eq!(output.status.code(), Some(1));
    let log = text(&output.stderr);
    assert!(
        log.contains("the file already exists. Choose another name, --truncate or --append"),
        "{log}"
    );
    assert_eq!(fs::read(&file).unwrap(), b"old ");
    is_silent(&run_with(
        &["-o", &file, "--append", "--sync"],
        b"new".into(),
    ));
    assert_eq!(fs::read(&file).unwrap(), b"old new");
    is_silent(&run_with(&["-o", &file, "--truncate"], b"new".into()));
    assert_eq!(fs::read(&file).unwrap(), b"new");
    File::create(&file).unwrap();
    is_silent(&run_with(
        &["-o", &file],
        b"empty is as good as none".into(),
    ));
}

#[test]
fn what_another_user_put_into_a_shared_folder_is_not_written_to() {
    let Some(shared) = support::shared_folder() else {
        return;
    };
    for (name, flag) in [
        ("file", "-q"),
        ("file", "--append"),
        ("file", "--truncate"),
        ("fifo", "-q"),
        ("link", "--truncate"),
    ] {
        let output = run_with(&["-o", &shared.path(name), flag], b"secret".into());
        assert_eq!(output.status.code(), Some(1), "{name} {flag}");
        let log = text(&output.stderr);
        assert!(log.contains("another user (number 65534)"), "{log}");
    }
    assert_eq!(fs::read(shared.path("file")).unwrap(), b"");
    assert_eq!(fs::read(shared.path("victim")).unwrap(), b"precious");
}

#[test]
fn writes_that_fail_when_the_file_is_closed_are_errors() {
    if !has("strace") {
        return;
    }
    let folder = Folder::new();
    let file = folder.path("file");
    let mut child = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-P", &file])
        .args(["-e", "inject=close:error=EDQUOT"])
        .args([env!("CARGO_BIN_EXE_forebay"), "pipe", "-o", &file])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    feed(&mut child, b"lost".into()).join().unwrap();
    let output = child.wait_with_output().unwrap();
    let log = text(&output.stderr);
    assert!(log.contains("file: closing it: "), "{log}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_file_is_not_written_while_it_is_read() {
    let folder = Folder::new();
    let file = folder.path("both");
    fs::write(&file, "precious").unwrap();
    for flag in ["--append", "--truncate"] {
        let output = pipe(&[&file, "-o", &file, flag]).output().unwrap();
        fails(&output, 1, "is also an input");
    }
    let both = File::options().append(true).open(&file).unwrap();
    let output = pipe(&[&file]).stdout(both).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

#[test]
fn a_full_device_is_reported_with_the_bytes_written_and_other_outputs_go_on() {
    let output = run_with(&["-o", "/dev/full"], noise(5000));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "forebay: error: /dev/full: writing: no space left on device (os error 28). 0 bytes were written before\n"
    );
    let output = run_with(&["-o", "/dev/full", "-o", "-"], noise(3_000_000));
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout == noise(3_000_000));
}

#[test]
fn a_full_disk_keeps_what_fits_and_reports_how_much() {
    let folder = Folder::new();
    let mount = folder.path("small");
    let kept = folder.path("kept");
    let script = format!(
        "{} pipe -o {mount}/full; code=$?
         cp {mount}/full {kept}; exit $code",
        env!("CARGO_BIN_EXE_forebay"),
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]);
    let child = children::with_small_disk(mount.as_ref(), "1M", &shell)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        return children::skip("unshare");
    };
    let feeding = feed(&mut child, noise(3_000_000));
    let Some(output) = children::on_small_disk(child.wait_with_output()) else {
        return;
    };
    feeding.join().unwrap();
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{log}");
    let there = fs::read(&kept).unwrap();
    assert!(!there.is_empty() && there == noise(3_000_000)[..there.len()]);
    let expected = format!(
        "writing: no space left on device (os error 28). {} bytes were written before",
        there.len()
    );
    assert!(log.contains(&expected), "{log}");
}

#[test]
fn the_file_size_limit_is_an_error_like_a_full_disk() {
    let folder = Folder::new();
    let file = folder.path("limited");
    let under_limit = |memory: &str| {
        let script = format!(
            "ulimit -f 200; head -c 1000000 /dev/zero | {} pipe -m {memory} -o {file}",
            env!("CARGO_BIN_EXE_forebay")
        );
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        output
    };
    // To the kernel, the buffer is a file.
    let output = under_limit("64M");
    let log = text(&output.stderr);
    assert!(log.contains("raise `ulimit -f`"), "{log}");
    let output = under_limit("64k");
    let written = fs::metadata(&file).unwrap().len();
    let log = text(&output.stderr);
    assert!(
        log.contains(&format!(
            "file too large (os error 27). {written} bytes were written before"
        )),
        "{log}"
    );
}
