//! Files that cannot be created in the middle of a series: the counts stay exact, and what fits is kept.

use crate::{
    VIRTUAL, series,
    support::{Folder, count, fails, forebay, found::read, on_small_disk, summary, text, words},
    whole,
};
use std::{
    fs::{self, File},
    process::Stdio,
    time::Duration,
};

#[test]
fn a_second_file_that_cannot_be_created_ends_the_capture_with_exact_counts() {
    let folder = Folder::new();
    fs::create_dir(folder.path("a.pcapng1")).unwrap();
    let output = series(VIRTUAL, &folder, "a.pcapng", &["-C", "100kB", "-c", "50k"]);
    fails(
        &output,
        1,
        "a.pcapng1: a series of files can replace only regular files",
    );
    let json = summary(&output.stdout);
    let first = [folder.path("a.pcapng")];
    let found = whole(&first, &json);
    assert_eq!(found[0].packets.len() as u64, count(&json["written"]));
    assert!(count(&json["dropped"]["disk"]) > 0);

    // The folder is removed while the capture runs.
    let folder = Folder::new();
    let inner = folder.path("inner");
    fs::create_dir(&inner).unwrap();
    let name = format!("{inner}/a.pcapng");
    let line = format!("-i sim:rate=100M -w {name} -b duration:100ms --json -q");
    let args = words(&line);
    let child = forebay(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let moved = folder.path("moved");
    while fs::read_dir(&inner).unwrap().count() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::rename(&inner, &moved).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!(summary(&output.stdout)["law_holds"], true);
    assert!(
        text(&output.stderr).contains("no such file or directory"),
        "{}",
        text(&output.stderr)
    );
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
            "{} capture -i sim:rate=max -c 1M -w {mount}/a.pcapng {flags} --store 4x64KiB --json; code=$?
             rm -f {kept}/*; cp -p {mount}/* {kept}; exit $code",
            env!("CARGO_BIN_EXE_forebay"),
        );
        let Some(output) = on_small_disk(&mount, size, &script) else {
            return;
        };
        let log = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{log}");
        assert!(log.contains("no space left on device"), "{log}");
        let json = summary(&output.stdout);
        assert_eq!(json["law_holds"], true);
        let mut paths: Vec<_> = fs::read_dir(&kept)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        paths.sort();
        assert_eq!(count(&json["files_written"]), paths.len() as u64, "{log}");
        assert!(paths.len() > 2);
        let packets = paths
            .iter()
            .flat_map(|path| read(File::open(path).unwrap()).packets);
        let mut found: Vec<u64> = packets.map(|packet| packet.sequence).collect();
        found.sort_unstable();
        assert_eq!(found, (0..count(&json["written"])).collect::<Vec<_>>());
    }
}
