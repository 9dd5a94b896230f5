//! Unchanged programs of Debian on live interfaces and on files: `scripts/libpcap-programs`.

use crate::support::{has_debians, ours, outcome};
use forebay_testing::lab::lab;
use std::{path::Path, process::Command};

const PROGRAMS: [&str; 10] = [
    "tcpdump",
    "dumpcap",
    "tshark",
    "nmap",
    "ngrep",
    "arp-scan",
    "tcpreplay",
    "dnscap",
    "hping3",
    "iftop",
];

#[test]
fn debians_programs_have_the_same_results_on_both_libraries() {
    lab(&PROGRAMS, || {
        if !has_debians() {
            return;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/libpcap-programs");
        let mut programs = Command::new(script);
        programs.arg("--library").arg(ours());
        let (table, errors, code) = outcome(&mut programs);
        assert_eq!(code, Some(0), "{table}{errors}");
        // And argus, scapy, and programs in Go and Rust, where they can be built.
        let same = table.matches("| same |").count();
        assert!(same >= PROGRAMS.len(), "{table}{errors}");
    });
}
