//! `forebay replay`: what arrives is what the files hold, and every packet is counted once.

use crate::support::*;
use crate::wire::{
    lab::{self, carries, classic, ip, lab, up},
    listening, listening_on,
    xdp::xdp_lab,
};
use forebay_testing::blocks;
use serde_json::Value;
use std::{io::Write, process::Output};

/// Requires that the counts of a replay add up, and returns the JSON object.
#[track_caller]
fn accounted(output: &Output) -> Value {
    let json = output.lawful();
    let [read, filtered, skipped, sent, unsent, accepted] = counts(
        &json,
        ["read", "filtered", "skipped", "sent", "unsent", "accepted"],
    );
    let failed = sum(&json["failed"]);
    assert_eq!(read, filtered + skipped + sent + unsent, "{json}");
    assert_eq!(sent, accepted + failed, "{json}");
    json
}

/// Replays with these arguments on `va` to a capture on `vb`, which ends after `expected` packets. Returns the packets that
/// arrived as text, and the JSON object.
#[track_caller]
fn arrived(folder: &Folder, arguments: &str, expected: u64) -> (String, Value) {
    let path = folder.path("got.pcapng");
    let capture = listening(format!("-c {expected} -w {path}"));
    let output = run!("replay -i va --json {arguments}");
    let json = accounted(output.succeeds());
    assert_eq!(count(&json["accepted"]), expected, "{json}");
    capture.wait_with_output().unwrap().succeeds();
    (printed(&path), json)
}

/// All bytes of all packets, without times.
fn printed(path: &str) -> String {
    let output = run!("capture -r {path} -t -xx");
    output.succeeds().text().to_owned()
}

#[test]
fn bytes_on_the_far_side_are_those_of_the_file() {
    lab(&[], || {
        let (folder, a) = captured("a.pcap", "count=3000,size=imix,seed=1");
        let b = recorded(&folder, "b.pcapng", "count=2000,size=imix,seed=2");
        let expected = printed(&a) + &printed(&b);
        for arguments in [
            "-t",
            "-t --tx-ring",
            "-t -K --bypass-qdisc",
            "-p 20k",
            "-p 20k -K",
            "-p 20k -K --tx-ring",
            "-M 200",
            "-x 0.5",
        ] {
            let (got, json) = arrived(&folder, &format!("{a} {b} {arguments}"), 5000);
            assert!(got == expected, "{arguments}");
            let is_paced = !arguments.starts_with("-t");
            assert_eq!(json["worst_lag_ns"].is_u64(), is_paced, "{json}");
        }
    });
}

#[test]
fn loops_limits_and_filters_select_what_is_sent() {
    lab(&[], || {
        let (folder, a) = captured("a.pcap", "count=100");
        let once = printed(&a);
        for memory in ["", "-K"] {
            let (got, json) = arrived(&folder, &format!("{a} -t -l 3 {memory}"), 300);
            assert_eq!(got, once.repeat(3));
            assert_eq!(counts(&json, ["read", "rounds", "unsent"]), [300, 3, 0]);
            let (got, json) = arrived(&folder, &format!("{a} -t -l 0 -L 250 {memory}"), 250);
            assert!(once.repeat(3).starts_with(&got));
            assert_eq!(count(&json["rounds"]), 2);
            // The filter accepts a quarter.
            let filter = format!("{a} -t -l 2 -f 'ether[49] & 3 = 1' {memory}");
            let (_, json) = arrived(&folder, &filter, 50);
            assert!(count(&json["filtered"]) >= 75, "{json}");
        }
        // From a pipe.
        let capture = listening(format!("-c 100 -w {}", folder.path("piped.pcapng")));
        let piped = shell(format!("cat {a} | forebay replay - -i va -t --json"));
        let output = { piped }.output().unwrap();
        assert_eq!(count(&accounted(output.succeeds())["accepted"]), 100);
        capture.wait_with_output().unwrap().succeeds();
    });
}

#[test]
fn a_replay_is_not_faster_than_asked_for() {
    lab(&[], || {
        let folder = Folder::new();
        // 1000 packets a second.
        let a = recorded(&folder, "a.pcap", "count=201,rate=512kbit,size=64");
        let recorded = run!("info --json {a}").json()["seconds"].as_f64().unwrap();
        for (arguments, seconds) in [
            ("-x 2", recorded / 2.0),
            ("-p 1000", 0.2),
            ("-M 0.48", 0.2), // frames of 60 bytes
        ] {
            let output = run!("replay -i va --json {a} {arguments}");
            let json = accounted(output.succeeds());
            let took = json["seconds"].as_f64().unwrap();
            assert!(took >= seconds * 0.999, "{arguments}: {took}");
        }
    });
}

#[test]
fn a_long_wait_is_reported_and_can_be_limited() {
    lab(&[], || {
        let folder = Folder::new();
        let mut file = classic(&vec![vec![0x88; 60]; 4]);
        // The second packet, and only that one, is 18 hours after the first.
        let second = 24 + 16 + 60;
        file[second..second + 4].copy_from_slice(&64_800_u32.to_le_bytes());
        let a = folder.file("a.pcap", file);
        let mut child = start!("replay -i va --json {a}");
        let log = heard(&mut child, "limits such waits\n");
        contains(log, "the next packet is due in 17:59:59");
        assert_eq!(accounted(&stopped(child))["unsent"], 3);
        // The wait may have been asked for.
        let mut child = start!("replay -i va --json {a} -p 0.01");
        let log = heard(&mut child, "seconds)\n");
        contains(log, "the next packet is due in 0:01:39");
        assert_eq!(accounted(&stopped(child))["unsent"], 3);

        let output = run!("replay -i va --json {a} --max-gap 200ms");
        lacks(output.log(), "the next packet is due");
        let json = accounted(output.succeeds());
        let took = json["seconds"].as_f64().unwrap();
        assert!((0.2..60.0).contains(&took), "{json}");
        assert_eq!(counts(&json, ["accepted", "unsent"]), [4, 0]);
        for speed in ["-p 10", "-M 1", "-t"] {
            let output = run!("replay -i va {a} --max-gap 1 {speed}");
            output.fails(2, "cannot be used with");
        }
    });
}

#[test]
fn frames_that_are_too_long_fail_with_advice_and_the_others_arrive() {
    lab(&[], || {
        let folder = Folder::new();
        let frame = |len: usize, number: u8| {
            let mut frame = vec![number; len];
            if let Some(kind) = frame.get_mut(12..14) {
                kind.copy_from_slice(&[0x88, 0xb5]);
            }
            frame
        };
        // The last one does not even fit into a slot.
        let frames = [
            frame(1514, 1),
            frame(1515, 2),
            frame(60, 3),
            frame(60_000, 4),
            frame(10, 5),
        ];
        let a = folder.file("a.pcap", classic(&frames));
        for backend in ["", "--tx-ring", "-K"] {
            let capture = listening(format!("-c 2 -w {}", folder.path("two.pcapng")));
            let output = run!("replay -i va --json -t {a} {backend}");
            output.fails(3, "2 packets are longer than the 1514 bytes that va sends");
            contains(output.log(), "ip link set va mtu");
            let json = accounted(&output);
            assert_eq!(counts(&json["failed"], ["too_long", "too_short"]), [2, 1]);
            capture.wait_with_output().unwrap().succeeds();
        }
    });
}

#[test]
fn only_a_tag_makes_a_frame_longer_than_the_mtu_allows_with_af_xdp_too() {
    xdp_lab(|| {
        let folder = Folder::new();
        let frame = |kind: u16, len: usize| {
            let mut frame = vec![1; len];
            frame[12..14].copy_from_slice(&kind.to_be_bytes());
            frame
        };
        let lens = [1513, 1514, 1515, 1516, 1517, 1518, 1519];
        // The tag of a provider's network (802.1ad) makes no room.
        let frames = [0x88b5, 0x8100, 0x88a8].map(|kind| lens.map(|len| frame(kind, len)));
        let a = folder.file("a.pcap", classic(&frames.concat()));
        for interface in ["va", "va --tx-ring", "va -K", "xdp:va"] {
            let output = run!("replay -i {interface} --json -t {a}");
            output.fails(3, "11 packets are longer than the 1514 bytes that va sends");
            let json = accounted(&output);
            assert_eq!(count(&json["failed"]["too_long"]), 11, "{json}");
            assert_eq!(count(&json["accepted"]), 2 + 6 + 2, "{json}");
        }
    });
}

#[test]
fn packets_that_were_cut_are_sent_padded_or_skipped() {
    lab(&[], || {
        let (folder, whole) = captured("whole.pcap", "count=10,size=204");
        let cut = folder.path("cut.pcap");
        run!("capture -r {whole} -s 60 -w {cut}").succeeds();
        for (action, len, sent) in [("send", 60, 10), ("pad", 200, 10), ("skip", 0, 0)] {
            let output = run!("replay -i va --json -t {cut} --cut {action}");
            let json = accounted(output.succeeds());
            assert_eq!(
                counts(&json, ["cut", "accepted", "accepted_bytes"]),
                [10, sent, sent * len]
            );
        }
        let output = run!("replay -i va -t {cut}");
        contains(output.log(), "the files hold only the beginning");
    });
}

#[test]
fn packets_of_an_unknown_interface_are_skipped_and_the_next_file_is_sent() {
    use forebay_testing::blocks::{block, section, words};
    lab(&[], || {
        let (folder, whole) = captured("whole.pcapng", "count=10");
        let packet = |interface| {
            let head = words(&[interface, 0, 1, 60, 60]);
            block(6, &[&head[..], &[2; 60]].concat())
        };
        let begin = [section(&[]), block(1, &words(&[1, 0]))].concat();
        let file = [&begin[..], &packet(0), &packet(7), &packet(0)].concat();
        let file = folder.file("unknown.pcapng", file);
        for memory in ["", "-K"] {
            let output = run!("replay -i va --json -t {file} {whole} {memory}");
            output.fails(1, "1 such packet is skipped");
            assert_eq!(count(&accounted(&output)["accepted"]), 12);
        }
    });
}

#[test]
fn rewritten_packets_arrive_with_right_checksums() {
    lab(&["tcpdump"], || {
        let (folder, a) = captured("a.pcap", "count=500,size=imix");
        let changes = "--rewrite ip=198.18.0.0/15=172.16.0.0/15,mac-dst=2:2:2:2:2:2 --rewrite vlan=9,checksums";
        let (_, json) = arrived(&folder, &format!("{a} -t {changes}"), 500);
        assert_eq!(counts(&json, ["rewritten", "rewrite_incomplete"]), [500, 0]);
        let path = folder.path("got.pcapng");
        let output = tool_output(format!("tcpdump -n -e -vv -r {path}"));
        let text = output.text();
        assert_eq!(text.matches("> 02:02:02:02:02:02").count(), 500);
        assert_eq!(text.matches("vlan 9").count(), 500);
        assert!(text.matches("172.1").count() >= 500, "{text}");
        assert!(
            !text.contains("bad") && !text.contains("incorrect"),
            "{text}"
        );
    });
}

#[test]
fn tcpdump_finds_only_new_addresses_in_icmp_errors_and_neighbour_discovery() {
    lab(&["tcpdump"], || {
        let folder = Folder::new();
        let ipv4 = |protocol: u8, len: u8, data: &[u8]| {
            let header = [0x45, 0, 0, len, 0, 1, 0, 0, 64, protocol, 0, 0];
            [&header[..], &[10, 0, 0, 1, 10, 0, 0, 2], data].concat()
        };
        let quoted = ipv4(17, 28, &[0, 80, 0, 53, 0, 8, 0, 0]);
        let error = ipv4(1, 56, &[&[3, 1, 0, 0, 0, 0, 0, 0], &quoted[..]].concat());
        let address = |last| [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[last]].concat();
        let body = [
            &[136, 0, 0, 0, 0x40, 0, 0, 0][..],
            &address(1),
            &[2, 1, 2, 0, 0, 0, 0, 1],
        ];
        let header = [0x60, 0, 0, 0, 0, 32, 58, 255];
        let advertised = [&header[..], &address(1), &address(2), &body.concat()].concat();
        let frame = |kind: [u8; 2], packet: &[u8]| {
            [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], &kind[..], packet].concat()
        };
        let frames = [frame([8, 0], &error), frame([0x86, 0xdd], &advertised)];
        let a = folder.file("a.pcap", classic(&frames));
        let changes = "--rewrite ip=10.0.0.0/24=10.7.7.0/24,ip=2001:db8::/32=fd00:7::/32,mac-src=2:0:0:0:7:7,checksums";
        let (_, json) = arrived(&folder, &format!("{a} -t {changes}"), 2);
        assert_eq!(counts(&json, ["rewritten", "rewrite_incomplete"]), [2, 0]);
        let path = folder.path("got.pcapng");
        let output = tool_output(format!("tcpdump -n -e -vv -r {path}"));
        let text = output.text();
        contains(text, "10.7.7.1.80 > 10.7.7.2.53");
        contains(text, "[icmp6 sum ok]");
        contains(text, "tgt is fd00:7::1");
        // Two senders, and the option.
        assert_eq!(text.matches("02:00:00:00:07:07").count(), 3, "{text}");
        lacks(text, "10.0.0.");
        lacks(text, "wrong");
        lacks(text, "bad icmp6");
    });
}

#[test]
fn an_interrupt_ends_a_replay_with_exact_counts() {
    lab(&[], || {
        let (_folder, a) = captured("a.pcap", "count=100");
        for speed in ["-p 2000", "-t", "-t -K", "-p 2000 -K", "-x 0.0001"] {
            let mut child = start!("replay -i va --json {a} -l 0 {speed}");
            heard(&mut child, "sending");
            std::thread::sleep(std::time::Duration::from_millis(300));
            let output = stopped(child);
            let json = accounted(output.succeeds());
            assert_eq!(json["stopped"], true);
            assert!(count(&json["accepted"]) > 0, "{json}");
        }
    });
}

#[test]
fn an_interface_that_goes_down_and_up_is_survived_if_that_was_asked_for() {
    lab(&[], || {
        let (_folder, a) = captured("a.pcap", "count=1000");
        for memory in ["", "-K"] {
            let mut child = start!("replay -i va --json {a} -l 4 -p 4000 --wait forever {memory}");
            heard(&mut child, "sending");
            ip("link set va down");
            std::thread::sleep(std::time::Duration::from_millis(300));
            ip("link set va up");
            carries("va");
            let output = child.wait_with_output().unwrap();
            let json = accounted(output.succeeds());
            assert_eq!(counts(&json, ["accepted", "unsent"]), [4000, 0]);
            assert!(json["stalled_seconds"].as_f64().unwrap() > 0.1, "{json}");

            ip("link set va down");
            let output = run!("replay -i va --json {a} -t --wait 50ms {memory}");
            output.fails(1, "the interface is down");
            let json = accounted(&output);
            assert!(count(&json["failed"]["link_down"]) > 0, "{json}");
            ip("link set va up");
            carries("va");
        }
    });
}

#[test]
fn a_slow_replay_gives_up_on_an_interface_that_is_down_after_the_time_that_was_asked_for() {
    lab(&[], || {
        let (_folder, a) = captured("a.pcap", "count=20");
        ip("link set va down");
        // Far fewer packets than the queue holds are due in this time.
        let output = run!("replay -i va --json {a} -p 2 --wait 1");
        output.fails(1, "the interface is down");
        let json = accounted(&output);
        let [sent, unsent] = counts(&json, ["sent", "unsent"]);
        assert!(sent < 10 && unsent > 0, "{json}");
    });
}

#[test]
fn bad_requests_are_refused_with_what_to_do() {
    lab(&[], || {
        let (folder, a) = captured("a.pcap", "count=10");
        let mut raw = std::fs::read(&a).unwrap();
        raw[20] = 101; // the link type of the classic format
        let raw = folder.file("raw.pcap", raw);
        run!("replay -i va {raw}").fails(1, "packets of the type RAW");
        contains(run!("replay -i va {raw}").log(), "tcprewrite --dlt=enet");
        if std::fs::exists("/dev/net/tun").unwrap() {
            ip("tuntap add dev tt mode tun");
            let output = run!("replay -i tt {a}");
            output.fails(1, "packets of the type EN10MB");
            lacks(output.log(), "tcprewrite");
            contains(output.log(), "editcap -L -C 14 -T rawip");
        }
        let missing = folder.path("missing.pcap");
        let text = folder.file("text.pcap", "no capture");
        for (files, expected) in [
            (missing.clone(), "missing.pcap"),
            (format!("{a} {missing}"), "missing.pcap"),
            (format!("{a} {text}"), "text.pcap"),
            (format!("{a} {raw}"), "packets of the type RAW"),
        ] {
            let output = run!("replay -i va --json {files}");
            output.fails(1, expected);
            assert_eq!(count(&accounted(&output)["accepted"]), 0, "{files}");
        }
        run!("replay {a} -i va udp port 53").fails(2, "Write the filter with -f: -f 'udp port 53'");
        run!("replay {a} -i va 'tcp'").fails(2, "there is no file 'tcp'");
        let empty = folder.file("empty.pcap", classic(&[]));
        let json = accounted(run!("replay -i va --json -l 0 {empty}").succeeds());
        assert_eq!(count(&json["read"]), 0);
        for (arguments, text) in [
            ("-i sim", "only on an interface of this machine"),
            ("-i va -x 2 -t", "cannot be used with"),
            ("-i va -x 0", "not a number above 0"),
            ("-i va -p fast", "not a rate"),
            ("-i va --rewrite ttl=1", "cannot be rewritten"),
            ("-i va -f 'tcp port'", "tcp port"),
        ] {
            run!("replay {a} {arguments}").fails(2, text);
        }
        run!("replay - -l 2 -i va").fails(2, "can be read only once");
        run!("replay {a} -i any").fails(1, "all interfaces at once");
        run!("replay {a} -i vc").fails(1, "no interface 'vc'");
        // A file that ends in the middle of a packet: what is before it is sent.
        let mut torn = std::fs::read(&a).unwrap();
        torn.truncate(torn.len() - 5);
        let torn = folder.file("torn.pcap", torn);
        let output = run!("replay -i va --json -t {torn}");
        output.fails(1, "torn.pcap");
        assert_eq!(count(&accounted(&output)["accepted"]), 9);
    });
}

#[test]
fn packets_of_another_link_type_that_the_filter_rejects_are_counted_as_filtered() {
    lab(&[], || {
        let folder = Folder::new();
        let interface = |link: u32| blocks::block(1, &blocks::words(&[link, 0]));
        // An IPv4 header of UDP, and what comes before it on Ethernet.
        let mut ip = [0; 28];
        (ip[0], ip[3], ip[9]) = (0x45, 28, 17);
        let ethernet = [&[2; 12][..], &[8, 0], &ip].concat();
        let packet = |number: u32, data: &[u8]| {
            let len = data.len() as u32;
            let head = blocks::words(&[number, 0, 0, len, len]);
            blocks::block(6, &[&head[..], data].concat())
        };
        let file = [
            blocks::section(&[]),
            interface(1),
            packet(0, &ethernet),
            interface(101),
            packet(1, &ip),
            interface(227), // CAN
            packet(2, &ip),
            packet(0, &ethernet),
        ];
        let file = folder.file("several.pcapng", file.concat());
        // A type for which the filter makes no sense comes first, as in a file that was merged.
        let merged = [
            blocks::section(&[]),
            interface(227),
            packet(0, &ip),
            interface(1),
            packet(1, &ethernet),
        ];
        let merged = folder.file("merged.pcapng", merged.concat());
        let line = format!("{merged} -t -f 'ether dst 2:2:2:2:2:2'");
        let (_, json) = arrived(&folder, &line, 1);
        assert_eq!(counts(&json, ["read", "filtered"]), [2, 1]);
        for memory in ["", "-K"] {
            // The first makes sense for Ethernet only; the second is compiled for raw IP, too, and matches none of its packets.
            for filter in ["'ether dst 2:2:2:2:2:2'", "'udp and greater 40'"] {
                let line = format!("{file} -t {memory} -f {filter}");
                let (_, json) = arrived(&folder, &line, 2);
                assert_eq!(counts(&json, ["read", "filtered"]), [4, 2]);
            }
            let output = run!("replay -i va --json -t {memory} {file} -f udp");
            output.fails(
                1,
                "sending packets of the type RAW (Raw IP) on va, whose type is EN10MB",
            );
            let json = accounted(&output);
            assert_eq!(counts(&json, ["read", "filtered", "accepted"]), [1, 0, 1]);
            // No packet can match it, so nothing would be sent.
            let nothing = "'greater 5 and less 4'";
            let output = run!("replay -i va --json -t {memory} {file} -f {nothing}");
            output.fails(2, "no packet of link type EN10MB");
        }
    });
}

#[test]
fn a_slow_interface_puts_packets_off_and_loses_none() {
    lab(&["tc"], || {
        let (folder, a) = captured("a.pcap", "count=300,size=600");
        let mut tc = lab::tool("tc");
        tc.args(words(
            "qdisc add dev va root tbf rate 20mbit burst 4kb limit 8kb",
        ));
        if !tc.output().unwrap().status.success() {
            return lab::skip("the queueing discipline `tbf`");
        }
        let expected = printed(&a);
        let (got, json) = arrived(&folder, &format!("{a} -t --wait 30"), 300);
        assert_eq!(got, expected);
        assert!(count(&json["retried"]) > 0, "{json}");
    });
}

#[test]
fn a_replay_gives_up_its_rights_before_it_reads() {
    lab(&[], || {
        let (folder, fifo) = Folder::with("fifo");
        mkfifo(&fifo);
        let mut child = start!("replay -i va --json {fifo}");
        heard(&mut child, "sending");
        crate::wire::privileges::has_only_rights_to_files(&child);
        let a = recorded(&folder, "a.pcap", "count=10");
        let mut writer = std::fs::File::options().write(true).open(&fifo).unwrap();
        writer.write_all(&std::fs::read(a).unwrap()).unwrap();
        drop(writer);
        let output = child.wait_with_output().unwrap();
        assert_eq!(count(&accounted(output.succeeds())["accepted"]), 10);
    });
}

#[test]
fn a_capture_on_another_interface_sees_nothing_of_a_replay() {
    lab(&[], || {
        ip("link add vc type veth peer name vd");
        up(&["vc", "vd"]);
        let (folder, a) = captured("a.pcap", "count=50");
        let other = listening_on("vd", format!("-w {}", folder.path("other.pcapng")));
        accounted(run!("replay -i va --json -t {a}").succeeds());
        let json = stopped(other).keeps_the_law();
        assert_eq!(count(&json["received"]), 0, "{json}");
    });
}
