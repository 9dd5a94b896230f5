//! `forebay pipe` as its users run it: real processes, files, pipes, connections and signals.
//!
//! A file for each theme; what they share is here.

#[path = "../support/mod.rs"]
mod support;

mod bytes;
mod connections;
mod display;
mod files;
mod lenders;
mod neighbours;
mod requests;
mod signals;

use sha2::{Digest, Sha256};
use std::{
    io::Write,
    process::{Child, Command, Output, Stdio},
    thread::JoinHandle,
};
use support::{subcommand, text};

fn pipe(args: &[&str]) -> Command {
    subcommand("pipe", args)
}

/// Running, with all three in pipes.
fn started(args: &[&str]) -> Child {
    let mut command = pipe(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes to its standard input from a thread, until the reader leaves.
fn feed(child: &mut Child, bytes: Vec<u8>) -> JoinHandle<()> {
    let mut stdin = child.stdin.take().unwrap();
    std::thread::spawn(move || {
        let _ = stdin.write_all(&bytes);
    })
}

/// Runs with `bytes` as standard input.
fn run_with(args: &[&str], bytes: Vec<u8>) -> Output {
    let mut child = started(args);
    let feeding = feed(&mut child, bytes);
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    output
}

/// It went well, and said nothing.
fn is_silent(output: &Output) {
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}
