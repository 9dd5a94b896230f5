//! Helpers of the archive's tests.
#![allow(dead_code)] // not every test uses all of them

use forebay_net::{
    open,
    session::{Control, Output, Session, SessionConfig},
};
use forebay_testing::folder::Folder;
use serde_json::Value;
use std::{
    path::PathBuf,
    process::{Command, Output as Done, Stdio},
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

/// The Python with the packages that some tests need, or the reason why they are skipped.
pub fn python() -> Result<PathBuf, String> {
    let Ok(venv) = std::env::var("FOREBAY_ARCHIVE_TOOLS") else {
        return Err("FOREBAY_ARCHIVE_TOOLS is not set: it is the path of a virtual environment with deltalake, duckdb, pyarrow and moto[server]".into());
    };
    Ok(PathBuf::from(venv).join("bin/python"))
}
