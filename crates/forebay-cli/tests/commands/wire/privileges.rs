//! What a capture that root started gives up before it takes the first packet.

use crate::support::*;
use crate::wire::{
    Load,
    lab::{self, lab},
    listening,
};
use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
    process::Child,
};

const NOBODY: u32 = 65_534;
/// CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
const OF_FILES: u64 = 1 << 1 | 1 << 2;
/// What a thread may do, or could get to do by itself.
const HELD: [&str; 4] = ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"];
/// The rights that a program it starts could get: without CAP_NET_RAW it cannot open a raw socket.
const BOUND: [&str; 1] = ["CapBnd:"];

/// Requires that no thread has more than the `allowed` capabilities in these sets.
#[track_caller]
fn has_at_most(child: &Child, sets: &[&str], allowed: u64) {
    for label in sets {
        for set in of_threads(child, label) {
            let set = u64::from_str_radix(&set, 16).unwrap();
            assert_eq!(set & !allowed, 0, "{label} {set:x}");
        }
    }
}

/// Requires that each thread has this value after `label`, and no other.
#[track_caller]
pub fn is_everywhere(child: &Child, label: &str, word: &str) {
    for line in of_threads(child, label) {
        let mut words = line.split_whitespace();
        let is_so = !line.is_empty() && words.all(|found| found == word);
        assert!(is_so, "{label} {line}");
    }
}

/// Requires that no thread has a right but root's to files, or can gain one.
pub fn has_only_rights_to_files(child: &Child) {
    has_at_most(child, &HELD, OF_FILES);
    is_everywhere(child, "NoNewPrivs:", "1");
}

/// Whether this root is one over all users; says so where it is not.
fn is_root_over_all() -> bool {
    let all = fs::read_to_string("/proc/self/uid_map").unwrap();
    let is_so = all.split_whitespace().eq(["0", "0", "4294967295"]);
    if !is_so {
        lab::skip("root over all users");
    }
    is_so
}

#[test]
fn root_keeps_no_right_but_those_to_files() {
    lab(&["tcpreplay"], || {
        let load = Load::new(1000);
        let file = load.path("out.pcapng");
        let child = listening(format!("-w {file}"));
        has_only_rights_to_files(&child);
        let json = load.through(child).succeeds().json();
        assert_eq!(count(&json["written"]), 1000);
    });
}

#[test]
fn another_user_writes_and_has_no_right_at_all() {
    lab(&["tcpreplay"], || {
        if !is_root_over_all() {
            return;
        }
        let load = Load::new(1000);
        // The user nobody cannot write to root's folder: reported before anything is captured.
        let output = run!("capture -i vb -Z nobody -w {}", load.path("out.pcapng"));
        output.fails(1, "out.pcapng: ");
        contains(output.log(), "ermission denied");

        chown(load.path(""), Some(NOBODY), Some(NOBODY)).unwrap();
        let file = load.path("out.pcapng");
        let child = listening(format!("-Z nobody -w {file}"));
        has_at_most(&child, &HELD, 0);
        has_at_most(&child, &BOUND, 0);
        for label in ["Uid:", "Gid:", "Groups:"] {
            is_everywhere(&child, label, "65534");
        }
        is_everywhere(&child, "NoNewPrivs:", "1");
        let json = load.through(child).succeeds().json();
        assert_eq!(count(&json["written"]), 1000);
        assert_eq!(fs::metadata(&file).unwrap().uid(), NOBODY);
    });
}

/// The complete files of a series captured under load, in order.
fn complete(load: &Load) -> Vec<String> {
    let mut names = load.0.names();
    names.retain(|name| name.contains(".pcapng") && !name.ends_with(".part"));
    names.iter().map(|name| load.path(name)).collect()
}

#[test]
fn what_another_user_may_for_file_one_it_may_for_file_two_and_no_more() {
    lab(&["tcpreplay"], || {
        if !is_root_over_all() {
            return;
        }
        let load = Load::new(1000);
        let owned_by = |user| chown(load.path(""), Some(user), Some(user)).unwrap();
        let cases = [
            ("nobody", ""),
            ("nobody", "--compress zstd"),
            ("root", "--compress zstd"),
        ];
        for (number, (user, compress)) in cases.into_iter().enumerate() {
            for path in complete(&load) {
                fs::remove_file(path).unwrap();
            }
            owned_by(NOBODY);
            let file = load.path(&format!("{number}.pcapng"));
            let child = listening(format!("-Z {user} -w {file} -C 20kB -U {compress}"));
            load.send();
            // Several files on, with all threads that there will ever be.
            wait_until(|| complete(&load).len() >= 3);
            let (owner, allowed) = if user == "root" {
                (0, OF_FILES)
            } else {
                (NOBODY, 0)
            };
            has_at_most(&child, &HELD, allowed);
            has_at_most(&child, &BOUND, 0);
            let json = stopped(child).succeeds().json();
            let paths = complete(&load);
            assert_eq!(
                counts(&json, ["written", "files_written"]),
                [1000, paths.len() as u64]
            );
            for path in &paths {
                let about = fs::metadata(path).unwrap();
                assert_eq!((about.uid(), about.mode() & 0o777), (owner, 0o600));
                assert_eq!(path.ends_with(".zst"), !compress.is_empty());
            }
        }

        // The folder is taken away from it: then there is no second file, and that is reported.
        owned_by(NOBODY);
        let file = load.path("taken.pcapng");
        let child = listening(format!("-Z nobody -w {file} -C 20kB -U"));
        owned_by(0);
        load.send();
        let ran = child.wait_with_output().unwrap();
        ran.fails(1, "taken.pcapng");
        contains(ran.log(), "ermission denied");
        contains(ran.log(), "complete under its temporary name");
        let json = ran.lawful();
        let part = load.path("taken.pcapng.part");
        let found = found::open(part);
        assert_eq!(found.packets.len() as u64, count(&json["written"]));
    });
}

#[test]
fn an_unknown_user_is_refused() {
    run!("capture -i sim -Z no-such-user").fails(2, "-Z no-such-user: there is no such user");
}

#[test]
fn every_subcommand_gives_up_what_it_does_not_need_before_it_reads() {
    if !is_root_over_all() || !has("strace") {
        return;
    }
    let folder = Folder::new();
    let (input, log) = (
        recorded(&folder, "input.pcapng", "count=9"),
        folder.path("log"),
    );
    let queue = format!("forebay-test-{}", std::process::id());
    let cases = format!(
        "
        capture -r {input}            | {input}   | -
        capture -F {input} -i lo      | {input}   | NET_RAW BPF
        info {input}                  | {input}   | -
        repair {input}                | {input}   | LEASE
        records dump {input}          | {input}   | -
        pipe -i {input} -o /dev/null  | {input}   | SYS_RESOURCE NET_BIND_SERVICE
        queue stat {queue}            | {queue}   | -
        get http://127.0.0.1:9/       | 127.0.0.1 | -
        "
    );
    for [line, reads, needed] in rows(&cases) {
        let calls = "-s 999 -e trace=capset,prctl,open,openat,connect";
        strace(calls, &log, line).output().unwrap();
        let log = fs::read_to_string(&log).unwrap();
        let before = log.lines().take_while(|line| !line.contains(reads));
        let before: Vec<_> = before.collect();
        assert!(before.len() < log.lines().count(), "{line} read nothing");
        let sets = before.iter().rfind(|line| line.contains("capset("));
        let sets = sets.unwrap_or_else(|| panic!("{line} keeps all: {log}"));
        for set in sets.split("CAP_").skip(1) {
            let mut names = set.split(|c: char| !c.is_ascii_uppercase() && c != '_');
            let name = names.next().unwrap();
            let is_needed = name.starts_with("DAC_") || words(needed).contains(&name);
            assert!(is_needed, "{line} keeps {name}: {sets}");
        }
        let has = |call: &str| before.iter().any(|line| line.contains(call));
        assert!(has("PR_SET_NO_NEW_PRIVS"), "{line}: {log}");
        for bound in ["CAP_NET_RAW", "CAP_SYS_ADMIN"] {
            assert!(has(&format!("PR_CAPBSET_DROP, {bound}")), "{line}: {log}");
        }
    }
}

#[test]
fn rights_to_files_go_where_no_file_is_opened_any_more() {
    lab(&[], || {
        let folder = Folder::new();
        let file = folder.path("a.pcapng");
        let lines = [
            "capture -i vb --count",
            "verify -i vb",
            "generate -i va rate=1pps",
            "bridge va vb",
            "top -i vb --once --interval 60",
        ];
        for line in lines {
            let child = start!("{line}");
            wait_until(|| of_threads(&child, "CapPrm:").iter().all(|it| it == NOTHING));
            has_at_most(&child, &HELD, 0);
            stopped(child);
        }
        // Threads that parse what others send have none either, while the writer may open another file.
        let name = format!("test-{}", std::process::id());
        let flags = format!("--share {name} --serve tcp:127.0.0.1:0 --metrics 0");
        let child = listening(format!(
            "-w {file} {flags} --control {}",
            folder.path("ctl")
        ));
        let of_writer = named_threads(&child, "forebay-writer");
        assert!(
            of_writer
                .iter()
                .all(|it| it.contains("CapEff:\t0000000000000006"))
        );
        for name in ["forebay-operate", "forebay-share", "forebay-serve"] {
            // A thread that has only begun may still be about to give them up.
            wait_until(|| {
                let statuses = named_threads(&child, name);
                let has_none = |it: &String| it.contains(&format!("CapPrm:\t{NOTHING}"));
                !statuses.is_empty() && statuses.iter().all(has_none)
            });
        }
        stopped(child).succeeds();
    });
}

/// No capability.
const NOTHING: &str = "0000000000000000";

/// The statuses of the threads with this name.
fn named_threads(child: &Child, name: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let statuses = threads.map(|thread| thread.unwrap().path().join("status"));
    let statuses = statuses.filter_map(|path| fs::read_to_string(path).ok());
    let of_name = |status: &String| status.starts_with(&format!("Name:\t{name}"));
    statuses.filter(of_name).collect()
}
