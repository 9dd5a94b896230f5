//! Requests to a running capture, and what the user gets for them.

use crate::operate::{Running, answer, ask, running, summary};
use crate::support::*;
use std::{
    fs,
    io::{Read, Write},
    os::unix::process::CommandExt,
    process::Stdio,
};

#[test]
fn status_has_every_count_and_stop_answers_with_the_final_ledger() {
    let (folder, file) = Folder::with("a.pcapng");
    let capture = running(&folder, &format!("-i sim:rate=10M -w {file} -U"));
    wait_until(|| count(&capture.status()["written"]) > 0);
    let status = capture.status();
    for key in "received taken written counted filtered unread dropped interface_dropped bytes \
        durable_bytes wire_bytes packets_per_second bits_per_second ring_fill ring_max_fill buffer_fill \
        buffer_max_fill pending_bytes high_water_bytes files_written files_removed newest_files sources poll \
        output pid started version recorder share metrics"
        .split_whitespace()
    {
        assert!(status.get(key).is_some(), "no {key} in {status}");
    }
    assert_eq!(status["running"], true);
    assert_eq!(status["output"], file);
    assert_eq!(status["pid"], capture.child.0.id());
    let text = capture.control("status");
    for part in [
        "running for 0:00:0",
        "sim (sim)",
        "packets/s",
        "\ndropped   0\n",
    ] {
        contains(text.text(), part);
    }
    let json = capture.stop();
    assert!(count(&json["received"]) >= count(&status["received"]));
    assert_eq!(json["received"], json["written"], "{json}");
    assert_eq!(
        found::open(&file).packets.len() as u64,
        count(&json["written"])
    );
}

#[test]
fn rotate_starts_the_next_file_and_flush_writes_what_waits() {
    let (folder, file) = Folder::with("a.pcapng");
    let words = format!("-i sim:rate=1M -w {file} -b duration:3600");
    let capture = running(&folder, &words);
    wait_until(|| count(&capture.status()["taken"]) > 0);
    capture.control("rotate").succeeds();
    wait_until(|| count(&capture.status()["files_written"]) == 1);
    wait_until(|| {
        !capture.status()["newest_files"]
            .as_array()
            .unwrap()
            .is_empty()
    });
    assert_eq!(capture.status()["file"], 2);
    // No packet waits for a full buffer.
    let taken = count(&capture.status()["taken"]);
    capture.control("flush").succeeds();
    wait_until(|| count(&capture.status()["written"]) >= taken);
    capture
        .control("trigger")
        .fails(1, "this capture has no recorder");
    run!("trigger {}", capture.socket).fails(1, "this capture has no recorder");
    let json = capture.stop();
    assert_eq!(json["files_written"], 2, "{json}");
}

#[test]
fn a_recorder_is_triggered_and_its_packets_are_counted() {
    let (folder, file) = Folder::with("rec.pcapng");
    let capture = running(
        &folder,
        &format!(
            "-i sim:rate=1M -w {file} --recorder 5s --metrics-file {}",
            folder.path("a.prom")
        ),
    );
    wait_until(|| count(&capture.status()["counted"]) > 0);
    assert_eq!(capture.status()["recorder"], true);
    run!("trigger {}", capture.socket).succeeds();
    let is_file = |name: &str| name.starts_with("rec_") && name.ends_with(".pcapng");
    let names = || {
        fs::read_dir(folder.path(""))
            .unwrap()
            .map(|it| it.unwrap().file_name())
    };
    wait_until(|| names().any(|name| is_file(&name.to_string_lossy())));
    contains(capture.control("status").text(), "counted");
    let json = capture.stop();
    let metrics = fs::read_to_string(folder.path("a.prom")).unwrap();
    contains(
        &metrics,
        format!(
            "forebay_packets_counted_total{{capture=\"lan\"}} {}\n",
            json["counted"]
        ),
    );
    lacks(&metrics, "forebay_packets_written_total");
}

#[test]
fn requests_that_cannot_be_carried_out_are_refused_and_change_nothing() {
    let folder = Folder::new();
    let capture = running(&folder, "-i sim:rate=1M --count");
    capture.control("rotate").fails(1, "no series of files");
    capture.control("flush").fails(1, "no output");
    capture.control("restart").fails(2, "restart");
    let mut stream = capture.connect();
    for line in [
        "{}\n",
        "{\"command\":7}\n",
        "[]\n",
        "null\n",
        "status\n",
        "{\n",
        "\u{1b}\n",
    ] {
        let answer = ask(&mut stream, line);
        assert_eq!(answer["ok"], false, "{line:?}: {answer}");
    }
    // Blank lines are skipped, and a line may have more keys.
    let answer = ask(&mut stream, "\n\r\n{\"command\":\"status\",\"id\":[1]}\n");
    assert_eq!(answer["ok"], true, "{answer}");
    drop(stream);
    capture.stop();
}

#[test]
fn a_shell_can_ask_without_the_client() {
    let folder = Folder::new();
    let capture = running(&folder, "-i sim:rate=1M --count");
    // Like `echo '{"command":"status"}' | nc -U PATH`: the writing side is closed, and there may be no newline.
    let mut stream = capture.connect();
    stream.write_all(b"{\"command\":\"status\"}").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(answer(&stream)["status"]["running"], true);
    let mut rest = Vec::new();
    assert_eq!(stream.read_to_end(&mut rest).unwrap(), 0);
    capture.stop();
}

#[test]
fn every_client_that_asks_for_a_stop_gets_the_summary() {
    let (folder, file) = Folder::with("a.pcapng");
    let mut capture = running(&folder, &format!("-i sim:rate=10M -w {file}"));
    let mut clients: Vec<_> = (0..5).map(|_| capture.connect()).collect();
    for client in &mut clients {
        client.write_all(b"{\"command\":\"stop\"}\n").unwrap();
    }
    let answers: Vec<_> = clients.iter().map(answer).collect();
    let json = capture.ended();
    for answer in answers {
        assert_eq!(answer["summary"], json);
    }
    assert_eq!(json["law_holds"], true);
    // Several requests are one: nothing was given up.
    assert_eq!(json["dropped"]["writer"], 0, "{json}");
}

#[test]
fn a_capture_that_fails_says_so_to_the_client_that_stops_it() {
    let folder = Folder::new();
    let (fifo, pipe) = (folder.path("fifo"), folder.path("out"));
    mkfifo(&fifo);
    // The reader leaves after the first bytes; an endless source would go on.
    let mut reader = shell(format!("head -c 100 {fifo} >{pipe}"))
        .spawn()
        .unwrap();
    let socket = folder.path("lan");
    let mut child = start!("capture -i sim:rate=1M --control {socket} -w {fifo} --json");
    reader.wait().unwrap();
    // A reader that left ends the capture normally.
    assert!(child.wait().unwrap().success());
    assert_eq!(summary(&mut child)["law_holds"], true);
    run!("control {socket} stop").fails(1, "no such capture");
}

#[test]
fn stop_has_the_exit_code_of_the_capture() {
    let (folder, file) = Folder::with("a.pcapng");
    // The program of -z fails.
    let words = format!("-i sim:rate=1M -w {file} -b duration:3600 -z false");
    let mut capture = running(&folder, &words);
    let stopped = capture.control("stop");
    stopped.fails(1, "the capture failed");
    assert_eq!(capture.child.0.wait().unwrap().code(), Some(1));
    // Packets were lost.
    let words = "-i sim:rate=20M,stall=100ms@200ms,ring=64,host=none --count --fail-on-drop";
    capture = running(&folder, words);
    wait_until(|| capture.status()["dropped"]["kernel"].as_u64() > Some(0));
    let stopped = capture.control("stop --json");
    assert_eq!(stopped.status.code(), Some(3));
    assert_eq!(stopped.json()["law_holds"], true);
    assert_eq!(capture.child.0.wait().unwrap().code(), Some(3));
}

#[test]
fn after_kill_9_the_name_can_be_used_again_and_a_live_name_cannot() {
    let folder = Folder::new();
    let mut capture = running(&folder, "-i sim:rate=1M --count");
    let socket = capture.socket.clone();
    run!("capture -i sim --count --control {socket}").fails(1, "another capture uses this name");
    assert_eq!(capture.status()["running"], true);
    capture.child.0.kill().unwrap();
    capture.child.0.wait().unwrap();
    run!("control {socket}").fails(1, "the capture with this name has ended");
    running(&folder, "-i sim:rate=1M --count").stop();
}

#[test]
fn a_name_without_a_path_is_in_the_runtime_folder() {
    let (_folder, runtime) = Folder::with("runtime");
    let named = |line: &str| in_runtime(&runtime, line);
    let mut command = named("capture -i sim:rate=1M --count --json --control eth0");
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = children::Mortal(command.spawn().unwrap());
    wait_until(|| named("control eth0").output().unwrap().status.success());
    assert!(fs::exists(format!("{runtime}/eth0")).unwrap());
    let status = named("control eth0 --json").output().unwrap().json();
    assert_eq!(status["capture"], "eth0");
    named("control eth0 stop").output().unwrap().succeeds();
    child.ends_well();
    named("control eth0")
        .output()
        .unwrap()
        .fails(1, "no such capture");
    named("control ..").output().unwrap().fails(2, "not a name");
}

#[test]
fn root_finds_a_service_by_name_and_runs_captures_beside_it() {
    let (folder, runtime) = Folder::with("forebay");
    let of_service = format!("{runtime}/eth0");
    fs::create_dir_all(&of_service).unwrap();
    // As systemd does: the folder of the instance belongs to the user of the service, and the one above to root.
    let user = 65_534;
    let is_root = std::os::unix::fs::chown(&of_service, Some(user), Some(user)).is_ok();
    let start = |command: &mut std::process::Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        children::Mortal(command.spawn().unwrap())
    };
    let mut service = in_runtime(&of_service, "capture -i sim:rate=1M --count --control eth0");
    if is_root {
        set_mode(folder.path(""), 0o755);
        service.uid(user).gid(user);
    }
    let mut service = start(&mut service);
    let mut own = start(&mut in_runtime(
        &runtime,
        "capture -i sim:rate=1M --count --control lan",
    ));
    for name in ["eth0", "lan"] {
        let ask = |words: &str| in_runtime(&runtime, &format!("control {name} {words}")).output();
        wait_until(|| ask("").unwrap().status.success());
        assert_eq!(ask("--json").unwrap().json()["capture"], name);
    }
    assert!(fs::exists(format!("{of_service}/eth0")).unwrap());
    // The name of a service is not free for another capture.
    in_runtime(&runtime, "capture -i sim --count -c 1 --control eth0")
        .output()
        .unwrap()
        .fails(1, "is no socket");
    for name in ["eth0", "lan"] {
        let stop = in_runtime(&runtime, &format!("control {name} stop")).output();
        stop.unwrap().succeeds();
    }
    service.ends_well();
    own.ends_well();
    let gone = in_runtime(&runtime, "control eth0").output().unwrap();
    gone.fails(1, "no such capture");
}

#[test]
fn another_user_cannot_connect() {
    let folder = Folder::new();
    let capture = running(&folder, "-i sim:rate=1M --count");
    let mut other = forebay!("control {}", capture.socket);
    match other.uid(65_534).gid(65_534).output() {
        Ok(output) => drop(output.fails(1, "ermission denied")),
        Err(error) => println!("skipped: this user cannot become another one: {error}"),
    }
    let _: Running = capture;
}

#[test]
fn without_a_name_the_running_captures_are_listed() {
    let runtime = Folder::new();
    set_mode(runtime.path(""), 0o755);
    let list = |words: &str| {
        let mut command = forebay!("control {words}");
        command.env("RUNTIME_DIRECTORY", runtime.path(""));
        command.output().unwrap()
    };
    contains(
        list("").succeeds().log(),
        "no capture listens in this user's folder",
    );
    let file = runtime.path("a.pcapng");
    let begin = |line: String| {
        let mut command = command(&line);
        Mortal(piped(command.env("RUNTIME_DIRECTORY", runtime.path(""))))
    };
    let mut one = begin(format!("capture -i sim:rate=1M -w {file} --control lan"));
    let mut two = begin("capture -i sim:rate=2M --count --control wan".into());
    let all = || {
        list("--json").succeeds().json()["captures"]
            .as_array()
            .unwrap()
            .clone()
    };
    wait_until(|| all().iter().filter(|it| it["running"] == true).count() == 2);
    let captures = all();
    let named: Vec<_> = captures
        .iter()
        .map(|it| (&it["name"], &it["pid"]))
        .collect();
    let expected = [("lan", one.0.id()), ("wan", two.0.id())];
    for ((name, pid), expected) in named.into_iter().zip(expected) {
        assert_eq!(
            (name.as_str(), count(pid)),
            (Some(expected.0), expected.1.into())
        );
    }
    let output = list("");
    let text = output.succeeds().text();
    for part in [
        "NAME  ",
        "SINCE",
        "lan ",
        "sim",
        &file,
        &one.0.id().to_string(),
    ] {
        contains(text, part);
    }
    for child in [&mut one, &mut two] {
        interrupt(&child.0, "-INT");
        child.ends_well();
    }
    // A process that is stopped accepts nothing, until the kernel holds no more connections for it.
    let listener = rustix::net::socket(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        None,
    );
    let (listener, path) = (listener.unwrap(), runtime.path("stuck"));
    rustix::net::bind(
        &listener,
        &rustix::net::SocketAddrUnix::new(&*path).unwrap(),
    )
    .unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _waiting = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let listed = list("");
    let row = listed.succeeds().text().lines().last().unwrap().to_owned();
    contains(&row, "stuck ");
    contains(&row, "does not answer");
    contains(
        list("--json").text(),
        "\"error\":\"the capture accepts no connection\"",
    );
}

#[test]
fn rotate_and_flush_print_what_they_did() {
    let folder = Folder::new();
    let file = folder.path("a.pcapng");
    let capture = running(
        &folder,
        &format!("-i sim:rate=1M -b packets:1000000 -w {file}"),
    );
    wait_until(|| count(&capture.status()["taken"]) > 100);
    let rotated = capture.control("rotate");
    contains(rotated.succeeds().text(), "a_00001_");
    contains(
        rotated.text(),
        "is complete (1 file so far), and the next file has begun",
    );
    let flushed = capture.control("flush");
    contains(flushed.succeeds().text(), "flushed: ");
    contains(flushed.text(), "are synced to the disk");
    capture.stop();
}

#[test]
fn a_request_that_its_sender_gave_up_is_not_carried_out() {
    let folder = Folder::new();
    let file = folder.path("a.pcapng");
    let capture = running(&folder, &format!("-i sim:rate=1M --recorder 1M -w {file}"));
    let mut stream = capture.connect();
    let late = ask(
        &mut stream,
        "{\"command\": \"trigger\", \"valid_until\": 1}\n",
    );
    assert_eq!(late["ok"], false, "{late}");
    contains(late["error"].as_str().unwrap(), "came too late");
    contains(capture.control("trigger").succeeds().text(), "triggered");
    drop(stream);
    let summary = capture.stop();
    assert_eq!(summary["recorder"]["files_written"], 1, "{summary}");
    assert_eq!(summary["recorder"]["files"][0]["triggers"], 1, "{summary}");
}
