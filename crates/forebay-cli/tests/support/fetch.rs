//! What the tests of `forebay get` share: running it, and what its answers should be.

#![allow(dead_code)] // each test program uses a part

pub use super::support::fails;
use super::support::text;
use std::{
    net::SocketAddr,
    process::{Command, Output, Stdio},
};

pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg("get").args(args).stdin(Stdio::null());
    command
}

pub fn get(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

pub fn http(address: SocketAddr, path: &str) -> String {
    format!("http://{address}{path}")
}

pub fn with_length(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[track_caller]
pub fn is_fine(ran: &Output, body: &[u8]) {
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(ran.stdout == body, "{} bytes came", ran.stdout.len());
}
