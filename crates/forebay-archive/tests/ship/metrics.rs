//! `ship --metrics` and `--metrics-file`.

use crate::common::{archive, captured, lock, ok, places, reports, run};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::Stdio,
};

/// The value of a metric.
fn value(text: &str, name: &str) -> Option<f64> {
    let start = format!("forebay_ship_{name}{{sensor=\"hall\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    line.map(|it| it.parse().unwrap())
}

fn values(text: &str, unit: &str) -> Vec<Option<f64>> {
    let names = [
        "captured_U",
        "shipped_U_total",
        "waiting_U",
        "dropped_U_total",
        "failed_U_total",
    ];
    names.map(|it| value(text, &it.replace('U', unit))).to_vec()
}

#[test]
fn a_job_writes_when_it_succeeded_and_what_it_counted_also_after_a_failure() {
    let (folder, spool, to) = places();
    captured(&folder, "spool/a.pcapng", "count=100");
    ok(run(&["ship", &spool, &to, "--sensor", "hall", "--once"]));
    let file = folder.path("expire.prom");
    let labels = format!("{{command=\"expire\",archive=\"{to}\"");
    let expire = |more: &[&str]| {
        let expire = ["expire", &to, "--metrics-file", &file];
        let (code, _, err) = run(&[&expire, more].concat());
        let text = fs::read_to_string(&file).unwrap_or_default();
        let value = |name: &str, count: &str| -> Option<f64> {
            let start = format!("forebay_job_{name}{labels}{count}}} ");
            let line = text.lines().find_map(|it| it.strip_prefix(&start));
            line.map(|it| it.parse().unwrap())
        };
        let times = ["last_run", "last_success"];
        let [run, success] = times.map(|it| value(&format!("{it}_timestamp_seconds"), ""));
        let packets = value("result", ",count=\"packets\"");
        assert!(!err.contains("metrics"), "{err}");
        (code, run, success, value("exit_code", ""), packets)
    };
    // Only printed, so it is no run.
    assert_eq!(expire(&["--older-than", "1d", "-n"]).1, None);
    let (code, last, success, exit, packets) = expire(&["--older-than", "1d"]);
    assert!(last.unwrap() > 1.5e9 && last == success);
    assert_eq!((code, exit, packets), (0, Some(0.), Some(100.)));
    let nowhere = folder.path("none/a.prom");
    let compact = run(&["compact", &to, "--metrics-file", &nowhere]);
    reports(compact, 1, "a.prom: writing it: No such file");
    // A log that is damaged. It is read if a segment may go.
    captured(&folder, "spool/b.pcapng", "count=20,seed=2");
    ok(run(&["ship", &spool, &to, "--sensor", "hall", "--once"]));
    fs::write(
        format!("{to}/index/_delta_log/00000000000000000001.json"),
        "x",
    )
    .unwrap();
    let failed = expire(&["--older-than", "1d"]);
    assert_eq!((failed.0, failed.3, failed.4), (1, Some(1.), None));
    assert_eq!(failed.2, success, "when it succeeded last");
}

#[test]
fn metrics_have_the_counts_of_the_law_in_a_file_and_over_http() {
    let (folder, spool, to) = places();
    captured(&folder, "spool/a.pcapng", "count=100");
    captured(&folder, "spool/b.pcapng", "count=20,seed=2");
    fs::write(format!("{spool}/c.pcapng"), [7; 500]).unwrap();
    let file = folder.path("ship.prom");
    let ship = ["ship", &spool, &to, "--sensor", "hall"];
    ok(run(
        &[&ship[..], &["--once", "--metrics-file", &file]].concat()
    ));
    let text = fs::read_to_string(&file).unwrap();
    let known = |counts: [f64; 5]| counts.map(Some).to_vec();
    assert_eq!(
        values(&text, "files"),
        known([3., 2., 0., 0., 1.]),
        "{text}"
    );
    assert_eq!(
        values(&text, "packets"),
        known([120., 120., 0., 0., 0.]),
        "{text}"
    );
    assert_eq!(value(&text, "oldest_waiting_timestamp_seconds"), None);

    // A file that is in use waits.
    let path = captured(&folder, "spool/d.pcapng", "count=7,seed=3");
    let locked = fs::File::options().write(true).open(path).unwrap();
    lock(&locked);
    let mut ship = archive(&[&ship[..], &["--metrics", "0"]].concat());
    let mut ship = ship
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut err = BufReader::new(ship.stderr.take().unwrap());
    err.read_line(&mut line).unwrap();
    let address = line.trim().split_once("http://").unwrap().1;
    let (address, path) = address.split_once('/').unwrap();
    let get = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let waits = loop {
        let answer = get(&format!("/{path}"));
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        if answer.contains("forebay_ship_") {
            break answer;
        }
    };
    assert_eq!(
        values(&waits, "packets"),
        known([7., 0., 7., 0., 0.]),
        "{waits}"
    );
    assert!(value(&waits, "oldest_waiting_timestamp_seconds").unwrap() > 1.5e9);
    assert!(get("/").starts_with("HTTP/1.1 404 "));
    ship.kill().unwrap();
    ship.wait().unwrap();
}
