//! Where `forebay get` writes: files, pipes, full disks; what it leaves when it fails, or is stopped.

use fetch::{command, fails, get, http, is_fine, with_length};
use server::{serve, serve_bytes};
use std::{
    fs::{self, File},
    io::Read,
    process::{Child, Stdio},
};
use support::{Folder, dice::noise, interrupt, text};

#[path = "support/fetch.rs"]
mod fetch;
#[path = "support/server.rs"]
mod server;
mod support;

#[test]
fn a_failure_of_the_server_is_one_of_ours_and_its_body_is_kept_apart() {
    let answer = "HTTP/1.1 404 Not \x1b[31mFound\r\nContent-Length: 5\r\n\r\nsorry";
    let plain = "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nsorry";
    fails(&get(&[&http(serve_bytes(answer), "/")]), 1, "malformed");
    let server = serve_bytes(plain);
    let folder = Folder::new();
    let path = folder.path("file");
    let ran = get(&["-o", &path, &http(server, "/")]);
    fails(&ran, 1, "/: 404 Not Found\n");
    assert!(fs::exists(&path).is_ok_and(|there| !there));
    for (flag, written) in [
        ("-i", ""),
        ("--content-on-error", "sorry"),
        ("--raw", plain),
    ] {
        let ran = get(&[flag, &http(server, "/")]);
        fails(&ran, 1, "404 Not Found");
        assert_eq!(text(&ran.stdout), written);
    }
}

#[test]
fn a_file_appears_when_it_is_complete() {
    let folder = Folder::new();
    let (path, part) = (folder.path("file"), folder.path("file.part"));
    fs::write(&path, "old").unwrap();
    let cut = serve_bytes("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
    let ran = get(&["-o", &path, &http(cut, "/")]);
    fails(&ran, 1, "file.part holds what was written");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read(&part).unwrap(), b"hello");
    let whole = serve_bytes(with_length(b"new"));
    is_fine(&get(&["-o", &path, &http(whole, "/")]), b"");
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert!(fs::exists(&part).is_ok_and(|there| !there));
    let empty = serve_bytes(with_length(b""));
    is_fine(&get(&["-o", &path, &http(empty, "/")]), b"");
    assert_eq!(fs::read(&path).unwrap(), b"");
    let nowhere = folder.path("no/file");
    fails(
        &get(&["-o", &nowhere, &http(whole, "/")]),
        1,
        "no/file.part: opening it to write",
    );
}

#[test]
fn a_full_disk_is_an_error_that_counts() {
    let server = serve_bytes(with_length(&noise(3_000_000)));
    let says = "no space left on device (os error 28). 0 bytes of 3000000 were written";
    fails(&get(&["-o", "/dev/full", &http(server, "/")]), 1, says);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ran = command(&[&http(server, "/")])
        .stdout(full)
        .output()
        .unwrap();
    fails(&ran, 1, says);
}

#[test]
fn a_reader_that_goes_away_has_read_what_it_wanted() {
    let server = serve_bytes(with_length(&noise(20_000_000)));
    let mut child = command(&[&http(server, "/")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut begin = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut begin).unwrap();
    let ran = child.wait_with_output().unwrap();
    assert_eq!((ran.status.code(), text(&ran.stderr)), (Some(0), ""));
    assert_eq!(begin.as_slice(), noise(10));
}

/// Reads the first bytes of its output: once these are here, it listens to signals.
fn begins(child: &mut Child) {
    let stdout = child.stdout.as_mut().unwrap();
    stdout.read_exact(&mut [0; 5]).unwrap();
}

#[test]
fn a_signal_ends_it_and_the_bytes_are_counted() {
    let server = serve(|client| {
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
        client.wait();
    });
    for name in ["-INT", "-TERM"] {
        let mut child = command(&[&http(server, "/")])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        begins(&mut child);
        interrupt(&child, name);
        let ran = child.wait_with_output().unwrap();
        fails(&ran, 1, "was stopped. 5 bytes of 9 were written");
    }
}

#[test]
fn a_second_signal_ends_it_though_nobody_reads() {
    let server = serve_bytes(with_length(&noise(20_000_000)));
    let mut child = command(&[&http(server, "/")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    begins(&mut child);
    interrupt(&child, "-INT");
    interrupt(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
