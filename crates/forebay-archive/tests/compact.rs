//! `compact`: the rows stay the same, whatever runs next to it and wherever it is killed.

mod common;

use arrow_row::{RowConverter, SortField};
use common::{
    archive, assert_counts, captured, files_below, json_lines, json_of, ok, pcap, places, reports,
    run, run_and_kill, runtime, set_age, ship, spool, status,
};
use forebay_archive::{
    archive::Archive,
    compact::{CompactConfig, Compacted, compact},
    table::Table,
};
use forebay_testing::{dice::Dice, folder::Folder};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

/// Ships captures with these seeds, one after the other.
fn shipped(folder: &Folder, seeds: std::ops::Range<u64>) -> String {
    let (spool, to) = (spool(folder, "spool"), folder.path("to"));
    for seed in seeds {
        let card = format!("count=600,flows=64,size=imix,seed={seed}");
        captured(folder, &format!("spool/{seed}.pcapng"), &card);
    }
    ok(ship(&spool, &to, &[]));
    to
}

/// The number of files of the table, and all its rows with their dates, sorted.
fn rows(to: &str) -> (usize, Vec<Vec<u8>>) {
    runtime().block_on(async {
        let archive = Archive::open(to, false).unwrap();
        let table = Table::open(&archive).await.unwrap().unwrap();
        let files = table.files().unwrap();
        let mut rows = Vec::new();
        for file in &files {
            let bytes = archive.get(&file.key).await.unwrap().unwrap();
            let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
            for batch in reader.build().unwrap() {
                let batch = batch.unwrap();
                let kinds = batch.schema_ref().fields().iter();
                let kinds = kinds.map(|it| SortField::new(it.data_type().clone()));
                let converter = RowConverter::new(kinds.collect()).unwrap();
                let converted = converter.convert_columns(batch.columns()).unwrap();
                rows.extend(
                    converted
                        .iter()
                        .map(|row| [file.date.as_bytes(), row.as_ref()].concat()),
                );
            }
        }
        rows.sort();
        (files.len(), rows)
    })
}

/// All files below a folder with this ending, in order.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = files_below(folder);
    found.retain(|it| it.to_string_lossy().ends_with(ending));
    found
}

#[test]
fn small_files_become_one_with_the_same_rows_and_searches_find_the_same() {
    let folder = Folder::new();
    let to = shipped(&folder, 0..9);
    let (count, before) = rows(&to);
    assert_eq!(count, 9);
    let host = "host 198.18.0.7 or port 53";
    let find = |name: &str| {
        let output = folder.path(name);
        ok(run(&["find", "--in", &to, host, "-w", &output, "-q"]));
        let (_, flows, _) = run(&["find", "--in", &to, "--flows", "--json", "tcp"]);
        let mut flows: Vec<_> = flows.lines().map(str::to_owned).collect();
        flows.sort();
        (fs::read(output).unwrap(), flows)
    };
    let found = find("before.pcapng");
    let plan = json_of(run(&["compact", &to, "-n", "--json"]));
    assert_counts(&plan, [("merged_files", 9), ("files", 1)]);
    let text = ok(run(&["compact", &to, "-n"]));
    assert!(
        text.starts_with("would merge 9 of the 9 files of the index ("),
        "{text}"
    );
    assert_eq!(rows(&to).0, 9, "a dry run changes nothing");
    let done = json_of(run(&["compact", &to, "--json"]));
    assert_counts(&done, [("merged_files", 9), ("files", 1)]);
    assert_eq!(rows(&to), (1, before));
    assert!(find("after.pcapng") == found);
    status(&to);
    // The log says that no data changed, so those who follow the table do not read the rows again.
    let log = Path::new(&to).join("index/_delta_log");
    let commits = files(&log, ".json");
    let last = fs::read_to_string(commits.last().unwrap()).unwrap();
    let changes = |it: &Value| {
        it["add"]["dataChange"]
            .as_bool()
            .or(it["remove"]["dataChange"].as_bool())
    };
    let changes: Vec<bool> = json_lines(&last).iter().filter_map(changes).collect();
    assert_eq!(changes, [false; 10]);
    // A second run has nothing to do.
    let (_, out, _) = run(&["compact", &to]);
    assert!(out.contains("merged 0 files"), "{out}");
    let plan = ok(run(&["compact", &to, "-n"]));
    assert_eq!(plan, "would merge none of the 1 files of the index\n");
}

#[test]
fn many_files_that_are_read_in_several_steps_become_one_with_the_same_rows() {
    let (_folder, spool, to) = places();
    for file in 0..18 {
        // Each packet is a flow: UDP with another port.
        let frames: Vec<Vec<u8>> = (0..700_u16)
            .map(|port| {
                let mut frame = vec![2; 12];
                frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
                frame.extend([10, 0, 0, file, 10, 0, 1, port as u8]);
                frame.extend((1000 + port).to_be_bytes());
                frame.extend([0, 53, 0, 8, 0, 0]);
                frame
            })
            .collect();
        let packets: Vec<_> = frames.iter().map(|it| (1_700_000_000, &it[..])).collect();
        fs::write(format!("{spool}/{file}.pcap"), pcap(&packets)).unwrap();
    }
    ship(&spool, &to, &[]);
    let (count, before) = rows(&to);
    // More than a step for each file.
    assert!(count == 18 && before.len() > 18 * 512, "{}", before.len());
    ok(run(&["compact", &to]));
    assert!(rows(&to) == (1, before));
}

#[test]
fn two_runs_next_to_ship_and_expire_lose_and_double_nothing() {
    let folder = Folder::new();
    let to = shipped(&folder, 0..12);
    let before = status(&to)[0].clone();
    let stored = before["stored_bytes"].as_u64().unwrap();
    let (spool, keep) = (folder.path("spool"), format!("{}B", stored * 2 / 3));
    for seed in 12..20 {
        let card = format!("count=600,flows=64,seed={seed}");
        captured(&folder, &format!("spool/{seed}.pcapng"), &card);
    }
    let commands = [
        &["compact", &*to][..],
        &["ship", &spool, &to, "--sensor", "hall", "--once"],
        &["compact", &to],
        &["expire", &to, "--max", &keep],
    ];
    let running = commands.map(|it| {
        let mut command = archive(it);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    });
    for child in running {
        let (code, out, err) = common::done(child.wait_with_output().unwrap());
        assert_eq!(code, 0, "{out}{err}");
    }
    run(&["compact", &to]);
    let after = status(&to)[0].clone();
    assert_eq!(after["captured"], 20 * 600);
    assert_eq!(after["indexed"], after["shipped"]);
    assert!(after["expired"].as_u64().unwrap() > 0);
    same_as_rebuilt(&to);
}

/// The rows of the table are those that the segments give.
fn same_as_rebuilt(to: &str) {
    let (_, found) = rows(to);
    fs::rename(format!("{to}/index"), format!("{to}/old")).unwrap();
    ok(run(&["rebuild", to]));
    assert!(rows(to).1 == found, "rows after compactions");
}

#[test]
fn of_two_runs_that_merge_the_same_files_one_wins() {
    let folder = Folder::new();
    let to = shipped(&folder, 0..8);
    let before = rows(&to).1;
    let done = runtime().block_on(async {
        let archive = Archive::open(&to, false).unwrap();
        let run = async || -> Compacted {
            compact(&archive, &CompactConfig::default(), &mut |_, _| true)
                .await
                .unwrap()
        };
        let (one, two, three) = tokio::join!(run(), run(), run());
        [one, two, three]
    });
    assert_eq!(done.iter().map(|it| it.merged).sum::<u64>(), 8, "{done:?}");
    assert_eq!(rows(&to), (1, before));
}

/// `FOREBAY_ARCHIVE_KILLS` sets how often.
#[test]
fn a_compact_that_is_killed_anywhere_loses_and_doubles_nothing() {
    let folder = Folder::new();
    let kills: u64 = std::env::var("FOREBAY_ARCHIVE_KILLS").map_or(6, |it| it.parse().unwrap());
    let mut dice = Dice(29);
    let mut to = String::new();
    for round in 0..kills {
        to = shipped(&folder, 3 * round..3 * round + 3);
        run_and_kill(&["compact", &to], dice.below(150));
        assert_eq!(status(&to)[0]["indexed"], (round + 1) * 3 * 600);
    }
    ok(run(&["compact", &to]));
    same_as_rebuilt(&to);
}

#[test]
fn vacuum_deletes_only_files_that_no_young_version_needs() {
    let folder = Folder::new();
    let to = shipped(&folder, 0..3);
    let index = Path::new(&to).join("index");
    let age = |days: u64| {
        for path in files(&index, ".parquet") {
            set_age(path, days * 86_400);
        }
    };
    let vacuum = |more: &[&str]| {
        let vacuum = ["compact", &to, "--vacuum", "2d", "--json"];
        json_of(run(&[&vacuum, more].concat()))["deleted_files"].clone()
    };
    reports(run(&["compact", &to, "--vacuum", "2h"]), 2, "1d and 7d");
    // A file that a killed program left, and one that is not committed yet.
    let orphan = index.join("date=2020-01-01/part-orphan.parquet");
    fs::write(&orphan, "").unwrap();
    age(9);
    let young = index.join("date=2020-01-01/part-young.parquet");
    fs::write(&young, "").unwrap();
    assert_eq!(vacuum(&["-n"]), 1);
    assert_eq!(vacuum(&[]), 1);
    assert!(!orphan.exists() && young.exists());
    // The merged files are old, but were removed from the table only now.
    age(9);
    fs::remove_file(&young).unwrap();
    assert_eq!(files(&index, ".parquet").len(), 4);
    assert_eq!(vacuum(&[]), 0);
    // As if that had been three days ago.
    let before = rows(&to).1;
    for commit in files(&index.join("_delta_log"), ".json") {
        let text = fs::read_to_string(&commit).unwrap();
        let mut lines = Vec::new();
        for line in text.lines() {
            let mut action: Value = serde_json::from_str(line).unwrap();
            if let Some(time) = action["remove"]["deletionTimestamp"].as_i64() {
                action["remove"]["deletionTimestamp"] = (time - 3 * 86_400_000).into();
            }
            lines.push(action.to_string());
        }
        fs::write(commit, lines.join("\n")).unwrap();
    }
    assert_eq!(vacuum(&[]), 3);
    assert_eq!(rows(&to), (1, before));
}
