//! Terminals and pipes that are not read, and terminals that other programs print on.

use crate::support::{
    Folder, count, forebay, interrupt, summary,
    terminal::{Terminal, rows},
    text, words,
};
use std::{
    fs::File,
    io::Read,
    process::{Child, Stdio},
    time::Duration,
};

/// Waits until the file at `path` has grown by a megabyte; panics if it does not within 20 seconds.
fn wait_for_more(path: &str) {
    let len = || std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let before = len();
    for _ in 0..2000 {
        if len() >= before + 1_000_000 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{path} does not grow");
}

/// Ends the child whatever happens to the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_unread_terminal_stops_neither_a_capture_nor_its_end() {
    let folder = Folder::new();
    let (file, json) = (folder.path("a.pcapng"), folder.path("json"));
    let terminal = Terminal::new(80);
    terminal.stop();
    let mut command = terminal.command(env!("CARGO_BIN_EXE_forebay"));
    command.args(["capture", "-i", "sim", "-U", "--json", "-w", &file]);
    command.stdout(File::create(&json).unwrap());
    let mut child = Ended(command.spawn().unwrap());
    for _ in 0..3 {
        wait_for_more(&file);
    }
    interrupt(&child.0, "-INT");
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let json = summary(&std::fs::read(&json).unwrap());
    assert_eq!(json["law_holds"], true, "{json}");
    assert_eq!(json["unread"], 0, "{json}");
}

#[test]
fn a_terminal_that_is_read_again_shows_the_newest_line_and_all_of_the_end() {
    let folder = Folder::new();
    let file = folder.path("a.pcapng");
    let terminal = Terminal::new(80);
    terminal.stop();
    let mut command = terminal.command(env!("CARGO_BIN_EXE_forebay"));
    command.args(["capture", "-i", "sim", "-U", "-w", &file]);
    let mut child = Ended(command.spawn().unwrap());
    drop(command);
    for _ in 0..3 {
        wait_for_more(&file);
    }
    terminal.go_on();
    let shown = terminal.read();
    wait_for_more(&file);
    interrupt(&child.0, "-INT");
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let shown = shown.join().unwrap();
    let rows = rows(&shown, 80);
    let has = |part: &str| rows.iter().any(|row| row.contains(part));
    assert!(
        has("listening on sim") && has("packets captured"),
        "{shown}"
    );
    assert!(has("received =") && !has("written  lost"), "{shown}");
}

/// A pipe of one page. The caller keeps one end.
fn small_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    (reader, writer)
}

#[test]
fn unread_reports_are_dropped_and_counted() {
    let folder = Folder::new();
    let file = folder.path("a.pcapng");
    let (mut reader, writer) = small_pipe();
    let mut command = forebay(&["-i", "sim", "-U", "--json", "-w", &file]);
    command.args(["--stats-interval", "0.001"]);
    command.stdout(writer).stderr(Stdio::piped());
    let mut child = Ended(command.spawn().unwrap());
    drop(command);
    for _ in 0..40 {
        wait_for_more(&file);
    }
    let reading = std::thread::spawn(move || {
        let mut lines = String::new();
        reader.read_to_string(&mut lines).unwrap();
        lines
    });
    interrupt(&child.0, "-INT");
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let lines = reading.join().unwrap();
    for line in lines.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["schema"], 1);
    }
    let json = summary(lines.as_bytes());
    let unprinted = count(&json["reports_unprinted"]);
    assert!(unprinted > 0, "{json}");
    let mut log = String::new();
    let stderr = child.0.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut log).unwrap();
    assert!(
        log.contains(&format!("{unprinted} reports were not printed")),
        "{log}"
    );
}

#[test]
fn an_unread_summary_ends_with_an_error_and_does_not_hang() {
    let folder = Folder::new();
    let file = folder.path("a.pcapng");
    let (_unread, writer) = small_pipe();
    let mut command = forebay(&["-i", "sim", "-U", "--json", "-w", &file]);
    command.args(["--stats-interval", "0.001"]);
    command.stdout(writer).stderr(Stdio::piped());
    let mut child = Ended(command.spawn().unwrap());
    for _ in 0..20 {
        wait_for_more(&file);
    }
    interrupt(&child.0, "-INT");
    assert_eq!(child.0.wait().unwrap().code(), Some(1));
    let mut log = String::new();
    let stderr = child.0.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut log).unwrap();
    assert!(log.contains("nobody reads standard output"), "{log}");
    assert!(log.contains("received ="), "the rest is printed: {log}");
}

/// What `script` shows on a terminal of this width: as rows, and unchanged.
fn shown(columns: u16, script: &str) -> (Vec<String>, String) {
    let terminal = Terminal::new(columns);
    let script = script.replace("FOREBAY", env!("CARGO_BIN_EXE_forebay"));
    let mut child = Ended(terminal.shell(&script));
    let shown = terminal.read();
    assert!(child.0.wait().unwrap().success());
    let shown = shown.join().unwrap();
    (rows(&shown, columns.into()), shown)
}

#[test]
fn the_progress_line_fits_the_terminal() {
    for columns in [20, 40, 80, 132] {
        let script = "FOREBAY capture -i sim:rate=100M -a duration:1 -w /dev/null 2>&1";
        let (_, shown) = shown(columns, script);
        let drawn: Vec<_> = shown.split('\r').filter(|it| it.contains("lost")).collect();
        assert!(!drawn.is_empty(), "{shown}");
        for line in drawn {
            assert!(line.len() < columns.into(), "{columns}: {line}");
        }
    }
}

#[test]
fn what_a_reader_of_the_packets_prints_stays() {
    let script = "FOREBAY capture -i sim:rate=100M -a duration:1 -w - |
        { cat > /dev/null & for n in 1 2 3 4 5 6 7 8 9; do echo line $n; sleep 0.1; done; wait; }";
    let (rows, shown) = shown(80, script);
    for n in 1..=9 {
        assert!(rows.contains(&format!("line {n}")), "{n}: {shown}");
    }
    assert!(!shown.contains("lost 0"), "{shown}");
}

#[test]
fn a_job_in_the_background_draws_nothing_until_it_is_in_the_foreground() {
    let script = "set -m; FOREBAY capture -i sim:rate=100M -a duration:2 -w /dev/null &
        for n in 1 2 3 4 5; do echo line $n; sleep 0.1; done
        echo HERE; fg > /dev/null; wait";
    let (rows, shown) = shown(80, script);
    for n in 1..=5 {
        assert!(rows.contains(&format!("line {n}")), "{n}: {shown}");
    }
    let (background, foreground) = shown.split_once("HERE").unwrap();
    assert!(!background.contains("lost 0"), "{shown}");
    assert!(foreground.contains("lost 0"), "{shown}");
}

#[test]
fn rates_are_those_of_the_whole_interval() {
    let args = words("-i sim:clock=virtual,rate=16k,size=64 -a duration:4");
    let mut command = forebay(&args);
    command.args(["--json", "--stats-interval", "1"]);
    let output = command.output().unwrap();
    let lines = text(&output.stdout).lines();
    let objects = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let reports: Vec<_> = objects.filter(|it| it["running"] == true).collect();
    assert!(reports.len() >= 3, "{}", text(&output.stdout));
    let mut last = (0.0, 0);
    for report in reports {
        let (seconds, taken) = (report["seconds"].as_f64().unwrap(), count(&report["taken"]));
        let rate = (taken - last.1) as f64 / (seconds - last.0);
        let message = report["packets_per_second"].as_f64().unwrap();
        assert!((message - rate).abs() < 1e-6 * rate, "{message} of {rate}");
        last = (seconds, taken);
    }
}
