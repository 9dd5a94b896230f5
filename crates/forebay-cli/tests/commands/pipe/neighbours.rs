//! Producers and consumers that are slow, leave, or are killed: past the buffer and through it.

use super::{feed, is_silent, sha256};
use crate::support::*;
use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

#[test]
fn a_reader_that_leaves_is_noticed_while_the_input_is_idle() {
    let mut child = start!("pipe");
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

/// Past the buffer, as long as pipes hold the bytes, and always through it: a limit beyond all speed looks at every byte.
const WAYS: [&str; 2] = ["-m 16M", "-m 16M -R 900G"];

/// A summary, and hardly a line before it.
const SUMMARY: &str = "-f -i 1000";

/// `cat`, between two pipes made by the test or by another program.
fn cat(input: Stdio) -> Child {
    let mut command = Command::new("cat");
    command.stdin(input).stdout(Stdio::piped()).spawn().unwrap()
}

/// `forebay pipe` that reads what `producer` writes.
fn reading(producer: &mut Child, arguments: &str) -> Child {
    let mut command = forebay!("pipe {arguments}");
    command.stdin(producer.stdout.take().unwrap());
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The bytes that its summary reports at the end of standard error.
fn summed_up(child: Child) -> usize {
    let output = child.wait_with_output().unwrap();
    output.succeeds();
    let log = output.log();
    let (_, count) = log.rsplit_once(" (").unwrap();
    let (count, _) = count.split_once(" bytes) in ").unwrap();
    count.parse().unwrap()
}

#[test]
fn every_byte_written_before_the_producer_was_killed_comes_out() {
    let folder = Folder::new();
    let file = folder.file("file", noise(5_000_000));
    for way in WAYS {
        // It says so when it has written everything, keeps the pipe open, and dies.
        let script = format!("cat {file}; echo >&2; exec sleep 1000");
        let mut producer = piped(&mut shell(script));
        let child = reading(&mut producer, way);
        let mut log = producer.stderr.take().unwrap();
        log.read_exact(&mut [0]).unwrap();
        producer.kill().unwrap();
        producer.wait().unwrap();
        let output = child.wait_with_output().unwrap();
        is_silent(&output);
        assert!(output.stdout == noise(5_000_000), "{way}");
    }
}

#[test]
fn a_producer_killed_in_the_middle_of_a_write_ends_what_came_and_no_more() {
    let sent = noise(24 << 20);
    for way in WAYS.into_iter().cycle().take(8) {
        let mut producer = cat(Stdio::piped());
        let mut child = reading(&mut producer, &format!("{way} {SUMMARY}"));
        let feeding = feed(&mut producer, sent.clone());
        let mut stdout = child.stdout.take().unwrap();
        let mut received = vec![0; 1 << 20];
        stdout.read_exact(&mut received).unwrap();
        producer.kill().unwrap();
        producer.wait().unwrap();
        stdout.read_to_end(&mut received).unwrap();
        assert!(sent.starts_with(&received));
        assert_eq!(summed_up(child), received.len());
        feeding.join().unwrap();
    }
}

#[test]
fn a_killed_consumer_is_a_reader_that_left() {
    let sent = noise(24 << 20);
    for way in WAYS.into_iter().cycle().take(8) {
        let mut child = start!("pipe {way} {}", SUMMARY);
        let mut sink = cat(child.stdout.take().unwrap().into());
        let feeding = feed(&mut child, sent.clone());
        let mut received = vec![0; 1 << 20];
        let mut stdout = sink.stdout.take().unwrap();
        stdout.read_exact(&mut received).unwrap();
        sink.kill().unwrap();
        sink.wait().unwrap();
        stdout.read_to_end(&mut received).unwrap();
        assert!(sent.starts_with(&received));
        let written = summed_up(child);
        assert!(
            (received.len()..=sent.len()).contains(&written),
            "{written}"
        );
        feeding.join().unwrap();
    }
}

#[test]
fn a_consumer_with_a_full_disk_is_a_reader_that_left() {
    for way in WAYS {
        let mut child = start!("pipe {way}");
        let full = File::options().write(true).open("/dev/full").unwrap();
        // Spawned where it is made: it holds the pipe open, too.
        let sink = Command::new("cat")
            .stdin(child.stdout.take().unwrap())
            .stdout(full)
            .stderr(Stdio::null())
            .spawn();
        let feeding = feed(&mut child, noise(32 << 20));
        assert!(!sink.unwrap().wait().unwrap().success());
        is_silent(&child.wait_with_output().unwrap());
        feeding.join().unwrap();
    }
}

#[test]
fn a_consumer_that_is_stopped_for_a_while_gets_every_byte() {
    for way in WAYS {
        let mut child = start!("pipe {way}");
        let mut sink = cat(child.stdout.take().unwrap().into());
        let mut stdin = child.stdin.take().unwrap();
        let mut received = vec![0; 1_000_000];
        stdin.write_all(&noise(8 << 20)[..1_000_000]).unwrap();
        let mut stdout = sink.stdout.take().unwrap();
        stdout.read_exact(&mut received).unwrap();
        interrupt(&sink, "-STOP");
        // The producer has handed off all its bytes.
        stdin.write_all(&noise(8 << 20)[1_000_000..]).unwrap();
        drop(stdin);
        interrupt(&sink, "-CONT");
        stdout.read_to_end(&mut received).unwrap();
        assert!(received == noise(8 << 20), "{way}");
        assert!(sink.wait().unwrap().success());
        is_silent(&child.wait_with_output().unwrap());
    }
}

#[test]
fn a_sink_that_sips_gets_every_byte() {
    for way in WAYS {
        let mut child = start!("pipe {way}");
        let feeding = feed(&mut child, noise(3_000_000));
        let mut stdout = child.stdout.take().unwrap();
        let (mut received, mut sip) = (Vec::new(), [0; 777]);
        while let len @ 1.. = stdout.read(&mut sip).unwrap() {
            received.extend_from_slice(&sip[..len]);
        }
        assert_eq!(sha256(&received), sha256(&noise(3_000_000)), "{way}");
        is_silent(&child.wait_with_output().unwrap());
        feeding.join().unwrap();
    }
}

#[test]
fn a_slow_reader_does_not_hold_the_producer_up_where_the_buffer_suffices() {
    let mut child = start!("pipe -m 16M");
    let mut stdin = child.stdin.take().unwrap();
    let (tell, message) = mpsc::channel();
    let producing = std::thread::spawn(move || {
        stdin.write_all(&noise(16 << 20)).unwrap();
        drop(stdin);
        tell.send(()).unwrap();
    });
    // Nobody has read a byte, and all of them are taken.
    message.recv_timeout(Duration::from_secs(60)).unwrap();
    producing.join().unwrap();
    let output = child.wait_with_output().unwrap();
    is_silent(&output);
    assert_eq!(sha256(&output.stdout), sha256(&noise(16 << 20)));
}
