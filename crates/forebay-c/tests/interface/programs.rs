//! Programs in C that check the interface from outside, and the examples.

use crate::support::{compiled, compilers, library, output, sources};
use std::process::{self, Command};

/// Each program exits with 0, and prints the line that failed otherwise.
#[test]
fn programs_in_c_find_what_the_header_says() {
    let library = library();
    for compiler in compilers() {
        for source in sources("tests/c", "c") {
            let program = compiled(&compiler, &library, &source);
            output(Command::new("timeout").args(["300", &program]));
        }
    }
}

#[test]
fn the_examples_do_what_they_say() {
    let library = library();
    for compiler in compilers() {
        for source in sources("examples", "c") {
            let program = compiled(&compiler, &library, &source);
            match source.file_stem().unwrap().to_str().unwrap() {
                "ring" => assert_eq!(output(&mut Command::new(program)), "sum: 500500\n"),
                "jobs" => {
                    let name = format!("c-example-{}", process::id());
                    output(Command::new(&program).args(["give", &name, "one", "two"]));
                    let did = output(Command::new(&program).args(["work", &name]));
                    assert_eq!(did, "one\ntwo\n");
                }
                _ => drop(output(&mut Command::new(program))),
            }
        }
    }
}
