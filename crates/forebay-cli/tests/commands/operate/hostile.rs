//! Clients that send garbage, never read or never leave hold up neither the capture nor other clients.

use crate::operate::{Running, running};
use crate::support::*;
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
};

/// Connections that the capture keeps for each kind of client.
const KEPT: usize = 32;

fn descriptors(capture: &Running) -> usize {
    let folder = format!("/proc/{}/fd", capture.child.0.id());
    fs::read_dir(folder).unwrap().count()
}

/// The capture still takes packets, and answers.
#[track_caller]
fn is_well(capture: &Running) {
    let taken = count(&capture.status()["taken"]);
    wait_until(|| count(&capture.status()["taken"]) > taken);
}

/// Writes until the other side takes no more.
fn stuff(stream: &mut (impl Write + ?Sized), line: &[u8]) {
    let takes_more = (0..100_000).all(|_| stream.write_all(line).is_ok());
    assert!(!takes_more, "a client that never reads can write for ever");
}

#[test]
fn clients_of_the_control_socket_are_bounded() {
    let (folder, file) = Folder::with("a.pcapng");
    let capture = running(&folder, &format!("-i sim:rate=10M -w {file}"));
    let before = descriptors(&capture);

    // A thousand that say nothing.
    let mut silent = Vec::new();
    for _ in 0..1000 {
        // The oldest ones are closed.
        if silent.len() >= 100 {
            silent.remove(0);
        }
        silent.push(capture.connect());
    }
    is_well(&capture);
    assert!(
        descriptors(&capture) <= before + KEPT,
        "{}",
        descriptors(&capture)
    );

    // A line of a megabyte.
    let mut long = capture.connect();
    let _ = long.write_all(&vec![b'x'; 1 << 20]);
    let mut answer = Vec::new();
    let _ = long.read_to_end(&mut answer);
    if !answer.is_empty() {
        contains(String::from_utf8(answer).unwrap(), "at most 4096 bytes");
    }
    is_well(&capture);

    // Bytes that are no text, and deeply nested JSON.
    for line in [vec![0xff; 4000], vec![b'['; 4000]] {
        let mut stream = capture.connect();
        stream.write_all(&line).unwrap();
        stream.write_all(b"\n").unwrap();
        contains(
            crate::operate::answer(&stream)["error"].as_str().unwrap(),
            "JSON",
        );
    }

    // Requests without end from one that never reads an answer.
    let mut deaf = capture.connect();
    deaf.set_nonblocking(true).unwrap();
    stuff(&mut deaf, b"{\"command\":\"status\"}\n");
    is_well(&capture);

    // One that asks for a stop and leaves: the capture stops, for all others.
    drop(silent);
    let mut leaving = capture.connect();
    leaving.write_all(b"{\"command\":\"stop\"}\n").unwrap();
    drop(leaving);
    let mut capture = capture;
    let json = capture.ended();
    assert_eq!(json["law_holds"], true);
    assert_eq!(json["received"], json["written"], "{json}");
}

#[test]
fn clients_of_the_metrics_are_bounded() {
    let folder = Folder::new();
    let capture = running(&folder, "-i sim:rate=10M --count --metrics 0");
    let before = descriptors(&capture);
    let connect = || TcpStream::connect(&capture.metrics).unwrap();
    let silent: Vec<_> = (0..200).map(|_| connect()).collect();
    let mut slow = connect();
    slow.write_all(b"GET /metr").unwrap();
    capture.scrape();
    is_well(&capture);
    assert!(descriptors(&capture) <= before + 2 * KEPT);
    let mut garbage = connect();
    let _ = garbage.write_all(&vec![0; 1 << 20]);
    let mut reply = Vec::new();
    let _ = garbage.read_to_end(&mut reply);
    assert!(
        reply.is_empty() || reply.starts_with(b"HTTP/1.1 400"),
        "{reply:?}"
    );
    let mut deaf = connect();
    deaf.set_nonblocking(true).unwrap();
    stuff(&mut deaf, b"GET /metrics HTTP/1.1\r\n\r\n");
    capture.scrape();
    is_well(&capture);
    drop((silent, slow));
    interrupt(&capture.child.0, "-INT");
    wait_until(|| {
        UnixStream::connect(&capture.socket).is_err() || capture.status()["running"] == false
    });
    // Do not wait for the next scrape.
    interrupt(&capture.child.0, "-INT");
    let mut capture = capture;
    assert_eq!(capture.ended()["law_holds"], true);
}
