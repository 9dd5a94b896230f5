//! Foreign text never reaches a terminal as it is: names in files, names of files, arguments, answers of servers.

#[path = "support/server.rs"]
mod server;
mod support;

use std::process::{Command, Output, Stdio};
use support::Folder;

/// It would clear the screen, set a colour, set the title, and reverse what follows; the fourth is a control of eight bits.
const EVIL: &str = "e\u{1b}[2J\u{1b}[31m\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\u{7f}l";

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (12 + body.len() as u32).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, body, &len].concat()
}

fn option(code: u16, text: &str) -> Vec<u8> {
    let mut option = [code.to_le_bytes(), (text.len() as u16).to_le_bytes()].concat();
    option.extend(text.as_bytes());
    option.resize(option.len().next_multiple_of(4), 0);
    option
}

/// Two interfaces of different link types and evil names, a packet of each, and a tail that is torn.
fn evil_capture() -> Vec<u8> {
    let section = [
        0x1a2b_3c4d_u32.to_le_bytes(),
        [1, 0, 0, 0],
        [255; 4],
        [255; 4],
    ]
    .concat();
    let texts = [
        option(2, EVIL),
        option(3, EVIL),
        option(4, EVIL),
        vec![0; 4],
    ]
    .concat();
    let mut file = block(0x0a0d_0d0a, &[section, texts].concat());
    for link in [1_u32, 101] {
        let texts = [
            option(2, EVIL),
            option(3, EVIL),
            option(12, EVIL),
            vec![0; 4],
        ]
        .concat();
        file.extend(block(
            1,
            &[&link.to_le_bytes()[..], &[0; 4], &texts].concat(),
        ));
    }
    for interface in [0_u32, 1] {
        let head = [interface, 0, 1000, 60, 60].map(u32::to_le_bytes).concat();
        file.extend(block(6, &[head, vec![0; 60]].concat()));
    }
    file.extend([6, 0, 0, 0, 100, 0]);
    file
}

#[track_caller]
fn is_plain(ran: &Output, shows: bool) {
    for bytes in [&ran.stdout, &ran.stderr] {
        let log = String::from_utf8_lossy(bytes);
        let is_evil = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
        assert!(!log.contains(is_evil), "{log:?}");
    }
    let both = [&ran.stdout[..], &ran.stderr].concat();
    let both = String::from_utf8_lossy(&both);
    assert!(!shows || both.contains("[31m"), "it must be shown: {both}");
}

fn ran(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(args).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn names_in_a_file_and_of_files_move_no_cursor() {
    let folder = Folder::new();
    let good_name = folder.path("in.pcapng");
    let evil_name = folder.path(EVIL);
    for name in [&good_name, &evil_name] {
        std::fs::write(name, evil_capture()).unwrap();
        let shows = name == &evil_name;
        is_plain(
            &ran(&["capture", "-r", name, "-w", &folder.path("out.pcap")]),
            true,
        );
        is_plain(
            &ran(&[
                "capture",
                "-r",
                name,
                "-w",
                &folder.path("o.pcapng"),
                "--json",
            ]),
            true,
        );
        is_plain(&ran(&["capture", "-r", name, "tcp port 80"]), shows);
        is_plain(&ran(&["info", name]), true);
        is_plain(&ran(&["info", "--json", name]), true);
        is_plain(&ran(&["repair", "-n", name]), shows);
        is_plain(&ran(&["repair", "-n", "--json", name]), shows);
        is_plain(&ran(&["records", "check", name]), shows);
        is_plain(&ran(&["records", "check", "--json", name]), shows);
        is_plain(&ran(&["records", "dump", name]), shows);
        is_plain(&ran(&["pipe", name, "-o", name]), shows);
    }
}

#[test]
fn arguments_move_no_cursor() {
    let missing = format!("/nowhere/{EVIL}");
    is_plain(&ran(&["capture", "-i", EVIL]), true);
    is_plain(&ran(&["capture", "-i", &format!("sim:{EVIL}=1")]), true);
    is_plain(&ran(&["capture", "-i", "sim", EVIL]), true);
    is_plain(&ran(&["capture", "-i", "sim", "-c", EVIL]), true);
    // An unfinished sequence does not swallow the reason.
    let unfinished = ran(&["capture", "-i", "sim", "-c", "\u{1b}]0;x"]);
    is_plain(&unfinished, false);
    let error = String::from_utf8_lossy(&unfinished.stderr);
    assert!(error.contains("is not a count"), "{error}");
    is_plain(
        &ran(&["capture", "-i", "sim", "-c", "1", "-w", &missing]),
        true,
    );
    is_plain(&ran(&["capture", "-i", "sim", "-F", &missing]), true);
    is_plain(&ran(&["capture", &format!("--{EVIL}")]), true);
    is_plain(&ran(&[EVIL]), true);
    is_plain(&ran(&["get", EVIL]), true);
    is_plain(&ran(&["get", &format!("http://127.0.0.1:1/{EVIL}")]), false);
    is_plain(&ran(&["pipe", &missing]), true);
    is_plain(&ran(&["pipe", "-R", EVIL]), true);
    is_plain(&ran(&["queue", "stat", EVIL]), true);
    is_plain(&ran(&["info", &missing]), true);
    is_plain(&ran(&["repair", &missing]), true);
    is_plain(&ran(&["records", "check", &missing]), true);
}

#[test]
fn answers_of_a_server_move_no_cursor() {
    let answers = [
        format!("HTTP/1.1 404 {EVIL}\r\nContent-Length: 0\r\n\r\n"),
        format!("HTTP/1.1 302 Found\r\nLocation: /{EVIL}\r\nContent-Length: 0\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nContent-Length: {EVIL}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {EVIL}\r\n\r\n"),
        format!("{EVIL}\r\n\r\n"),
    ];
    for answer in answers {
        let address = server::serve_bytes(answer);
        is_plain(&ran(&["get", &format!("http://{address}/")]), false);
    }
}
