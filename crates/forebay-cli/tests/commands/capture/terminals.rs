//! Terminals and pipes that are not read, and terminals that other programs print on.

use crate::support::{
    terminal::{Terminal, rows},
    *,
};
use std::{
    fs::File,
    io::{PipeReader, PipeWriter},
    process::Stdio,
};

/// Waits until the file at `path` has grown by this many megabytes.
fn wait_for_more(path: &str, megabytes: u64) {
    let before = file_len(path);
    wait_until(|| file_len(path) >= before + megabytes * 1_000_000);
}

#[test]
fn an_unread_terminal_stops_neither_a_capture_nor_its_end() {
    let folder = Folder::new();
    let (file, json) = (folder.path("a.pcapng"), folder.path("json"));
    let terminal = Terminal::new(80);
    terminal.stop();
    let mut command = terminal.command(FOREBAY);
    command.args(["capture", "-i", "sim", "-U", "--json", "-w", &file]);
    command.stdout(File::create(&json).unwrap());
    let mut child = Mortal(command.spawn().unwrap());
    wait_for_more(&file, 3);
    interrupt(&child.0, "-INT");
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let json = object(&std::fs::read_to_string(&json).unwrap());
    assert_eq!(json["law_holds"], true, "{json}");
    assert_eq!(json["unread"], 0, "{json}");
}

#[test]
fn a_terminal_that_is_read_again_shows_the_newest_line_and_all_of_the_end() {
    let (_folder, file) = Folder::with("a.pcapng");
    let terminal = Terminal::new(80);
    terminal.stop();
    let mut command = terminal.command(FOREBAY);
    command.args(["capture", "-i", "sim", "-U", "-w", &file]);
    let mut child = Mortal(command.spawn().unwrap());
    drop(command);
    wait_for_more(&file, 3);
    terminal.go_on();
    let shown = terminal.read();
    wait_for_more(&file, 1);
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
fn small_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    (reader, writer)
}

/// A capture into `file` that reports every millisecond.
fn reporting(file: &str, reports: PipeWriter) -> Mortal {
    let mut command = forebay!("capture -i sim -U --json -w {file} --stats-interval 0.001");
    Mortal(
        command
            .stdout(reports)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    )
}

#[test]
fn unread_reports_are_dropped_and_counted() {
    let (_folder, file) = Folder::with("a.pcapng");
    let (reader, writer) = small_pipe();
    let mut child = reporting(&file, writer);
    wait_for_more(&file, 40);
    let reading = std::thread::spawn(move || std::io::read_to_string(reader).unwrap());
    interrupt(&child.0, "-INT");
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let lines = reading.join().unwrap();
    let mut json = serde_json::Value::Null;
    for line in lines.lines() {
        json = object(line);
        assert_eq!(json["schema"], 1);
    }
    let unprinted = count(&json["reports_unprinted"]);
    assert!(unprinted > 0, "{json}");
    let log = std::io::read_to_string(child.0.stderr.as_mut().unwrap()).unwrap();
    contains(log, format!("{unprinted} reports were not printed"));
}

#[test]
fn an_unread_summary_ends_with_an_error_and_does_not_hang() {
    let (_folder, file) = Folder::with("a.pcapng");
    let (_unread, writer) = small_pipe();
    let mut child = reporting(&file, writer);
    wait_for_more(&file, 20);
    interrupt(&child.0, "-INT");
    assert_eq!(child.0.wait().unwrap().code(), Some(1));
    let log = std::io::read_to_string(child.0.stderr.as_mut().unwrap()).unwrap();
    contains(&log, "nobody reads standard output");
    contains(log, "received ="); // the rest is printed
}

/// What `script` shows on a terminal of this width: as rows, and unchanged.
fn shown(columns: u16, script: &str) -> (Vec<String>, String) {
    let terminal = Terminal::new(columns);
    let script = script.replace("FOREBAY", FOREBAY);
    let mut child = Mortal(terminal.shell(&script));
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
            // The terminal shows ^C after it.
            assert!(line.len() + 2 < columns.into(), "{columns}: {line}");
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
    lacks(shown, "lost 0");
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
    let port = "sim:clock=virtual,rate=16kbit,size=64";
    let output = run!("capture -i {port} -a duration:4 --count --json --stats-interval 1");
    let mut reports = output.objects();
    reports.retain(|it| it["running"] == true);
    assert!(reports.len() >= 3, "{}", output.text());
    let mut last = (0.0, 0);
    for report in reports {
        let (seconds, taken) = (report["seconds"].as_f64().unwrap(), count(&report["taken"]));
        let rate = (taken - last.1) as f64 / (seconds - last.0);
        let message = report["packets_per_second"].as_f64().unwrap();
        assert!((message - rate).abs() < 1e-6 * rate, "{message} of {rate}");
        last = (seconds, taken);
    }
}

/// A port that loses packets.
const LOSSY: &str = "sim:clock=virtual,ring=64,host=none,cost=1us,count=20000";

#[test]
fn lines_for_people_fit_80_columns_and_details_need_v() {
    let (_folder, path) = Folder::with("a.pcapng");
    for (flags, has, lacking) in [
        ("", "received = ", "asleep "),
        ("-v", "processor time a packet, asleep ", "busy"),
        (
            "-b packets:5000 -b files:2",
            "removed for newer ones",
            "1 files",
        ),
    ] {
        let output = run!("capture -i {LOSSY} -w {path} {flags}");
        let is_long = |line: &&str| line.chars().count() > 80;
        assert_eq!(output.log().lines().find(is_long), None);
        contains(output.log(), has);
        lacks(output.log(), lacking);
    }
}

#[test]
fn quiet_prints_nothing_but_errors_and_losses() {
    let (_folder, path) = Folder::with("a.pcapng");
    let quiet = |port: &str| run!("capture -i {port} -c 20k -w {path} -q");
    assert_eq!(quiet("sim:clock=virtual").log(), "");
    let output = quiet(LOSSY);
    for part in [
        "packets were lost",
        "packets dropped by kernel",
        "received =",
    ] {
        contains(output.log(), part);
    }
    lacks(output.log(), "listening");
    lacks(output.log(), "captured");
}

#[test]
fn a_reader_that_leaves_did_not_read_the_rest() {
    let script = "forebay capture -i sim:rate=max -w - --store 2x1M | head -c 1000000 >/dev/null";
    let output = shell(script).output().unwrap();
    contains(output.log(), "not read by the reader");
    contains(output.log(), "the reader of the output has left");
}

#[test]
fn a_reader_that_leaves_ends_a_capture_of_which_nothing_is_written() {
    let folder = Folder::new();
    // The card sends UDP: no packet matches.
    let quiet = "forebay capture -i sim:rate=1000pps";
    for (script, writes) in [
        (format!("{quiet} -w - tcp | head -c 8 >/dev/null"), true),
        (
            format!("mkfifo f; head -c 8 f >/dev/null & {quiet} -w f tcp"),
            true,
        ),
        (format!("{quiet} tcp | true"), false),
        (format!("{quiet} --json-lines tcp | true"), false),
    ] {
        let limited = script.replace("forebay", "timeout 60 forebay");
        let output = shell(&limited)
            .current_dir(folder.path(""))
            .output()
            .unwrap();
        let is_noted = output.log().contains("the reader of the output has left");
        assert_eq!(is_noted, writes, "{script}: {}", output.log());
    }
}

#[test]
fn reading_shows_percent_and_the_time_left() {
    let (_folder, path) = Folder::with("big.pcapng");
    run!("capture -i sim:clock=virtual -c 400k -q -w {path}").succeeds();
    for (columns, command) in [
        (40, "capture -r BIG -w /dev/null"),
        (80, "capture -r BIG -w /dev/null not port 99"),
        (40, "info BIG"),
        (80, "repair -n BIG"),
    ] {
        let script = format!("FOREBAY {}", command.replace("BIG", &path));
        let (_, shown) = shown(columns, &script);
        let mut drawn = shown.split(['\r', '\n']).filter(|it| it.contains("ETA "));
        // A fast machine may be done before anything is shown.
        let fits = |line: &str| line.contains(" %") && line.trim_end().len() < columns.into();
        assert!(drawn.all(fits), "{command}: {shown}");
    }
}

#[test]
fn messages_and_errors_are_wrapped_at_the_width_of_the_terminal() {
    for line in [
        "capture -i sim:count=9,rate=max -w /dev/null --no-such-flag",
        "capture --nano -i sim:count=9",
        "capture -i eht0 -c 1",
        "capture -r /nonexistent -w /dev/null",
        "replay -R -i lo",
    ] {
        let piped = run!("{line}");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (columns, least) in [(40, 30), (200, 81)] {
            let terminal = Terminal::new(columns);
            let mut command = terminal.command(FOREBAY);
            command.args(line.split(' '));
            let mut child = command.spawn().unwrap();
            drop(command);
            let shown = terminal.read().join().unwrap();
            child.wait().unwrap();
            assert_eq!(words(&shown), words(piped.log()), "{line}");
            let widest = shown.lines().map(|row| row.chars().count()).max();
            let widest = widest.unwrap_or(0);
            assert!(widest <= usize::from(columns), "{line}: {shown}");
            let is_long = piped.log().lines().any(|row| row.len() > 81);
            assert!(widest >= least || !is_long, "{line}: {shown}");
        }
    }
}
