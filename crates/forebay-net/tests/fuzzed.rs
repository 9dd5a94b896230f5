//! What fuzzing has grown, read again by the checks of its targets: one input a line, in hexadecimal.

#[path = "../../../fuzz/fuzz_targets/answering.rs"]
mod answering;
#[path = "../../../fuzz/fuzz_targets/decoding.rs"]
mod decoding;
#[path = "../../../fuzz/fuzz_targets/filtering.rs"]
mod filtering;

use std::path::Path;

fn replay(name: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let lines = std::fs::read_to_string(folder.join(name)).unwrap();
    let digits = |line: &str| {
        let pairs = (0..line.len()).step_by(2);
        pairs
            .map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap())
            .collect::<Vec<_>>()
    };
    let inputs = lines.lines().map(digits);
    let count = inputs.inspect(|bytes| check(bytes)).count();
    assert!(count > 100, "{name} has only {count} inputs");
}

#[test]
fn classic_files() {
    replay("fuzzed-pcap.hex", decoding::check);
}

#[test]
fn pcapng_files() {
    replay("fuzzed-pcapng.hex", decoding::check);
}

#[test]
fn filters() {
    replay("fuzzed-filter.hex", filtering::check);
}

#[test]
fn answers() {
    replay("fuzzed-answer.hex", answering::check);
}
