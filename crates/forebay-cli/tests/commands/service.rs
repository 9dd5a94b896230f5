//! The capture as a service: what it reports to the service manager, and the files in `contrib` that describe it.

use crate::support::*;
use forebay_testing::lab::lab;
use std::{
    collections::BTreeSet,
    fs, io,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../contrib")
        .join(name)
}

/// A command that reports to the service manager at this address, which expects a message every `watchdog_us` microseconds.
fn managed(mut command: Command, address: &str, watchdog_us: &str) -> Command {
    command.env("NOTIFY_SOCKET", address);
    command.env("WATCHDOG_USEC", watchdog_us);
    command
}

/// The service manager's socket.
struct Manager(UnixDatagram);

impl Manager {
    /// The next message, if one arrives in this time.
    fn hears_within(&self, limit: Duration) -> Option<String> {
        self.0.set_read_timeout(Some(limit)).unwrap();
        let mut bytes = [0; 4096];
        match self.0.recv(&mut bytes) {
            Ok(len) => Some(text(&bytes[..len]).to_owned()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits for a message with this line. Returns the messages before it, and this one.
    fn waits_for(&self, line: &str) -> Vec<String> {
        let mut heard = Vec::new();
        loop {
            let next = self.hears_within(Duration::from_secs(120));
            heard.push(next.unwrap_or_else(|| panic!("no {line} in {heard:?}")));
            let is_it = |it: &str| it == line || line.ends_with('=') && it.starts_with(line);
            if heard.last().unwrap().lines().any(is_it) {
                return heard;
            }
        }
    }
}

fn is_watchdog(message: &str) -> bool {
    message.lines().any(|line| line == "WATCHDOG=1")
}

#[test]
fn the_service_manager_hears_of_start_progress_and_end() {
    let (folder, path) = Folder::with("socket");
    let name = format!("forebay-test-{}", std::process::id());
    let hidden = SocketAddr::from_abstract_name(&name).unwrap();
    let sockets = [
        (UnixDatagram::bind(&path).unwrap(), path),
        (
            UnixDatagram::bind_addr(&hidden).unwrap(),
            format!("@{name}"),
        ),
    ];
    for (socket, name) in sockets {
        let manager = Manager(socket);
        let file = folder.path("a.pcapng");
        let capture = forebay!("capture -i sim:rate=1M -w {file} -q --json");
        let child = piped(&mut managed(capture, &name, "200000"));
        let heard = manager.waits_for("READY=1");
        assert_eq!(heard, ["READY=1"], "nothing before that");
        contains(manager.waits_for("STATUS=").last().unwrap(), "packets");
        for _ in 0..5 {
            manager.waits_for("WATCHDOG=1");
        }
        // A capture that does not move is not reported as one that does.
        interrupt(&child, "-STOP");
        let stat = format!("/proc/{}/stat", child.id());
        wait_until(|| fs::read_to_string(&stat).unwrap().contains(") T "));
        while manager.hears_within(Duration::from_millis(1)).is_some() {}
        assert_eq!(manager.hears_within(Duration::from_secs(1)), None);
        interrupt(&child, "-CONT");
        manager.waits_for("WATCHDOG=1");
        interrupt(&child, "-TERM");
        manager.waits_for("STOPPING=1");
        let json = child.wait_with_output().unwrap().keeps_the_law();
        assert_eq!(json["received"], json["written"]);
        let mut rest = std::iter::from_fn(|| manager.hears_within(Duration::from_millis(1)));
        assert!(!rest.any(|message| is_watchdog(&message) || message.contains("STOPPING")));
    }
}

#[test]
fn a_capture_that_ends_by_itself_reports_that_and_no_watchdog_that_is_for_others() {
    let (folder, path) = Folder::with("socket");
    let manager = Manager(UnixDatagram::bind(&path).unwrap());
    let file = folder.path("a.pcapng");
    let capture = forebay!("capture -i sim:rate=1M -a duration:0.7 -w {file} -q");
    let mut capture = managed(capture, &path, "1000");
    let output = capture.env("WATCHDOG_PID", "1").output().unwrap();
    output.succeeds();
    let heard = manager.waits_for("STOPPING=1");
    assert!(
        heard.iter().all(|message| !is_watchdog(message)),
        "{heard:?}"
    );
    // A capture that cannot start does not report that it did.
    capture
        .args(["-a", "files:2"])
        .output()
        .unwrap()
        .fails(2, "only one file");
    assert_eq!(manager.hears_within(Duration::from_millis(1)), None);
    let mut capture = forebay!("capture -i sim -c 1 --count");
    capture.env("NOTIFY_SOCKET", folder.path("missing"));
    capture
        .output()
        .unwrap()
        .fails(1, "the service manager cannot be reached");
}

#[test]
fn a_service_manager_that_is_busy_gets_start_and_end_later() {
    let (folder, path) = Folder::with("socket");
    let manager = Manager(UnixDatagram::bind(&path).unwrap());
    // As many messages as its queue takes.
    let other = UnixDatagram::unbound().unwrap();
    other.connect(&path).unwrap();
    other.set_nonblocking(true).unwrap();
    let fill = || while other.send(b"other").is_ok() {};
    fill();
    let (file, socket) = (folder.path("a.pcapng"), folder.path("lan"));
    let capture = forebay!("capture -i sim:rate=1M -w {file} -q --json --control {socket}");
    let child = piped(&mut managed(capture, &path, "60000000"));
    // It captures all the same.
    wait_until(|| {
        let asked = run!("control {socket} --json");
        asked.status.success() && count(&asked.json()["taken"]) > 100
    });
    let heard = manager.waits_for("READY=1");
    assert_eq!(heard.iter().filter(|it| *it != "other").count(), 1);
    // The watchdog did not count as heard before that, although it is due every 30 s only.
    assert!(is_watchdog(heard.last().unwrap()), "{heard:?}");
    fill();
    interrupt(&child, "-TERM");
    wait_until(|| {
        let asked = run!("control {socket} --json");
        !asked.status.success() || asked.json()["stopping"] == true
    });
    manager.waits_for("STOPPING=1");
    let json = child.wait_with_output().unwrap().keeps_the_law();
    assert_eq!(json["received"], json["written"]);
}

/// The unit with the command under test, in a folder.
fn unit(folder: &Folder) -> String {
    let text = fs::read_to_string(contrib("forebay@.service")).unwrap();
    folder.file(
        "forebay@.service",
        text.replace("/usr/bin/forebay", FOREBAY),
    )
}

#[test]
fn the_unit_is_valid_and_leaves_little_exposed() {
    if !has("systemd-analyze") {
        return;
    }
    let folder = Folder::new();
    let unit = unit(&folder);
    let output = foreign(format!("systemd-analyze verify --man=no {unit}")).unwrap();
    lacks(output.succeeds().log(), "forebay@");
    // In tenths: 2.0.
    let asked = "systemd-analyze security --offline=true --no-pager --threshold=19";
    let output = foreign(format!("{asked} {unit}")).unwrap();
    let summary = output.succeeds().text().lines().last().unwrap_or_default();
    println!("{summary}");
    contains(summary, "Overall exposure level");
    let wrong = folder.file("forebay@x.service", "[Service]\nExecStart=/nowhere\n");
    let output = foreign(format!("systemd-analyze verify --man=no {wrong}")).unwrap();
    assert!(
        !output.status.success(),
        "systemd-analyze finds faults at all"
    );
}

#[test]
fn a_reload_never_ends_the_capture() {
    let unit = fs::read_to_string(contrib("forebay@.service")).unwrap();
    let reload = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecReload=/usr/bin/forebay "));
    let reload = reload.expect("a reload is a request to the capture");
    let folder = Folder::new();
    let run = |line: &str| in_runtime(&folder.path("eth0"), line);
    let file = folder.path("a.pcapng");
    for (series, is_reloaded) in [("-b duration:3600", true), ("", false)] {
        let line = format!("capture -i sim:rate=1M -w {file} --control eth0 -q --json {series}");
        let child = piped(&mut run(&line));
        wait_until(|| run("control eth0").output().unwrap().status.success());
        let reloaded = run(&reload.replace("%i", "eth0")).output().unwrap();
        match is_reloaded {
            true => reloaded.succeeds(),
            false => reloaded.fails(1, "no series of files"),
        };
        run("control eth0 stop").output().unwrap().succeeds();
        let json = child.wait_with_output().unwrap().keeps_the_law();
        assert_eq!(json["files_written"], 1 + u64::from(is_reloaded), "{json}");
    }
}

#[test]
fn the_user_of_the_service_is_made_by_sysusers() {
    if !has("systemd-sysusers") {
        return;
    }
    let folder = Folder::new();
    let root = folder.path("");
    fs::create_dir(folder.path("etc")).unwrap();
    let text = fs::read_to_string(contrib("sysusers.d/forebay.conf")).unwrap();
    let mut sysusers = Command::new("systemd-sysusers");
    sysusers.arg(format!("--root={root}")).args(["--inline"]);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let output = sysusers.args(lines).output().unwrap();
    output.succeeds();
    let users = fs::read_to_string(folder.path("etc/passwd")).unwrap();
    contains(users, "forebay:");
    contains(
        fs::read_to_string(contrib("forebay@.service")).unwrap(),
        "User=forebay",
    );
}

/// The names of system calls that `systemd-analyze` lists for a set.
fn members(set: &str, calls: &mut BTreeSet<String>) {
    let listed = foreign(format!("systemd-analyze syscall-filter {set} --no-pager")).unwrap();
    for line in listed.succeeds().text().lines().skip(1) {
        match line.trim() {
            "" => {}
            line if line.starts_with('#') => {}
            inner if inner.starts_with('@') => members(inner, calls),
            call => drop(calls.insert(call.to_owned())),
        }
    }
}

#[test]
fn the_unit_permits_every_system_call_of_a_capture() {
    if !has("systemd-analyze") || !has("strace") {
        return;
    }
    let mut permitted = BTreeSet::new();
    let text = fs::read_to_string(contrib("forebay@.service")).unwrap();
    for line in text
        .lines()
        .filter_map(|line| line.strip_prefix("SystemCallFilter="))
    {
        let (is_denied, words_of_line) = match line.strip_prefix('~') {
            Some(rest) => (true, words(rest)),
            None => (false, words(line)),
        };
        for word in words_of_line {
            let mut calls = BTreeSet::new();
            match word.starts_with('@') {
                true => members(word, &mut calls),
                false => drop(calls.insert(word.to_owned())),
            }
            permitted = match is_denied {
                true => &permitted - &calls,
                false => &permitted | &calls,
            };
        }
    }
    assert!(permitted.contains("write") && !permitted.contains("mount"));
    let folder = Folder::new();
    let (path, log) = (folder.path("socket"), folder.path("log"));
    let _manager = UnixDatagram::bind(&path).unwrap();
    let traced = |port: &str| {
        let name = folder.path("a.pcapng");
        let left = folder.path("a_00001_20200101000000.pcapng.part");
        let bytes = fs::read(recorded(&folder, "whole.pcapng", "count=100")).unwrap();
        fs::write(left, &bytes[..bytes.len() - 170]).unwrap();
        let flags = "-b duration:0.2 -b files:3 --compress zstd --keep-free 1M --json";
        let control = folder.path("control");
        let flags = format!("{flags} --control {control} --metrics 127.0.0.1:0");
        let line = format!("capture -i {port} -w {name} {flags} -a duration:1 udp");
        let mut capture = managed(strace("-qq -A", &log, &line), &path, "100000");
        let json = capture.output().unwrap().keeps_the_law();
        assert_eq!(json["files_recovered"], 1, "{json}");
    };
    traced("sim:rate=1M");
    lab(&["ip"], || traced("vb"));
    let log = fs::read_to_string(log).unwrap();
    let called = log
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1)?.split_once('('));
    let called: BTreeSet<_> = called.map(|(name, _)| name.to_owned()).collect();
    assert!(called.len() > 20, "{called:?}");
    let missing: Vec<_> = called.difference(&permitted).collect();
    // Started by the service manager.
    let missing: Vec<_> = missing
        .into_iter()
        .filter(|name| *name != "execve")
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
