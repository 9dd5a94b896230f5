//! Files that several threads read, and whose packets are mostly written from where they were read: the same comes out,
//! wherever it goes, and if it does not all fit, the counts report that.

use crate::read::law;
use crate::support::*;
use std::path::Path;

/// A path on a file system that is nothing but memory.
fn in_memory(name: &str) -> Option<String> {
    if !Path::new("/dev/shm").is_dir() {
        eprintln!("skipped: needs /dev/shm");
        return None;
    }
    Some(format!("/dev/shm/forebay-{name}-{}", std::process::id()))
}

/// A file that several threads read, and whose matches are mostly written from where they were read.
fn large(folder: &Folder) -> String {
    recorded(folder, "large.pcapng", "count=80000")
}

#[test]
fn a_large_file_is_copied_alike_in_memory_to_a_disk_and_through_a_pipe() {
    let folder = Folder::new();
    let input = large(&folder);
    let Some(memory) = in_memory("read") else {
        return;
    };
    for filter in [
        "ip",
        "(ether[42] + ether[49]) & 1 = 0",
        "(ether[42] + ether[49]) & 7 = 3",
        "(ether[42] + ether[49]) & 15 != 0",
    ] {
        let disk = folder.path("disk.pcapng");
        let ran = run!("capture -r {input} -w {disk} -q --json '{filter}'");
        let [received, written, filtered] = law(ran.succeeds());
        assert_eq!((received, written + filtered), (80_000, 80_000));
        let sequences_there = found::open(&disk).sequences();
        assert_eq!(sequences_there.len() as u64, written);
        assert!(sequences_there.is_sorted() && written > 1000, "{filter}");
        let piped = run!("capture -r {input} -w - -q '{filter}'");
        piped.succeeds();
        let ran = run!("capture -r {input} -w {memory} -q --json '{filter}'");
        assert_eq!(law(ran.succeeds()), [received, written, filtered]);
        // Past the page cache there is padding between buffers, so packets are compared, and elsewhere bytes.
        assert_eq!(
            found::open(&memory).sequences(),
            sequences_there,
            "{filter}"
        );
        assert!(std::fs::read(&memory).unwrap() == piped.stdout, "{filter}");
    }
    std::fs::remove_file(memory).unwrap();
}

#[test]
fn a_disk_that_fills_while_a_large_file_is_read_keeps_what_fits_and_counts_the_rest() {
    let folder = Folder::new();
    let input = large(&folder);
    for filter in ["ip", "(ether[42] + ether[49]) & 1 = 0"] {
        let Some(found) = into_full_disk(&folder, &format!("-r {input} '{filter}'")) else {
            return;
        };
        let packets = found.sequences();
        assert!(packets.is_sorted() && packets.len() > 10_000);
    }
}

#[test]
fn a_file_size_limit_met_while_a_large_file_is_read_is_an_error_like_a_full_disk() {
    let folder = Folder::new();
    let input = large(&folder);
    let Some(memory) = in_memory("limit") else {
        return;
    };
    for file in [folder.path("a.pcapng"), memory.clone()] {
        let script = format!("ulimit -f 1500; exec forebay capture -r {input} -w {file} --json ip");
        let output = shell(script).output().unwrap();
        let json = output.fails(1, "file too large").lawful();
        let packets = found::open(&file).sequences();
        assert_eq!(packets.len() as u64, count(&json["written"]));
        assert!(packets.is_sorted() && packets.len() > 1000);
    }
    std::fs::remove_file(memory).unwrap();
}

#[test]
fn a_large_file_read_into_a_ring_of_files_loses_nothing_between_them() {
    let folder = Folder::new();
    let input = large(&folder);
    let ring = folder.path("ring.pcapng");
    let ran = run!("capture -r {input} -w {ring} -b packets:30000 -q --json ip");
    assert_eq!(law(ran.succeeds()), [80_000, 80_000, 0]);
    let mut files = folder.names();
    files.retain(|name| name.starts_with("ring"));
    let read = |name: &String| found::open(folder.path(name)).sequences();
    let all: Vec<_> = files.iter().flat_map(read).collect();
    assert_eq!((files.len(), all.len()), (3, 80_000));
    assert!(all.is_sorted());
}
