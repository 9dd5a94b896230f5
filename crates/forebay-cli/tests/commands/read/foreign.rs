//! Captures made by other programs: a copy holds what another tool's copy holds.

use crate::read::{law, packets};
use crate::support::*;
use forebay_testing::foreign::captures;

#[test]
fn classic_files_come_out_as_tcpdump_copies_them() {
    if !has("tcpdump") {
        return;
    }
    for path in captures("pcap") {
        let folder = Folder::new();
        let (input, ours) = (path.to_str().unwrap(), folder.path("a.pcap"));
        let ran = run!("capture -r {input} -w {ours} -q");
        // tcpdump cuts packets to the snapshot length of the file, where they are longer.
        let file = std::fs::read(&path).unwrap();
        let mut uncut = file.clone();
        let longest = 262_144_u32;
        uncut[16..20].copy_from_slice(&match file[0] {
            0xa1 => longest.to_be_bytes(),
            _ => longest.to_le_bytes(),
        });
        let roomy = folder.file("uncut.pcap", uncut);
        let tcpdump = foreign(format!("tcpdump -r {roomy} -w -")).unwrap();
        assert_eq!(ran.status.success(), tcpdump.status.success(), "{input}");
        let ours = std::fs::read(&ours).unwrap();
        let mut snaplen: [u8; 4] = file[16..20].try_into().unwrap();
        if file[0] == 0xa1 {
            snaplen.reverse();
        }
        assert_eq!(ours[..16], tcpdump.stdout[..16], "{input}");
        assert!([snaplen, longest.to_le_bytes()].contains(&ours[16..20].try_into().unwrap()));
        assert_eq!(ours[20..24], tcpdump.stdout[20..24], "{input}");
        assert!(ours[24..] == tcpdump.stdout[24..], "{input}");
    }
}

#[test]
fn pcapng_files_come_out_as_tshark_writes_them() {
    if !has("tshark") || !has("editcap") {
        return;
    }
    for path in captures("pcapng") {
        let folder = Folder::new();
        let input = path.to_str().unwrap();
        let (ours, theirs) = (folder.path("ours.pcapng"), folder.path("theirs.pcapng"));
        let ran = run!("capture -r {input} -w {ours} -q --json");
        ran.succeeds();
        // The same library, in a fiftieth of the time, but editcap refuses some files.
        let editcap = foreign(format!("editcap -F pcapng {input} {theirs}"));
        if !editcap.unwrap().status.success() {
            let tshark = foreign(format!("tshark -r {input} -w {theirs} -F pcapng"));
            tshark.unwrap().succeeds();
        }
        let packets = packets(&ours);
        assert_eq!(packets, self::packets(&theirs), "{input}");
        let [received, written, _] = law(&ran);
        assert_eq!([received, written], [packets.len() as u64; 2], "{input}");
    }
}
