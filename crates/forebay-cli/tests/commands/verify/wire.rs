//! Frames that cross a veth pair.

use crate::support::*;
use crate::verify::verified;
use forebay_testing::lab::{ip, lab};
use serde_json::Value;
use std::{
    io::Read,
    process::{Child, Output},
};

/// A command under way: it listens.
fn listening(line: &str) -> Child {
    let mut child = start!("{line}");
    heard(&mut child, " bytes\n");
    child
}

/// Sends a file into an interface.
fn replay(file: &str, interface: &str) {
    tool_output(format!("tcpreplay -i {interface} --topspeed -q {file}"));
}

#[test]
fn frames_of_another_sender_are_verified_where_they_arrive() {
    lab(&["tcpreplay"], || {
        let (_folder, file) = captured("sent.pcap", "count=20000,size=imix");
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
        let (_folder, file) = captured("sent.pcap", "count=5000");
        let child = listening("verify -i vb");
        replay(&file, "va");
        let ran = stopped(child);
        ran.succeeds();
        contains(ran.text(), "5000 expected = 5000 received + 0 lost (0 %)");
        contains(ran.text(), "5000 frames = 5000 received + 0 dropped here");
    });
}

/// Generates into `va` until the generator ends, and requires that its counts add up.
#[track_caller]
fn generated(line: &str) -> Value {
    let ran = run!("generate {line} -i va --json");
    sent(&ran)
}

#[track_caller]
fn sent(ran: &Output) -> Value {
    let json = ran.keeps_the_law();
    let [sent, accepted, frames, markers] =
        counts(&json, ["sent", "accepted", "frames", "markers"]);
    assert_eq!((sent, accepted, markers), (frames + 10, sent, 10), "{json}");
    json
}

#[test]
fn every_generated_frame_is_verified_at_the_other_end() {
    lab(&[], || {
        for (line, flows) in [
            ("rate=20kpps,size=imix,count=20000", 64),
            ("rate=100M,flows=1,sender=5 -c 20k --tx-ring", 1),
            ("sim:rate=20kpps,flows=8,size=1518 -a packets:10000", 8),
            ("rate=max,count=20000 --bypass-qdisc", 64),
        ] {
            let far = listening("verify -i vb --until-end --json");
            let json = generated(line);
            let verified_json = far.wait_with_output().unwrap().keeps_the_law();
            let faults = ["lost", "duplicates", "reordered", "corrupted", "foreign"];
            assert_eq!(verified(&verified_json, faults), [0; 5], "{line}");
            let sender = &verified_json["verify"]["senders"][0];
            for (here, there) in [
                ("frames", "sent"),
                ("frames", "received"),
                ("sender", "sender"),
            ] {
                assert_eq!(json[here], sender[there], "{line}: {verified_json}");
            }
            // Five at the beginning; the first of five at the end is enough.
            assert!((6..=10).contains(&count(&sender["markers"])), "{line}");
            assert_eq!(sender["flows"].as_array().unwrap().len(), flows);
        }
    });
}

#[test]
fn frames_that_a_path_drops_are_missed_exactly() {
    lab(&[], || {
        // The kernel of the receiver drops every frame with this last byte of its number, also at the beginning and the end.
        for (dropped, lost, gaps) in [(7, 20, 20), (0, 20, 20), (255, 20, 20)] {
            let far = listening(&format!(
                "verify -i vb --until-end --json 'ether[49] != {dropped} or ether[52] & 128 != 0'"
            ));
            generated("rate=20kpps,count=5120,flows=4");
            let ran = far.wait_with_output().unwrap();
            let json = ran.fails(3, "").json();
            let sender = &json["verify"]["senders"][0];
            let found = counts(sender, ["lost", "gaps", "longest_gap", "expected", "first"]);
            assert_eq!(found, [lost, gaps, 1, 5120, 0], "{json}");
        }
    });
}

#[test]
fn a_captured_stream_that_was_edited_shows_its_edits() {
    lab(&[], || {
        let folder = Folder::new();
        let (file, some) = (folder.path("all.pcap"), folder.path("some.pcap"));
        let far = listening(&format!("capture -i vb -w {file} --verify -c 3010 --json"));
        generated("rate=20kpps,count=3000,flows=1,sender=9");
        let json = far.wait_with_output().unwrap().keeps_the_law();
        assert_eq!(
            verified(&json, ["received", "lost", "markers"]),
            [3000, 0, 10]
        );
        // Without the frames 256 to 511 and the last 100, and everything twice.
        run!("capture -r {file} -w {some} not 'ether[48] = 1' and not '(ether[48:2] > 2899 and ether[48:2] < 3000)'")
            .succeeds();
        let ran = run!("verify -r {some} -r {some} --json");
        let json = ran.fails(3, "").json();
        assert_eq!(verified(&json, ["lost", "duplicates"]), [356, 2644]);
        let sender = &json["verify"]["senders"][0];
        assert_eq!(
            counts(sender, ["sent", "gaps", "longest_gap"]),
            [3000, 2, 256]
        );
    });
}

/// Frames that `va` has sent.
fn frames_out() -> u64 {
    let text = ip("-s -j link show va");
    count(&object(&text)[0]["stats64"]["tx"]["packets"])
}

#[test]
fn an_interrupted_generator_reports_its_end_and_exact_counts() {
    lab(&[], || {
        let far = listening("verify -i vb --until-end --json");
        let mut child = start!("generate rate=1kpps -i va --json");
        let stderr = child.stderr.as_mut().unwrap();
        let mut first = [0; 8];
        stderr.read_exact(&mut first).unwrap();
        let before = frames_out();
        wait_until(|| frames_out() > before + 100);
        // It can open no further packet socket, and is in the sandbox.
        let field = |name: &str| of_threads(&child, name).swap_remove(0);
        let capabilities = u64::from_str_radix(&field("CapEff:"), 16).unwrap();
        assert_eq!(capabilities & 1 << 13, 0, "CAP_NET_RAW");
        let has_seccomp = field("Seccomp:") == "2";
        let json = sent(&stopped(child));
        assert_eq!(json["sandbox"]["seccomp"], has_seccomp);
        let verified_json = far.wait_with_output().unwrap().keeps_the_law();
        let sender = &verified_json["verify"]["senders"][0];
        assert_eq!(json["frames"], sender["received"]);
        assert_eq!(json["ended"], true);
        assert!(count(&json["frames"]) > 0);
    });
}

#[test]
fn an_interface_that_is_down_fails_with_counts_that_add_up() {
    lab(&[], || {
        ip("link set va down");
        let ran = run!("generate rate=1kpps,count=10 -i va --json --wait 200ms");
        let json = ran.fails(1, "ip link set va up").json();
        assert_eq!(json["law_holds"], true);
        assert_eq!(json["ended"], false);
        assert_eq!(json["sent"], json["failed"]["link_down"]);
        let cases = "
            generate size=9018 -i va           | 1 | ip link set va mtu 9000
            generate rate=1G -i nosuch0        | 1 | no interface 'nosuch0'
            generate rate=1G -i sim            | 2 | packets can be sent only on an interface
            generate rate=1G,ring=4 -i va      | 2 | ring= is about receiving
            generate rate=1Xpps -i va          | 2 | frames a second such as 500kpps
            generate rate=1G -i va --to-mac 1  | 2 | Use a value such as 02:00
            generate rate=foo -i va            | 2 | cannot understand 'rate=foo'. rate is bits a second such as 1G, 2.5G, 100M or 20kbit, frames a second such as 500kpps, or max. The keys are rate, size, flows, count, sender and seed, such as rate=100kpps
        ";
        for [line, code, error] in rows(cases) {
            run!("{line}").fails(code.parse().unwrap(), error);
        }
    });
}
