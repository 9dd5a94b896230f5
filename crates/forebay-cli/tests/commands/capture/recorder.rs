//! `--recorder`: the packets around a trigger, in new files.

use crate::support::*;
use serde_json::Value;

#[test]
fn a_signal_writes_what_came_before_and_after_it_and_an_interrupt_ends_it_early() {
    let folder = Folder::new();
    let (file, socket) = (folder.path("a.pcapng"), folder.path("control"));
    let mut child = start!(
        "capture -i sim:rate=5M,ring=1000000 --recorder 10s,8M --after 200ms -w {file} --json --control {socket}"
    );
    heard(&mut child, "keeping the last 10s, in up to 8 MiB");
    wait_for_packets(&socket);
    interrupt(&child, "-USR1");
    heard(&mut child, "triggered: writing");
    heard(&mut child, "before the trigger");
    // The second one is interrupted before its end.
    interrupt(&child, "-USR1");
    heard(&mut child, "triggered: writing");
    interrupt(&child, "-INT");
    let json = child.wait_with_output().unwrap().keeps_the_law();
    let recorder = &json["recorder"];
    let ended = counts(
        recorder,
        [
            "files_written",
            "files_failed",
            "triggers_refused",
            "memory_bytes",
        ],
    );
    assert_eq!(ended, [2, 0, 0, 8 << 20]);
    for (number, cut) in recorder["files"].as_array().unwrap().iter().enumerate() {
        let path = cut["recording"].as_str().unwrap();
        contains(path, format!("a_0000{}_2", number + 1));
        let [received, written] = counts(cut, ["received", "written"]);
        assert_eq!(received, written);
        assert_eq!(cut["error"], Value::Null);
        assert_eq!(cut["law_holds"], true);
        let found = found::open(path);
        assert_eq!(found.packets.len() as u64, written);
        assert_eq!(found.gaps(written), (0, 0), "no number is missing");
        let [trigger, first, last] = counts(
            cut,
            ["last_trigger_ns", "first_packet_ns", "last_packet_ns"],
        );
        assert!(first < trigger && trigger < last);
        assert!(last <= trigger + 200_000_000);
    }
    assert!(
        !std::path::Path::new(&file).exists(),
        "only numbered files are made"
    );
}

/// Waits until a capture has packets: a file of a trigger before the first one would be empty.
fn wait_for_packets(socket: &str) {
    wait_until(|| {
        let status = run!("control {socket} status --json").stdout;
        let status = serde_json::from_slice(&status).unwrap_or(Value::Null);
        status["received"].as_u64() > Some(10)
    });
}

#[test]
fn a_program_triggers_over_the_control_socket() {
    let folder = Folder::new();
    let (file, socket) = (folder.path("a.pcapng"), folder.path("control"));
    let child = start!("capture -i sim:rate=1M --recorder 1M -w {file} --json --control {socket}");
    wait_for_packets(&socket);
    assert!(run!("trigger {socket}").status.success());
    wait_until(|| std::fs::read_dir(folder.path("")).unwrap().count() == 2);
    let output = stopped(child);
    let json = output.keeps_the_law();
    let recorder = &json["recorder"];
    assert_eq!(counts(recorder, ["files_written", "files_failed"]), [1, 0]);
    assert!(count(&recorder["files"][0]["written"]) > 0, "{json}");
}

#[test]
fn packets_that_match_trigger() {
    let (_folder, file) = Folder::with("a.pcapng");
    // The last bytes of the packet's number; the first packet has the number 0.
    let output = run!(
        "capture -i sim:rate=1M,count=1000 --recorder 1M -w {file} --json -q --trigger \"udp[14:2] = 500\""
    );
    let json = output.keeps_the_law();
    let cuts = json["recorder"]["files"].as_array().unwrap();
    assert_eq!(cuts.len(), 1, "{json}");
    let found = found::open(cuts[0]["recording"].as_str().unwrap());
    assert_eq!(found.packets.len() as u64, count(&cuts[0]["written"]));
    let trigger = count(&cuts[0]["first_trigger_ns"]);
    assert_eq!(
        count(&cuts[0]["last_packet_ns"]),
        trigger,
        "without --after, the packet itself is the last one"
    );
    assert_eq!(output.log(), "");
}

#[test]
fn the_files_of_a_recorder_leave_the_space_that_is_to_stay_free() {
    let folder = Folder::new();
    let capture = |name: &str, keep: &str| {
        let file = folder.path(name);
        run!(
            "capture -i sim:rate=1M,count=1000 --recorder 1M -w {file} --json -q --trigger \"udp[14:2] = 500\" --keep-free {keep}"
        )
    };
    let json = capture("a.pcapng", "1M").keeps_the_law();
    let cut = &json["recorder"]["files"][0];
    assert!(count(&cut["written"]) > 0, "{json}");
    let output = capture("b.pcapng", "1000000G");
    assert_eq!(output.status.code(), Some(1), "{}", output.log());
    let json = output.json();
    let ended = counts(&json["recorder"], ["files_written", "files_failed"]);
    assert_eq!((ended, &json["law_holds"]), ([0, 1], &true.into()));
    let files = std::fs::read_dir(folder.path("")).unwrap().count();
    assert_eq!(files, 1, "no empty file is left");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (flags, why) in [
        ("-i sim --recorder 30s", "-w <FILE>"),
        ("-i sim --recorder 30 -w a", "could be a time or a size"),
        ("-i sim --recorder 30m -w a", "could be a time or a size"),
        ("-i sim --recorder 1k -w a", "less than 1M"),
        ("-i sim --recorder lots -w a", "neither a time nor a size"),
        (
            "-i sim --recorder 30s -w -",
            "makes a file for each trigger",
        ),
        ("-i sim --recorder 30s -w a -C 1", "triggers do"),
        ("-i sim:clock=virtual --recorder 30s -w a", "live source"),
        ("-r a.pcap --recorder 30s -w a", "live source"),
        ("-i sim --after 10s -w a", "--recorder"),
        ("-i sim --trigger udp -w a", "--recorder"),
        (
            "-i sim --recorder 1M -w a --trigger 'udp prot'",
            "--trigger: ",
        ),
        ("-i sim --recorder 1M -w a --trigger ''", "empty expression"),
        (
            "-i sim --recorder 1M -w a --trigger 'ip and ip6'",
            "--trigger: ",
        ),
    ] {
        let output = run!("capture {flags}");
        assert_eq!(output.status.code(), Some(2), "{flags}: {}", output.log());
        contains(output.log(), why);
    }
    let output = run!("capture -i sim --recorder 1M -w /no/such/folder/a.pcapng");
    assert_eq!(output.status.code(), Some(1));
    contains(output.log(), "Name a file in a folder that exists");
    let output = run!("capture -i sim --recorder 100000G -w a");
    assert_ne!(output.status.code(), Some(0));
    contains(output.log(), "--recorder: ");
}

#[test]
fn a_full_disk_fails_the_file_and_not_the_capture() {
    let (_folder, disk) = Folder::with("disk");
    let script = format!(
        "forebay capture -i sim:rate=50M --recorder 8M --after 60s -w '{disk}/a.pcapng' --json & sleep 0.5; \
         kill -USR1 $!; while ! [ -s '{disk}'/a_* ]; do sleep 0.1; done; sleep 2; kill -INT $!; wait $!"
    );
    let Some(output) = on_small_disk(&disk, "1M", &script) else {
        return;
    };
    assert_eq!(output.status.code(), Some(1), "{}", output.log());
    let json = output.json();
    assert_eq!(json["law_holds"], true);
    assert_eq!(json["error"], Value::Null);
    let recorder = &json["recorder"];
    assert_eq!(counts(recorder, ["files_written", "files_failed"]), [0, 1]);
    let cut = &recorder["files"][0];
    assert!(count(&cut["dropped"]["disk"]) > 0, "{cut}");
    assert_eq!(cut["law_holds"], true);
    contains(output.log(), "no space left");
}

#[test]
fn the_memory_of_a_recorder_grows_with_its_packets() {
    let folder = Folder::new();
    let (file, socket) = (folder.path("a.pcapng"), folder.path("control"));
    let mut child =
        start!("capture -i sim:rate=5M --recorder 10s,512M -w {file} --json --control {socket}");
    heard(&mut child, "keeping the last 10s, in up to 512 MiB");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let shared = status
        .lines()
        .find_map(|line| line.strip_prefix("RssShmem:"));
    let kib = shared
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse::<u64>()
        .unwrap();
    assert!(kib < 16 << 10, "{kib} KiB before the first packets");
    wait_for_packets(&socket);
    interrupt(&child, "-USR1");
    heard(&mut child, "triggered: writing");
    interrupt(&child, "-INT");
    let json = child.wait_with_output().unwrap().keeps_the_law();
    let cut = &json["recorder"]["files"][0];
    let [received, written] = counts(cut, ["received", "written"]);
    assert!(received == written && written > 0, "{json}");
}
