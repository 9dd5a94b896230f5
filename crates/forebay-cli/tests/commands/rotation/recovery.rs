//! What a capture leaves that is killed with `kill -9`, and what the next capture of the same series makes of it.

use crate::rotation::{VIRTUAL, files, names, series};
use crate::support::*;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{MetadataExt, chown},
    time::Duration,
};

/// The packets of a file, by a reader of our own or a foreign one.
fn packets_in(path: &str) -> u64 {
    let json = run!("capture -r {path} --count --json").keeps_the_law();
    count(&json["received"])
}

/// Starts a capture, and kills it when it has reported this often. Returns the packets that it reported as written.
fn killed(line: &str, reports: usize) -> u64 {
    let mut child = Mortal(start!("capture {line} -q --json --stats-interval 2ms"));
    let mut stdout = BufReader::new(child.0.stdout.take().unwrap());
    let mut text = String::new();
    for _ in 0..reports {
        stdout.read_line(&mut text).unwrap();
    }
    drop(child);
    let rest = stdout.lines().map_while(Result::ok).collect::<Vec<_>>();
    let lines = text.lines().chain(rest.iter().map(String::as_str));
    let mut reports = lines.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    reports
        .next_back()
        .map_or(0, |last| count(&last["written"]))
}

#[test]
fn after_kill_9_the_next_capture_finishes_what_was_written() {
    let mut dice = Dice(0x9_9999);
    let cases = "
        a.pcapng             | -b duration:40ms
        a.pcap               | -b duration:40ms -U
        a.pcapng.gz          | -b duration:40ms
        a.pcapng.zst         | -b filesize:300 -U
        a.pcapng             | -b filesize:300 --compress zstd:1
        a-%Y%m%d-%H%M%S.pcap | -G 1 -C 1 --compress zstd:1
    ";
    let mut finished = 0;
    for moment in 0..children::moments(3) {
        for [name, flags] in rows(cases) {
            let folder = Folder::new();
            // With large buffers, some die in the middle of writing one.
            let port = dice.one_of(&[
                "sim:rate=100M,size=200 --store 4x64KiB",
                "sim:rate=2G,size=200 --store 4x4MiB",
            ]);
            let line = format!("-i {port} -w {} {flags}", folder.path(name));
            // The second is killed while it may be about to finish what the first left.
            let mut written = 0;
            for _ in 0..2 {
                written += killed(&line, 1 + dice.below(50));
            }
            let before = files(&folder);
            let last = series(VIRTUAL, &folder, name, &format!("{flags} -c 50"));
            let json = last.keeps_the_law();
            let what = format!("{moment} {name} {flags}: {before:?} {json} {}", last.log());
            finished += count(&json["files_recovered"]);
            let mut found = 0;
            for path in files(&folder) {
                assert!(
                    !path.ends_with(".part") && !path.ends_with(".cut"),
                    "{path}: {what}"
                );
                let original = path.strip_suffix(".zst").unwrap_or_default();
                assert!(
                    !fs::exists(original).unwrap(),
                    "{path} is there twice: {what}"
                );
                found += packets_in(&path);
                if path.ends_with(".pcapng") {
                    found::open(&path);
                }
            }
            assert!(found >= written + 50, "{found} of {written}: {what}");
        }
    }
    assert!(finished > 0);
}

#[test]
fn a_torn_file_is_cut_after_its_last_whole_packet_and_keeps_its_time() {
    let cases = "
        a.pcapng     | a_00003_20200101000000.pcapng
        a.pcap       | a_00003_20200101000000.pcap
        a.pcapng.gz  | a_00003_20200101000000.pcapng.gz
        a.pcapng.zst | a_00003_20200101000000.pcapng.zst
    ";
    for [name, left] in rows(cases) {
        let folder = Folder::new();
        let whole = folder.path(&format!("whole{}", &name[1..]));
        // Each of several buffers is a piece of a compressed file.
        run!("capture -i {VIRTUAL},size=imix -c 1000 -q --store 4x16KiB -w {whole}").succeeds();
        let bytes = fs::read(&whole).unwrap();
        fs::remove_file(&whole).unwrap();
        let left = folder.path(left);
        let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for len in [bytes.len() - 5, bytes.len() * 2 / 3] {
            let part = folder.file("part", &bytes[..len]);
            let file = fs::File::options().write(true).open(&part);
            file.unwrap().set_modified(old).unwrap();
            fs::rename(&part, format!("{left}.part")).unwrap();
            let output = series(VIRTUAL, &folder, name, "-b packets:100 -c 50");
            let json = output.json();
            assert_eq!(json["files_recovered"], 1, "{json} {}", output.log());
            let after = fs::metadata(&left).unwrap();
            assert!(after.len() < len as u64 && after.modified().unwrap() == old);
            let found = packets_in(&left);
            assert!((500..=1000).contains(&found), "{left} {found}");
            let parts = files(&folder);
            assert!(
                parts
                    .iter()
                    .all(|path| !path.contains(".cut") && !path.ends_with(".part"))
            );
            fs::remove_file(&left).unwrap();
        }
    }
}

#[test]
fn a_file_that_a_capture_is_writing_is_not_touched_by_another_one() {
    let (folder, name) = Folder::with("a.pcapng");
    let first = start!("capture -i sim:rate=50M -w {name} -b duration:1000 -U --json -q");
    let part = || {
        files(&folder)
            .into_iter()
            .find(|path| path.ends_with(".part"))
    };
    wait_until(|| part().is_some_and(|part| file_len(&part) > 1000));
    let json = series(VIRTUAL, &folder, "a.pcapng", "-b packets:100 -c 50").keeps_the_law();
    assert_eq!(json["files_recovered"], 0);
    assert!(part().is_some());
    let json = stopped(first).keeps_the_law();
    assert_eq!(
        packets_in(json["files"][0].as_str().unwrap()),
        count(&json["written"])
    );
}

#[test]
fn root_finishes_what_a_capture_of_another_user_left() {
    const NOBODY: u32 = 65534;
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return children::skip("root, to give a file to another user");
    }
    let (folder, whole) = captured("whole.pcapng", "count=100");
    let bytes = fs::read(&whole).unwrap();
    fs::remove_file(whole).unwrap();
    // As after `-Z nobody`.
    let left = folder.path("a_00003_20200101000000.pcapng");
    let part = folder.file("part", &bytes[..bytes.len() - 170]);
    chown(&part, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::rename(&part, format!("{left}.part")).unwrap();
    let output = series(VIRTUAL, &folder, "a.pcapng", "-b packets:100 -c 50");
    let json = output.keeps_the_law();
    assert_eq!(json["files_recovered"], 1, "{json} {}", output.log());
    assert!((90..100).contains(&packets_in(&left)));
    assert_eq!(fs::metadata(&left).unwrap().uid(), NOBODY);
}

#[test]
fn what_is_no_capture_is_left_alone_and_reported() {
    let folder = Folder::new();
    let part = folder.file("a_00001_20260101000000.pcapng.part", "Dear diary");
    let other = folder.file("a_b_00001_20260101000000.pcapng.part", "");
    let output = run!(
        "capture -i {VIRTUAL} -w {} -b packets:100 -c 50 --json -q",
        folder.path("a.pcapng")
    );
    output.keeps_the_law();
    contains(output.log(), "it keeps its name");
    assert_eq!(fs::read(part).unwrap(), b"Dear diary");
    assert!(fs::exists(other).unwrap(), "it is of another series");
}

#[test]
fn a_finished_file_counts_towards_those_that_are_kept_and_runs_the_program() {
    let (folder, path) = Folder::with("a.pcapng");
    let whole = recorded(&folder, "whole.pcapng", "count=100");
    let bytes = fs::read(whole).unwrap();
    let old = folder.path("a_00003_20200101000000.pcapng");
    fs::write(format!("{old}.part"), &bytes[..bytes.len() - 170]).unwrap();
    // It is finished while the capture runs, and removed when there are three newer files.
    let line = format!("-w {path} -b duration:300ms -b files:3 -z echo");
    let child = start!("capture -i sim:rate=10M {line}");
    let is_there = |path: &str| fs::exists(path).unwrap();
    wait_until(|| !is_there(&format!("{old}.part")) && !is_there(&old));
    let output = stopped(child);
    output.succeeds();
    contains(
        output.log(),
        "finished a file that a killed capture left, 9",
    );
    contains(output.log(), "1 of a killed capture finished");
    contains(
        output.log(),
        format!("echo: {old}: {old}").trim_start_matches("echo: "),
    );
    assert!(!fs::exists(&old).unwrap());
}

#[test]
fn a_file_that_was_compressed_while_it_was_captured_is_not_taken_for_a_remainder() {
    for flags in ["", "--compress zstd:1"] {
        let (folder, whole) = Folder::with("whole.pcapng.zst");
        run!("capture -i {VIRTUAL} -c 1000 -q --store 4x16KiB -w {whole}").succeeds();
        let bytes = fs::read(&whole).unwrap();
        let only = folder.path("a_00003_20200101000000.pcapng.zst");
        fs::write(format!("{only}.part"), &bytes[..bytes.len() - 5]).unwrap();
        // This one has its original, so an interrupted compression left it.
        let original = recorded(&folder, "a_00004_20200101000000.pcapng", "count=100");
        fs::write(format!("{original}.zst.part"), &bytes).unwrap();
        let output = series(
            VIRTUAL,
            &folder,
            "a.pcapng",
            &format!("-b packets:100 -c 50 {flags}"),
        );
        let json = output.keeps_the_law();
        assert_eq!(json["files_recovered"], 1, "{json} {}", output.log());
        assert!(packets_in(&only) >= 500);
        assert_eq!(packets_in(&original), 100);
        assert_eq!(names(&folder).len(), 4, "{:?}", names(&folder));
    }
}

#[test]
fn compressed_files_of_another_capture_are_not_taken_for_copies() {
    let folder = Folder::new();
    // At the turn of the year they have different names anyway.
    for flags in ["--compress zstd:1", "", "--compress zstd:1"] {
        let flags = format!("-G 100000000 -c 50 {flags}");
        series("sim:rate=1M", &folder, "e-%Y.pcapng", &flags).keeps_the_law();
    }
    let found = files(&folder);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found.iter().map(|path| packets_in(path)).sum::<u64>(), 150);
    // Names that were chosen when no other capture compressed.
    let old = recorded(&folder, "e-2020.pcapng", "count=70");
    run!("capture -i {VIRTUAL} -c 80 -q -w {old}.zst").succeeds();
    series(
        VIRTUAL,
        &folder,
        "e-%Y.pcapng",
        "-G 100000000 -c 50 --compress zstd:1",
    )
    .keeps_the_law();
    assert_eq!(
        [packets_in(&old), packets_in(&format!("{old}.zst"))],
        [70, 80]
    );
}
