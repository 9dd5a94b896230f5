//! `forebay pipe` as its users run it: real processes, files, pipes, connections and signals.
//!
//! A file for each theme; what they share is here.

mod bytes;
mod connections;
mod display;
mod files;
mod lenders;
mod neighbours;
mod requests;
mod signals;
mod watch;

use crate::support::*;
use sha2::{Digest, Sha256};
use std::{
    io::Write,
    process::{Child, Command, Output},
    thread::JoinHandle,
};

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes to its standard input from a thread, until the reader leaves.
fn feed(child: &mut Child, bytes: impl Into<Vec<u8>>) -> JoinHandle<()> {
    let (mut stdin, bytes) = (child.stdin.take().unwrap(), bytes.into());
    std::thread::spawn(move || {
        let _ = stdin.write_all(&bytes);
    })
}

/// Runs `command` with `bytes` as standard input.
fn fed_to(command: &mut Command, bytes: impl Into<Vec<u8>>) -> Output {
    let mut child = piped(command);
    let feeding = feed(&mut child, bytes);
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    output
}

/// Runs `forebay pipe` with `bytes` as standard input.
fn fed(arguments: impl AsRef<str>, bytes: impl Into<Vec<u8>>) -> Output {
    fed_to(&mut forebay!("pipe {}", arguments.as_ref()), bytes)
}

/// It went well, and said nothing.
#[track_caller]
fn is_silent(output: &Output) {
    assert_eq!(output.log(), "");
    assert_eq!(output.status.code(), Some(0));
}
