//! What the files of a series are called, while they are written and afterwards, and what is never replaced by them.

use crate::{
    VIRTUAL, complete, files, names, open, series,
    support::{Folder, fails, fine, forebay, interrupt, run, summary, text, words},
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

#[test]
fn the_names_are_those_of_tcpdump_and_dumpcap() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            "a.pcap",
            &["-C", "1MB", "-c", "30k"],
            &["a.pcap", "a.pcap1", "a.pcap2"],
        ),
        (
            "a.pcapng",
            &["-C", "1", "-W", "2", "-c", "50k"],
            &["a.pcapng0", "a.pcapng1"],
        ),
        (
            "a-%H%M%S.pcapng",
            &["-G", "1", "-W", "2"],
            &["a-000000.pcapng", "a-000001.pcapng"],
        ),
        (
            "a-%S",
            &["-G", "1", "-C", "60MB", "-a", "duration:1.5"],
            &["a-00", "a-01", "a-001", "a-002", "a-011"],
        ),
        ("a", &["-G", "100ms", "-a", "files:3"], &["a", "a.1", "a.2"]),
        (
            "a.pcapng",
            &["-b", "duration:1", "-b", "files:2", "-a", "duration:2.5"],
            &[
                "a_00002_20200101000001.pcapng",
                "a_00003_20200101000002.pcapng",
            ],
        ),
    ];
    for (name, flags, expected) in cases {
        let folder = Folder::new();
        let name = folder.path(name);
        let mut command = forebay(&["-i", VIRTUAL, "-q", "-w", &name]);
        let output = command.args(*flags).env("TZ", "UTC").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(&names(&folder)[..], *expected, "{flags:?}");
    }
}

#[test]
fn a_series_does_not_replace_what_it_reads() {
    let folder = Folder::new();
    let source = folder.path("a.pcapng1");
    fine(&run(&["-i", VIRTUAL, "-c", "9", "-w", &source, "--json"]));
    let before = fs::read(&source).unwrap();
    let output = folder.path("a.pcapng");
    for name in [
        "a.pcapng",
        "a.pcapng1",
        "a.pcapng07",
        "a.pcapng.part",
        "a.pcapng1.zst.part",
    ] {
        let path = folder.path(name);
        fs::write(&path, &before).unwrap();
        let link = folder.path("link");
        symlink(&path, &link).unwrap();
        for read in [&path, &link] {
            let refused = run(&["-r", read, "-w", &output, "-C", "1"]);
            fails(&refused, 2, "would overwrite");
            assert_eq!(fs::read(&path).unwrap(), before);
        }
        fs::remove_file(&link).unwrap();
    }
    // Names of a time replace nothing, and another folder's files are others.
    let other = Folder::new();
    let elsewhere = other.path("a.pcapng");
    for flags in [
        ["-w", &output, "-b", "packets:4"],
        ["-w", &elsewhere, "-C", "1"],
    ] {
        fine(&run(
            &[&["-r", &output, "-q", "--json"], &flags[..]].concat()
        ));
        assert_eq!(fs::read(&output).unwrap(), before);
    }
}

#[test]
fn two_captures_do_not_take_each_others_numbered_files() {
    let folder = Folder::new();
    let name = folder.path("a.pcapng");
    let second_name = folder.path("a.pcapng1");
    let line = format!("-i sim:rate=100M -w {name} -C 1000 --json -q");
    let args = words(&line);
    let first = forebay(&args).stdout(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    // Packets in it show that signals are handled by now.
    let wait_for = |name: &str| {
        let part = format!("{name}.part");
        while !fs::metadata(&part).is_ok_and(|part| part.len() > 1000) {
            assert!(begun.elapsed() < Duration::from_secs(300));
            std::thread::sleep(Duration::from_millis(10));
        }
        part
    };
    wait_for(&name);
    interrupt(&first, "-HUP");
    let part = wait_for(&second_name);
    for flags in [&["-C", "1"][..], &["-C", "1", "-W", "1"]] {
        let second = series(
            VIRTUAL,
            &folder,
            "a.pcapng",
            &[flags, &["-c", "9"]].concat(),
        );
        fails(&second, 1, "another capture is writing it");
    }
    interrupt(&first, "-INT");
    let output = first.wait_with_output().unwrap();
    assert!(output.status.success());
    complete(&files(&folder), &summary(&output.stdout));
    // What a killed one left is no obstacle.
    fs::rename(&second_name, &part).unwrap();
    fine(&series(
        VIRTUAL,
        &folder,
        "a.pcapng",
        &["-C", "1", "-c", "9"],
    ));
    assert_eq!(names(&folder), ["a.pcapng", "a.pcapng1.part"]);
}

#[test]
fn hup_goes_on_to_the_next_file_and_the_one_being_written_has_no_name_yet() {
    let folder = Folder::new();
    let name = folder.path("a.pcapng");
    let line = format!("-i sim:rate=100M -w {name} -b duration:1000 -U --json -q");
    let args = words(&line);
    let mut child = forebay(&args).stdout(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    // Packets in it show that signals are handled by now.
    let wait_for = |complete: usize| loop {
        let paths = files(&folder);
        let is_part = |path: &&String| path.ends_with(".pcapng.part");
        let mut parts = paths.iter().filter(is_part);
        let part = parts.next().and_then(|path| fs::metadata(path).ok());
        let has_packets = part.is_some_and(|part| part.len() > 1000);
        if paths.len() == complete + 1 && has_packets && parts.next().is_none() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "{paths:?}");
        std::thread::sleep(Duration::from_millis(10));
    };
    for complete in 0..3 {
        wait_for(complete);
        interrupt(&child, "-HUP");
    }
    wait_for(3);
    interrupt(&child, "-INT");
    assert!(child.wait().unwrap().success());
    let output = child.wait_with_output().unwrap();
    complete(&files(&folder), &summary(&output.stdout));
}

#[test]
fn names_of_a_time_replace_nothing_and_links_are_never_followed() {
    let folder = Folder::new();
    let kept = folder.path("a-00");
    fs::write(&kept, "mine").unwrap();
    fs::write(folder.path("a-00.1.part"), "of a capture that was killed").unwrap();
    fine(&series(
        VIRTUAL,
        &folder,
        "a-%S",
        &["-G", "10ms", "-W", "1"],
    ));
    assert_eq!(fs::read(&kept).unwrap(), b"mine");
    assert_eq!(names(&folder), ["a-00", "a-00.2", "a-00.1.part"]);

    let folder = Folder::new();
    let victim = folder.path("victim");
    fs::write(&victim, "mine").unwrap();
    for link in ["b", "b.part", "b1", "b1.part"] {
        symlink(&victim, folder.path(link)).unwrap();
    }
    fine(&series(VIRTUAL, &folder, "b", &["-C", "10kB", "-c", "200"]));
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
    assert_eq!(names(&folder), ["b", "b1", "victim"]);
    assert_eq!(open(&folder.path("b1")).packets.len(), 93);

    // A single file: a link to a missing file is not followed, one to an existing file is.
    let nowhere = folder.path("nowhere");
    symlink(folder.path("missing"), &nowhere).unwrap();
    let output = run(&["-i", VIRTUAL, "-c", "1", "-w", &nowhere]);
    fails(&output, 1, "leads nowhere");
    assert!(!Path::new(&folder.path("missing")).exists());
    assert!(
        run(&["-i", VIRTUAL, "-c", "1", "-w", "/dev/null"])
            .status
            .success()
    );
}

#[test]
fn a_file_that_appeared_while_one_was_written_keeps_its_name() {
    let folder = Folder::new();
    let name = folder.path("a.pcapng");
    let args = ["-i", "sim:rate=10M", "-w", &name, "-b", "duration:1000"];
    let mut command = forebay(&args);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    let part = || {
        names(&folder)
            .into_iter()
            .find(|name| name.ends_with(".part"))
    };
    let part = loop {
        if let Some(part) = part() {
            break part;
        }
        std::thread::yield_now();
    };
    let theirs = folder.path(part.strip_suffix(".part").unwrap());
    // Its header is there: signals are heard from then on.
    while fs::metadata(folder.path(&part)).unwrap().len() == 0 {
        std::thread::yield_now();
    }
    fs::write(&theirs, "theirs").unwrap();
    interrupt(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
    assert!(!open(&format!("{theirs}.1")).packets.is_empty());
}
