//! The names that the library exports.

use crate::support;
use std::{collections::BTreeSet, path::Path, process::Command};

/// The names that a library defines for others.
fn exported(library: &Path) -> BTreeSet<String> {
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only"]).arg(library);
    let (names, errors, code) = support::outcome(&mut nm);
    assert_eq!(code, Some(0), "{errors}");
    let names = names
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    names.map(str::to_owned).collect()
}

#[test]
fn exports_the_names_of_debians_library_and_those_of_its_own_header() {
    if support::has_debians() {
        let mut names = exported(&support::ours());
        assert!(names.contains("pcap_open_live"));
        assert!(names.remove("forebay_pcap_stats64"));
        assert_eq!(names, exported(Path::new(support::DEBIAN)));
    }
}

#[test]
fn has_the_name_by_which_programs_load_it() {
    let mut readelf = Command::new("readelf");
    let (text, _, _) = support::outcome(readelf.arg("-d").arg(support::ours()));
    assert!(text.contains("Library soname: [libpcap.so.0.8]"), "{text}");
}
