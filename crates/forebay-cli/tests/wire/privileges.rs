//! What a capture that root started gives up before it takes the first packet.

use crate::{
    Load, ended,
    lab::{self, lab},
    listening,
    support::{Folder, count, forebay, found::read, has, interrupt, run},
};
use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, chown},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

const NOBODY: u32 = 65_534;
/// CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
const OF_FILES: u64 = 1 << 1 | 1 << 2;
/// What a thread may do, or could get to do by itself.
const HELD: [&str; 4] = ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"];
/// The rights that a program it starts could get: without CAP_NET_RAW it cannot open a raw socket.
const BOUND: [&str; 1] = ["CapBnd:"];

/// Of every thread of a process: its line for `label`, without blanks.
fn of_all_threads(child: &Child, label: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    threads
        .map(|thread| {
            let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix(label));
            line.unwrap().trim().to_owned()
        })
        .collect()
}

/// Requires that no thread has more than the `allowed` capabilities in these sets.
#[track_caller]
fn has_at_most(child: &Child, sets: &[&str], allowed: u64) {
    for label in sets {
        for set in of_all_threads(child, label) {
            let set = u64::from_str_radix(&set, 16).unwrap();
            assert_eq!(set & !allowed, 0, "{label} {set:x}");
        }
    }
}

/// Requires that each thread has this value after `label`, and no other.
#[track_caller]
fn is_everywhere(child: &Child, label: &str, word: &str) {
    for line in of_all_threads(child, label) {
        let mut words = line.split_whitespace();
        assert!(
            !line.is_empty() && words.all(|found| found == word),
            "{label} {line}"
        );
    }
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
        let load = Load::new("1000");
        let file = load.path("out.pcapng");
        let child = listening(&["-w", &file]);
        has_at_most(&child, &HELD, OF_FILES);
        is_everywhere(&child, "NoNewPrivs:", "1");
        let (code, json, _) = load.through(child);
        assert_eq!((code, count(&json["written"])), (0, 1000));
    });
}

#[test]
fn another_user_writes_and_has_no_right_at_all() {
    lab(&["tcpreplay"], || {
        if !is_root_over_all() {
            return;
        }
        let load = Load::new("1000");
        // The user nobody cannot write to root's folder: reported before anything is captured.
        let output = forebay(&["-i", "vb", "-Z", "nobody", "-w", &load.path("out.pcapng")]);
        let output = { output }.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(
            log.contains("out.pcapng: ") && log.contains("ermission denied"),
            "{log}"
        );

        chown(load.path(""), Some(NOBODY), Some(NOBODY)).unwrap();
        let file = load.path("out.pcapng");
        let child = listening(&["-Z", "nobody", "-w", &file]);
        has_at_most(&child, &HELD, 0);
        has_at_most(&child, &BOUND, 0);
        for label in ["Uid:", "Gid:", "Groups:"] {
            is_everywhere(&child, label, "65534");
        }
        is_everywhere(&child, "NoNewPrivs:", "1");
        let (code, json, _) = load.through(child);
        assert_eq!((code, count(&json["written"])), (0, 1000));
        assert_eq!(fs::metadata(&file).unwrap().uid(), NOBODY);
    });
}

/// The complete files of a series captured under load, in order.
fn complete(load: &Load) -> Vec<PathBuf> {
    let entries = fs::read_dir(load.path("")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_ours = |path: &PathBuf| path.to_str().unwrap().contains(".pcapng");
    let is_part = |path: &PathBuf| path.extension().is_some_and(|end| end == "part");
    let mut paths: Vec<_> = paths
        .filter(|path| is_ours(path) && !is_part(path))
        .collect();
    paths.sort();
    paths
}

#[test]
fn what_another_user_may_for_file_one_it_may_for_file_two_and_no_more() {
    lab(&["tcpreplay"], || {
        if !is_root_over_all() {
            return;
        }
        let load = Load::new("1000");
        let owned_by = |user| chown(load.path(""), Some(user), Some(user)).unwrap();
        for (number, (user, compress)) in [("nobody", false), ("nobody", true), ("root", true)]
            .into_iter()
            .enumerate()
        {
            for path in complete(&load) {
                fs::remove_file(path).unwrap();
            }
            owned_by(NOBODY);
            let file = load.path(&format!("{number}.pcapng"));
            let mut args = vec!["-Z", user, "-w", &file, "-C", "20kB", "-U"];
            args.extend(if compress {
                &["--compress", "zstd"][..]
            } else {
                &[]
            });
            let child = listening(&args);
            load.send();
            // Several files on, with all threads that there will ever be.
            while complete(&load).len() < 3 {
                std::thread::sleep(Duration::from_millis(5));
            }
            let (owner, allowed) = if user == "root" {
                (0, OF_FILES)
            } else {
                (NOBODY, 0)
            };
            has_at_most(&child, &HELD, allowed);
            has_at_most(&child, &BOUND, 0);
            interrupt(&child, "-INT");
            let (code, json, log) = ended(child);
            assert_eq!((code, count(&json["written"])), (0, 1000), "{log}");
            let paths = complete(&load);
            assert_eq!(paths.len() as u64, count(&json["files_written"]));
            for path in &paths {
                let about = fs::metadata(path).unwrap();
                assert_eq!((about.uid(), about.mode() & 0o777), (owner, 0o600));
                assert_eq!(path.extension().unwrap() == "zst", compress);
            }
        }

        // The folder is taken away from it: then there is no second file, and that is reported.
        owned_by(NOBODY);
        let file = load.path("taken.pcapng");
        let child = listening(&["-Z", "nobody", "-w", &file, "-C", "20kB", "-U"]);
        owned_by(0);
        load.send();
        let (code, json, log) = ended(child);
        assert_eq!(code, 1, "{log}");
        assert!(
            log.contains("taken.pcapng") && log.contains("ermission denied"),
            "{log}"
        );
        assert_eq!(json["law_holds"], true, "{json}");
        assert!(log.contains("complete under its temporary name"), "{log}");
        let part = load.path("taken.pcapng.part");
        let found = read(File::open(part).unwrap());
        assert_eq!(found.packets.len() as u64, count(&json["written"]));
    });
}

#[test]
fn an_unknown_user_is_refused() {
    let output = forebay(&["-i", "sim", "-Z", "no-such-user"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(
        log.contains("-Z no-such-user: there is no such user"),
        "{log}"
    );
}

#[test]
fn every_subcommand_gives_up_what_it_does_not_need_before_it_reads() {
    if !is_root_over_all() || !has("strace") {
        return;
    }
    let folder = Folder::new();
    let (input, log) = (folder.path("input.pcapng"), folder.path("log"));
    let fine = run(&["-i", "sim:clock=virtual", "-c", "9", "-q", "-w", &input]);
    assert!(fine.status.success());
    let queue = format!("forebay-test-{}", std::process::id());
    let cases: &[(&[&str], &str, &[&str])] = &[
        (&["capture", "-r", &input], &input, &[]),
        (&["capture", "-F", &input, "-i", "lo"], &input, &["NET_RAW"]),
        (&["info", &input], &input, &[]),
        (&["repair", &input], &input, &["LEASE"]),
        (&["records", "dump", &input], &input, &[]),
        (
            &["pipe", "-i", &input, "-o", "/dev/null"],
            &input,
            &["SYS_RESOURCE", "NET_BIND_SERVICE"],
        ),
        (&["queue", "stat", &queue], &queue, &[]),
        (&["get", "http://127.0.0.1:9/"], "127.0.0.1", &[]),
    ];
    for (args, reads, needed) in cases {
        let mut strace = Command::new("strace");
        let calls = "trace=capset,prctl,open,openat,connect";
        strace.args(["-f", "-o", &log, "-e", calls, "-s", "999"]);
        strace.arg(env!("CARGO_BIN_EXE_forebay")).args(*args);
        strace.stdin(Stdio::null()).output().unwrap();
        let log = fs::read_to_string(&log).unwrap();
        let before = log.lines().take_while(|line| !line.contains(reads));
        let before: Vec<_> = before.collect();
        assert!(before.len() < log.lines().count(), "{args:?} read nothing");
        let sets = before.iter().rfind(|line| line.contains("capset("));
        let sets = sets.unwrap_or_else(|| panic!("{args:?} keeps all: {log}"));
        for set in sets.split("CAP_").skip(1) {
            let name = set
                .split(|c: char| !c.is_ascii_uppercase() && c != '_')
                .next();
            let name = name.unwrap();
            let is_needed = name.starts_with("DAC_") || needed.contains(&name);
            assert!(is_needed, "{args:?} keeps {name}: {sets}");
        }
        let has = |call: &str| before.iter().any(|line| line.contains(call));
        assert!(has("PR_SET_NO_NEW_PRIVS"), "{args:?}: {log}");
        for bound in [
            "PR_CAPBSET_DROP, CAP_NET_RAW",
            "PR_CAPBSET_DROP, CAP_SYS_ADMIN",
        ] {
            assert!(has(bound), "{args:?}: {log}");
        }
    }
}
