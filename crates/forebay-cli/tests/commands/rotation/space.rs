//! `--keep-free`: which files go, when the capture ends, and that the disk is never fuller than it may be.

use crate::rotation::{VIRTUAL, files, names, series};
use crate::support::*;
use rustix::fs::statvfs;
use std::{
    process::{Output, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

/// A script that knows where the disk is, and ends with the exit code that it has noted.
fn with_disk(mount: &str, script: &str) -> String {
    format!("DISK={mount}\n{script}\nexit $code")
}

/// Runs a script where `$DISK` is a disk of 32 MB.
fn on_disk(script: &str) -> Option<Output> {
    let folder = Folder::new();
    let mount = folder.path("small");
    on_small_disk(&mount, "32M", &with_disk(&mount, script))
}

/// The same. With its output, returns the least free space that was seen meanwhile, in MB.
fn on_watched_disk(script: &str) -> Option<(Output, f64)> {
    let folder = Folder::new();
    let mount = folder.path("small");
    let mut shell = shell_on_small_disk(&mount, "32M", &with_disk(&mount, script));
    let shell = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(shell) = shell else {
        children::skip("unshare");
        return None;
    };
    // The disk, which is mounted in the namespace of that process only.
    let disk = format!("/proc/{}/root{mount}", shell.id());
    let has_ended = AtomicBool::new(false);
    let watch = || {
        let mut least = u64::MAX;
        while !has_ended.load(Relaxed) {
            if let Ok(disk) = statvfs(&disk) {
                least = least.min(disk.f_bavail * disk.f_frsize);
            }
            thread::sleep(Duration::from_millis(1));
        }
        least as f64 * 1e-6
    };
    thread::scope(|scope| {
        let watching = scope.spawn(watch);
        let output = children::on_small_disk(shell.wait_with_output());
        has_ended.store(true, Relaxed);
        let (output, least) = (output?, watching.join().unwrap());
        assert!(least < 33.6, "{least} MB are more than the disk has");
        Some((output, least))
    })
}

const LIVE: &str = "sim:rate=400M --json -q";

#[test]
fn the_oldest_files_go_and_the_disk_keeps_its_free_space() {
    let Some((output, least)) = on_watched_disk(&format!(
        "forebay capture -i {LIVE} -w $DISK/a.pcapng -b filesize:2000 --keep-free 40% -a duration:1.5 --store 4x512KiB
         code=$?; ls $DISK | wc -l"
    )) else {
        return;
    };
    let json = output.keeps_the_law();
    let removed = count(&json["files_removed_for_space"]);
    assert!(removed > 10 && json["ended_by"].is_null(), "{json}");
    assert_eq!([&json["dropped"]["disk"], &json["unread"]], [0, 0]);
    let last = output.text().lines().next_back().unwrap();
    let left: u64 = last.trim().parse().unwrap();
    assert_eq!(left, count(&json["files_written"]) - removed);
    assert!(least >= 13.4, "40 % of 32 MiB: {}", output.text());
}

#[test]
fn files_of_earlier_captures_go_too_if_their_names_are_those_of_the_series() {
    let Some(output) = on_disk(
        "forebay capture -i sim:clock=virtual -c 100k -w $DISK/a.pcapng -b filesize:2000 -q
         cp $DISK/a_00001_*.pcapng $DISK/a_00001_good.pcapng
         echo diary >$DISK/a_00001_20200101000000.pcapng
         # What is mounted over cannot be removed.
         held=$DISK/a_00000_20200101000000.pcapng
         cp $DISK/a_00001_good.pcapng $held; touch -d 2020-01-01 $held; mount --bind $held $held
         forebay capture -i sim:clock=virtual -c 100k -w $DISK/a.pcapng -b filesize:2000 --keep-free 50% -q --json
         code=$?; umount $held; ls $DISK",
    ) else {
        return;
    };
    let json = output.keeps_the_law();
    assert!(count(&json["files_removed_for_space"]) >= 2, "{json}");
    contains(output.text(), "a_00001_good.pcapng");
    contains(output.text(), "a_00001_20200101000000.pcapng");
    contains(output.text(), "a_00000_20200101000000.pcapng");
    let written = json["files"].as_array().unwrap().iter();
    for path in written {
        let name = path.as_str().unwrap().rsplit('/').next().unwrap();
        contains(output.text(), name);
    }
}

#[test]
fn names_that_are_used_again_are_not_taken_for_old_files() {
    // The names are relative, and each number was used by an earlier capture.
    let Some(output) = on_disk(
        "cd $DISK
         forebay capture -i sim:clock=virtual -c 150k -w a.pcap -C 2 -q
         ls | wc -l
         forebay capture -i sim:clock=virtual -c 150k -w a.pcap -C 2 --keep-free 20% -q --json
         code=$?; forebay info -c a.pcap*; ls",
    ) else {
        return;
    };
    let json = output.keeps_the_law();
    let [written, removed, for_space] = counts(
        &json,
        ["files_written", "files_removed", "files_removed_for_space"],
    );
    // The space is enough: only files of the same names went, one for each new one.
    assert_eq!([written, removed, for_space], [6, 6, 0], "{json}");
    let packets = output
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("Packets:"));
    let packets = packets.map(|count| count.trim().parse::<u64>().unwrap());
    assert_eq!(packets.sum::<u64>(), 150_000);
}

#[test]
fn limits_of_number_and_size_count_no_files_of_earlier_captures() {
    for limit in ["-b files:3", "-b filesize:10 -b total:30"] {
        let folder = Folder::new();
        series(VIRTUAL, &folder, "a.pcapng", "-b packets:100 -c 1000").keeps_the_law();
        let before = files(&folder);
        assert_eq!(before.len(), 10);
        let flags = format!("-b packets:100 {limit} --keep-free 1M -c 1000");
        let json = series(VIRTUAL, &folder, "a.pcapng", &flags).keeps_the_law();
        assert_eq!(json["files_removed_for_space"], 0, "{json}");
        assert!(count(&json["files_removed"]) > 0, "{json}");
        let after = files(&folder);
        assert!(before.iter().all(|path| after.contains(path)), "{after:?}");
    }
}

#[test]
fn without_older_files_the_capture_ends_in_good_order() {
    for (name, flags) in [
        ("a.pcapng", "--store 4x512KiB"),
        ("a.pcapng", "-b duration:100"),
        ("a.pcap", "--store 8x4M"),
    ] {
        let script = format!(
            "forebay capture -i {LIVE} -w $DISK/{name} --keep-free 20M {flags}
             code=$?; cp $DISK/a* $DISK/copy; forebay info -c $DISK/copy"
        );
        let Some(output) = on_disk(&script) else {
            return;
        };
        assert_eq!(output.status.code(), Some(4), "{flags}: {}", output.log());
        let json = output.json();
        assert_eq!(json["ended_by"], "keep_free", "{json}");
        assert_eq!(
            [&json["law_holds"], &json["error"]],
            [&true.into(), &serde_json::Value::Null]
        );
        assert_eq!(json["dropped"]["disk"], 0, "{json}");
        contains(output.log(), "ended to keep");
        // All that was counted as written is there.
        contains(output.text(), format!(" {}\n", count(&json["written"])));
    }
}

#[test]
fn other_programs_that_fill_the_disk_cost_old_files_too_and_then_end_the_capture() {
    let script = "forebay capture -i sim:clock=virtual -c 60k -w $DISK/a.pcapng -b filesize:2000 -q
         ls $DISK | wc -l
         forebay capture -i sim:rate=1kbit --json -w $DISK/a.pcapng -b duration:1000 --keep-free 8M & pid=$!
         while ! ls $DISK/*.part >/dev/null 2>&1; do sleep 0.02; done
         head -c 20M /dev/zero >$DISK/other; sleep 1; ls $DISK | wc -l
         head -c 8M /dev/zero >$DISK/more; wait $pid; code=$?";
    let Some(output) = on_disk(script) else {
        return;
    };
    assert_eq!(output.status.code(), Some(4), "{}", output.log());
    let json = output.json();
    assert_eq!(
        [&json["law_holds"], &json["ended_by"]],
        [&true.into(), &serde_json::Value::from("keep_free")]
    );
    assert!(count(&json["files_removed_for_space"]) > 0);
}

#[test]
fn compressing_finished_files_needs_room_as_well() {
    let Some((output, least)) = on_watched_disk(&format!(
        "forebay capture -i {LIVE} -w $DISK/a.pcapng -b filesize:2000 --compress zstd --keep-free 20M -a duration:1.5 --store 4x512KiB
         code=$?; ls $DISK"
    )) else {
        return;
    };
    let json = output.keeps_the_law();
    assert!(count(&json["compressed"]["files"]) > 0, "{json}");
    assert!(least >= 20.9, "{}", output.text());
    lacks(output.text(), ".zst.part");
}

#[test]
fn too_little_space_at_the_start_is_an_error_and_no_file_is_made() {
    let folder = Folder::new();
    for earlier in [0, 5] {
        if earlier > 0 {
            series(VIRTUAL, &folder, "a.pcapng", "-b packets:10 -c 50").keeps_the_law();
        }
        for flags in ["", "-b duration:1"] {
            let output = series(
                VIRTUAL,
                &folder,
                "a.pcapng",
                &format!("--keep-free 1000T {flags}"),
            );
            output.fails(1, "must stay free");
            // Files of earlier captures survive a limit that cannot be met.
            assert_eq!(names(&folder).len(), earlier);
        }
    }
    for (flags, expected) in [
        ("-w - --keep-free 1%", "name one with -w"),
        ("--count --keep-free 1%", "name one with -w"),
        ("-w x --keep-free 0", "neither a share"),
        ("-w x --keep-free 100%", "neither a share"),
        ("-w x --keep-free 10", "neither a share"),
    ] {
        run!("capture -i {VIRTUAL} -c 1 {flags}").fails(2, expected);
    }
    assert_eq!(files(&folder).len(), 5);
}
