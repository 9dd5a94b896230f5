//! Packets that found no room, in real time: each is counted, and marked where it is missing.

use crate::{
    check, started,
    support::{Folder, count, found::read, run, summary, text, words},
};
use std::{fs::File, io::Read, time::Duration};

#[test]
fn packets_lost_to_a_slow_reader_of_a_pipe_are_all_counted() {
    for trial in 0..3 {
        let port = format!("sim:rate=4G,seed={trial},host=20000");
        let args = [
            "-i", &port, "-c", "400k", "-w", "-", "--store", "2x64KiB", "--json",
        ];
        let mut child = started(&args);
        let mut stdout = child.stdout.take().unwrap();
        let mut packets = Vec::new();
        let mut piece = vec![0; 256 << 10];
        loop {
            match stdout.read(&mut piece).unwrap() {
                0 => break,
                n => packets.extend(&piece[..n]),
            }
            if packets.len() < 8 << 20 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let json = summary(&output.stderr);
        assert!(count(&json["dropped"]["kernel"]) > 0, "{json}");
        check(&json, text(&output.stderr), &read(&packets[..]));
    }
}

#[test]
fn a_card_without_a_host_ring_loses_and_reports_in_real_time() {
    let folder = Folder::new();
    let file = folder.path("card.pcapng");
    let port = "sim:rate=10G,ring=64,host=none,stall=1ms@20ms";
    let line = format!("-i {port} -c 300k -w {file} --json --fail-on-drop");
    let args = words(&line);
    let output = run(&args);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let found = read(File::open(&file).unwrap());
    check(&summary(&output.stdout), text(&output.stderr), &found);
}

#[test]
fn a_store_of_two_small_buffers_keeps_the_law() {
    let folder = Folder::new();
    let file = folder.path("small.pcapng");
    let port = "sim:rate=10G,host=256,ring=64";
    let args = [
        "-i", port, "-c", "500k", "-w", &file, "--json", "--store", "2x64KiB",
    ];
    let output = run(&args);
    assert!(output.status.success());
    let found = read(File::open(&file).unwrap());
    check(&summary(&output.stdout), text(&output.stderr), &found);
}
