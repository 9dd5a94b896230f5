//! `forebay extcap`: the protocol of Wireshark's programs, and tshark with it.

use crate::support::*;
use forebay_testing::lab::have;
use std::{
    fs,
    os::unix::{fs::symlink, process::CommandExt},
    process::{Command, Output, Stdio},
};

#[test]
fn the_sources_their_link_types_and_their_settings_are_listed() {
    let list = run!("--extcap-interfaces --extcap-version=4.0"); // as Wireshark runs it, without the subcommand
    let lines = list.succeeds().text();
    assert!(lines.starts_with("extcap {version="), "{lines}");
    contains(lines, "\ninterface {value=forebay-sim}{display=");
    let types = run!("extcap --extcap-interface=forebay-sim --extcap-dlts");
    assert_eq!(
        types.succeeds().text(),
        "dlt {number=1}{name=EN10MB}{display=Ethernet}\n"
    );
    let settings = run!("--extcap-interface forebay-sim --extcap-config");
    contains(settings.succeeds().text(), "arg {number=0}{call=--sim}");
}

#[test]
fn a_wrong_filter_is_answered_with_what_is_wrong() {
    let check =
        |filter: &str| run!("--extcap-capture-filter '{filter}' --extcap-interface forebay-sim");
    for right in ["", "tcp port 80", "not arp"] {
        assert_eq!(check(right).succeeds().text(), "", "{right}");
    }
    for (wrong, why) in [
        ("tcp.port == 80", "tcp port 80"),
        ("port", "port"),
        ("wlan type mgt", "wlan"),
    ] {
        contains(check(wrong).succeeds().text(), why);
    }
}

#[test]
fn names_and_settings_are_no_flags_and_no_other_sources() {
    for name in [
        "eth0",
        "forebay-",
        "forebay-share-",
        "forebay-share-../x",
        "-w",
        "forebay-share-a/b",
    ] {
        run!("extcap --extcap-interface={name} --extcap-dlts").fails(2, "");
    }
    let folder = Folder::new();
    let fifo = folder.path("f");
    let capture =
        |more: &str| run!("--capture --extcap-interface forebay-sim --fifo {fifo} {more}");
    capture("--sim rate=fast").fails(2, "rate=fast");
    // Wireshark passes the empty settings, too.
    let empty = "--remote-user= --remote-port= --remote-host=-x";
    run!("--capture --extcap-interface forebay-ssh --fifo {fifo} {empty}")
        .fails(2, "'-x' is no name of a host");
    capture("--extcap-capture-filter '-w /dev/null'").fails(2, "");
    run!("--capture --extcap-interface forebay-sim").fails(2, "--fifo");
    run!("extcap").fails(2, "--extcap-interfaces");
}

#[test]
fn a_capture_ends_in_silence_when_the_reader_leaves_or_wireshark_stops_it() {
    let folder = Folder::new();
    let fifo = folder.path("f");
    mkfifo(&fifo);
    let start = || {
        start!("--capture --extcap-interface forebay-sim --fifo {fifo} --extcap-capture-filter udp")
    };
    let child = start();
    let head = Command::new("head").args(["-c", "1000", &fifo]).output();
    assert_eq!(head.unwrap().stdout.len(), 1000);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.succeeds().log(), output.text()), ("", ""));

    let child = start();
    let mut reader = Command::new("cat")
        .arg(&fifo)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // More than the head, which is written before signals are heard.
    let mut first = [0; 1000];
    std::io::Read::read_exact(reader.stdout.as_mut().unwrap(), &mut first).unwrap();
    interrupt(&child, "-TERM");
    let read = reader.wait_with_output().unwrap().stdout;
    assert_eq!(child.wait_with_output().unwrap().succeeds().log(), "");
    let file = folder.file("read.pcapng", [&first[..], &read[..]].concat());
    run!("info {file}").succeeds();
}

#[test]
fn the_link_is_replaced_and_no_other_file() {
    let folder = Folder::new();
    let (path, link) = (
        folder.path("deep/extcap"),
        folder.path("deep/extcap/forebay"),
    );
    for _ in 0..2 {
        run!("extcap --install {path}").succeeds();
        assert_eq!(
            fs::read_link(&link).unwrap(),
            fs::canonicalize(FOREBAY).unwrap()
        );
    }
    let listed = Command::new(&link)
        .arg("--extcap-interfaces")
        .output()
        .unwrap();
    contains(listed.succeeds().text(), "forebay-sim");
    fs::remove_file(&link).unwrap();
    fs::write(&link, "mine").unwrap();
    run!("extcap --install {path}").fails(1, "is not replaced");
}

/// tshark, which finds only this program in its folder: as root in a mount namespace, as another user by a variable.
fn tshark(folder: &Folder, is_root: bool, line: &str) -> Output {
    let extcap = folder.path("extcap");
    let mut command = match is_root {
        true => {
            let mut unshare = Command::new("unshare");
            let script = "for d in /usr/lib/*/wireshark/extcap; do mount --bind \"$0\" \"$d\"; done; exec tshark \"$@\"";
            unshare.args(["-m", "sh", "-c", script, &extcap]);
            unshare
        }
        false => {
            let mut tshark = Command::new("tshark");
            tshark
                .env("WIRESHARK_EXTCAP_DIR", &extcap)
                .env("HOME", folder.path(""));
            tshark.uid(65534).gid(65534);
            tshark
        }
    };
    command.args(shlex::split(line).unwrap()).output().unwrap()
}

#[test]
fn tshark_lists_and_captures_as_root_and_as_another_user() {
    if !have("tshark") || !nix::unistd::geteuid().is_root() {
        return children::skip("tshark and root");
    }
    let folder = Folder::new();
    set_mode(folder.path(""), 0o777);
    fs::create_dir(folder.path("extcap")).unwrap();
    // The folder of the build may be closed to other users.
    fs::copy(FOREBAY, folder.path("program")).unwrap();
    symlink(folder.path("program"), folder.path("extcap/forebay")).unwrap();
    let name = format!("extcap-{}", std::process::id());
    let share = start!("capture -i sim:rate=1kpps -q --share {name}");
    wait_until(|| run!("shares --json").text().contains(&name));
    for is_root in [true, false] {
        let listed = tshark(&folder, is_root, "-D");
        contains(listed.succeeds().text(), "forebay-sim");
        assert_eq!(listed.text().contains(&name), is_root, "{}", listed.text());
        let lines = "-c 5 -T fields -e ip.dst";
        let output = tshark(&folder, is_root, &format!("-i forebay-sim -f udp {lines}"));
        assert_eq!(
            output.succeeds().text(),
            "198.19.0.1\n".repeat(5),
            "{}",
            output.log()
        );
        lacks(output.log(), "forebay:");
        let none = tshark(&folder, is_root, "-i forebay-sim -f tcp -a duration:1");
        assert_eq!(none.succeeds().text(), "", "{}", none.log());
    }
    let output = tshark(&folder, true, &format!("-i forebay-share-{name} -c 3"));
    assert_eq!(
        output.succeeds().text().lines().count(),
        3,
        "{}",
        output.log()
    );
    stopped(share).succeeds();
}
