//! Tests of `forebay queue`, used as from two shells.

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::{
        fd::OwnedFd,
        unix::{fs::FileExt, net::UnixDatagram},
    },
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};
use support::{fails, text};

/// A queue name for one test. The queue is removed at the end of the test.
struct Name(String);

impl Name {
    fn new(test: &str) -> Name {
        Name(format!("cli-{test}-{}", std::process::id()))
    }

    /// The command `forebay queue WHAT NAME FLAGS`.
    fn command(&self, what: &str, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(["queue", what, &self.0]).args(flags);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn path(&self) -> String {
        format!("/dev/shm/forebay.{}", self.0)
    }

    fn run(&self, what: &str, flags: &[&str], input: &[u8]) -> Output {
        let mut child = self.command(what, flags).spawn().unwrap();
        // A command that refuses the request may have ended before it reads.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = self.run("remove", &[], b"");
    }
}

fn end(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn lines_go_from_one_shell_to_the_other_whichever_starts_first() {
    let name = Name::new("lines");
    let receiver = name.command("recv", &["--create"]).spawn().unwrap();
    assert!(name.run("send", &[], b"1\n2\n").status.success());
    assert!(
        name.run("send", &["--close"], b"\nlast, without an end")
            .status
            .success()
    );
    assert_eq!(
        text(&end(receiver).stdout),
        "1\n2\n\nlast, without an end\n"
    );
    let refused = name.run("send", &[], b"late\n");
    fails(&refused, 1, "message 1 was not sent: the queue is closed");
}

#[test]
fn framed_records_carry_any_bytes() {
    let name = Name::new("framed");
    let records = b"\0\0\0\x03a\nb\0\0\0\0\0\0\0\x01\0";
    assert!(name.run("send", &["--framed"], records).status.success());
    let got = name.run("recv", &["--framed", "-c", "3"], b"");
    assert_eq!(got.stdout, records);
    for (torn, expected) in [
        (&b"\0\0\0\x03ab"[..], "the last record is incomplete"),
        (b"\0\0", "the last record's length is incomplete"),
        (b"\xff\0\0\0", "this queue holds messages of up to"),
    ] {
        let refused = name.run("send", &["--framed"], torn);
        fails(&refused, 1, expected);
    }
}

#[test]
fn counts_are_printed_and_a_removed_queue_is_gone() {
    let name = Name::new("stat");
    assert!(name.run("send", &[], b"a\nb\nc\n").status.success());
    assert_eq!(text(&name.run("recv", &["-c", "1"], b"").stdout), "a\n");
    let message = name.run("stat", &[], b"");
    let lines = text(&message.stdout);
    assert!(
        lines.starts_with("reserved:    3\nreceived:    1\nqueued:      2\n"),
        "{lines}"
    );
    assert!(lines.ends_with(" 48 of 1048576 bytes\n"), "{lines}");
    let object: serde_json::Value =
        serde_json::from_slice(&name.run("stat", &["--json"], b"").stdout).unwrap();
    assert_eq!(
        (object["queued"].as_u64(), object["schema"].as_u64()),
        (Some(2), Some(1))
    );
    assert!(name.run("remove", &[], b"").status.success());
    let gone = name.run("stat", &[], b"");
    fails(&gone, 1, "there is no queue");
}

#[test]
fn messages_of_a_reader_that_left_go_to_the_next_receiver() {
    let name = Name::new("left");
    assert!(name.run("send", &["--close"], b"1\n2\n").status.success());
    let mut receiver = name.command("recv", &[]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let first = receiver.stdout(writer).spawn().unwrap();
    end(first); // a closed pipe is not a failure
    let second = name.run("recv", &["-c", "2"], b"");
    assert_eq!(text(&second.stdout), "1\n2\n");
}

#[test]
fn a_name_that_no_queue_can_have_is_a_bad_request() {
    for what in ["send", "recv", "stat", "remove"] {
        for name in ["a/b", ""] {
            let refused = Name(name.into()).run(what, &[], b"");
            fails(&refused, 2, "1 to 100 letters");
        }
    }
}

#[test]
fn only_send_makes_a_queue_for_an_unknown_name_and_reports_it() {
    let name = Name::new("typo");
    for what in ["recv", "stat", "remove"] {
        let refused = name.run(what, &[], b"");
        assert_eq!(refused.status.code(), Some(1), "{what}: {refused:?}");
        assert!(!fs::exists(name.path()).unwrap(), "{what}");
    }
    let refused = name.run("recv", &[], b"");
    let expected = text(&refused.stderr);
    for part in [
        "there is no queue `cli-typo",
        "forebay queue send",
        "recv --create",
    ] {
        assert!(expected.contains(part), "{expected}");
    }
    let made = format!("forebay: made the queue `{}`\n", name.0);
    assert_eq!(text(&name.run("send", &[], b"x\n").stderr), made);
    assert_eq!(text(&name.run("send", &["--close"], b"y\n").stderr), "");
    let got = name.run("recv", &[], b"");
    assert_eq!((text(&got.stdout), text(&got.stderr)), ("x\ny\n", ""));
}

#[test]
fn an_empty_queue_uses_no_bytes() {
    let name = Name::new("empty");
    let lines = b"some line\n".repeat(20_000);
    let receiver = name.command("recv", &["--create", "-c", "20000"]).spawn();
    assert!(name.run("send", &[], &lines).status.success());
    assert_eq!(end(receiver.unwrap()).stdout, lines);
    let counted = name.run("stat", &[], b"");
    let message = text(&counted.stdout);
    assert!(message.contains("queued:      0\n"), "{message}");
    assert!(message.contains("in use:      0 of"), "{message}");
}

#[test]
fn counts_of_bad_memory_are_a_failure() {
    let name = Name::new("bad");
    assert!(name.run("send", &[], b"a\nb\n").status.success());
    let file = fs::File::options().write(true).open(name.path()).unwrap();
    let noise: Vec<u8> = (0..1024_u32).map(|at| (at * 37 % 251) as u8).collect();
    file.write_all_at(&noise, 128).unwrap();
    for flags in [&[][..], &["--json"]] {
        let message = name.run("stat", flags, b"");
        assert_eq!(message.status.code(), Some(1), "{message:?}");
        assert_eq!(text(&message.stdout), "");
        let expected = text(&message.stderr);
        assert!(
            expected.contains("the queue's memory was overwritten"),
            "{expected}"
        );
    }
}

#[test]
fn a_queue_of_another_user_is_refused_and_gets_nothing() {
    let name = Name::new("foreign");
    assert!(name.run("send", &[], b"mine\n").status.success());
    if std::os::unix::fs::chown(name.path(), Some(1), None).is_err() {
        println!("skipped: needs root, to give a file away");
        return;
    }
    for what in ["send", "recv", "stat"] {
        let refused = name.run(what, &[], b"theirs\n");
        fails(&refused, 1, "it belongs to user 1 ");
    }
    std::os::unix::fs::chown(name.path(), Some(0), None).unwrap();
    let counted = name.run("stat", &[], b"");
    let message = text(&counted.stdout);
    assert!(message.starts_with("reserved:    1\n"), "{message}");
}

#[test]
fn each_write_is_of_whole_messages() {
    for (flags, end) in [(&["-c", "600"][..], 0), (&["-c", "600", "--framed"], 4)] {
        let name = Name::new(if end == 0 { "writes" } else { "framed-writes" });
        // Most are short, some longer than a pipe accepts atomically.
        let messages: Vec<Vec<u8>> = (0..600_usize)
            .map(|number| {
                format!("{number} ")
                    .repeat(1 + number * 7 % 40)
                    .into_bytes()
            })
            .map(|text| {
                if text.starts_with(b"77 ") {
                    text.repeat(100)
                } else {
                    text
                }
            })
            .collect();
        let mut input = Vec::new();
        for message in &messages {
            if end == 0 {
                input.extend([message, &b"\n"[..]].concat());
            } else {
                let with_end = [message, &b"\n\n"[..], message].concat();
                input.extend((with_end.len() as u32).to_be_bytes());
                input.extend(with_end);
            }
        }
        assert!(name.run("send", &flags[2..], &input).status.success());
        // One write is one datagram.
        let (mine, theirs) = UnixDatagram::pair().unwrap();
        let mut receiver = name.command("recv", flags);
        let mut receiver = receiver.stdout(OwnedFd::from(theirs)).spawn().unwrap();
        let (mut got, mut datagram) = (Vec::new(), vec![0; 1 << 20]);
        while got.len() < input.len() {
            let len = mine.recv(&mut datagram).unwrap();
            let text = &datagram[..len];
            assert!(input[got.len()..].starts_with(text));
            let mut left = text;
            let mut count = 0;
            while !left.is_empty() {
                let len = match end {
                    0 => {
                        1 + left
                            .iter()
                            .position(|&byte| byte == b'\n')
                            .expect("a whole line")
                    }
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
    let receiver = |flags: &[&str]| {
        let mut command = name.command("recv", flags);
        command.stdout(writer.try_clone().unwrap()).spawn().unwrap()
    };
    let mut first = receiver(&["--create"]);
    while !fs::exists(name.path()).unwrap() {
        thread::yield_now();
    }
    let mut sender = name.command("send", &["--close"]).spawn().unwrap();
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
        first = receiver(&[]);
    }
    sending.join().unwrap();
    end(sender);
    end(first);
    end(receiver(&[])); // the messages that the last killed receiver held
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
