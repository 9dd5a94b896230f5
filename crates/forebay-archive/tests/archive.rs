//! Segments and their index in an archive that is a local folder.

mod common;

use anyhow::{Error, Result};
use common::{captured, runtime, times};
use forebay_archive::{
    archive::Archive,
    expire::{ExpireConfig, Verdict, expire},
    rebuild::rebuild,
    segment::{self, Pack, Packed},
    status::packets_by_segment,
    table::{Rows, Table},
};
use forebay_testing::folder::Folder;
use std::{
    collections::HashMap,
    fs::{self, File},
    path::Path,
    process::Command,
    time::Duration,
};

fn pack(path: &Path, compress: bool) -> Result<(Packed, File)> {
    let output = path.with_extension("packed");
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(true);
    let mut output = options.open(output).unwrap();
    let input = File::open(path).unwrap();
    let sensor = "hall";
    let packed = segment::pack(input, &mut output, &Pack { sensor, compress })?;
    Ok((packed, output))
}

/// A segment with `count` packets.
fn packed(folder: &Folder, seed: u64, count: u64) -> (Packed, File) {
    let card = format!("count={count},seed={seed}");
    let path = captured(folder, &format!("{seed}.pcapng"), &card);
    pack(&path, true).unwrap()
}

fn fail(error: Error) {
    panic!("{error:#}");
}

fn fail_event(event: Verdict<'_>) {
    if let Verdict::Failed(error) = event {
        fail(error);
    }
}

fn rows_of(packed: &Packed) -> Rows {
    Rows {
        segment: packed.key.clone(),
        files: packed.index.clone(),
    }
}

#[test]
fn each_block_of_a_segment_is_read_alone_and_all_rows_add_up() {
    let folder = Folder::new();
    for (name, compress) in [("a.pcapng", true), ("b.pcapng", false), ("c.pcap", true)] {
        let path = captured(&folder, name, "count=20000,size=900,flows=32");
        let expected = times(&path);
        let (packed, mut file) = pack(&path, compress).unwrap();
        let directory = &packed.directory;
        assert!(
            directory.blocks.len() > 3,
            "{name}: one block is not enough for this test"
        );
        assert_eq!(
            (directory.packets, directory.plain_bytes),
            (20_000, fs::metadata(&path).unwrap().len())
        );
        let rows: u64 = packed.index.iter().map(|it| it.packets).sum();
        assert_eq!(rows, 20_000, "{name}: packets in the index");
        runtime().block_on(async {
            let to = folder.path("to");
            let archive = Archive::open(&to, true).unwrap();
            let key = &packed.key;
            let put = archive.put_file(key, &mut file, packed.bytes);
            assert!(put.await.unwrap());
            let put = archive.put_new(key, b"other".as_slice().into());
            assert!(!put.await.unwrap());
            let stored = archive.directory(key, None).await.unwrap();
            assert_eq!(&stored, directory);
            let mut found = Vec::new();
            // From the last block to the first: no block needs another one.
            for (number, block) in directory.blocks.iter().enumerate().rev() {
                let bytes = archive.block(&packed.key, block).await.unwrap();
                let mut decoder = segment::decoder(directory, number).unwrap();
                let (mut at, mut times) = (0, Vec::new());
                while at < bytes.len() {
                    let next = segment::next_record(&mut decoder, &bytes[at..]);
                    let (frame, len) = next.unwrap();
                    times.extend(frame.map(|it| it.time_ns));
                    at += len;
                }
                found.splice(0..0, times);
            }
            assert!(found == expected, "{name}: packets by blocks");
        });
        // The tools of others read it, too.
        let stored = Path::new(&folder.path("to")).join(&packed.key);
        if compress {
            let plain = Command::new("zstd").args(["-dcq"]).arg(&stored).output();
            if let Ok(plain) = plain {
                assert!(plain.stdout == fs::read(&path).unwrap(), "{name}: zstd -d");
            }
        }
        assert!(
            times(&stored) == expected,
            "{name}: the segment as a capture file"
        );
    }
}

#[test]
fn a_torn_or_damaged_file_is_refused_and_never_panics() {
    let folder = Folder::new();
    let path = captured(&folder, "a.pcapng", "count=100");
    let whole = fs::read(&path).unwrap();
    for len in (0..whole.len())
        .step_by(61)
        .chain(whole.len() - 40..whole.len())
    {
        let torn = folder.path("torn.pcapng");
        fs::write(&torn, &whole[..len]).unwrap();
        match pack(torn.as_ref(), true) {
            // Cut between two blocks.
            Ok((packed, _)) => assert!(packed.directory.plain_bytes == len as u64),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn rows_of_a_segment_are_added_once_whoever_adds_them_and_however_often() {
    let folder = Folder::new();
    let rows = |n: u64| rows_of(&packed(&folder, n, 100 + n).0);
    let all: Vec<_> = (0..4).map(rows).collect();
    runtime().block_on(async {
        let to = folder.path("to");
        let archive = Archive::open(&to, true).unwrap();
        assert!(Table::open(&archive).await.unwrap().is_none());
        // Two programs create the table and add the same segments at the same time.
        let add = async |order: Vec<&Rows>| {
            let mut table = Table::open_or_create(&archive).await.unwrap();
            let mut added = 0;
            for rows in order {
                added += table.append(std::slice::from_ref(rows)).await.unwrap();
            }
            added
        };
        let (one, other) = tokio::join!(add(all.iter().collect()), add(all.iter().rev().collect()));
        assert_eq!(one + other, 4);
        let mut table = Table::open(&archive).await.unwrap().unwrap();
        assert_eq!(table.append(&all).await.unwrap(), 0);
        let files = table.files().unwrap();
        let records: u64 = files
            .iter()
            .map(|file| {
                let statistics: serde_json::Value =
                    serde_json::from_str(file.statistics.as_deref().unwrap()).unwrap();
                statistics["numRecords"].as_u64().unwrap()
            })
            .sum();
        let expected: u64 = all.iter().flat_map(|it| &it.files).map(|it| it.rows).sum();
        assert_eq!(records, expected);
        assert!(table.has(&all[0].segment).await.unwrap());
        assert!(!table.has("segments/other").await.unwrap());
    });
}

#[test]
fn rows_that_another_tool_removed_come_back_and_rows_of_an_expired_segment_do_not() {
    let folder = Folder::new();
    runtime().block_on(async {
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        let stored = async |n: u64| {
            let (packed, mut file) = packed(&folder, n, 100);
            let put = archive.put_file(&packed.key, &mut file, packed.bytes);
            put.await.unwrap();
            packed
        };
        let mut table = Table::open_or_create(&archive).await.unwrap();
        let mut keys = Vec::new();
        for n in 0..2 {
            let packed = stored(n).await;
            assert_eq!(table.append(&[rows_of(&packed)]).await.unwrap(), 1);
            keys.push(packed.key);
        }
        let removed = HashMap::from([(&*keys[0], u64::MAX)]);
        table.replace_rows(&removed, &[]).await.unwrap();
        let rows = packets_by_segment(&table).await.unwrap();
        assert_eq!(rows, HashMap::from([(keys[1].clone(), 100)]));
        for added in [1, 0] {
            let done = rebuild(&archive, &mut fail).await.unwrap();
            assert_eq!((done.segments, done.missing, done.added), (2, added, added));
        }
        table.refresh().await.unwrap();
        let rows = packets_by_segment(&table).await.unwrap();
        assert_eq!(rows, keys.iter().map(|it| (it.clone(), 100)).collect());

        // A segment that is being shipped: `expire` leaves it alone.
        let packed = stored(3).await;
        let config = ExpireConfig {
            max_bytes: Some(0),
            ..ExpireConfig::default()
        };
        let done = expire(&archive, &config, &mut fail_event).await.unwrap();
        assert_eq!(done.segments, 2);
        assert!(archive.len(&packed.key).await.unwrap().is_some());
        // If it is removed all the same, its rows do not stay.
        let record = format!("sensors/hall/expired-{}.json", packed.directory.sha256);
        archive.put_new(&record, "{}".into()).await.unwrap();
        assert_eq!(table.append(&[rows_of(&packed)]).await.unwrap(), 0);
        assert!(packets_by_segment(&table).await.unwrap().is_empty());
        // The next `expire` completes what was recorded, whatever its limits are.
        let config = ExpireConfig {
            older_than: Some(Duration::from_secs(1 << 40)),
            ..ExpireConfig::default()
        };
        let done = expire(&archive, &config, &mut fail_event).await.unwrap();
        assert_eq!(done.segments, 1);
        assert_eq!(archive.len(&packed.key).await.unwrap(), None);
    });
}

#[test]
fn an_open_table_knows_what_others_committed_also_without_old_log_entries_and_in_a_new_table() {
    let folder = Folder::new();
    let (packed, _) = packed(&folder, 1, 10);
    let rows = |number: u32| {
        let hour = "segments/sensor=hall/date=2026-11-23/hour=07";
        Rows {
            segment: format!("{hour}/{number:064x}.pcapng.zst"),
            files: packed.index.clone(),
        }
    };
    let to = folder.path("to");
    let remove_commits = |versions: std::ops::Range<u32>| {
        for version in versions {
            fs::remove_file(format!("{to}/index/_delta_log/{version:020}.json")).unwrap();
        }
    };
    runtime().block_on(async {
        let archive = Archive::open(&to, true).unwrap();
        let add = async |table: &mut Table, numbers: std::ops::Range<u32>| {
            for number in numbers {
                assert_eq!(table.append(&[rows(number)]).await.unwrap(), 1);
            }
        };
        let knows = async |table: &mut Table, number: u32| {
            let segment = rows(number).segment;
            table.has(&segment).await.unwrap()
        };
        let mut old = Table::open_or_create(&archive).await.unwrap();
        assert!(!knows(&mut old, 1).await);
        let mut other = Table::open(&archive).await.unwrap().unwrap();
        add(&mut other, 1..3).await;
        assert!(!knows(&mut old, 1).await, "not read yet");
        old.refresh().await.unwrap();
        assert!(knows(&mut old, 1).await && knows(&mut old, 2).await);
        // Version 20 has a checkpoint, and so has 40. The entries before it are removed.
        add(&mut other, 3..21).await;
        remove_commits(0..20);
        old.refresh().await.unwrap();
        add(&mut other, 21..41).await;
        remove_commits(20..40);
        old.refresh().await.unwrap();
        for number in 1..41 {
            assert!(knows(&mut old, number).await, "{number}");
        }
        assert!(!knows(&mut old, 41).await);
        assert_eq!(old.append(&[rows(3), rows(41), rows(41)]).await.unwrap(), 1);
        other.refresh().await.unwrap();
        assert!(knows(&mut other, 41).await);
        // Another table with fewer versions, and one with more.
        for number in [3, 50] {
            fs::rename(format!("{to}/index"), format!("{to}/{number}")).unwrap();
            let mut new = Table::open_or_create(&archive).await.unwrap();
            add(&mut new, 100..100 + number).await;
            other.refresh().await.unwrap();
            assert!(!knows(&mut other, 41).await && knows(&mut other, 101).await);
            assert_eq!(other.append(&[rows(101), rows(41)]).await.unwrap(), 1);
        }
        fs::remove_dir_all(format!("{to}/index")).unwrap();
        let error = other.refresh().await.unwrap_err();
        assert!(error.to_string().contains("its index is gone"), "{error:#}");
    });
}
