//! `forebay interfaces`: what it lists of a veth pair, as root and as a user without rights.

use crate::support::*;
use crate::wire::{
    lab::{ip, lab, tool},
    rights::as_nobody,
};
use serde_json::Value;

/// The object about one interface.
fn port(name: &str) -> Value {
    let json = run!("interfaces --json {name}").succeeds().json();
    let ports = json["interfaces"].as_array().unwrap();
    assert_eq!(ports.len(), 1, "{json}");
    ports[0].clone()
}

#[test]
fn interfaces_are_listed_with_what_their_drivers_report() {
    lab(&["ethtool"], || {
        let text = run!("interfaces").succeeds().text().to_owned();
        let row = |name: &str| {
            let mut rows = text.lines().map(words);
            rows.find(|row| row.first() == Some(&name)).expect("a row")
        };
        let [_, state, link, driver, .., time, packet, _] = row("va")[..] else {
            panic!("{text}");
        };
        let cells = [state, link, driver, time, packet];
        assert_eq!(cells, ["up", "Ethernet", "veth", "soft", "yes"], "{text}");
        assert_eq!(text.lines().find(|line| line.chars().count() > 80), None);
        for part in ["\nany ", "\nsim ", "Offloads change captured frames: "] {
            contains(&text, part);
        }
        let va = port("va");
        assert_eq!(va["kind"], "veth", "{va}");
        assert_eq!(va["mtu"], 1500, "{va}");
        assert_eq!(va["backends"]["packet"]["gives"], true, "{va}");
        assert_eq!(va["time_stamps"]["hardware"], false, "{va}");
        assert!(count(&va["queues"]["receive"]) > 0, "{va}");
        let long = run!("interfaces -D va");
        for part in [
            "va: up, Ethernet, MTU 1500",
            "  driver   veth\n",
            "  packet   yes: -i va\n",
        ] {
            contains(long.succeeds().text(), part);
        }
        assert_eq!(text.lines().find(|line| line.chars().count() > 80), None);
    });
}

#[test]
fn the_command_that_it_prints_makes_frames_those_of_the_wire() {
    lab(&["ethtool"], || {
        let va = port("va");
        assert!(!va["not_as_on_the_wire"].as_array().unwrap().is_empty());
        let command = va["command"].as_str().unwrap();
        contains(run!("interfaces -D va").text(), command);
        tool_output(command.strip_prefix("sudo ").unwrap());
        let va = port("va");
        assert_eq!(va["not_as_on_the_wire"], Value::Array(vec![]), "{va}");
        assert_eq!(va["command"], Value::Null);
        assert_eq!(va["offloads"]["tso"]["on"], false);
        lacks(run!("interfaces va").succeeds().text(), "Offloads");
    });
}

#[test]
fn what_cannot_be_captured_has_its_reason() {
    lab(&[], || {
        ip("link set va down");
        let va = port("va");
        assert_eq!(va["state"], "down");
        for backend in ["packet", "xdp"] {
            let backend = &va["backends"][backend];
            assert_eq!(backend["gives"], Value::Null, "{va}");
        }
        contains(
            run!("interfaces").text(),
            "PACKET no: va: the interface is down",
        );
        contains(
            run!("interfaces -D va").text(),
            "packet   no: the interface is down",
        );
        // Opening would refuse it, too.
        ip("link set va up");
        ip("addr add 192.0.2.1/24 dev va");
        if forebay_net::af_xdp::probe().is_ok() {
            let why = port("va")["backends"]["xdp"]["reason"].clone();
            let why = why.as_str().unwrap();
            contains(
                why,
                "the interface has the address 192.0.2.1. With --take-traffic: ",
            );
            let lo = port("lo")["backends"]["xdp"].clone();
            assert_eq!(lo["gives"], Value::Null, "{lo}");
            contains(lo["reason"].as_str().unwrap(), "too long for AF_XDP");
        }
        // The others are listed nevertheless.
        let ran = run!("interfaces vb nope");
        ran.fails(1, "no interface 'nope'; there are: ");
        contains(ran.text(), "vb ");
    });
}

#[test]
fn a_name_of_an_interface_moves_no_cursor_and_runs_no_command() {
    lab(&[], || {
        for name in ["e\u{1b}[31m", "a;reboot", "a'$(id)"] {
            let renamed = tool("ip")
                .args(["link", "set", "va", "name", name])
                .output();
            renamed.unwrap().succeeds();
            for form in ["", "-D", "--json"] {
                let ran = run!("interfaces {form}");
                let text = ran.succeeds().text();
                assert!(!text.contains('\u{1b}'), "{text:?}");
                lacks(text, "-K a;reboot");
                lacks(text, "-K a'$(id)");
            }
            let json = run!("interfaces --json").json();
            let ports = json["interfaces"].as_array().unwrap();
            assert!(ports.iter().any(|it| it["name"] == name), "{json}");
            let back = tool("ip")
                .args(["link", "set", name, "name", "va"])
                .output();
            back.unwrap().succeeds();
        }
    });
}

#[test]
fn without_rights_everything_is_listed_and_the_missing_right_is_named() {
    let Some(output) = as_nobody("exec $0 interfaces") else {
        return;
    };
    let text = output.succeeds().text();
    for part in [
        "lo ",
        "PACKET no: CAP_NET_RAW is missing",
        "sudo setcap cap_net_raw+ep",
    ] {
        contains(text, part);
    }
}
