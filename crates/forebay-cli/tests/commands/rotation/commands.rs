//! `-z`: a program that runs on finished files, without rights and without delaying the capture.

use crate::support::*;
use std::{fs, time::Duration};

/// A script of the shell in `folder`; `$LOG` is a file there.
fn script(folder: &Folder, text: &str) -> String {
    let path = folder.path("program");
    let log = folder.path("log");
    // A child of another test could inherit the descriptor, and what is being written cannot be run.
    let script =
        format!("cat >{path} <<'END'\n#!/bin/sh\nLOG={log}\n{text}\nEND\nchmod 755 {path}");
    shell(script).output().unwrap().succeeds();
    path
}

/// A folder, the script in it, and the path of a capture.
fn scripted(text: &str) -> (Folder, String, String) {
    let (folder, path) = Folder::with("a.pcapng");
    let program = script(&folder, text);
    (folder, program, path)
}

fn log(folder: &Folder) -> String {
    fs::read_to_string(folder.path("log")).unwrap_or_default()
}

#[test]
fn it_runs_on_every_finished_file_in_order_and_only_then() {
    let cases = "
        a.pcapng  | -C 20kB                  | a.pcapng a.pcapng1 a.pcapng2
        a.pcap.gz | -C 20kB                  | a.pcap.gz a.pcap1.gz
        a.pcapng  | -C 20kB --compress zstd  | a.pcapng.zst a.pcapng1.zst a.pcapng2.zst
        a.pcapng  | --sync none              | a.pcapng
    ";
    for [name, flags, expected] in rows(cases) {
        let folder = Folder::new();
        let program = script(&folder, "test -s $1 && echo $# $1 >>$LOG");
        let path = folder.path(name);
        let line = format!("-c 500 --json -z {program} -w {path} {flags}");
        let json = run!("capture -i sim:clock=virtual {line}").keeps_the_law();
        let expected = words(expected).into_iter();
        let expected: Vec<_> = expected
            .map(|name| format!("1 {}", folder.path(name)))
            .collect();
        assert_eq!(
            log(&folder).lines().collect::<Vec<_>>(),
            expected,
            "{flags}"
        );
        let command = counts(&json["command"], ["files", "failed", "left"]);
        assert_eq!(command, [expected.len() as u64, 0, 0]);
    }
}

#[test]
fn what_it_prints_and_how_it_fails_is_reported() {
    let (folder, path) = Folder::with("a.pcapng");
    let capture = |program: &str| {
        let flags = "-c 500 --json -C 20kB";
        run!("capture -i sim:clock=virtual {flags} -w {path} -z {program}")
    };
    for (text_of_program, expected, failed) in [
        ("echo hello; echo there >&2", "a.pcapng2: there", 0),
        ("case $1 in *1) exit 7; esac", "a.pcapng1: exit code 7", 1),
        ("kill -9 $$", "a.pcapng: signal 9", 3),
        ("yes; exit 0", "", 0),
        ("printf '\\033[31m'", "\\u{1b}[31m", 0),
        ("sleep 1000 & echo $! >>$LOG", "", 0),
        ("yes & exit 0", "", 0), // it prints until the pipe is closed
    ] {
        let text_of_program = text_of_program.replace("yes;", "yes | head -c 1000000;");
        let program = script(&folder, &text_of_program);
        let output = capture(&program);
        contains(output.log(), expected);
        assert!(output.log().len() < 50_000);
        let json = output.json();
        assert_eq!(
            count(&json["command"]["failed"]),
            failed,
            "{text_of_program}"
        );
        assert_eq!(output.status.code(), Some(i32::from(failed > 0)));
        assert_eq!(json["law_holds"], true);
    }
    for pid in log(&folder).lines() {
        foreign(format!("kill {pid}"));
    }
    // Found when it is run: the interpreter is missing.
    let program = folder.path("broken");
    let made = shell(format!("echo '#!/no/such' >{program}; chmod 755 {program}")).status();
    assert!(made.unwrap().success());
    capture(&program).fails(1, "a.pcapng: cannot be run: ");
}

#[test]
fn a_program_that_cannot_be_run_is_refused_before_the_capture() {
    let (_folder, path) = Folder::with("a.pcapng");
    for (program, write, expected) in [
        ("no-such-program", path.as_str(), "no such program"),
        ("gzip -9", &path, "without arguments"),
        ("/etc/passwd", &path, "no such program"),
        ("gzip", "-", "name one with -w"),
    ] {
        let output = run!("capture -i sim:clock=virtual -c 1 -w {write} -z '{program}'");
        output.fails(2, expected);
        assert!(!fs::exists(&path).unwrap());
    }
}

#[test]
fn a_name_that_looks_like_a_flag_is_a_file() {
    let folder = Folder::new();
    let capture = |name: &str| {
        let mut command = forebay!("capture -i sim:clock=virtual -c 9 --json {name} -z gzip");
        command.current_dir(folder.path("")).output().unwrap()
    };
    capture("-w ./-v.pcap").keeps_the_law();
    let again = capture("-w-v.pcap");
    assert_ne!(again.status.code(), Some(0), "it is there by now");
    assert!(fs::exists(folder.path("-v.pcap.gz")).unwrap());
}

#[test]
fn it_has_no_rights_no_descriptors_and_no_blocked_signals() {
    let text = "cat /proc/self/status >$LOG; ls -l /proc/$$/fd >>$LOG";
    let (folder, program, path) = scripted(text);
    // A shell that leaves a descriptor open.
    let line = format!("-i sim:clock=virtual -c 9 -w {path} -z {program}");
    let capture = shell(format!("exec 9</etc/passwd; exec forebay capture {line}")).output();
    capture.unwrap().succeeds();
    let log = log(&folder);
    let status = |label: &str| {
        let line = log.lines().find_map(|line| line.strip_prefix(label));
        line.expect(label).trim().to_owned()
    };
    for label in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:", "SigBlk:"] {
        assert_eq!(status(label), "0000000000000000", "{label}");
    }
    assert_eq!(status("NoNewPrivs:"), "1");
    assert!(!log.contains("/etc/passwd"), "{log}");
    // Its own script is one of the descriptors of some shells.
    let opened: Vec<_> = log.lines().filter(|line| line.contains(" -> ")).collect();
    assert!(opened.len() <= 5, "{log}");
    assert!(log.contains("0 -> /dev/null"), "{log}");
}

#[test]
fn with_a_user_it_is_that_user() {
    let text = "id -un >$LOG; id -Gn >>$LOG; head -c 1 $1 | wc -c >>$LOG";
    let (folder, program, path) = scripted(text);
    set_mode(folder.path(""), 0o777);
    let flags = format!("-w {path} -z {program} -Z nobody");
    let output = run!("capture -i sim:clock=virtual -c 9 --json {flags}");
    if output.log().contains("only root") {
        return children::skip("root");
    }
    output.keeps_the_law();
    let log = log(&folder);
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines, ["nobody", "nogroup", "1"], "it can read the file");
}

/// The process that runs programs for this capture.
fn helper_of(pid: u32) -> u32 {
    let tasks = format!("/proc/{pid}/task/{pid}/children");
    let first = || {
        let children = fs::read_to_string(&tasks).unwrap();
        Some(children.split_whitespace().next()?.parse().unwrap())
    };
    wait_until(|| first().is_some());
    first().unwrap()
}

#[test]
fn a_helper_that_dies_is_reported_and_the_capture_goes_on() {
    let (folder, program, path) = scripted("echo $1 >>$LOG");
    let child = start!("capture -i sim -w {path} -C 1MB --json -z {program}");
    wait_until(|| !log(&folder).is_empty());
    let helper = helper_of(child.id());
    foreign(format!("kill -9 {helper}")).unwrap().succeeds();
    std::thread::sleep(Duration::from_millis(600));
    let output = stopped(child);
    output.fails(1, "helper process has ended (signal 9)");
    contains(output.log(), "did not run on");
    let json = output.lawful();
    let all: u64 = counts(&json["command"], ["files", "left"]).iter().sum();
    assert_eq!(all, count(&json["files_written"]), "{json}");
}

#[test]
fn an_interrupt_ends_the_wait_for_a_slow_program() {
    let (folder, program, path) = scripted("echo $1 >>$LOG; exec sleep 1000");
    let mut capture =
        forebay!("capture -i sim:clock=virtual -c 500 -w {path} -C 20kB -z {program}");
    let errors = folder.path("errors");
    let child = capture.stderr(fs::File::create(&errors).unwrap()).spawn();
    let printed = || fs::read_to_string(&errors).unwrap();
    wait_until(|| printed().contains("waiting for the program of -z") && !log(&folder).is_empty());
    assert_eq!(stopped(child.unwrap()).status.code(), Some(1));
    contains(printed(), "did not run on 3 files");
    assert_eq!(log(&folder).lines().count(), 1);
}
