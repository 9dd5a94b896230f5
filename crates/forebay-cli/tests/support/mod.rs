#![allow(dead_code, unused_imports, unused_macros)] // each test program uses a part

pub mod terminal;

pub use forebay_testing::{
    children::{self, Mortal},
    dice::{Dice, noise, rounds},
    folder::Folder,
    found::{self, Found},
};

use forebay_testing::lab;
use serde_json::Value;
use std::{
    fs::Permissions,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// The command `forebay` with the words of a line that is formatted as by `format!`. Quotes hold words together.
macro_rules! forebay {
    ($($line:tt)*) => { $crate::support::command(&format!($($line)*)) };
}

/// Runs that command to its end.
macro_rules! run {
    ($($line:tt)*) => { $crate::support::forebay!($($line)*).output().unwrap() };
}

/// Starts that command with its three streams in pipes.
macro_rules! start {
    ($($line:tt)*) => { $crate::support::piped(&mut $crate::support::forebay!($($line)*)) };
}

pub(crate) use {forebay, run, start};

pub const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");

pub fn command(line: &str) -> Command {
    let mut command = Command::new(FOREBAY);
    command.args(shlex::split(line).expect("balanced quotes"));
    command.stdin(Stdio::null());
    command
}

pub fn piped(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// A shell that runs `script`, in which `forebay` is the command under test.
pub fn shell(script: impl AsRef<str>) -> Command {
    let folder = Path::new(FOREBAY).parent().unwrap().display();
    let mut shell = lab::tool("sh");
    shell.args(["-c", script.as_ref()]).stdin(Stdio::null());
    shell.env(
        "PATH",
        format!("{folder}:{}", std::env::var("PATH").unwrap()),
    );
    shell
}

/// `forebay` with the words of `line` under `strace`, which prints what `options` ask for to the file `log`.
pub fn strace(options: &str, log: &str, line: &str) -> Command {
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-o", log])
        .args(words(options))
        .arg(FOREBAY);
    strace.args(words(line)).stdin(Stdio::null());
    strace
}

/// What a command that ended has printed and returned.
pub trait Outcome {
    /// What it printed on standard output.
    fn text(&self) -> &str;

    /// What it printed on standard error.
    fn log(&self) -> &str;

    /// The summary: the last line that is an object.
    fn json(&self) -> Value;

    /// Each line of standard output, which must be an object.
    fn objects(&self) -> Vec<Value> {
        self.text().lines().map(object).collect()
    }

    /// Requires exit code 0.
    #[track_caller]
    fn succeeds(&self) -> &Self;

    /// Requires this exit code, and an error that contains `expected`.
    #[track_caller]
    fn fails(&self, code: i32, expected: impl AsRef<str>) -> &Self;

    /// The summary, whose law must hold.
    #[track_caller]
    fn lawful(&self) -> Value {
        let json = self.json();
        assert_eq!(json["law_holds"], true, "{json}");
        json
    }

    /// Requires exit code 0 and a summary whose law holds, and returns the summary.
    #[track_caller]
    fn keeps_the_law(&self) -> Value {
        self.succeeds().lawful()
    }
}

impl Outcome for Output {
    fn text(&self) -> &str {
        text(&self.stdout)
    }

    fn log(&self) -> &str {
        text(&self.stderr)
    }

    fn json(&self) -> Value {
        // Where packets go to standard output, it is on standard error.
        let on_stderr = self.log().lines().rfind(|line| line.starts_with('{'));
        let found = on_stderr.or_else(|| self.text().lines().rfind(|line| line.starts_with('{')));
        object(found.expect("a summary"))
    }

    fn succeeds(&self) -> &Self {
        assert_eq!(self.status.code(), Some(0), "{}", self.log());
        self
    }

    fn fails(&self, code: i32, expected: impl AsRef<str>) -> &Self {
        assert_eq!(self.status.code(), Some(code), "{}", self.log());
        contains(self.log(), expected);
        self
    }
}

/// Requires that `part` is in `text`, whose long lines may be broken.
#[track_caller]
pub fn contains(text: impl AsRef<str>, part: impl AsRef<str>) {
    let (text, part) = (text.as_ref(), part.as_ref());
    let is_there = text.contains(part) || text.replace("\n  ", " ").contains(part);
    assert!(is_there, "no {part:?} in {text}");
}

#[track_caller]
pub fn lacks(text: impl AsRef<str>, part: impl AsRef<str>) {
    let (text, part) = (text.as_ref(), part.as_ref());
    assert!(!text.contains(part), "{part:?} in {text}");
}

/// Waits until `is_so`, for at most five minutes.
#[track_caller]
pub fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(
            begun.elapsed() < Duration::from_secs(300),
            "it never happens"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The rows of a table of cases: one a line, with cells between bars.
pub fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [&str; N]> {
    let lines = table.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| {
        let cells: Vec<_> = line.split(" | ").map(str::trim).collect();
        cells.try_into().expect(line)
    })
}

/// What another program prints; `None`, with a message, if it is not installed.
pub fn foreign(line: impl AsRef<str>) -> Option<Output> {
    let words = shlex::split(line.as_ref()).expect("balanced quotes");
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    has(&words[0]).then(|| command.output().unwrap())
}

/// Runs a tool with these words, which may be in root's folders. It has to succeed.
#[track_caller]
pub fn tool_output(line: impl AsRef<str>) -> Output {
    let words = words(line.as_ref());
    let output = lab::tool(words[0]).args(&words[1..]).output().unwrap();
    output.succeeds();
    output
}

/// Sends a signal, such as `-INT`.
pub fn interrupt(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    let killed = Command::new("kill").args([signal, &pid]).status();
    assert!(killed.unwrap().success());
}

/// Reads what a command prints on standard error, byte by byte, up to and including these words.
#[track_caller]
pub fn heard(child: &mut Child, words: &str) -> String {
    let mut log = Vec::new();
    let stderr = child.stderr.as_mut().unwrap();
    while !log.ends_with(words.as_bytes()) {
        let mut byte = [0];
        let len = stderr.read(&mut byte).unwrap();
        assert_eq!(len, 1, "{words:?} in {}", String::from_utf8_lossy(&log));
        log.push(byte[0]);
    }
    String::from_utf8(log).unwrap()
}

/// Ends a command with Ctrl-C.
pub fn stopped(child: Child) -> Output {
    interrupt(&child, "-INT");
    child.wait_with_output().unwrap()
}

pub fn mkfifo(path: &str) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

pub fn set_mode(path: impl AsRef<Path>, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Of every thread of a process: what follows `label` in its `status` (proc(5)).
pub fn of_threads(child: &Child, label: &str) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let statuses = threads.map(|thread| thread.unwrap().path().join("status"));
    // One that cannot be read is of a thread that has ended meanwhile.
    let statuses = statuses.filter_map(|path| std::fs::read_to_string(path).ok());
    let of_one = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix(label));
        line.expect(label).trim().to_owned()
    };
    let found: Vec<String> = statuses.map(of_one).collect();
    assert!(!found.is_empty(), "no thread has a status");
    found
}

/// Requires that these numbers are there, each once, in any order.
#[track_caller]
pub fn are_each_once(mut sequences: Vec<u64>, expected: std::ops::Range<u64>) {
    sequences.sort_unstable();
    let found = (sequences.len(), sequences.first(), sequences.last());
    assert!(
        sequences.iter().copied().eq(expected.clone()),
        "{found:?} of {expected:?}"
    );
}

/// `forebay` with the words of this line, for which `folder` is that of the sockets of running captures.
pub fn in_runtime(folder: &str, line: &str) -> Command {
    let mut command = command(line);
    command.env("RUNTIME_DIRECTORY", folder);
    command
}

/// The bytes of a file, or 0 if there is none.
pub fn file_len(path: &str) -> u64 {
    std::fs::metadata(path).map_or(0, |about| about.len())
}

/// A capture of simulated packets on a port with these settings. Bytes 42 to 49 of each are its sequence number.
pub fn recorded(folder: &Folder, name: &str, settings: &str) -> String {
    let path = folder.path(name);
    run!("capture -i sim:clock=virtual,{settings} -q -w {path}").succeeds();
    path
}

/// The same, in a new folder.
pub fn captured(name: &str, settings: &str) -> (Folder, String) {
    let folder = Folder::new();
    let path = recorded(&folder, name, settings);
    (folder, path)
}

/// The words of a command line. Arguments with blanks cannot be written this way.
pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A folder like `/tmp`, into which another user (65534) has put `file`, `fifo`, and a `link` to our `victim`. `None`,
/// with a message, if the rights for that are missing.
pub fn shared_folder() -> Option<Folder> {
    use std::os::unix::fs::{chown, lchown, symlink};
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    std::fs::write(path("victim"), "precious").unwrap();
    std::fs::write(path("file"), "").unwrap();
    if chown(path("file"), Some(65534), Some(65534)).is_err() {
        println!("skipped: only root can give a file to another user");
        return None;
    }
    mkfifo(&path("fifo"));
    chown(path("fifo"), Some(65534), Some(65534)).unwrap();
    symlink(path("victim"), path("link")).unwrap();
    lchown(path("link"), Some(65534), Some(65534)).unwrap();
    set_mode(path(""), 0o1777);
    Some(folder)
}

/// A shell that runs a script where `folder` is a disk of `size`. Pass what it returns to [`children::on_small_disk`].
pub fn shell_on_small_disk(folder: &str, size: &str, script: &str) -> Command {
    let shell = shell(script);
    let path = shell.get_envs().find_map(|(_, value)| value).unwrap();
    let mut command = children::with_small_disk(folder.as_ref(), size, &shell);
    command.env("PATH", path);
    command
}

/// Runs such a script; `None`, with a message, if the rights for that are missing.
pub fn on_small_disk(folder: &str, size: &str, script: &str) -> Option<Output> {
    children::on_small_disk(shell_on_small_disk(folder, size, script).output())
}

/// Captures with these arguments to a disk of 2 MB that fills up: that is reported, and a reader finds what was counted,
/// to the last byte. `None`, with a message, if the rights for that are missing.
#[track_caller]
pub fn into_full_disk(folder: &Folder, words: &str) -> Option<found::Found> {
    let (mount, kept) = (folder.path("small"), folder.path("kept.pcapng"));
    let script = format!(
        "forebay capture -w {mount}/full.pcapng --json {words}; code=$?
         cp {mount}/full.pcapng {kept}; exit $code"
    );
    let output = on_small_disk(&mount, "2M", &script)?;
    let expected = "full.pcapng: writing: no space left on device";
    let json = output.fails(1, expected).lawful();
    assert!(count(&json["dropped"]["disk"]) > 0, "{json}");
    let found = found::open(&kept);
    assert_eq!(found.packets.len() as u64, count(&json["written"]));
    assert_eq!(
        count(&json["bytes"]),
        file_len(&kept),
        "cut after the last packet"
    );
    Some(found)
}

/// The packets that `capinfos`, which reads files to their ends, finds in all of these.
pub fn counted_by_capinfos(paths: &[String]) -> u64 {
    let mut capinfos = Command::new("capinfos");
    let output = capinfos.args(["-TMcr"]).args(paths).output().unwrap();
    let counts = output.succeeds().text().lines().map(|line| {
        let (_, count) = line.rsplit_once('\t').unwrap();
        count.parse::<u64>().unwrap()
    });
    counts.sum()
}

/// A line of JSON.
#[track_caller]
pub fn object(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

pub fn count(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// The sum of the counts in an object.
pub fn sum(object: &Value) -> u64 {
    object.as_object().unwrap().values().map(count).sum()
}

/// These counts of a summary.
pub fn counts<const N: usize>(json: &Value, keys: [&str; N]) -> [u64; N] {
    keys.map(|key| count(&json[key]))
}

/// Whether a tool is installed. In CI a missing tool is a failure; elsewhere the test is skipped.
pub fn has(tool: &str) -> bool {
    let found = lab::have(tool);
    if !found {
        children::skip(tool);
    }
    found
}
