//! Scrapes of a running capture and of one that has ended, and the file for the textfile collector.

use crate::operate::{Running, running};
use crate::support::*;
use std::{fs, io::Read, process::Stdio};

/// The value of a metric without labels besides that of the capture.
#[track_caller]
fn value(text: &str, name: &str) -> f64 {
    let start = format!("forebay_{name}{{");
    let mut lines = text.lines().filter(|line| line.starts_with(&start));
    let line = lines
        .next()
        .unwrap_or_else(|| panic!("no {name} in {text}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// Requires that these metrics are the counts of a summary.
#[track_caller]
fn are_final(text: &str, json: &serde_json::Value) {
    for (name, key) in [
        ("packets_received_total", "received"),
        ("packets_written_total", "written"),
        ("packets_filtered_total", "filtered"),
        ("packets_unread_total", "unread"),
        ("packets_durable_total", "durable"),
        ("durable_bytes_total", "durable_bytes"),
        ("written_bytes_total", "bytes"),
        ("wire_bytes_total", "wire_bytes"),
    ] {
        assert_eq!(
            value(text, name) as u64,
            count(&json[key]),
            "{name}: {text}"
        );
    }
    for (cause, lost) in json["dropped"].as_object().unwrap() {
        let line = format!("cause=\"{cause}\"}} {}\n", count(lost));
        contains(text, line);
    }
    assert_eq!(value(text, "running"), 0.0);
    assert_eq!(value(text, "packets_waiting"), 0.0);
}

#[test]
fn the_last_scrape_equals_the_final_ledger() {
    let (folder, file) = Folder::with("a.pcapng");
    let words =
        format!("-i sim:rate=20M,stall=100ms@500ms,ring=64,host=none -w {file} --metrics 0");
    let capture = running(&folder, &words);
    let first = capture.scrape();
    contains(&first, "Content-Type: text/plain; version=0.0.4");
    assert_eq!(value(&first, "running"), 1.0);
    wait_until(|| capture.scrape().contains("drop_burst_max_packets{"));
    wait_until(|| value(&capture.scrape(), "drop_burst_max_packets") > 0.0);
    let json = capture.control("stop --json").succeeds().json();
    // The counts are served once more.
    let last = capture.scrape();
    are_final(&last, &json);
    assert!(count(&json["dropped"]["kernel"]) > 0, "{json}");
    let mut capture = capture;
    assert_eq!(capture.ended(), json);
}

#[test]
fn without_a_scraper_a_capture_ends_at_once_and_an_interrupt_ends_the_wait_for_one() {
    let folder = Folder::new();
    let output = run!("capture -i sim:clock=virtual -c 1000 --count --json --metrics 0");
    let json = output.keeps_the_law();
    assert_eq!(json["counted"], 1000);
    contains(output.log(), "metrics at http://127.0.0.1:");
    lacks(output.log(), "last scrape");
    let mut capture = running(&folder, "-i sim:rate=1M --count --metrics 127.0.0.1:0");
    capture.scrape();
    capture.control("stop").succeeds();
    assert_eq!(capture.status()["running"], false);
    interrupt(&capture.child.0, "-INT");
    assert_eq!(capture.ended()["law_holds"], true);
}

#[test]
fn the_wait_for_each_client_is_printed_and_ends_when_all_have_the_final_counts() {
    let folder = Folder::new();
    let mut capture = running(&folder, "-i sim:rate=1M --count --metrics 0");
    let scrape = |capture: &Running, agent: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nUser-Agent: {agent}\r\n\r\n");
        capture.http(&request)
    };
    for agent in ["server", "curl"] {
        assert_eq!(value(&scrape(&capture, agent), "running"), 1.0);
    }
    capture.control("stop").succeeds();
    for _ in 0..3 {
        assert_eq!(value(&scrape(&capture, "curl"), "running"), 0.0);
    }
    // These did not end the wait for the server.
    assert_eq!(value(&scrape(&capture, "server"), "running"), 0.0);
    capture.ended();
    let mut log = String::new();
    let stderr = capture.child.0.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut log).unwrap();
    assert_eq!(log.matches("s for the last scrape").count(), 1, "{log}");
}

#[test]
fn other_requests_are_answered_and_a_head_takes_no_peaks() {
    let folder = Folder::new();
    let capture = running(&folder, "-i sim:rate=1M --count --metrics 0");
    let open =
        "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n";
    let open = capture.http(open);
    contains(
        &open,
        "Content-Type: application/openmetrics-text; version=1.0.0",
    );
    assert!(open.ends_with("# EOF\n"), "{open}");
    let head = capture.http("HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.ends_with("Connection: close\r\n\r\n"), "{head}");
    contains(capture.http("GET / HTTP/1.1\r\n\r\n"), "/metrics");
    contains(capture.http("GET /x HTTP/1.1\r\n\r\n"), "404");
    contains(capture.http("DELETE /metrics HTTP/1.1\r\n\r\n"), "405");
    capture.control("stop").succeeds();
    capture.scrape();
    let mut capture = capture;
    capture.ended();
}

#[test]
fn the_file_is_always_whole_and_ends_with_the_final_counts() {
    let folder = Folder::new();
    let (file, prom) = (folder.path("a.pcapng"), folder.path("lan.prom"));
    let words = format!("-i sim:rate=10M -w {file} --metrics-file {prom}");
    let capture = running(&folder, &words);
    let first = fs::read_to_string(&prom).unwrap();
    contains(&first, "forebay_build_info{capture=\"lan\",version=");
    let json = capture.stop();
    let last = fs::read_to_string(&prom).unwrap();
    are_final(&last, &json);
    assert!(!fs::exists(format!("{prom}.part")).unwrap());
    if has("promtool") {
        let mut check = std::process::Command::new("promtool");
        let check = check
            .args(["check", "metrics"])
            .stdin(fs::File::open(&prom).unwrap());
        check.stdout(Stdio::piped()).output().unwrap().succeeds();
    }
}

#[test]
fn what_cannot_be_served_is_an_error_before_anything_is_captured() {
    let (folder, file) = Folder::with("a.pcapng");
    let words = format!("capture -i sim -w {file}");
    run!("{words} --metrics-file {}/none/a.prom", folder.path("")).fails(1, "--metrics-file");
    run!("{words} --metrics-file /dev/null").fails(1, "no regular file");
    run!("{words} --metrics here").fails(2, "is not an address");
    run!("{words} --metrics 127.0.0.1").fails(2, "is not an address");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    run!("capture -i sim --metrics {address}").fails(1, "cannot listen there");
    run!("{words} --control {}", folder.path("")).fails(1, "");
}
