//! Faults of stores, clocks and spools: a clear error, and nothing lost.

use crate::common::{
    Outcome, age, assert_counts, captured, captures, damage, done, json_lines, json_of, last_json,
    lock, now_s, ok, pcap, places, released, reports, run, segments,
    servers::{TO, with_store},
    set_modified, ship, ship_as, spool, status,
};
use crate::names;
use forebay_archive::ship::spool::Spool;
use forebay_testing::folder::Folder;
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// One request of S3: its method, path and body.
fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, String, Vec<u8>)> {
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut len = 0;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).ok()?;
        match header.trim().to_lowercase().split_once(':') {
            Some(("content-length", value)) => len = value.trim().parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; len];
    stream.read_exact(&mut body).ok()?;
    Some((method, path, body))
}

/// Serves `answer` as an object store, until the test ends. Returns its address.
fn store(mut answer: impl FnMut(&str, &str, Vec<u8>) -> (u16, Vec<u8>) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = BufReader::new(stream);
            let Some((method, path, body)) = request(&mut stream) else {
                continue;
            };
            let (code, body) = answer(&method, &path, body);
            let head = format!(
                "HTTP/1.1 {code} Answer\r\nContent-Length: {}\r\nETag: \"1\"\r\nLast-Modified: Mon, 23 Nov 2026 14:00:00 GMT\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.get_mut().write_all(head.as_bytes());
            let _ = stream.get_mut().write_all(&body);
        }
    });
    format!("http://{address}")
}

/// Flags: print counts as JSON, and drop each file that may be dropped.
const DROP_ALL: [&str; 5] = [
    "--json",
    "--spool-limit",
    "1B",
    "--when-full",
    "drop-oldest",
];

fn ship_to(store: &str, spool: &str, more: &[&str]) -> Outcome {
    let args = ["ship", spool, TO, "--sensor", "hall", "--once"];
    let mut command = with_store(store, &[&args, more].concat());
    done(command.output().unwrap())
}

/// What a store without matching objects answers to a list.
const EMPTY_LIST: &str = "<ListBucketResult><Name>captures</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>";

#[test]
fn wrong_credentials_are_named_and_the_file_stays() {
    let (folder, spool, _) = places();
    captured(&folder, "spool/a.pcapng", "count=10");
    let wrong = "The credentials are missing, wrong or expired";
    for (code, advice) in [
        ("InvalidAccessKeyId", wrong),
        ("SignatureDoesNotMatch", wrong),
        ("AccessDenied", "These credentials may not do this"),
    ] {
        let body = format!("<Error><Code>{code}</Code><Message>No.</Message></Error>");
        let address = store(move |_, _, _| (403, body.clone().into()));
        let (exit, _, err) = ship_to(&address, &spool, &[]);
        assert!(exit == 3 && err.contains(advice), "{code}: {err}");
        assert_eq!(names(&spool), ["a.pcapng"]);
    }
}

#[test]
fn a_store_that_replaces_objects_which_must_only_be_created_is_refused() {
    let (folder, spool, _) = places();
    captured(&folder, "spool/a.pcapng", "count=10");
    let mut objects = HashMap::new();
    let address = store(move |method, path, body| match method {
        "PUT" => {
            objects.insert(path.to_owned(), body);
            (200, Vec::new())
        }
        _ if path.contains('?') => (200, EMPTY_LIST.into()),
        _ => objects
            .get(path)
            .map_or((404, Vec::new()), |it| (200, it.clone())),
    });
    reports(ship_to(&address, &spool, &[]), 1, "although it exists");
    assert_eq!(names(&spool), ["a.pcapng"]);
}

#[test]
fn the_limit_of_the_spool_is_kept_during_an_upload() {
    let (folder, spool, _) = places();
    captures(&folder, 1..=3, 100);
    let size = fs::metadata(format!("{spool}/1.pcapng")).unwrap().len();
    let paths = ["2", "3"].map(|it| {
        let (away, there) = (folder.path(it), format!("{spool}/{it}.pcapng"));
        fs::rename(&there, &away).unwrap();
        (away, there)
    });
    let mut objects = HashMap::new();
    let address = store(move |method, path, body| {
        if method == "PUT" && path.contains("/segments/") {
            // The capture finishes two files.
            for (away, there) in &paths {
                let _ = fs::rename(away, there);
            }
            while fs::exists(&paths[0].1).unwrap() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        match (method, objects.get(path)) {
            ("GET", _) if path.contains('?') => (200, EMPTY_LIST.into()),
            ("PUT", Some(_)) => (412, Vec::new()),
            ("PUT", None) => {
                objects.insert(path.to_owned(), body);
                (200, Vec::new())
            }
            (_, there) => there.map_or((404, Vec::new()), |it| (200, it.clone())),
        }
    });
    let limit = format!("{}B", 2 * size + 1000);
    let limit = ["--spool-limit", &limit, "--when-full", "drop-oldest"];
    // Nobody listens there, so the first file stays, too.
    let more = ["--announce", "nats://127.0.0.1:1", "--json"];
    let (_, out, err) = ship_to(&address, &spool, &[&limit[..], &more].concat());
    assert_eq!(last_json(&out)["dropped_files"], 1, "{err}");
    assert_eq!(names(&spool), ["1.pcapng", "3.pcapng", "dropped"], "{err}");
}

#[test]
fn clocks_that_differ_are_reported_and_find_returns_all_packets_in_the_order_of_time() {
    let folder = Folder::new();
    let to = folder.path("to");
    let now = now_s() as u32;
    for (sensor, from) in [
        ("slow", now - 7200),
        ("right", now - 60),
        ("fast", now + 7200),
    ] {
        let spool = spool(&folder, sensor);
        let frames: Vec<[u8; 60]> = (0..10).map(|it| [it; 60]).collect();
        let packets: Vec<_> = frames
            .iter()
            .zip(from..)
            .map(|(it, at)| (at, &it[..]))
            .collect();
        fs::write(format!("{spool}/a.pcap"), pcap(&packets)).unwrap();
        let (code, _, err) = ship_as(sensor, &spool, &to, &[]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(
            err.contains("ahead of the clock of this machine"),
            sensor == "fast",
            "{err}"
        );
    }
    let found = folder.path("found.pcapng");
    ok(run(&["find", "--in", &to, "len <= 60", "-w", &found]));
    let times = crate::common::times(Path::new(&found));
    assert!(times.len() == 30 && times.is_sorted(), "{times:?}");
    assert!(status(&to).iter().all(|it| it["indexed"] == 10));
}

#[test]
fn a_corrupt_segment_is_named_and_the_rest_is_found() {
    let (folder, spool, to) = places();
    captures(&folder, 1..=2, 1000);
    ship(&spool, &to, &[]);
    let damaged = segments(&to).remove(0);
    damage(&damaged);
    let (code, out, err) = run(&["find", "--in", &to, "--count", "len > 0"]);
    assert_eq!((code, out.trim()), (1, "1000"), "{err}");
    let name = damaged.file_name().unwrap().to_str().unwrap();
    assert!(
        err.contains(name) && err.contains("its packets are missing"),
        "{err}"
    );
}

#[test]
fn a_file_whose_segment_is_damaged_in_the_archive_is_set_aside_and_others_are_shipped() {
    let (folder, spool, to) = places();
    captured(&folder, "spool/a.pcapng", "count=100,seed=1");
    let keep = ["--keep-local", "1G"];
    ship(&spool, &to, &keep);
    let present = format!("{spool}/a.pcapng");
    // The rows were never committed, and a block or the directory became damaged.
    for part in ["block", "directory"] {
        fs::remove_dir_all(format!("{to}/index")).unwrap();
        let segment = segments(&to).remove(0);
        let whole = fs::read(&segment).unwrap();
        let mut damaged = whole.clone();
        let directory = whole.windows(15).position(|it| it == b"forebay_segment");
        let at = match part {
            "block" => 100,
            _ => directory.unwrap(),
        };
        damaged[at] ^= 1;
        fs::write(&segment, damaged).unwrap();
        fs::rename(format!("{spool}/shipped/a.pcapng"), &present).unwrap();
        let card = format!("count=10,seed={}", part.len());
        captured(&folder, &format!("spool/{part}.pcapng"), &card);
        let (code, out, err) = ship(&spool, &to, &["--json"]);
        assert_eq!(code, 0, "{err}");
        let name = segment.file_name().unwrap().to_str().unwrap();
        assert!(err.contains(name) && err.contains("is damaged"), "{err}");
        let counts = last_json(&out);
        assert_counts(&counts, [("shipped_files", 1), ("failed_files", 1)]);
        assert_counts(&counts, [("shipped_packets", 10)]);
        assert_counts(&counts, [("failed_packets", 100)]);
        assert_eq!(names(&format!("{spool}/failed")), ["a.pcapng"]);
        // Without the damaged segment it is stored.
        fs::remove_file(&segment).unwrap();
        fs::rename(format!("{spool}/failed/a.pcapng"), &present).unwrap();
        ok(ship(&spool, &to, &keep));
        assert_eq!(names(&spool), ["failed", "shipped"]);
        assert_eq!(fs::read(&segment).unwrap(), whole);
    }
}

#[test]
fn once_fails_if_files_are_left_and_unfinished_files_are_reported() {
    let (folder, spool, to) = places();
    let path = captured(&folder, "spool/a.pcapng", "count=10");
    let locked = File::options().write(true).open(&path).unwrap();
    lock(&locked);
    fs::write(format!("{spool}/b.pcapng.part"), "no capture").unwrap();
    fs::write(format!("{spool}/a.pcapng.zst.part"), "an incomplete copy").unwrap();
    let err = reports(ship(&spool, &to, &[]), 1, "1 finished files are left");
    let finishing = err.matches("b.pcapng.part: finishing what a killed");
    assert_eq!(finishing.count(), 1, "{err}");
    assert_eq!(names(&spool), ["a.pcapng", "b.pcapng.part"]);
    drop(locked);
    ok(ship(&spool, &to, &[]));
    let of = format!("hall={spool}");
    let sensor = json_of(run(&["status", &to, "--spool", &of, "--json"]));
    assert_eq!(sensor["uncounted"][0][1], 1, "{sensor}");
    let refused = ship_as("other", &spool, &to, &[]);
    reports(refused, 1, "is the spool of the sensor hall");
    let ambiguous = run(&["ship", &spool, &to, "--keep-local", "30m"]);
    reports(ambiguous, 2, "30min");
}

#[test]
fn what_may_be_in_the_archive_is_never_dropped_and_a_drop_that_was_killed_is_finished() {
    let (folder, spool, to) = places();
    captures(&folder, 1..=3, 100);
    // A `ship` was killed while it sent the first one, and an earlier one after it had recorded that it dropped the second one.
    let mut opened = Spool::open(Path::new(&spool), "hall").unwrap();
    let files = opened.finished(&mut |error| panic!("{error:#}")).unwrap();
    opened.mark(&files[0]).unwrap();
    drop(opened);
    fs::create_dir(format!("{spool}/dropped")).unwrap();
    let inode = fs::metadata(&files[1].path).unwrap().ino();
    let record = format!("{spool}/dropped/1700000002.000000000-{inode}.json");
    fs::write(record, r#"{"schema": 1, "packets": 100}"#).unwrap();
    let counts = json_of(ship(&spool, &to, &DROP_ALL));
    assert_counts(&counts, [("shipped_files", 1), ("dropped_files", 1)]);
    let sensor = &status(&to)[0];
    assert_counts(sensor, [("shipped", 100), ("dropped", 200)]);
    assert_counts(sensor, [("captured", 300)]);
}

#[test]
fn a_broken_time_in_the_future_keeps_no_segment_and_displaces_no_other() {
    let (_folder, spool, to) = places();
    let now = now_s() as u32;
    let expire = |args: &[&str]| {
        json_of(run(&[&["expire", &to, "--json"], args].concat()))["segments"].clone()
    };
    // The times of the packets in one file, in seconds.
    for (last, name) in [(4_000_000_000, "a.pcap"), (now - 60, "b.pcap")] {
        let frame = [name.as_bytes()[0]; 60];
        let bytes = pcap(&[(last, &frame), (last, &frame)]);
        fs::write(format!("{spool}/{name}"), bytes).unwrap();
    }
    ok(ship(&spool, &to, &[]));
    age(&to);
    let largest = segments(&to)
        .into_iter()
        .map(|it| fs::metadata(it).unwrap().len());
    let largest = largest.max().unwrap();
    assert_eq!(expire(&["--max", &format!("{largest}B"), "-n"]), 1);
    assert_eq!(expire(&["--older-than", "1h"]), 1);
    let left = segments(&to);
    assert!(
        left.len() == 1 && !left[0].to_string_lossy().contains("date=2096"),
        "{left:?}"
    );
}

#[test]
fn other_objects_are_ignored_and_a_damaged_record_is_that_of_its_sensor() {
    let folder = Folder::new();
    let to = folder.path("to");
    for sensor in ["hall", "lab"] {
        let spool = spool(&folder, sensor);
        captured(&folder, &format!("{sensor}/a.pcapng"), "count=10");
        ship_as(sensor, &spool, &to, &[]);
    }
    fs::write(format!("{to}/sensors/readme.txt"), "no JSON").unwrap();
    fs::write(format!("{to}/sensors/hall/notes.txt"), "no JSON").unwrap();
    for key in [
        "readme.txt",
        "sensor=hall/a.pcapng",
        "sensor=hall/date=2020-01-01/hour=00/b",
    ] {
        let paths = [format!("{to}/segments/{key}"), format!("{to}/index/{key}")];
        for path in paths.map(PathBuf::from) {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "no segment").unwrap();
        }
    }
    assert_eq!(status(&to).len(), 2);
    ok(run(&["compact", &to]));
    let rebuilt = json_of(run(&["rebuild", &to, "--json"]));
    assert_counts(&rebuilt, [("segments", 2), ("missing", 0)]);
    let found = ok(run(&["find", "--in", &to, "--count", "len > 0"]));
    assert_eq!(found.trim(), "20");
    assert_eq!(
        json_of(run(&["expire", &to, "--max", "0B", "-n", "--json"]))["segments"],
        2
    );
    fs::write(format!("{to}/sensors/hall/dropped-1.json"), "no JSON").unwrap();
    let (code, out, err) = run(&["status", &to, "--json"]);
    assert_eq!(code, 1, "{err}");
    let sensors = json_lines(&out);
    let sound = |at: usize| sensors[at]["is_sound"].as_bool().unwrap();
    assert!(!sound(0) && sound(1), "{out}");
    assert!(
        sensors[0]["damaged"][0]
            .as_str()
            .unwrap()
            .contains("dropped-1.json")
    );
}

#[test]
fn a_file_that_a_killed_program_left_under_two_names_is_counted_once() {
    let (folder, spool, to) = places();
    // A `ship` was killed after it had named the first one, and a capture after it had compressed the second one.
    captured(&folder, "spool/a.pcapng", "count=100,seed=1");
    let first = format!("{spool}/a.pcapng");
    fs::hard_link(&first, format!("{first}.part")).unwrap();
    let second = captured(&folder, "spool/b.pcapng", "count=100,seed=2");
    captured(&folder, "spool/b.pcapng.zst", "count=100,seed=2");
    let mut opened = Spool::open(Path::new(&spool), "hall").unwrap();
    let files = opened.finished(&mut |error| panic!("{error:#}")).unwrap();
    let mut found: Vec<String> = files.iter().map(|it| it.name()).collect();
    found.sort();
    assert_eq!(found, ["a.pcapng", "b.pcapng"]);
    assert_eq!(names(&spool), ["a.pcapng", "b.pcapng", "b.pcapng.zst"]);
    fs::remove_file(second).unwrap();
    drop(opened);
    released(first); // it was locked while it was taken over
    ok(ship(&spool, &to, &["--keep-local", "1B"]));
    assert_eq!(names(&spool), ["shipped"]);
    assert_eq!(status(&to)[0]["captured"], 200);
    // Both names in one run.
    captured(&folder, "spool/c.pcapng", "count=100,seed=3");
    captured(&folder, "spool/c.pcapng.zst", "count=100,seed=3");
    ok(ship(&spool, &to, &["--keep-local", "1B"]));
    assert_eq!(names(&spool), ["shipped"]);
    assert_eq!(status(&to)[0]["captured"], 300);
}

#[test]
fn segments_that_the_store_refuses_do_not_hold_up_other_files() {
    for (refused, files) in [(1, 3), (4, 5)] {
        let (_folder, spool, to) = places();
        for number in 1..=files {
            let path = format!("{spool}/{number}.pcap");
            let day = if number <= refused { 16 } else { 17 };
            fs::write(&path, pcap(&[(day * 100_000_000, &[number; 60])])).unwrap();
            set_modified(path, number.into());
        }
        // Nothing can be stored in this folder.
        let date = format!("{to}/segments/sensor=hall/date=2020-09-13");
        fs::create_dir_all(format!("{to}/segments/sensor=hall")).unwrap();
        fs::write(&date, "a file").unwrap();
        reports(ship(&spool, &to, &[]), 3, "date=2020-09-13");
        let left: Vec<String> = (1..=refused).map(|it| format!("{it}.pcap")).collect();
        assert_eq!(names(&spool), left);
        fs::remove_file(date).unwrap();
        ok(ship(&spool, &to, &[]));
        assert_eq!(status(&to)[0]["indexed"], files);
    }
}

#[test]
fn files_that_are_in_the_archive_and_cannot_be_freed_are_not_dropped() {
    let (folder, spool, to) = places();
    captures(&folder, 1..=3, 100);
    fs::write(format!("{spool}/shipped"), "no folder").unwrap();
    let keep = ["--keep-local", "1G"];
    reports(ship(&spool, &to, &keep), 1, "moving it to");
    // Also by a `ship` that begins later.
    let (_, out, err) = ship(&spool, &to, &[&keep[..], &DROP_ALL].concat());
    assert_eq!(last_json(&out)["dropped_files"], 0, "{err}");
    fs::remove_file(format!("{spool}/shipped")).unwrap();
    ok(ship(&spool, &to, &keep));
    let sensor = &status(&to)[0];
    assert_eq!([&sensor["captured"], &sensor["dropped"]], [300, 0]);
}

#[test]
fn passwords_in_addresses_are_never_printed() {
    let (folder, spool, to) = places();
    for args in [
        &["index", &*to, "--from", "nats:/ship:secret@queue"][..],
        &["index", &to, "--from=nats://ship:secret and more@queue"],
        &["index", &to, "--from", "nats://secret@queue/a.b"],
        &["index", &to, "nats://ship:secret@queue"],
        &["ship", &spool, &to, "--announce", "ship:secret@queue"],
        &["ship", &spool, "s3://key:secret@bucket/lab"],
        &["ship", &spool, "s3:/key:secret@bucket/lab"],
        &["ship", &spool, "http://key:secret@bucket/lab"],
        &["status", "key:secret@bucket"],
        &["find", "udp", "--in", "s3://key:secret@[bucket"],
    ] {
        let (code, out, err) = run(args);
        assert!(code != 0 && !err.is_empty(), "{args:?}: {err}");
        let printed = out + &err;
        assert!(!printed.contains("secret"), "{args:?}: {printed}");
    }
    // Nothing was made.
    assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 1);
}
