//! Kills processes with `kill -9`, and fills disks, at random moments while a store is written. Every record that was reported
//! must then be in the file.
//!
//! Each test runs this program again as its child and passes the child's role in the environment. `FOREBAY_MOMENTS` sets how many
//! moments of each kind to try; the default is a few.

use forebay::{
    records::{self, Reader, Records, Recovered, recover},
    store::{FileConfig, FileSink, Finished, Stage, StoreConfig, SyncPolicy, WhenFull},
};
use forebay_testing::{
    children::{self, FOLDER, Mortal, moments},
    dice::Dice,
    folder::Folder,
};
use std::{
    env,
    fs::{self, File},
    io::ErrorKind,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

const LIMIT: Duration = Duration::from_secs(60);

/// A record that contains its number.
type Entry = [u64; 4];

fn entry(number: u64) -> Entry {
    [number, !number, number.rotate_left(17), 7]
}

fn config(sync: SyncPolicy, buffer_bytes: usize) -> StoreConfig {
    StoreConfig {
        buffers: BUFFERS,
        buffer_bytes,
        sync,
        when_full: WhenFull::Wait,
        huge_pages: false,
        ..StoreConfig::default()
    }
}

const BUFFERS: usize = 4;
const SMALL: usize = 8192;
/// Large enough that some children die in the middle of writing a buffer.
const LARGE: usize = 1 << 20;

/// The most records that the buffers hold. One more fits, since a record may extend beyond the capacity; heads take some space.
fn most_lost(buffer_bytes: usize) -> u64 {
    (BUFFERS * (buffer_bytes / size_of::<Entry>() + 1)) as u64
}

/// Records between two reports.
const STEP: u64 = 16;

const POLICIES: [SyncPolicy; 4] = [
    SyncPolicy::None,
    SyncPolicy::Interval(Duration::from_millis(2)),
    SyncPolicy::File,
    SyncPolicy::Always,
];

/// What a child has reported: the numbers of records accepted, written and durable.
fn reported(folder: &Path) -> [u64; 3] {
    let mut bytes = [0; 24];
    match File::open(folder.join("report")) {
        Ok(file) if file.read_exact_at(&mut bytes, 0).is_ok() => {}
        _ => return [0; 3],
    }
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    [word(0), word(8), word(16)]
}

#[test]
#[ignore = "another test runs this as a child and kills it"]
fn appender() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let number = |name: &str| env::var(name).unwrap().parse::<u64>().unwrap();
    let mut dice = Dice(number("FOREBAY_SEED"));
    let policy = POLICIES[number("FOREBAY_POLICY") as usize];
    let buffer_bytes = number("FOREBAY_BUFFER") as usize;
    let report = File::create(folder.join("report")).unwrap();
    let file = FileConfig {
        direct: dice.below(2) == 0,
        allocate_bytes: [0, 1 << 20][dice.below(2)],
    };
    let path = folder.join("records");
    let config = config(policy, buffer_bytes);
    let (mut log, begin) = match env::var_os("FOREBAY_GO_ON") {
        Some(_) => {
            let (log, found) = Records::<Entry>::open_append(&path, &file, &config).unwrap();
            (log, found.records)
        }
        None => {
            let _ = fs::remove_file(&path);
            let sink = FileSink::create(&path, &file).unwrap();
            (Records::<Entry>::in_blocks(sink, &config).unwrap(), 0)
        }
    };
    for number in begin.. {
        log.append_with(|slot| *slot = entry(number)).unwrap();
        match dice.below(2000) {
            0 => log.flush().unwrap(),
            1 => drop(log.wait_for(Stage::Durable, LIMIT).unwrap()),
            _ => {}
        }
        if number % STEP == 0 {
            let totals = log.totals();
            let mut bytes = Vec::new();
            for stage in [Stage::Accepted, Stage::Written, Stage::Durable] {
                bytes.extend((begin + totals.at(stage)).to_ne_bytes());
            }
            report.write_all_at(&bytes, 0).unwrap();
        }
    }
}

/// Runs an appender in `folder` with these settings, until it has reported more than `target` records.
fn appended(folder: &Path, target: u64, settings: &[(&str, u64)]) -> Mortal {
    let _ = fs::remove_file(folder.join("report"));
    let mut child = children::role("appender");
    child.env(FOLDER, folder);
    for (name, value) in settings {
        child.env(name, value.to_string());
    }
    let child = Mortal(child.spawn().unwrap());
    let begun = Instant::now();
    while reported(folder)[0] <= target {
        assert!(
            begun.elapsed() < LIMIT,
            "the child makes no progress at {target}"
        );
        // Not without a pause: that would take a processor from the child.
        std::thread::sleep(Duration::from_micros(100));
    }
    child
}

/// Reads all records, which have to be numbered from 0.
fn read(path: &Path) -> Recovered {
    let mut reader = Reader::new(File::open(path).unwrap());
    let mut next = 0;
    while let Some(block) = reader.next_block().unwrap() {
        assert_eq!(block.first(), next);
        for record in block.records() {
            let words = record.chunks(8);
            let words = words.map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
            assert!(words.eq(entry(next)), "record {next}");
            next += 1;
        }
    }
    let found = reader.finish().unwrap();
    assert_eq!(found.records, next);
    found
}

#[test]
fn kill_9_takes_nothing_that_was_reported_written_and_no_more_than_the_buffers() {
    let folder = Folder::new();
    let path = folder.join("records");
    let mut dice = Dice(0x9E37_79B9);
    let mut torn = 0;
    for moment in 0..moments(15) * POLICIES.len() as u64 {
        let policy = moment as usize % POLICIES.len();
        let (buffer_bytes, times) = match moment as usize / POLICIES.len() % 2 {
            0 => (SMALL, 1),
            _ => (LARGE, 10),
        };
        // The moment: after this many records, plus a short delay.
        let most = [40_000, 20_000, 40_000, 2_000][policy];
        let settings = [
            ("FOREBAY_POLICY", policy as u64),
            ("FOREBAY_BUFFER", buffer_bytes as u64),
            ("FOREBAY_SEED", moment + 1),
        ];
        let child = appended(&folder, dice.below(most * times), &settings);
        for _ in 0..dice.below(30_000) {
            std::hint::spin_loop();
        }
        drop(child);
        let [accepted, written, durable] = reported(&folder);
        let before = fs::metadata(&path).unwrap().len();
        let found = read(&path);
        let what = format!(
            "{:?}: {accepted}, {written}, {durable}, {found:?}",
            POLICIES[policy]
        );
        assert!(durable <= written && written <= found.records, "{what}");
        assert!(found.records <= accepted + STEP, "{what}");
        assert!(
            accepted <= found.records + most_lost(buffer_bytes),
            "{what}"
        );
        let cut = found.cut.map_or(0, |cut| cut.bytes);
        assert_eq!(found.bytes + cut, before, "{what}");
        torn += u64::from(cut > 0);
        if found.blocks > 0 {
            assert_eq!(recover(&path).unwrap(), found);
            assert_eq!(fs::metadata(&path).unwrap().len(), found.bytes);
            assert_eq!(records::check(&path).unwrap().cut, None);
        }
    }
    println!("{torn} of the files ended in a torn block");
}

#[test]
fn a_log_goes_on_where_its_last_run_was_killed() {
    let folder = Folder::new();
    let path = folder.join("records");
    let mut dice = Dice(0xC0_FFEE);
    let (mut kept, mut promised, mut torn) = (0, 0, 0);
    for run in 0..moments(12) {
        let settings = [
            ("FOREBAY_GO_ON", 1),
            ("FOREBAY_POLICY", run % 4),
            ("FOREBAY_BUFFER", [SMALL, LARGE][run as usize % 2] as u64),
            ("FOREBAY_SEED", run + 1),
        ];
        drop(appended(&folder, kept + dice.below(20_000), &settings));
        let [_, written, durable] = reported(&folder);
        promised = durable.max(promised);
        // In order from 0 on, across all runs.
        let found = read(&path);
        assert!(
            found.records >= kept.max(written).max(promised),
            "{found:?}"
        );
        kept = found.records;
        torn += u64::from(found.cut.is_some());
    }
    println!("{torn} of the runs ended in a torn block, {kept} records in all");
}

#[test]
#[ignore = "another test runs this as a child and kills it"]
fn idler() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let sink = FileSink::create(folder.join("records"), &FileConfig::default()).unwrap();
    let mut log = Records::<Entry>::in_blocks(sink, &config(SyncPolicy::None, LARGE)).unwrap();
    // One record, and then no call: no flush, no tick, no close. Then another one into the same buffer.
    for number in 0..2 {
        log.append(&entry(number)).unwrap();
        while !folder.join(number.to_string()).exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    loop {
        std::thread::park();
    }
}

#[test]
fn what_an_idle_program_appended_reaches_the_file_and_survives_kill_9() {
    let folder = Folder::new();
    let path = folder.join("records");
    let mut child = children::role("idler");
    let child = Mortal(child.env(FOLDER, &*folder).spawn().unwrap());
    let begun = Instant::now();
    for number in 0..2 {
        while !path.exists() || records::check(&path).unwrap().records <= number {
            assert!(begun.elapsed() < LIMIT, "record {number} is never written");
            std::thread::sleep(Duration::from_millis(5));
        }
        fs::write(folder.join(number.to_string()), "").unwrap();
    }
    drop(child);
    let found = read(&path);
    assert_eq!((found.records, found.blocks, found.cut), (2, 2, None));
}

/// Appends until an error. A ballast file leaves little space on the disk. `on_full` decides whether to continue.
fn fill(
    folder: &Path,
    ballast: u64,
    sync: SyncPolicy,
    mut on_full: impl FnMut(&Path, &mut Records<Entry>) -> bool,
) -> (Finished, u64) {
    let _ = fs::remove_file(folder.join("records"));
    let in_the_way = folder.join("ballast");
    fs::write(&in_the_way, vec![1; ballast as usize]).unwrap();
    let sink = FileSink::create(folder.join("records"), &FileConfig::default()).unwrap();
    let mut log = Records::<Entry>::in_blocks(sink, &config(sync, SMALL)).unwrap();
    let mut number = 0;
    while number < 40_000 {
        match log.append(&entry(number)) {
            Ok(_) => number += 1,
            Err(error) => {
                let text = error.to_string();
                assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{text}");
                assert!(text.contains("records: writing: no space left"), "{text}");
                assert!(text.ends_with("Make room, or write elsewhere"), "{text}");
                if !on_full(&in_the_way, &mut log) {
                    break;
                }
            }
        }
    }
    (log.close().finish(), number)
}

#[test]
#[ignore = "another test runs this as a child, on a small private disk"]
fn filler() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let mut dice = Dice(0x0DD_B1A5);
    let path = folder.join("records");
    for moment in 0..moments(15) {
        let policy = POLICIES[moment as usize % 4];
        let ballast = (1 << 20) + dice.below(900 << 10);
        // No room is made: the file is whole up to its last block, and the counts show how many records are missing.
        let (end, accepted) = fill(&folder, ballast, policy, |_, _| false);
        let found = read(&path);
        assert_eq!((found.records, found.cut), (end.totals.written, None));
        assert_eq!(fs::metadata(&path).unwrap().len(), end.totals.written_bytes);
        assert_eq!(end.totals.accepted, accepted);
        assert!(end.totals.written < accepted && end.error.is_none());
        // Room is made: the store continues without a gap.
        let (end, accepted) = fill(&folder, ballast, policy, |ballast, log| {
            match fs::remove_file(ballast) {
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
                Ok(()) => log.retry(),
            }
            true
        });
        let found = read(&path);
        assert_eq!((found.records, found.cut), (accepted, None));
        assert_eq!((end.totals.written, accepted), (40_000, 40_000));
        assert!(end.error.is_none(), "{:?}", end.error);
        // Append to an existing file until the disk is full: its records stay.
        let config = config(policy, SMALL);
        let (mut log, found) =
            Records::<Entry>::open_append(&path, &FileConfig::default(), &config).unwrap();
        let before = (found.records, found.bytes);
        let mut number = found.records;
        while log.append(&entry(number)).is_ok() {
            number += 1;
        }
        let end = log.close().finish().totals;
        let found = read(&path);
        assert_eq!((found.records, found.cut), (before.0 + end.written, None));
        assert_eq!(found.bytes, before.1 + end.written_bytes);
        assert!(end.accepted > end.written);
    }
    println!("done");
}

#[test]
fn a_full_disk_costs_what_is_counted_and_room_made_in_time_costs_nothing() {
    let folder = Folder::new();
    let child = children::role("filler");
    let ran = children::with_small_disk(&folder, "2M", &child).output();
    let Some(output) = children::on_small_disk(ran) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("done"));
}
