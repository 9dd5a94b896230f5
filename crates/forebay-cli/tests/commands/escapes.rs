//! Foreign text never reaches a terminal as it is: names in files, names of files, arguments, answers of servers.

use crate::{server, support::*};
use forebay_testing::blocks::{block, option, section, words};
use std::process::Output;

/// It would clear the screen, set a colour, set the title, and reverse what follows; the fourth is a control of eight bits.
const EVIL: &str = "e\u{1b}[2J\u{1b}[31m\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\u{7f}l";

/// Two interfaces of different link types and evil names, a packet of each, and a tail that is torn.
fn evil_capture() -> Vec<u8> {
    let options =
        |codes: [u16; 3]| [&codes.map(|code| option(code, EVIL)).concat()[..], &[0; 4]].concat();
    let mut file = section(&options([2, 3, 4]));
    for link in [1, 101] {
        file.extend(block(1, &[words(&[link, 0]), options([2, 3, 12])].concat()));
    }
    for interface in [0, 1] {
        let head = words(&[interface, 0, 1000, 60, 60]);
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

#[test]
fn names_in_a_file_and_of_files_move_no_cursor() {
    let folder = Folder::new();
    for name in ["in.pcapng", EVIL] {
        let file = folder.file(name, evil_capture());
        let shows_name = name == EVIL;
        let [pcap, pcapng] = ["out.pcap", "out.pcapng"].map(|name| folder.path(name));
        is_plain(&run!("capture -r {file} -w {pcap}"), true);
        is_plain(&run!("capture -r {file} -w {pcapng} --json"), true);
        is_plain(&run!("info {file}"), true);
        is_plain(&run!("info --json {file}"), true);
        for line in [
            "capture tcp port 80 -r",
            "repair -n",
            "repair -n --json",
            "records check",
            "records check --json",
            "records dump",
        ] {
            is_plain(&run!("{line} {file}"), shows_name);
        }
        is_plain(&run!("pipe {file} -o {file}"), shows_name);
    }
}

#[test]
fn arguments_move_no_cursor() {
    for line in [
        "capture -i EVIL",
        "capture -i sim:EVIL=1",
        "capture -i sim EVIL",
        "capture -i sim -c EVIL",
        "capture -i sim -c 1 -w /nowhere/EVIL",
        "capture -i sim -F /nowhere/EVIL",
        "capture --EVIL",
        "EVIL",
        "get EVIL",
        "pipe /nowhere/EVIL",
        "pipe -R EVIL",
        "queue stat EVIL",
        "info /nowhere/EVIL",
        "repair /nowhere/EVIL",
        "records check /nowhere/EVIL",
    ] {
        is_plain(&run!("{}", line.replace("EVIL", EVIL)), true);
    }
    is_plain(&run!("get http://127.0.0.1:1/{}", EVIL), false);
    // An unfinished sequence does not swallow the reason.
    let unfinished = run!("capture -i sim -c '\u{1b}]0;x'");
    is_plain(&unfinished, false);
    contains(unfinished.log(), "is not a count");
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
        is_plain(&run!("get http://{address}/"), false);
    }
}
