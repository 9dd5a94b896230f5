//! What fuzzing has grown, read again by the checks of its target: one input a line, in hexadecimal.

#[path = "../../../fuzz/fuzz_targets/recovering.rs"]
mod recovering;

use std::path::Path;

#[test]
fn record_files() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/fuzzed-records.hex");
    let lines = std::fs::read_to_string(file).unwrap();
    let digits = |line: &str| {
        let pairs = (0..line.len()).step_by(2);
        pairs
            .map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap())
            .collect::<Vec<_>>()
    };
    let inputs = lines.lines().map(digits);
    let count = inputs.inspect(|bytes| recovering::check(bytes)).count();
    assert!(count > 20, "only {count} inputs");
}
