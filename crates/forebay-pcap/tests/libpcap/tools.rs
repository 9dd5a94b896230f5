//! Unchanged programs of Debian, on files.

use crate::support::{command, has_debians, installed, outcome};
use forebay_testing::{folder::Folder, foreign::captures, lab::have};

/// Programs with their arguments before the name of a file.
const PROGRAMS: [&[&str]; 4] = [
    &["tcpdump", "-nr"],
    &["tcpdump", "-nevvXXttr"],
    &["tcpdump", "--nano", "-nttr"],
    &["tcpdump", "-dr"],
];

#[test]
fn tcpdump_prints_the_same_on_both_libraries() {
    if !has_debians() || !have("tcpdump") {
        return;
    }
    let library = installed();
    let mut differing = Vec::new();
    let files = captures("pcap").into_iter().chain(captures("pcapng"));
    for (path, program) in files.flat_map(|path| PROGRAMS.map(|program| (path.clone(), program))) {
        let run = |library| {
            let mut command = command(program[0], library);
            command.args(&program[1..]).arg(&path);
            outcome(&mut command)
        };
        let theirs = run(None);
        let ours = run(Some(&library));
        // What Debian's library cannot read, ours may.
        let is_program = program[1].contains('d');
        if theirs.2 == Some(0) && (ours.0 != theirs.0 && !is_program || ours.2 != theirs.2) {
            let line = ours.0.lines().zip(theirs.0.lines()).find(|(a, b)| a != b);
            differing.push(format!(
                "{program:?} {path:?}: {line:?} {} {:?}",
                ours.1, ours.2
            ));
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
}

#[test]
fn tshark_and_dumpcap_list_and_capture_from_the_simulated_card() {
    if !have("tshark") || !have("dumpcap") {
        return forebay_testing::children::skip("tshark");
    }
    let library = installed();
    let folder = Folder::new();
    let listed = outcome(command("dumpcap", Some(&library)).arg("-D"));
    let is_sim = |line: &str| line.split(' ').nth(1) == Some("sim");
    assert!(
        listed.0.lines().chain(listed.1.lines()).any(is_sim),
        "{listed:?}"
    );

    let output = folder.path("a.pcapng");
    let mut dumpcap = command("dumpcap", Some(&library));
    dumpcap.args([
        "-q",
        "-i",
        "sim:rate=100kpps",
        "-c",
        "20",
        "-f",
        "udp",
        "-w",
        &output,
    ]);
    let (_, errors, code) = outcome(&mut dumpcap);
    assert!(
        code == Some(0) && errors.contains("Packets captured: 20"),
        "{errors}"
    );

    let mut tshark = command("tshark", Some(&library));
    tshark.args([
        "-i",
        "sim:rate=100kpps",
        "-c",
        "10",
        "-T",
        "fields",
        "-e",
        "ip.dst",
    ]);
    let (lines, errors, code) = outcome(&mut tshark);
    assert_eq!(
        (lines.lines().count(), code),
        (10, Some(0)),
        "{lines}{errors}"
    );
    assert!(lines.lines().all(|line| line == "198.19.0.1"), "{lines}");
}
