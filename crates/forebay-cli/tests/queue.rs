//! `forebay queue`, as two shells use it.

mod support;

use std::{
    io::Write,
    process::{Child, Command, Output, Stdio},
};
use support::text;

/// A queue's name of its own for each test, removed at its end.
struct Name(String);

impl Name {
    fn new(test: &str) -> Name {
        Name(format!("cli-{test}-{}", std::process::id()))
    }

    /// `forebay queue DO NAME FLAGS`.
    fn command(&self, what: &str, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(["queue", what, &self.0]).args(flags);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, what: &str, flags: &[&str], input: &[u8]) -> Output {
        let mut child = self.command(what, flags).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
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
fn lines_go_from_one_shell_to_the_other_whoever_comes_first() {
    let name = Name::new("lines");
    let receiver = name.command("recv", &[]).spawn().unwrap();
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
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("message 1 was not sent: the queue is closed"));
}

#[test]
fn records_behind_their_length_carry_any_bytes() {
    let name = Name::new("framed");
    let records = b"\0\0\0\x03a\nb\0\0\0\0\0\0\0\x01\0";
    assert!(name.run("send", &["--framed"], records).status.success());
    let got = name.run("recv", &["--framed", "-c", "3"], b"");
    assert_eq!(got.stdout, records);
    for (torn, says) in [
        (&b"\0\0\0\x03ab"[..], "a record is cut off"),
        (b"\0\0", "a record's length is cut off"),
        (b"\xff\0\0\0", "this queue holds messages of up to"),
    ] {
        let refused = name.run("send", &["--framed"], torn);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains(says), "{refused:?}");
    }
}

#[test]
fn counts_are_told_and_a_removed_queue_is_gone() {
    let name = Name::new("stat");
    assert!(name.run("send", &[], b"a\nb\nc\n").status.success());
    assert_eq!(text(&name.run("recv", &["-c", "1"], b"").stdout), "a\n");
    let told = name.run("stat", &[], b"");
    let lines = text(&told.stdout);
    assert!(
        lines.starts_with("reserved:    3\nreceived:    1\nqueued:      2\n"),
        "{lines}"
    );
    assert!(lines.ends_with("bytes\n"));
    let object: serde_json::Value =
        serde_json::from_slice(&name.run("stat", &["--json"], b"").stdout).unwrap();
    assert_eq!(
        (object["queued"].as_u64(), object["schema"].as_u64()),
        (Some(2), Some(1))
    );
    assert!(name.run("remove", &[], b"").status.success());
    let gone = name.run("stat", &[], b"");
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).contains("no such file"), "{gone:?}");
}

#[test]
fn a_reader_that_goes_away_leaves_its_messages_to_the_next_receiver() {
    let name = Name::new("left");
    assert!(name.run("send", &["--close"], b"1\n2\n").status.success());
    let mut receiver = name.command("recv", &[]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let first = receiver.stdout(writer).spawn().unwrap();
    end(first); // a broken pipe is no failure
    let second = name.run("recv", &["-c", "2"], b"");
    assert_eq!(text(&second.stdout), "1\n2\n");
}

#[test]
fn a_name_that_no_queue_can_have_is_a_bad_request() {
    for what in ["send", "recv", "stat", "remove"] {
        for name in ["a/b", ""] {
            let refused = Name(name.into()).run(what, &[], b"");
            assert_eq!(refused.status.code(), Some(2), "{what}: {refused:?}");
            assert!(text(&refused.stderr).contains("1 to 100 letters"));
        }
    }
}
