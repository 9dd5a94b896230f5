//! Tests of `forebay queue`, used as from two shells.

use crate::support::*;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{FileExt, chown},
            net::UnixDatagram,
        },
    },
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

/// A queue name for one test. The queue is removed at the end of the test.
struct Name(String);

impl Name {
    fn new(test: &str) -> Name {
        Name(format!("cli-{test}-{}", std::process::id()))
    }

    /// The command `forebay queue WHAT NAME`, where `what` may have flags after its first word.
    fn command(&self, what: &str) -> Command {
        let (what, flags) = what.split_once(' ').unwrap_or((what, ""));
        let mut command = forebay!("queue {what} '{}' {flags}", self.0);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self, what: &str) -> Child {
        self.command(what).spawn().unwrap()
    }

    fn path(&self) -> String {
        format!("/dev/shm/forebay.{}", self.0)
    }

    fn run(&self, what: &str, input: impl AsRef<[u8]>) -> Output {
        let mut child = self.start(what);
        // A command that refuses the request may have ended before it reads.
        let _ = child.stdin.take().unwrap().write_all(input.as_ref());
        child.wait_with_output().unwrap()
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = self.run("remove", "");
    }
}

fn end(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    output.succeeds();
    output
}

#[test]
fn lines_go_from_one_shell_to_the_other_whichever_starts_first() {
    let name = Name::new("lines");
    let receiver = name.start("recv --create");
    name.run("send", b"1\n2\n").succeeds();
    let last = name.run("send --close", "\nlast, without an end");
    last.succeeds();
    assert_eq!(end(receiver).text(), "1\n2\n\nlast, without an end\n");
    let refused = name.run("send", b"late\n");
    refused.fails(1, "message 1 was not sent: the queue is closed");
}

#[test]
fn framed_records_carry_any_bytes() {
    let name = Name::new("framed");
    let records = b"\0\0\0\x03a\nb\0\0\0\0\0\0\0\x01\0";
    name.run("send --framed", records).succeeds();
    let got = name.run("recv --framed -c 3", "");
    assert_eq!(got.stdout, records);
    for (torn, expected) in [
        (&b"\0\0\0\x03ab"[..], "the last record is incomplete"),
        (b"\0\0", "the last record's length is incomplete"),
        (b"\xff\0\0\0", "this queue holds messages of up to"),
    ] {
        name.run("send --framed", torn).fails(1, expected);
    }
}

#[test]
fn counts_are_printed_and_a_removed_queue_is_gone() {
    let name = Name::new("stat");
    name.run("send", b"a\nb\nc\n").succeeds();
    assert_eq!(name.run("recv -c 1", "").text(), "a\n");
    let stat = name.run("stat", "");
    let lines = "reserved:    3\nreceived:    1\nqueued:      2\n";
    assert!(stat.text().starts_with(lines), "{}", stat.text());
    assert!(
        stat.text().ends_with(" 48 of 1048576 bytes\n"),
        "{}",
        stat.text()
    );
    let object = name.run("stat --json", "").json();
    assert_eq!(counts(&object, ["queued", "schema"]), [2, 1]);
    let of_list = |flags: &str| {
        let ran = run!("queue list {flags}");
        ran.succeeds();
        ran
    };
    let listed = || {
        let all = of_list("--json").json();
        let mut all = all["queues"].as_array().unwrap().clone().into_iter();
        all.find(|it| it["name"] == name.0)
    };
    let row = listed().unwrap();
    assert_eq!(
        counts(&row, ["queued", "used_bytes", "processes"]),
        [2, 48, 0]
    );
    contains(of_list("").text(), &name.0);
    // It takes the messages, and waits.
    let receiver = name.start("recv");
    wait_until(|| count(&listed().unwrap()["queued"]) == 0);
    assert_eq!(count(&listed().unwrap()["processes"]), 1);
    name.run("remove", "").succeeds();
    assert!(listed().is_none());
    name.run("stat", "").fails(1, "there is no queue");
    drop(Mortal(receiver));
}

#[test]
fn messages_of_a_reader_that_left_go_to_the_next_receiver() {
    let name = Name::new("left");
    name.run("send --close", b"1\n2\n").succeeds();
    let mut receiver = name.command("recv");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let first = receiver.stdout(writer).spawn().unwrap();
    end(first); // a closed pipe is not a failure
    assert_eq!(name.run("recv -c 2", "").text(), "1\n2\n");
}

#[test]
fn a_name_that_no_queue_can_have_is_a_bad_request() {
    for what in ["send", "recv", "stat", "remove"] {
        for name in ["a/b", ""] {
            Name(name.into()).run(what, "").fails(2, "1 to 100 letters");
        }
    }
}

#[test]
fn only_send_makes_a_queue_for_an_unknown_name_and_reports_it() {
    let name = Name::new("typo");
    for what in ["recv", "stat", "remove"] {
        let refused = name.run(what, "");
        assert_eq!(refused.status.code(), Some(1), "{what}: {refused:?}");
        assert!(!fs::exists(name.path()).unwrap(), "{what}");
    }
    let refused = name.run("recv", "");
    for part in [
        "there is no queue `cli-typo",
        "forebay queue send",
        "recv --create",
    ] {
        contains(refused.log(), part);
    }
    let made = format!("forebay: made the queue `{}`\n", name.0);
    assert_eq!(name.run("send", "x\n").log(), made);
    assert_eq!(name.run("send --close", "y\n").log(), "");
    let got = name.run("recv", "");
    assert_eq!((got.text(), got.log()), ("x\ny\n", ""));
}

#[test]
fn an_empty_queue_uses_no_bytes() {
    let name = Name::new("empty");
    let lines = b"some line\n".repeat(20_000);
    let receiver = name.start("recv --create -c 20000");
    name.run("send", &lines).succeeds();
    assert_eq!(end(receiver).stdout, lines);
    let counted = name.run("stat", "");
    contains(counted.text(), "queued:      0\n");
    contains(counted.text(), "in use:      0 of");
}

#[test]
fn counts_of_bad_memory_are_a_failure() {
    let name = Name::new("bad");
    name.run("send", b"a\nb\n").succeeds();
    let file = fs::File::options().write(true).open(name.path()).unwrap();
    let noise: Vec<u8> = (0..1024_u32).map(|at| (at * 37 % 251) as u8).collect();
    file.write_all_at(&noise, 128).unwrap();
    for what in ["stat", "stat --json"] {
        let output = name.run(what, "");
        output.fails(1, "the queue's memory was overwritten");
        assert_eq!(output.text(), "");
    }
}

#[test]
fn a_queue_of_another_user_is_refused_and_gets_nothing() {
    let name = Name::new("foreign");
    name.run("send", b"mine\n").succeeds();
    if chown(name.path(), Some(1), None).is_err() {
        println!("skipped: needs root, to give a file away");
        return;
    }
    for what in ["send", "recv", "stat"] {
        name.run(what, "theirs\n").fails(1, "it belongs to user 1 ");
    }
    chown(name.path(), Some(0), None).unwrap();
    let counted = name.run("stat", "");
    assert!(
        counted.text().starts_with("reserved:    1\n"),
        "{counted:?}"
    );
}

#[test]
fn each_write_is_of_whole_messages() {
    for (flag, head) in [("", 0), ("--framed", 4)] {
        let name = Name::new(if head == 0 { "writes" } else { "framed-writes" });
        // Most are short, some longer than a pipe accepts atomically.
        let message = |number: usize| {
            let times = if number == 77 { 100 } else { 1 };
            let text = format!("{number} ").repeat(1 + number * 7 % 40);
            text.repeat(times).into_bytes()
        };
        let mut input = Vec::new();
        for message in (0..600).map(message) {
            if head == 0 {
                input.extend([&message, &b"\n"[..]].concat());
            } else {
                let with_end = [&message, &b"\n\n"[..], &message].concat();
                input.extend((with_end.len() as u32).to_be_bytes());
                input.extend(with_end);
            }
        }
        name.run(&format!("send {flag}"), &input).succeeds();
        // One write is one datagram.
        let (mine, theirs) = UnixDatagram::pair().unwrap();
        let mut receiver = name.command(&format!("recv -c 600 {flag}"));
        let mut receiver = receiver.stdout(OwnedFd::from(theirs)).spawn().unwrap();
        let (mut got, mut datagram) = (Vec::new(), vec![0; 1 << 20]);
        while got.len() < input.len() {
            let len = mine.recv(&mut datagram).unwrap();
            let text = &datagram[..len];
            assert!(input[got.len()..].starts_with(text));
            let mut left = text;
            let mut count = 0;
            while !left.is_empty() {
                let line = left.iter().position(|&byte| byte == b'\n');
                let len = match head {
                    0 => 1 + line.expect("a whole line"),
                    _ => 4 + u32::from_be_bytes(left[..4].try_into().unwrap()) as usize,
                };
                left = left.split_at_checked(len).expect("a whole record").1;
                count += 1;
            }
            assert!(len <= 4096 || count == 1, "{count} messages of {len} bytes");
            got.extend_from_slice(text);
        }
        assert!(receiver.wait().unwrap().success());
    }
}

#[test]
fn killed_receivers_leave_whole_lines_and_lose_none() {
    const LINES: usize = 20_000;
    const KILLS: u64 = 40;
    let name = Name::new("killed");
    let line = |number: usize| format!("{number:08} {}", "x".repeat(number % 150));
    let (reader, writer) = std::io::pipe().unwrap();
    let reading = thread::spawn(move || {
        let lines = BufReader::new(reader).lines().map(Result::unwrap);
        lines.collect::<Vec<_>>()
    });
    let receiver = |what: &str| {
        let mut command = name.command(what);
        command.stdout(writer.try_clone().unwrap()).spawn().unwrap()
    };
    let mut first = receiver("recv --create");
    wait_until(|| fs::exists(name.path()).unwrap());
    let mut sender = name.start("send --close");
    let mut input = sender.stdin.take().unwrap();
    let sending = thread::spawn(move || {
        for number in 0..LINES {
            writeln!(input, "{}", line(number)).unwrap();
        }
    });
    for kill in 0..KILLS {
        thread::sleep(Duration::from_micros(1 + kill * kill % 17 * 700));
        first.kill().unwrap();
        first.wait().unwrap();
        first = receiver("recv");
    }
    sending.join().unwrap();
    end(sender);
    end(first);
    end(receiver("recv")); // the messages that the last killed receiver held
    drop(writer);
    let mut counts = vec![0; LINES];
    for got in reading.join().unwrap() {
        let number: usize = got[..8].parse().unwrap();
        assert_eq!(got, line(number));
        counts[number] += 1;
    }
    assert!(counts.iter().all(|&count| count > 0));
    let twice = counts.iter().filter(|&&count| count > 1).count() as u64;
    assert!(twice <= KILLS * 64, "{twice} lines received more than once");
}
