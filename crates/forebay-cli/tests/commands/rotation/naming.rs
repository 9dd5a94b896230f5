//! What the files of a series are called, while they are written and afterwards, and what is never replaced by them.

use crate::rotation::{VIRTUAL, complete, files, names, series};
use crate::support::*;
use std::{fs, os::unix::fs::symlink, path::Path};

#[test]
fn the_names_are_those_of_tcpdump_and_dumpcap() {
    let cases = "
        a.pcap          | -C 1MB -c 30k                              | a.pcap a.pcap1 a.pcap2
        a.pcapng        | -C 1 -W 2 -c 50k                           | a.pcapng0 a.pcapng1
        a-%H%M%S.pcapng | -G 1 -W 2                                  | a-000000.pcapng a-000001.pcapng
        a-%S            | -G 1 -C 6MB -a duration:1.5                | a-00 a-01 a-001 a-002 a-011
        a               | -G 100ms -a files:3                        | a a.1 a.2
        a.pcapng        | -b duration:1 -b files:2 -a duration:2.5   | a_00002_20200101000001.pcapng a_00003_20200101000002.pcapng
    ";
    for [name, flags, expected] in rows(cases) {
        let folder = Folder::new();
        let name = folder.path(name);
        let mut command = forebay!("capture -i {VIRTUAL},rate=100M -q -w {name} {flags}");
        command.env("TZ", "UTC").output().unwrap().succeeds();
        assert_eq!(names(&folder), words(expected), "{flags}");
    }
}

#[test]
fn a_series_does_not_replace_what_it_reads() {
    let (folder, source) = Folder::with("a.pcapng1");
    run!("capture -i {} -c 9 -w {source} --json", VIRTUAL).keeps_the_law();
    let before = fs::read(&source).unwrap();
    let output = folder.path("a.pcapng");
    for name in [
        "a.pcapng",
        "a.pcapng1",
        "a.pcapng07",
        "a.pcapng.part",
        "a.pcapng1.zst.part",
    ] {
        let path = folder.file(name, &before);
        let link = folder.path("link");
        symlink(&path, &link).unwrap();
        for read in [&path, &link] {
            run!("capture -r {read} -w {output} -C 1").fails(2, "would overwrite");
            assert_eq!(fs::read(&path).unwrap(), before);
        }
        fs::remove_file(&link).unwrap();
    }
    // Names of a time replace nothing, and another folder's files are others.
    let other = Folder::new();
    let elsewhere = other.path("a.pcapng");
    for flags in [
        format!("-w {output} -b packets:4"),
        format!("-w {elsewhere} -C 1"),
    ] {
        run!("capture -r {output} -q --json {flags}").keeps_the_law();
        assert_eq!(fs::read(&output).unwrap(), before);
    }
}

#[test]
fn two_captures_do_not_take_each_others_numbered_files() {
    let (folder, name) = Folder::with("a.pcapng");
    let second_name = folder.path("a.pcapng1");
    let first = start!("capture -i sim:rate=100M -w {name} -C 1000 --json -q");
    // Packets in it show that signals are handled by now.
    let wait_for = |name: &str| {
        let part = format!("{name}.part");
        wait_until(|| file_len(&part) > 1000);
        part
    };
    wait_for(&name);
    interrupt(&first, "-HUP");
    let part = wait_for(&second_name);
    for flags in ["-C 1 -c 9", "-C 1 -W 1 -c 9"] {
        let second = series(VIRTUAL, &folder, "a.pcapng", flags);
        let pid = first.id();
        second.fails(1, format!("another process writes this file (pid {pid})"));
    }
    let json = stopped(first).keeps_the_law();
    complete(&files(&folder), &json);
    // What a killed one left is no obstacle, and is finished.
    fs::rename(&second_name, &part).unwrap();
    series(VIRTUAL, &folder, "a.pcapng", "-C 1 -c 9").keeps_the_law();
    assert_eq!(names(&folder), ["a.pcapng", "a.pcapng1"]);
}

#[test]
fn hup_goes_on_to_the_next_file_and_the_one_being_written_has_no_name_yet() {
    let (folder, name) = Folder::with("a.pcapng");
    let child = start!("capture -i sim:rate=100M -w {name} -b duration:1000 -U --json -q");
    // Packets in it show that signals are handled by now.
    let wait_for = |complete: usize| {
        wait_until(|| {
            let paths = files(&folder);
            let mut parts = paths.iter().filter(|path| path.ends_with(".pcapng.part"));
            let has_packets = parts.next().is_some_and(|part| file_len(part) > 1000);
            paths.len() == complete + 1 && has_packets && parts.next().is_none()
        })
    };
    for complete in 0..3 {
        wait_for(complete);
        interrupt(&child, "-HUP");
    }
    wait_for(3);
    let json = stopped(child).keeps_the_law();
    complete(&files(&folder), &json);
}

#[test]
fn names_of_a_time_replace_nothing_and_links_are_never_followed() {
    let folder = Folder::new();
    let kept = folder.file("a-00", "mine");
    folder.file("a-00.1.part", "of a capture that was killed");
    series(VIRTUAL, &folder, "a-%S", "-G 10ms -W 1").keeps_the_law();
    assert_eq!(fs::read(&kept).unwrap(), b"mine");
    assert_eq!(names(&folder), ["a-00", "a-00.2", "a-00.1.part"]);

    let folder = Folder::new();
    let victim = folder.file("victim", "mine");
    for link in ["b", "b.part", "b1", "b1.part"] {
        symlink(&victim, folder.path(link)).unwrap();
    }
    series(VIRTUAL, &folder, "b", "-C 10kB -c 200").keeps_the_law();
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
    assert_eq!(names(&folder), ["b", "b1", "victim"]);
    assert_eq!(found::open(folder.path("b1")).packets.len(), 93);

    // A single file: a link to a missing file is not followed, one to an existing file is.
    let nowhere = folder.path("nowhere");
    symlink(folder.path("missing"), &nowhere).unwrap();
    run!("capture -i {} -c 1 -w {nowhere}", VIRTUAL).fails(1, "leads nowhere");
    assert!(!Path::new(&folder.path("missing")).exists());
    run!("capture -i {} -c 1 -w /dev/null", VIRTUAL).succeeds();
}

#[test]
fn a_file_that_appeared_while_one_was_written_keeps_its_name() {
    let (folder, name) = Folder::with("a.pcapng");
    let child = start!("capture -i sim:rate=10M -w {name} -b duration:1000 -q");
    let part = || {
        folder
            .names()
            .into_iter()
            .find(|name| name.ends_with(".part"))
    };
    // Its header is there: signals are heard from then on.
    wait_until(|| part().is_some_and(|part| file_len(&folder.path(&part)) > 0));
    let theirs = folder.file(part().unwrap().strip_suffix(".part").unwrap(), "theirs");
    stopped(child).succeeds();
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
    assert!(!found::open(format!("{theirs}.1")).packets.is_empty());
}

#[test]
fn names_that_repeat_are_reported_at_the_start_unless_the_files_are_bounded() {
    let folder = Folder::new();
    let warning = "the names of the files repeat after 1 day";
    for (name, more, warns) in [
        ("a-%H.pcap", "", true),
        ("a-%F-%H.pcap", "", false),
        ("a-%H.pcap", "-W 2", false),
        ("a-%H.pcap", "--keep-free 1M", false),
    ] {
        let path = folder.path(name);
        let ran = run!("capture -i sim:clock=virtual,count=100 -G 3600 -w {path} {more}");
        let log = ran.succeeds().log().to_owned();
        assert_eq!(log.contains(warning), warns, "{name} {more}: {}", log);
        // Its name is taken now.
        let ran = run!("capture -i sim:clock=virtual,count=100 -G 3600 -w {path} {more}");
        let log = words(ran.succeeds().log()).join(" ");
        assert_eq!(log.contains(".pcap.1 has a number"), warns, "{log}");
    }
}
