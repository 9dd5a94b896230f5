//! Compiled without cargo-fuzz, the targets are programs that check the files named in their arguments.

use std::process::Command;

#[test]
fn each_target_checks_the_files_that_are_named_and_reports_one_that_is_missing() {
    for program in [
        env!("CARGO_BIN_EXE_answer"),
        env!("CARGO_BIN_EXE_filter"),
        env!("CARGO_BIN_EXE_pcap"),
        env!("CARGO_BIN_EXE_pcapng"),
        env!("CARGO_BIN_EXE_print"),
        env!("CARGO_BIN_EXE_records"),
        env!("CARGO_BIN_EXE_savefile"),
    ] {
        let check = |file: &str| {
            let mut command = Command::new(program);
            command.args(["README.md", file]).output().unwrap()
        };
        let any_bytes = check("Cargo.toml");
        assert!(any_bytes.status.success(), "{program}: {any_bytes:?}");
        let missing = check("missing");
        assert!(!missing.status.success(), "{program}: {missing:?}");
    }
}
