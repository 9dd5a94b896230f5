//! The names that the library exports.

use crate::support;
use forebay_testing::folder::Folder;
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
fn the_page_lists_each_exported_name_once() {
    let page = include_str!("../../../../docs/libpcap.md");
    let table = page.split("<!-- functions -->").nth(1).unwrap();
    let table = table.split("<!-- end of functions -->").next().unwrap();
    let cells = table.lines().filter_map(|line| line.split('|').nth(2));
    let mut listed: Vec<_> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    listed.sort_unstable();
    let exported = exported(&support::ours());
    assert_eq!(listed, exported.iter().collect::<Vec<_>>());
}

#[test]
fn has_the_name_by_which_programs_load_it() {
    let mut readelf = Command::new("readelf");
    let (text, _, _) = support::outcome(readelf.arg("-d").arg(support::ours()));
    assert!(text.contains("Library soname: [libpcap.so.0.8]"), "{text}");
}

/// Programs of distributions with another name for the library find it by a second link.
#[test]
fn is_loaded_by_programs_that_ask_for_libpcap_so_1() {
    if !support::has_debians() {
        return;
    }
    let (folder, library) = (Folder::new(), support::installed());
    std::os::unix::fs::symlink(support::ours(), library.path("libpcap.so.1")).unwrap();
    let source = folder.file(
        "a.c",
        "#include <pcap/pcap.h>\nint main(void) { puts(pcap_lib_version()); return 0; }",
    );
    // A library that has this name, as on other distributions.
    let (theirs, program) = (folder.path("libpcap.so.1"), folder.path("a"));
    let mut stub = Command::new("cc");
    let text = "const char *pcap_lib_version(void) { return \"stub\"; }";
    stub.args(["-shared", "-Wl,-soname,libpcap.so.1", "-o", &theirs]);
    let stub = support::outcome(stub.arg(folder.file("stub.c", text)));
    assert_eq!(stub.2, Some(0), "{stub:?}");
    let built = support::outcome(Command::new("cc").args([&source, &theirs, "-o", &program]));
    assert_eq!(built.2, Some(0), "{built:?}");
    let (printed, errors, _) = support::outcome(&mut support::command(&program, Some(&library)));
    assert!(printed.contains("(Forebay "), "{printed}{errors}");
}
