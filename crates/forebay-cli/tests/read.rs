//! `forebay capture -r` and filters, as their users run them.

use serde_json::Value;
use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use support::{
    Folder, count, forebay,
    found::{Found, read},
    has, run, summary, text,
};

mod support;

/// A capture of simulated packets: `frames` of them, with the sequence number in bytes 42 to 49.
fn recorded(folder: &Folder, name: &str, frames: &str) -> String {
    let path = folder.path(name);
    let ran = run(&["-i", "sim:clock=virtual", "-c", frames, "-q", "-w", &path]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    path
}

fn found(path: &str) -> Found {
    read(File::open(path).unwrap())
}

fn sequences(found: &Found) -> Vec<u64> {
    found.packets.iter().map(|packet| packet.sequence).collect()
}

/// The law, and that it is about files: nothing is lost, whatever is not written is filtered.
fn law(json: &Value) -> [u64; 3] {
    assert_eq!(json["law_holds"], true, "{json}");
    let dropped = json["dropped"].as_object().unwrap();
    assert!(dropped.values().all(|lost| lost == 0), "{json}");
    assert_eq!(json["unread"], 0, "{json}");
    ["received", "written", "filtered"].map(|key| count(&json[key]))
}

/// Captures that nobody here made.
fn foreign(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let Ok(entries) = std::fs::read_dir(folder.join(kind)) else {
        println!("skipped: needs ../shared/data/{kind}");
        return Vec::new();
    };
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn classic_files_come_out_as_tcpdump_copies_them() {
    if !has("tcpdump") {
        return;
    }
    for path in foreign("pcap") {
        let folder = Folder::new();
        let (input, ours, theirs) = (path.to_str().unwrap(), folder.path("a.pcap"), "-");
        let ran = run(&["-r", input, "-w", &ours, "-q"]);
        let tcpdump = Command::new("tcpdump")
            .args(["-r", input, "-w", theirs])
            .output()
            .unwrap();
        assert_eq!(ran.status.success(), tcpdump.status.success(), "{input}");
        let ours = std::fs::read(&ours).unwrap();
        // The link type's upper half tells of check sequences, and we know no snaplen above 262144.
        assert_eq!(ours[..16], tcpdump.stdout[..16], "{input}");
        assert_eq!(ours[20..22], tcpdump.stdout[20..22], "{input}");
        assert!(ours[24..] == tcpdump.stdout[24..], "{input}");
    }
}

/// A packet with what its interface says: link type, resolution, ticks, wire length, data.
type Packet = (i32, u8, u64, u32, Vec<u8>);

fn packets(path: &str) -> Vec<Packet> {
    use pcap_parser::{Block, PcapBlockOwned, PcapError, traits::PcapNGPacketBlock};
    let mut reader = pcap_parser::create_reader(1 << 20, File::open(path).unwrap()).unwrap();
    let (mut interfaces, mut packets) = (Vec::new(), Vec::new());
    loop {
        match reader.next() {
            Ok((used, block)) => {
                match block {
                    PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                        interfaces.push((interface.linktype.0, interface.if_tsresol));
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        let (link, resolution) = interfaces[packet.if_id as usize];
                        let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                        let data = packet.packet_data().to_vec();
                        packets.push((link, resolution, ticks, packet.origlen, data));
                    }
                    _ => {}
                }
                reader.consume(used);
            }
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(PcapError::Eof) => return packets,
            Err(other) => panic!("{path}: {other:?}"),
        }
    }
}

fn found_interfaces(path: &str) -> usize {
    let bytes = std::fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut interfaces) = (0, 0);
    while at < bytes.len() {
        interfaces += usize::from(word(at) == 1);
        at += word(at + 4) as usize;
    }
    interfaces
}

#[test]
fn pcapng_files_come_out_as_tshark_writes_them() {
    if !has("tshark") {
        return;
    }
    for path in foreign("pcapng") {
        let folder = Folder::new();
        let input = path.to_str().unwrap();
        let (ours, theirs) = (folder.path("ours.pcapng"), folder.path("theirs.pcapng"));
        let ran = run(&["-r", input, "-w", &ours, "-q", "--json"]);
        assert!(ran.status.success(), "{input}: {}", text(&ran.stderr));
        let tshark = Command::new("tshark")
            .args(["-r", input, "-w", &theirs, "-F", "pcapng"])
            .output()
            .unwrap();
        assert!(tshark.status.success(), "{input}");
        let packets = packets(&ours);
        assert_eq!(packets, self::packets(&theirs), "{input}");
        let [received, written, _] = law(&summary(&ran.stdout));
        assert_eq!([received, written], [packets.len() as u64; 2], "{input}");
    }
}

#[test]
fn what_the_filter_rejects_is_counted_exactly() {
    let folder = Folder::new();
    let input = recorded(&folder, "in.pcapng", "10000");
    let output = folder.path("out.pcapng");
    let ran = run(&[
        "-r",
        &input,
        "-w",
        &output,
        "--json",
        "udp",
        "and",
        "ether[49] & 3 = 1",
    ]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(law(&summary(&ran.stdout)), [10_000, 2_500, 7_500]);
    let every_fourth: Vec<_> = (0..2_500).map(|k| 4 * k + 1).collect();
    assert_eq!(sequences(&found(&output)), every_fourth);
    let said = text(&ran.stderr);
    assert!(said.contains("10000 received = 2500 written + 7500 filtered + 0 dropped"));
    // It is a file: tcpdump's lines about a kernel would make no sense.
    assert!(!said.contains("kernel"), "{said}");
}

#[test]
fn a_count_is_a_count_of_what_passes() {
    let folder = Folder::new();
    let input = recorded(&folder, "in.pcapng", "1000");
    let output = folder.path("out.pcapng");
    let ran = run(&[
        "-r",
        &input,
        "-c",
        "10",
        "-w",
        &output,
        "--json",
        "ether[49] & 7 = 7",
    ]);
    assert_eq!(law(&summary(&ran.stdout)), [80, 10, 70]);
    assert_eq!(found(&output).packets.len(), 10);
}

#[test]
fn several_files_are_read_one_after_another() {
    let folder = Folder::new();
    let one = recorded(&folder, "one.pcapng", "3000");
    let two = recorded(&folder, "two.pcap", "2000");
    let output = folder.path("out.pcapng");
    let ran = run(&[
        "-r", &one, "-r", &two, "-r", &one, "-s", "54", "-w", &output, "--json",
    ]);
    assert_eq!(
        law(&summary(&ran.stdout)),
        [8_000, 8_000, 0],
        "{}",
        text(&ran.stderr)
    );
    // 54 bytes end behind the sequence number and before its complement, which `read` looks for.
    let packets = packets(&output);
    assert!(
        packets
            .iter()
            .all(|packet| packet.3 == 60 && packet.4.len() == 54)
    );
    let sequences = packets
        .iter()
        .map(|packet| u64::from(packet.4[48]) << 8 | u64::from(packet.4[49]));
    assert!(sequences.eq((0..3000).chain(0..2000).chain(0..3000)));
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (12 + body.len() as u32).to_le_bytes();
    [&kind.to_le_bytes(), &len, body, &len].concat()
}

fn section() -> Vec<u8> {
    let magic = [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
    block(0x0a0d_0d0a, &[magic, [255; 8]].concat())
}

/// An interface description with a resolution.
fn interface(link: u8, snaplen: u8, resolution: u8) -> Vec<u8> {
    let options = [9, 0, 1, 0, resolution, 0, 0, 0, 0, 0, 0, 0];
    let head = [link, 0, 0, 0, snaplen, 0, 0, 0];
    block(1, &[&head[..], &options[..]].concat())
}

/// An enhanced packet of four bytes, nine on the wire.
fn packet(interface: u32, ticks: u32) -> Vec<u8> {
    let words = [interface, 0, ticks, 4, 9].map(u32::to_le_bytes);
    block(6, &[&words.concat()[..], &[0x45, 1, 2, 3]].concat())
}

#[test]
fn interfaces_may_come_while_the_output_has_no_room() {
    let folder = Folder::new();
    let mut file = section();
    for number in 0..20_000 {
        file.extend(interface(101, 80, 9));
        file.extend(packet(number, number));
        file.extend(packet(number / 2, number));
    }
    let input = folder.path("in.pcapng");
    std::fs::write(&input, file).unwrap();
    let mut child = forebay(&["-r", &input, "-w", "-", "--store", "2x64KiB", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // 3.5 MB that nobody takes for a while.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut stdout = child.stdout.take().unwrap();
    let output = folder.path("out.pcapng");
    let copying = std::thread::spawn(move || {
        std::io::copy(&mut stdout, &mut File::create(&output).unwrap()).unwrap();
        output
    });
    let ran = child.wait_with_output().unwrap();
    let output = copying.join().unwrap();
    assert_eq!(law(&summary(&ran.stderr)), [40_000, 40_000, 0]);
    assert!(packets(&output).iter().all(|packet| packet.0 == 101));
    assert_eq!(found_interfaces(&output), 20_000);
}

#[test]
fn each_interface_keeps_its_name_link_type_and_resolution() {
    let folder = Folder::new();
    // Two interfaces: Ethernet with microseconds, raw IP with 2^-10 seconds.
    let file = [
        section(),
        interface(1, 96, 6),
        packet(0, 200),
        interface(101, 80, 0x80 | 10),
        packet(1, 7),
        packet(0, 201),
    ];
    let (input, output) = (folder.path("in.pcapng"), folder.path("out.pcapng"));
    std::fs::write(&input, file.concat()).unwrap();
    let ran = run(&["-r", &input, "-w", &output]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let expected = [(1, 6, 200), (101, 0x80 | 10, 7), (1, 6, 201)];
    let found = packets(&output);
    assert!(
        found.iter().map(|p| (p.0, p.1, p.2)).eq(expected),
        "{found:?}"
    );

    // The second interface comes when the first packet is written already: then it is too late.
    let output = folder.path("out.pcap");
    let ran = run(&["-r", &input, "-w", &output]);
    assert_eq!(ran.status.code(), Some(1));
    let said = text(&ran.stderr);
    assert!(
        said.contains("different link types. Name it .pcapng"),
        "{said}"
    );
    assert_eq!(std::fs::read(&output).unwrap().len(), 24 + 16 + 4);
}

#[test]
fn a_torn_file_gives_everything_up_to_its_last_whole_packet() {
    let folder = Folder::new();
    for name in ["whole.pcapng", "whole.pcap"] {
        let whole = recorded(&folder, name, "1000");
        let bytes = std::fs::read(&whole).unwrap();
        let input = folder.path(&format!("torn-{name}"));
        // In the middle of a record: 92 and 76 bytes each.
        std::fs::write(&input, &bytes[..50_000]).unwrap();
        let output = folder.path("out.pcapng");
        let ran = run(&["-r", &input, "-w", &output, "--json"]);
        assert_eq!(ran.status.code(), Some(1));
        let packets = found(&output).packets.len() as u64;
        assert_eq!(law(&summary(&ran.stdout)), [packets, packets, 0]);
        let said = text(&ran.stderr);
        assert!(said.contains("ends in the middle of a"), "{said}");
        assert!(
            said.contains(&format!("read {packets} packets up to there")),
            "{said}"
        );
        assert!((540..660).contains(&packets));
    }
}

#[test]
fn packed_files_and_pipes_are_read_as_they_come() {
    let folder = Folder::new();
    let input = recorded(&folder, "in.pcapng", "50000");
    let bytes = std::fs::read(&input).unwrap();
    let packed = Command::new("gzip")
        .args(["-c", &input])
        .output()
        .unwrap()
        .stdout;
    assert!(packed.len() < bytes.len() / 2);
    for (bytes, said) in [(bytes, "read"), (packed, "read, gzip")] {
        let mut child = forebay(&["-r", "-", "--json", "less 60"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(&bytes).unwrap();
        drop(pipe);
        let ran = child.wait_with_output().unwrap();
        let json = summary(&ran.stdout);
        assert_eq!(
            (count(&json["received"]), count(&json["counted"])),
            (50_000, 50_000)
        );
        assert_eq!(json["got"]["sources"][0]["copy"], said);
    }
}

#[test]
fn what_is_read_is_not_overwritten() {
    let folder = Folder::new();
    let input = recorded(&folder, "in.pcapng", "100");
    let before = std::fs::read(&input).unwrap();
    let link = folder.path("link.pcapng");
    std::os::unix::fs::symlink(&input, &link).unwrap();
    for output in [&input, &link] {
        let ran = run(&["-r", &input, "-w", output]);
        assert_eq!(ran.status.code(), Some(2));
        assert!(
            text(&ran.stderr).contains("would overwrite"),
            "{}",
            text(&ran.stderr)
        );
    }
    let mut appended = File::options().append(true).open(&input).unwrap();
    let opened = || File::open(&input).unwrap();
    for (stdin, stdout, args) in [
        (
            Stdio::null(),
            appended.try_clone().unwrap().into(),
            ["-r", &input, "-w", "-"],
        ),
        (opened().into(), Stdio::null(), ["-r", "-", "-w", &input]),
    ] {
        let ran = forebay(&args).stdin(stdin).stdout(stdout).output().unwrap();
        assert_eq!(
            ran.status.code(),
            Some(2),
            "{args:?}: {}",
            text(&ran.stderr)
        );
    }
    appended.flush().unwrap();
    assert_eq!(std::fs::read(&input).unwrap(), before);
}

#[test]
fn files_are_read_to_the_last_beside_a_busy_port() {
    let folder = Folder::new();
    let one = recorded(&folder, "one.pcapng", "300");
    let two = recorded(&folder, "two.pcapng", "200");
    // The frames of the port are longer, so that only files match; it never lets the poller sleep.
    let port = "sim:rate=max,size=512";
    let ran = run(&[
        "-i", port, "-r", &one, "-r", &two, "-c", "500", "--json", "less 60",
    ]);
    let json = summary(&ran.stdout);
    assert_eq!(
        (count(&json["counted"]), json["law_holds"].as_bool()),
        (500, Some(true))
    );
}

#[test]
fn where_a_filter_makes_no_sense_nothing_matches_and_the_rest_is_read() {
    let folder = Folder::new();
    let [ethernet, raw] = [interface(1, 96, 6), interface(101, 80, 6)];
    let file = [
        section(),
        ethernet,
        packet(0, 1),
        raw,
        packet(1, 2),
        packet(0, 3),
    ];
    let input = folder.path("in.pcapng");
    std::fs::write(&input, file.concat()).unwrap();
    let output = folder.path("out.pcapng");
    let ran = run(&[
        "-r",
        &input,
        "-w",
        &output,
        "--json",
        "ether[0] = 0x45 or vlan",
    ]);
    assert_eq!(
        law(&summary(&ran.stdout)),
        [3, 2, 1],
        "{}",
        text(&ran.stderr)
    );
    // On none of them: then it is the filter that is wrong.
    std::fs::write(
        &input,
        [section(), interface(101, 80, 6), packet(0, 1)].concat(),
    )
    .unwrap();
    let ran = run(&["-r", &input, "vlan"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(text(&ran.stderr).contains("'vlan' is not supported on link type RAW"));
}

#[test]
fn a_classic_copy_is_not_cut_by_what_an_interface_claims() {
    let folder = Folder::new();
    // An interface that says it keeps 2 bytes, and a packet of 4; then times after 2106.
    let input = folder.path("in.pcapng");
    let late = [0, 0x0100_0000, 0, 4, 9].map(u32::to_le_bytes).concat();
    let late = block(6, &[&late[..], &[0x45; 4]].concat());
    let file = [section(), interface(1, 2, 6), packet(0, 1), late];
    std::fs::write(&input, file.concat()).unwrap();
    let output = folder.path("out.pcap");
    let ran = run(&["-r", &input, "-w", &output]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(text(&ran.stderr).contains("times after February 2106. Name it .pcapng"));
    let copied = std::fs::read(&output).unwrap();
    assert_eq!(
        (copied.len(), &copied[16..20]),
        (24 + 16 + 4, &262_144_u32.to_le_bytes()[..])
    );
}

#[test]
fn nonsense_is_refused_before_anything_is_made() {
    let folder = Folder::new();
    let input = recorded(&folder, "in.pcapng", "10");
    let output = folder.path("out.pcapng");
    let empty = folder.path("empty");
    std::fs::write(&empty, "").unwrap();
    let text_file = folder.path("text");
    std::fs::write(&text_file, "not a capture at all, only some text").unwrap();
    let missing = folder.path("missing");
    for (code, args, said) in [
        (
            2,
            &["-r", &input, "tcp prot 80"][..],
            "  tcp prot 80\n      ^^^^\n",
        ),
        (2, &["-r", &input, "host"], "host\n"),
        (2, &["-r", &input, "-F", &text_file], "not a capture at all"),
        (2, &["-r", &input, "-F", &text_file, "udp"], "-F"),
        (1, &["-r", &input, "-F", &missing], "No such file"),
        (2, &["-r", "-", "-r", "-"], "only once"),
        (1, &["-r", &input, "inbound"], "inbound"),
        (1, &["-r", &missing], "no such file"),
        (1, &["-r", &empty], "is empty"),
        (1, &["-r", &text_file], "neither pcap nor pcapng"),
        (1, &["-r", "/"], "directory"),
    ] {
        let ran = run(&[args, &["-w", &output]].concat());
        assert_eq!(ran.status.code(), Some(code), "{args:?}");
        assert!(
            text(&ran.stderr).contains(said),
            "{args:?}: {}",
            text(&ran.stderr)
        );
        assert!(!Path::new(&output).exists(), "{args:?}");
    }
}

#[test]
fn an_expression_may_come_from_a_file() {
    let folder = Folder::new();
    let input = recorded(&folder, "in.pcapng", "1000");
    let expression = folder.path("expression");
    std::fs::write(
        &expression,
        "# the fifth\nudp # only\n  and ether[49]\n  = 5\n",
    )
    .unwrap();
    let ran = run(&["-r", &input, "-F", &expression, "--json"]);
    assert_eq!(count(&summary(&ran.stdout)["counted"]), 4);
}

#[test]
fn programs_are_printed_as_tcpdump_prints_them() {
    for (flag, begins) in [("-d", "(000) ld"), ("-dd", "{ 0x"), ("-ddd", "")] {
        let ran = run(&[flag, "len > 100"]);
        assert!(ran.status.success());
        assert!(
            text(&ran.stdout).starts_with(begins),
            "{}",
            text(&ran.stdout)
        );
        if has("tcpdump") {
            let args = ["-y", "EN10MB", flag, "len > 100"];
            let tcpdump = Command::new("tcpdump").args(args).output().unwrap();
            assert_eq!(text(&ran.stdout), text(&tcpdump.stdout));
        }
    }
}

#[test]
fn losses_that_rejected_packets_told_of_are_told_by_the_next_one_that_passes() {
    let folder = Folder::new();
    let output = folder.path("out.pcapng");
    let port = "sim:clock=virtual,ring=64,host=none,cost=1us,count=50000";
    let ran = run(&["-i", port, "-w", &output, "--json", "ether[49] & 15 = 3"]);
    let json = summary(&ran.stdout);
    assert_eq!(json["law_holds"], true);
    let kernel = count(&json["dropped"]["kernel"]);
    let [received, written, filtered] =
        ["received", "written", "filtered"].map(|key| count(&json[key]));
    assert!(kernel > 1000 && written > 100, "{json}");
    let found = found(&output);
    let told: u64 = found
        .packets
        .iter()
        .map(|packet| packet.dropped_before)
        .sum();
    // What is not told by a packet was lost behind the last one that passed.
    assert!(told <= kernel && kernel - told < received - found.packets.last().unwrap().sequence);
    let mut next = 0;
    for packet in &found.packets {
        assert!(packet.dropped_before <= packet.sequence - next);
        next = packet.sequence + 1;
    }
    // The statistics are about what passed the filter, those dropped before it included.
    assert_eq!(found.statistics, [[received - filtered, kernel, written]]);
}

/// Runs a script in a mount namespace of its own; `None`: that needs more rights.
fn apart(script: &str) -> Option<std::process::Output> {
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .output()
        .unwrap();
    if output.status.code() == Some(77) || text(&output.stderr).contains("unshare") {
        assert!(std::env::var_os("CI").is_none(), "CI is root");
        eprintln!("skipped: needs the right to mount a tmpfs");
        return None;
    }
    Some(output)
}

/// A path on a file system that is nothing but memory.
fn in_memory(name: &str) -> Option<String> {
    if !Path::new("/dev/shm").is_dir() {
        eprintln!("skipped: needs /dev/shm");
        return None;
    }
    Some(format!("/dev/shm/forebay-{name}-{}", std::process::id()))
}

/// A file that several threads read, and whose matches are mostly written from where they were read.
fn large(folder: &Folder) -> String {
    recorded(folder, "large.pcapng", "80k")
}

#[test]
fn a_large_file_comes_out_the_same_in_memory_on_a_disk_and_through_a_pipe() {
    let folder = Folder::new();
    let input = large(&folder);
    let Some(memory) = in_memory("read") else {
        return;
    };
    for filter in [
        "ip",
        "(ether[42] + ether[49]) & 1 = 0",
        "(ether[42] + ether[49]) & 7 = 3",
        "(ether[42] + ether[49]) & 15 != 0",
    ] {
        let disk = folder.path("disk.pcapng");
        let ran = run(&["-r", &input, "-w", &disk, "-q", "--json", filter]);
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        let [received, written, filtered] = law(&summary(&ran.stdout));
        assert_eq!((received, written + filtered), (80_000, 80_000));
        let sequences_there = sequences(&found(&disk));
        assert_eq!(sequences_there.len() as u64, written);
        assert!(sequences_there.is_sorted() && written > 1000, "{filter}");
        let piped = run(&["-r", &input, "-w", "-", "-q", filter]);
        assert!(piped.status.success(), "{}", text(&piped.stderr));
        let ran = run(&["-r", &input, "-w", &memory, "-q", "--json", filter]);
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        assert_eq!(law(&summary(&ran.stdout)), [received, written, filtered]);
        // Past the page cache there is padding between buffers, so packets are compared, and elsewhere bytes.
        assert_eq!(sequences(&found(&memory)), sequences_there, "{filter}");
        assert!(std::fs::read(&memory).unwrap() == piped.stdout, "{filter}");
    }
    std::fs::remove_file(memory).unwrap();
}

#[test]
fn a_disk_that_fills_while_a_large_file_is_read_keeps_what_fits_and_counts_the_rest() {
    let folder = Folder::new();
    let input = large(&folder);
    let mount = folder.path("small");
    std::fs::create_dir(&mount).unwrap();
    for filter in ["ip", "(ether[42] + ether[49]) & 1 = 0"] {
        let script = format!(
            "mount -t tmpfs -o size=2M none {mount} || exit 77
             {} capture -r {input} -w {mount}/full.pcapng --json '{filter}'; code=$?
             cp {mount}/full.pcapng {}; exit $code",
            env!("CARGO_BIN_EXE_forebay"),
            folder.path("kept.pcapng"),
        );
        let Some(output) = apart(&script) else { return };
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let told = "full.pcapng: writing: no space left on device";
        assert!(said.contains(told), "{said}");
        let json = summary(&output.stdout);
        assert_eq!(json["law_holds"], true, "{json}");
        let kept = folder.path("kept.pcapng");
        let packets = sequences(&found(&kept));
        assert_eq!(packets.len() as u64, count(&json["written"]));
        assert!(packets.is_sorted() && packets.len() > 10_000);
        assert!(count(&json["dropped"]["disk"]) > 0, "{json}");
        let bytes = Path::new(&kept).metadata().unwrap().len();
        assert_eq!(count(&json["bytes"]), bytes, "cut behind the last packet");
    }
}

#[test]
fn a_file_size_limit_met_while_a_large_file_is_read_is_an_error_like_a_full_disk() {
    let folder = Folder::new();
    let input = large(&folder);
    let Some(memory) = in_memory("limit") else {
        return;
    };
    for file in [folder.path("a.pcapng"), memory.clone()] {
        let script = format!(
            "ulimit -f 1500; exec {} capture -r {input} -w {file} --json ip",
            env!("CARGO_BIN_EXE_forebay")
        );
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("file too large"), "{said}");
        let json = summary(&output.stdout);
        assert_eq!(json["law_holds"], true, "{json}");
        let packets = sequences(&found(&file));
        assert_eq!(packets.len() as u64, count(&json["written"]));
        assert!(packets.is_sorted() && packets.len() > 1000);
    }
    std::fs::remove_file(memory).unwrap();
}

#[test]
fn a_large_file_read_into_a_ring_of_files_loses_nothing_between_them() {
    let folder = Folder::new();
    let input = large(&folder);
    let ring = folder.path("ring.pcapng");
    let args = [
        "-r",
        &input,
        "-w",
        &ring,
        "-b",
        "packets:30000",
        "-q",
        "--json",
        "ip",
    ];
    let ran = run(&args);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(law(&summary(&ran.stdout)), [80_000, 80_000, 0]);
    let mut files: Vec<_> = std::fs::read_dir(Path::new(&ring).parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("ring")
        })
        .collect();
    files.sort();
    let read = |path: &PathBuf| sequences(&found(path.to_str().unwrap()));
    let all: Vec<_> = files.iter().flat_map(read).collect();
    assert_eq!((files.len(), all.len()), (3, 80_000));
    assert!(all.is_sorted());
}
