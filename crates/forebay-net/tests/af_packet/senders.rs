//! Frames of other tools arrive as they were sent, with and without tags.

use crate::support::{Ended, ip, lab, pump, tool};
use crate::{LONG, ends_after, four_kinds, open, tagged};
use forebay_testing::folder::Folder;
use forebay_testing::lab::classic;
use std::process::Stdio;

#[test]
fn a_million_frames_of_trafgen_arrive_as_they_were_sent() {
    lab(&["trafgen"], || {
        const SENT: u64 = 1_000_000;
        let kinds = four_kinds();
        let folder = Folder::new();
        let script = kinds
            .iter()
            .map(|frame| format!("{{ {} }}\n", as_list(frame)));
        let path = folder.file("four.cfg", script.collect::<String>());
        let mut port = open(|_| ());
        let flags = "--dev va --cpus 1 --no-cpu-stats --no-sock-mem --rate 400000pps --conf";
        let mut trafgen = tool("trafgen");
        trafgen
            .args(flags.split(' '))
            .args([&path, "--num", &SENT.to_string()]);
        trafgen.current_dir(folder.path("")); // where it creates its own files
        let trafgen = trafgen.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let (mut seen, mut bytes, mut wrong) = (0u64, 0u64, 0u64);
        let ended = pump(&mut port, LONG, |frame| {
            let expected = &kinds[(seen % 4) as usize];
            let is_right = frame.data == *expected && frame.wire_len as usize == expected.len();
            wrong += u64::from(!is_right);
            (seen, bytes) = (seen + 1, bytes + frame.data.len() as u64);
            seen < SENT
        });
        let output = trafgen.unwrap().wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}; {seen} seen");
        // Print the interfaces' counters, since the cause may precede the socket.
        let what = format!("{seen} seen; {}", ip("-s link"));
        assert_eq!((ended.unwrap(), wrong), (Ended::Enough, 0), "{what}");
        let of_each: usize = kinds.iter().map(Vec::len).sum();
        assert_eq!(bytes, SENT / 4 * of_each as u64);
        assert_eq!(ends_after(&mut port, seen).received, SENT);
    });
}

#[test]
fn frames_of_tcpreplay_arrive_as_they_were_sent() {
    lab(&["tcpreplay"], || {
        const ROUNDS: u64 = 2_000;
        // All lengths up to the MTU of 1500 bytes, with and without tags.
        let mut frames: Vec<_> = (0..100).map(|step| tagged(&[], 60 + step * 14)).collect();
        frames.extend(four_kinds());
        let folder = Folder::new();
        let path = folder.file("frames.pcap", classic(&frames));
        let mut port = open(|_| ());
        let mut tcpreplay = tool("tcpreplay");
        tcpreplay.args("-i va -q --preload-pcap --pps 200000 --loop".split(' '));
        tcpreplay.args([&ROUNDS.to_string(), &path]);
        let tcpreplay = tcpreplay
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let (mut seen, mut wrong) = (0u64, 0u64);
        let sent = ROUNDS * frames.len() as u64;
        let ended = pump(&mut port, LONG, |frame| {
            wrong += u64::from(frame.data != frames[seen as usize % frames.len()].as_slice());
            seen += 1;
            seen < sent
        });
        assert!(tcpreplay.unwrap().wait().unwrap().success());
        // Print the interfaces' counters, since the cause may precede the socket.
        let what = format!("{seen} seen; {}", ip("-s link"));
        assert_eq!((ended.unwrap(), wrong), (Ended::Enough, 0), "{what}");
        assert_eq!(ends_after(&mut port, seen).received, sent);
    });
}

fn as_list(bytes: &[u8]) -> String {
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    bytes.join(", ")
}
