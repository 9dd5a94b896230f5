//! How much of a series is kept, and what ends the capture that writes it.

use crate::rotation::{VIRTUAL, files, series, whole};
use crate::support::*;

#[test]
fn a_ring_keeps_the_newest_files_and_their_bytes_in_bounds() {
    let folder = Folder::new();
    let flags = "-C 100kB -W 5 -c 20k";
    let json = series(VIRTUAL, &folder, "a.pcapng", flags).keeps_the_law();
    let found = whole(&files(&folder), &json);
    let [written, removed] = counts(&json, ["files_written", "files_removed"]);
    assert_eq!(written - removed, 5);
    let newest: Vec<u64> = found.iter().flat_map(Found::sequences).collect();
    let from = 20_000 - newest.len() as u64;
    are_each_once(newest, from..20_000);

    let folder = Folder::new();
    let flags = "-b filesize:100 -b total:450 -c 20k";
    let json = series(VIRTUAL, &folder, "a.pcapng", flags).keeps_the_law();
    let paths = files(&folder);
    let bytes: u64 = paths.iter().map(|path| file_len(path)).sum();
    assert!((300_000..=450_000).contains(&bytes), "{bytes}");
    assert_eq!(json["files"].as_array().unwrap().len(), paths.len());
    let last = found::open(paths.last().unwrap()).sequences();
    assert_eq!(last.last(), Some(&19_999));
}

#[test]
fn a_capture_stops_at_the_requested_limit() {
    let stop = |flags: &str| {
        let folder = Folder::new();
        let json = series(VIRTUAL, &folder, "a.pcapng", flags).keeps_the_law();
        let [written, bytes] = counts(&json, ["written", "bytes"]);
        (written, files(&folder).len(), bytes, json)
    };
    assert_eq!(stop("-a packets:500 -c 600").0, 500);
    assert_eq!(stop("-a duration:10ms").0, 14_880);
    let (written, _, bytes, json) = stop("-a filesize:100");
    assert!((100_000..100_400).contains(&bytes), "{json}");
    assert!(written > 1000 && json["files_written"] == 1);
    let (written, files, _, json) = stop("-b packets:100 -a files:4");
    assert_eq!((written, files), (400, 4));
    assert!(count(&json["unread"]) > 0, "what came after it is reported");
    let (written, files, _, _) = stop("-G 10ms -W 3");
    assert_eq!((written, files), (44_642, 3));
    // A stream has no name, and still a size.
    let output = run!("capture -i {VIRTUAL} -w - -q -a filesize:50 --json");
    assert!((50_000..50_400).contains(&output.stdout.len()));
}

#[test]
fn a_full_last_file_ends_the_capture_without_another_packet() {
    let each = [
        ("-a filesize:1", 1),
        ("-b packets:3 -a files:1", 3),
        ("-b packets:3 -a files:2", 6),
        ("-C 1kB -G 1000 -a files:2", 2),
    ];
    for (flags, packets) in each {
        // A packet every 8 seconds.
        let slow = "sim:clock=virtual,rate=1kbit,size=1000";
        let json = series(slow, &Folder::new(), "a.pcapng", flags).keeps_the_law();
        let counts = counts(&json, ["received", "written"]);
        assert_eq!(counts, [packets; 2], "{flags}: {json}");
    }
}
