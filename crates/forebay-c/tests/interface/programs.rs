//! Programs in C that check the interface from outside, and the examples.

use crate::support::{compiled, compiler, library, output, sources};
use std::process::Command;

/// Each program exits with 0, and prints the line that failed otherwise.
#[test]
fn programs_in_c_find_what_the_header_says() {
    let Some(compiler) = compiler() else { return };
    let library = library();
    for source in sources("tests/c") {
        output(Command::new("timeout").args(["60", &compiled(compiler, &library, &source)]));
    }
}
