//! A store that is away, or restarted, while segments are sent.

use crate::{
    common::{
        assert_counts, captured, done, ok, python_or_skip,
        servers::{Fleet, Running, TO},
    },
    sound, wait_for_ships,
};
use std::{fs, process::Stdio, time::Duration};

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

#[test]
fn a_sensor_whose_clock_differs_from_that_of_the_store_is_named_until_it_is_right() {
    let python = python_or_skip!();
    let mut fleet = Fleet::new(&python);
    let spool = fleet.spool("hall");
    let metrics = fleet.folder.path("ship.prom");
    // The clock of the sensor is two hours slow, then right.
    for (seed, store, ahead_s) in [(1, "7200", -7200), (2, "0", 0)] {
        fleet.store.set_clock(store);
        fleet.start_store();
        let name = format!("spool-hall/{seed}.pcapng");
        captured(&fleet.folder, &name, &format!("count=10,seed={seed}"));
        let ship = ["ship", &spool, TO, "--sensor", "hall", "--once"];
        let (code, _, err) = fleet.run(&[&ship[..], &["--metrics-file", &metrics]].concat());
        let is_wrong = ahead_s != 0;
        assert_eq!((code, err.contains("slower than")), (0, is_wrong), "{err}");
        let text = fs::read_to_string(&metrics).unwrap();
        let name = "\nforebay_ship_clock_ahead_seconds{sensor=\"hall\"} ";
        let value = text.split(name).nth(1).unwrap().lines().next().unwrap();
        // Requests take a moment.
        assert!(
            (value.parse::<i64>().unwrap() - ahead_s).abs() < 30,
            "{value}"
        );
        let named = ok(fleet.run(&["status", TO])).contains("its clock was");
        assert_eq!(named, is_wrong);
        assert_eq!(sound(&fleet)[0]["clock_ahead_s"].is_i64(), is_wrong);
        fleet.store.kill();
    }
}

/// The store is away for longer than the client of the store tries by itself.
#[test]
fn ship_and_index_go_on_after_the_store_was_away() {
    let python = python_or_skip!();
    let mut fleet = Fleet::new(&python);
    fleet.start();
    let spool = fleet.spool("hall");
    let card = |seed: u64| {
        let path = captured(
            &fleet.folder,
            "whole.pcapng",
            &format!("count=100,seed={seed}"),
        );
        fs::rename(path, format!("{spool}/{seed}.pcapng")).unwrap();
    };
    let logs = ["ship", "index"].map(|it| fleet.folder.path(it));
    let commands = [fleet.ship("hall", &[]), fleet.index(&[])];
    let mut running = Vec::new();
    for (mut command, log) in commands.into_iter().zip(&logs) {
        command.stderr(fs::File::create(log).unwrap());
        running.push(Running(command.stdout(Stdio::null()).spawn().unwrap()));
    }
    card(1);
    wait_for_ships(&fleet, &["hall"]);
    fleet.store.kill();
    card(2);
    // The indexer has the first message, or none.
    while !fs::read_to_string(&logs[0])
        .unwrap()
        .contains("Trying again in 2 s")
    {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(fs::exists(format!("{spool}/2.pcapng")).unwrap());
    fleet.store.start();
    wait_for_ships(&fleet, &["hall"]);
    ok(done(fleet.index(&["--once"]).output().unwrap()));
    for running in &mut running {
        assert_eq!(running.end("-TERM"), Some(0));
    }
    let sensor = &sound(&fleet)[0];
    assert_counts(sensor, [("segments", 2), ("captured", 200)]);
    assert_counts(sensor, [("shipped", 200), ("indexed", 200)]);
}
