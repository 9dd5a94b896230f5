//! Programs without rights that read the packets of another capture.

use crate::support::{command, compiled, has_debians, installed, ours, outcome};
use forebay_net::{
    port::{Frame, Interface},
    share::{Access, Listener, Publisher},
};
use forebay_testing::{children::Mortal, folder::Folder, lab::have, sender::frame};
use std::{
    io::{self, BufRead, BufReader, PipeReader, Read},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    thread,
};

/// The user and the group `nobody`.
const NOBODY: u32 = 65534;
const PACKETS: u64 = 30_000;

/// A program of the user `nobody`, once it listens, and the rest of its messages and its output.
fn listening(mut program: Command) -> (Mortal, BufReader<PipeReader>) {
    let (reader, writer) = io::pipe().unwrap();
    program.stdout(writer.try_clone().unwrap()).stderr(writer);
    program.stdin(Stdio::null()).uid(NOBODY).gid(NOBODY);
    program.env("HOME", std::env::temp_dir());
    let running = Mortal(program.spawn().unwrap());
    // Otherwise its end would keep the pipe open.
    drop(program);
    let (mut output, mut line) = (BufReader::new(reader), String::new());
    while !line.contains("listening on") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "it ended");
    }
    (running, output)
}

/// The number before this text.
fn count(printed: &str, text: &str) -> u64 {
    let found = printed.lines().find_map(|line| line.strip_suffix(text));
    let number = found.and_then(|number| number.trim().parse().ok());
    number.unwrap_or_else(|| panic!("no{text}: {printed}"))
}

#[test]
fn programs_without_rights_read_one_share_at_once_and_report_exactly_what_they_missed() {
    if !has_debians() || !have("tcpdump") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return forebay_testing::children::skip("root, to become another user");
    }
    let (folder, library) = (Folder::new(), installed());
    let reader = compiled(&folder, "reader.c");
    let mut publisher = Publisher::new(1 << 20).unwrap();
    let interface = publisher.introduce(&Interface::default());
    let source = publisher.source();
    let name = format!("pcap{}", std::process::id());
    let group = Access {
        group: Some(NOBODY),
    };
    let _listener = Listener::start(&name.parse().unwrap(), &source, group).unwrap();
    let device = format!("share:{name}");

    let with = |program: &str, words: &[&str]| {
        let mut program = command(program, Some(&library));
        program.args(words);
        listening(program)
    };
    let mut programs = [
        with(&reader, &[&device]),
        with(&reader, &[&device]),
        with("tcpdump", &["-i", &device, "-w", "/dev/null"]),
    ];
    programs[0].0.signal(libc::SIGSTOP);
    for number in 0..PACKETS {
        publisher.publish(interface, &Frame::whole(&frame(number, 100)));
        if number % 100 == 0 {
            thread::yield_now();
        }
    }
    programs[0].0.signal(libc::SIGCONT);
    publisher.finish(0);
    let missed = programs.each_mut().map(|(program, output)| {
        let mut printed = String::new();
        output.read_to_string(&mut printed).unwrap();
        program.ends_well();
        let captured = count(&printed, " packets captured");
        let dropped = count(&printed, " packets dropped by kernel");
        assert_eq!(captured + dropped, PACKETS, "{printed}");
        dropped
    });
    assert!(missed[0] > 0, "{missed:?}");
}

#[test]
fn debians_programs_share_a_capture_that_loses_nothing_while_one_of_them_is_stopped() {
    if !has_debians() || !have("tcpdump") || !have("tshark") {
        return;
    }
    // As cargo has built it for the tests of the command.
    let forebay = ours().with_file_name("../forebay");
    if !rustix::process::geteuid().is_root() || !forebay.exists() {
        return forebay_testing::children::skip("root, and cargo build -p forebay-cli");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/libpcap-share");
    let mut share = Command::new(script);
    share.args(["--stop", "tcpdump", "--seconds", "1.5", "--pps", "5000"]);
    share
        .arg("--library")
        .arg(ours())
        .arg("--forebay")
        .arg(forebay);
    let (table, errors, code) = outcome(&mut share);
    assert_eq!(code, Some(0), "{table}{errors}");
    // And scapy and gopacket, where they are installed.
    assert!(table.matches("| yes |").count() >= 2, "{table}{errors}");
}
