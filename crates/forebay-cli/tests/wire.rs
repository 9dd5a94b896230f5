//! `forebay capture` on live interfaces: veth pairs in namespaces that the tests make.

#![allow(unsafe_code)] // entering a namespace

use found::{Found, read};
use serde_json::Value;
use std::{
    fs::File,
    io::Read,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};
use support::{ip, lab, tool};

#[path = "../../forebay-net/tests/support/found.rs"]
mod found;
#[allow(dead_code)] // the port's own tests use the rest
#[path = "../../forebay-net/tests/support/lab.rs"]
mod support;

fn forebay(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg("capture").args(args).stdin(Stdio::null());
    command
}

/// A capture on `vb` under way: started, and listening.
fn listening(args: &[&str]) -> Child {
    let mut child = forebay(&[&["-i", "vb", "--json"], args].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    let stderr = child.stderr.as_mut().unwrap();
    while !said.ends_with(b"polling\n") {
        let mut byte = [0];
        assert_eq!(
            stderr.read(&mut byte).unwrap(),
            1,
            "{}",
            String::from_utf8_lossy(&said)
        );
        said.push(byte[0]);
    }
    child
}

/// Exit code, summary, and what was said.
fn ended(child: Child) -> (i32, Value, String) {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let lines = String::from_utf8(output.stdout).unwrap() + &said;
    let object = lines.lines().rfind(|line| line.starts_with('{'));
    let json = serde_json::from_str(object.unwrap_or_else(|| panic!("{lines}"))).unwrap();
    (output.status.code().unwrap(), json, said)
}

fn interrupt(child: &Child) {
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// Simulated frames in a file that senders can read, removed at the end.
struct Load(PathBuf);

impl Load {
    fn new(name: &str, frames: &str) -> Self {
        let name = format!("forebay-wire-{}-{name}", std::process::id());
        let load = Load(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&load.0).unwrap();
        let made = forebay(&[
            "-i",
            "sim:clock=virtual",
            "-c",
            frames,
            "-q",
            "-w",
            &load.path("sent.pcap"),
        ]);
        assert!({ made }.output().unwrap().status.success());
        load
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Sends it all into `va`, as fast as it goes.
    fn send(&self) {
        let sent = tool("tcpreplay")
            .args([
                "-i",
                "va",
                "--topspeed",
                "--preload-pcap",
                "-q",
                &self.path("sent.pcap"),
            ])
            .output()
            .unwrap();
        assert!(
            sent.status.success(),
            "{}",
            String::from_utf8_lossy(&sent.stderr)
        );
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The law, and the file's own counters; the gaps are the drops if `sent` frames were sent.
fn check(json: &Value, found: &Found, sent: u64) {
    let [received, written, unread] =
        ["received", "written", "unread"].map(|key| count(&json[key]));
    let kernel = count(&json["dropped"]["kernel"]);
    assert_eq!(json["law_holds"], true, "{json}");
    assert_eq!((received, unread), (sent, 0), "{json}");
    assert_eq!(written, found.packets.len() as u64);
    assert_eq!(found.statistics, [[received, kernel, written]]);
    assert_eq!(found.gaps(sent), (count(&json["gaps"]), kernel));
}

#[test]
fn a_million_frames_of_a_real_sender_are_all_there() {
    lab(
        "a_million_frames_of_a_real_sender_are_all_there",
        &["tcpreplay"],
        || {
            let load = Load::new("million", "1M");
            let file = load.path("got.pcapng");
            let child = listening(&["-w", &file, "-B", "256M"]);
            load.send();
            interrupt(&child);
            let (code, json, said) = ended(child);
            assert_eq!(code, 0, "{said}");
            let found = read(File::open(&file).unwrap());
            check(&json, &found, 1_000_000);
            assert_eq!(found.packets.len(), 1_000_000, "{said}");
            // The bytes, not only the numbers: what was sent is a function of the number.
            let (sent, got) = (load.path("sent.pcap"), load.path("got.pcap"));
            let digest = |file: &str| {
                let dump = tool("tcpdump").args(["-r", file, "-txx", "-n"]).output();
                dump.ok()
                    .filter(|dump| dump.status.success())
                    .map(|dump| dump.stdout)
            };
            let few = ["-r", &file, "-c", "20000", "-w", &got];
            if tool("tcpdump")
                .args(few)
                .output()
                .is_ok_and(|o| o.status.success())
            {
                let few = ["-r", &sent, "-c", "20000", "-w", &load.path("few.pcap")];
                assert!(tool("tcpdump").args(few).output().unwrap().status.success());
                assert!(digest(&got) == digest(&load.path("few.pcap")));
            }
        },
    );
}

#[test]
fn overload_is_counted_by_the_kernel_and_marked_at_the_right_packet() {
    lab(
        "overload_is_counted_by_the_kernel_and_marked_at_the_right_packet",
        &["tcpreplay"],
        || {
            let load = Load::new("overload", "300k");
            let args = [
                "-w",
                "-",
                "-B",
                "1M",
                "--store",
                "2x64KiB",
                "--fail-on-drop",
            ];
            let mut child = listening(&args);
            let mut stdout = child.stdout.take().unwrap();
            // A reader that stands still while the frames come, and then reads it all.
            let (sent, all_sent) = std::sync::mpsc::channel();
            let reader = std::thread::spawn(move || {
                all_sent.recv().unwrap();
                let mut packets = Vec::new();
                stdout.read_to_end(&mut packets).unwrap();
                packets
            });
            load.send();
            interrupt(&child);
            sent.send(()).unwrap();
            let found = read(&reader.join().unwrap()[..]);
            let (code, json, said) = ended(child);
            assert_eq!(code, 3, "{said}");
            check(&json, &found, 300_000);
            assert!(count(&json["dropped"]["kernel"]) > 100_000, "{json}");
        },
    );
}

#[test]
fn an_interface_that_goes_down_or_away_ends_the_capture_with_a_readable_file() {
    let test = "an_interface_that_goes_down_or_away_ends_the_capture_with_a_readable_file";
    lab(test, &["tcpreplay"], || {
        for (loss, words) in [
            ("link set vb down", "went down"),
            ("link del vb", "is gone"),
        ] {
            let load = Load::new("lost", "5k");
            let file = load.path("got.pcapng");
            ip("link set vb up");
            let child = listening(&["-w", &file]);
            load.send();
            ip(loss);
            let (code, json, said) = ended(child);
            assert_eq!(code, 1, "{said}");
            assert!(
                said.contains("vb: the interface ") && said.contains(words),
                "{said}"
            );
            check(&json, &read(File::open(&file).unwrap()), 5000);
        }
    });
}

#[test]
fn the_list_shows_what_can_be_captured_from() {
    lab("the_list_shows_what_can_be_captured_from", &[], || {
        let output = forebay(&["-D"]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.contains("va [Up, Running]") && said.contains("lo [Up, Running, Loopback]"),
            "{said}"
        );
        let output = forebay(&["-i", "vc"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains("no interface 'vc'") && said.contains("did you mean va?"),
            "{said}"
        );
        assert_eq!(output.status.code(), Some(1));
        ip("link set vb down");
        let output = forebay(&["-i", "vb"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("ip link set vb up"), "{said}");
    });
}

#[test]
fn a_quiet_interface_is_slept_on() {
    lab("a_quiet_interface_is_slept_on", &[], || {
        let child = listening(&["-w", "/dev/null"]);
        std::thread::sleep(Duration::from_secs(2));
        interrupt(&child);
        let (code, json, said) = ended(child);
        assert_eq!(code, 0, "{said}");
        let poll = &json["poll"];
        assert!(poll["asleep_seconds"].as_f64().unwrap() > poll["busy_seconds"].as_f64().unwrap());
        assert!(count(&poll["looks"]) < 1000, "{poll}");
        assert!(said.contains("asleep "), "{said}");
    });
}
