//! `ship --metrics` and `--metrics-file`.

use crate::common::{archive, captured, ok, places, run};
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
    forebay::store::lock_output(&locked).unwrap();
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
