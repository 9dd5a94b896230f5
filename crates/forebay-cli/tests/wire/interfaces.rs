//! Interfaces that are listed, go away, or stay quiet.

use crate::{
    Load, check, ended,
    lab::{ip, lab},
    listening,
    support::{count, forebay, found::read, interrupt},
};
use std::{fs::File, time::Duration};

#[test]
fn an_interface_that_goes_down_or_away_ends_the_capture_with_a_readable_file() {
    lab(&["tcpreplay"], || {
        for (loss, words) in [
            ("link set vb down", "went down"),
            ("link del vb", "is gone"),
        ] {
            let load = Load::new("5k");
            let file = load.path("got.pcapng");
            ip("link set vb up");
            let child = listening(&["-w", &file]);
            load.send();
            ip(loss);
            let (code, json, said) = ended(child);
            assert_eq!(code, 1, "{said}");
            assert!(
                said.contains("vb: the interface ") && said.contains(words),
                "{said}"
            );
            check(&json, &read(File::open(&file).unwrap()), 5000);
        }
    });
}

#[test]
fn the_list_shows_what_can_be_captured_from() {
    lab(&[], || {
        let output = forebay(&["-D"]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.contains("va [Up, Running]") && said.contains("lo [Up, Running, Loopback]"),
            "{said}"
        );
        let output = forebay(&["-i", "vc"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains("no interface 'vc'") && said.contains("did you mean va?"),
            "{said}"
        );
        assert_eq!(output.status.code(), Some(1));
        ip("link set vb down");
        let output = forebay(&["-i", "vb"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("ip link set vb up"), "{said}");
    });
}

#[test]
fn a_quiet_interface_is_slept_on() {
    lab(&[], || {
        let child = listening(&["-w", "/dev/null"]);
        std::thread::sleep(Duration::from_secs(2));
        interrupt(&child, "-INT");
        let (code, json, said) = ended(child);
        assert_eq!(code, 0, "{said}");
        let poll = &json["poll"];
        assert!(poll["asleep_seconds"].as_f64().unwrap() > poll["busy_seconds"].as_f64().unwrap());
        assert!(count(&poll["looks"]) < 1000, "{poll}");
        assert!(said.contains("asleep "), "{said}");
    });
}
