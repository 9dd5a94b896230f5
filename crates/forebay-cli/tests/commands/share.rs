//! `forebay capture --share` and `--serve`, and their readers: real processes that are stopped, killed and hostile.

use crate::support::*;
use forebay_testing::{
    lab::{ip, lab, tool, up},
    sender::{self, Sender},
};
use serde_json::Value;
use std::{
    fs,
    io::Read,
    net::TcpStream,
    os::unix::fs::MetadataExt,
    process::{Child, Command},
};

/// A simulated card with about 30,000 packets a second. It loses none, however busy the machine is.
const RATE: &str = "sim:rate=20M,ring=10000000,host=none";

/// A name that no other test has.
fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

/// Starts a command that prints these words when it runs.
fn started(line: &str, words: &str) -> Child {
    let mut child = start!("{line}");
    heard(&mut child, words);
    child
}

fn share(name: &str, more: &str) -> Child {
    let line = format!("capture -i {RATE} --share {name} --json {more}");
    started(&line, "forebay: sharing as")
}

fn reader(name: &str, more: &str) -> Child {
    let line = format!("capture -i share:{name} --json {more}");
    started(&line, "forebay: listening on")
}

/// The summary of a capture that ends by itself.
fn summary(child: Child) -> Value {
    child.wait_with_output().unwrap().keeps_the_law()
}

/// What `forebay shares` knows of this share; `None`: there is none.
fn listed(name: &str) -> Option<Value> {
    let shares = run!("shares --json").succeeds().json();
    let shares = shares["shares"].as_array().unwrap().clone();
    shares.into_iter().find(|share| share["name"] == name)
}

fn packets(name: &str) -> u64 {
    count(&listed(name).expect("a share")["packets"])
}

/// Requires that sequence numbers go up by one, but for gaps that are marked. Returns the first one, and the sum of the marks.
fn run_of(found: &Found) -> (u64, u64) {
    let first = found.packets.first().expect("packets").sequence;
    let (mut next, mut missing) = (first, 0);
    for packet in &found.packets {
        assert_eq!(
            packet.sequence,
            next + packet.dropped_before,
            "a mark is wrong"
        );
        missing += packet.dropped_before;
        next = packet.sequence + 1;
    }
    (first, missing)
}

#[test]
fn a_stopped_reader_loses_exactly_what_it_missed_and_disturbs_neither_the_capture_nor_other_readers()
 {
    let (folder, name) = (Folder::new(), name("four"));
    let whole = folder.path("whole.pcapng");
    // Room for about 33,000 packets.
    let capture = share(&name, &format!("-w {whole} --store 4x1M --share-size 4M"));
    let files: Vec<_> = (0..4)
        .map(|n| folder.path(&format!("{n}.pcapng")))
        .collect();
    let readers: Vec<_> = files
        .iter()
        .map(|file| reader(&name, &format!("-w {file}")))
        .collect();
    wait_until(|| count(&listed(&name).unwrap()["readers"]) == 4);
    let first = packets(&name);
    wait_until(|| packets(&name) > first + 1000);
    interrupt(&readers[0], "-STOP");
    let stopped_at = packets(&name);
    wait_until(|| packets(&name) > stopped_at + 70_000);
    interrupt(&readers[0], "-CONT");
    let went_on_at = packets(&name);
    wait_until(|| packets(&name) > went_on_at + 1000);
    let captured = stopped(capture).keeps_the_law();
    assert_eq!(count(&captured["dropped"]["kernel"]), 0);
    assert_eq!(count(&captured["shared"]["max_readers"]), 4);
    let written = count(&captured["written"]);
    assert_eq!(count(&captured["shared"]["packets"]), written);
    for (number, (reader, file)) in readers.into_iter().zip(&files).enumerate() {
        let json = summary(reader);
        let found = found::open(file);
        let (first, missing) = run_of(&found);
        let overrun = count(&json["dropped"]["overrun"]);
        // Everything that was shared since the reader attached is here, or counted.
        assert_eq!(first + count(&json["received"]), written);
        assert_eq!(count(&json["received"]), count(&json["written"]) + overrun);
        assert_eq!(missing, overrun);
        assert_eq!(
            found.statistics,
            [[count(&json["received"]), overrun, count(&json["written"])]]
        );
        // On a busy machine the others may be late, too.
        assert!(number > 0 || overrun > 30_000, "{json}");
        assert_eq!(count(&json["interface_dropped"]), 0);
    }
}

#[test]
fn each_reader_has_its_own_expression_and_what_the_capture_lost_is_not_its_loss() {
    let (folder, name) = (Folder::new(), name("filters"));
    // The card's rings are much too small for its stalls.
    let line = format!(
        "capture -i sim:rate=20M,ring=64,host=64,stall=20ms@100ms --share {name} --json --count --snapshot-length 60"
    );
    let capture = started(&line, "forebay: sharing as");
    let file = folder.path("some.pcapng");
    let some = reader(&name, &format!("-w {file} -c 20000 udp"));
    let none = reader(&name, "--count tcp");
    let text = run!("capture -i share:{name} -c 2");
    assert_eq!(text.succeeds().text().lines().count(), 2);
    let once = run!("top -i share:{name} --once --interval 1");
    contains(once.succeeds().text(), "overrun 0, before sharing ");
    let some = summary(some);
    assert_eq!(count(&some["written"]), 20_000);
    assert!(count(&some["interface_dropped"]) > 0, "{some}");
    let found = found::open(&file);
    let marked: u64 = found.packets.iter().map(|it| it.dropped_before).sum();
    assert!(marked <= count(&some["dropped"]["overrun"]), "{some}");
    let captured = stopped(capture).keeps_the_law();
    let none = summary(none);
    assert_eq!(count(&none["counted"]), 0);
    assert_eq!(count(&none["filtered"]), count(&none["received"]));
    let lost = count(&captured["dropped"]["kernel"]);
    assert!(
        (1..=lost).contains(&count(&none["interface_dropped"])),
        "{none} {captured}"
    );
}

#[test]
fn nothing_is_left_of_a_killed_capture_and_its_readers_keep_what_they_have() {
    let (folder, name) = (Folder::new(), name("killed"));
    let file = folder.path("kept.pcapng");
    let shared = folder.path("shared.pcapng");
    let capture = Mortal(share(&name, &format!("-w {shared}")));
    let reading = reader(&name, &format!("-w {file}"));
    let first = packets(&name);
    wait_until(|| packets(&name) > first + 1000);
    drop(capture);
    // The name is free at once, although the reader still has the memory.
    let again = share(&name, "");
    let output = reading.wait_with_output().unwrap();
    let json = output
        .fails(1, "the capture that shares its packets was killed")
        .lawful();
    let found = found::open(&file);
    assert_eq!(run_of(&found).1, count(&json["dropped"]["overrun"]));
    assert_eq!(count(&json["written"]), found.packets.len() as u64);
    assert!(found.packets.len() > 1000);

    // A killed reader is forgotten, and nothing else happens.
    let killed = Mortal(reader(&name, "--count"));
    wait_until(|| count(&listed(&name).unwrap()["readers"]) == 1);
    drop(killed);
    wait_until(|| count(&listed(&name).unwrap()["readers"]) == 0);
    stopped(again).keeps_the_law();
    assert_eq!(listed(&name), None);
}

/// The packets are shared in the buffers of the file, or copied to a ring.
#[test]
fn readers_of_a_capture_that_failed_report_that_and_every_packet_is_in_their_counts() {
    for format in ["pcapng", "pcap"] {
        let (folder, name) = (Folder::new(), name(&format!("full-{format}")));
        let (disk, of_capture) = (folder.path("small"), folder.path("capture.json"));
        let script = format!(
            "forebay capture -i {RATE} --share {name} --format {format} -w {disk}/a --json >{of_capture} &
             until forebay shares | grep -q {name}; do sleep 0.1; done
             forebay capture -i share:{name} --count --json; code=$?
             wait; exit $code"
        );
        let Some(reader) = on_small_disk(&disk, "12M", &script) else {
            return;
        };
        let expected = format!("share:{name}: the capture that shares its packets failed");
        let json = reader.fails(1, expected).lawful();
        let capture: Value = serde_json::from_slice(&fs::read(of_capture).unwrap()).unwrap();
        contains(
            capture["error"].as_str().unwrap(),
            "no space left on device",
        );
        let shared = count(&capture["shared"]["packets"]);
        assert!(count(&json["received"]) <= shared, "{json} {capture}");
        assert_eq!(
            count(&json["interface_dropped"]),
            count(&capture["received"]) - shared,
            "{json} {capture}"
        );
    }
}

#[test]
fn only_permitted_users_read_and_they_need_no_capability() {
    if !rustix::process::geteuid().is_root() || !has("setpriv") {
        return children::skip("root and setpriv, to become other users");
    }
    let (folder, name) = (Folder::new(), name("users"));
    set_mode(folder.path(""), 0o755);
    let copy = folder.path("forebay");
    fs::copy(FOREBAY, &copy).unwrap();
    let as_nobody = |groups: &str, line: &str| {
        let user = "--reuid=65534 --regid=65534 --inh-caps=-all --bounding-set=-all";
        foreign(format!("setpriv {user} {groups} {copy} {line}")).unwrap()
    };
    let capture = share(&name, "--share-group daemon");
    let line = format!("capture -i share:{name} --count -c 1000 --json");
    let refused = as_nobody("--clear-groups", &line);
    refused.fails(1, "does not share its packets with this user");
    contains(refused.log(), "permission denied");
    let table = as_nobody("--clear-groups", "shares");
    contains(table.succeeds().text(), "not permitted");
    let member = as_nobody("--groups=1", &line);
    assert_eq!(count(&member.keeps_the_law()["counted"]), 1000);
    contains(member.log(), "shared by root, process");
    lacks(member.log(), "warning");
    stopped(capture).keeps_the_law();

    // Without a group, only root and the owner: here nobody, whose packets root is warned of.
    let user = "--reuid=65534 --regid=65534 --clear-groups";
    let words = format!("{user} {copy} capture -i {RATE} --share {name} --json");
    let mut setpriv = Command::new("setpriv");
    setpriv.args(shlex::split(&words).unwrap());
    let mut capture = piped(&mut setpriv);
    heard(&mut capture, "forebay: sharing as");
    let own = as_nobody("--clear-groups", &line);
    assert_eq!(count(&own.keeps_the_law()["counted"]), 1000);
    let warned = run!("capture -i share:{name} --count -c 1 --json");
    contains(
        warned.succeeds().log(),
        "belongs to nobody, and neither to you nor to root",
    );
    stopped(capture).keeps_the_law();
}

#[test]
fn tshark_reads_pcap_over_ip_and_a_client_that_never_reads_loses_only_its_own_packets() {
    let name = name("tcp");
    let line = format!(
        "capture -i sim:rate=400M,size=1500,ring=10000000,host=none --serve tcp:0 --share {name} --json --count --share-size 4M --stats-interval 60"
    );
    let mut capture = started(&line, "forebay: serving on tcp:");
    let address = heard(&mut capture, " ").trim_end().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let stalled = TcpStream::connect(&address).unwrap();
    // It starts with a section header, even before a packet.
    let mut header = [0; 4];
    (&stalled).read_exact(&mut header).unwrap();
    assert_eq!(header, [0x0a, 0x0d, 0x0d, 0x0a]);
    let line = format!("tshark -i TCP@{address} -c 500 -T fields -e udp.dstport -q");
    if let Some(found) = foreign(line) {
        let ports: Vec<_> = found.succeeds().text().lines().collect();
        assert_eq!(ports.len(), 500, "{}", found.log());
        assert!(ports.iter().all(|port| *port == "9"));
    }
    // More than the memory and the buffers of both ends of a connection hold.
    wait_until(|| packets(&name) > 50_000);
    let stalled_address = stalled.local_addr().unwrap().to_string();
    let output = stopped(capture);
    drop(stalled);
    contains(output.succeeds().log(), " packets sent, ");
    let objects = output.objects();
    let summary = objects.last().unwrap();
    assert_eq!(summary["law_holds"], true);
    assert_eq!(count(&summary["dropped"]["kernel"]), 0);
    let served = &summary["shared"]["served"];
    let clients: Vec<_> = objects
        .iter()
        .filter(|it| !it["client"].is_null())
        .collect();
    assert_eq!(count(&served["clients"]), clients.len() as u64);
    for client in &clients {
        let dropped = sum(&client["dropped"]);
        let [received, sent, unread] = counts(client, ["received", "sent", "unread"]);
        assert_eq!(received, sent + unread + dropped, "{client}");
    }
    let stalled = clients.iter().find(|it| it["client"] == stalled_address);
    let stalled = stalled.expect("its counts");
    assert!(count(&stalled["dropped"]["overrun"]) > 0, "{stalled}");
    let sent: u64 = clients.iter().map(|it| count(&it["sent"])).sum();
    assert_eq!(count(&served["sent"]), sent);
}

#[test]
fn one_user_cannot_take_all_places_of_the_server() {
    if !rustix::process::geteuid().is_root() || !has("setpriv") || !has("bash") {
        return children::skip("root, setpriv and bash, to connect as other users");
    }
    let line = "capture -i sim:rate=1M,host=none --serve tcp:0 --count --json";
    let mut capture = started(line, "forebay: serving on tcp:");
    let address = heard(&mut capture, " ").trim_end().to_owned();
    let (host, port) = address.split_once(':').unwrap();
    // Connects this often, prints how many connections are served, and keeps them.
    let script = format!(
        "served=0
         for fd in $(seq 100 $1); do
             eval \"exec $fd<>/dev/tcp/{host}/{port}\"
             [ \"$(head -c 1 <&$fd | wc -c)\" = 1 ] && served=$((served + 1))
         done
         echo served $served; read"
    );
    let user = |user: u32, connections: u32| {
        let mut command = Command::new("setpriv");
        let user = format!("--reuid={user}");
        command.args([&user, "--clear-groups", "bash", "-c", &script, "bash"]);
        command.arg((99 + connections).to_string());
        let mut child = Mortal(
            command
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let mut served = String::new();
        let output = child.0.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut served).unwrap();
        (child, served)
    };
    let mut staying = Vec::new();
    for (number, expected) in [(12_345, 8), (12_346, 8), (12_347, 8), (12_348, 0), (0, 8)] {
        let (child, served) = user(number, 10);
        assert_eq!(served, format!("served {expected}\n"), "user {number}");
        staying.push(child);
    }
    drop(staying);
    let json = stopped(capture).keeps_the_law();
    let served = &json["shared"]["served"];
    assert_eq!(counts(served, ["clients", "refused"]), [32, 18]);
}

#[test]
fn interfaces_that_appear_while_all_are_captured_appear_in_the_readers() {
    lab(&["tcpreplay"], || {
        let (folder, name) = (Folder::new(), name("late"));
        let sent = recorded(&folder, "sent.pcap", "count=500");
        let line = format!("capture -i any --share {name} --json udp port 9");
        let capture = started(&line, "forebay: sharing as");
        let file = folder.path("got.pcapng");
        let reading = reader(&name, &format!("-w {file}"));
        ip("link add vc type veth peer name vd");
        up(&["vc", "vd"]);
        for interface in ["va", "vc"] {
            tool_output(format!("tcpreplay -i {interface} --mbps=10 -q {sent}"));
        }
        // Each is sent on one side and received on the other.
        wait_until(|| packets(&name) == 2000);
        let captured = stopped(capture).keeps_the_law();
        let json = summary(reading);
        assert_eq!(count(&captured["counted"]), 2000);
        assert_eq!(count(&json["written"]), 2000);
        let packets = found::open(&file).packets;
        let mut interfaces: Vec<_> = packets.iter().map(|packet| packet.interface).collect();
        interfaces.sort_unstable();
        interfaces.dedup();
        assert_eq!(interfaces.len(), 4);
        // What the kernel says of the interfaces themselves is known at the end, and not the reader's loss.
        assert_eq!(json["dropped"], captured["dropped"]);
    });
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let (folder, name) = (Folder::new(), name("refused"));
    let file = recorded(&folder, "old.pcapng", "count=10");
    let kept = fs::read(&file).unwrap();
    let capture = share(&name, "");
    for [line, code, words] in rows::<3>(&format!(
        "
        capture -i sim --share {name} | 1 | another process has this name
        capture -r {file} --share other | 2 | a file is read faster than readers can follow
        capture -i share:{name} --share {name} | 2 | cannot read what it shares
        capture -i sim --share a/b | 2 | Use 1 to 64 letters
        capture -i share: | 2 | is not the name of a share
        capture -i share:nothing-{name} | 1 | no capture shares its packets under this name
        capture -i sim --share other --share-group no-such-group | 2 | there is no such group
        capture -i sim --share-group daemon | 2 | --share
        capture -i sim --share-size 10M | 2 | the memory for --share and --serve
        capture -i sim --share other --share-size 10k | 2 | less than 1M
        capture -i sim --serve 127.0.0.1:5 | 2 | is not an address
        capture -i sim --share other -x | 2 | --share and --serve print none
        top -i share:nothing-{name} --once | 1 | no capture shares its packets under this name
        "
    )) {
        run!("{line}").fails(code.parse().unwrap(), words);
    }
    assert_eq!(fs::read(&file).unwrap(), kept, "an error truncates no file");
    stopped(capture).keeps_the_law();
}

#[test]
fn a_capture_to_a_file_goes_on_without_a_name_or_port_that_another_process_has_taken() {
    let (folder, name) = (Folder::new(), name("taken"));
    let file = folder.path("kept.pcapng");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let other = share(&name, "");
    for (flag, words) in [
        (format!("--share {name}"), "another process has this name"),
        (format!("--serve tcp:{address}"), "cannot be bound"),
        (format!("--metrics {address}"), "cannot listen there"),
    ] {
        let output = run!("capture -i sim:rate=1M,count=1000 -w {file} {flag}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        let told = errors.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            told.contains(words) && told.contains("goes on without it"),
            "{errors}"
        );
        let read = run!("capture -r {file} -q");
        assert_eq!(read.succeeds().text().lines().count(), 1000);
    }
    stopped(other).keeps_the_law();
}

#[test]
fn a_share_is_printed_only_on_request() {
    let name = name("prints");
    let output = run!("capture -i sim:rate=1M,count=100 --share {name} -q");
    assert_eq!(output.succeeds().text(), "");
    let output = run!("capture -i sim:rate=1M,count=100 --share {name} -q --print");
    assert_eq!(output.succeeds().text().lines().count(), 100);
    let mut left = start!("capture -i sim:rate=1M,count=100 --share {name} --print");
    drop(left.stdout.take());
    let output = left.wait_with_output().unwrap();
    // The reader of the lines has left, but not those of the share.
    let shared = format!("100 packets shared as {name}");
    contains(output.succeeds().log(), shared);
}

/// A UDP (17) or TCP (6) packet of 60 bytes, with these VLAN tags before its IPv4 header.
fn tagged(protocol: u8, tags: &[[u8; 4]]) -> Vec<u8> {
    let mut frame = sender::frame(0, 60);
    (frame[12], frame[13], frame[14], frame[23]) = (8, 0, 0x45, protocol);
    frame.splice(12..12, tags.concat());
    frame
}

/// The packets that tcpdump has written so far.
fn by_tcpdump(file: &[u8]) -> u64 {
    let (mut at, mut packets) = (24, 0);
    while let Some(&len) = file.get(at + 8..).and_then(<[u8]>::first_chunk) {
        at += 16 + u32::from_le_bytes(len) as usize;
        packets += u64::from(at <= file.len());
    }
    packets
}

#[test]
fn a_share_answers_as_the_interface_where_the_kernel_holds_tags_apart_and_a_file_as_a_file() {
    lab(&["tcpdump"], || {
        let (folder, name) = (Folder::new(), name("tags"));
        let whole = folder.path("whole.pcapng");
        let (five, outer) = ([0x81, 0, 0, 5], [0x88, 0xA8, 0, 7]);
        let frames = [
            tagged(17, &[]),
            tagged(17, &[five]),
            tagged(6, &[five]),
            tagged(17, &[outer, five]),
        ];
        let listening = "forebay: listening on";
        let capture = |line: &str| started(&format!("capture --json {line}"), listening);
        // With a file, packets are shared in its buffers; without one, they are copied.
        let in_buffers = capture(&format!("-i vb -w {whole} --share {name}"));
        let copied = capture(&format!("-i vb --share {name}-copied"));
        let cases: Vec<[&str; 3]> = rows(
            "
            udp                               | 2 | 1
            ip                                | 3 | 1
            vlan                              | 3 | 3
            vlan 7                            | 1 | 1
            vlan 5 and udp                    | 1 | 1
            vlan and vlan                     | 1 | 1
            ip and not vlan                   | 1 | 1
            len <= 60                         | 3 | 1
            ether[12:2] = 0x0800              | 3 | 1
            ether[10:4] = 0x10800             | 3 | 1
            ether[ether[5] - 224] = 0x45      | 3 | 1
            ",
        )
        .collect();
        let sources = [
            "vb".into(),
            format!("share:{name}"),
            format!("share:{name}-copied"),
        ];
        let start = |[expression, ..]: &[&str; 3]| {
            let kept = folder.path(&format!("{expression}.pcap").replace(' ', "_"));
            let mut tcpdump = tool("tcpdump");
            tcpdump.args(["-i", "vb", "-U", "--immediate-mode", "-w", &kept, "--"]);
            let mut tcpdump = piped(tcpdump.arg(expression));
            heard(&mut tcpdump, "listening on vb");
            let ours = |source| capture(&format!("-i {source} --count '{expression}'"));
            (tcpdump, kept, sources.each_ref().map(ours))
        };
        let running: Vec<_> = cases.iter().map(start).collect();
        Sender::pinned("va").frames(&frames);
        wait_until(|| packets(&name) == 4 && packets(&format!("{name}-copied")) == 4);
        for ((tcpdump, kept, ours), [expression, live, _]) in running.into_iter().zip(&cases) {
            let live: u64 = live.parse().unwrap();
            wait_until(|| by_tcpdump(&fs::read(&kept).unwrap()) == live);
            stopped(tcpdump);
            assert_eq!(by_tcpdump(&fs::read(&kept).unwrap()), live, "{expression}");
            for (source, ours) in sources.iter().zip(ours) {
                let json = stopped(ours).keeps_the_law();
                assert_eq!(count(&json["counted"]), live, "{source}: {expression}");
            }
        }
        assert_eq!(count(&stopped(in_buffers).keeps_the_law()["written"]), 4);
        stopped(copied).keeps_the_law();
        for [expression, _, of_file] in cases {
            let mut tcpdump = tool("tcpdump");
            tcpdump.args(["-r", &whole, "-w", "-", "--", expression]);
            let theirs = tcpdump.output().unwrap();
            let ours = run!("capture -r {whole} --count --json '{expression}'");
            let of_file: u64 = of_file.parse().unwrap();
            assert_eq!(by_tcpdump(&theirs.stdout), of_file, "{expression}");
            let json = ours.keeps_the_law();
            assert_eq!(count(&json["counted"]), of_file, "{expression}");
        }
    });
}

/// The memory of a share as a reader of the command has it: it can change neither the memory nor what belongs to its file.
#[test]
fn readers_get_memory_that_is_read_only_and_a_file_that_nobody_may_open() {
    let (folder, of) = (Folder::new(), name("sealed"));
    let file = folder.path("a.pcapng");
    for more in ["", &format!("-w {file}")] {
        let capture = share(&of, more);
        let reading = reader(&of, "--count");
        let process = format!("/proc/{}", reading.id());
        let maps = fs::read_to_string(format!("{process}/smaps")).unwrap();
        let mut shared = 0;
        let mut lines = maps.lines();
        while let Some(line) = lines.next() {
            if !line.contains("/memfd:") {
                continue;
            }
            shared += 1;
            // `mw`: it could be made writable, as the description is (proc(5)).
            let flags = lines.find(|it| it.starts_with("VmFlags:")).unwrap();
            let may_write = ["wr", "mw"].iter().any(|flag| words(flags).contains(flag));
            assert!(!may_write, "{line}: {flags}");
            let range = words(line)[0];
            let Ok(about) = fs::metadata(format!("{process}/map_files/{range}")) else {
                println!("skipped: needs root, to look at the file of a mapping");
                continue;
            };
            assert_eq!(about.mode() & 0o777, 0, "{line}");
        }
        assert!(shared > 0, "no memory of the share");
        for child in [reading, capture] {
            stopped(child);
        }
    }
}

#[test]
fn a_share_of_a_tunnel_knows_the_direction_of_packets_as_the_tunnel_does() {
    lab(&[], || {
        ip("tuntap add t0 mode tun");
        ip("tuntap add t1 mode tun");
        for tunnel in ["t0", "t1"] {
            ip(&format!("link set {tunnel} up"));
        }
        let (folder, of) = (Folder::new(), name("tunnel"));
        let file = folder.path("a.pcapng");
        let recorder = format!("--recorder 8M --trigger inbound -w {file}");
        for (line, words) in [
            ("capture -i t0 --count inbound", "listening on t0"),
            (&*format!("capture -i t0 {recorder}"), "listening on t0"),
            ("bridge t0 t1 inbound", "bridging t0 and t1"),
        ] {
            stopped(started(line, words)).succeeds();
        }
        let capture = started(&format!("capture -i t0 --share {of}"), "sharing as");
        let reading = started(
            &format!("capture -i share:{of} --count outbound"),
            "listening",
        );
        for child in [reading, capture] {
            stopped(child).succeeds();
        }
    });
}
