//! Wrong use of the interface is an error, and never a crash. `scripts/libpcap-sanitizers` runs the same program with sanitizers.

use crate::support::{command, compiled, has_debians, installed, outcome};
use forebay_testing::{folder::Folder, lab::classic, sender::frame};

/// What the program prints, without the numbers of functions that did their work.
const EXPECTED: &str = "\
null 0 offline_filter 0 open 0 0 0 findalldevs 0 lookupnet 0 lookupdev 1 names -1 -1 -1
created closed 0 activate -1 loop -1
activate 0 -4 loop -2 dispatch 1
live closed 0 activate -1 loop -1
dead closed 0 activate -1 loop -1
file closed 0 activate -1 loop -1
file n loop 0 calls 3
file d loop 0 calls 3
file e loop 0 calls 1
file c loop -2 calls 1
file C loop -2 calls 1
file w loop 0 calls 3
live n loop 0 calls 3
live d loop 0 calls 3
live e loop 0 calls 3
live c loop -2 calls 1
live C loop -2 calls 1
live w loop 0 calls 3
many 100
";

#[test]
fn every_function_in_odd_orders_is_an_error_or_does_its_work() {
    if !has_debians() {
        return;
    }
    let (folder, library) = (Folder::new(), installed());
    let frames: Vec<_> = (0..9).map(|n| frame(n, 60)).collect();
    let (file, output) = (
        folder.file("a.pcap", classic(&frames)),
        folder.path("out.pcap"),
    );
    let misuse = compiled(&folder, "misuse.c");
    let (text, errors, code) = outcome(command(&misuse, Some(&library)).args([&file, &output]));
    let without_counts = |line: &str| match line.split_once(" closed") {
        Some((kind, rest)) => format!("{} closed{rest}\n", kind.split(' ').next().unwrap()),
        None => format!("{line}\n"),
    };
    let text: String = text.lines().map(without_counts).collect();
    assert_eq!((text.as_str(), code), (EXPECTED, Some(0)), "{errors}");
}
