//! `--threads` on a simulated card: requests, and whatever else a capture does with packets.

use crate::capture::requests::are_refused;
use crate::support::*;
use std::io::Read;

#[test]
fn each_wrong_request_about_threads_gets_its_own_clear_answer() {
    let cases = "
        2 | -i sim --threads 0                           | '0' is not a number of threads. Use 1 to 64
        2 | -i sim --threads 65                          | Use 1 to 64
        2 | -i sim --cpus 0                              | --threads
        2 | -i sim --per-thread -w x                     | --threads
        2 | -i eth0 --threads 2 --fanout random          | 'random' is not a mode. Use hash, lb, cpu, qm or rollover
        2 | -i sim --threads 2 --fanout lb               | threads that read a simulated card take turns
        2 | -i sim:clock=virtual --threads 2             | leave clock=virtual out
        2 | -i any --threads 2                           | --threads captures from one interface, and any is all of them
        2 | -i sim -i sim --threads 2                    | --threads captures from one interface
        2 | -i share:none --threads 2                      | --threads captures from one interface
        2 | -r x.pcapng --threads 2                      | and no file with -r
        2 | -i sim --threads 2 --cpus 0                  | --cpus names 1 of 2 processors
        2 | -i sim --threads 2 --cpus 0,x                | '0,x' is not a list of processors. Use a value such as 2,3 or 4-7
        2 | -i sim --threads 2 --cpus 3-2                | is not a list of processors
        2 | -i sim --threads 2 --cpus 1022-1023          | --cpus 1022: this process may not run there
        2 | -i sim --threads 2 --per-thread              | name them with -w
        2 | -i sim --threads 2 --per-thread -w -         | name them with -w
        2 | -i sim --threads 2 --per-thread -w x --print | --print is about the packets of all threads
        2 | -i sim --threads 2 --per-thread -w x -c 5    | -c is about the packets of all threads
        2 | -i sim --threads 2 --per-thread -w x -a packets:5 | -a packets is about the packets of all threads
        2 | -i sim --threads 2 --per-thread -w x --share s | --share is about the packets of all threads
        2 | -i sim --threads 2 --per-thread -w x --recorder 5s | --recorder is about the packets of all threads
    ";
    are_refused(cases);
}

#[test]
fn merged_packets_can_be_filtered_cut_printed_and_written_to_a_series_or_as_pcap() {
    let folder = Folder::new();
    let sim = "-i sim:rate=100M,count=30000 --threads 3 --json";
    // A filter of ours, and the classic format: packets are composed again.
    let file = folder.path("a.pcap");
    let ran = run!("capture {sim} -w {file} -s 58 udp");
    assert_eq!(ran.keeps_the_law()["written"], 30_000);
    let read = folder.path("b.pcapng");
    let ran = run!("capture -r {file} -w {read}");
    ran.succeeds();
    let found = found::open(&read);
    assert!(found.packets.is_sorted_by_key(|packet| packet.time_ns));
    are_each_once(found.sequences(), 0..30_000);

    let ran = run!("capture {sim} -w {file} tcp");
    let json = ran.keeps_the_law();
    assert_eq!(
        counts(&json, ["received", "filtered", "written"]),
        [30_000, 30_000, 0]
    );

    let ran = run!("capture {sim} --print -c 100");
    assert_eq!(ran.succeeds().text().lines().count(), 100);
    assert_eq!(ran.json()["law_holds"], true);

    let series = folder.path("s.pcapng");
    let json = run!("capture {sim} -w {series} -b packets:10000").keeps_the_law();
    assert_eq!(counts(&json, ["written", "files_written"]), [30_000, 3]);
    let mut all = Vec::new();
    for file in json["files"].as_array().unwrap() {
        let found = found::open(file.as_str().unwrap());
        assert_eq!((found.packets.len(), found.statistics.len()), (10_000, 1));
        all.extend(found.sequences());
    }
    are_each_once(all, 0..30_000);
}

#[test]
fn each_thread_writes_its_own_series() {
    let folder = Folder::new();
    let sim = "-i sim:rate=100M,count=30000 --threads 2 --per-thread --json";
    let series = folder.path("s.pcapng");
    let ran = run!("capture {sim} -w {series} -b packets:5000");
    let json = ran.keeps_the_law();
    assert_eq!(counts(&json, ["written", "files_written"]), [30_000, 6]);
    let name = json["files"][3].as_str().unwrap();
    contains(name, "s-1_00001_");
    contains(
        ran.log(),
        "thread 1: 15000 received = 15000 taken + 0 dropped",
    );
}

#[test]
fn an_interrupt_ends_all_threads_with_exact_counts() {
    let folder = Folder::new();
    for flags in ["", "--per-thread"] {
        let file = folder.path("a.pcapng");
        let flags = format!("--threads 2 -w {file} --json --stats-interval 0.05 {flags}");
        let mut child = start!("capture -i sim:rate=10M {flags}");
        // A line of --json is shorter than what is read here at once.
        let mut first = [0; 64 << 10];
        let len = child.stdout.as_mut().unwrap().read(&mut first).unwrap();
        contains(String::from_utf8_lossy(&first[..len]), "\"running\":true");
        let ran = stopped(child);
        contains(ran.succeeds().log(), "received = ");
        contains(ran.log(), "thread 1: ");
    }
}
