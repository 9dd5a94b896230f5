//! Files that are compressed, while they are written or once they are finished: nothing is lost, also when that is interrupted.
//! And the formats of files and streams.

use crate::support::{found::Packet, *};
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::MetadataExt,
    process::Output,
};

/// The names in a folder: those of a series in order.
fn names(folder: &Folder) -> Vec<String> {
    let mut names = folder.names();
    names.sort_by_key(|name| name.trim_end_matches(".zst").len());
    names
}

fn capture(folder: &Folder, name: &str, flags: &str) -> Output {
    let path = folder.path(name);
    run!("capture -i sim:clock=virtual -w {path} --json {flags}")
}

/// The packets of these files, packed or not.
fn packets(folder: &Folder, names: &[String]) -> Vec<Packet> {
    let unpacked = |name: &String| {
        let output = run!("capture -r {} -w - -q", folder.path(name));
        output.succeeds();
        found::read(&output.stdout[..]).packets
    };
    names.iter().flat_map(unpacked).collect()
}

fn sequences(folder: &Folder, names: &[String]) -> Vec<u64> {
    let packets = packets(folder, names);
    packets.iter().map(|packet| packet.sequence).collect()
}

#[test]
fn every_finished_file_becomes_a_small_one_that_holds_the_same() {
    for (level, sync) in [("zstd", "file"), ("zstd:1", "none"), ("zstd:9", "always")] {
        let [plain, small] = [Folder::new(), Folder::new()];
        let flags = format!("-b packets:500 -c 10k --sync {sync}");
        capture(&plain, "a.pcapng", &flags).keeps_the_law();
        let output = capture(&small, "a.pcapng", &format!("{flags} --compress {level}"));
        let json = output.keeps_the_law();
        let (whole, packed) = (names(&plain), names(&small));
        let expected: Vec<_> = whole.iter().map(|name| format!("{name}.zst")).collect();
        assert_eq!(packed, expected);
        assert_eq!(packets(&small, &packed), packets(&plain, &whole));
        let lens = |folder: &Folder, names: &[String]| -> u64 {
            let about = names
                .iter()
                .map(|name| fs::metadata(folder.path(name)).unwrap());
            let private = about.inspect(|about| assert_eq!(about.mode() & 0o777, 0o600));
            private.map(|about| about.len()).sum()
        };
        let message = &json["compressed"];
        let counted = counts(
            message,
            ["files", "bytes_before", "bytes", "left", "failed"],
        );
        let [before, after] = [lens(&plain, &whole), lens(&small, &packed)];
        assert_eq!(counted, [20, before, after, 0, 0]);
        assert_eq!(json["files"][15], small.path(packed.last().unwrap()));
        contains(output.log(), "20 files, 20 compressed to");
        // Other tools report what is there by now, too.
        run!("info {}", small.path(&packed[3])).succeeds();
    }
}

#[test]
fn a_ring_holds_the_newest_files_whatever_their_state() {
    // Names that come again, too: what is being compressed may be a file that is gone by then.
    for flags in [
        "-b files:3 -b packets:200",
        "-C 20kB -W 3",
        "-b total:60 -b filesize:20",
    ] {
        let folder = Folder::new();
        let flags = format!("{flags} -c 40k --compress zstd");
        let json = capture(&folder, "a.pcapng", &flags).keeps_the_law();
        let left = names(&folder);
        assert!((2..50).contains(&left.len()), "{flags}: {left:?}");
        assert!(left.iter().all(|name| name.ends_with(".zst")), "{left:?}");
        let [written, removed] = counts(&json, ["files_written", "files_removed"]);
        assert_eq!(written - removed, left.len() as u64, "{flags}: {json}");
        let newest = sequences(&folder, &left);
        let from = 40_000 - newest.len() as u64;
        are_each_once(newest, from..40_000);
        let bytes = left.iter().map(|name| file_len(&folder.path(name)));
        assert!(bytes.sum::<u64>() <= 60_000, "{flags}");
    }
}

#[test]
fn a_file_that_cannot_be_compressed_stays_and_is_reported() {
    let folder = Folder::new();
    fs::create_dir(folder.path("a.pcapng2.zst.part")).unwrap();
    let output = capture(&folder, "a.pcapng", "-C 20kB -c 1000 --compress zstd");
    output.fails(1, "a.pcapng2: compressing it: ");
    contains(output.log(), "1 file is not compressed, and whole");
    let json = output.json();
    assert_eq!(
        (
            count(&json["compressed"]["failed"]),
            count(&json["written"])
        ),
        (1, 1000)
    );
    fs::remove_dir(folder.path("a.pcapng2.zst.part")).unwrap();
    let left = names(&folder);
    let packed: Vec<_> = left.iter().map(|name| name.ends_with(".zst")).collect();
    assert_eq!(packed, [true, true, false, true, true], "{left:?}");
    assert_eq!(sequences(&folder, &left), (0..1000).collect::<Vec<_>>());
}

#[test]
fn more_files_than_can_wait_stay_as_they_are() {
    let folder = Folder::new();
    let flags = "-b packets:1 -c 3000 --compress zstd:19 --sync none";
    let json = capture(&folder, "a.pcapng", flags).keeps_the_law();
    let left = names(&folder);
    let [packed, plain] = counts(&json["compressed"], ["files", "left"]);
    assert_eq!(packed + plain, 3000, "{json}");
    let is_packed = |name: &&String| name.ends_with(".zst");
    assert_eq!(left.iter().filter(is_packed).count() as u64, packed);
    assert_eq!(left.len(), 3000);
}

#[test]
fn a_capture_that_does_not_wait_for_compression_keeps_plain_files() {
    let (folder, name) = Folder::with("a.pcapng");
    let flags = "-b filesize:1000 -c 300k --compress zstd:19";
    let mut child = start!("capture -i sim:clock=virtual -w {name} --json {flags}");
    heard(&mut child, "compressing finished files");
    let output = stopped(child);
    let json = output.keeps_the_law();
    let left = names(&folder);
    let plain = left.iter().filter(|name| name.ends_with(".pcapng")).count();
    assert_eq!(count(&json["compressed"]["left"]), plain as u64);
    assert!(plain > 1);
    contains(
        output.log(),
        format!("{plain} files are not compressed, and whole"),
    );
    assert!(!left.iter().any(|name| name.ends_with(".part")), "{left:?}");
    assert_eq!(sequences(&folder, &left), (0..300_000).collect::<Vec<_>>());
}

#[test]
fn the_plain_file_goes_when_the_other_is_safe_from_a_power_cut() {
    if !has("strace") {
        return;
    }
    for (sync, waits) in [("none", false), ("file", true), ("interval:1", true)] {
        let (folder, log) = Folder::with("log");
        let calls = "trace=fdatasync,fsync,rename,renameat,renameat2,unlink,unlinkat";
        let flags = format!("-C 20kB --compress zstd --sync {sync}");
        let name = folder.path("a.pcapng");
        let line = format!("capture -i sim:clock=virtual -c 1000 -q -w {name} {flags}");
        let status = strace(&format!("-y -e {calls}"), &log, &line).status();
        assert!(status.unwrap().success());
        let log = fs::read_to_string(&log).unwrap();
        let packed = format!("\"{}\"", folder.path("a.pcapng2.zst"));
        let plain = packed.replace(".zst", "");
        let place = |call: &str, name: &str| {
            let is_it = |line: &str| line.contains(call) && line.contains(name);
            log.lines().position(is_it).unwrap()
        };
        let (named, gone) = (place("rename", &packed), place("unlink", &plain));
        assert!(named < gone, "{log}");
        // The writer syncs its own files meanwhile.
        let (thread, _) = log.lines().nth(named).unwrap().split_once(' ').unwrap();
        let syncs = |lines: std::ops::Range<usize>, what: &str| {
            let lines = log.lines().skip(lines.start).take(lines.len());
            let ours = lines.filter(|line| line.starts_with(thread));
            let syncs = ours.filter(|line| line.contains("sync(") && line.contains(what));
            syncs.count() as u32
        };
        let of_both = [
            syncs(0..named, "a.pcapng2.zst.part"),
            syncs(named..gone, "fsync("),
        ];
        assert_eq!(of_both, [u32::from(waits); 2], "{log}");
    }
}

/// The first four bytes of a file, decompressed by its own tool.
fn magic(path: &str) -> [u8; 4] {
    let bytes = match path.ends_with(".gz") {
        true => foreign(format!("gzip -dc {path}")).unwrap().stdout,
        false => fs::read(path).unwrap(),
    };
    bytes[..4].try_into().unwrap()
}

const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const PCAP_NS: [u8; 4] = [0x4d, 0x3c, 0xb2, 0xa1];
const PCAP_US: [u8; 4] = [0xd4, 0xc3, 0xb2, 0xa1];

#[test]
fn the_name_or_the_flag_selects_the_format() {
    let folder = Folder::new();
    for (name, flag, expected) in [
        ("a.pcapng", "", PCAPNG),
        ("a.pcap", "", PCAP_NS),
        ("a.PCAP.GZ", "", PCAP_NS),
        ("a.gz", "", PCAPNG),
        ("b.pcap", "--format pcap", PCAP_NS),
        ("b.pcap.gz", "--format pcap-us", PCAP_US),
        ("a.trace", "--format pcap-us", PCAP_US),
        ("a.cap", "--format pcapng", PCAPNG),
        ("-", "", PCAPNG),
        ("-", "--format pcap", PCAP_NS),
        ("-", "--format pcap-us", PCAP_US),
    ] {
        let path = if name == "-" { "-" } else { &folder.path(name) };
        let output = run!("capture -i sim:clock=virtual -c 100 -w {path} {flag}");
        output.succeeds();
        let path = match name {
            "-" => folder.file("stream", &output.stdout),
            name => folder.path(name),
        };
        if !name.ends_with("GZ") {
            assert_eq!(magic(&path), expected, "{name} {flag}");
        }
        let again = run!("capture -r {path} -w -");
        let found = found::read(&again.stdout[..]);
        assert_eq!(found.sequences(), (0..100).collect::<Vec<_>>(), "{name}");
        // 672 ns from packet to packet; the copy has the unit of what it copies.
        let unit = if expected == PCAP_US { 1000 } else { 1 };
        let span = (found.packets[99].time_ns - found.packets[0].time_ns) * unit;
        let expected = 99 * 672 - unit + 1..99 * 672 + unit;
        assert!(expected.contains(&span), "{name} {flag}: {span}");
    }
}

#[test]
fn a_file_that_is_compressed_while_it_is_written_holds_the_same() {
    for name in ["a.pcapng.gz", "a.pcapng.zst", "a.pcap.gz", "a.zst"] {
        for flags in ["--sync always", "-U", "--store 2x4k", ""] {
            let folder = Folder::new();
            let output = capture(&folder, name, &format!("-c 20k {flags}"));
            let json = output.keeps_the_law();
            let found = sequences(&folder, &[name.to_owned()]);
            assert_eq!(found, (0..20_000).collect::<Vec<_>>(), "{name}");
            let packed = fs::metadata(folder.path(name)).unwrap();
            assert_eq!(packed.mode() & 0o777, 0o600);
            let message = counts(&json["compressed"], ["files", "bytes", "bytes_before"]);
            assert_eq!(message, [1, packed.len(), count(&json["bytes"])]);
            assert!(packed.len() < count(&json["bytes"]), "{name} {flags}");
            contains(output.log(), "compressed to ");
        }
    }
}

#[test]
fn readers_of_others_accept_it() {
    if !has("capinfos") {
        return;
    }
    let folder = Folder::new();
    let names = ["a.pcapng.gz", "b.pcap.gz"];
    for name in names {
        capture(&folder, name, "-c 20k --store 2x256k").keeps_the_law();
    }
    let paths = names.map(|name| folder.path(name));
    assert_eq!(counted_by_capinfos(&paths), 40_000);
}

#[test]
fn files_of_a_series_are_compressed_while_they_are_written() {
    for (flags, expected) in [
        (
            "-C 50kB -W 3 -c 6000",
            ["a.pcap0.gz", "a.pcap1.gz", "a.pcap2.gz"],
        ),
        (
            "-C 200kB -c 6000",
            ["a.pcap.gz", "a.pcap1.gz", "a.pcap2.gz"],
        ),
    ] {
        let folder = Folder::new();
        let json = capture(&folder, "a.pcap.gz", flags).keeps_the_law();
        let left = folder.names();
        assert_eq!(left, expected, "{flags}");
        let found = sequences(&folder, &left);
        let from = 6000 - found.len() as u64;
        are_each_once(found, from..6000);
        assert_eq!(json["compressed"]["files"], json["files_written"]);
    }
    let folder = Folder::new();
    capture(&folder, "a.pcapng.zst", "-b packets:500 -c 2000").keeps_the_law();
    let left = names(&folder);
    assert_eq!(left.len(), 4);
    assert!(left[0].starts_with("a_00001_") && left[0].ends_with(".pcapng.zst"));
    assert_eq!(sequences(&folder, &left), (0..2000).collect::<Vec<_>>());
    let again = capture(&folder, "b.pcapng.gz", "-C 1 --compress zstd");
    again.fails(2, "Leave out .gz or .zst");
}

#[test]
fn what_was_reported_as_written_survives_a_kill() {
    for name in ["a.pcapng.gz", "a.pcapng.zst"] {
        let folder = Folder::new();
        let path = folder.path(name);
        let flags = "-q --json --stats-interval 0.05";
        let mut child = Mortal(start!("capture -i sim:rate=50M -U -w {path} {flags}"));
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let mut written = 0;
        while written < 10_000 {
            let line = lines.next().expect("a report").unwrap();
            written = count(&object(&line)["written"]);
        }
        drop(child);
        // The last frame may be torn, which is an error after all packets before it.
        let output = run!("capture -r {path} -w -");
        let found = found::read(&output.stdout[..]).sequences();
        assert!(
            found.len() as u64 >= written,
            "{name}: {} of {written}",
            found.len()
        );
        assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>());
    }
}

#[test]
fn a_full_disk_is_reported_and_the_frames_before_are_whole() {
    for name in ["a.pcapng.gz", "a.pcapng.zst"] {
        let folder = Folder::new();
        let (mount, kept) = (folder.path("small"), folder.path(name));
        let flags = "-i sim:clock=virtual,size=imix -c 2M --json --store 4x256k";
        let script = format!(
            "forebay capture {flags} -w {mount}/{name}
             code=$?; cp {mount}/{name} {kept}; exit $code"
        );
        let Some(output) = on_small_disk(&mount, "1M", &script) else {
            return;
        };
        let json = output.fails(1, "writing: no space left on device").lawful();
        assert!(count(&json["dropped"]["disk"]) > 0, "{json}");
        let again = run!("capture -r {kept} -w -");
        let found = found::read(&again.succeeds().stdout[..]).packets;
        assert_eq!(found.len() as u64, count(&json["written"]), "{json}");
    }
}
