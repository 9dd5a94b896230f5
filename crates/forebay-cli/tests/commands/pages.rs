//! The commands of docs/cookbook.md and docs/coming-from.md, each as it is written there.
//!
//! A namespace has the interfaces that the pages name, with packets on them, and a folder has the files. A command that does not end is
//! interrupted. It must succeed, and do what a comment after it in the page says:
//!
//! ```text
//! <!-- stdout: WORDS -->     it prints these words
//! <!-- then: SCRIPT -->      this succeeds afterwards
//! <!-- exit: 0 1 -->         it may end with one of these codes
//! ```
//!
//! A block that is marked as `console` has lines of a file's packets as they are printed, each after its command.

use crate::support::*;
use etherparse::PacketBuilder;
use forebay_testing::lab::{self, ip};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::process::CommandExt,
    process::{Command, Output, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

/// Commands that other programs of a pipeline stand for. A program that forebay runs has no rights of root, so ssh captures from
/// the simulated card for it.
const STANDINS: [(&str, &str); 4] = [
    (
        "ssh",
        "case $1 in -*) for line; do :; done; exec sh -c \"$(echo \"$line\" | sed s/eth0/sim:rate=1kpps/)\";; esac; shift; exec \"$@\"",
    ),
    ("sudo", "exec \"$@\""),
    ("wireshark", "exec tcpdump -nr - -c 3"),
    ("other", "exec cat"),
];

/// The time of the first packet: 14:03 on 2026-11-27, UTC.
const START: u32 = 1_795_788_180;

#[derive(Debug, Default)]
struct Task {
    script: String,
    stdout: Option<String>,
    then: Option<String>,
    exit: Option<String>,
}

/// The blocks of a page that are marked as commands for a shell, with the comments that follow them.
fn blocks(page: &str) -> Vec<Task> {
    let mut tasks = Vec::<Task>::new();
    let mut inside = false;
    for line in page.lines() {
        let comment = line
            .strip_prefix("<!-- ")
            .and_then(|line| line.strip_suffix(" -->"));
        match (line, comment.and_then(|comment| comment.split_once(": "))) {
            ("```sh", _) => {
                inside = true;
                tasks.push(Task::default());
            }
            ("```", _) => inside = false,
            (_, Some((kind, words))) => {
                let task = tasks.last_mut().expect("a command before its comment");
                let words = Some(words.to_owned());
                match kind {
                    "stdout" => task.stdout = words,
                    "then" => task.then = words,
                    "exit" => task.exit = words,
                    _ => panic!("{line}"),
                }
            }
            _ if inside => {
                let script = &mut tasks.last_mut().expect("a block").script;
                script.push_str(line);
                script.push('\n');
            }
            _ => {}
        }
    }
    tasks
}

/// The commands in the second column of the tables of a page.
fn second_columns(page: &str) -> Vec<Task> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let commands = rows.map(|row| {
        let (_, new) = row.rsplit_once(" | `").expect("two columns");
        let script = new
            .strip_suffix("` |")
            .expect("one command")
            .replace("\\|", "|");
        Task {
            script,
            ..Task::default()
        }
    });
    commands.collect()
}

/// A query for a name and its answer, the beginning and the end of a connection, and other packets of two hosts.
fn frames() -> Vec<Vec<u8>> {
    let between = |from: u8, to: u8| {
        let mac = |host| [2, 0, 0, 0, 0, host];
        let address = |host| [10, 0, 0, host];
        PacketBuilder::ethernet2(mac(from), mac(to)).ipv4(address(from), address(to), 64)
    };
    let name = b"\x07example\x03com\x00\x00\x01\x00\x01";
    let query = [
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00",
        &name[..],
    ]
    .concat();
    let answer = [
        b"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00",
        &name[..],
        b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x00\x00\x07",
    ];
    let request = b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n";
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = Vec::new();
        write(&mut frame);
        frame
    };
    vec![
        written(&|frame| between(7, 1).udp(40000, 53).write(frame, &query).unwrap()),
        written(&|frame| {
            between(1, 7)
                .udp(53, 40000)
                .write(frame, &answer.concat())
                .unwrap()
        }),
        written(&|frame| {
            between(7, 9)
                .tcp(50000, 80, 1, 1000)
                .syn()
                .write(frame, &[])
                .unwrap()
        }),
        written(&|frame| {
            between(9, 7)
                .tcp(80, 50000, 7, 1000)
                .syn()
                .ack(2)
                .write(frame, &[])
                .unwrap()
        }),
        written(&|frame| {
            between(7, 9)
                .tcp(50000, 80, 2, 1000)
                .ack(8)
                .write(frame, request)
                .unwrap()
        }),
        written(&|frame| {
            between(9, 7)
                .tcp(80, 50000, 8, 1000)
                .rst()
                .write(frame, &[])
                .unwrap()
        }),
    ]
}

/// A folder with what the pages name.
fn prepared() -> Folder {
    let folder = Folder::new();
    let mut old = lab::classic(&frames());
    let (mut at, mut micros) = (24, 1_250_u32);
    while at < old.len() {
        let len = u32::from_le_bytes(old[at + 8..at + 12].try_into().unwrap());
        old[at..at + 4].copy_from_slice(&START.to_le_bytes());
        old[at + 4..at + 8].copy_from_slice(&micros.to_le_bytes());
        at += 16 + len as usize;
        micros += 10_500;
    }
    folder.file("old.pcap", old);
    let path = |name: &str| folder.path(name);
    run!(
        "capture -r {} -w {} -q",
        path("old.pcap"),
        path("new.pcapng")
    )
    .succeeds();
    let mut torn = fs::read(path("new.pcapng")).unwrap();
    torn.truncate(torn.len() - 30);
    folder.file("torn.pcapng", torn);
    folder.file("in", vec![7; 100_000]);
    folder.file("move-away", "#!/bin/sh\nmkdir -p away && mv \"$1\" away/\n");
    set_mode(path("move-away"), 0o755);
    fs::create_dir(path("served")).unwrap();
    folder.file("served/a.bin", vec![9; 1000]);
    folder
}

/// Whether the commands of a process group are ready for an interrupt, which kills them until they have set up what they do then.
fn await_interrupts(group: u32) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|process| {
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        let in_group =
            stat.split_once(" (forebay) ")?.1.split(' ').nth(2) == Some(&group.to_string());
        in_group.then(|| fs::read_to_string(process.path().join("status")).unwrap_or_default())
    });
    let caught = stats.map(|status| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & 2 != 0)
    });
    let caught: Vec<_> = caught.collect();
    !caught.is_empty() && !caught.contains(&false)
}

/// Runs a command in a new folder, and interrupts it when it has run for a second if it would not end.
fn ran(task: &Task, commands: &str) -> (Folder, Output) {
    let folder = prepared();
    let mut script = task.script.clone();
    if script.starts_with("forebay top") && !script.contains("--once") {
        script = format!(
            "(sleep 1; printf q) | script -qec '{}' /dev/null",
            script.trim()
        );
    }
    let shell = |script: &str| {
        let mut bash = lab::tool("bash");
        let path = format!(
            "{commands}:{}:/usr/sbin:/sbin",
            std::env::var("PATH").unwrap()
        );
        bash.args(["-c", script])
            .current_dir(folder.path(""))
            .env("PATH", path);
        bash.env("RUNTIME_DIRECTORY", folder.path(""))
            .stdin(Stdio::null());
        bash.stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        bash
    };
    let mut child = shell(&script).spawn().unwrap();
    let group = format!("-{}", child.id());
    let begun = Instant::now();
    let live = script.contains("eth0") || script.contains("-i any");
    let ending = ["sleep", "-c ", "--once", "doctor", "replay", "generate"];
    let ends = !live || ending.iter().any(|word| script.contains(word));
    let mut ready = None;
    while child.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(20));
        if !ends && ready.is_none() && await_interrupts(child.id()) {
            ready = Some(Instant::now());
        }
        if ready.is_some_and(|ready| ready.elapsed() > Duration::from_secs(1)) {
            break;
        }
    }
    let signal = |signal: &str| {
        let mut kill = Command::new("kill");
        kill.args([signal, "--", &group]).stderr(Stdio::null());
        kill.status().unwrap();
    };
    signal("-INT");
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(20));
    }
    // What a script leaves in the background may not have been listening yet.
    signal("-TERM");
    let mut output = child.wait_with_output().unwrap();
    if let (Some(then), true) = (&task.then, output.status.success()) {
        let after = shell(then).output().unwrap();
        if !after.status.success() {
            output = after;
        }
    }
    (folder, output)
}

/// What is wrong with a command, if anything.
fn complaint(task: &Task, output: &Output) -> Option<String> {
    let printed = output.stdout[..output.stdout.len().min(500)].escape_ascii();
    let log = format!("{}\n{}{printed}", task.script.trim(), output.log());
    let code = output.status.code().unwrap_or(-1).to_string();
    let exits = task.exit.as_deref().unwrap_or("0");
    // The disk of this machine may be fuller than the example wants it.
    if task.script.contains("--keep-free") && log.contains("must stay free") {
        return None;
    }
    if !exits.split(' ').any(|exit| exit == code) {
        return Some(format!("exit code {code}: {log}"));
    }
    let words = task.stdout.as_deref().unwrap_or("");
    (!String::from_utf8_lossy(&output.stdout).contains(words))
        .then(|| format!("no '{words}': {log}"))
}

/// Answers each request with the file that `forebay get` is to fetch.
fn serve() {
    let listener = TcpListener::bind("127.0.0.1:8000").unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            // An unread request would reset the connection.
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
            let _ = client.write_all(&[9; 1000]);
        }
    });
}

fn run_all(tasks: Vec<Task>) {
    lab::lab(&["bash", "script", "tcpdump", "jq"], || {
        ip("link add eth0 type veth peer name eth1");
        ip("link add eth2 type veth peer name far2");
        lab::up(&["eth0", "eth1", "eth2", "far2"]);
        serve();
        let traffic = prepared();
        let file = traffic.path("old.pcap");
        let mut traffic = start!("replay {file} -i eth1 -p 500 -l 0 -q");
        let commands = Folder::new();
        std::os::unix::fs::symlink(FOREBAY, commands.path("forebay")).unwrap();
        for (name, script) in STANDINS {
            let path = commands.file(name, format!("#!/bin/sh\n{script}\n"));
            set_mode(path, 0o755);
        }
        let (waiting, complaints) = (Mutex::new(tasks), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(task) = { waiting.lock().unwrap().pop() } {
                        let (_folder, output) = ran(&task, &commands.path(""));
                        complaints.lock().unwrap().extend(complaint(&task, &output));
                    }
                });
            }
        });
        traffic.kill().unwrap();
        traffic.wait().unwrap();
        let complaints = complaints.into_inner().unwrap();
        assert!(complaints.is_empty(), "{}", complaints.join("\n----\n"));
    });
}

#[test]
fn each_command_of_the_cookbook_does_its_task() {
    let tasks = blocks(include_str!("../../../../docs/cookbook.md"));
    assert!(tasks.len() >= 25, "{} commands", tasks.len());
    run_all(tasks);
}

#[test]
fn each_command_for_users_of_other_tools_runs() {
    let tasks = second_columns(include_str!("../../../../docs/coming-from.md"));
    assert!(tasks.len() >= 40, "{} commands", tasks.len());
    run_all(tasks);
}

#[test]
fn printed_packets_are_as_the_page_shows_them() {
    let page = include_str!("../../../../docs/print.md");
    let shown = page.split("```console\n").skip(1);
    let shown: Vec<_> = shown
        .map(|block| block.split_once("```").unwrap().0)
        .collect();
    assert!(shown.len() >= 3);
    let folder = prepared();
    for command in shown.iter().flat_map(|block| block.split("$ ").skip(1)) {
        let (script, expected) = command.split_once('\n').unwrap();
        let mut shell = shell(script);
        let output = shell
            .current_dir(folder.path(""))
            .env("TZ", "UTC")
            .output()
            .unwrap();
        assert_eq!(output.succeeds().text(), expected, "{script}");
    }
}
