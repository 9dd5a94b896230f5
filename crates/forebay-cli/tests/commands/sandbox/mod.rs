//! What is left to a process after it has entered its sandbox: each of its threads tries what an attacker would.
//!
//! In CI the kernel has to offer both parts of the sandbox; elsewhere tests of a missing part are skipped.

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod possessed;

use crate::support::*;
use std::{
    fs,
    io::{PipeReader, PipeWriter, Write, pipe},
    process::Child,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// System calls are filtered (proc(5)).
const FILTERED: &str = "2";

/// The text of `doctor` about what this kernel offers.
fn offers(part: &str) -> bool {
    let output = run!("doctor {}", std::env::temp_dir().display());
    let is_there = output.text().contains(&format!("{part} restricts"));
    if !is_there {
        children::skip(part);
    }
    is_there
}

/// The mode of system calls of every thread.
fn modes(child: &Child) -> Vec<String> {
    of_threads(child, "Seccomp:")
}

/// A pipe without room: a program that prints into it waits.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[0; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    (reader, writer)
}

/// Runs `test` with each subcommand while it reads what never ends, after all its threads are in this mode of `Seccomp:`.
fn with_each(flag: &str, mode: &str, test: impl Fn(&str, &Folder, &Child)) {
    let (folder, fifo) = Folder::with("fifo");
    mkfifo(&fifo);
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", server.local_addr().unwrap());
    static QUEUES: AtomicU32 = AtomicU32::new(0);
    let number = QUEUES.fetch_add(1, Relaxed);
    let queue = format!("forebay-sandbox-{}-{number}", std::process::id());
    let operated = folder.path("operated");
    fs::create_dir(&operated).unwrap();
    let share = format!("sandbox-{}-{number}", std::process::id());
    let _shared = Mortal(start!(
        "capture -i sim:rate=1M --share {share} --control {operated}/of-share"
    ));
    wait_until(|| run!("shares").text().contains(&share));
    let output = folder.path("output");
    fs::create_dir(&output).unwrap();
    let whole = recorded(&folder, "output/whole.pcapng", "count=9");
    let full = full_pipe();
    // It sends nothing, because it reads nothing.
    let sends = match rustix::process::geteuid().is_root() {
        true => format!("replay {fifo} -i lo | 4"),
        false => String::new(),
    };
    let pid = std::process::id();
    let cases = format!(
        "
        {sends}
        capture -i sim:rate=1M -w {output}/a.pcapng             | 3
        capture -i sim:rate=1M -w {output}/b.pcapng -b duration:1 -b files:2 --compress zstd | 4
        capture -i sim:rate=1M --print                          | 3
        capture -i sim:rate=1M --threads 2 --cpus 0,0 -w {output}/n.pcapng | 5
        capture -i sim:rate=1M -w {output}/c.pcapng -z true     | 4
        capture -i sim:rate=1M --share {share}-2 --serve tcp:0  | 4
        capture -i sim:rate=1M --control {operated}/socket --metrics 127.0.0.1:0 --metrics-file {operated}/m.prom | 3
        capture -i sim:rate=1M -w {output}/r.pcapng --recorder 5s,1M --trigger udp --after 1s | 4
        top --control {operated}/of-share --once --interval 60              | 1
        capture -i share:{share} -w {output}/t.pcapng             | 3
        capture -r - -w {output}/d.pcapng                       | 1
        capture -r {fifo}                                       | 1
        verify -r {fifo}                                        | 1
        verify -i sim:rate=1M                                   | 4
        info {fifo}                                             | 1
        records check -                                         | 1
        records dump -                                          | 1
        top -i sim:rate=1M --once --interval 60                 | 2
        pipe                                                    | 3
        pipe -o {output}/e                                      | 3
        pipe -d {pid}                                           | 3
        queue recv --create {queue}                             | 1
        queue send {queue}                                      | 1
        get {url} -o {output}/f                                 | 2
        repair {whole}                                          | 1
        queue stat {queue}                                      | 1
        shares                                                  | 1
        "
    );
    for [line, threads] in rows(&cases) {
        let mut command = forebay!("{line} {flag}");
        let prints_once = ["repair", "queue stat", "shares"];
        let mut child = Mortal(match prints_once.iter().any(|it| line.starts_with(it)) {
            true => command.stdout(full.1.try_clone().unwrap()).spawn().unwrap(),
            false => piped(&mut command),
        });
        // Opening a FIFO to read waits for a writer. This one writes nothing.
        let writer = line
            .contains(&fifo)
            .then(|| fs::File::options().write(true).open(&fifo));
        let accepted = line.starts_with("get").then(|| server.accept().unwrap());
        wait_until(|| {
            let modes = modes(&child.0);
            assert!(!child.has_ended(), "{line} has ended");
            modes.len() >= threads.parse().unwrap() && modes.iter().all(|it| it == mode)
        });
        test(line, &folder, &child.0);
        assert!(!child.has_ended(), "{line} has ended");
        drop((writer, accepted));
    }
    let _ = run!("queue remove {queue}");
}

#[test]
fn every_thread_of_every_subcommand_is_inside() {
    if !offers("seccomp") {
        return;
    }
    with_each("", FILTERED, |line, _, child| {
        for (label, expected) in [("Seccomp:", FILTERED), ("NoNewPrivs:", "1")] {
            let found = of_threads(child, label);
            assert!(
                found.iter().all(|it| it == expected),
                "{line}: {label} {found:?}"
            );
        }
    });
}

#[test]
fn the_flag_leaves_it_off() {
    with_each("--no-sandbox", "0", |_, _, _| ());
    let json =
        run!("capture -i sim:clock=virtual -c 1 --json --count --no-sandbox").keeps_the_law();
    assert!(json["sandbox"].is_null(), "{json}");
}

#[test]
fn the_summary_and_doctor_report_what_is_in_force() {
    let json = run!("capture -i sim:clock=virtual -c 1 --json --count").keeps_the_law();
    let verbose = run!("capture -i sim:clock=virtual -c 1 --count -v");
    let log = verbose.succeeds().log();
    match offers("Landlock") {
        true => {
            assert!(count(&json["sandbox"]["landlock"]) > 0, "{json}");
            contains(log, "restricts files");
        }
        false => {
            assert!(json["sandbox"]["landlock"].is_null(), "{json}");
            contains(log, "no Landlock: files are not restricted");
        }
    }
    assert_eq!(json["sandbox"]["seccomp"], offers("seccomp"), "{json}");
}

#[test]
fn what_a_kernel_or_container_refuses_is_reported_and_nothing_else_changes() {
    if !has("strace") || !offers("Landlock") || !offers("seccomp") {
        return;
    }
    let folder = Folder::new();
    let (log, output) = (folder.path("log"), folder.path("a.pcapng"));
    let cases = "
        landlock_create_ruleset | ENOSYS     | false | true  | no Landlock
        landlock_create_ruleset | EOPNOTSUPP | false | true  | no Landlock
        landlock_create_ruleset | EPERM      | false | true  | no Landlock
        landlock_restrict_self  | EPERM      | false | true  | no Landlock
        seccomp                 | EPERM      | true  | false | no seccomp
        seccomp                 | EINVAL     | true  | false | no seccomp
        ";
    for [call, error, landlock, seccomp, missing] in rows(cases) {
        let options = format!("-e inject={call}:error={error} -e trace={call}");
        let line = format!("capture -i sim:clock=virtual -c 100 -v --json -w {output}");
        let ran = strace(&options, &log, &line).output().unwrap();
        let json = ran.keeps_the_law();
        contains(ran.log(), missing);
        let found = &json["sandbox"];
        assert_eq!(found["landlock"].is_u64(), landlock == "true", "{json}");
        assert_eq!(found["seccomp"], seccomp == "true", "{json}");
        assert_eq!(found::open(&output).packets.len(), 100);
        let doctor = strace(&options, &log, "doctor").output().unwrap();
        contains(doctor.text(), format!("note  {missing}"));
    }
}

#[test]
fn files_are_read_only_after_the_sandbox_is_entered() {
    if !has("strace") || !offers("Landlock") || !offers("seccomp") {
        return;
    }
    let (folder, input) = captured("input.pcapng", "count=9");
    let (log, output) = (folder.path("log"), folder.path("output.pcapng"));
    for line in [
        "capture --count -r",
        "capture -L -r",
        "capture -d -r",
        "top --once -r",
        "info",
        "repair",
        "records check",
        "records dump",
        &format!("capture -w {output} -r"),
    ] {
        let calls = "-s 999 -e trace=openat,open,seccomp,landlock_restrict_self,clone,clone3";
        let ran = strace(calls, &log, &format!("{line} {input}")).output();
        ran.unwrap();
        let log = fs::read_to_string(&log).unwrap();
        let at = |is: &dyn Fn(&str) -> bool| log.lines().position(is);
        let read = at(&|it| it.contains(&format!("\"{input}\"")) && !it.contains("O_PATH"));
        let read = read.unwrap_or_else(|| panic!("{line} reads nothing: {log}"));
        for call in ["landlock_restrict_self(", "seccomp("] {
            let closed = at(&|it| it.contains(call) && it.ends_with(" = 0"));
            assert!(closed.is_some_and(|closed| closed < read), "{line}: {log}");
        }
        // The first thread starts later still, and so inherits both.
        let started = at(&|it| it.contains("clone"));
        assert!(
            started.is_none_or(|started| started > read),
            "{line}: {log}"
        );
    }
}

#[test]
fn packets_are_printed_in_the_time_zone_that_only_the_environment_names() {
    let (_folder, zone) = Folder::with("five-hours");
    // One type of time, 5 hours before UTC, without changes (tzfile(5)).
    let mut file = b"TZif".to_vec();
    file.resize(36, 0);
    file.extend([0, 0, 0, 1, 0, 0, 0, 4]);
    file.extend((5 * 3600_i32).to_be_bytes());
    file.extend(*b"\0\0FIV\0");
    fs::write(&zone, file).unwrap();
    let line = "capture -i sim:clock=virtual -c 1 --print -tttt";
    let hours = |zone: &str| {
        let printed = command(line).env("TZ", zone).output().unwrap();
        let (_, time) = printed.succeeds().text().split_once(' ').unwrap();
        time[..2].parse::<u32>().unwrap()
    };
    let in_utc = hours("UTC0");
    for zone in [zone.clone(), format!(":{zone}")] {
        assert_eq!(hours(&zone), (in_utc + 5) % 24, "{zone}");
    }
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod attacks {
    use super::*;
    use forebay_testing::lab::{ip, lab, up};
    use nix::libc;
    use possessed::{Argument, Possessed};

    const ENOSYS: i64 = -(libc::ENOSYS as i64);
    const EACCES: i64 = -(libc::EACCES as i64);
    const HERE: i32 = libc::AT_FDCWD;
    const MAKE: i32 = libc::O_CREAT | libc::O_RDWR | libc::O_TRUNC;

    /// A call with its arguments, up to six.
    macro_rules! call {
        ($possessed:expr, $number:ident $(, $argument:expr)*) => {
            $possessed.call(libc::$number, [$(Argument::from($argument)),*])
        };
    }

    #[test]
    fn no_thread_opens_a_file_outside_of_the_output_folder() {
        if !offers("Landlock") || !offers("seccomp") {
            return;
        }
        with_each("", FILTERED, opens_nothing_outside);
    }

    fn opens_nothing_outside(line: &str, folder: &Folder, child: &Child) {
        let outside = folder.path("outside");
        let inside = folder.path("output/inside");
        let other = folder.path("output/other");
        fs::write(&other, "another file").unwrap();
        let renamed = format!("{outside}-2");
        fs::write(&outside, "precious").unwrap();
        let possessed = Possessed::new(child);
        if line.starts_with("pipe -d") {
            return changes_nothing(&possessed, line, &[&outside, &other, &inside]);
        }
        for path in ["/etc/group", "/dev/mem", &outside, "/proc/1/environ"] {
            let opened = call!(possessed, SYS_openat, HERE, path, libc::O_RDONLY, 0);
            let are_refused = opened.iter().all(|&it| it < 0);
            assert!(are_refused, "{line}: {path}: {opened:?}");
        }
        for path in [&outside, &renamed] {
            let made = call!(possessed, SYS_openat, HERE, &path[..], MAKE, 0o600);
            let are_refused = made.iter().all(|&it| it == EACCES);
            assert!(are_refused, "{line}: {path}: {made:?}");
        }
        let gone = call!(possessed, SYS_unlink, &outside[..]);
        assert!(gone.iter().all(|&it| it == EACCES), "{line}: {gone:?}");
        let moved = call!(possessed, SYS_rename, &outside[..], &renamed[..]);
        assert!(moved.iter().all(|&it| it < 0), "{line}: {moved:?}");
        let mode = call!(possessed, SYS_chmod, &outside[..], 0o777);
        assert!(mode.iter().all(|&it| it == ENOSYS), "{line}: {mode:?}");
        assert_eq!(fs::read(&outside).unwrap(), b"precious");
        // Where files are written, they still can be: the attempts above were not refused for another reason.
        // Only these read and remove what is beside their files.
        let folders = ["-b ", "--recorder", "repair"];
        let has_folder = folders.iter().any(|it| line.contains(it));
        let makes_files = ["-r - -w", "-i share", "get"];
        let flags = libc::O_CREAT | libc::O_WRONLY;
        let made = call!(possessed, SYS_openat, HERE, &inside[..], flags, 0o600);
        match has_folder || makes_files.iter().any(|it| line.contains(it)) {
            true => assert!(made.iter().all(|&it| it >= 0), "{line}: {made:?}"),
            false => assert!(made.iter().all(|&it| it == EACCES), "{line}: {made:?}"),
        }
        if !has_folder {
            let read = call!(possessed, SYS_openat, HERE, &other[..], libc::O_RDONLY, 0);
            assert!(read.iter().all(|&it| it == EACCES), "{line}: {read:?}");
        }
        if !has_folder && !line.starts_with("get") {
            let gone = call!(possessed, SYS_unlink, &other[..]);
            assert!(gone.iter().all(|&it| it == EACCES), "{line}: {gone:?}");
        }
    }

    /// It reads the files of other processes, and system calls alone keep it from changing any.
    fn changes_nothing(possessed: &Possessed, line: &str, paths: &[&String]) {
        let renamed = format!("{}-2", paths[0]);
        for path in paths {
            let path = &path[..];
            for flags in [
                MAKE,
                libc::O_WRONLY,
                libc::O_RDWR,
                libc::O_RDONLY | libc::O_TRUNC,
            ] {
                let opened = call!(possessed, SYS_openat, HERE, path, flags, 0o600);
                assert!(opened.iter().all(|&it| it == ENOSYS), "{line}: {opened:?}");
            }
            let gone = call!(possessed, SYS_unlink, path);
            assert!(gone.iter().all(|&it| it == ENOSYS), "{line}: {gone:?}");
            let moved = call!(possessed, SYS_rename, path, &renamed[..]);
            assert!(moved.iter().all(|&it| it == ENOSYS), "{line}: {moved:?}");
            let mode = call!(possessed, SYS_chmod, path, 0o777);
            assert!(mode.iter().all(|&it| it == ENOSYS), "{line}: {mode:?}");
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_opens_neither_its_target_nor_a_folder() {
        if !offers("Landlock") || !offers("seccomp") {
            return;
        }
        let (folder, fifo) = Folder::with("fifo");
        mkfifo(&fifo);
        let (elsewhere, link) = (folder.path("elsewhere"), folder.path("link"));
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(format!("{elsewhere}/target"), &link).unwrap();
        let mut child = Mortal(start!("capture -r {fifo} -w {link}"));
        let writer = fs::File::options().write(true).open(&fifo).unwrap();
        wait_until(|| modes(&child.0) == [FILTERED]);
        let possessed = Possessed::new(&child.0);
        for path in [format!("{elsewhere}/target"), folder.path("beside"), link] {
            let flags = libc::O_CREAT | libc::O_WRONLY;
            let made = call!(possessed, SYS_openat, HERE, &path[..], flags, 0o600);
            assert!(made.iter().all(|&it| it == EACCES), "{path}: {made:?}");
        }
        drop((possessed, writer));
        assert_eq!(child.0.wait().unwrap().code(), Some(1));
    }

    #[test]
    fn no_thread_makes_a_socket_or_runs_a_program() {
        if !offers("seccomp") {
            return;
        }
        with_each("", FILTERED, makes_no_socket_and_runs_nothing);
    }

    fn makes_no_socket_and_runs_nothing(line: &str, folder: &Folder, child: &Child) {
        let possessed = Possessed::new(child);
        let executable = folder.path("output/executable");
        let us = std::process::id() as i32;
        let is_refused = |call: &str, answers: Vec<i64>| {
            assert!(!answers.is_empty());
            let is_refused = |&it: &i64| it == ENOSYS || it == EACCES;
            let are_refused = answers.iter().all(is_refused);
            assert!(are_refused, "{line}: {call}: {answers:?}");
        };
        macro_rules! refused {
            ($number:ident $(, $argument:expr)*) => {
                is_refused(stringify!($number), call!(possessed, $number $(, $argument)*))
            };
        }
        // `get` connects: a redirect leads to another server.
        if !line.starts_with("get") {
            for family in [libc::AF_INET, libc::AF_INET6] {
                refused!(SYS_socket, family, libc::SOCK_STREAM, 0);
            }
            if line != "shares" {
                refused!(SYS_connect, 0, Argument::Zeros(16), 16);
            }
            let code = libc::PROT_READ | libc::PROT_EXEC;
            let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            refused!(SYS_mmap, 0, 4096, code, private, -1, 0);
        }
        refused!(SYS_listen, 0, 1);
        for family in [libc::AF_UNIX, libc::AF_PACKET, libc::AF_VSOCK] {
            refused!(SYS_socket, family, libc::SOCK_RAW, 0);
        }
        refused!(SYS_execve, "/bin/true", 0, 0);
        refused!(SYS_execveat, HERE, "/bin/true", 0, 0, 0);
        refused!(SYS_fork);
        refused!(SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
        refused!(SYS_clone3, Argument::Zeros(88), 88);
        refused!(SYS_kill, us, 0);
        refused!(SYS_tgkill, us, us, 0);
        refused!(SYS_ptrace, libc::PTRACE_ATTACH as i32, us);
        refused!(SYS_prlimit64, us, 0, 0, 0);
        let [all, process, group] = [libc::PRIO_USER, libc::PRIO_PROCESS, libc::PRIO_PGRP];
        for (which, who) in [(all, 0), (group, 0), (process, us)] {
            refused!(SYS_setpriority, which as i32, who, 19);
        }
        refused!(SYS_sched_setaffinity, us, 8, Argument::Zeros(8));
        for mode in [0o666, 0o755, 0o4700] {
            refused!(SYS_fchmod, 0, mode);
        }
        let writes_files = ["-w ", "--metrics-file", "repair", "--tap"];
        if !writes_files.iter().any(|it| line.contains(it)) {
            refused!(SYS_fchmod, 0, 0o600);
        }
        // Executing the file would give the rights of its owner to any user.
        for mode in [0o4755, 0o2755] {
            refused!(SYS_openat, HERE, &executable[..], MAKE, mode);
            refused!(SYS_open, &executable[..], MAKE, mode);
        }
        refused!(SYS_io_uring_setup, 1, Argument::Zeros(120));
        refused!(SYS_mount, "none", "/tmp", "tmpfs", 0, 0);
        refused!(SYS_unshare, libc::CLONE_NEWUSER);
        refused!(SYS_bpf, 0, 0, 0);
        refused!(SYS_add_key, "user", "a", "b", 1, 0);
        // The terminal's shell would run what is typed there.
        refused!(SYS_ioctl, 0, libc::TIOCSTI as i32, "x");
        // A thread has its own number still: not everything is refused.
        let numbers = call!(possessed, SYS_gettid);
        assert!(numbers.iter().all(|&it| it > 0), "{line}: {numbers:?}");
    }

    #[test]
    fn a_bridge_keeps_only_the_new_file_of_its_tap() {
        if !offers("Landlock") || !offers("seccomp") {
            return;
        }
        lab(&[], || {
            let (folder, output) = Folder::with("output");
            fs::create_dir(&output).unwrap();
            ip("link add a0 type veth peer name a1");
            up(&["a0", "a1"]);
            let line = format!("bridge vb a0 --tap {output}/a.pcapng");
            let mut child = Mortal(start!("{line}"));
            heard(&mut child.0, "bridging vb and a0");
            opens_nothing_outside(&line, &folder, &child.0);
            makes_no_socket_and_runs_nothing(&line, &folder, &child.0);
            assert!(!child.has_ended(), "{line} has ended");
        });
    }

    /// Opens a file and makes a socket.
    fn file_and_socket(possessed: &Possessed) -> [Vec<i64>; 2] {
        [
            call!(
                possessed,
                SYS_openat,
                HERE,
                "/etc/passwd",
                libc::O_RDONLY,
                0
            ),
            call!(possessed, SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0),
        ]
    }

    #[test]
    fn without_the_sandbox_the_same_calls_succeed() {
        let mut child = Mortal(start!("capture -i sim:rate=1M --count --no-sandbox --json"));
        wait_until(|| modes(&child.0).len() >= 3);
        let possessed = Possessed::new(&child.0);
        let [opened, made] = file_and_socket(&possessed);
        assert!(opened.iter().all(|&it| it >= 0), "{opened:?}");
        assert!(made.iter().all(|&it| it >= 0), "{made:?}");
        drop(possessed);
        assert!(child.0.try_wait().unwrap().is_none());
    }

    #[test]
    fn a_capture_whose_threads_tried_everything_goes_on_and_keeps_the_law() {
        let folder = Folder::new();
        let child = start!(
            "capture -i sim:rate=10M -w {} --json",
            folder.path("a.pcapng")
        );
        wait_until(|| modes(&child).len() >= 3);
        for _ in 0..20 {
            file_and_socket(&Possessed::new(&child));
        }
        let json = stopped(child).keeps_the_law();
        let found = found::open(folder.path("a.pcapng"));
        assert_eq!(found.packets.len() as u64, count(&json["written"]));
    }
}
