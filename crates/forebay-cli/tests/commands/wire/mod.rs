//! `forebay capture` on live interfaces: veth pairs in namespaces that the tests make.
//!
//! `arrivals` is about what a sender sent, `filters` about what the kernel lets pass, `interfaces` about their coming and
//! going, `rights` about the rights that capturing needs, `privileges` about what a capture gives up, `doctor` about `forebay doctor`,
//! `listing` about `forebay interfaces`, `bridge` about `forebay bridge`, `replay` about `forebay replay`, `stamps` about clocks, directions and
//! offloads, `xdp` about capturing with AF_XDP, and `threads` about several threads. Here is what they share.

#![allow(unsafe_code)] // entering a namespace

mod arrivals;
mod bridge;
mod doctor;
mod filters;
mod interfaces;
mod listing;
mod privileges;
mod replay;
mod rights;
mod stamps;
mod threads;
mod xdp;

use crate::support::*;
use forebay_testing::lab::{self, ip};
use serde_json::Value;
use std::{
    io::Read,
    process::{Child, Output},
};

/// A capture on `vb` under way: started, and listening.
fn listening(arguments: impl AsRef<str>) -> Child {
    listening_on("vb", arguments)
}

fn listening_on(interface: &str, arguments: impl AsRef<str>) -> Child {
    let mut child = start!("capture -i {interface} -v --json {}", arguments.as_ref());
    heard(&mut child, "polling\n");
    child
}

/// Lets an interface go down and come up again. Returns what the command has printed until it has noticed both.
fn outage(child: &mut Child, link: &str) -> String {
    ip(&format!("link set {link} down"));
    let log = heard(child, &format!("{link}: the interface went down"));
    ip(&format!("link set {link} up"));
    log + &heard(child, &format!("{link}: the interface is up again"))
}

/// Simulated frames in a file that senders can read, and its folder.
struct Load(Folder);

impl Load {
    fn new(frames: u64) -> Self {
        let load = Load(Folder::new());
        recorded(&load.0, "sent.pcap", &format!("count={frames}"));
        load
    }

    /// The frames, and the path of a capture of them.
    fn with_output(frames: u64) -> (Self, String) {
        let load = Load::new(frames);
        let file = load.path("got.pcapng");
        (load, file)
    }

    fn path(&self, name: &str) -> String {
        self.0.path(name)
    }

    /// Sends it all into `va`, as fast as possible.
    fn send(&self) {
        self.send_into("va", 1_000_000);
    }

    /// Sends at most this many frames of it into an interface.
    fn send_into(&self, interface: &str, most: u64) {
        let options = format!("--topspeed --preload-pcap -q --limit={most}");
        let file = self.path("sent.pcap");
        tool_output(format!("tcpreplay -i {interface} {options} {file}"));
    }

    /// Sends it all to a capture and then stops that.
    fn through(&self, child: Child) -> Output {
        self.send();
        stopped(child)
    }
}

/// What a reader found that paused while `load` was sent, and then read it all; the capture, which
/// was stopped.
fn overloaded(load: &Load, arguments: &str) -> (Found, Output) {
    let mut child = listening(arguments);
    let mut stdout = child.stdout.take().unwrap();
    let (sent, all_sent) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        all_sent.recv().unwrap();
        let mut packets = Vec::new();
        stdout.read_to_end(&mut packets).unwrap();
        packets
    });
    load.send();
    interrupt(&child, "-INT");
    sent.send(()).unwrap();
    let found = found::read(&reader.join().unwrap()[..]);
    (found, child.wait_with_output().unwrap())
}

/// The law, and the file's own counters; the gaps are the drops if `sent` frames were sent.
fn check(json: &Value, found: &Found, sent: u64) {
    let [received, written, unread] = counts(json, ["received", "written", "unread"]);
    let kernel = count(&json["dropped"]["kernel"]);
    assert_eq!(json["law_holds"], true, "{json}");
    assert_eq!((received, unread), (sent, 0), "{json}");
    assert_eq!(written, found.packets.len() as u64);
    assert_eq!(found.statistics, [[received, kernel, written]]);
    assert_eq!(found.gaps(sent), (count(&json["gaps"]), kernel));
}
