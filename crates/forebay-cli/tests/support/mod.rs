//! Shared by the tests of the command: running it, a folder for its files, and an independent reader of them.

#![allow(dead_code)] // each test program uses a part

pub mod terminal;

#[allow(unused_imports)] // each test program uses a part
pub use forebay_testing::{children, dice, found};

use serde_json::Value;
use std::{
    fs::File,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

pub fn forebay(args: &[&str]) -> Command {
    subcommand("capture", args)
}

pub fn subcommand(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg(name).args(args).stdin(Stdio::null());
    command
}

/// Sends a signal, such as `-INT`.
pub fn interrupt(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    let killed = Command::new("kill").args([signal, &pid]).status();
    assert!(killed.unwrap().success());
}

pub fn run(args: &[&str]) -> Output {
    forebay(args).output().unwrap()
}

/// The words of a command line. Arguments with blanks cannot be written this way.
pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A folder for one test, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("forebay-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A folder like `/tmp`, into which another user (65534) has put `file`, `fifo`, and a `link` to our `victim`. `None`,
/// with a message, if the rights for that are missing.
pub fn shared_folder() -> Option<Folder> {
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    std::fs::write(path("victim"), "precious").unwrap();
    std::fs::write(path("file"), "").unwrap();
    if chown(path("file"), Some(65534), Some(65534)).is_err() {
        println!("skipped: only root can give a file to another user");
        return None;
    }
    let made = Command::new("mkfifo").arg(path("fifo")).status();
    assert!(made.unwrap().success());
    chown(path("fifo"), Some(65534), Some(65534)).unwrap();
    symlink(path("victim"), path("link")).unwrap();
    lchown(path("link"), Some(65534), Some(65534)).unwrap();
    let mode = std::fs::Permissions::from_mode(0o1777);
    std::fs::set_permissions(path(""), mode).unwrap();
    Some(folder)
}

/// Runs a script of the shell where `folder` is a disk of `size`; `None`, with a message, if the rights for that are missing.
pub fn on_small_disk(folder: &str, size: &str, script: &str) -> Option<Output> {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]);
    let ran = children::with_small_disk(folder.as_ref(), size, &shell).output();
    children::on_small_disk(ran)
}

/// Captures with these arguments to a disk of 2 MB that fills up: that is reported, and a reader finds what was counted,
/// to the last byte. `None`, with a message, if the rights for that are missing.
#[track_caller]
pub fn into_full_disk(folder: &Folder, words: &str) -> Option<found::Found> {
    let (mount, kept) = (folder.path("small"), folder.path("kept.pcapng"));
    let script = format!(
        "{} capture -w {mount}/full.pcapng --json {words}; code=$?
         cp {mount}/full.pcapng {kept}; exit $code",
        env!("CARGO_BIN_EXE_forebay"),
    );
    let output = on_small_disk(&mount, "2M", &script)?;
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{log}");
    let message = "full.pcapng: writing: no space left on device";
    assert!(log.contains(message), "{log}");
    let json = summary(&output.stdout);
    assert_eq!(json["law_holds"], true, "{json}");
    assert!(count(&json["dropped"]["disk"]) > 0, "{json}");
    let found = found::read(File::open(&kept).unwrap());
    assert_eq!(found.packets.len() as u64, count(&json["written"]));
    let bytes = std::fs::metadata(&kept).unwrap().len();
    assert_eq!(count(&json["bytes"]), bytes, "cut after the last packet");
    Some(found)
}

/// Requires this exit code, and an error that contains `expected`.
#[track_caller]
pub fn fails(output: &Output, code: i32, expected: &str) {
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{log}");
    assert!(log.contains(expected), "{expected}: {log}");
}

/// Exit code 0, and a summary whose law holds.
#[track_caller]
pub fn fine(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json = summary(&output.stdout);
    assert_eq!(json["law_holds"], true, "{json}");
    json
}

/// The packets that `capinfos`, which reads files to their ends, finds in all of these.
pub fn counted_by_capinfos(paths: &[String]) -> u64 {
    let mut capinfos = Command::new("capinfos");
    let output = capinfos.args(["-TMcr"]).args(paths).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let counts = text(&output.stdout).lines().map(|line| {
        let (_, count) = line.rsplit_once('\t').unwrap();
        count.parse::<u64>().unwrap()
    });
    counts.sum()
}

/// The summary among the lines: the last one that is an object.
pub fn summary(lines: &[u8]) -> Value {
    let object = text(lines).lines().rfind(|line| line.starts_with('{'));
    serde_json::from_str(object.expect("a summary")).unwrap()
}

pub fn count(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// Whether a tool is installed. In CI a missing tool is a failure; elsewhere the test is skipped.
pub fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        children::skip(tool);
    }
    found
}
