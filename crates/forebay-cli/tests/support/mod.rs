//! What the tests of the command share: running it, a folder for what it writes, and a reader of that which is not ours.

#![allow(dead_code)] // each test program uses a part

#[path = "../../../forebay/tests/support/dice.rs"]
pub mod dice;
#[path = "../../../forebay-net/tests/support/found.rs"]
pub mod found;

use serde_json::Value;
use std::{
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

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A folder of its own for each test, removed at its end.
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

/// The summary among the lines: the last one that is an object.
pub fn summary(lines: &[u8]) -> Value {
    let object = text(lines).lines().rfind(|line| line.starts_with('{'));
    serde_json::from_str(object.expect("a summary")).unwrap()
}

pub fn count(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// Whether a tool is there. Where the checks run it has to be; elsewhere a test goes without.
pub fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "needs {tool}");
    if !found {
        println!("skipped: needs {tool}");
    }
    found
}
