//! Names and times, which are pure; whole series are tested as captures.

use super::{super::paths, schedule::Schedule, *};
use forebay::store::Series;
use forebay_testing::folder::Folder;
use jiff::{Timestamp, tz::TimeZone};
use std::{fs, io, time::Duration};

const SECOND: u64 = 1_000_000_000;
/// 2026-11-21 14:30:00, in the machine's time zone.
fn afternoon() -> u64 {
    let time: jiff::civil::DateTime = "2026-11-21T14:30:00".parse().unwrap();
    let time: Timestamp = time.to_zoned(TimeZone::system()).unwrap().timestamp();
    time.as_nanosecond() as u64
}

/// Returns the names of files that begin this many seconds after the afternoon, by time or for another reason.
fn names(rotation: &Rotation, files: &[(u64, bool)]) -> Vec<String> {
    let mut namer = rotation.namer();
    let name = |&(second, by_time): &(u64, bool)| {
        let name = namer.next(afternoon() + second * SECOND, by_time).unwrap();
        name.to_str().unwrap().to_owned()
    };
    files.iter().map(name).collect()
}

fn sized(path: &str, names: Names) -> Rotation {
    Rotation {
        bytes: Some(1000),
        ..Rotation::of(path, names)
    }
}

#[test]
fn a_size_numbers_files_as_tcpdump_does() {
    let files = [(0, true), (5, false), (9, false)];
    let plain = sized("x/a.pcapng", Names::Numbered);
    assert_eq!(
        names(&plain, &files),
        ["x/a.pcapng", "x/a.pcapng1", "x/a.pcapng2"]
    );
    let ring = |files| Rotation {
        keep_files: Some(files),
        ..plain.clone()
    };
    assert_eq!(
        names(&ring(2), &files),
        ["x/a.pcapng0", "x/a.pcapng1", "x/a.pcapng0"]
    );
    assert_eq!(names(&ring(10), &files)[2], "x/a.pcapng2");
    assert_eq!(names(&ring(11), &files)[2], "x/a.pcapng02");
    assert_eq!(names(&ring(1), &files), ["x/a.pcapng"; 3]);
}

#[test]
fn a_time_makes_the_name_and_a_size_numbers_it() {
    let files = [(0, true), (5, false), (9, false), (60, true), (61, false)];
    let timed = sized("%Y/a-%H%M%S.pcap", Names::Timed);
    let expected = [
        "2026/a-143000.pcap",
        "2026/a-143000.pcap1",
        "2026/a-143000.pcap2",
        "2026/a-143100.pcap",
        "2026/a-143100.pcap1",
    ];
    assert_eq!(names(&timed, &files), expected);
    assert_eq!(names(&sized("100%%", Names::Timed), &files[..1]), ["100%"]);
    assert_eq!(names(&sized("a%H", Names::Numbered), &files[..1]), ["a%H"]);
    let wrong = sized("a-%!", Names::Timed).validate().unwrap_err();
    assert!(wrong.to_string().contains("%%"), "{wrong}");
}

#[test]
fn number_and_time_stand_before_the_extension_as_dumpcap_has_them() {
    let files = [(0, true), (5, false)];
    let expected = [
        "x.y/a.b_00001_20261121143000.pcapng",
        "x.y/a.b_00002_20261121143005.pcapng",
    ];
    assert_eq!(
        names(&sized("x.y/a.b.pcapng", Names::Dumpcap), &files),
        expected
    );
    let bare = names(&sized("x.y/a", Names::Dumpcap), &files);
    assert_eq!(bare[1], "x.y/a_00002_20261121143005");
}

#[test]
fn a_name_belongs_to_a_series_only_if_the_series_could_have_made_it() {
    let dumpcap = sized("x/a.pcapng", Names::Dumpcap);
    let timed = sized("x/a-%Y%m%d-%H%M%S.pcap", Names::Timed);
    let numbered = sized("x/a.pcap.gz", Names::Numbered);
    let of = |rotation: &Rotation, name: &str| {
        names::is_of_series(&rotation.path, rotation.names, name.as_ref())
    };
    for (rotation, name, expected) in [
        (&dumpcap, "a_00001_20261121143000.pcapng", Some(false)),
        (&dumpcap, "a_100000_20261121143000.pcapng", Some(false)),
        (&dumpcap, "a_00001_20261121143000.pcapng.3", Some(false)),
        (&dumpcap, "a_00001_20261121143000.pcapng.zst", Some(true)),
        (&dumpcap, "a_0001_20261121143000.pcapng", None),
        (&dumpcap, "a_00001_20261121.pcapng", None),
        (&dumpcap, "a_00001_20261121143000.pcap", None),
        (&dumpcap, "a_00001_20261121143000.pcapng.cut", None),
        (&dumpcap, "b_00001_20261121143000.pcapng", None),
        (&dumpcap, "a_b_00001_20261121143000.pcapng", None),
        (&dumpcap, "a.pcapng", None),
        (&timed, "a-20261121-143000.pcap", Some(false)),
        (&timed, "a-20261121-143000.pcap12", Some(false)),
        (&timed, "a-20261121-143000.pcap.2", Some(false)),
        (&timed, "a-20261121-143000.pcap.zst", Some(true)),
        (&timed, "a-20261341-143000.pcap", None),
        (&timed, "a-2026112-143000.pcap", None),
        (&timed, "a-20261121-143000.pcap.bak", None),
        (&timed, "a-good.pcap", None),
        (&numbered, "a.pcap.gz", Some(false)),
        (&numbered, "a.pcap17.gz", Some(false)),
        (&numbered, "a.pcap17", None),
        (&numbered, "a.pcap.1.gz", None),
        (&numbered, "a.pcap.gz.zst", None),
    ] {
        assert_eq!(of(rotation, name), expected, "{rotation:?} {name}");
    }
}

fn schedule(every: Option<u64>, interval: Option<u64>, steady: bool, wall: u64) -> Schedule {
    let seconds = |time: Option<u64>| time.map(Duration::from_secs);
    let rotation = Rotation {
        every: seconds(every),
        interval: seconds(interval),
        steady,
        ..Rotation::of("a", Names::Timed)
    };
    Schedule::new(&rotation, 0, wall * SECOND)
}

#[test]
fn a_period_goes_on_from_when_it_was_due_and_not_from_when_it_was_seen() {
    let mut every = schedule(Some(10), None, false, 0);
    assert!(!every.is_due(10 * SECOND - 1, 0));
    assert_eq!(every.due_in(9 * SECOND, 0), SECOND);
    assert!(every.is_due(11 * SECOND, 0));
    every.began_next(11 * SECOND, 0, true);
    assert_eq!(every.due_in(11 * SECOND, 0), 9 * SECOND);
    // After a long sleep, missed periods do not produce empty files.
    assert!(every.is_due(47 * SECOND, 0));
    every.began_next(47 * SECOND, 0, true);
    assert_eq!(every.due_in(47 * SECOND, 0), 3 * SECOND);
}

#[test]
fn a_full_file_begins_the_period_anew_unless_it_is_steady() {
    for (steady, left) in [(false, 10), (true, 4)] {
        let mut every = schedule(Some(10), None, steady, 0);
        every.began_next(6 * SECOND, 0, false);
        assert_eq!(every.due_in(6 * SECOND, 0), left * SECOND);
    }
    let mut asked = schedule(Some(10), None, true, 0);
    asked.began_next(6 * SECOND, 0, true);
    assert_eq!(asked.due_in(6 * SECOND, 0), 10 * SECOND);
}

#[test]
fn an_interval_follows_the_wall_clock_wherever_it_jumps() {
    let mut hourly = schedule(None, Some(3600), false, 1000);
    assert_eq!(hourly.due_in(0, 1000 * SECOND), 2600 * SECOND);
    assert!(!hourly.is_due(0, 3599 * SECOND));
    assert!(hourly.is_due(0, 3600 * SECOND));
    hourly.began_next(0, 3600 * SECOND, true);
    // Set back slightly: the same hour does not end again. Set back by a day: continues with the hours of that day.
    assert!(!hourly.is_due(0, 3590 * SECOND) && !hourly.is_due(0, 3601 * SECOND));
    assert_eq!(hourly.due_in(0, 3601 * SECOND), 3599 * SECOND);
    let day = 24 * 3600;
    let mut later = schedule(None, Some(3600), false, day + 100);
    assert!(!later.is_due(0, 200 * SECOND));
    assert_eq!(later.due_in(0, 200 * SECOND), 3400 * SECOND);
    // Set forward by a day: one switch, then continues from there.
    assert!(later.is_due(0, (day + 50) * SECOND));
    later.began_next(0, (day + 50) * SECOND, true);
    assert_eq!(later.due_in(0, (day + 50) * SECOND), 3550 * SECOND);
    // A period ignores the wall clock.
    assert!(!schedule(Some(10), None, false, 1000).is_due(0, u64::MAX));
}

#[test]
fn a_period_continues_from_packets_whose_times_go_back_far() {
    let mut every = schedule(Some(10), None, true, 0);
    every.begin(1000 * SECOND, 1000 * SECOND);
    let is_quiet = |every: &Schedule, second: u64| every.lasts().contains(&(second * SECOND));
    assert!(is_quiet(&every, 990) && is_quiet(&every, 1009) && !is_quiet(&every, 1010));
    assert!(!is_quiet(&every, 500) && !every.is_due(500 * SECOND, 500 * SECOND));
    assert!(is_quiet(&every, 509) && every.is_due(510 * SECOND, 510 * SECOND));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let good = sized("a", Names::Dumpcap);
    assert!(good.validate().is_ok());
    let spoil: [fn(&mut Rotation); 7] = [
        |it| it.bytes = None,
        |it| it.bytes = Some(0),
        |it| it.every = Some(Duration::ZERO),
        |it| it.keep_files = Some(0),
        |it| it.keep_bytes = Some(1999),
        |it| it.compress = Some(20),
        |it| it.stop_after = Some(0),
    ];
    for spoil in spoil {
        let mut rotation = good.clone();
        spoil(&mut rotation);
        assert!(rotation.validate().is_err(), "{rotation:?}");
    }
}

#[test]
fn a_file_that_has_its_name_is_told_and_kept_also_where_the_folder_cannot_be_synced_at_once() {
    let folder = Folder::new();
    let path = folder.join("a.pcapng");
    let rotation = Rotation {
        keep_files: Some(1),
        ..sized(path.to_str().unwrap(), Names::Numbered)
    };
    let reports = Reports::default();
    let opened = open(&rotation, reports.clone(), SyncPolicy::File, None);
    let mut writer = opened.unwrap().files;
    for _ in 0..2 {
        reports.order(path.clone());
    }
    let mut sink = writer.open(0).unwrap();
    sink.write(b"packets", 0).unwrap();
    writer.sync_folder = |_| Err(io::Error::from_raw_os_error(libc::EIO));
    let error = writer.complete(0).unwrap_err().to_string();
    assert!(error.contains("durable"), "{error}");
    assert_eq!(reports.files().last, std::slice::from_ref(&path));
    let again = writer.complete(0).unwrap_err().to_string();
    assert_eq!(again, error, "the renaming itself needs no second try");
    writer.sync_folder = |_| Ok(());
    writer.complete(0).unwrap();
    assert_eq!(reports.files().written, 1);
    // It has its place in the ring.
    writer.open(1).unwrap();
    assert_eq!((reports.files().removed, path.exists()), (1, false));
}

#[test]
fn a_ring_waits_for_a_file_that_its_own_thread_is_finishing() {
    let folder = Folder::new();
    let path = folder.join("a.pcapng");
    let part = paths::part(&path);
    let rotation = sized(path.to_str().unwrap(), Names::Numbered);
    let reports = Reports::default();
    let retention = Retention::new(reports.clone(), false, false);
    let mut writer = SeriesFiles::new(&rotation, reports.clone(), retention.clone(), None, false);
    reports.order(path);
    let finishing = retention.finishing(&part);
    let file = fs::File::create(&part).unwrap();
    assert!(!paths::is_locked(&file));
    assert!(paths::is_in_use(&part));
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| writer.open(0).map(drop));
        std::thread::yield_now();
        drop(file);
        drop(finishing);
        opened.join().unwrap().unwrap();
    });
}

#[test]
fn a_file_that_nobody_waits_for_any_more_is_not_there_twice() {
    let folder = Folder::new();
    let path = folder.join("a.pcapng");
    let packed = paths::packed(&path);
    let reports = Reports::default();
    let retention = Retention::new(reports.clone(), false, true);
    fs::write(&path, "packets").unwrap();
    fs::write(paths::part(&packed), "less").unwrap();
    retention.add(&path, 7);
    assert_eq!(retention.next(), Some(path.clone()));
    assert!(retention.name(&paths::part(&packed), &packed).unwrap());
    // An interrupt while the folder is synced.
    retention.give_up();
    retention.replace(&packed, 7, 4).unwrap();
    assert_eq!((path.exists(), packed.exists()), (true, false));
    assert_eq!(reports.files().compressed.left, 1);
    assert_eq!(reports.files().last, [path]);
}

#[test]
fn files_that_find_no_place_to_wait_are_counted_as_left() {
    let reports = Reports::default();
    let retention = Retention::new(reports.clone(), false, true);
    for number in 0..300 {
        retention.add(format!("a{number}").as_ref(), 1);
    }
    assert_eq!(reports.files().compressed.left, 300 - 256);
    assert_eq!(retention.end(), 256);
    retention.give_up();
    assert_eq!(reports.files().compressed.left, 300);
    assert_eq!(retention.next(), None);
}

#[test]
fn captures_that_ask_for_the_same_name_of_a_time_at_once_each_get_one() {
    let folder = Folder::new();
    let path = folder.join("a.pcapng");
    let capture = || {
        let rotation = sized(path.to_str().unwrap(), Names::Timed);
        let reports = Reports::default();
        let opened = open(&rotation, reports.clone(), SyncPolicy::None, None);
        let mut writer = opened.unwrap().files;
        for number in 0..100 {
            reports.order(path.clone());
            writer.open(number).unwrap().write(b"packets", 0).unwrap();
            writer.complete(number).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(capture);
        }
    });
    assert_eq!(folder.names().len(), 400);
}

#[cfg(not(feature = "zstd"))]
#[test]
fn a_build_without_zstd_refuses_to_compress_and_names_the_feature() {
    let retention = Retention::new(Reports::default(), false, true);
    let error = Compressor::start(retention, None, 3, true)
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("the feature `zstd`"), "{error}");
}

#[cfg(feature = "zstd")]
#[test]
fn a_file_that_somebody_else_compressed_and_removed_is_left_to_him() {
    let folder = Folder::new();
    let path = folder.join("a.pcapng");
    let packed = paths::packed(&path);
    fs::write(&packed, "theirs").unwrap();
    let reports = Reports::default();
    let retention = Retention::new(reports.clone(), false, true);
    retention.add(&path, 7);
    let compressor = Compressor::start(retention, None, 3, true).unwrap();
    let control = crate::session::Control::new().unwrap();
    compressor.finish(&control, |_| ());
    assert_eq!(reports.files().compressed.failed, 1);
    assert_eq!(fs::read(&packed).unwrap(), b"theirs");
}
