//! Unchanged programs of Debian, on files.

use crate::support::{command, has_debians, installed, outcome};
use forebay_testing::{foreign::captures, lab::have};

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
