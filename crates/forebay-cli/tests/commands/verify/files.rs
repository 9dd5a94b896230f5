//! Verified files, and simulated cards.

use crate::support::*;
use crate::verify::verified;

/// Numbered frames in a classic file. Some are lost, repeated, moved or changed.
struct Edited(Vec<Vec<u8>>);

impl Edited {
    /// As many records as `recorded` makes with these settings, of 64-byte frames.
    fn new(folder: &Folder, settings: &str) -> Self {
        let path = recorded(folder, "made.pcap", settings);
        let bytes = std::fs::read(path).unwrap();
        let (header, records) = bytes.split_at(24);
        let records = records.chunks(76).map(<[u8]>::to_vec);
        Edited([header.to_vec()].into_iter().chain(records).collect())
    }

    /// The record of the frame with this number, before any was moved.
    fn record(&mut self, number: usize) -> &mut Vec<u8> {
        &mut self.0[1 + number]
    }

    fn file(&self, folder: &Folder) -> String {
        folder.file("edited.pcap", self.0.concat())
    }
}

#[test]
fn a_file_is_verified_frame_by_frame() {
    let folder = Folder::new();
    let mut edited = Edited::new(&folder, "count=1000,flows=4,sender=77");
    for lost in [10, 11, 12, 500] {
        edited.record(lost).clear();
    }
    let twice = edited.record(20).clone();
    edited.record(20).extend(twice);
    let moved = std::mem::take(edited.record(30));
    edited.record(40).extend(moved);
    edited.record(50)[16 + 43] ^= 0x10;
    let mut foreign = edited.record(60).clone();
    foreign[16 + 12..16 + 14].copy_from_slice(&[8, 6]);
    edited.record(60).extend(foreign);
    let file = edited.file(&folder);
    for line in [
        "verify --json",
        "capture --verify --count --fail-on-drop --json",
    ] {
        let ran = run!("{line} -r {file}");
        let json = ran.fails(3, "").lawful();
        let frames = verified(&json, ["frames", "received", "foreign", "corrupted"]);
        assert_eq!(frames, [998, 995, 1, 1], "{json}");
        let faults = verified(&json, ["lost", "duplicates", "reordered", "late"]);
        assert_eq!(faults, [5, 1, 1, 0], "{json}");
        let sender = &json["verify"]["senders"][0];
        let keys = [
            "sender",
            "expected",
            "gaps",
            "longest_gap",
            "longest_distance",
        ];
        assert_eq!(counts(sender, keys), [77, 1000, 3, 3, 10], "{json}");
        assert!(sender["sent"].is_null());
        let flows = sender["flows"].as_array().unwrap().iter();
        let flows = flows.map(|flow| count(&flow["received"]) + count(&flow["lost"]));
        assert_eq!(flows.collect::<Vec<_>>(), [250; 4]);
    }
    let ran = run!("verify -r {file} -v");
    ran.fails(3, "");
    for part in [
        "sender 77, 4 flows: 1000 expected = 995 received + 5 lost (0.50 %)",
        "lost in 3 gaps, the longest of 3 frames",
        "1 reordered, by up to 10 numbers",
        "  1 duplicate\n",
        "its end did not arrive",
        "998 frames = 995 received + 1 duplicates + 1 corrupted + 1 foreign + 0 dropped here",
    ] {
        contains(ran.text(), part);
    }
}

#[test]
fn a_window_decides_what_is_too_late() {
    let folder = Folder::new();
    let mut edited = Edited::new(&folder, "count=1000,flows=1");
    let moved = std::mem::take(edited.record(100));
    edited.record(300).extend(moved);
    let file = edited.file(&folder);
    let ran = run!("verify -r {file} --json");
    let json = ran.keeps_the_law();
    assert_eq!(verified(&json, ["lost", "reordered", "late"]), [0, 1, 0]);
    let ran = run!("verify -r {file} --json --window 128");
    let json = ran.fails(3, "").json();
    assert_eq!(verified(&json, ["lost", "reordered", "late"]), [1, 0, 1]);
}

#[test]
fn a_capture_verifies_what_it_writes_and_fails_only_if_asked() {
    let (_folder, file) = Folder::with("a.pcapng");
    let port = "sim:clock=virtual,rate=10G,ring=64,host=none,stall=50us@100us,count=10000";
    let ran = run!("capture -i {port} -w {file} --verify --json -q");
    let json = ran.keeps_the_law();
    let [received, lost] = verified(&json, ["received", "lost"]);
    let [written] = counts(&json, ["written"]);
    let dropped = count(&json["dropped"]["kernel"]);
    assert_eq!((received, received + dropped), (written, 10_000), "{json}");
    // What the card dropped after its last frame has no number.
    assert!(lost > 1000 && lost <= dropped, "{json}");
    contains(ran.log(), format!("{received} received + {lost} lost"));
    // The same from the file.
    let again = run!("verify -r {file} --json");
    again.fails(3, "");
    assert_eq!(
        verified(&again.json(), ["received", "lost"]),
        [received, lost]
    );
    // Verified, and printed to a reader that leaves.
    shell(format!("forebay capture -r {file} --verify | head -n 1"))
        .output()
        .unwrap()
        .succeeds();
    let json = run!("capture -r {file} --count --json").keeps_the_law();
    assert!(json["verify"].is_null());
}

#[test]
fn nothing_to_verify_is_not_a_success() {
    let (folder, file) = captured("a.pcap", "count=10");
    let ran = run!("verify -r {file} tcp");
    ran.fails(3, "");
    contains(ran.text(), "no generated frame arrived");
    contains(
        ran.text(),
        "10 frames = 0 received + 10 filtered + 0 dropped here",
    );
    let short = folder.path("short.pcap");
    run!("capture -r {file} -s 50 -w {short}").succeeds();
    let ran = run!("verify -r {short} --json");
    ran.fails(3, "");
    assert_eq!(verified(&ran.json(), ["received", "cut"]), [0, 10]);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let cases = "
        verify                             | 2 | no interface at which frames arrive
        verify -i sim -r a.pcap            | 2 | cannot be used with
        verify -r a.pcap --until-end       | 2 | --until-end is about interfaces
        verify -i sim -a files:3           | 2 | Use duration:SECONDS or packets:COUNT
        verify -i sim --window 63          | 2 | is not from 64 to 1Gi
        verify -i sim:flows=3              | 2 | flows is 1, 2, 4, 8, 16, 32 or 64
        verify -i sim tcp prot 80          | 2 | prot
        verify -r /nonexistent.pcap        | 1 | nonexistent.pcap
        verify -i nosuch0                  | 1 | nosuch0
    ";
    for [line, code, error] in rows(cases) {
        run!("{line}").fails(code.parse().unwrap(), error);
    }
}
