//! `top --write-flows`: the key `w` writes the selected flow.

use crate::screens::tmux::Tmux;
use crate::support::*;
use std::{thread::sleep, time::Duration};

/// The file that the screen says is written, and its number of packets.
fn packets_shown(screen: &str) -> Option<(String, u64)> {
    let mut lines = screen.lines();
    let line = lines.find_map(|line| line.strip_prefix("written "))?;
    let (path, packets) = line.trim().split_once(": ")?;
    let (count, _) = packets.split_once(" packet")?;
    Some((path.to_owned(), count.parse().ok()?))
}

/// The same, once `name` is in it and a second look finds the same: a screen may be seen while it is drawn.
fn written(tmux: &Tmux, name: &str) -> (String, u64) {
    let is_named = |it: &str| packets_shown(it).is_some_and(|(path, _)| path.contains(name));
    let mut before = None;
    loop {
        let shown = packets_shown(&tmux.waits_for(is_named));
        if shown == before {
            return shown.unwrap();
        }
        before = shown;
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_key_w_writes_all_packets_of_a_flow_of_a_file() {
    let Some(tmux) = Tmux::new(80, 24) else {
        return;
    };
    let file = recorded(tmux.folder(), "a.pcapng", "rate=1M,count=3000");
    tmux.enter("mkdir flows; forebay top a.pcapng --write-flows flows udp");
    tmux.shows("ended");
    tmux.press("Enter");
    for name in ["57314-198.19.0.1-9.pcapng", "57314-198.19.0.1-9-2.pcapng"] {
        tmux.press("w");
        let (path, shown) = written(&tmux, name);
        let of = |file: &str, filter: &str| {
            let printed = run!("capture -r {file} -tt -e -x {filter}");
            printed.succeeds().text().to_owned()
        };
        let expected = of(&file, "port 57314");
        assert_eq!(of(&tmux.folder().path(&path), ""), expected);
        assert_eq!(expected.matches("length 60").count() as u64, shown);
    }
    tmux.press("q");
    tmux.press("q");
    tmux.shows("-9-2.pcapng: 47 packets");
}

#[test]
fn the_key_w_writes_whole_packets_of_a_live_flow_until_it_is_pressed_again() {
    let Some(tmux) = Tmux::new(80, 24) else {
        return;
    };
    tmux.enter("forebay top sim:rate=10M,size=1000 --write-flows .");
    tmux.shows("198.19.0.1");
    tmux.press("Enter");
    tmux.press("w");
    tmux.waits_for(|it| it.contains("writing ") && !it.contains(": 0 packets"));
    tmux.press("w");
    let (path, shown) = written(&tmux, ".pcapng");
    let path = tmux.folder().path(&path);
    let written = run!("capture -r {path} --csv --fields length,source,source_port");
    let rows: Vec<_> = written.succeeds().text().lines().skip(1).collect();
    assert_eq!(rows.len() as u64, shown);
    // Without the check sequence.
    assert!(
        rows[0].starts_with("996,") && rows.iter().all(|row| *row == rows[0]),
        "{rows:?}"
    );
    tmux.press("q");
    tmux.press("q");
    tmux.shows("packets counted");
}

#[test]
fn a_folder_that_cannot_be_written_is_reported_and_top_goes_on() {
    let Some(tmux) = Tmux::new(80, 24) else {
        return;
    };
    // Even root cannot create files there.
    tmux.enter("forebay top sim:rate=1M --write-flows /proc/self");
    tmux.shows("198.19.0.1");
    tmux.press("Enter");
    tmux.press("w");
    let screen = tmux.shows("creating the file: ");
    assert_eq!(screen.matches("(os error ").count(), 1, "{screen}");
    tmux.press("q");
    tmux.press("q");
    tmux.shows("packets counted");
    tmux.enter("clear; forebay top sim --write-flows none");
    tmux.shows("this is no folder");
}
