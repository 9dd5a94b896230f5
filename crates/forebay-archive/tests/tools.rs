//! With programs of others: an S3 server (moto), and the packages `deltalake` and `duckdb`.
//!
//! They are in the virtual environment `FOREBAY_ARCHIVE_TOOLS`; without it these tests are skipped.

mod common;

use common::{
    assert_counts, captured, done, files_below, json_of, ok, places, python_or_skip, reports,
    servers::{Fleet, Running, TO},
    ship,
};
use std::{fs, process::Command, time::Duration};

/// The sums that other programs read from the index, and that a scan of the files gives.
#[test]
fn deltalake_and_duckdb_read_the_index_and_find_the_sums_of_the_files() {
    let python = python_or_skip!();
    let (folder, spool, to) = places();
    let mut bytes = 0;
    for seed in 1..=3 {
        let card = format!("count=4000,seed={seed},size=imix");
        let path = captured(&folder, &format!("spool/{seed}.pcapng"), &card);
        let info = forebay_net::info::Info::of(&path);
        bytes += info.unwrap().all.wire_bytes;
    }
    ok(ship(&spool, &to, &[]));
    let script = r#"
import sys, duckdb
from deltalake import DeltaTable
table = DeltaTable(sys.argv[1])
index = table.to_pyarrow_table()
files = table.file_uris()
sums = "select sum(packets), sum(bytes), count(distinct segment), count(distinct community_id) > 0, min(date)::varchar"
print(duckdb.sql(sums + " from index").fetchall()[0])
print(duckdb.sql(sums + f" from read_parquet({files}, hive_partitioning = true)").fetchall()[0])
# The statistics of the log are those of the rows.
low = duckdb.sql("select min(first_ns), min(key_b) from index").fetchall()[0]
acts = table.get_add_actions(flatten=True)
acts = duckdb.sql("select min(\"min.first_ns\"), min(\"min.key_b\") from acts").fetchall()[0]
print(low == acts)
"#;
    let out = Command::new(python)
        .args(["-c", script, &format!("{to}/index")])
        .output()
        .unwrap();
    let (_, out, err) = done(out);
    let sums = format!("(12000, {bytes}, 3, True, '2020-01-01')");
    assert_eq!(
        out.lines().collect::<Vec<_>>(),
        [&*sums, &*sums, "True"],
        "{err}"
    );
}

#[test]
fn an_object_store_is_shipped_to_survives_an_outage_and_its_errors_say_what_to_do() {
    let python = python_or_skip!();
    let mut fleet = Fleet::new(&python);
    let spool = fleet.spool("hall");
    captured(&fleet.folder, "spool-hall/a.pcapng", "count=5000,size=imix");
    // The store is down at first: ship waits.
    let ship = |to| ["ship", &*spool, to, "--sensor", "hall"];
    let mut shipping = Running::start(&mut fleet.command(&ship(TO)));
    let unanswered = fleet.run(&["status", TO]);
    reports(unanswered, 3, "The store does not answer");
    fleet.start_store();
    let missing = [&ship("s3://missing/lab")[..], &["--once"]].concat();
    let (code, _, err) = fleet.run(&missing);
    let expected = ["The bucket does not exist", "another `ship`"];
    assert!(
        code == 1 && expected.iter().any(|it| err.contains(it)),
        "{err}"
    );
    while fs::exists(format!("{spool}/a.pcapng")).unwrap() {
        assert!(shipping.0.try_wait().unwrap().is_none(), "ship ended early");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(shipping);
    captured(&fleet.folder, "spool-hall/b.pcapng", "count=3000,seed=2");
    ok(fleet.run(&[&ship(TO)[..], &["--once"]].concat()));
    let sensor = json_of(fleet.run(&["status", TO, "--json"]));
    assert_counts(&sensor, [("captured", 8000), ("indexed", 8000)]);
    assert_counts(&sensor, [("segments", 2)]);
}

#[test]
fn requests_that_fail_in_the_middle_of_a_search_are_repeated_or_the_loss_is_named() {
    let python = python_or_skip!();
    let mut fleet = Fleet::new(&python);
    fleet.start_store();
    let spool = fleet.spool("hall");
    for seed in 1..=4 {
        let card = format!("count=1000,seed={seed},size=200");
        captured(&fleet.folder, &format!("spool-hall/{seed}.pcapng"), &card);
    }
    ok(fleet.run(&["ship", &spool, TO, "--sensor", "hall", "--once"]));
    // The last part makes reading the packets necessary.
    let find = |more: &[&str]| {
        let find = ["find", "--in", TO, "udp and greater 1"];
        fleet.run(&[&find, more].concat())
    };
    let found = fleet.folder.path("found.pcapng");
    assert_eq!(find(&["-w", &found, "-q"]).0, 0);
    let whole = fs::read(&found).unwrap();
    // Single failures are repeated.
    for part in ["segments/", "_delta_log", "date="] {
        fleet.store.fail(&format!("500 3 {part}"));
        let (code, _, err) = find(&["-w", &found, "-q"]);
        assert_eq!(code, 0, "{part}: {err}");
        assert!(fs::read(&found).unwrap() == whole, "{part}");
    }
    // One segment, whatever is tried: its packets are missing, and it is named.
    let keys = fleet.segments();
    let hash = &keys[0].rsplit_once('/').unwrap().1[..64];
    for status in [500, 403] {
        fleet.store.fail(&format!("{status} 1 {hash}"));
        let (code, out, err) = find(&["--count"]);
        assert_eq!((code, out.trim()), (3, "3000"), "{status}: {err}");
        assert!(
            err.contains(hash) && err.contains("its packets are missing"),
            "{err}"
        );
    }
    // Without the index nothing is known, so there is no count at all.
    for part in ["_delta_log", ".parquet"] {
        fleet.store.fail(&format!("500 1 {part}"));
        let (code, out, err) = find(&["--count"]);
        assert_eq!((code, &*out), (3, ""), "{part}: {err}");
        assert!(err.contains("500 Internal"), "{part}: {err}");
    }
    fleet.store.fail("");
    assert_eq!(find(&["--count"]).1.trim(), "4000");
}

/// Each scenario of the decision about faults has tests, and each of them is there.
#[test]
fn the_tests_that_the_decision_about_faults_names_exist() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let decision = "docs/decisions/82-a-fault-is-that-of-one-object-or-of-the-store.md";
    let decision = fs::read_to_string(format!("{root}/{decision}")).unwrap();
    let files = ["src", "tests"].map(|it| format!("{}/{it}", env!("CARGO_MANIFEST_DIR")));
    let files = files.iter().flat_map(files_below);
    let sources = files.filter(|it| it.extension().is_some_and(|it| it == "rs"));
    let sources: String = sources.map(|it| fs::read_to_string(it).unwrap()).collect();
    let (_, table) = decision.split_once("| Tests |\n").unwrap();
    for row in table.lines().skip(1) {
        let tests = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{row}");
        for name in names {
            let test = format!("#[test]\nfn {name}()");
            let indented = format!("#[test]\n    fn {name}()");
            assert!(
                sources.contains(&test) || sources.contains(&indented),
                "{name}"
            );
        }
    }
}
