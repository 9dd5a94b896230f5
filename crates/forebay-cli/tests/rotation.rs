//! Rotation as its users meet it: whole captures in several files, each readable on its own, nothing lost between them.

use serde_json::Value;
use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, symlink},
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};
use support::{
    Folder, count, forebay,
    found::{Found, read},
    has, interrupt, run, summary, text,
};

mod support;

const VIRTUAL: &str = "sim:clock=virtual";

/// The files of a folder, in the order of their names: those of a series in time, as long as they have one length.
fn files(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path("")).unwrap();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .collect();
    paths.sort_by_key(|path| (path.len(), path.clone()));
    paths
}

fn names(folder: &Folder) -> Vec<String> {
    let name = |path: &String| {
        Path::new(path)
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    files(folder).iter().map(name).collect()
}

fn open(path: &str) -> Found {
    read(File::open(path).unwrap())
}

/// Each file on its own, by a reader that is not ours.
fn whole(paths: &[String], json: &Value) -> Vec<Found> {
    let found: Vec<_> = paths.iter().map(|path| open(path)).collect();
    for (path, found) in paths.iter().zip(&found) {
        assert!(!path.ends_with(".part"), "{path} has no final name");
        assert_eq!(found.interfaces, 1, "{path}");
        assert_eq!(
            found.statistics.len(),
            1,
            "{path} tells its share, and that alone"
        );
        assert_eq!(found.statistics[0][2], found.packets.len() as u64, "{path}");
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600, "{path}");
    }
    assert_eq!(json["law_holds"], true, "{json}");
    found
}

/// All files of a capture that removed none: together they are the whole.
fn complete(paths: &[String], json: &Value) {
    let found = whole(paths, json);
    assert_eq!(count(&json["files_written"]), paths.len() as u64);
    let last: Vec<_> = paths
        .iter()
        .rev()
        .take(16)
        .rev()
        .map(|path| path.as_str().into())
        .collect();
    assert_eq!(json["files"], Value::Array(last));
    let sums = |column: usize| {
        found
            .iter()
            .map(|one| one.statistics[0][column])
            .sum::<u64>()
    };
    let [received, written, unread] =
        ["received", "written", "unread"].map(|key| count(&json[key]));
    let dropped = count(&json["dropped"]["kernel"]);
    assert_eq!([sums(0), sums(1), sums(2)], [received, dropped, written]);
    let lens = paths.iter().map(|path| fs::metadata(path).unwrap().len());
    assert_eq!(lens.sum::<u64>(), count(&json["bytes"]));
    let mut marked = 0;
    let (last, others) = found.split_last().unwrap();
    for found in others {
        let marks: u64 = found
            .packets
            .iter()
            .map(|packet| packet.dropped_before)
            .sum();
        let [received, dropped, delivered] = found.statistics[0];
        assert_eq!(dropped, marks, "losses are told where their packet is");
        assert_eq!(received, delivered + marks);
        marked += marks;
    }
    assert!(last.statistics[0][1] + marked == dropped);
    let one = Found {
        packets: found.into_iter().flat_map(|found| found.packets).collect(),
        ..Found::default()
    };
    assert_eq!(one.gaps(received - unread), (count(&json["gaps"]), dropped));
}

/// What a foreign reader says of each file, if there is one.
fn foreign_counts(paths: &[String], written: u64) {
    if !has("capinfos") || paths.is_empty() {
        return;
    }
    let output = Command::new("capinfos")
        .args(["-TMcr"])
        .args(paths)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let counts = text(&output.stdout).lines().map(|line| {
        let (_, count) = line.rsplit_once('\t').unwrap();
        count.parse::<u64>().unwrap()
    });
    assert_eq!(counts.sum::<u64>(), written);
}

#[track_caller]
fn fine(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    summary(&output.stdout)
}

fn series(port: &str, folder: &Folder, name: &str, flags: &[&str]) -> Output {
    let name = folder.path(name);
    run(&[&["-i", port, "-w", &name, "--json", "-q"], flags].concat())
}

#[test]
fn files_of_all_kinds_hold_every_packet_once() {
    let lossy = "sim:clock=virtual,rate=10G,size=imix,ring=64,host=none,cost=300ns,stall=1ms@7ms,count=30000";
    let kinds: &[&[&str]] = &[
        &["-b", "duration:1ms"],
        &["-b", "interval:2ms"],
        &["-b", "filesize:50", "--sync", "none"],
        &["-b", "packets:777", "--sync", "none"],
        &[
            "-b",
            "duration:3ms",
            "-b",
            "filesize:100",
            "-b",
            "packets:900",
            "-c",
            "9k",
        ],
        &["-C", "100kB"],
        &[
            "-b",
            "filesize:1",
            "-c",
            "500",
            "--store",
            "2x64KiB",
            "--sync",
            "none",
        ],
        &[
            "-b",
            "duration:1ms",
            "-a",
            "duration:9ms",
            "--sync",
            "always",
        ],
        &["-b", "packets:1", "-c", "300", "--sync", "none"],
    ];
    for flags in kinds {
        for port in [lossy, "sim:clock=virtual,count=10000"] {
            let folder = Folder::new();
            let json = fine(&series(port, &folder, "a.pcapng", flags));
            let paths = files(&folder);
            assert!(paths.len() > 3, "{flags:?}: {paths:?}");
            complete(&paths, &json);
            foreign_counts(&paths, count(&json["written"]));
        }
    }
}

#[test]
fn in_real_time_with_a_writer_thread_nothing_is_lost_between_files() {
    let folder = Folder::new();
    let flags = [
        "-b",
        "duration:20ms",
        "-b",
        "filesize:1000",
        "-a",
        "duration:1",
    ];
    let json = fine(&series("sim:rate=2G", &folder, "a.pcapng", &flags));
    let paths = files(&folder);
    assert!(paths.len() > 5, "{}", paths.len());
    complete(&paths, &json);
    foreign_counts(&paths, count(&json["written"]));
}

#[test]
fn the_clock_rotates_without_a_packet() {
    let folder = Folder::new();
    // One frame in 1000 years: nothing comes.
    let flags = ["-b", "duration:50ms", "-a", "duration:1"];
    let json = fine(&series("sim:rate=1,count=1", &folder, "a.pcapng", &flags));
    assert_eq!(json["written"], 0);
    let paths = files(&folder);
    assert!((3..=21).contains(&paths.len()), "{}", paths.len());
    complete(&paths, &json);
    foreign_counts(&paths, 0);
}

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
fn a_ring_keeps_the_newest_files_and_their_bytes_in_bounds() {
    let folder = Folder::new();
    let flags = ["-C", "100kB", "-W", "5", "-c", "20k"];
    let json = fine(&series(VIRTUAL, &folder, "a.pcapng", &flags));
    let found = whole(&files(&folder), &json);
    assert_eq!(
        count(&json["files_written"]) - count(&json["files_removed"]),
        5
    );
    let mut newest: Vec<u64> = found
        .iter()
        .flat_map(|one| &one.packets)
        .map(|p| p.sequence)
        .collect();
    newest.sort_unstable();
    let from = 20_000 - newest.len() as u64;
    assert_eq!(newest, (from..20_000).collect::<Vec<_>>());

    let folder = Folder::new();
    let flags = ["-b", "filesize:100", "-b", "total:450", "-c", "20k"];
    let json = fine(&series(VIRTUAL, &folder, "a.pcapng", &flags));
    let paths = files(&folder);
    let bytes: u64 = paths
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .sum();
    assert!((300_000..=450_000).contains(&bytes), "{bytes}");
    assert_eq!(json["files"].as_array().unwrap().len(), paths.len());
    assert!(open(paths.last().unwrap()).packets.last().unwrap().sequence == 19_999);
}

#[test]
fn a_capture_stops_where_it_was_told_to() {
    let stop = |flags: &[&str]| {
        let folder = Folder::new();
        let json = fine(&series(VIRTUAL, &folder, "a.pcapng", flags));
        (
            count(&json["written"]),
            files(&folder).len(),
            count(&json["bytes"]),
            json,
        )
    };
    assert_eq!(stop(&["-a", "packets:500", "-c", "600"]).0, 500);
    assert_eq!(stop(&["-a", "duration:10ms"]).0, 14_880);
    let (written, _, bytes, json) = stop(&["-a", "filesize:100"]);
    assert!((100_000..100_400).contains(&bytes), "{json}");
    assert!(written > 1000 && json["files_written"] == 1);
    let (written, files, _, json) = stop(&["-b", "packets:100", "-a", "files:4"]);
    assert_eq!((written, files), (400, 4));
    assert!(count(&json["unread"]) > 0, "what came behind it is told");
    let (written, files, _, _) = stop(&["-G", "10ms", "-W", "3"]);
    assert_eq!((written, files), (44_642, 3));
    // A stream has no name, and still a size.
    let output = run(&[
        "-i",
        VIRTUAL,
        "-w",
        "-",
        "-q",
        "-a",
        "filesize:50",
        "--json",
    ]);
    assert!((50_000..50_400).contains(&output.stdout.len()));
}

#[test]
fn a_full_last_file_ends_the_capture_without_another_packet() {
    let each: &[(&[&str], u64)] = &[
        (&["-a", "filesize:1"], 1),
        (&["-b", "packets:3", "-a", "files:1"], 3),
        (&["-b", "packets:3", "-a", "files:2"], 6),
        (&["-C", "1kB", "-G", "1000", "-a", "files:2"], 2),
    ];
    for (flags, packets) in each {
        // A packet every 8 seconds.
        let slow = "sim:clock=virtual,rate=1k,size=1000";
        let json = fine(&series(slow, &Folder::new(), "a.pcapng", flags));
        let counts = ["received", "written"].map(|key| count(&json[key]));
        assert_eq!(counts, [*packets; 2], "{flags:?}: {json}");
    }
}

#[test]
fn a_classic_series_has_a_header_in_each_file() {
    let folder = Folder::new();
    let json = fine(&series(
        VIRTUAL,
        &folder,
        "a.pcap",
        &["-C", "10kB", "-c", "1000"],
    ));
    let paths = files(&folder);
    assert_eq!(count(&json["files_written"]), paths.len() as u64);
    let mut packets = 0;
    for path in &paths {
        let bytes = fs::read(path).unwrap();
        assert_eq!(bytes[..4], 0xa1b2_3c4d_u32.to_le_bytes());
        packets += (bytes.len() - 24) / (16 + 60);
    }
    assert_eq!((packets, paths.len()), (1000, 8));
    foreign_counts(&paths, 1000);
}

#[test]
fn several_interfaces_stand_in_every_file() {
    let folder = Folder::new();
    let name = folder.path("a.pcapng");
    let two = "sim:clock=virtual,seed=2,rate=100M";
    let args = [
        "-i",
        VIRTUAL,
        "-i",
        two,
        "-w",
        &name,
        "-b",
        "packets:1000",
        "-c",
        "5000",
        "--json",
        "-q",
    ];
    let json = fine(&run(&args));
    let found: Vec<_> = files(&folder).iter().map(|path| open(path)).collect();
    assert_eq!(found.len(), 5);
    let mut delivered = 0;
    for one in &found {
        assert_eq!(
            (one.interfaces, one.statistics.len(), one.packets.len()),
            (2, 2, 1000)
        );
        delivered += one.statistics.iter().map(|counts| counts[2]).sum::<u64>();
    }
    assert_eq!(delivered, count(&json["written"]));
}

#[test]
fn a_file_that_is_read_can_be_split() {
    let folder = Folder::new();
    let source = Folder::new();
    let old = source.path("old.pcapng");
    let lossy = "sim:clock=virtual,ring=64,host=none,cost=1us,count=5000";
    let before = fine(&run(&["-i", lossy, "-w", &old, "--json", "-q"]));
    let name = folder.path("new.pcapng");
    let json = fine(&run(&[
        "-r",
        &old,
        "-w",
        &name,
        "-b",
        "packets:100",
        "--json",
        "-q",
    ]));
    let found: Vec<_> = files(&folder).iter().map(|path| open(path)).collect();
    assert_eq!(json["written"], before["written"]);
    let (last, others) = found.split_last().unwrap();
    assert!(others.len() > 10 && others.iter().all(|one| one.statistics.is_empty()));
    assert_eq!(
        last.statistics,
        open(&old).statistics,
        "what the file said of itself is told once"
    );
    let copied: Vec<_> = found.into_iter().flat_map(|one| one.packets).collect();
    assert_eq!(copied, open(&old).packets);
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
            let said = text(&refused.stderr);
            assert_eq!(refused.status.code(), Some(2), "{name}: {said}");
            assert!(said.contains("would overwrite"), "{said}");
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
    let args = [
        "-i",
        "sim:rate=100M",
        "-w",
        &name,
        "-C",
        "1000",
        "--json",
        "-q",
    ];
    let first = forebay(&args).stdout(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    // Packets in it tell that signals are heard by now.
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
        let said = text(&second.stderr);
        assert_eq!(second.status.code(), Some(1), "{said}");
        assert!(said.contains("another capture is writing it"), "{said}");
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
    let args = [
        "-i",
        "sim:rate=100M",
        "-w",
        &name,
        "-b",
        "duration:1000",
        "-U",
        "--json",
        "-q",
    ];
    let mut child = forebay(&args).stdout(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    // Packets in it tell that signals are heard by now.
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

    // A single file: nothing is made behind a link, and what is there is opened through it.
    let nowhere = folder.path("nowhere");
    symlink(folder.path("missing"), &nowhere).unwrap();
    let output = run(&["-i", VIRTUAL, "-c", "1", "-w", &nowhere]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("leads nowhere"),
        "{}",
        text(&output.stderr)
    );
    assert!(!Path::new(&folder.path("missing")).exists());
    assert!(
        run(&["-i", VIRTUAL, "-c", "1", "-w", "/dev/null"])
            .status
            .success()
    );
}

#[test]
fn a_second_file_that_cannot_be_had_ends_the_capture_with_exact_counts() {
    let folder = Folder::new();
    fs::create_dir(folder.path("a.pcapng1")).unwrap();
    let output = series(VIRTUAL, &folder, "a.pcapng", &["-C", "100kB", "-c", "50k"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("a.pcapng1: several files cannot go"),
        "{said}"
    );
    let json = summary(&output.stdout);
    let first = [folder.path("a.pcapng")];
    let found = whole(&first, &json);
    assert_eq!(found[0].packets.len() as u64, count(&json["written"]));
    assert!(count(&json["dropped"]["disk"]) > 0);

    // The folder goes away under a capture that runs.
    let folder = Folder::new();
    let inner = folder.path("inner");
    fs::create_dir(&inner).unwrap();
    let name = format!("{inner}/a.pcapng");
    let args = [
        "-i",
        "sim:rate=100M",
        "-w",
        &name,
        "-b",
        "duration:100ms",
        "--json",
        "-q",
    ];
    let child = forebay(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let moved = folder.path("moved");
    while fs::read_dir(&inner).unwrap().count() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::rename(&inner, &moved).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!(summary(&output.stdout)["law_holds"], true);
    assert!(
        text(&output.stderr).contains("no such file or directory"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_disk_that_fills_up_in_the_middle_of_a_series_keeps_all_that_fits() {
    let folder = Folder::new();
    let (mount, kept) = (folder.path("small"), folder.path("kept"));
    fs::create_dir(&mount).unwrap();
    fs::create_dir(&kept).unwrap();
    for (size, flags) in [
        ("1M", "-b filesize:300"),
        ("1M", "-b filesize:256"),
        ("64k", "-C 1kB"),
    ] {
        let script = format!(
            "mount -t tmpfs -o size={size} none {mount} || exit 77
             {} capture -i sim:rate=max -c 1M -w {mount}/a.pcapng {flags} --store 4x64KiB --json; code=$?
             rm -f {kept}/*; cp -p {mount}/* {kept}; exit $code",
            env!("CARGO_BIN_EXE_forebay"),
        );
        let output = Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .output()
            .unwrap();
        if output.status.code() == Some(77) || text(&output.stderr).contains("unshare") {
            assert!(std::env::var_os("CI").is_none(), "CI is root");
            return eprintln!("skipped: needs the right to mount a tmpfs");
        }
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("no space left on device"), "{said}");
        let json = summary(&output.stdout);
        assert_eq!(json["law_holds"], true);
        let mut paths: Vec<_> = fs::read_dir(&kept)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        paths.sort();
        assert_eq!(count(&json["files_written"]), paths.len() as u64, "{said}");
        assert!(paths.len() > 2);
        let packets = paths
            .iter()
            .flat_map(|path| read(File::open(path).unwrap()).packets);
        let mut found: Vec<u64> = packets.map(|packet| packet.sequence).collect();
        found.sort_unstable();
        assert_eq!(found, (0..count(&json["written"])).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_durable_is_told_for_each_policy() {
    for (policy, durable) in [
        ("none", 0),
        ("file", 1000),
        ("always", 1000),
        ("interval:10", 1000),
    ] {
        let folder = Folder::new();
        let flags = ["-c", "1000", "--sync", policy];
        let output = series(VIRTUAL, &folder, "a.pcapng", &flags);
        let json = fine(&output);
        assert_eq!(count(&json["durable"]), durable, "{policy}");
        let is_synced = durable > 0;
        assert_eq!(
            json["durable_bytes"] == json["bytes"],
            is_synced,
            "{policy}"
        );
        assert_eq!(count(&json["syncs"]["count"]) > 0, is_synced, "{policy}");
        assert_eq!(
            text(&output.stderr).contains("durable"),
            is_synced,
            "{policy}"
        );
    }
}

#[test]
fn what_was_understood_is_said_at_the_start() {
    let cases: &[(&[&str], &str)] = &[
        (
            &[
                "-b",
                "duration:1.5",
                "-b",
                "filesize:2000",
                "-b",
                "files:24",
            ],
            "a new file every 1.5s or at 2 MB, the newest 24 are kept",
        ),
        (
            &["-b", "interval:60", "-b", "packets:1k", "-a", "files:9"],
            "a new file at each multiple of 60s or at 1000 packets, the end behind 9",
        ),
        (
            &["-C", "64M", "--compress", "zstd:7"],
            "a new file at 67.11 MB, compressed with zstd:7",
        ),
    ];
    for (flags, expected) in cases {
        let folder = Folder::new();
        let name = folder.path("a.pcapng");
        let output = run(&[&["-i", VIRTUAL, "-c", "1", "-w", &name], *flags].concat());
        let said = text(&output.stderr);
        assert!(said.contains(&format!("forebay: {expected}\n")), "{said}");
    }
}

#[test]
fn what_contradicts_itself_is_refused_before_anything_is_made() {
    let cases: &[(&[&str], &str)] = &[
        (&["-w", "-", "-C", "1"], "one stream"),
        (&["-C", "1"], "name one with -w"),
        (&["-w", "a", "-W", "3"], "-C or -G"),
        (
            &["-w", "a", "-W", "3", "-C", "1", "-G", "5"],
            "could mean either",
        ),
        (&["-w", "a", "-C", "1", "-b", "duration:5"], "other names"),
        (&["-w", "a", "-b", "files:5"], "when one is over"),
        (
            &["-w", "a", "-b", "total:500", "-b", "duration:5"],
            "room for two",
        ),
        (
            &["-w", "a", "-b", "total:500", "-b", "filesize:300"],
            "room for two",
        ),
        (
            &["-w", "a", "-b", "filesize:1", "-b", "filesize:2"],
            "twice",
        ),
        (
            &["-w", "a", "-b", "filesize:1", "-a", "filesize:2"],
            "both were given",
        ),
        (&["-w", "a", "-C", "1", "-a", "filesize:2"], "Use -C"),
        (&["-w", "a", "-b", "size:1"], "total"),
        (&["-w", "a", "-b", "duration:0"], "is no time"),
        (&["-w", "a", "-b", "packets"], "is no count"),
        (&["-w", "a", "-C", "0"], "is no size"),
        (&["-w", "a", "-G", "soon"], "is no time"),
        (&["-w", "a%!", "-G", "5"], "%%"),
        (&["-a", "interval:5"], "no such criterion"),
        (&["-a", "filesize:5"], "there is no file"),
        (&["-w", "a", "-a", "files:5"], "only one file"),
        (&["-w", "/dev/null", "-C", "5"], "is no file"),
        (&["-w", "/tmp", "-C", "5"], "is no file"),
        (&["-w", "a", "--compress", "zstd"], "as they are finished"),
        (&["-w", "a", "-C", "1", "--compress", "gzip"], "zstd:1 to"),
        (
            &["-w", "a", "-C", "1", "--compress", "zstd:20"],
            "zstd:1 to",
        ),
        (&["-w", "a", "--sync", "often"], "no policy"),
        (&["-w", "a", "--sync", "file:3"], "no policy"),
        (&["-w", "a", "--sync", "interval:0"], "no policy"),
    ];
    let folder = Folder::new();
    for (flags, expected) in cases {
        let mut command = forebay(&["-i", VIRTUAL, "-c", "5"]);
        let output = command
            .args(*flags)
            .current_dir(folder.path(""))
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(expected), "{flags:?}: {said}");
    }
    assert!(names(&folder).is_empty());
}

/// Must-show of rotation; `FOREBAY_LONG=1 cargo test --release -p forebay-cli --test rotation minute -- --nocapture`.
#[test]
fn a_minute_at_line_rate_in_files_of_100_ms_loses_nothing() {
    if std::env::var_os("FOREBAY_LONG").is_none() {
        return println!("skipped: needs FOREBAY_LONG, a minute and 9 GB");
    }
    let folder = Folder::new();
    let flags = ["-b", "duration:100ms", "-a", "duration:60"];
    let output = series("sim", &folder, "a.pcapng", &flags);
    println!("{}", text(&output.stderr));
    let json = fine(&output);
    let paths = files(&folder);
    println!("{} files, {json}", paths.len());
    complete(&paths, &json);
    foreign_counts(&paths, count(&json["written"]));
    assert_eq!(json["dropped"]["kernel"], 0);
    assert!((590..=601).contains(&paths.len()), "{} files", paths.len());
}
