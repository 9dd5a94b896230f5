//! The AF_XDP port on live interfaces: every frame that the peer sent is delivered, or counted at the place where it was lost.
//!
//! - `frames`: what is delivered
//! - `losses`: overload, and recovery from it
//! - `opening`: what opening needs and refuses, and what stays of it
//! - `ending`: stops and lost interfaces
//! - `passing`: the port that copies frames, and lets the machine have them
//! - `sending`: the port that sends
//!
//! This file contains what they share. Requires root: a user namespace may not load programs. A missing requirement is reported as
//! `skipped: needs …`; with `CI=true` in the environment it is a failure. All tests use veth pairs in separate network namespaces.
#![allow(unsafe_code)]

#[path = "../support/mod.rs"]
mod support;

mod ending;
mod frames;
mod losses;
mod opening;
mod passing;
mod sending;

use forebay_net::{
    af_xdp::{AfXdp, AfXdpConfig, Mode, Spec},
    port::{Counts, Port, SocketLosses},
};
use std::{
    thread,
    time::{Duration, Instant},
};
use support::{Ended, LONG, pump, skip};

/// A laboratory in which XDP programs can be loaded.
fn lab(tools: &[&str], body: impl FnOnce() + Send) {
    support::lab_alone(tools, || match forebay_net::af_xdp::probe() {
        Ok(()) => body(),
        Err(error) => skip(&format!("rights for XDP ({error})")),
    });
}

fn spec(text: &str) -> Spec {
    text.parse().unwrap()
}

fn open(text: &str) -> AfXdp {
    open_with(text, |_| ())
}

/// A port with the default settings, except for what `set` changes.
fn open_with(text: &str, set: impl FnOnce(&mut AfXdpConfig)) -> AfXdp {
    let mut config = AfXdpConfig::default();
    set(&mut config);
    AfXdp::open(&spec(text), &config).unwrap_or_else(|error| panic!("{error}"))
}

/// The error of opening this.
fn error(text: &str) -> String {
    let opened = AfXdp::open(&spec(text), &AfXdpConfig::default());
    opened.map(|_| ()).unwrap_err().to_string()
}

const BOTH: [Mode; 2] = [Mode::Native, Mode::Generic];

/// Stops a port and reads what is left, then checks its accounting. `delivered` and `told`: what was read of it before, and the losses
/// that frames reported.
fn stopped(port: &mut AfXdp, mut delivered: u64, told: u64) -> (Counts, SocketLosses) {
    port.stop().unwrap();
    let mut gaps = told;
    let ended = pump(port, LONG, |frame| {
        delivered += 1;
        gaps += frame.dropped_before;
        true
    });
    assert_eq!(ended.unwrap(), Ended::End);
    settled(port, delivered, gaps)
}

fn settled(port: &mut AfXdp, delivered: u64, told: u64) -> (Counts, SocketLosses) {
    let (counts, losses) = (port.counts(), port.report().socket_losses);
    let dropped = counts.dropped.expect("this source counts drops");
    assert_eq!(counts.received, delivered + dropped);
    assert!(told <= dropped, "{told} of {dropped} reported by frames");
    assert_eq!(counts.interface_dropped, Some(0));
    assert_eq!(counts.filtered, Some(0));
    assert!(losses.rx_ring + losses.fill_ring <= dropped);
    (counts, losses)
}

/// Waits until nothing is on its way any more: the sender has returned, but the receiving side runs on another processor.
fn quiet(port: &mut AfXdp) {
    let begun = Instant::now();
    let sum = |port: &mut AfXdp| {
        let (counts, report) = (port.counts(), port.report());
        let arrived = counts.received + report.socket_losses.peer.unwrap_or(0);
        // Frames that pass count when they are read.
        (arrived, report.ring_fill)
    };
    let mut before = sum(port);
    loop {
        thread::sleep(Duration::from_millis(20));
        let now = sum(port);
        if now == before {
            return;
        }
        assert!(begun.elapsed() < LONG);
        before = now;
    }
}
