//! `forebay doctor`: what it finds on a veth pair and as a user without rights.

use super::lab::{ip, lab};
use crate::support::*;
use crate::wire::rights::as_nobody;
use serde_json::Value;
use std::fs;

/// The findings about one subject: state, text and command.
fn findings(args: &[&str], subject: &str) -> (i32, Vec<(String, String, String)>) {
    let output = run!("doctor {} --json", args.join(" "));
    let object = output.json();
    let code = output.status.code().unwrap();
    assert_eq!(object["fine"], code == 0, "{object}");
    let checks = object["checks"].as_array().unwrap().iter();
    let of_subject = checks.filter(|it| it["subject"] == subject);
    let word = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    let found = of_subject.map(|it| (word(it, "state"), word(it, "text"), word(it, "command")));
    (code, found.collect())
}

#[test]
fn interfaces_are_looked_at_and_what_to_do_is_a_command() {
    let folder = Folder::new();
    let folder = folder.path("");
    lab(&[], || {
        let args = ["va", "--folder", &folder];
        let (code, found) = findings(&args, "interface va");
        assert_eq!(code, 0, "{found:?}");
        let up = ("ok".into(), "up, Ethernet, MTU 1500".into(), String::new());
        assert!(found.contains(&up), "{found:?}");
        // Segments that va sends are split after a capture sees them.
        let tso = |it: &&(String, String, String)| it.2 == "sudo ethtool -K va tso off gso off";
        assert!(found.iter().any(|it| tso(&it)), "{found:?}");
        let (_, rights) = findings(&args, "rights");
        assert!(
            rights[0].1.contains("may open packet sockets"),
            "{rights:?}"
        );
        // Without names, all that are up.
        let (_, found) = findings(&["--folder", &folder], "interface vb");
        assert!(!found.is_empty());
        ip("link set va down");
        let (code, found) = findings(&args, "interface va");
        let down = (
            "loss",
            "down: it receives nothing",
            "sudo ip link set va up",
        );
        let [state, message, command] = [down.0, down.1, down.2].map(str::to_owned);
        assert!(found.contains(&(state, message, command)), "{found:?}");
        assert_eq!(code, 1);
        let (code, found) = findings(&["eth99", "--folder", &folder], "interface eth99");
        assert_eq!(code, 1);
        assert_eq!(found[0].1.as_str(), "there is no such interface");
    });
}

#[test]
fn the_disk_is_measured_and_nothing_is_left_there() {
    let folder = Folder::new();
    let path = folder.path("");
    let (_, found) = findings(&["--folder", &path], &format!("disk of {path}"));
    assert!(
        found.iter().any(|it| it.1.starts_with("writes ")),
        "{found:?}"
    );
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    let missing = folder.path("missing");
    let (code, found) = findings(&["--folder", &missing], &format!("disk of {missing}"));
    assert_eq!((code, found[0].0.as_str()), (1, "loss"), "{found:?}");
}

#[test]
fn without_rights_it_says_how_to_get_them() {
    let Some(output) = as_nobody("exec $0 doctor --folder .") else {
        return;
    };
    output.fails(1, "");
    let answer = output.text();
    for part in [
        "CAP_NET_RAW is missing",
        "sudo setcap cap_net_raw+ep /",
        "groups: nogroup",
    ] {
        assert!(answer.contains(part), "{answer}");
    }
    // Commands are never broken.
    let is_long = |line: &&str| line.chars().count() > 80 && !line.contains("sudo ");
    assert_eq!(answer.lines().find(is_long), None);
}
