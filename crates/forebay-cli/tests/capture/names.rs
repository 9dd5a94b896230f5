//! Whose file an output is, and whether it still has its name at the end.

use crate::{
    started,
    support::{
        Folder, count, fails, fine, found::read, has, interrupt, run, subcommand, summary, text,
        words,
    },
};
use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    process::{Child, Command, Output},
};

const NOBODY: u32 = 65_534;

fn set_mode(path: &str, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// A capture that writes packets to `path`. Some packets have arrived already.
fn writing(path: &str) -> Child {
    let child = started(&["-i", "sim:rate=100M", "-U", "--json", "-w", path]);
    while fs::metadata(path).map_or(0, |about| about.len()) < 10_000 {
        std::thread::yield_now();
    }
    child
}

fn stopped(child: Child) -> (Option<i32>, String, String) {
    interrupt(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    let log = text(&output.stderr).to_owned();
    (output.status.code(), text(&output.stdout).to_owned(), log)
}

#[track_caller]
fn refused(output: &Output) {
    let log = text(&output.stderr);
    assert_ne!(output.status.code(), Some(0), "{log}");
    assert!(log.contains("belongs to another user"), "{log}");
}

#[test]
fn what_another_user_put_into_a_folder_for_all_is_not_written() {
    let folder = Folder::new();
    let shared = folder.path("shared");
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o1777);
    let planted = format!("{shared}/a.pcapng");
    fs::write(&planted, "theirs").unwrap();
    if chown(&planted, Some(NOBODY), Some(NOBODY)).is_err() {
        println!("skipped: needs root, to give a file away");
        return;
    }
    set_mode(&planted, 0o666);
    refused(&run(&["-i", "sim", "-c", "1", "-w", &planted]));
    // Nor by way of a link.
    let link = folder.path("link.pcapng");
    std::os::unix::fs::symlink(&planted, &link).unwrap();
    refused(&run(&["-i", "sim", "-c", "1", "-w", &link]));
    let pipe = |flag| {
        let args = ["-i", "/etc/passwd", "-o", &planted, flag];
        subcommand("pipe", &args).output().unwrap()
    };
    refused(&pipe("--truncate"));
    refused(&pipe("--append"));
    assert_eq!(fs::read(&planted).unwrap(), b"theirs");

    // A torn capture of theirs is not cut by us either.
    let torn = format!("{shared}/torn.pcapng");
    fine(&run(&words(&format!(
        "-i sim:clock=virtual -c 10 --json -w {torn}"
    ))));
    let mut bytes = fs::read(&torn).unwrap();
    bytes.truncate(bytes.len() - 150);
    fs::write(&torn, &bytes).unwrap();
    chown(&torn, Some(NOBODY), Some(NOBODY)).unwrap();
    refused(&subcommand("repair", &[&torn]).output().unwrap());
    assert_eq!(fs::read(&torn).unwrap(), bytes);

    // A FIFO: nothing waits for its reader.
    let fifo = format!("{shared}/fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    chown(&fifo, Some(NOBODY), Some(NOBODY)).unwrap();
    refused(&run(&["-i", "sim", "-c", "1", "-w", &fifo]));

    // In a folder that is not for all, a file of theirs is written as root asks.
    set_mode(&shared, 0o755);
    let output = run(&words(&format!(
        "-i sim:clock=virtual -c 1 --json -w {planted}"
    )));
    assert_eq!(count(&fine(&output)["written"]), 1);
}

#[test]
fn a_file_of_ours_that_all_may_write_is_closed_to_them() {
    let folder = Folder::new();
    let path = folder.path("a.pcapng");
    for (before, after) in [(0o666, 0o600), (0o640, 0o640)] {
        fs::write(&path, "").unwrap();
        set_mode(&path, before);
        fine(&run(&words(&format!(
            "-i sim:clock=virtual -c 1 --json -w {path}"
        ))));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, after);
    }
}

#[test]
fn nothing_is_durable_in_memory() {
    let path = format!("/dev/shm/forebay-cli-{}.pcapng", std::process::id());
    if File::create_new(&path).is_err() {
        println!("skipped: needs /dev/shm");
        return;
    }
    for policy in ["file", "always"] {
        let args = ["-i", "sim:clock=virtual", "-c", "9", "--json", "-w", &path];
        let output = run(&[&args[..], &["--sync", policy]].concat());
        let json = fine(&output);
        assert_eq!([count(&json["written"]), count(&json["durable"])], [9, 0]);
        assert_eq!(json["got"]["store"]["in_memory"], true);
        let log = text(&output.stderr);
        assert!(!log.contains("durable"), "{log}");
        assert!(log.contains("a power cut destroys it"), "{log}");
    }
    fs::remove_file(path).unwrap();
}

#[test]
fn a_file_that_lost_its_name_is_no_success() {
    let folder = Folder::new();
    let (path, other) = (folder.path("a.pcapng"), folder.path("b.pcapng"));
    type Act = fn(&str, &str);
    let cases: [(Act, &str); 3] = [
        (
            |path, _| fs::remove_file(path).unwrap(),
            "removed or replaced",
        ),
        (
            |path, other| {
                fs::write(other, "another").unwrap();
                fs::rename(other, path).unwrap();
            },
            "removed or replaced",
        ),
        (
            |path, other| fs::rename(path, other).unwrap(),
            "was renamed",
        ),
    ];
    for (act, words) in cases {
        let child = writing(&path);
        act(&path, &other);
        let (code, json, log) = stopped(child);
        assert_eq!(code, Some(1), "{log}");
        assert!(log.contains(words) && !log.contains("durable"), "{log}");
        let json = summary(json.as_bytes());
        assert_eq!(
            (&json["law_holds"], count(&json["durable"])),
            (&true.into(), 0)
        );
        assert!(json["error"].as_str().unwrap().contains(words), "{json}");
        let _ = fs::remove_file(&path);
    }
}

#[test]
fn a_part_of_a_series_that_lost_its_name_is_no_success() {
    let folder = Folder::new();
    let name = folder.path("a.pcapng");
    let part = format!("{name}.part");
    let line = format!("-i sim:rate=100M -U --json -C 1GB -w {name}");
    let args = words(&line);
    let child = started(&args);
    while fs::metadata(&part).map_or(0, |about| about.len()) < 10_000 {
        std::thread::yield_now();
    }
    fs::remove_file(&part).unwrap();
    fs::write(&part, "another").unwrap();
    let (code, _, log) = stopped(child);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("removed or replaced"), "{log}");
    assert_eq!(fs::read(&part).unwrap(), b"another");
}

#[test]
fn one_file_is_written_by_one_capture() {
    let folder = Folder::new();
    let path = folder.path("a.pcapng");
    let first = writing(&path);
    let second = run(&["-i", "sim", "-c", "1", "-w", &path]);
    let log = text(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{log}");
    assert!(
        log.contains("a.pcapng: ") && log.contains("Another sink or process writes it"),
        "{log}"
    );
    let (code, json, log) = stopped(first);
    assert_eq!(code, Some(0), "{log}");
    let found = read(File::open(&path).unwrap());
    let json = summary(json.as_bytes());
    assert_eq!(found.packets.len() as u64, count(&json["written"]));
}

#[test]
fn a_name_that_promises_what_the_file_will_not_be_is_refused() {
    let folder = Folder::new();
    for (name, format, expected) in [
        ("a.pcap.lz4", "", "gzip (.gz) or zstd (.zst)"),
        ("a.pcap.xz", "", "gzip (.gz) or zstd (.zst)"),
        ("a.pcap", "pcapng", "another format than --format"),
        ("a.pcapng.gz", "pcap", "another format than --format"),
        ("a.pcapng", "pcap-us", "another format than --format"),
        ("a.cap", "erf", "Use pcapng, pcap or pcap-us"),
    ] {
        let path = folder.path(name);
        let mut command =
            crate::support::forebay(&["-i", "sim:clock=virtual", "-c", "1", "-w", &path]);
        if !format.is_empty() {
            command.args(["--format", format]);
        }
        fails(&command.output().unwrap(), 2, expected);
        assert!(!fs::exists(&path).unwrap(), "{name}");
    }
    let args = ["-i", "sim:clock=virtual", "-c", "1", "--format", "pcap"];
    fails(&run(&args), 2, "name one with -w");
}

#[test]
fn repair_does_not_wait_and_cuts_nothing_that_is_open_elsewhere() {
    let folder = Folder::new();
    let path = folder.path("a.pcapng");
    fine(&run(&words(&format!(
        "-i sim:clock=virtual -c 10 --json -w {path}"
    ))));
    let mut bytes = fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 150);
    fs::write(&path, &bytes).unwrap();
    // A reader may become a writer through /proc, and would find its file cut.
    let reader = File::open(&path).unwrap();
    let output = subcommand("repair", &[&path]).output().unwrap();
    fails(&output, 1, "another process has it open");
    assert_eq!(fs::read(&path).unwrap(), bytes);
    drop(reader);
    let output = subcommand("repair", &[&path]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    if has("capinfos") {
        assert!(fs::metadata(&path).unwrap().len() < bytes.len() as u64);
    }
}
