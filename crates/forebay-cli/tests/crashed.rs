//! Captures that are killed with `kill -9`, and captures whose disk is full, each at random moments: what was reported is
//! there, what is there is whole, and what is missing is reported.
//!
//! `FOREBAY_MOMENTS` says how many moments of each kind to try; a few by default. For the full disk this program runs
//! itself again, as the child that has a small disk.

#![allow(unsafe_code)] // entering a namespace

use forebay_testing::lab::{lab, tool};
use serde_json::Value;
use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Output, Stdio},
    time::{Duration, Instant},
};
use support::{
    children::{FOLDER, moments},
    *,
};

mod support;

const LIMIT: Duration = Duration::from_secs(300);
const BUFFERS: u64 = 4;
const POLICIES: [&str; 4] = ["none", "interval:20ms", "file", "always"];

/// What a file is called that is complete and not compressed.
fn plain(path: &str) -> &str {
    let path = path.strip_suffix(".part").unwrap_or(path);
    path.strip_suffix(".zst").unwrap_or(path)
}

/// The files of a folder whose names begin so, in the order of a series: shorter names first.
fn files(folder: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let ours = entries.filter(|entry| entry.file_name().to_str().unwrap().starts_with(prefix));
    let mut paths: Vec<_> = ours
        .map(|entry| entry.path().to_str().unwrap().to_owned())
        .collect();
    paths.sort_by_key(|path| (plain(path).len(), path.clone()));
    paths
}

/// Packets by `tshark`, which has nothing to complain about.
fn by_tshark(path: &str) -> u64 {
    let output = foreign(format!("tshark -r {path} -T fields -e frame.number"));
    output.unwrap().succeeds().text().lines().count() as u64
}

/// Packets by `capinfos`, if it is installed. Nothing was written yet into an empty file.
fn by_capinfos(paths: &[String]) -> Option<u64> {
    let some = paths.iter().filter(|path| file_len(path) > 0);
    let some: Vec<_> = some.cloned().collect();
    has("capinfos").then(|| match some.is_empty() {
        true => 0,
        false => counted_by_capinfos(&some),
    })
}

/// The packets that an independent reader finds; only the decompression is ours.
fn found_in(path: &str) -> Found {
    if !path.ends_with(".zst") {
        return found::open(path);
    }
    let output = run!("capture -r {path} -w - -q");
    output.succeeds();
    found::read(&output.stdout[..])
}

/// Takes what the compressor was about out of `paths`: where a file is there twice, either is whole.
fn without_doubles(mut paths: Vec<String>, dice: &mut Dice) -> Vec<String> {
    paths.retain(|path| !path.ends_with(".zst.part"));
    while let Some(at) = paths
        .windows(2)
        .position(|two| plain(&two[0]) == plain(&two[1]))
    {
        paths.remove(at + dice.below(2));
    }
    paths
}

/// All packets of a series of files; every one is where its number and the marks of losses before it say.
fn in_order(paths: &[String]) -> u64 {
    // Nothing was written yet into the newest.
    let some = paths.iter().filter(|path| file_len(path) > 0);
    let packets = some.flat_map(|path| found_in(path).packets);
    let all = Found {
        packets: packets.collect(),
        ..Found::default()
    };
    let last = all.packets.last().map_or(0, |packet| packet.sequence + 1);
    all.gaps(last);
    all.packets.len() as u64
}

/// What a capture said last before it was killed, of what was read by then and what was not; the line that it was
/// saying just then is none.
fn last_summary(before: &str, stdout: impl BufRead) -> Option<Value> {
    let lines = [before.to_owned()].into_iter();
    let lines = lines.chain(stdout.lines().map_while(Result::ok));
    lines
        .filter_map(|line| serde_json::from_str(&line).ok())
        .last()
}

#[test]
fn kill_9_loses_nothing_that_was_reported_written_and_at_most_the_buffers() {
    let mut dice = Dice(0xC0FF_EE11);
    let (mut torn, mut silent, mut most_files, mut lost) = (0, 0, 0, 0);
    for moment in 0..moments(8) * POLICIES.len() as u64 {
        let folder = Folder::new();
        let policy = POLICIES[moment as usize % POLICIES.len()];
        let is_series = moment as usize / POLICIES.len() % 2 == 1;
        // The last is so large and so fast that some die in the middle of writing one.
        let (port, buffer_bytes) = [
            ("sim:rate=400M", 16 << 10),
            ("sim:rate=400M", 256 << 10),
            ("sim:rate=2G", 4 << 20),
        ][dice.below(3)];
        let path = folder.path("a.pcapng");
        let mut flags = format!("-q --sync {policy} --store {BUFFERS}x{buffer_bytes}");
        if is_series {
            flags += " -b duration:30ms -b filesize:2000";
            if dice.below(2) == 0 {
                flags += " --compress zstd";
            }
        }
        let Some(log) = killed(&format!("-i {port} -w {path} {flags}"), &mut dice, |_| ()) else {
            silent += 1; // it was not under way yet
            continue;
        };
        let paths = without_doubles(files(folder.path("").as_ref(), "a"), &mut dice);
        most_files = most_files.max(paths.len());
        let packets = in_order(&paths);
        let what = format!("{flags}: {log}, {packets} in {paths:?}");
        lost += not_written(&log, packets, buffer_bytes, &what);
        if is_series {
            assert_eq!(count(&log["file"]).min(1), 1, "{what}");
        }
        let (last, complete) = paths.split_last().unwrap();
        let are_complete = complete.iter().all(|path| !path.ends_with(".part"));
        assert!(are_complete, "{what}");
        // The last one is complete, and compressed, only between two files.
        let whole = in_order(complete);
        if last.ends_with(".zst") {
            continue;
        }
        torn += u64::from(repaired(last, packets - whole));
        assert_eq!(by_capinfos(&paths).unwrap_or(packets), packets, "{what}");
    }
    println!(
        "{torn} of the files were torn, {silent} captures log nothing; up to {most_files} files; \
         {lost} packets were taken, reported as such, and not written"
    );
}

/// Starts a capture and kills it at some moment. Returns its last summary, if there is one.
fn killed(
    arguments: &str,
    dice: &mut Dice,
    when_started: impl FnOnce(&mut Child),
) -> Option<Value> {
    let flush = if dice.below(3) == 0 { "-U" } else { "" };
    let mut child = Mortal(start!(
        "capture {arguments} {flush} --json --stats-interval 2ms"
    ));
    when_started(&mut child.0);
    let mut stdout = BufReader::new(child.0.stdout.take().unwrap());
    let line = at_some_moment(&mut stdout, dice);
    drop(child);
    last_summary(&line, stdout)
}

/// Packets that a killed capture had taken and did not write. They fit its buffers, and what it reported is there.
fn not_written(log: &Value, packets: u64, buffer_bytes: u64, what: &str) -> u64 {
    let [taken, written, durable] = counts(log, ["taken", "written", "durable"]);
    assert!(durable <= written && written <= packets, "{what}");
    // A packet of 60 bytes takes 92, and one may run over the end of a buffer.
    let most_lost = BUFFERS * (buffer_bytes / 92 + 1);
    assert!(taken <= packets + most_lost, "{what}");
    taken.saturating_sub(packets)
}

/// Reads this number of reports, then waits a little; returns the last one.
fn at_some_moment(stdout: &mut impl BufRead, dice: &mut Dice) -> String {
    let begun = Instant::now();
    let mut line = String::new();
    for _ in 0..dice.below(80) {
        line.clear();
        stdout.read_line(&mut line).unwrap();
        assert!(begun.elapsed() < LIMIT, "it does not move");
    }
    for _ in 0..dice.below(300_000) {
        std::hint::spin_loop();
    }
    line
}

#[test]
fn kill_9_of_a_capture_from_an_interface_takes_nothing_that_was_reported_written() {
    lab(&["tcpreplay"], || {
        let (folder, sent) = captured("sent.pcap", "count=2000000");
        let mut dice = Dice(0xAFC0_FFEE);
        let (mut torn, mut silent, mut all, mut lost) = (0, 0, 0, 0);
        let moments = moments(8);
        for moment in 0..moments {
            let policy = POLICIES[moment as usize % POLICIES.len()];
            let buffer_bytes = [16 << 10, 256 << 10, 4 << 20][dice.below(3)];
            let path = folder.path(&format!("a{moment}.pcapng"));
            let flags = format!("--sync {policy} --store {BUFFERS}x{buffer_bytes}");
            let rate = ["--pps=20000", "--pps=200000", "--topspeed"][dice.below(3)];
            let mut held = None;
            let log = killed(&format!("-i vb -w {path} {flags}"), &mut dice, |child| {
                // Its first line says that it listens: nothing that is sent is missed from then on.
                let mut stderr = BufReader::new(child.stderr.take().unwrap());
                stderr.read_line(&mut String::new()).unwrap();
                let mut tcpreplay = tool("tcpreplay");
                tcpreplay.args(["-i", "va", "-q", rate, &sent]);
                tcpreplay.stdout(Stdio::null()).stderr(Stdio::null());
                held = Some((stderr, Mortal(tcpreplay.spawn().unwrap())));
            });
            drop(held);
            let Some(log) = log else {
                silent += 1;
                continue;
            };
            let packets = in_order(std::slice::from_ref(&path));
            let what = format!("{flags}: {log}, {packets}");
            lost += not_written(&log, packets, buffer_bytes, &what);
            all += packets;
            torn += u64::from(repaired(&path, packets));
            let counted = by_capinfos(std::slice::from_ref(&path));
            assert_eq!(counted.unwrap_or(packets), packets, "{what}");
            fs::remove_file(&path).unwrap();
        }
        println!(
            "{moments} kills: {all} packets found, all that were reported written among them; {torn} files were torn, \
             {silent} captures log nothing; {lost} packets were taken, reported as such, and not written"
        );
    });
}

/// Repairs a file with this many whole packets. Returns whether anything was cut off.
fn repaired(path: &str, packets: u64) -> bool {
    let before = file_len(path);
    if before == 0 {
        assert_eq!(packets, 0);
        return false;
    }
    let log = run!("repair --json {path}").succeeds().json();
    assert_eq!(count(&log["packets"]), packets, "{log}");
    let (whole, rest) = (count(&log["whole_bytes"]), &log["rest"]);
    assert_eq!((count(&log["bytes"]), whole), (before, file_len(path)));
    let cut = rest.as_str().map_or(0, file_len);
    assert_eq!(whole + cut, before, "what was cut off is in the other file");
    cut > 0
}

/// What a full disk left.
fn check_full(output: &Output, mount: &Path, flags: &str, dice: &mut Dice) {
    let (log, json) = (output.log(), output.json());
    let what = format!("{flags}: {json}\n{log}");
    output.fails(1, "no space left on device");
    contains(log, mount.join("a").to_str().unwrap());
    assert_eq!(json["law_holds"], true, "{what}");
    let [written, bytes] = counts(&json, ["written", "bytes"]);
    assert!(count(&json["dropped"]["disk"]) > 0, "{what}");
    contains(log, format!("received = {written} written"));
    let mut paths = files(mount, "a");
    assert!(paths.iter().all(|path| !path.ends_with(".part")), "{what}");
    assert_eq!(count(&json["files_written"]), paths.len() as u64, "{what}");
    let compressed = &json["compressed"];
    let packed = paths.iter().filter(|path| path.ends_with(".zst")).count();
    assert_eq!(count(&compressed["files"]), packed as u64, "{what}");
    let [before, after] = counts(compressed, ["bytes_before", "bytes"]);
    let lens = paths.iter().map(|path| file_len(path));
    assert_eq!(lens.sum::<u64>() + before, bytes + after, "{what}");
    // Only where not even a header fits, and the file was there before we knew.
    paths.retain(|path| file_len(path) > 0);
    let is_classic = |path: &String| path.contains(".pcap") && !path.contains(".pcapng");
    if !paths.iter().any(is_classic) {
        assert_eq!(in_order(&paths), written, "{what}");
    }
    if !paths.is_empty() && has("capinfos") && has("tshark") {
        assert_eq!(counted_by_capinfos(&paths), written, "{what}");
        let one = &paths[dice.below(paths.len())];
        let counted = counted_by_capinfos(std::slice::from_ref(one));
        assert_eq!(by_tshark(one), counted, "{what}");
    }
}

#[test]
#[ignore = "another test runs this as a child with a small disk"]
fn filler() {
    let Some(mount) = env::var_os(FOLDER) else {
        return;
    };
    let mount = Path::new(&mount);
    let mut dice = Dice(0x0DD_B1A5);
    for moment in 0..moments(8) {
        for path in files(mount, "") {
            fs::remove_file(path).unwrap();
        }
        // How much room there is decides when it is used up.
        let ballast = (3 << 20) - dice.below(2 << 20);
        // The kernel may take a moment to give the memory of removed files back.
        let write = || fs::write(mount.join("ballast"), vec![1; ballast as usize]);
        wait_until(|| write().is_ok());
        let name = dice.one_of(&["a.pcapng", "a.pcapng", "a.pcapng", "a.pcap"]);
        let path = mount.join(name).display().to_string();
        let store = dice.one_of(&["4x16KiB", "4x64KiB", "2x256KiB", "3x1MiB"]);
        let port = dice.one_of(&["sim:rate=max", "sim:rate=2G", "sim:clock=virtual"]);
        let policy = dice.one_of(&POLICIES);
        let mut flags = format!("-i {port} -c 1M -w {path} --json --sync {policy} --store {store}");
        // Every second one rotates.
        if moment % 2 == 1 {
            let ways = [
                "-C 100kB",
                "-C 7kB",
                "-b filesize:300",
                "-b duration:1ms",
                "-b packets:999",
            ];
            flags = format!("{flags} {}", dice.one_of(&ways));
            if dice.below(3) == 0 {
                flags += " --compress zstd:1";
            }
        }
        if dice.below(3) == 0 {
            flags += " -U";
        }
        check_full(&run!("capture {flags}"), mount, &flags, &mut dice);
    }
    println!("done");
}

#[test]
fn a_full_disk_costs_what_is_counted_and_leaves_what_readers_find_whole() {
    let folder = Folder::new();
    let child = children::role("filler");
    let ran = children::with_small_disk(folder.path("").as_ref(), "3M", &child).output();
    let Some(output) = children::on_small_disk(ran) else {
        return;
    };
    contains(output.succeeds().text(), "done");
}
