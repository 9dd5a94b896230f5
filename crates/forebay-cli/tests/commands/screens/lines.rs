//! Commands that print lines and draw a line of progress: `capture`, `pipe` and `replay`.

use crate::screens::{
    SIZES,
    tmux::{PROMPT, Tmux, masked},
};
use crate::support::*;
use std::process::Command;

#[test]
fn capture_prints_packets_progress_and_counts() {
    for (width, height) in SIZES {
        let Some(tmux) = Tmux::new(width, height) else {
            return;
        };
        tmux.enter("clear; forebay capture -i sim:clock=virtual,count=2 -t");
        tmux.compare("capture-print", &masked(&tmux.shows(PROMPT)));
        tmux.enter(
            "clear; forebay capture -i sim:rate=1M,count=4000 -w a.pcapng --store-limit 64M",
        );
        tmux.compare("capture-progress", &masked(&tmux.shows("00:02")));
        tmux.compare("capture-end", &masked(&tmux.shows(PROMPT)));
    }
}

#[test]
fn the_progress_of_capture_is_erased_also_after_a_suspension_and_an_interrupt() {
    let Some(tmux) = Tmux::new(80, 24) else {
        return;
    };
    tmux.enter("clear; forebay capture -i sim:rate=1M -w /dev/null");
    tmux.shows("lost 0");
    tmux.press("C-z");
    tmux.shows("Stopped");
    tmux.enter("clear; fg");
    tmux.shows("lost 0");
    tmux.press("C-c");
    let end = tmux.shows("forebay: wrote");
    lacks(&end, "pps");
    lacks(&end, "^");
}

#[test]
fn pipe_draws_its_progress() {
    for (width, height) in SIZES {
        let Some(tmux) = Tmux::new(width, height) else {
            return;
        };
        tmux.folder().file("in", vec![0; 12_000_000]);
        tmux.enter("clear; forebay pipe -L 8M in > /dev/null");
        tmux.compare("pipe-progress", &masked(&tmux.shows("ETA")));
        tmux.press("C-z");
        tmux.shows("Stopped");
        tmux.enter("clear; fg");
        let end = tmux.shows(PROMPT);
        contains(&end, "11.4 MiB");
        contains(&end, "summary: ");
    }
}

#[test]
fn replay_draws_its_progress_and_adds_up() {
    // A namespace whose loopback interface drops what it receives.
    let alone = "unshare --net sh -c 'ip link set lo up && exec";
    let has_rights = Command::new("unshare").args(["--net", "true"]).status();
    if !has_rights.is_ok_and(|it| it.success()) {
        return children::skip("the right to make a network namespace");
    }
    for (width, height) in SIZES {
        let Some(tmux) = Tmux::new(width, height) else {
            return;
        };
        recorded(tmux.folder(), "a.pcapng", "rate=1M,count=2500");
        tmux.enter(&format!("clear; {alone} forebay replay a.pcapng -i lo'"));
        tmux.compare("replay-progress", &masked(&tmux.shows(" pps ")));
        let end = tmux.shows(PROMPT);
        contains(
            end.split_whitespace().collect::<Vec<_>>().join(" "),
            "2500 packets sent = 2500 accepted + 0 failed",
        );
        lacks(&end, "pps");
        if (width, height) == SIZES[0] {
            // The units of gaps differ, and in a small terminal the rows that they take.
            let (counts, _) = end.split_once("forebay: gap").unwrap();
            tmux.compare("replay-end", &masked(counts));
        }
    }
}
