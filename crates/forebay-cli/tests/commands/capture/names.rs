//! Whose file an output is, and whether it still has its name at the end.

use crate::support::*;
use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, chown, lchown},
    process::{Child, Output},
};

const NOBODY: u32 = 65_534;

/// A capture with these arguments that has written packets to `path`.
fn writing(path: &str, arguments: &str) -> Child {
    let child = start!("capture -i sim:rate=100M -U --json {arguments}");
    wait_until(|| file_len(path) >= 10_000);
    child
}

/// A capture of ten packets, cut in the middle of one, and its bytes.
fn torn(path: &str) -> Vec<u8> {
    run!("capture -i sim:clock=virtual -c 10 -q -w {path}").succeeds();
    let mut bytes = fs::read(path).unwrap();
    bytes.truncate(bytes.len() - 150);
    fs::write(path, &bytes).unwrap();
    bytes
}

#[track_caller]
fn refused(output: &Output) {
    assert_ne!(output.status.code(), Some(0));
    contains(output.log(), "belongs to another user");
}

#[test]
fn what_another_user_put_into_a_folder_for_all_is_not_written() {
    let (folder, shared) = Folder::with("shared");
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o1777);
    let planted = format!("{shared}/a.pcapng");
    fs::write(&planted, "theirs").unwrap();
    if chown(&planted, Some(NOBODY), Some(NOBODY)).is_err() {
        println!("skipped: needs root, to give a file away");
        return;
    }
    set_mode(&planted, 0o666);
    refused(&run!("capture -i sim -c 1 -w {planted}"));
    // Nor by way of a link.
    let link = folder.path("link.pcapng");
    std::os::unix::fs::symlink(&planted, &link).unwrap();
    refused(&run!("capture -i sim -c 1 -w {link}"));
    for flag in ["--truncate", "--append"] {
        refused(&run!("pipe -i /etc/passwd -o {planted} {flag}"));
    }
    assert_eq!(fs::read(&planted).unwrap(), b"theirs");

    // A torn capture of theirs is not cut by us either.
    let path = format!("{shared}/torn.pcapng");
    let bytes = torn(&path);
    chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    refused(&run!("repair {path}"));
    assert_eq!(fs::read(&path).unwrap(), bytes);

    // A FIFO: nothing waits for its reader.
    let fifo = format!("{shared}/fifo");
    mkfifo(&fifo);
    chown(&fifo, Some(NOBODY), Some(NOBODY)).unwrap();
    refused(&run!("capture -i sim -c 1 -w {fifo}"));

    // In a folder that is not for all, a file of theirs is written as root asks.
    set_mode(&shared, 0o755);
    let output = run!("capture -i sim:clock=virtual -c 1 --json -w {planted}");
    assert_eq!(count(&output.keeps_the_law()["written"]), 1);
}

/// Without the sticky bit, the kernel follows links of anybody (`fs.protected_symlinks`, proc(5)).
#[test]
fn links_of_strangers_are_not_followed_wherever_they_are() {
    let (folder, shared) = Folder::with("shared");
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o777);
    let [victim, missing, inner] = ["victim", "missing", "inner"].map(|it| folder.path(it));
    fs::write(&victim, "precious").unwrap();
    fs::create_dir(&inner).unwrap();
    let link = |name: &str, to: &str| {
        let link = format!("{shared}/{name}");
        std::os::unix::fs::symlink(to, &link).unwrap();
        lchown(&link, Some(NOBODY), Some(NOBODY)).map(|()| link)
    };
    let Ok(file) = link("a.pcapng", &victim) else {
        println!("skipped: needs root, to give a link away");
        return;
    };
    let nowhere = link("b.pcapng", &missing).unwrap();
    let way = link("way", &inner).unwrap();
    let named = |output: &Output| {
        assert_ne!(output.status.code(), Some(0));
        contains(output.log(), "a link of another user (number 65534)");
    };
    for path in [&file, &nowhere, &format!("{way}/new.pcapng")] {
        named(&run!("capture -i sim -c 1 -w {path}"));
        named(&run!("pipe -i /etc/passwd -o {path} --truncate"));
    }
    named(&run!(
        "capture -i sim -c 9 -b packets:3 -w {way}/x-%H.pcapng"
    ));
    let percent = link("100%", &inner).unwrap();
    named(&run!(
        "capture -i sim -c 9 -b packets:3 -w {percent}/x.pcapng"
    ));
    torn(&format!("{inner}/torn.pcapng"));
    named(&run!("repair {way}/torn.pcapng"));
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert!(!fs::exists(&missing).unwrap());
    assert_eq!(fs::read_dir(&inner).unwrap().count(), 1);
    // Our own links lead where we want.
    lchown(&file, Some(0), Some(0)).unwrap();
    run!("capture -i sim:clock=virtual -c 1 --json -w {file}").keeps_the_law();
    assert_ne!(fs::read(&victim).unwrap(), b"precious");
}

#[test]
fn an_absolute_path_needs_no_right_to_the_current_folder() {
    let (folder, output) = Folder::with("output");
    let closed = folder.path("closed");
    for path in [&output, &closed] {
        fs::create_dir(path).unwrap();
    }
    set_mode(folder.path(""), 0o755);
    set_mode(&closed, 0o700);
    if chown(&output, Some(NOBODY), Some(NOBODY)).is_err() {
        println!("skipped: needs root, to become another user");
        return;
    }
    for flags in ["", "-b packets:3"] {
        let line = format!("capture -i sim:clock=virtual -c 1 -Z nobody {flags}");
        let mut command = forebay!("{line} -w {output}/a.pcapng");
        command.current_dir(&closed).output().unwrap().succeeds();
    }
}

#[test]
fn a_name_that_ends_in_a_slash_is_a_folder_and_no_file_is_made_of_it() {
    let (folder, path) = Folder::with("a");
    run!("capture -i sim:clock=virtual -c 1 -w {path}/").fails(1, "is a directory");
    run!("pipe -i /etc/passwd -o {path}/").fails(1, "is a directory");
    assert!(folder.names().is_empty());
}

#[test]
fn a_fifo_of_another_user_beside_the_metrics_file_holds_up_nothing() {
    let (_folder, shared) = Folder::with("shared");
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o1777);
    let path = format!("{shared}/a.prom");
    let fifo = format!("{path}.part");
    mkfifo(&fifo);
    if chown(&fifo, Some(NOBODY), Some(NOBODY)).is_err() {
        println!("skipped: needs root, to give a file away");
        return;
    }
    run!("capture -i sim:clock=virtual -c 10 --count --metrics-file {path}").succeeds();
    let about = fs::metadata(&path).unwrap();
    assert!(about.is_file() && about.uid() == 0);
}

#[test]
fn a_warning_names_an_existing_file_that_others_can_read() {
    let (_folder, path) = Folder::with("a.pcapng");
    let captured = || run!("capture -i sim:clock=virtual -c 1 -w {path}");
    captured().succeeds();
    let again = captured();
    assert!(
        !again.succeeds().log().contains("warning"),
        "{}",
        again.log()
    );
    set_mode(&path, 0o644);
    contains(captured().succeeds().log(), "keeps its mode 644");
    set_mode(&path, 0o600);
    if chown(&path, Some(NOBODY), Some(NOBODY)).is_ok() {
        contains(captured().succeeds().log(), "belongs to another user");
    }
}

#[test]
fn unfinished_files_of_strangers_are_left_alone() {
    let (folder, shared) = Folder::with("shared");
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o1777);
    let [theirs, ours] =
        ["1", "2"].map(|it| format!("{shared}/x_0000{it}_20261123140000.pcapng.part"));
    let bytes = torn(&folder.path("torn.pcapng"));
    for path in [&theirs, &ours] {
        fs::write(path, &bytes).unwrap();
    }
    if chown(&theirs, Some(NOBODY), Some(NOBODY)).is_err() {
        println!("skipped: needs root, to give a file away");
        return;
    }
    let ran = run!("capture -i sim:clock=virtual -c 10 -b packets:99 --json -w {shared}/x.pcapng");
    assert_eq!(count(&ran.keeps_the_law()["files_recovered"]), 1);
    assert_eq!(fs::read(&theirs).unwrap(), bytes);
    assert!(!fs::exists(&ours).unwrap());
}

#[test]
fn a_file_of_ours_that_all_may_write_is_closed_to_them() {
    let (_folder, path) = Folder::with("a.pcapng");
    for (before, after) in [(0o666, 0o600), (0o640, 0o640)] {
        fs::write(&path, "").unwrap();
        set_mode(&path, before);
        run!("capture -i sim:clock=virtual -c 1 --json -w {path}").keeps_the_law();
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
        let output = run!("capture -i sim:clock=virtual -c 9 --json -w {path} --sync {policy}");
        let json = output.keeps_the_law();
        assert_eq!([count(&json["written"]), count(&json["durable"])], [9, 0]);
        assert_eq!(json["got"]["store"]["in_memory"], true);
        lacks(output.log(), "durable");
        contains(output.log(), "a power cut destroys it");
    }
    fs::remove_file(path).unwrap();
}

#[test]
fn a_file_that_lost_its_name_is_no_success() {
    let folder = Folder::new();
    let (path, other) = (folder.path("a.pcapng"), folder.path("b.pcapng"));
    let remove = || fs::remove_file(&path).unwrap();
    let replace = || {
        fs::write(&other, "another").unwrap();
        fs::rename(&other, &path).unwrap();
    };
    let rename = || fs::rename(&path, &other).unwrap();
    let cases: [(&dyn Fn(), &str); 3] = [
        (&remove, "removed or replaced"),
        (&replace, "removed or replaced"),
        (&rename, "was renamed"),
    ];
    for (act, words) in cases {
        let child = writing(&path, &format!("-w {path}"));
        act();
        let output = stopped(child);
        output.fails(1, words);
        lacks(output.log(), "durable");
        let json = output.json();
        assert_eq!(json["law_holds"], true);
        assert_eq!(json["durable"], 0);
        contains(json["error"].as_str().unwrap(), words);
        let _ = fs::remove_file(&path);
    }
}

#[test]
fn a_part_of_a_series_that_lost_its_name_is_no_success() {
    let (_folder, name) = Folder::with("a.pcapng");
    let part = format!("{name}.part");
    let child = writing(&part, &format!("-C 1GB -w {name}"));
    fs::remove_file(&part).unwrap();
    fs::write(&part, "another").unwrap();
    stopped(child).fails(1, "removed or replaced");
    assert_eq!(fs::read(&part).unwrap(), b"another");
}

#[test]
fn one_file_is_written_by_one_capture() {
    let (_folder, path) = Folder::with("a.pcapng");
    let first = writing(&path, &format!("-w {path}"));
    let second = run!("capture -i sim -c 1 -w {path}");
    second.fails(1, "a.pcapng: ");
    let pid = first.id();
    contains(
        second.log(),
        format!("another process writes this file (pid {pid}). Wait until that has ended"),
    );
    let json = stopped(first).keeps_the_law();
    let found = found::open(&path).packets.len() as u64;
    assert_eq!(found, count(&json["written"]));
}

#[test]
fn a_name_that_promises_what_the_file_will_not_be_is_refused() {
    let cases = "
        a.pcap.lz4  |                  | gzip (.gz) or zstd (.zst)
        a.pcap.xz   |                  | gzip (.gz) or zstd (.zst)
        a.pcap      | --format pcapng  | another format than --format
        a.pcapng.gz | --format pcap    | another format than --format
        a.pcapng    | --format pcap-us | another format than --format
        a.cap       | --format erf     | Use pcapng, pcap or pcap-us
    ";
    let folder = Folder::new();
    for [name, format, expected] in rows(cases) {
        let path = folder.path(name);
        run!("capture -i sim:clock=virtual -c 1 -w {path} {format}").fails(2, expected);
        assert!(folder.names().is_empty(), "{name}");
    }
    run!("capture -i sim -c 1 --format pcap").fails(2, "name one with -w");
}

#[test]
fn repair_does_not_wait_and_cuts_nothing_that_is_open_elsewhere() {
    let (_folder, path) = Folder::with("a.pcapng");
    let bytes = torn(&path);
    // A reader may become a writer through /proc, and would find its file cut.
    let reader = File::open(&path).unwrap();
    run!("repair {path}").fails(1, "another process has it open");
    assert_eq!(fs::read(&path).unwrap(), bytes);
    drop(reader);
    run!("repair {path}").succeeds();
    assert!(file_len(&path) < bytes.len() as u64);
}
