//! `forebay capture` on live interfaces: veth pairs in namespaces that the tests make.

#![allow(unsafe_code)] // entering a namespace

use found::{Found, read};
use serde_json::Value;
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
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

/// What a reader found who stood still while `load` was sent, and then read it all; the capture, which
/// was told to stop.
fn overloaded(load: &Load, args: &[&str]) -> (Found, Child) {
    let mut child = listening(args);
    let mut stdout = child.stdout.take().unwrap();
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
    (read(&reader.join().unwrap()[..]), child)
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
    lab(&["tcpreplay"], || {
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
    });
}

#[test]
fn overload_is_counted_by_the_kernel_and_marked_at_the_right_packet() {
    lab(&["tcpreplay"], || {
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
        let (found, child) = overloaded(&load, &args);
        let (code, json, said) = ended(child);
        assert_eq!(code, 3, "{said}");
        check(&json, &found, 300_000);
        assert!(count(&json["dropped"]["kernel"]) > 100_000, "{json}");
    });
}

/// A classic file of these frames, for senders.
fn classic(frames: &[Vec<u8>]) -> Vec<u8> {
    let words = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 262_144, 1_u32];
    let mut file: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for frame in frames {
        let len = frame.len() as u32;
        for word in [0, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

#[test]
fn the_kernel_lets_pass_what_the_filter_keeps() {
    lab(&["tcpreplay"], || {
        let load = Load::new("filter", "10k");
        let file = load.path("got.pcapng");
        let child = listening(&["-w", &file, "udp", "and", "ether[49] & 3 = 1"]);
        load.send();
        interrupt(&child);
        let (code, json, said) = ended(child);
        assert_eq!(code, 0, "{said}");
        assert_eq!(json["law_holds"], true, "{json}");
        // Nobody counts what the kernel's filter rejects.
        assert!(json["filtered"].is_null(), "{json}");
        assert!(said.contains("2500 packets received by filter"), "{said}");
        let found = read(File::open(&file).unwrap());
        assert_eq!(found.statistics, [[2_500, 0, 2_500]]);
        let sequences = found.packets.iter().map(|packet| packet.sequence);
        assert!(sequences.eq((0..2_500).map(|k| 4 * k + 1)));
    });
}

#[test]
fn tags_are_filtered_where_the_kernel_keeps_them() {
    lab(&["tcpreplay"], || {
        let load = Load::new("tags", "1");
        let frame = |tags: &[u16], number: u8| {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
            for tag in tags {
                frame.extend([0x81, 0, (tag >> 8) as u8, *tag as u8]);
            }
            frame.extend([0x08, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
            frame.extend([10, 0, 0, 1, 10, 0, 0, number, 0, 53, 0, 53, 0, 26, 0, 0]);
            frame.resize(80, number);
            frame
        };
        let kinds: [&[u16]; 4] = [&[], &[5], &[6], &[5, 7]];
        let frames = (0..200).map(|n| frame(kinds[n % 4], n as u8));
        let frames: Vec<_> = frames.collect();
        std::fs::write(load.path("sent.pcap"), classic(&frames)).unwrap();
        for (expression, kept) in [
            ("vlan 5", &[1, 3][..]),
            ("vlan and udp", &[1, 2]),
            ("vlan 5 and vlan 7 and host 10.0.0.1", &[3]),
            ("not vlan", &[0]),
            ("inbound and vlan 6", &[2]),
            ("outbound", &[]),
        ] {
            let file = load.path("got.pcap");
            let child = listening(&["-w", &file, expression]);
            load.send();
            interrupt(&child);
            let (code, _, said) = ended(child);
            assert_eq!(code, 0, "{said}");
            let got = std::fs::read(&file).unwrap();
            let expected = frames.iter().enumerate();
            let expected: Vec<_> = expected
                .filter(|(n, _)| kept.contains(&(n % 4)))
                .map(|(_, frame)| frame.clone())
                .collect();
            // Records of 16 and 80 bytes: the frames as they were sent, tags put back.
            let got: Vec<_> = got[24..].chunks(96).map(|r| r[16..].to_vec()).collect();
            assert!(got == expected, "{expression}: {} frames", got.len());
        }
    });
}

#[test]
fn behind_a_filter_overload_is_counted_and_marked_all_the_same() {
    lab(&["tcpreplay"], || {
        let load = Load::new("filtered", "300k");
        let args = ["-w", "-", "-B", "1M", "--store", "2x64KiB"];
        let filter = ["ether[49] & 1 = 1"];
        let (found, child) = overloaded(&load, &[&args[..], &filter].concat());
        let (code, json, said) = ended(child);
        assert_eq!(code, 0, "{said}");
        let [received, written] = ["received", "written"].map(|key| count(&json[key]));
        let kernel = count(&json["dropped"]["kernel"]);
        assert_eq!(
            (received, json["law_holds"].as_bool()),
            (150_000, Some(true))
        );
        assert!(kernel > 50_000, "{json}");
        assert_eq!(found.statistics, [[received, kernel, written]]);
        let odd = found.packets.iter().all(|packet| packet.sequence % 2 == 1);
        assert!(odd && found.packets.len() as u64 == written);
    });
}

/// Runs `script` as nobody, with `$0` a copy of the command that nobody can run.
fn as_nobody(script: &str) -> Option<std::process::Output> {
    as_nobody_of(env!("CARGO_BIN_EXE_forebay"), 0o755, script)
}

/// As [`as_nobody`], with `$0` a copy of `program` that has this mode.
fn as_nobody_of(program: &str, mode: u32, script: &str) -> Option<std::process::Output> {
    // SAFETY: it reads a number of this process.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: needs root, to become nobody");
        return None;
    }
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    let name = format!("forebay-nobody-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&folder, open).unwrap();
    let copy = folder.join("forebay");
    // Not by ourselves: a child of another test could inherit the descriptor, and what is being written cannot be run.
    let copied = Command::new("cp")
        .args([program.as_ref(), copy.as_os_str()])
        .status();
    assert!(copied.unwrap().success());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&copy, mode).unwrap();
    let output = tool("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["bash", "-c", script])
        .arg(&copy)
        .current_dir(&folder)
        .output()
        .unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    Some(output)
}

#[test]
fn without_rights_the_message_says_what_to_do() {
    let Some(output) = as_nobody("exec $0 capture -i lo -c 1") else {
        return;
    };
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [
        "lo: opening a packet socket: ",
        "setcap cap_net_raw",
        "unshare -rn",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn nobody_is_lent_roots_rights_to_files() {
    let Some(output) = as_nobody_of("/usr/bin/id", 0o4755, "$0 -u") else {
        return;
    };
    if output.stdout != b"0\n" {
        println!("skipped: needs a file system that heeds set-user-ID bits");
        return;
    }
    let forebay = env!("CARGO_BIN_EXE_forebay");
    for command in ["pipe -i /etc/shadow", "capture -r /etc/shadow"] {
        let script = format!("exec $0 {command}");
        let output = as_nobody_of(forebay, 0o4755, &script).unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        assert!(
            said.contains("set-user-ID") && said.contains("setcap"),
            "{said}"
        );
    }
}

#[test]
fn in_a_namespace_of_its_own_anybody_captures() {
    let script = "unshare -rn true || exit 77
        unshare -rn bash -c 'ip link set lo up
            $0 capture -i lo -c 2 -w got.pcapng --json udp port 9 2>said & child=$!
            until grep -q polling said; do kill -0 $child || exit 1; sleep 0.01; done
            echo x >/dev/udp/127.0.0.1/10; echo y >/dev/udp/127.0.0.1/9; echo z >/dev/udp/127.0.0.1/9
            wait $child' $0";
    let Some(output) = as_nobody(script) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) {
        println!("skipped: needs user namespaces: {said}");
        return;
    }
    let json: Value = serde_json::from_slice(&output.stdout).expect(&said);
    assert_eq!(
        (count(&json["written"]), output.status.code()),
        (2, Some(0))
    );
}

#[test]
fn an_interface_that_goes_down_or_away_ends_the_capture_with_a_readable_file() {
    lab(&["tcpreplay"], || {
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
    lab(&[], || {
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
    lab(&[], || {
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

/// Of every thread of a process: its line for `label`, without blanks.
fn of_all_threads(child: &Child, label: &str) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    threads
        .map(|thread| {
            let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix(label));
            line.unwrap().trim().to_owned()
        })
        .collect()
}

#[test]
fn root_keeps_no_right_but_those_to_files() {
    lab(&["tcpreplay"], || {
        let load = Load::new("shed", "1000");
        let file = load.path("out.pcapng");
        let child = listening(&["-w", &file]);
        for label in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"] {
            for set in of_all_threads(&child, label) {
                let set = u64::from_str_radix(&set, 16).unwrap();
                let of_files = 1 << 1 | 1 << 2; // CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
                assert_eq!(set & !of_files, 0, "{label} {set:x}");
            }
        }
        assert!(
            of_all_threads(&child, "NoNewPrivs:")
                .iter()
                .all(|set| set == "1")
        );
        load.send();
        interrupt(&child);
        let (code, json, _) = ended(child);
        assert_eq!((code, count(&json["written"])), (0, 1000));
    });
}

#[test]
fn another_user_writes_and_has_no_right_at_all() {
    lab(&["tcpreplay"], || {
        let all = std::fs::read_to_string("/proc/self/uid_map").unwrap();
        if !all.split_whitespace().eq(["0", "0", "4294967295"]) {
            return support::skip("root over all users");
        }
        let load = Load::new("become", "1000");
        // A folder of root's is no place for nobody: said before anything is captured.
        let output = forebay(&["-i", "vb", "-Z", "nobody", "-w", &load.path("out.pcapng")]);
        let output = { output }.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains("out.pcapng: ") && said.contains("ermission denied"),
            "{said}"
        );

        std::os::unix::fs::chown(&load.0, Some(65_534), Some(65_534)).unwrap();
        let file = load.path("out.pcapng");
        let child = listening(&["-Z", "nobody", "-w", &file]);
        for label in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:", "CapBnd:"] {
            for set in of_all_threads(&child, label) {
                assert_eq!(u64::from_str_radix(&set, 16), Ok(0), "{label}");
            }
        }
        for label in ["Uid:", "Gid:"] {
            for ids in of_all_threads(&child, label) {
                assert!(
                    ids.split_whitespace().all(|id| id == "65534"),
                    "{label} {ids}"
                );
            }
        }
        assert!(
            of_all_threads(&child, "Groups:")
                .iter()
                .all(|ids| ids == "65534")
        );
        assert!(
            of_all_threads(&child, "NoNewPrivs:")
                .iter()
                .all(|set| set == "1")
        );
        load.send();
        interrupt(&child);
        let (code, json, _) = ended(child);
        assert_eq!((code, count(&json["written"])), (0, 1000));
        let about = std::fs::metadata(&file).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&about), 65_534);
    });
}

/// Complete files of a folder, in order, with how each ends.
fn complete(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_ours = |path: &PathBuf| path.to_str().unwrap().contains(".pcapng");
    let is_part = |path: &PathBuf| path.extension().is_some_and(|end| end == "part");
    let mut paths: Vec<_> = paths
        .filter(|path| is_ours(path) && !is_part(path))
        .collect();
    paths.sort();
    paths
}

#[test]
fn what_another_user_may_for_file_one_it_may_for_file_two_and_no_more() {
    lab(&["tcpreplay"], || {
        let all = std::fs::read_to_string("/proc/self/uid_map").unwrap();
        if !all.split_whitespace().eq(["0", "0", "4294967295"]) {
            return support::skip("root over all users");
        }
        let load = Load::new("second", "1000");
        let owned_by = |user| std::os::unix::fs::chown(&load.0, Some(user), Some(user)).unwrap();
        for (number, (user, compress)) in [("nobody", false), ("nobody", true), ("root", true)]
            .into_iter()
            .enumerate()
        {
            for path in complete(&load.0) {
                std::fs::remove_file(path).unwrap();
            }
            owned_by(65_534);
            let file = load.path(&format!("{number}.pcapng"));
            let mut args = vec!["-Z", user, "-w", &file, "-C", "20kB", "-U"];
            args.extend(if compress {
                &["--compress", "zstd"][..]
            } else {
                &[]
            });
            let child = listening(&args);
            load.send();
            // Several files on, with all threads that there will ever be.
            while complete(&load.0).len() < 3 {
                std::thread::sleep(Duration::from_millis(5));
            }
            let of_files = if user == "root" { 1 << 1 | 1 << 2 } else { 0 };
            for label in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:", "CapBnd:"] {
                for set in of_all_threads(&child, label) {
                    let set = u64::from_str_radix(&set, 16).unwrap();
                    // Without CAP_NET_RAW nobody opens a raw socket.
                    let allowed = if label == "CapBnd:" { 0 } else { of_files };
                    assert_eq!(set & !allowed, 0, "{label} {set:x}");
                }
            }
            interrupt(&child);
            let (code, json, said) = ended(child);
            assert_eq!((code, count(&json["written"])), (0, 1000), "{said}");
            let paths = complete(&load.0);
            assert_eq!(paths.len() as u64, count(&json["files_written"]));
            for path in &paths {
                use std::os::unix::fs::MetadataExt;
                let about = std::fs::metadata(path).unwrap();
                let owner = if user == "root" { 0 } else { 65_534 };
                assert_eq!((about.uid(), about.mode() & 0o777), (owner, 0o600));
                assert_eq!(path.extension().unwrap() == "zst", compress);
            }
        }

        // The folder is taken away from it: then there is no file two, and that is said.
        owned_by(65_534);
        let file = load.path("taken.pcapng");
        let child = listening(&["-Z", "nobody", "-w", &file, "-C", "20kB", "-U"]);
        owned_by(0);
        load.send();
        let (code, json, said) = ended(child);
        assert_eq!(code, 1, "{said}");
        assert!(
            said.contains("taken.pcapng") && said.contains("ermission denied"),
            "{said}"
        );
        assert_eq!(json["law_holds"], true, "{json}");
        assert!(said.contains("whole, under that name"), "{said}");
        let part = load.path("taken.pcapng.part");
        let found = read(File::open(part).unwrap());
        assert_eq!(found.packets.len() as u64, count(&json["written"]));
    });
}

#[test]
fn somebody_who_is_not_there_is_refused() {
    let output = forebay(&["-i", "sim", "-Z", "no-such-user"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("-Z no-such-user: there is no such user"),
        "{said}"
    );
}
