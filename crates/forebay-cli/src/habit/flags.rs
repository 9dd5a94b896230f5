//! Flags of other programs that a subcommand does not have, and what to use instead.

use super::display_filter::as_capture_filter;

type Flags = &'static [(&'static [&'static str], &'static str)];

const FILTER_AT_THE_END: &str =
    "write the filter at the end of the line, without the flag: tcp port 80";

/// tcpdump, dumpcap, tshark.
const CAPTURE: Flags = &[
    (
        &["-f"],
        "write the filter at the end of the line, without -f: forebay capture -i eth0 tcp port 80",
    ),
    (
        &["-Y", "-R", "--display-filter", "--read-filter"],
        "display filters are Wireshark's. Write a capture filter at the end: tcp port 80",
    ),
    (
        &["-T"],
        "fields of packets are printed by --fields time,source,length or --csv; --json-lines prints all of them for jq. No flag forces a decoder, as tcpdump's -T does",
    ),
    (
        &["-P"],
        "for the classic format name the file .pcap, or use --format pcap",
    ),
    (
        &["-I", "--monitor-mode"],
        "put the interface into monitor mode first: iw dev wlan0 set type monitor",
    ),
    (
        &["-j", "-J", "--time-stamp-type", "--list-time-stamp-types"],
        "times are those of the kernel. Leave it out, or use --time hardware",
    ),
    (
        &["-E", "-M", "-o"],
        "forebay does not decode that. Write a file with -w, and open it in Wireshark",
    ),
    (
        &["-N", "-H"],
        "leave it out: names are never looked up (--names prints those in the capture)",
    ),
    (
        &["-O", "--no-optimize"],
        "leave it out: filters need no such flag",
    ),
    (&["-u"], "leave it out: forebay does not decode NFS"),
    (
        &["-m", "-2"],
        "leave it out: no modules are loaded, and files are read once",
    ),
    (&["--micro"], "use --time-stamp-precision micro"),
    (&["--nano"], "use --time-stamp-precision nano"),
    (
        &["-k"],
        "write to standard output for Wireshark: forebay capture -i eth0 -w - | wireshark -k -i -",
    ),
    (
        &["--capture-comment"],
        "forebay writes no comments. editcap --capture-comment adds one",
    ),
    (
        &["-g"],
        "forebay makes files that only you can read; chmod g+r changes that",
    ),
];

/// iftop, nload, top.
const TOP: Flags = &[
    (&["-f"], FILTER_AT_THE_END),
    (
        &["-w"],
        "top writes single flows, with --write-flows FOLDER. To write all packets, use forebay capture -w FILE",
    ),
    (
        &["-P"],
        "leave it out: flows are shown with their ports, and Tab shows the table of ports",
    ),
    (&["-d", "--delay"], "use --interval SECONDS"),
    (
        &["-t", "-b", "--batch"],
        "use --once, which prints the tables as text",
    ),
    (&["-s"], "use --once --interval SECONDS"),
    (&["-o", "--sort"], "the keys r, b and p sort the table"),
    (
        &["-N", "-l", "-B"],
        "leave it out: names are never looked up, and rates are in bits",
    ),
    (
        &["-F", "-G"],
        "use a filter at the end of the line: net 10.0.0.0/8",
    ),
];

/// tcpreplay, old and new, and tcprewrite.
const REPLAY: Flags = &[
    (&["-R"], "use -t, which sends as fast as possible"),
    (
        &["-r"],
        "name the file without -r. For a rate in millions of bits a second use -M",
    ),
    (&["-m"], "use -x FACTOR"),
    (
        &["-o", "--oneatatime"],
        "packets cannot be sent one by one. -p 1 sends one packet a second",
    ),
    (
        &["-I", "--intf2", "-c", "--cachefile", "-2", "--dualfile"],
        "replay sends on one interface. Run it once for each side, with -f to choose the packets",
    ),
    (&["-F", "-Y"], "use -f EXPRESSION"),
    (
        &["-v", "-A", "--verbose", "--decode"],
        "packets are printed by: forebay capture -r FILE",
    ),
    (&["--stats"], "the signal USR1 prints the counts"),
    (
        &["-T", "--timer", "-P", "--pid", "-W", "--suppress-warnings"],
        "leave it out: there is one timer, and no warning that needs it",
    ),
    (&["--maxsleep"], "use --max-gap TIME"),
    (&["--duration"], "use timeout(1), or -L COUNT"),
    (
        &["--listnics"],
        "interfaces are listed by: forebay interfaces",
    ),
    (
        &[
            "-s",
            "-d",
            "-e",
            "-D",
            "-N",
            "--srcipmap",
            "--dstipmap",
            "--pnat",
            "--enet-dmac",
            "--enet-smac",
            "--portmap",
            "-C",
            "--fixcsum",
        ],
        "packets are changed by --rewrite: ip=OLD=NEW, mac-dst=MAC, port=OLD=NEW, vlan=ID, checksums",
    ),
];

/// iperf, pktgen, packETH.
const GENERATE: Flags = &[
    (
        &["-r", "--rate", "-b", "--bandwidth"],
        "the rate is in the SPEC: forebay generate rate=1G -i eth0",
    ),
    (
        &["-s", "--size", "-l"],
        "the size is in the SPEC: forebay generate size=imix -i eth0",
    ),
    (&["-n"], "use -c COUNT"),
    (&["-t"], "use -a duration:SECONDS"),
    (&["-d", "--dst"], "use --to ADDRESS and --to-mac MAC"),
    (
        &["-w"],
        "generate writes no file. Use forebay capture -i sim -w FILE",
    ),
];

const VERIFY: Flags = &[
    (&["-f", "-Y"], FILTER_AT_THE_END),
    (
        &["-w"],
        "verify writes no packets. Use forebay capture --verify -w FILE",
    ),
    (&["-n"], "leave it out: names are never looked up"),
    (&["-t"], "use -a duration:SECONDS"),
];

const BRIDGE: Flags = &[
    (
        &["-i"],
        "name both interfaces without a flag: forebay bridge eth1 eth2",
    ),
    (&["-f"], FILTER_AT_THE_END),
    (&["-w"], "use --tap FILE"),
];

/// capinfos.
const INFO: Flags = &[
    (&["-r"], "name the file without -r"),
    (
        &[
            "-A", "-E", "-s", "-d", "-u", "-a", "-e", "-y", "-i", "-z", "-x", "-o", "-S", "-t",
            "-l", "-k", "-F",
        ],
        "leave it out: info prints everything",
    ),
    (
        &["-M", "-B", "-m", "-N", "-q", "-Q", "-b", "-L", "-R"],
        "use -T for a table with tabs, or --json",
    ),
];

/// curl, wget.
const GET: Flags = &[
    (
        &["-I", "--head", "-S"],
        "use -i, which writes the head before the body",
    ),
    (
        &["-k", "--insecure", "--no-check-certificate"],
        "certificates are always checked. --cacert FILE trusts a server's own",
    ),
    (
        &["-L", "--location"],
        "leave it out: redirects are followed, up to --max-redirects",
    ),
    (
        &["-f", "--fail"],
        "leave it out: a status of 400 or more is always a failure",
    ),
    (&["-s", "--silent"], "use -q"),
    (
        &["-v", "--verbose"],
        "use -i for the head, or --raw for the whole answer",
    ),
    (
        &["-m", "--max-time", "--connect-timeout", "--timeout"],
        "use --connect TIME and --silence TIME",
    ),
    (
        &["-#", "--progress-bar", "-N", "--no-buffer"],
        "leave it out: progress is shown on a terminal, and bytes are written as they arrive",
    ),
    (
        &[
            "-A",
            "--user-agent",
            "-b",
            "--cookie",
            "-u",
            "--user",
            "-X",
            "--request",
            "-d",
            "--data",
            "-F",
            "-T",
            "-r",
        ],
        "get sends a plain GET request only. Use curl for this one",
    ),
    (
        &["-c", "--continue"],
        "use -C -, which goes on where an interrupted fetch ended",
    ),
    (
        &["-x", "--proxy"],
        "name the proxy in the environment: http_proxy=http://HOST:PORT, or https_proxy",
    ),
];

/// pv, mbuffer.
const PIPE: Flags = &[
    (&["-B", "--buffer-size"], "use -m SIZE"),
    (
        &["-F", "--format"],
        "choose fields by their letters: -p -t -e -r -a -b -T",
    ),
    (
        &["-v", "--stats", "--verbose"],
        "leave it out: the last lines have the averages, and the signal USR1 prints the counts",
    ),
    (
        &["-c", "--cursor"],
        "leave it out, and name each one with -N: lines of several that share a terminal cannot be kept apart",
    ),
    (
        &["-D", "--delay-start"],
        "use -W, which shows nothing before the first byte",
    ),
    (
        &["-w", "--width", "-H", "--height"],
        "leave it out: the display has the width of the terminal. mbuffer's -H is --hash",
    ),
    (
        &["-S", "--stop-at-size"],
        "limit the input: head -c SIZE FILE | forebay pipe",
    ),
    (
        &["-E", "--skip-errors"],
        "a read that fails is never skipped: the bytes after it would move. Use ddrescue for a damaged disk",
    ),
    (&["-Y"], "use --sync, which syncs output files at the end"),
    (
        &["-K", "--direct-io"],
        "leave it out: files are read and written through the page cache",
    ),
    (&["-X", "--discard"], "use -o /dev/null"),
    (
        &["-0", "--null"],
        "-l counts newlines only. Use: tr '\\0' '\\n' before it",
    ),
    (
        &["-8", "--bits", "-k", "--si"],
        "leave it out: amounts are in bytes, with K for 1024",
    ),
    (
        &["-U", "--store-and-forward"],
        "use -m SIZE -P 100, which writes when the buffer is full or the input ends",
    ),
    (
        &["-A", "--last-written"],
        "leave it out: the last bytes are not shown",
    ),
    (&["--md5"], "use --hash sha256"),
    (&["--fineta"], "use -e, which shows the time that is left"),
    (&["--pidfile"], "use the shell's $!"),
    (
        &["-u", "--pause"],
        "use -R RATE, which limits how fast is written",
    ),
    (
        &["-4", "-6"],
        "leave it out, or name the address: tcp:127.0.0.1:9000 or tcp:[::1]:9000",
    ),
    (
        &["--remote"],
        "start it again with another -R: the rate of a running one cannot be changed",
    ),
];

const INTERFACES: Flags = &[
    (
        &["-i"],
        "name the interface without -i: forebay interfaces eth0",
    ),
    (
        &["-l", "-v", "-s", "-d"],
        "use -D, which prints every detail",
    ),
];

const NAMED_FILE: Flags = &[(&["-r", "-f", "-i"], "name the file without a flag")];

const FLOWS: Flags = &[
    (&["-r", "-i"], "name the file without a flag"),
    (&["-f", "-Y", "-R"], FILTER_AT_THE_END),
];

const NAMED_CAPTURE: Flags = &[(
    &["-n", "--name", "--control"],
    "name the capture without a flag, and then what to do: forebay control lan status",
)];

/// What to use instead of `flag`, which `subcommand` does not have. `value` is the word after the flag.
pub fn instead(subcommand: &str, flag: &str, value: Option<&str>) -> Option<String> {
    let (name, joined) = flag
        .split_once('=')
        .map_or((flag, None), |(name, value)| (name, Some(value)));
    let flags = match subcommand {
        "capture" => CAPTURE,
        "top" => TOP,
        "replay" => REPLAY,
        "generate" => GENERATE,
        "verify" => VERIFY,
        "bridge" => BRIDGE,
        "info" => INFO,
        "get" => GET,
        "pipe" => PIPE,
        "interfaces" | "ports" | "doctor" => INTERFACES,
        "repair" | "records" => NAMED_FILE,
        "flows" => FLOWS,
        "control" | "trigger" => NAMED_CAPTURE,
        _ => return None,
    };
    let (_, text) = flags.iter().find(|(names, _)| names.contains(&name))?;
    let is_display_filter = matches!(name, "-Y" | "-R" | "--display-filter" | "--read-filter");
    let filter = joined
        .or(value)
        .filter(|_| is_display_filter && subcommand == "capture");
    Some(match filter.and_then(as_capture_filter) {
        Some(filter) => text.replace("tcp port 80", &filter),
        None => (*text).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::instead;

    #[test]
    fn advice_is_that_of_the_subcommand() {
        let of = |subcommand, flag| instead(subcommand, flag, None).unwrap();
        assert!(of("capture", "-R").contains("at the end"));
        assert!(of("replay", "-R").contains("-t"));
        assert!(of("get", "-I").contains("-i"));
        assert!(of("capture", "-I").contains("iw dev"));
        assert!(of("pipe", "-B").contains("-m"));
        assert!(of("top", "-P").contains("table of ports"));
        assert_eq!(instead("queue", "-I", None), None);
        let found = instead("capture", "-Y", Some("ip.addr==10.0.0.1")).unwrap();
        assert!(found.ends_with("at the end: host 10.0.0.1"), "{found}");
        let found = instead("capture", "--display-filter=dns", None).unwrap();
        assert!(found.ends_with("at the end: port 53"), "{found}");
    }
}
