//! `--threads`: several threads and rings are one capture.

use crate::support::*;
use crate::wire::{
    Load,
    lab::{carries, ip, lab},
    listening, outage,
};
use serde_json::Value;
use std::time::Duration;

/// The law in the summary, in its text, in its rows and in the file, without the place of each mark: a mark is before the next packet
/// of its thread. Returns the number of packets that the kernel dropped.
fn check(json: &Value, text: &str, found: &Found, sent: u64) -> u64 {
    let [received, written, unread] = counts(json, ["received", "written", "unread"]);
    let kernel = count(&json["dropped"]["kernel"]);
    assert_eq!(json["law_holds"], true, "{json}");
    assert_eq!((received, unread), (sent, 0), "{json}");
    // `null` where the kernel does not count what its filter rejects.
    let filtered = json["filtered"].as_u64().unwrap_or(0);
    assert_eq!(received, written + filtered + kernel, "{json}");
    contains(text, format!("{received} received = {written} written"));
    contains(text, format!("{kernel} packets dropped by kernel"));
    assert_eq!(found.statistics, [[received - filtered, kernel, written]]);
    assert_eq!(found.packets.len() as u64, written);
    let marked = found.packets.iter().filter(|it| it.dropped_before > 0);
    assert_eq!(marked.count() as u64, count(&json["gaps"]));
    let told: u64 = found.packets.iter().map(|it| it.dropped_before).sum();
    assert!(told <= kernel, "{told} of {kernel} dropped are marked");
    let rows = json["threads"].as_array().unwrap();
    let sum = |name: &str| rows.iter().map(|row| count(&row[name])).sum::<u64>();
    assert_eq!(
        [sum("received"), sum("taken"), sum("dropped")],
        [received, written, kernel]
    );
    for row in rows {
        let [received, taken, dropped] = counts(row, ["received", "taken", "dropped"]);
        let filtered = row["filtered"].as_u64().unwrap_or(0);
        assert_eq!(received, taken + filtered + dropped, "{row}");
    }
    kernel
}

/// Each packet is in the file once, and all are in the order of time, except those that are counted as late.
fn in_order(json: &Value, found: &Found) -> u64 {
    let mut last = 0;
    let mut late = 0;
    for packet in &found.packets {
        late += u64::from(packet.time_ns < last);
        last = last.max(packet.time_ns);
    }
    assert_eq!(late, count(&json["odd_packets"]["late"]), "{json}");
    let mut sequences = found.sequences();
    sequences.sort_unstable();
    assert!(
        sequences.windows(2).all(|pair| pair[0] < pair[1]),
        "a packet is there twice"
    );
    late
}

#[test]
fn overloads_of_two_threads_keep_the_law_in_text_json_and_file() {
    lab(&["tcpreplay"], || {
        let (load, file) = Load::with_output(60_000);
        for round in 0..rounds(20) {
            let flags = format!("-w {file} -B 1M --threads 2");
            let child = listening(flags);
            // A reader that does not run: both rings fill, and packets are dropped.
            interrupt(&child, "-STOP");
            load.send();
            interrupt(&child, "-CONT");
            let ran = stopped(child);
            let (json, found) = (ran.succeeds().json(), found::open(&file));
            let dropped = check(&json, ran.log(), &found, 60_000);
            assert!(dropped > 20_000, "round {round}: {json}");
            in_order(&json, &found);
        }
    });
}

#[test]
fn after_a_pause_of_the_reader_both_threads_take_every_packet_again() {
    lab(&["tcpreplay"], || {
        let (load, file) = Load::with_output(60_000);
        let child = listening(format!("-w {file} -B 1M --threads 2"));
        interrupt(&child, "-STOP");
        load.send();
        std::thread::sleep(Duration::from_secs(3));
        interrupt(&child, "-CONT");
        // Each is less than one ring holds, and the last is taken completely.
        for _ in 0..8 {
            std::thread::sleep(Duration::from_millis(250));
            load.send_into("va", 2_000);
        }
        let ran = stopped(child);
        let (json, found) = (ran.succeeds().json(), found::open(&file));
        let dropped = check(&json, ran.log(), &found, 76_000);
        assert!(dropped > 20_000, "{json}");
        let last = &found.packets[found.packets.len() - 2000..];
        let last = last.iter().map(|packet| packet.sequence);
        are_each_once(last.collect(), 0..2000);
    });
}

#[test]
fn in_every_mode_each_packet_is_in_the_merged_file_once_and_in_order() {
    lab(&["tcpreplay", "tshark", "capinfos"], || {
        let (load, file) = Load::with_output(40_000);
        let mut late = 0;
        for mode in ["hash", "lb", "cpu", "qm", "rollover"] {
            let child = listening(format!("-w {file} --threads 2 --fanout {mode}"));
            let ran = load.through(child);
            let (json, found) = (ran.succeeds().json(), found::open(&file));
            assert_eq!(check(&json, ran.log(), &found, 40_000), 0, "{mode}");
            late = in_order(&json, &found);
            are_each_once(found.sequences(), 0..40_000);
            assert_eq!(found.interfaces, 1);
            let taken = json["threads"].as_array().unwrap().iter();
            let taken: Vec<_> = taken.map(|row| count(&row["taken"])).collect();
            match mode {
                "lb" => assert_eq!(taken, [20_000; 2]),
                "hash" => assert!(taken.iter().all(|&taken| taken > 5_000), "{taken:?}"),
                _ => {}
            }
        }
        let ran = tool_output(format!("capinfos -M -c -o {file}"));
        contains(ran.text(), "Number of packets:   40000");
        let strict = if late == 0 { "True" } else { "False" };
        contains(ran.text(), format!("Strict time order:   {strict}"));
        let shown = tool_output(format!("tshark -r {file} -n -c 9"));
        assert_eq!(shown.text().lines().count(), 9);
    });
}

#[test]
fn a_filter_and_a_limit_hold_for_all_threads() {
    lab(&["tcpreplay"], || {
        let (load, file) = Load::with_output(20_000);
        // Half of the 64 sources.
        let filter = "ip[15] & 1 = 0";
        let child = listening(format!("-w {file} --threads 3 --fanout lb -s 60 {filter}"));
        let ran = load.through(child);
        let (json, found) = (ran.succeeds().json(), found::open(&file));
        let kept = found.packets.len() as u64;
        assert!((5_000..15_000).contains(&kept), "{json}");
        // Without eBPF, the kernel does not count what it rejects.
        let filtered = json["filtered"].as_u64();
        let sent = filtered.map_or(kept, |_| 20_000);
        assert_eq!(filtered.unwrap_or(0), sent - kept);
        assert_eq!(check(&json, ran.log(), &found, sent), 0);

        let child = listening(format!("-w {file} --threads 2 -c 1000"));
        load.send();
        let ran = child.wait_with_output().unwrap();
        let json = ran.keeps_the_law();
        assert_eq!(count(&json["written"]), 1000);
        let found = found::open(&file);
        in_order(&json, &found);
        assert_eq!(found.packets.len(), 1000);
    });
}

#[test]
fn overload_and_a_filter_add_up_over_several_threads() {
    lab(&["tcpreplay"], || {
        let (load, file) = Load::with_output(120_000);
        let child = listening(format!("-w {file} -B 1M --threads 2 ether[49] & 1 = 1"));
        // A reader that does not run: both rings fill, and matching packets are dropped.
        interrupt(&child, "-STOP");
        load.send();
        interrupt(&child, "-CONT");
        let ran = stopped(child);
        let (json, found) = (ran.succeeds().json(), found::open(&file));
        // Without eBPF, the kernel does not count what it rejects.
        let filtered = json["filtered"].as_u64();
        assert!(filtered.is_none_or(|rejected| rejected == 60_000), "{json}");
        let sent = 60_000 + filtered.unwrap_or(0);
        let dropped = check(&json, ran.log(), &found, sent);
        assert!(dropped > 10_000, "{json}");
        let odd = found.packets.iter().all(|packet| packet.sequence % 2 == 1);
        assert!(odd, "a packet that the filter rejects is in the file");
        in_order(&json, &found);
    });
}

#[test]
fn one_file_a_thread_holds_what_its_thread_took() {
    lab(&["tcpreplay"], || {
        let load = Load::new(30_000);
        let flags = format!("-w {} --threads 2 --per-thread", load.path("got.pcapng"));
        let ran = load.through(listening(flags));
        let json = ran.keeps_the_law();
        assert_eq!(counts(&json, ["received", "written"]), [30_000; 2]);
        let mut all = Vec::new();
        for (number, row) in json["threads"].as_array().unwrap().iter().enumerate() {
            let file = load.path(&format!("got-{number}.pcapng"));
            assert_eq!(row["file"], file.as_str());
            let found = found::open(&file);
            let [received, taken, dropped] = counts(row, ["received", "taken", "dropped"]);
            assert_eq!(found.statistics, [[received, dropped, taken]]);
            assert_eq!(found.packets.len() as u64, taken);
            assert!(found.packets.is_sorted_by_key(|packet| packet.time_ns));
            all.extend(found.sequences());
        }
        are_each_once(all, 0..30_000);
    });
}

#[test]
fn threads_go_on_after_their_interface_was_down_and_end_when_it_is_deleted() {
    lab(&["tcpreplay"], || {
        let load = Load::new(5_000);
        for flags in ["", "--per-thread"] {
            ip("link set vb up");
            carries("va");
            let file = load.path("got.pcapng");
            let mut child = listening(format!("-w {file} --threads 2 {flags}"));
            load.send();
            let mut log = outage(&mut child, "vb");
            carries("va");
            load.send();
            let ran = stopped(child);
            log += ran.log();
            let json = ran.keeps_the_law();
            assert_eq!(counts(&json, ["received", "written"]), [10_000; 2], "{log}");
            let outages = &json["got"]["sources"][0]["outages"];
            assert_eq!(count(&outages["count"]), 1, "{json}");
        }
        let file = load.path("got.pcapng");
        let child = listening(format!("-w {file} --threads 2"));
        load.send();
        ip("link del vb");
        let ran = child.wait_with_output().unwrap();
        ran.fails(1, "vb: the interface is gone");
        check(&ran.json(), ran.log(), &found::open(&file), 5_000);
    });
}

#[test]
fn several_captures_of_one_interface_have_groups_of_their_own() {
    lab(&["tcpreplay"], || {
        let load = Load::new(5_000);
        let (one, two) = (load.path("one.pcapng"), load.path("two.pcapng"));
        let first = listening(format!("-w {one} --threads 2"));
        let second = listening(format!("-w {two} --threads 3 --fanout lb"));
        load.send();
        for (child, file) in [(first, one), (second, two)] {
            let ran = stopped(child);
            check(
                &ran.succeeds().json(),
                ran.log(),
                &found::open(&file),
                5_000,
            );
        }
    });
}
