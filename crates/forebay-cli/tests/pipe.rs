//! `forebay pipe` as its users run it: real processes, files, pipes, connections and signals.

use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread::JoinHandle,
    time::Duration,
};
use support::{Folder, has, interrupt, subcommand, text};

mod support;

fn pipe(args: &[&str]) -> Command {
    subcommand("pipe", args)
}

/// Running, with all three in pipes.
fn started(args: &[&str]) -> Child {
    let mut command = pipe(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// Bytes that are the same in every run and in no two places.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes to its standard input from a thread of its own, until nobody reads any more.
fn feed(child: &mut Child, bytes: Vec<u8>) -> JoinHandle<()> {
    let mut stdin = child.stdin.take().unwrap();
    std::thread::spawn(move || {
        let _ = stdin.write_all(&bytes);
    })
}

/// Runs with `bytes` as standard input.
fn run_with(args: &[&str], bytes: Vec<u8>) -> Output {
    let mut child = started(args);
    let feeding = feed(&mut child, bytes);
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    output
}

/// It went well, and said nothing.
fn is_silent(output: &Output) {
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn what_goes_in_comes_out_whatever_its_size_and_the_buffers() {
    for len in [0, 1, 4095, 65_537, 3_000_001] {
        for memory in ["1", "5000", "1M", "64M"] {
            if memory == "1" && len > 70_000 {
                continue; // a system call a byte
            }
            let output = run_with(&["-m", memory], noise(len));
            is_silent(&output);
            assert!(output.stdout == noise(len), "{len} through {memory}");
        }
    }
}

#[test]
fn many_megabytes_come_out_as_they_went_in() {
    let mut child = started(&["--hash", "sha256"]);
    let mut stdin = child.stdin.take().unwrap();
    let piece = noise(1 << 20);
    let feeding = std::thread::spawn({
        let piece = piece.clone();
        move || (0..48).for_each(|_| stdin.write_all(&piece).unwrap())
    });
    let (mut hasher, mut bytes) = (Sha256::new(), vec![0; 1 << 16]);
    let mut stdout = child.stdout.take().unwrap();
    loop {
        match stdout.read(&mut bytes).unwrap() {
            0 => break,
            n => hasher.update(&bytes[..n]),
        }
    }
    feeding.join().unwrap();
    let said = child.wait_with_output().unwrap();
    assert!(said.status.success());
    let digest: String = hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(text(&said.stderr), format!("sha256: {digest}\n"));
    let mut expected = Sha256::new();
    (0..48).for_each(|_| expected.update(&piece));
    let expected: String = expected
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(digest, expected);
}

#[test]
fn files_are_read_in_turn_and_every_output_gets_all() {
    let folder = Folder::new();
    let [a, b, x, y] = ["a", "b", "x", "y"].map(|name| folder.path(name));
    fs::write(&a, noise(100_000)).unwrap();
    fs::write(&b, "tail").unwrap();
    let output = run_with(
        &["-i", &a, "-i", "-", &b, "-o", &x, "-o", "-", "-o", &y],
        b"middle".into(),
    );
    is_silent(&output);
    let all = [&noise(100_000)[..], b"middle", b"tail"].concat();
    assert!(output.stdout == all && fs::read(x).unwrap() == all && fs::read(y).unwrap() == all);
}

#[test]
fn a_file_with_content_is_only_touched_when_that_was_said() {
    let folder = Folder::new();
    let file = folder.path("kept");
    fs::write(&file, "old ").unwrap();
    let output = run_with(&["-o", &file], b"new".into());
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("it is there already. Choose another name, --truncate or --append"),
        "{said}"
    );
    assert_eq!(fs::read(&file).unwrap(), b"old ");
    is_silent(&run_with(
        &["-o", &file, "--append", "--sync"],
        b"new".into(),
    ));
    assert_eq!(fs::read(&file).unwrap(), b"old new");
    is_silent(&run_with(&["-o", &file, "--truncate"], b"new".into()));
    assert_eq!(fs::read(&file).unwrap(), b"new");
    File::create(&file).unwrap();
    is_silent(&run_with(
        &["-o", &file],
        b"empty is as good as none".into(),
    ));
}

#[test]
fn a_file_is_not_written_while_it_is_read() {
    let folder = Folder::new();
    let file = folder.path("both");
    fs::write(&file, "precious").unwrap();
    for flag in ["--append", "--truncate"] {
        let output = pipe(&[&file, "-o", &file, flag]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("this is an input, too"));
    }
    let both = File::options().append(true).open(&file).unwrap();
    let output = pipe(&[&file]).stdout(both).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

#[test]
fn connections_carry_every_byte_both_ways() {
    let sent = noise(2_000_000);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (address, output) = (format!("tcp:127.0.0.1:{port}"), format!("127.0.0.1:{port}"));
    for args in [["-o", &address], ["-O", &output]] {
        let mut child = started(&args);
        let feeding = feed(&mut child, sent.clone());
        let mut received = Vec::new();
        listener
            .accept()
            .unwrap()
            .0
            .read_to_end(&mut received)
            .unwrap();
        assert!(received == sent);
        feeding.join().unwrap();
        is_silent(&child.wait_with_output().unwrap());
    }
    let serving = std::thread::spawn({
        let sent = sent.clone();
        move || listener.accept().unwrap().0.write_all(&sent).unwrap()
    });
    let output = run_with(&["-i", &address], Vec::new());
    is_silent(&output);
    assert!(output.stdout == sent);
    serving.join().unwrap();
}

/// The port that it says it listens on.
fn port_of(lines: &mut impl Iterator<Item = String>) -> u16 {
    let line = lines.next().unwrap();
    let (said, port) = line.rsplit_once(':').unwrap();
    assert!(
        said.starts_with("forebay: waiting for a connection to "),
        "{line}"
    );
    port.parse().unwrap()
}

#[test]
fn whoever_connects_is_read_and_written() {
    use std::io::{BufRead, BufReader};
    let sent = noise(300_000);
    for input in [["-i", "tcp-listen:127.0.0.1:0"], ["-I", "127.0.0.1:0"]] {
        let args = [&input[..], &["-o", "tcp-listen:127.0.0.1:0", "-f"]].concat();
        let mut child = started(&args);
        let mut lines = BufReader::new(child.stderr.take().unwrap())
            .lines()
            .map(Result::unwrap);
        let mut source = TcpStream::connect(("127.0.0.1", port_of(&mut lines))).unwrap();
        let mut target = TcpStream::connect(("127.0.0.1", port_of(&mut lines))).unwrap();
        let sending = std::thread::spawn({
            let sent = sent.clone();
            move || source.write_all(&sent).unwrap()
        });
        let mut received = Vec::new();
        target.read_to_end(&mut received).unwrap();
        assert!(received == sent);
        sending.join().unwrap();
        let last = lines.last().unwrap();
        assert!(
            last.starts_with("summary: 293 KiByte (300000 bytes) in "),
            "{last}"
        );
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_connection_that_breaks_is_an_error_and_a_closed_pipe_is_none() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    let mut child = started(&["-o", &address]);
    drop(listener.accept().unwrap());
    let feeding = feed(&mut child, noise(8 << 20));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains(&format!("forebay: error: {address}: writing: ")),
        "{said}"
    );

    let mut child = started(&[]);
    let mut first = [0; 10];
    let feeding = feed(&mut child, noise(8 << 20));
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    is_silent(&child.wait_with_output().unwrap());
    feeding.join().unwrap();
}

#[test]
fn a_reader_that_leaves_is_noticed_while_nothing_comes() {
    let mut child = started(&[]);
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_full_device_is_told_with_what_was_written_and_the_others_go_on() {
    let output = run_with(&["-o", "/dev/full"], noise(5000));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "forebay: error: /dev/full: writing: no space left on device (os error 28). 0 bytes were written before\n"
    );
    let output = run_with(&["-o", "/dev/full", "-o", "-"], noise(3_000_000));
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout == noise(3_000_000));
}

#[test]
fn a_full_disk_keeps_what_fits_and_says_how_much_that_is() {
    let folder = Folder::new();
    let mount = folder.path("small");
    fs::create_dir(&mount).unwrap();
    let kept = folder.path("kept");
    // A mount namespace of its own, which goes away with the process.
    let script = format!(
        "mount -t tmpfs -o size=1M none {mount} || exit 77
         {} pipe -o {mount}/full; code=$?
         cp {mount}/full {kept}; exit $code",
        env!("CARGO_BIN_EXE_forebay"),
    );
    let child = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        assert!(std::env::var_os("CI").is_none(), "CI has unshare");
        return eprintln!("skipped: needs unshare");
    };
    let feeding = feed(&mut child, noise(3_000_000));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    let said = text(&output.stderr);
    if output.status.code() == Some(77) || said.contains("unshare") {
        assert!(std::env::var_os("CI").is_none(), "CI is root");
        return eprintln!("skipped: needs the right to mount a tmpfs");
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    let there = fs::read(&kept).unwrap();
    assert!(!there.is_empty() && there == noise(3_000_000)[..there.len()]);
    let expected = format!(
        "writing: no space left on device (os error 28). {} bytes were written before",
        there.len()
    );
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn the_file_size_limit_is_an_error_like_a_full_disk() {
    let folder = Folder::new();
    let file = folder.path("limited");
    let under_limit = |memory: &str| {
        let script = format!(
            "ulimit -f 200; head -c 1000000 /dev/zero | {} pipe -m {memory} -o {file}",
            env!("CARGO_BIN_EXE_forebay")
        );
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        output
    };
    // To the kernel, the buffer is a file.
    let output = under_limit("64M");
    let said = text(&output.stderr);
    assert!(said.contains("raise `ulimit -f`"), "{said}");
    let output = under_limit("64k");
    let written = fs::metadata(&file).unwrap().len();
    let said = text(&output.stderr);
    assert!(
        said.contains(&format!(
            "file too large (os error 27). {written} bytes were written before"
        )),
        "{said}"
    );
}

#[test]
fn each_wrong_request_gets_its_own_clear_answer_and_touches_nothing() {
    let folder = Folder::new();
    let untouched = folder.path("untouched");
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["/nonexistent/file"],
            1,
            "/nonexistent/file: opening it: no such file",
        ),
        (&["/"], 1, "Name a file in it"),
        (
            &["-r", "10M"],
            2,
            "mbuffer's -p is --start-reading, its -r is --read-rate",
        ),
        (&["-m", "0"], 2, "-m 0 is no size"),
        (&["-m", "much"], 2, "-m much is no size"),
        (&["-m", "900T"], 1, "what is available"),
        (&["-m", "101%"], 2, "-m 101 is no percentage"),
        (&["-m", "0%"], 2, "-m 0% is no size"),
        (
            &["-m", "1M", "--block-size", "2M"],
            2,
            "the block does not fit",
        ),
        (&["-P", "101"], 2, "-P 101 is no percentage"),
        (&["--start-reading", "x"], 2, "--start-reading x"),
        (&["-R", "fast"], 2, "-R fast is no size"),
        (&["-L", "0"], 2, "-R 0 is no size"),
        (&["--read-rate", "0"], 2, "--read-rate"),
        (&["-s", "x"], 2, "-s x is no size"),
        (&["-i", "0"], 2, "-i 0 is no time"),
        (&["--interval", "x"], 2, "--interval x is no time"),
        (&["--watchdog", "0"], 2, "--watchdog 0 is no time"),
        (&["--hash", "md4"], 2, "Use sha256 or crc32"),
        (&["-i", "-", "-i", "-"], 2, "only once"),
        (&["-o", "-", "-o", "-"], 2, "only once"),
        (&["-i", "tcp:nowhere"], 2, "tcp:HOST:PORT"),
        (&["-O", "9000"], 2, "tcp:HOST:PORT"),
        (&["-I", "x:y"], 2, "-I x:y is no port"),
        (
            &["-i", "tcp-listen:256.0.0.1:9"],
            1,
            "tcp-listen:256.0.0.1:9: listening",
        ),
        (
            &["-o", "tcp:127.0.0.1:1"],
            1,
            "Does the other end listen already?",
        ),
        (&["-o", "/nonexistent/file"], 1, "Make the folder first"),
        (&["--truncate", "--append"], 2, "--append"),
        (&["--speed", "9"], 2, "--speed"),
    ];
    for (args, code, expected) in cases {
        // The wrong part comes first: what is behind it has not been opened by then.
        let with_output = [args, &["-o", &untouched][..]].concat();
        let output = pipe(&with_output).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(output.stdout.is_empty());
        let has_content = fs::metadata(&untouched).is_ok_and(|meta| meta.len() > 0);
        assert!(!has_content, "{args:?}");
    }
}

#[test]
fn a_first_signal_writes_what_was_read_and_the_counts_come_when_asked_for() {
    use std::io::{BufRead, BufReader};
    for signal in ["-INT", "-TERM", "-HUP"] {
        let mut child = started(&["--hash", "crc32"]);
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"all that came").unwrap();
        let mut received = [0; 13];
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut received).unwrap();
        interrupt(&child, "-USR1");
        let mut lines = BufReader::new(child.stderr.take().unwrap())
            .lines()
            .map(Result::unwrap);
        let counts = lines.next().unwrap();
        assert!(
            counts.starts_with("forebay: 13 bytes read, 13 written, 0:00:0"),
            "{counts}"
        );
        interrupt(&child, signal);
        assert_eq!(stdout.read(&mut [0]).unwrap(), 0, "its end");
        assert!(lines.next().unwrap().starts_with("crc32: "));
        assert!(child.wait().unwrap().success());
        drop(stdin); // it was open all the time
    }
}

/// Waits until the thread of that name has ended, for at most 20 seconds.
fn wait_for_the_end_of(thread: &str, child: &Child) {
    let is_there = || {
        let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
        let mut names =
            threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("comm")));
        names.any(|name| name.is_ok_and(|name| name.trim() == thread))
    };
    for _ in 0..20_000 {
        if !is_there() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{thread} does not end");
}

#[test]
fn a_second_signal_gives_up_a_reader_that_stands_still() {
    let mut child = started(&["-m", "4M"]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&noise(4 << 20)).unwrap();
    interrupt(&child, "-INT");
    wait_for_the_end_of("filling", &child); // the first one ends the reading
    let is_waiting = child.try_wait().unwrap().is_none();
    assert!(is_waiting, "for the reader");
    interrupt(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let mut received = Vec::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut received)
        .unwrap();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(noise(4 << 20).starts_with(&received));
    assert!(
        said.starts_with("forebay: gave up: ") && said.contains("were read and not written"),
        "{said}"
    );
}

#[test]
fn a_killed_neighbour_costs_no_byte_of_what_got_through() {
    let sent = noise(64 << 20);
    // The producer is killed in the middle: what it wrote arrives.
    for _ in 0..5 {
        let mut source = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = Stdio::from(source.stdout.take().unwrap());
        let mut child = pipe(&[])
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let feeding = feed(&mut source, sent.clone());
        let mut stdout = child.stdout.take().unwrap();
        let mut received = vec![0; 1 << 20];
        stdout.read_exact(&mut received).unwrap();
        source.kill().unwrap();
        source.wait().unwrap();
        stdout.read_to_end(&mut received).unwrap();
        assert!(sent.starts_with(&received));
        is_silent(&child.wait_with_output().unwrap());
        feeding.join().unwrap();
    }
    // The consumer is killed in the middle: that is the end, and a success.
    for _ in 0..5 {
        let mut child = started(&[]);
        let output = Stdio::from(child.stdout.take().unwrap());
        let mut sink = Command::new("cat")
            .stdin(output)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let feeding = feed(&mut child, sent.clone());
        sink.stdout
            .take()
            .unwrap()
            .read_exact(&mut vec![0; 1 << 20])
            .unwrap();
        sink.kill().unwrap();
        sink.wait().unwrap();
        is_silent(&child.wait_with_output().unwrap());
        feeding.join().unwrap();
    }
}

#[test]
fn a_limited_rate_loses_nothing() {
    for args in [["-R", "4M"], ["-L", "4M"], ["--read-rate", "4M"]] {
        let output = run_with(&args, noise(1_000_000));
        is_silent(&output);
        assert!(output.stdout == noise(1_000_000));
    }
}

#[test]
fn blocks_are_written_whole_but_for_the_last() {
    if !has("strace") {
        return;
    }
    let folder = Folder::new();
    let (log, file) = (folder.path("log"), folder.path("file"));
    let mut child = Command::new("strace")
        .args(["-f", "-e", "trace=write", "-P", &file, "-o", &log])
        .args([
            env!("CARGO_BIN_EXE_forebay"),
            "pipe",
            "--block-size",
            "10k",
            "-o",
            &file,
        ])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    feed(&mut child, noise(100_001)).join().unwrap();
    assert!(child.wait().unwrap().success());
    assert!(fs::read(&file).unwrap() == noise(100_001));
    let log = fs::read_to_string(&log).unwrap();
    let sizes = log.lines().filter(|line| line.contains("write("));
    let sizes: Vec<_> = sizes
        .map(|line| line.rsplit_once("= ").unwrap().1)
        .collect();
    assert_eq!(sizes, [&["10240"; 9][..], &["7841"]].concat());
}

#[test]
fn a_terminal_shows_a_line_and_a_summary_and_nothing_else_does() {
    if !has("script") {
        return;
    }
    let folder = Folder::new();
    let file = folder.path("file");
    fs::write(&file, noise(1_000_000)).unwrap();
    let shown = |flags: &str| {
        let command = format!(
            "{} pipe {flags} {file} -o /dev/null",
            env!("CARGO_BIN_EXE_forebay")
        );
        let output = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .stdin(Stdio::null())
            .output();
        let output = output.unwrap();
        assert!(output.status.success());
        text(&output.stdout).to_owned()
    };
    let all = shown("");
    for part in [
        " 977 KiB 0:00:00 [",
        "buffer   0 %",
        "=] 100 %",
        "summary: 977 KiByte (1000000 bytes) in 0.",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    let named = shown("-N tape -b -s 2000000");
    assert!(named.contains("\rtape:  977 KiB\r\n"), "{named:?}");
    assert_eq!(shown("-q"), "");
    assert_eq!(shown("-n"), "100\r\n");
    assert_eq!(shown("-nb -s 5M"), "1000000\r\n");

    is_silent(
        &pipe(&[&file, "-o", "/dev/null", "-pterb", "-N", "x"])
            .output()
            .unwrap(),
    );
    let forced = pipe(&[&file, "-o", "/dev/null", "-fp"]).output().unwrap();
    let forced = text(&forced.stderr);
    assert!(
        forced.starts_with("\r [=") && forced.contains("=] 100 %\nsummary: "),
        "{forced:?}"
    );
    let numbers = pipe(&[&file, "-o", "/dev/null", "-n", "-s", "4000000"])
        .output()
        .unwrap();
    assert_eq!(text(&numbers.stderr), "25\n");
}

#[test]
fn the_watchdog_gives_up_what_stands_still() {
    let mut child = started(&["--watchdog", "0.1"]);
    let stdin = child.stdin.take().unwrap();
    let status = child.wait().unwrap();
    drop(stdin); // it was open all the time
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(
        said.contains("no byte has moved for as long as --watchdog allows"),
        "{said}"
    );
}

#[test]
fn a_stderr_that_nobody_can_read_stops_nothing() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut child = pipe(&["-f"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(full)
        .spawn()
        .unwrap();
    let feeding = feed(&mut child, noise(100_000));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    assert!(output.status.success() && output.stdout == noise(100_000));
}

#[test]
fn a_slow_reader_does_not_hold_the_producer_up_where_the_buffer_suffices() {
    let mut child = started(&["-m", "16M"]);
    let mut stdin = child.stdin.take().unwrap();
    let (tell, told) = mpsc::channel();
    let producing = std::thread::spawn(move || {
        stdin.write_all(&noise(16 << 20)).unwrap();
        drop(stdin);
        tell.send(()).unwrap();
    });
    // Nobody has read a byte, and all of them are taken.
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    producing.join().unwrap();
    let output = child.wait_with_output().unwrap();
    is_silent(&output);
    assert_eq!(sha256(&output.stdout), sha256(&noise(16 << 20)));
}
