//! TCP on both ends.

use super::{feed, is_silent};
use crate::support::*;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
};

#[test]
fn connections_carry_every_byte_both_ways() {
    let sent = noise(2_000_000);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for output in ["-o tcp:127.0.0.1", "-O 127.0.0.1"] {
        let mut child = start!("pipe {output}:{port}");
        let feeding = feed(&mut child, sent.clone());
        let mut received = Vec::new();
        let (mut connection, _) = listener.accept().unwrap();
        connection.read_to_end(&mut received).unwrap();
        assert!(received == sent);
        feeding.join().unwrap();
        is_silent(&child.wait_with_output().unwrap());
    }
    let serving = std::thread::spawn({
        let sent = sent.clone();
        move || listener.accept().unwrap().0.write_all(&sent).unwrap()
    });
    let output = run!("pipe -i tcp:127.0.0.1:{port}");
    is_silent(&output);
    assert!(output.stdout == sent);
    serving.join().unwrap();
}

/// The port that it says it listens on.
fn port_of(lines: &mut impl Iterator<Item = String>) -> u16 {
    let line = lines.next().unwrap();
    let (log, port) = line.rsplit_once(':').unwrap();
    assert!(
        log.starts_with("forebay: waiting for a connection to "),
        "{line}"
    );
    port.parse().unwrap()
}

#[test]
fn a_listening_pipe_reads_and_writes_the_connection() {
    let sent = noise(300_000);
    for input in ["-i tcp-listen:127.0.0.1:0", "-I 127.0.0.1:0"] {
        let mut child = start!("pipe {input} -o tcp-listen:127.0.0.1:0 -f");
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let mut source = TcpStream::connect(("127.0.0.1", port_of(&mut lines))).unwrap();
        let mut target = TcpStream::connect(("127.0.0.1", port_of(&mut lines))).unwrap();
        let sending = std::thread::spawn({
            let sent = sent.clone();
            move || source.write_all(&sent).unwrap()
        });
        let mut received = Vec::new();
        target.read_to_end(&mut received).unwrap();
        assert!(received == sent);
        sending.join().unwrap();
        let last = lines.last().unwrap();
        assert!(
            last.starts_with("summary: 293 KiByte (300000 bytes) in "),
            "{last}"
        );
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_connection_that_breaks_is_an_error_and_a_closed_pipe_is_none() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    let mut child = start!("pipe -o {address}");
    drop(listener.accept().unwrap());
    let feeding = feed(&mut child, noise(8 << 20));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    output.fails(1, format!("forebay: error: {address}: writing: "));

    let mut child = start!("pipe");
    let mut first = [0; 10];
    let feeding = feed(&mut child, noise(8 << 20));
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    is_silent(&child.wait_with_output().unwrap());
    feeding.join().unwrap();
}
