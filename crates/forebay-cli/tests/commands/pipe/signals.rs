//! Stops, reports, and the watchdog.

use crate::support::*;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    process::Command,
};

#[test]
fn the_first_signal_writes_what_was_read_and_usr1_prints_the_counts() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let mut child = start!("pipe --hash crc32");
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"all that came").unwrap();
        let mut received = [0; 13];
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut received).unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        // What we have already may not be counted yet.
        let is_told = (0..1000).any(|_| {
            interrupt(&child, "-USR1");
            let counts = lines.next().unwrap();
            assert!(counts.starts_with("forebay: 13 bytes read, "), "{counts}");
            counts.contains(" 13 written, 0:0")
        });
        assert!(is_told);
        interrupt(&child, signal);
        assert_eq!(stdout.read(&mut [0]).unwrap(), 0, "its end");
        assert!(lines.next().unwrap().starts_with("crc32: "));
        assert!(child.wait().unwrap().success());
        drop(stdin); // it was open all the time
    }
}

/// Waits until the thread of that name has ended.
fn wait_for_the_end_of(thread: &str, pid: u32) {
    wait_until(|| {
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        let mut threads = threads.into_iter().flatten().flatten();
        let name = |path: std::path::PathBuf| fs::read_to_string(path.join("comm"));
        !threads.any(|it| name(it.path()).is_ok_and(|name| name.trim() == thread))
    });
}

#[test]
fn a_second_signal_gives_up_a_reader_that_stands_still() {
    let mut child = start!("pipe -m 4M");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&noise(4 << 20)).unwrap();
    interrupt(&child, "-INT");
    wait_for_the_end_of("filling", child.id()); // the first one ends the reading
    let is_waiting = child.try_wait().unwrap().is_none();
    assert!(is_waiting, "for the reader");
    interrupt(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let output = child.wait_with_output().unwrap();
    assert!(noise(4 << 20).starts_with(&output.stdout));
    assert!(output.log().starts_with("forebay: gave up: "), "{output:?}");
    contains(output.log(), "were read and not written");
}

/// Whether the thread of that name is in a `write(2)`; `None` if the kernel does not report it.
fn is_writing(thread: &str, pid: u32) -> Option<bool> {
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let path = task.ok()?.path();
        if fs::read_to_string(path.join("comm")).ok()?.trim() == thread {
            let call = fs::read_to_string(path.join("syscall")).ok()?;
            return Some(call.starts_with(&format!("{} ", libc::SYS_write)));
        }
    }
    Some(false)
}

#[test]
fn a_third_signal_ends_also_a_write_that_waits() {
    if !has("script") {
        return;
    }
    // An input that stays open after more bytes than a terminal takes, and fewer than fill the buffer: reading can end at once.
    let (_folder, path) = Folder::with("input");
    mkfifo(&path);
    let input = fs::OpenOptions::new().read(true).write(true).open(&path);
    let mut input = input.unwrap();
    let writing = std::thread::spawn(move || input.write_all(&[b'.'; 1 << 20]).map(|()| input));
    // A terminal that is not read: `script` provides one, and is stopped.
    let command = format!("exec {FOREBAY} pipe -q -m 64M {path}");
    let mut terminal = piped(Command::new("script").args(["-qec", &command, "/dev/null"]));
    terminal
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut [0])
        .unwrap();
    interrupt(&terminal, "-STOP");
    let children = format!("/proc/{0}/task/{0}/children", terminal.id());
    let pid = fs::read_to_string(children).unwrap();
    let pid: u32 = pid.trim().parse().expect("one child");
    let kill = |signal: &str| {
        foreign(format!("kill {signal} {pid}")).unwrap().succeeds();
    };
    let is_waiting = (0..20_000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        is_writing("draining", pid).map_or(Some(false), |waits| waits.then_some(true))
    });
    if is_waiting == Some(true) {
        kill("-INT");
        kill("-TERM");
        wait_for_the_end_of("filling", pid);
        assert_eq!(is_writing("draining", pid), Some(true), "it does not react");
        kill("-INT");
        wait_for_the_end_of("draining", pid);
    } else {
        println!("skipped: needs a kernel that reports what a thread waits for");
        kill("-KILL");
    }
    interrupt(&terminal, "-CONT");
    drop(terminal.stdout.take());
    terminal.wait().unwrap();
    drop(writing); // until here, it kept the input open
}

#[test]
fn the_watchdog_gives_up_what_stands_still() {
    let mut child = start!("pipe --watchdog 0.1");
    let stdin = child.stdin.take().unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin); // it was open all the time
    output.fails(1, "no byte has moved for as long as --watchdog allows");
}
