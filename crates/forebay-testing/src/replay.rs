//! Inputs found by fuzzing, replayed by the checks of their fuzz targets.
#![allow(missing_docs)]

use crate::dice::rounds;
use std::path::Path;

/// Checks the inputs of a file in `tests/corpus` of a crate: one per line, in hexadecimal. There must be more than `few`. Outside of
/// `.ci/run`, it checks each fourth.
pub fn replay(krate: &str, name: &str, few: usize, check: fn(&[u8])) {
    let file = Path::new(krate).join("tests/corpus").join(name);
    let lines = std::fs::read_to_string(file).unwrap();
    let digits = |line: &str| {
        let pairs = (0..line.len()).step_by(2);
        pairs
            .map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap())
            .collect::<Vec<_>>()
    };
    let inputs = lines.lines().map(digits);
    let count = lines.lines().count();
    assert!(count > few, "{name} has only {count} inputs");
    // All of them, or each fourth.
    let each = count / rounds(count);
    inputs.step_by(each).for_each(|bytes| check(&bytes));
}
