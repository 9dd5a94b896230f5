//! Frames that cross a veth pair.

use crate::{support::*, verified};
use forebay_testing::lab::{lab, tool};
use std::{io::Read, process::Child};

/// A command under way: it listens.
fn listening(line: &str) -> Child {
    let mut child = start!("{line}");
    let stderr = child.stderr.as_mut().unwrap();
    let mut log = Vec::new();
    while !log.ends_with(b" bytes\n") {
        let mut byte = [0];
        assert_eq!(stderr.read(&mut byte).unwrap(), 1, "{line}");
        log.push(byte[0]);
    }
    child
}

/// Sends a file into an interface.
fn replay(file: &str, interface: &str) {
    let mut tcpreplay = tool("tcpreplay");
    tcpreplay.args(["-i", interface, "--topspeed", "-q", file]);
    tcpreplay.output().unwrap().succeeds();
}

#[test]
fn frames_of_another_sender_are_verified_where_they_arrive() {
    lab(&["tcpreplay"], || {
        let folder = Folder::new();
        let file = recorded(&folder, "sent.pcap", "count=20000,size=imix");
        let far = listening("verify -i vb --json -a packets:20000");
        // Outgoing frames are seen, but verified only where they arrive.
        let near = listening("verify -i va --json -c 20000");
        replay(&file, "va");
        let ran = far.wait_with_output().unwrap();
        let json = ran.keeps_the_law();
        assert_eq!(verified(&json, ["received", "lost"]), [20_000, 0]);
        assert_eq!(json["verify"]["senders"][0]["interface"], "vb");
        let ran = near.wait_with_output().unwrap();
        ran.fails(3, "");
        assert_eq!(verified(&ran.json(), ["received", "outbound"]), [0, 20_000]);
    });
}

#[test]
fn an_interrupted_verification_has_counted_everything() {
    lab(&["tcpreplay"], || {
        let folder = Folder::new();
        let file = recorded(&folder, "sent.pcap", "count=5000");
        let child = listening("verify -i vb");
        replay(&file, "va");
        let ran = stopped(child);
        ran.succeeds();
        contains(ran.text(), "5000 expected = 5000 received + 0 lost (0 %)");
        contains(ran.text(), "5000 frames = 5000 received + 0 dropped here");
    });
}
