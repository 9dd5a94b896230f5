//! Frames of other tools arrive as they were sent, with and without tags.

use crate::support::{Ended, classic, ip, lab, pump, tool};
use crate::{LONG, four_kinds, open, settled, tagged};
use forebay_net::af_packet::AfPacketConfig;
use forebay_net::port::Port;

#[test]
fn a_million_frames_of_trafgen_arrive_as_they_were_sent() {
    lab(&["trafgen"], || {
        const SENT: u64 = 1_000_000;
        let kinds = four_kinds();
        let script: String = kinds
            .iter()
            .map(|frame| format!("{{ {} }}\n", as_list(frame)))
            .collect();
        let folder = tempfolder("trafgen");
        let path = folder.join("four.cfg");
        std::fs::write(&path, script).unwrap();
        let mut port = open(&AfPacketConfig::default());
        let trafgen = tool("trafgen")
            .current_dir(&folder) // where it creates its own files
            .args([
                "--dev",
                "va",
                "--cpus",
                "1",
                "--no-cpu-stats",
                "--no-sock-mem",
                "--rate",
                "400000pps",
            ])
            .args(["--num", &SENT.to_string(), "--conf"])
            .arg(&path)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let (mut seen, mut bytes, mut wrong) = (0u64, 0u64, 0u64);
        let ended = pump(&mut port, LONG, |frame| {
            let expected = &kinds[(seen % 4) as usize];
            wrong += u64::from(
                frame.data != expected.as_slice() || frame.wire_len as usize != expected.len(),
            );
            (seen, bytes) = (seen + 1, bytes + frame.data.len() as u64);
            seen < SENT
        });
        let output = trafgen.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{}: {said}; {seen} seen",
            output.status
        );
        // Print the interfaces' counters, since the cause may precede the socket.
        assert_eq!(
            (ended.unwrap(), wrong),
            (Ended::Enough, 0),
            "{seen} seen; {}",
            ip("-s link")
        );
        assert_eq!(
            bytes,
            SENT / 4 * kinds.iter().map(|frame| frame.len() as u64).sum::<u64>()
        );
        port.stop().unwrap();
        assert_eq!(
            pump(&mut port, LONG, |_| unreachable!()).unwrap(),
            Ended::End
        );
        assert_eq!(settled(&mut port, seen, 0).received, SENT);
        std::fs::remove_dir_all(folder).unwrap();
    });
}

#[test]
fn frames_of_tcpreplay_arrive_as_they_were_sent() {
    lab(&["tcpreplay"], || {
        const ROUNDS: u64 = 2_000;
        // All lengths up to the MTU of 1500 bytes, with and without tags.
        let mut frames: Vec<_> = (0..100).map(|step| tagged(&[], 60 + step * 14)).collect();
        frames.extend(four_kinds());
        let folder = tempfolder("tcpreplay");
        let path = folder.join("frames.pcap");
        std::fs::write(&path, classic(&frames)).unwrap();
        let mut port = open(&AfPacketConfig::default());
        let mut tcpreplay = tool("tcpreplay")
            .args([
                "-i",
                "va",
                "-q",
                "--preload-pcap",
                "--pps",
                "200000",
                "--loop",
                &ROUNDS.to_string(),
            ])
            .arg(&path)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let (mut seen, mut wrong) = (0u64, 0u64);
        let sent = ROUNDS * frames.len() as u64;
        let ended = pump(&mut port, LONG, |frame| {
            wrong += u64::from(frame.data != frames[seen as usize % frames.len()].as_slice());
            seen += 1;
            seen < sent
        });
        assert!(tcpreplay.wait().unwrap().success());
        // Print the interfaces' counters, since the cause may precede the socket.
        assert_eq!(
            (ended.unwrap(), wrong),
            (Ended::Enough, 0),
            "{seen} seen; {}",
            ip("-s link")
        );
        port.stop().unwrap();
        assert_eq!(
            pump(&mut port, LONG, |_| unreachable!()).unwrap(),
            Ended::End
        );
        assert_eq!(settled(&mut port, seen, 0).received, sent);
        std::fs::remove_dir_all(folder).unwrap();
    });
}

fn as_list(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| format!("0x{byte:02x}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn tempfolder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("forebay-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
