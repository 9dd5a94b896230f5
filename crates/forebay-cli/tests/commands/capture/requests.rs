//! Help, counts at intervals, and a clear answer to each wrong request.

use crate::support::*;

#[test]
fn each_wrong_request_gets_its_own_clear_answer() {
    let cases = "
        2 |                                    | -i sim
        2 | -i sim -c 0                        | '0' for '-c <COUNT>': '0' is not a count. Use a value such as 1000 or 5M
        2 | -i sim -c 340282366920938463463374607431768211.999K | is not a count
        2 | -i sim -c many                     | 'many' for '-c <COUNT>': 'many' is not a count
        2 | -i sim -s 1000001                  | '1000001' for '--snapshot-length <SNAPLEN>': '1000001' is not a snapshot length. Use 1 to 1000000, or 0
        2 | -i sim -B 0                        | '0' for '--buffer-size <SIZE>': '0' is not a size. Use a value such as 512k or 64M
        1 | -i sim --store 2x18446744073709547520 -w /dev/null | no address space
        1 | -i sim --store 2x900G -w /dev/null | what is available
        2 | -i sim --store 1x4M                | '1x4M' for '--store <COUNTxSIZE>': store: 1 buffers are too few. Use at least 2
        2 | -i sim --store 0x4M                | at least 2
        2 | -i sim --store 2x0                 | multiple of 4096
        2 | -i sim --store many                | 'many' is not COUNTxSIZE. Use a value such as 16x4M
        2 | -i sim --store-limit 1M            | --store-limit 1 MiB is less than the first buffers, 64 MiB. Raise it, or lower --store
        2 | -i sim --store-limit 95%           | '95%' for '--store-limit <SIZE|PERCENT>': store: a limit of 95 percent of the memory cannot be used. Use 1 to 90 percent
        2 | -i sim --store-limit much          | 'much' is neither a size nor a share. Use a value such as 2G or 50%
        2 | -i sim --stats-interval 0          | '0' for '--stats-interval <SECONDS>': '0' is not a time of a millisecond or more. Use a value such as 5
        2 | -i sim -c 5M --stats-interval 1ns  | '1ns' for '--stats-interval <SECONDS>'
        1 | -i nosuch0                         | no interface 'nosuch0'
        2 | -i lo -i eth0 -i packet:lo         | -i lo is given twice. Leave one out
        2 | -i share:lan -i tap:lan            | -i share:lan is given twice
        2 | -i xdp:lo -i xdp:lo                | -i xdp:lo is given twice
        2 | -i lo -i any                       | -i any captures from lo, too
        2 | -V /proc/self/exe                  | -V /proc/self/exe: this is no text file. Read a capture file with -r
        2 | -i sim -F /proc/self/exe           | -F /proc/self/exe: this is no text file
        2 | -i sim --color sometimes           | [possible values: auto, always, never]
        2 | -i sim --json-lines --color=always | --color always changes printed lines
        2 | -i sim:rate=fast                   | 'sim:rate=fast' for '--interface <INTERFACE>': sim: cannot understand 'rate=fast'. rate is bits a second
        2 | -i sim:ring=0                      | 1 or more
        2 | -i sim -i sim:clock=virtual        | clock=virtual
        1 | -i sim -w /nonexistent/x.pcapng    | Make the folder first
        1 | -i sim -w /                        | Name a file in it
        2 | --speed 9                          | --speed
    ";
    are_refused(cases);
}

/// Runs `capture` for each case: the exit status, the arguments, and a part of what it says. It prints nothing else.
#[track_caller]
pub fn are_refused(cases: &str) {
    for [code, arguments, expected] in rows(cases) {
        let output = run!("capture {arguments}");
        output.fails(code.parse().unwrap(), expected);
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn counts_are_printed_at_the_interval_and_json_is_one_object_a_line() {
    let output =
        run!("capture -i sim:clock=virtual -c 2M --count --json --stats-interval 500ms -q");
    let lines = output.succeeds().objects();
    assert_eq!(lines.len(), 3, "two in 1.34 virtual seconds, and the end");
    assert!(lines.iter().all(|line| line["schema"] == 1));
    assert_eq!(lines[2]["counted"], 2_000_000);
    assert_eq!(lines[2]["running"], false);
    assert_eq!(output.log(), "");
}

#[test]
fn help_version_and_the_list_go_to_stdout() {
    for flag in ["--help", "-h", "-D"] {
        let output = run!("capture {flag}");
        assert!(!output.succeeds().text().is_empty());
    }
    assert!(run!("--version").text().starts_with("forebay "));
}

#[test]
fn the_limit_of_the_buffers_is_printed_first_and_is_in_the_json_with_what_was_needed() {
    let (_folder, file) = Folder::with("a.pcapng");
    let store = |arguments: &str| {
        let output = run!("capture -i sim:clock=virtual -c 20k -w {file} --json {arguments}");
        let store = output.succeeds().json()["got"]["store"].clone();
        let [bytes, limit, needed] =
            ["bytes", "limit_bytes", "high_water_bytes"].map(|name| count(&store[name]));
        (bytes, limit, needed, output.log().to_owned())
    };
    let (bytes, limit, needed, log) = store("");
    assert!(bytes == 64 << 20 && limit >= bytes, "{limit}");
    assert!((1..=bytes).contains(&needed), "{needed}");
    assert_eq!(limit > bytes, log.contains("growing to"), "{log}");
    let (bytes, limit, _, log) = store("--store 4x1M");
    assert_eq!(
        (bytes, limit),
        (4 << 20, 4 << 20),
        "--store alone is a fixed size"
    );
    lacks(log, "growing");
    let (bytes, limit, _, log) = store("--store 4x1M --store-limit 100M");
    assert_eq!((bytes, limit), (4 << 20, 100 << 20));
    contains(log, "buffers 4 MiB growing to 100 MiB if needed");
    assert_eq!(store("--store-limit 0").1, 64 << 20);
}
