//! First steps: command lines of other programs, manual pages, completions.

use crate::support::*;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

#[test]
fn a_capture_typed_as_with_tcpdump_is_answered_by_the_line_to_type() {
    for (typed, meant) in [
        ("-i lo", "forebay capture -i lo"),
        ("lo -c 1", "forebay capture -i lo -c 1"),
        ("-D", "forebay capture -D"),
    ] {
        let output = run!("{typed}");
        output.fails(2, format!("did you mean '{meant}'?"));
        assert!(!text(&output.stderr).contains("tip:"), "{typed}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn hints_are_those_of_the_subcommand_and_stand_directly_below_the_error() {
    for (typed, hint) in [
        ("get -I http://localhost/", "use -i, which writes the head"),
        ("get -k https://localhost/", "--cacert"),
        ("replay -R x -i lo", "use -t, which sends as fast"),
        ("replay -r x -i lo", "without -r"),
        ("top -P -i lo", "table of ports"),
        ("verify -f udp -i lo", "at the end of the line"),
        ("info -A x", "leave it out"),
        ("interfaces -i lo", "without -i"),
        ("capture --nano -r x tcp", "use --time-stamp-precision nano"),
        ("merge a b", "mergecap merges by time"),
        ("version", "forebay --version"),
        (
            "tcp port 80",
            "did you mean 'forebay capture -i eth0 tcp port 80'?",
        ),
        (
            "/etc/passwd",
            "did you mean 'forebay capture -r /etc/passwd'?",
        ),
    ] {
        let output = run!("{typed}");
        assert_eq!(output.status.code(), Some(2), "{typed}");
        let log = output.log();
        let lines: Vec<_> = log.lines().collect();
        assert_eq!(lines.len(), 2, "{typed}: {log}");
        assert!(lines[1].contains(hint), "{typed}: {log}");
    }
}

#[test]
fn an_error_has_no_usage_line_and_no_tip_that_nobody_needs() {
    for typed in [
        "capture --debug",
        "interfaces -2",
        "captur",
        "queue receive",
    ] {
        let log = run!("{typed}").fails(2, "error: ").log().to_owned();
        assert!(!log.contains("Usage:") && !log.contains("-- -"), "{log}");
    }
    contains(run!("replay").log(), "Usage: forebay replay --interface");
}

#[test]
fn words_that_are_not_unicode_are_refused_and_do_not_panic() {
    let mut command = forebay!("");
    let output = command.arg(OsStr::from_bytes(b"\xff\xfe")).output();
    assert_eq!(output.unwrap().status.code(), Some(2));
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let folder = Folder::new();
    run!("man {}", folder.path("")).succeeds();
    for name in [
        "forebay",
        "forebay-capture",
        "forebay-pipe",
        "forebay-queue-send",
    ] {
        let page = std::fs::read_to_string(folder.path(&format!("{name}.1"))).unwrap();
        contains(page, ".SH NAME");
    }
    contains(run!("man").text(), ".SH NAME");
    run!("man {}", folder.path("missing")).fails(1, "missing");
}

#[test]
fn manual_pages_have_the_usual_sections_and_render_without_a_warning() {
    let folder = Folder::new();
    let man1 = folder.path("man1");
    std::fs::create_dir(&man1).unwrap();
    run!("man {man1}").succeeds();
    let page = std::fs::read_to_string(folder.path("man1/forebay-capture.1")).unwrap();
    let sections = [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "EXIT STATUS",
        "SIGNALS",
        "ENVIRONMENT",
        "FILES",
        "EXAMPLES",
        "SEE ALSO",
    ];
    let mut rest = &page[..];
    for section in sections {
        let heading = format!(".SH {section}\n");
        (_, rest) = rest.split_once(&heading).expect(section);
    }
    contains(&page, "[\\fB\\-w\\fR \\fIFILE\\fR]");
    let filters = std::fs::read_to_string(folder.path("man7/forebay-filter.7")).unwrap();
    contains(filters, "portrange");
    for (program, args) in [
        ("mandoc", "-T lint -W warning"),
        ("groff", "-K utf8 -man -Tutf8 -ww -z"),
    ] {
        let mut command = std::process::Command::new(program);
        command.args(args.split(' '));
        for page in ["man1", "man7"].map(|name| std::fs::read_dir(folder.path(name)).unwrap()) {
            command.args(page.map(|it| it.unwrap().path()));
        }
        let Ok(output) = command.output() else {
            eprintln!("skipped: {program} is not installed");
            continue;
        };
        assert!(
            output.status.success() && output.log().is_empty() && output.stdout.is_empty(),
            "{program}: {}{}",
            output.text(),
            output.log()
        );
    }
}

#[test]
fn each_shell_gets_a_completion_script() {
    for shell in ["bash", "zsh", "fish"] {
        contains(run!("completions {shell}").succeeds().text(), "__complete");
    }
    assert_eq!(run!("completions tcsh").status.code(), Some(2));
}

/// What users of tcpdump, dumpcap and tshark type after the program's name, and what happens: exit code 0 and this text, or exit
/// code 2 and this advice. `I` is an interface, `F` a file of 50 packets, `O` an output.
const LINES: &str = r#"
    tcpdump | -i I                            | 0 | IP 198.18.3.47.51495 > 198.19.0.1.9: UDP, length 18
    tcpdump | -ni I                           | 0 | UDP, length 18
    tcpdump | -nni I -c 3                     | 0 | UDP, length 18
    tcpdump | -nnvi I                         | 0 | flags [DF], proto UDP (17), length 46)
    tcpdump | -nnvvv -i I                     | 0 | [udp sum ok] UDP, length 18
    tcpdump | -ne -i I                        | 0 | 02:00:00:00:01:27 > 02:00:00:00:00:01, ethertype IPv4 (0x0800), length 60
    tcpdump | -nt -i I                        | 0 | IP 198.18.3.47
    tcpdump | -tt -i I                        | 0 | .000000 IP
    tcpdump | -ttt -i I                       | 0 | 00:00:00.000000 IP
    tcpdump | -tttt -i I                      | 0 | -01-01 00:00:00.000
    tcpdump | -ttttt -i I                     | 0 | 00:00:00.000001 IP
    tcpdump | -ttttttt -i I                   | 2 | five times at most
    tcpdump | -x -i I                         | 0 | 0x0000:  4500 002e 0000 4000
    tcpdump | -xx -i I                        | 0 | 0x0000:  0200 0000 0001 0200
    tcpdump | -X -i I                         | 0 | ....
    tcpdump | -XX -i I                        | 0 | 0x0000:  0200 0000 0001 0200
    tcpdump | -nnX -s0 -i I udp port 9        | 0 | 0x0000:  4500 002e
    tcpdump | -A -s 0 -i I                    | 0 | UDP, length 18
    tcpdump | -X -A -i I                      | 2 | Choose one
    tcpdump | -q -i I                         | 0 | UDP, length 18
    tcpdump | -S -i I                         | 0 | UDP, length 18
    tcpdump | -K -v -i I                      | 0 | UDP, length 18
    tcpdump | -# -i I                         | 0 | 9  00:00:00
    tcpdump | --number -i I                   | 0 | 9  00:00:00
    tcpdump | -l -i I                         | 0 | UDP, length 18
    tcpdump | -U -w O -i I                    | 0 | 9 packets captured
    tcpdump | -w O -i I -c 5                  | 0 | 5 packets captured
    tcpdump | -w O --print -i I               | 0 | UDP, length 18
    tcpdump | -n -v -w O -i I                 | 0 | 9 packets captured
    tcpdump | -X -w O -i I                    | 2 | Add --print, or leave -X out
    tcpdump | -w - --print -i I               | 2 | cannot share standard output
    tcpdump | -r F                            | 0 | UDP, length 18
    tcpdump | -nr F -c 2                      | 0 | UDP, length 18
    tcpdump | -r F --count                    | 0 | 50 packets
    tcpdump | -r F host 198.19.0.1            | 0 | UDP, length 18
    tcpdump | -r F -w O udp                   | 0 | 50 received
    tcpdump | -r F tcp prot 80                | 2 | ^^^^
    tcpdump | -F /dev/null -i I               | 0 | UDP, length 18
    tcpdump | -V L                            | 0 | UDP, length 18
    tcpdump | -D                              | 0 | any [
    tcpdump | --list-interfaces               | 0 | any [
    tcpdump | -L -i I                         | 0 | EN10MB (Ethernet)
    tcpdump | -y EN10MB -i I                  | 0 | UDP, length 18
    tcpdump | -y LINUX_SLL -i I               | 2 | EN10MB only
    tcpdump | -d port 80                      | 0 | (000) ldh
    tcpdump | -Q in -r F                      | 2 | src host
    tcpdump | -Q sideways -i I                | 2 | inout
    tcpdump | --immediate-mode -i I           | 0 | UDP, length 18
    tcpdump | --time-stamp-precision=nano -i I | 0 | .000000672 IP
    tcpdump | --nano -i I                     | 2 | use --time-stamp-precision nano
    tcpdump | --interface I --snapshot-length 96 | 0 | snapshot length 96 bytes
    tcpdump | --version                       | 0 | 0.
    tcpdump | -h                              | 0 | Usage:
    tcpdump | -B 4096 -i I                    | 0 | UDP, length 18
    tcpdump | -p -i I                         | 0 | UDP, length 18
    tcpdump | -I -i I                         | 2 | iw dev
    tcpdump | -j adapter -i I                 | 2 | times are those of the kernel
    tcpdump | -E x@1.2.3.4 -i I               | 2 | Wireshark
    tcpdump | -N -i I                         | 2 | leave it out
    tcpdump | -O -i I                         | 2 | leave it out
    dumpcap | -i I -w O -a packets:5          | 0 | 5 packets captured
    dumpcap | -i I -w O -b packets:4 -b files:2 | 0 | 9 packets captured
    dumpcap | -i I -w O -q --json             | 0 | "written":9
    dumpcap | -i I -f udp -w O                | 2 | without -f
    dumpcap | -P -i I -w O                    | 2 | --format pcap
    wireshark | tcp.port==80 -i I             | 2 | capture filter for it is: tcp port 80
    wireshark | -r F -Y ip.addr==10.0.0.1     | 2 | at the end: host 10.0.0.1
    wireshark | F                             | 2 | no interface to capture from. Did you mean -r
    tcpdump | lo                              | 2 | Did you mean -i lo?
    wireshark | -r F F                        | 2 | is a file, and not part of a filter. Read it with -r
    tshark  | -r F -t ad                      | 2 | -tttt the date
    tshark  | -r F -z io,stat,1               | 2 | forebay flows FILE
    tshark  | -r F -e ip.src                  | 2 | --fields
    dumpcap | -n -i I -w O                    | 0 | 9 packets captured
    tshark  | -i I -Y tcp                     | 2 | capture filter at the end
    tshark  | -r F -T fields -e ip.src        | 2 | --fields
    tshark  | -r F -o tls.keylog_file:x       | 2 | Wireshark
"#;

#[test]
fn lines_of_tcpdump_and_dumpcap_do_what_they_do_there_or_say_what_to_type() {
    let (folder, input) = captured("in.pcapng", "count=50");
    let (output, list) = (folder.path("out.pcap"), folder.path("list"));
    std::fs::write(&list, format!("{input}\n{input}\n")).unwrap();
    let mut lines = 0;
    for [program, line, code, expected] in rows(LINES) {
        let words = line.split(' ').map(|word| match word {
            "I" => "sim:clock=virtual,count=9",
            "F" => &input,
            "O" => &output,
            "L" => &list,
            word => word,
        });
        let words: Vec<_> = words.collect();
        let mut command = forebay!("capture");
        let ran = command.args(words).env("TZ", "UTC").output().unwrap();
        let shown = format!("{}{}", ran.text(), ran.log());
        assert_eq!(
            ran.status.code(),
            code.parse().ok(),
            "{program} {line}: {shown}"
        );
        assert!(
            shown.contains(expected),
            "{program} {line}: no {expected:?} in {shown}"
        );
        lines += 1;
    }
    assert!(lines >= 60);
}

#[test]
fn archive_and_find_run_the_separate_program_or_say_how_to_install_it() {
    let folder = Folder::new();
    // A copy of forebay, so that nothing is next to it. A shell makes the programs: a file that this process has open for writing
    // cannot be started.
    let forebay = folder.path("forebay");
    let make = |script: &str| {
        let made = std::process::Command::new("sh")
            .args(["-c", script])
            .status();
        assert!(made.unwrap().success());
    };
    make(&format!("cp {FOREBAY} {forebay}"));
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(&forebay);
        command
            .args(args)
            .env("PATH", folder.path("empty"))
            .output()
            .unwrap()
    };
    run(&["archive", "status", "x"]).fails(1, "forebay-archive is not installed");
    let beside = folder.path("forebay-archive");
    make(&format!(
        "printf '#!/bin/sh\\necho \"$@\"\\nexit 5\\n' > {beside} && chmod 755 {beside}"
    ));
    for (args, expected) in [
        (["archive", "status", "--json"], "status --json\n"),
        (["find", "host", "10.0.0.1"], "find host 10.0.0.1\n"),
    ] {
        let output = run(&args);
        assert_eq!(output.status.code(), Some(5));
        assert_eq!(text(&output.stdout), expected);
    }
}
