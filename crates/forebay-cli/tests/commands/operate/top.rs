//! `forebay top --control NAME`: a running capture as its user watches it.

use crate::operate::running;
use crate::support::*;
use etherparse::PacketBuilder;
use forebay_testing::lab;
use std::io::Read;

#[test]
fn top_shows_the_counts_of_a_capture_and_the_flows_that_it_shares() {
    let (folder, sharing) = (Folder::new(), Folder::new());
    let file = folder.path("a.pcapng");
    let lossy = "sim:rate=10M,stall=50ms@200ms,ring=64,host=none";
    let capture = running(&folder, &format!("-i {lossy} -w {file}"));
    wait_until(|| capture.status()["dropped"]["kernel"].as_u64() > Some(0));
    let before = capture.status();
    let top = run!(
        "top --control {} --once --interval 0.5 --json",
        capture.socket
    );
    let after = capture.status();
    let json = top.succeeds().json();
    assert_eq!(json["sources"], "lan");
    // Its counts are those of the capture, since its start.
    for (shown, of_capture) in [("packets", "taken"), ("bytes", "wire_bytes")] {
        let range = count(&before[of_capture])..=count(&after[of_capture]);
        assert!(
            range.contains(&count(&json[shown])),
            "{shown}: {json}, {range:?}"
        );
    }
    let lost = |json: &serde_json::Value, key: &str| count(&json[key]["kernel"]);
    let range = lost(&before, "dropped")..=lost(&after, "dropped");
    assert!(range.contains(&lost(&json, "lost")), "{json}, {range:?}");
    assert!(json["packets_per_second"].as_f64() > Some(0.0), "{json}");
    assert!(json["buffer_max_fill"].is_f64(), "{json}");
    let text = run!("top --control {} --once --interval 0.3", capture.socket);
    contains(text.succeeds().text(), "start it with --share NAME");

    let name = format!("forebay-top-{}", std::process::id());
    let sharing = running(&sharing, &format!("-i sim:rate=1M --share {name}"));
    let top = run!("top --control {} --once --json udp", sharing.socket);
    let json = top.succeeds().json();
    assert_eq!(json["protocols"][0]["name"], "udp", "{json}");
    assert!(count(&json["packets"]) > 0, "{json}");
    sharing.stop();
    capture.stop();
}

#[test]
fn a_capture_that_does_not_run_is_an_error() {
    let folder = Folder::new();
    run!("top --control {} --once", folder.path("none")).fails(1, "no such capture");
    run!("top --control a -i sim --once").fails(2, "cannot be used with");
}

#[test]
fn the_counts_of_a_capture_in_another_network_namespace_are_shown_without_its_flows() {
    let folder = Folder::new();
    let socket = folder.path("lan");
    let name = format!("forebay-there-{}", std::process::id());
    let mut command = std::process::Command::new("unshare");
    command.args([
        "--net",
        FOREBAY,
        "capture",
        "-i",
        "sim:rate=1M",
        "--count",
        "--share",
        &name,
    ]);
    command.args(["--control", &socket]);
    let mut capture = Mortal(piped(&mut command));
    let is_there = || run!("control {socket}").status.success();
    wait_until(|| is_there() || capture.0.try_wait().unwrap().is_some());
    if !is_there() {
        return children::skip("the right to make a network namespace");
    }
    let top = run!("top --control {socket} --once --interval 0.5");
    contains(
        top.succeeds().text(),
        "another network namespace. From there: nsenter -t",
    );
    lacks(top.text(), " 0 packets");
    let json = run!("top --control {socket} --once --interval 0.5 --json")
        .succeeds()
        .json();
    assert!(json["packets_per_second"].as_f64() > Some(0.0), "{json}");
    contains(
        json["no_tables_because"].as_str().unwrap(),
        "network namespace",
    );
    interrupt(&capture.0, "-INT");
    capture.ends_well();
}

#[test]
fn top_ends_when_its_terminal_is_gone() {
    let terminal = terminal::Terminal::new(80);
    let mut top = terminal.command(FOREBAY);
    let mut top = top.args(["top", "-i", "sim:rate=1M"]).spawn().unwrap();
    let mut screen = terminal.screen();
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains("forebay top") {
        let mut bytes = [0; 1000];
        let len = screen.read(&mut bytes).unwrap();
        shown.extend(&bytes[..len]);
    }
    drop((terminal, screen));
    wait_until(|| top.try_wait().unwrap().is_some());
    assert!(top.wait().unwrap().success());
}

#[test]
fn hosts_and_ports_have_the_names_that_the_packets_contain() {
    let between = |from: u8, to: u8| {
        let address = |host| [10, 0, 0, host];
        PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(address(from), address(to), 64)
    };
    let name = b"\x07example\x03com\x00\x00\x01\x00\x01";
    let answer = [
        b"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00",
        &name[..],
        b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x00\x00\x07",
    ];
    let [mut dns, mut syn] = [Vec::new(), Vec::new()];
    let udp = between(1, 9).udp(53, 40000);
    udp.write(&mut dns, &answer.concat()).unwrap();
    let tcp = between(9, 7).tcp(50000, 443, 1, 1000).syn();
    tcp.write(&mut syn, &[]).unwrap();
    let folder = Folder::new();
    // The name is also that of the packets before it.
    let file = folder.file("a.pcap", lab::classic(&[syn.clone(), dns, syn]));
    let text = run!("top -r {file} --once --names");
    for line in [
        "tcp  10.0.0.9:50000 - example.com:https ",
        "udp  10.0.0.9:40000 - 10.0.0.1:domain ",
        "example.com ",
        "https/tcp ",
    ] {
        contains(text.succeeds().text(), format!("\n{line}"));
    }
    let json = run!("top -r {file} --once --json --names")
        .succeeds()
        .json();
    let flow = &json["flows"][0];
    assert_eq!(flow["name"], "tcp  10.0.0.9:50000 - 10.0.0.7:443", "{json}");
    assert!(flow["name_a"].is_null(), "{json}");
    assert_eq!(flow["name_b"], "example.com");
    assert_eq!(flow["service_name"], "https");
    let numbers = run!("top -r {file} --once");
    lacks(numbers.succeeds().text(), "example");
}
