//! `forebay capture` as its users run it: real processes, files, pipes and signals.

use serde_json::Value;
use std::{
    fs::File,
    io::Read,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};
use support::{
    Folder, count, forebay,
    found::{Found, read},
    interrupt, run, summary, text,
};

mod support;

/// Running, with both outputs in pipes.
fn started(args: &[&str]) -> Child {
    let mut command = forebay(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The law in JSON, in the text and in the file, and the gaps in the sequence numbers.
fn check(json: &Value, text: &str, found: &Found) {
    let [received, written, filtered, unread] =
        ["received", "written", "filtered", "unread"].map(|key| count(&json[key]));
    let causes = json["dropped"].as_object().unwrap();
    let dropped: u64 = causes.values().map(count).sum();
    assert_eq!(received, written + filtered + unread + dropped, "{json}");
    assert_eq!(json["law_holds"], true);
    assert_eq!(written, found.packets.len() as u64);
    let kernel = count(&causes["kernel"]);
    assert_eq!(found.statistics, [[received, kernel, written]]);
    assert_eq!(
        found.gaps(received - unread),
        (count(&json["gaps"]), kernel)
    );
    let law = format!("{received} received = {written} written + 0 filtered");
    assert!(
        text.contains(&law) && text.contains(&format!("+ {dropped} dropped")),
        "{text}"
    );
    assert!(
        text.contains(&format!("{kernel} packets dropped by kernel")),
        "{text}"
    );
}

/// Waits until `path` has at least `bytes` bytes, for at most 20 seconds.
fn wait_for_bytes(path: &str, bytes: u64) {
    for _ in 0..2000 {
        if std::fs::metadata(path).is_ok_and(|meta| meta.len() >= bytes) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{path} does not grow");
}

/// The numbers that a foreign reader finds; `None`, said aloud, where it is not installed.
fn foreign(program: &str, args: &[&str]) -> Option<Output> {
    match Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
    {
        Ok(output) => Some(output),
        Err(_) => {
            assert!(std::env::var_os("CI").is_none(), "CI has {program}");
            eprintln!("skipped: needs {program}");
            None
        }
    }
}

#[test]
fn the_first_minute_works_and_foreign_readers_agree() {
    let folder = Folder::new();
    let file = folder.path("first.pcapng");
    let output = run(&[
        "-i",
        "sim:clock=virtual",
        "-c",
        "200k",
        "-w",
        &file,
        "--json",
    ]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("listening on sim (1 Gb/s, 64-byte frames, seed 1"),
        "{said}"
    );
    check(
        &summary(&output.stdout),
        said,
        &read(File::open(&file).unwrap()),
    );
    if let Some(info) = foreign("capinfos", &["-M", "-c", &file]) {
        assert!(
            text(&info.stdout).contains("200000"),
            "{}",
            text(&info.stdout)
        );
    }
    if let Some(dump) = foreign("tcpdump", &["-nr", &file, "--count"]) {
        assert!(
            text(&dump.stdout).contains("200000 packets"),
            "{}",
            text(&dump.stdout)
        );
    }
    let wrong = "ip.checksum.status != good || udp.checksum.status == bad || _ws.malformed";
    let verify = [
        "-o",
        "ip.check_checksum:TRUE",
        "-o",
        "udp.check_checksum:TRUE",
    ];
    if let Some(shark) = foreign(
        "tshark",
        &[&["-r", &file, "-Y", wrong], &verify[..]].concat(),
    ) {
        let first = text(&shark.stdout).lines().next();
        assert_eq!(first, None);
    }
}

#[test]
fn five_million_packets_are_each_there_once_and_in_order() {
    let mut child = forebay(&["-i", "sim:clock=virtual", "-c", "5M", "-w", "-", "-q"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let found = read(child.stdout.take().unwrap());
    assert!(child.wait().unwrap().success());
    assert_eq!(found.packets.len(), 5_000_000);
    assert_eq!(found.gaps(5_000_000), (0, 0));
}

#[test]
fn foreign_readers_see_the_drops_where_they_are() {
    let folder = Folder::new();
    let file = folder.path("lossy.pcapng");
    let port = "sim:clock=virtual,ring=64,host=none,cost=1us,count=20000";
    let output = run(&["-i", port, "-w", &file, "--json", "-q"]);
    let json = summary(&output.stdout);
    check(
        &json,
        text(&output.stderr),
        &read(File::open(&file).unwrap()),
    );
    let fields = [
        "-r",
        &file,
        "-T",
        "fields",
        "-e",
        "frame.drop_count",
        "-Y",
        "frame.drop_count",
    ];
    let Some(shark) = foreign("tshark", &fields) else {
        return;
    };
    let marks: Vec<u64> = text(&shark.stdout)
        .lines()
        .map(|n| n.parse().unwrap())
        .collect();
    assert_eq!(marks.len() as u64, count(&json["gaps"]));
    assert!(marks.iter().sum::<u64>() <= count(&json["dropped"]["kernel"]));
}

#[test]
fn a_slow_reader_of_a_pipe_costs_packets_and_every_one_is_told() {
    for trial in 0..3 {
        let port = format!("sim:rate=4G,seed={trial},host=20000");
        let args = [
            "-i", &port, "-c", "400k", "-w", "-", "--store", "2x64KiB", "--json",
        ];
        let mut child = started(&args);
        let mut stdout = child.stdout.take().unwrap();
        let mut packets = Vec::new();
        let mut piece = vec![0; 256 << 10];
        loop {
            match stdout.read(&mut piece).unwrap() {
                0 => break,
                n => packets.extend(&piece[..n]),
            }
            if packets.len() < 8 << 20 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let json = summary(&output.stderr);
        assert!(count(&json["dropped"]["kernel"]) > 0, "{json}");
        check(&json, text(&output.stderr), &read(&packets[..]));
    }
}

#[test]
fn a_card_without_a_host_ring_loses_and_tells_in_real_time() {
    let folder = Folder::new();
    let file = folder.path("card.pcapng");
    let port = "sim:rate=10G,ring=64,host=none,stall=1ms@20ms";
    let args = [
        "-i",
        port,
        "-c",
        "300k",
        "-w",
        &file,
        "--json",
        "--fail-on-drop",
    ];
    let output = run(&args);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let found = read(File::open(&file).unwrap());
    check(&summary(&output.stdout), text(&output.stderr), &found);
}

#[test]
fn a_store_of_two_small_buffers_keeps_the_law() {
    let folder = Folder::new();
    let file = folder.path("small.pcapng");
    let port = "sim:rate=10G,host=256,ring=64";
    let args = [
        "-i", port, "-c", "500k", "-w", &file, "--json", "--store", "2x64KiB",
    ];
    let output = run(&args);
    assert!(output.status.success());
    let found = read(File::open(&file).unwrap());
    check(&summary(&output.stdout), text(&output.stderr), &found);
}

#[test]
fn signals_finish_cleanly_and_report() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let folder = Folder::new();
        let file = folder.path("stopped.pcapng");
        let mut child = started(&["-i", "sim", "-w", &file, "--json", "-U"]);
        wait_for_bytes(&file, 100_000);
        interrupt(&child, "-USR1");
        interrupt(&child, "-USR2");
        std::thread::sleep(Duration::from_millis(50));
        interrupt(&child, signal);
        assert!(child.wait().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(said.contains("pps"), "USR1 reports: {said}");
        let json = summary(&output.stdout);
        assert_eq!(json["unread"], 0, "a clean stop drains");
        check(&json, said, &read(File::open(&file).unwrap()));
    }
}

#[test]
fn a_second_interrupt_gives_up_a_reader_that_stands_still() {
    let mut child = started(&["-i", "sim:rate=max", "-w", "-", "--json"]);
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child, "-INT");
    std::thread::sleep(Duration::from_millis(200));
    assert!(
        child.try_wait().unwrap().is_none(),
        "the first one waits for the reader"
    );
    interrupt(&child, "-INT");
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    let mut packets = Vec::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut packets)
        .unwrap();
    let mut said = Vec::new();
    child.stderr.take().unwrap().read_to_end(&mut said).unwrap();
    let json = summary(&said);
    assert_eq!(json["law_holds"], true, "{json}");
    assert!(count(&json["dropped"]["writer"]) > 0, "{json}");
    let found = read(&packets[..]);
    assert_eq!(
        found.packets.len() as u64,
        count(&json["written"]),
        "to the packet"
    );
}

#[test]
fn a_reader_that_has_read_enough_is_no_failure() {
    let mut child = started(&["-i", "sim:rate=max", "-w", "-", "--json"]);
    let mut some = [0; 1000];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(summary(&output.stderr)["law_holds"], true);
}

#[test]
fn a_full_disk_keeps_what_fits_and_says_so() {
    let folder = Folder::new();
    let mount = folder.path("small");
    std::fs::create_dir(&mount).unwrap();
    // A mount namespace of its own, which goes away with the process.
    let script = format!(
        "mount -t tmpfs -o size=2M none {mount} || exit 77
         {} capture -i sim:rate=max -c 1M -w {mount}/full.pcapng --json; code=$?
         cp {mount}/full.pcapng {}; exit $code",
        env!("CARGO_BIN_EXE_forebay"),
        folder.path("kept.pcapng"),
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .output()
        .unwrap();
    if output.status.code() == Some(77) || text(&output.stderr).contains("unshare") {
        assert!(std::env::var_os("CI").is_none(), "CI is root");
        return eprintln!("skipped: needs the right to mount a tmpfs");
    }
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("full.pcapng: writing: no space left on device"),
        "{said}"
    );
    let json = summary(&output.stdout);
    assert_eq!(json["law_holds"], true);
    let found = read(File::open(folder.path("kept.pcapng")).unwrap());
    assert_eq!(found.packets.len() as u64, count(&json["written"]));
    assert!(found.packets.len() > 10_000 && count(&json["dropped"]["disk"]) > 0);
    assert_eq!(
        count(&json["bytes"]),
        Path::new(&folder.path("kept.pcapng"))
            .metadata()
            .unwrap()
            .len()
    );
}

#[test]
fn each_wrong_request_gets_its_own_clear_answer() {
    let cases: &[(&[&str], i32, &str)] = &[
        (&[], 2, "-i sim"),
        (&["-i", "sim", "-c", "0"], 2, "-c 0"),
        (
            &[
                "-i",
                "sim",
                "-c",
                "340282366920938463463374607431768211.999K",
            ],
            2,
            "is no count",
        ),
        (
            &[
                "-i",
                "sim",
                "--store",
                "2x18446744073709547520",
                "-w",
                "/dev/null",
            ],
            1,
            "no address space",
        ),
        (&["-i", "sim", "-c", "many"], 2, "-c many"),
        (&["-i", "sim", "-s", "300000"], 2, "1 to 262144"),
        (&["-i", "sim", "-B", "0"], 2, "-B 0"),
        (&["-i", "sim", "--store", "1x4M"], 2, "at least 2"),
        (&["-i", "sim", "--store", "0x4M"], 2, "at least 2"),
        (&["-i", "sim", "--store", "2x0"], 2, "multiple of 4096"),
        (
            &["-i", "sim", "--store", "2x900G", "-w", "/dev/null"],
            1,
            "what is available",
        ),
        (
            &["-i", "sim", "--stats-interval", "0"],
            2,
            "--stats-interval 0",
        ),
        (
            &["-i", "sim", "-c", "5M", "--stats-interval", "1ns"],
            2,
            "--stats-interval 1ns",
        ),
        (&["-i", "nosuch0"], 1, "no interface 'nosuch0'"),
        (&["-i", "sim:rate=fast"], 2, "rate is bits a second"),
        (&["-i", "sim:ring=0"], 2, "1 or more"),
        (
            &["-i", "sim", "-i", "sim:clock=virtual"],
            2,
            "clock=virtual",
        ),
        (
            &["-i", "sim", "-w", "/nonexistent/x.pcapng"],
            1,
            "Make the folder first",
        ),
        (&["-i", "sim", "-w", "/"], 1, "Name a file in it"),
        (&["--speed", "9"], 2, "--speed"),
    ];
    for (args, code, expected) in cases {
        let output = run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_store_that_cannot_be_had_leaves_what_is_there() {
    let folder = Folder::new();
    let path = folder.path("a.pcapng");
    for size in ["2x18446744073709547520", "2x900G"] {
        for flags in [&[][..], &["-C", "1"], &["-C", "1", "-W", "1"]] {
            std::fs::write(&path, "an earlier capture").unwrap();
            let args = ["-i", "sim", "-c", "1", "-w", &path, "--store", size];
            let output = run(&[&args, flags].concat());
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert_eq!(std::fs::read(&path).unwrap(), b"an earlier capture");
            let files = std::fs::read_dir(folder.path("")).unwrap().count();
            assert_eq!(files, 1, "no other file is left");
        }
    }
}

#[test]
fn counts_come_at_the_interval_and_json_is_one_object_a_line() {
    let args = [
        "-i",
        "sim:clock=virtual",
        "-c",
        "2M",
        "--json",
        "--stats-interval",
        "500ms",
        "-q",
    ];
    let output = run(&args);
    assert!(output.status.success());
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3, "two in 1.34 virtual seconds, and the end");
    assert!(lines.iter().all(|line| line["schema"] == 1));
    assert_eq!(lines[2]["counted"], 2_000_000);
    assert_eq!(lines[2]["running"], false);
    assert_eq!(
        text(&output.stderr).lines().count(),
        4,
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn help_version_and_the_list_go_to_stdout() {
    for args in [&["--help"][..], &["-h"], &["-D"]] {
        let output = run(args);
        assert!(output.status.success() && !output.stdout.is_empty());
    }
    let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .arg("--version")
        .output()
        .unwrap();
    assert!(text(&output.stdout).starts_with("forebay "));
}

#[test]
fn the_file_is_private_and_a_name_in_pcap_writes_the_classic_format() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let file = folder.path("old.pcap");
    let output = run(&["-i", "sim:clock=virtual", "-c", "10", "-w", &file, "-q"]);
    assert!(output.status.success());
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(bytes[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    assert_eq!(bytes.len(), 24 + 10 * (16 + 60));
    if let Some(dump) = foreign("tcpdump", &["-nr", &file, "--count"]) {
        assert!(text(&dump.stdout).contains("10 packets"));
    }
}

#[test]
fn a_stderr_that_nobody_can_read_stops_nothing() {
    let folder = Folder::new();
    let file = folder.path("deaf.pcapng");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let args = ["-i", "sim:clock=virtual", "-c", "10k", "-w", &file];
    assert!(forebay(&args).stderr(full).status().unwrap().success());
    assert_eq!(read(File::open(&file).unwrap()).packets.len(), 10_000);
}

#[test]
fn the_file_size_limit_is_an_error_like_a_full_disk() {
    let folder = Folder::new();
    let file = folder.path("limited.pcapng");
    let script = format!(
        "ulimit -f 100; exec {} capture -i sim:clock=virtual -c 20k -w {file} --json",
        env!("CARGO_BIN_EXE_forebay")
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("file too large") && said.contains("ulimit -f"),
        "{said}"
    );
    let json = summary(&output.stdout);
    assert_eq!(json["law_holds"], true);
    let found = read(File::open(&file).unwrap());
    assert_eq!(found.packets.len() as u64, count(&json["written"]));
    assert!(found.packets.len() > 100);
}

#[test]
fn a_fifo_without_a_reader_can_be_interrupted() {
    let folder = Folder::new();
    let fifo = folder.path("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let mut child = forebay(&["-i", "sim", "-w", &fifo]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    interrupt(&child, "-INT");
    assert!(!child.wait().unwrap().success());
}

#[test]
fn in_virtual_time_too_a_second_interrupt_gives_up() {
    let mut child = started(&["-i", "sim:clock=virtual", "-c", "1M", "-w", "-", "--json"]);
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child, "-INT");
    std::thread::sleep(Duration::from_millis(100));
    interrupt(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let mut said = Vec::new();
    child.stderr.take().unwrap().read_to_end(&mut said).unwrap();
    assert_eq!(summary(&said)["law_holds"], true);
}

#[test]
fn a_classic_file_is_not_said_to_mark_gaps() {
    let folder = Folder::new();
    let file = folder.path("lossy.pcap");
    let port = "sim:clock=virtual,ring=64,host=none,cost=1us,count=20000";
    let output = run(&["-i", port, "-w", &file, "--json"]);
    let said = text(&output.stderr);
    assert!(
        said.contains("packets were lost") && !said.contains("marked in the file"),
        "{said}"
    );
    assert_eq!(summary(&output.stdout)["gaps"], 0);
}
