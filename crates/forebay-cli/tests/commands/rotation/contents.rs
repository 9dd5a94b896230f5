//! What stands in the files of a series: each packet once, and each file's own share of what was counted.

use crate::rotation::{VIRTUAL, complete, files, foreign_counts, series};
use crate::support::*;
use std::fs;

#[test]
fn files_of_all_kinds_hold_every_packet_once() {
    let lossy = "sim:clock=virtual,rate=10G,size=imix,ring=64,host=none,cost=300ns,stall=1ms@7ms,count=30000";
    let kinds = [
        "-b duration:1ms",
        "-b interval:2ms",
        "-b filesize:50 --sync none",
        "-b packets:777 --sync none",
        "-b duration:3ms -b filesize:100 -b packets:900 -c 9k",
        "-C 100kB",
        "-b filesize:1 -c 500 --store 2x64KiB --sync none",
        "-b duration:1ms -a duration:9ms --sync always",
        "-b packets:1 -c 300 --sync none",
    ];
    let ports = [lossy, "sim:clock=virtual,count=10000"];
    for (number, flags) in kinds.into_iter().enumerate() {
        // Both, or in turns.
        for port in ports.iter().cycle().skip(number).take(rounds(2)) {
            let folder = Folder::new();
            let json = series(port, &folder, "a.pcapng", flags).keeps_the_law();
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
    let flags = "-b duration:20ms -b filesize:1000 -a duration:1";
    let json = series("sim:rate=2G", &folder, "a.pcapng", flags).keeps_the_law();
    let paths = files(&folder);
    assert!(paths.len() > 5, "{}", paths.len());
    complete(&paths, &json);
    foreign_counts(&paths, count(&json["written"]));
}

#[test]
fn the_clock_rotates_without_a_packet() {
    let folder = Folder::new();
    // One frame in 1000 years: no packet arrives.
    let flags = "-b duration:50ms -a duration:1";
    let port = "sim:clock=virtual,rate=1,count=1";
    let json = series(port, &folder, "a.pcapng", flags).keeps_the_law();
    assert_eq!(json["written"], 0);
    let paths = files(&folder);
    assert_eq!(paths.len(), 20);
    complete(&paths, &json);
    foreign_counts(&paths, 0);
}

#[test]
fn a_classic_series_has_a_header_in_each_file() {
    let folder = Folder::new();
    let json = series(VIRTUAL, &folder, "a.pcap", "-C 10kB -c 1000").keeps_the_law();
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
    let (folder, name) = Folder::with("a.pcapng");
    let two = "sim:clock=virtual,seed=2,rate=100M";
    let flags = "-b packets:1000 -c 5000 --json -q";
    let json = run!("capture -i {} -i {two} -w {name} {flags}", VIRTUAL).keeps_the_law();
    let found: Vec<_> = files(&folder).iter().map(found::open).collect();
    assert_eq!(found.len(), 5);
    let mut delivered = 0;
    for one in &found {
        let counts = [one.interfaces, one.statistics.len(), one.packets.len()];
        assert_eq!(counts, [2, 2, 1000]);
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
    let before = run!("capture -i {lossy} -w {old} --json -q").keeps_the_law();
    let name = folder.path("new.pcapng");
    let json = run!("capture -r {old} -w {name} -b packets:100 --json -q").keeps_the_law();
    let found: Vec<_> = files(&folder).iter().map(found::open).collect();
    assert_eq!(json["written"], before["written"]);
    let (last, others) = found.split_last().unwrap();
    assert!(others.len() > 10 && others.iter().all(|one| one.statistics.is_empty()));
    // What the file reported of itself is reported once.
    assert_eq!(last.statistics, found::open(&old).statistics);
    let copied: Vec<_> = found.into_iter().flat_map(|one| one.packets).collect();
    assert_eq!(copied, found::open(&old).packets);
}

#[test]
fn what_is_durable_is_reported_for_each_policy() {
    for policy in ["none", "file", "always", "interval:10"] {
        let (_folder, path) = Folder::with("a.pcapng");
        let output = run!(
            "capture -i {} -w {path} --json -c 1000 --sync {policy}",
            VIRTUAL
        );
        let json = output.keeps_the_law();
        let is_synced = policy != "none";
        assert_eq!(
            count(&json["durable"]),
            if is_synced { 1000 } else { 0 },
            "{policy}"
        );
        assert_eq!(
            json["durable_bytes"] == json["bytes"],
            is_synced,
            "{policy}"
        );
        assert_eq!(count(&json["syncs"]["count"]) > 0, is_synced, "{policy}");
        assert_eq!(output.log().contains("durable"), is_synced, "{policy}");
    }
}

/// Must-show of rotation; `FOREBAY_LONG=1 cargo test --release -p forebay-cli --test commands a_minute_at_line_rate -- --nocapture`.
#[test]
fn a_minute_at_line_rate_in_files_of_100_ms_loses_nothing() {
    if std::env::var_os("FOREBAY_LONG").is_none() {
        return println!("skipped: needs FOREBAY_LONG, a minute and 9 GB");
    }
    let folder = Folder::new();
    let flags = "-b duration:100ms -a duration:60";
    let output = series("sim", &folder, "a.pcapng", flags);
    println!("{}", output.log());
    let json = output.keeps_the_law();
    let paths = files(&folder);
    println!("{} files, {json}", paths.len());
    complete(&paths, &json);
    foreign_counts(&paths, count(&json["written"]));
    assert_eq!(json["dropped"]["kernel"], 0);
    assert!((590..=601).contains(&paths.len()), "{} files", paths.len());
}
