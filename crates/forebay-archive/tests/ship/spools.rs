//! Spools with files of other programs, and spools that were copied.

use crate::common::{
    archive, assert_counts, captures, done, ok, places, run, servers::Running, ship, status,
};
use crate::names;
use forebay_net::port::{Port, Wake};
use forebay_testing::foreign;
use std::{fs, path::Path};

/// The packets of a file, up to a damaged place.
fn packets(path: &Path) -> u64 {
    let mut file = forebay_net::file::File::open(path).unwrap();
    loop {
        match file.receive(4096) {
            Ok(mut burst) => while burst.next_frame().is_some() {},
            Err(_) => break,
        }
        if matches!(file.arm(), Ok(Wake::End) | Err(_)) {
            break;
        }
    }
    file.counts().received
}

#[test]
fn captures_of_other_programs_are_shipped_and_found_with_all_their_packets() {
    let files = [foreign::captures("pcap"), foreign::captures("pcapng")].concat();
    if files.is_empty() {
        return;
    }
    let (folder, spool, to) = places();
    let mut expected = 0;
    for (number, path) in files.iter().enumerate() {
        let kind = path.parent().unwrap().file_name().unwrap().display();
        let to = format!("{spool}/{number}.{kind}");
        fs::copy(path, &to).unwrap();
        expected += packets(Path::new(&to));
    }
    ok(ship(&spool, &to, &["--json"]));
    let mut left = names(&spool);
    left.retain(|it| !it.ends_with(".cut") && it != "failed");
    assert!(left.is_empty(), "{left:?}");
    if let Ok(failed) = fs::read_dir(format!("{spool}/failed")) {
        for failed in failed {
            expected -= packets(&failed.unwrap().path());
        }
    }
    let (_, out, err) = run(&["status", &to, "--json"]);
    let sensor = crate::common::last_json(&out);
    assert_eq!(sensor["shipped"], expected, "{out}{err}");
    assert_eq!(sensor["indexed"], expected, "{out}{err}");
    let found = ok(run(&["find", "--in", &to, "--count", "len >= 0"]));
    assert_eq!(found.trim(), expected.to_string());
    // Each packet is one line of the result.
    let result = folder.path("found.pcapng");
    ok(run(&["find", "--in", &to, "len >= 0", "-w", &result]));
    assert_eq!(packets(Path::new(&result)), expected);
}

#[test]
fn two_uploaders_with_copies_of_one_spool_store_each_file_once() {
    let (folder, spool, to) = places();
    captures(&folder, 0..1, 100);
    ok(ship(&spool, &to, &[]));
    captures(&folder, 1..7, 100);
    // As if the machine had been cloned.
    let copy = crate::common::spool(&folder, "copy");
    for entry in fs::read_dir(&spool).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, Path::new(&copy).join(path.file_name().unwrap())).unwrap();
    }
    let begun = [&spool, &copy].map(|it| {
        let mut ship = archive(&["ship", it, &to, "--sensor", "hall", "--once"]);
        Running::start(&mut ship)
    });
    for mut ship in begun {
        // One of them may find that the other one commits. Then it ships the rest when it is started again.
        ship.0.wait().unwrap();
    }
    for spool in [&spool, &copy] {
        ok(ship(spool, &to, &[]));
        assert!(names(spool).is_empty());
    }
    let sensor = &status(&to)[0];
    assert_counts(sensor, [("segments", 7), ("captured", 700)]);
    assert_counts(sensor, [("shipped", 700), ("indexed", 700)]);
    let found = done(
        archive(&["find", "--in", &to, "--count", "len > 0"])
            .output()
            .unwrap(),
    );
    assert_eq!(ok(found).trim(), "700");
}
