//! Files that cannot be created in the middle of a series: the counts stay exact, and what fits is kept.

use crate::rotation::{VIRTUAL, series, whole};
use crate::support::*;
use std::fs;

#[test]
fn a_second_file_that_cannot_be_created_ends_the_capture_with_exact_counts() {
    let folder = Folder::new();
    fs::create_dir(folder.path("a.pcapng1")).unwrap();
    let output = series(VIRTUAL, &folder, "a.pcapng", "-C 100kB -c 50k");
    output.fails(
        1,
        "a.pcapng1: a series of files can replace only regular files",
    );
    let json = output.json();
    let first = [folder.path("a.pcapng")];
    let found = whole(&first, &json);
    assert_eq!(found[0].packets.len() as u64, count(&json["written"]));
    assert!(count(&json["dropped"]["disk"]) > 0);

    // The folder is removed while the capture runs.
    let (folder, inner) = Folder::with("inner");
    fs::create_dir(&inner).unwrap();
    let flags = "-b duration:100ms --json -q";
    let child = start!("capture -i sim:rate=100M -w {inner}/a.pcapng {flags}");
    wait_until(|| fs::read_dir(&inner).unwrap().count() >= 2);
    fs::rename(&inner, folder.path("moved")).unwrap();
    let output = child.wait_with_output().unwrap();
    output.fails(1, "no such file or directory");
    assert_eq!(output.json()["law_holds"], true);
}

#[test]
fn a_disk_that_fills_up_in_the_middle_of_a_series_keeps_all_that_fits() {
    let folder = Folder::new();
    let (mount, kept) = (folder.path("small"), folder.path("kept"));
    fs::create_dir(&kept).unwrap();
    for (size, flags) in [
        ("1M", "-b filesize:300"),
        ("1M", "-b filesize:256"),
        ("64k", "-C 1kB"),
    ] {
        let script = format!(
            "forebay capture -i sim:rate=max -c 1M -w {mount}/a.pcapng {flags} --store 4x64KiB --json; code=$?
             rm -f {kept}/*; cp -p {mount}/* {kept}; exit $code"
        );
        let Some(output) = on_small_disk(&mount, size, &script) else {
            return;
        };
        let log = output.log();
        let json = output.fails(1, "no space left on device").lawful();
        let entries = fs::read_dir(&kept).unwrap();
        let paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(count(&json["files_written"]), paths.len() as u64, "{log}");
        assert!(paths.len() > 2);
        let found = paths.iter().flat_map(|path| found::open(path).sequences());
        are_each_once(found.collect(), 0..count(&json["written"]));
    }
}
