//! A store that is away, or restarted, while segments are sent.

use crate::{
    common::{
        assert_counts, captured, ok, python_or_skip,
        servers::{Fleet, Running, TO},
    },
    sound, wait_for_ships,
};
use std::{fs, time::Duration};

/// Segments of more than 8 MiB are sent in parts.
#[test]
fn a_store_and_a_ship_that_are_killed_between_the_parts_of_a_segment_lose_and_double_nothing() {
    let python = python_or_skip!();
    let mut fleet = Fleet::new(&python);
    fleet.start_store();
    let spool = fleet.spool("hall");
    let ship = ["ship", &spool, TO, "--sensor", "hall", "--no-compress"];
    let journal = fleet.folder.path("journal");
    let journaled = || fs::metadata(&journal).unwrap().len();
    for (seed, is_ship_killed) in [(1, false), (2, true)] {
        // Two parts.
        let card = format!("count=6000,size=1514,seed={seed}");
        captured(&fleet.folder, &format!("spool-hall/{seed}.pcapng"), &card);
        let before = journaled();
        let mut running = Running::start(&mut fleet.command(&ship));
        while journaled() < before + (8 << 20) {
            std::thread::sleep(Duration::from_millis(2));
        }
        fleet.store.kill();
        if is_ship_killed {
            running.end("-KILL");
        }
        // The second time, also with a segment that is complete.
        fleet.store.start();
        if is_ship_killed {
            running = Running::start(&mut fleet.command(&ship));
        }
        wait_for_ships(&fleet, &["hall"]);
        assert_eq!(running.end("-TERM"), Some(0));
    }
    let sensor = &sound(&fleet)[0];
    assert_counts(sensor, [("segments", 2), ("captured", 12_000)]);
    assert_counts(sensor, [("shipped", 12_000), ("indexed", 12_000)]);
    let found = ok(fleet.run(&["find", "--in", TO, "--count", "less 2000"]));
    assert_eq!(found.trim(), "12000");
}
