//! Rotation as its users meet it: whole captures in several files, each readable on its own, nothing lost between them.
//!
//! `contents` is about what stands in the files, `naming` about what they are called and replace, `limits` about which are
//! kept and when a capture ends, `failures` about files that cannot be created, `recovery` about files of captures
//! that were killed, `space` about free space on the disk, `commands` about programs that run on them, `old_files` about files that are read and split by time, and `requests` about what is
//! refused. Here is what they share.

mod commands;
mod contents;
mod failures;
mod limits;
mod naming;
mod old_files;
mod recovery;
mod requests;
mod space;

use crate::support::*;
use serde_json::Value;
use std::{fs, os::unix::fs::MetadataExt, process::Output};

const VIRTUAL: &str = "sim:clock=virtual";

/// The names in a folder in an order that is that of a series as long as its names have one length.
fn names(folder: &Folder) -> Vec<String> {
    let mut names = folder.names();
    names.sort_by_key(|name| name.len());
    names
}

fn files(folder: &Folder) -> Vec<String> {
    names(folder).iter().map(|name| folder.path(name)).collect()
}

/// Reads each file separately with an independent reader.
fn whole(paths: &[String], json: &Value) -> Vec<Found> {
    let found: Vec<_> = paths.iter().map(found::open).collect();
    for (path, found) in paths.iter().zip(&found) {
        assert!(!path.ends_with(".part"), "{path} has no final name");
        assert_eq!(found.interfaces, 1, "{path}");
        assert_eq!(
            found.statistics.len(),
            1,
            "{path} reports its share, and only that"
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
    assert_eq!(
        json["files"],
        Value::from(&paths[paths.len().saturating_sub(16)..])
    );
    let sum = |column: usize| {
        found
            .iter()
            .map(|one| one.statistics[0][column])
            .sum::<u64>()
    };
    let [received, written, unread] = counts(json, ["received", "written", "unread"]);
    let dropped = count(&json["dropped"]["kernel"]);
    assert_eq!([sum(0), sum(1), sum(2)], [received, dropped, written]);
    let lens = paths.iter().map(|path| file_len(path));
    assert_eq!(lens.sum::<u64>(), count(&json["bytes"]));
    let mut marked = 0;
    let (last, others) = found.split_last().unwrap();
    for found in others {
        let marks: u64 = found.packets.iter().map(|it| it.dropped_before).sum();
        let [received, dropped, delivered] = found.statistics[0];
        assert_eq!(dropped, marks, "losses are marked where their packet is");
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
    assert_eq!(counted_by_capinfos(paths), written);
}

fn series(port: &str, folder: &Folder, name: &str, flags: &str) -> Output {
    let name = folder.path(name);
    run!("capture -i {port} -w {name} --json -q {flags}")
}
