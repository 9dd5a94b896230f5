//! `--control`, `--metrics` and `--metrics-file` of a running `forebay capture`, as its operators use them.
//!
//! `control` is about requests and their answers, `hostile` about clients that misbehave, `metrics` about scrapes, and
//! `prometheus` about a real server with the alert rules and the dashboard of `contrib/`. `top` is about
//! `forebay top --control`.

mod control;
mod hostile;
mod metrics;
mod prometheus;
mod top;

use crate::support::*;
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    process::{Child, Stdio},
};

/// A capture in the background, with its control socket in a folder.
struct Running {
    child: children::Mortal,
    socket: String,
    /// Where its metrics are, if it has any.
    metrics: String,
}

/// Starts `forebay capture` with a control socket in `folder` and these words, and waits until it runs.
fn running(folder: &Folder, words: &str) -> Running {
    let socket = folder.path("lan");
    let mut command = forebay!("capture --control {socket} --json {words}");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = children::Mortal(command.spawn().unwrap());
    wait_until(|| run!("control {socket}").status.success());
    let status = run!("control {socket} --json").json();
    Running {
        child,
        socket,
        metrics: status["metrics"].as_str().unwrap_or_default().into(),
    }
}

impl Running {
    fn control(&self, words: &str) -> std::process::Output {
        run!("control {} {words}", self.socket)
    }

    fn status(&self) -> Value {
        self.control("--json").succeeds().json()
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.socket).unwrap()
    }

    /// The response to a request over HTTP.
    fn http(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.metrics).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    fn scrape(&self) -> String {
        let response = self.http("GET /metrics HTTP/1.1\r\n\r\n");
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        response
    }

    /// Stops it through its socket, and requires that what it prints is the same as the answer.
    fn stop(mut self) -> Value {
        let answer = self.control("stop --json").succeeds().json();
        assert_eq!(answer["law_holds"], true, "{answer}");
        assert_eq!(self.ended(), answer);
        answer
    }

    /// Its summary, after it has ended.
    fn ended(&mut self) -> Value {
        self.child.ends_well();
        assert!(!std::path::Path::new(&self.socket).exists());
        summary(&mut self.child.0)
    }
}

fn summary(child: &mut Child) -> Value {
    let mut text = String::new();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_to_string(&mut text).unwrap();
    object(text.lines().last().unwrap())
}

/// Sends a line, and returns the next answer.
fn ask(stream: &mut UnixStream, line: &str) -> Value {
    stream.write_all(line.as_bytes()).unwrap();
    answer(stream)
}

fn answer(stream: &UnixStream) -> Value {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    object(&line)
}
