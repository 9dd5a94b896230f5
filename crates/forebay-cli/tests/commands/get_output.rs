//! Where `forebay get` writes: files, pipes, full disks; what it leaves when it fails, or is stopped.

use crate::server::{is_fine, serve, serve_and_wait, serve_bytes, with_length};
use crate::support::*;
use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::{PermissionsExt, symlink},
    process::Child,
    sync::{Mutex, mpsc},
};

#[test]
fn a_failure_of_the_server_is_one_of_ours_and_its_body_is_kept_apart() {
    let answer = "HTTP/1.1 404 Not \x1b[31mFound\r\nContent-Length: 5\r\n\r\nsorry";
    let plain = "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nsorry";
    run!("get http://{}/", serve_bytes(answer)).fails(1, "malformed");
    let server = serve_bytes(plain);
    let (folder, path) = Folder::with("file");
    run!("get -o {path} http://{server}/").fails(1, "/: 404 Not Found\n");
    assert!(folder.names().is_empty());
    for (flag, written) in [
        ("-i", ""),
        ("--content-on-error", "sorry"),
        ("--raw", plain),
    ] {
        let ran = run!("get {flag} http://{server}/");
        ran.fails(1, "404 Not Found");
        assert_eq!(ran.text(), written);
    }
}

#[test]
fn a_file_appears_when_it_is_complete_and_nothing_else_is_left() {
    let folder = Folder::new();
    let path = folder.file("file", "old");
    let cut = serve_bytes("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
    let removed =
        format!("5 bytes of 9 were written, and removed again: {path} is as it was before");
    run!("get -o {path} http://{cut}/").fails(1, &removed);
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(folder.names(), ["file"]);
    let whole = serve_bytes(with_length(b"new"));
    is_fine(&run!("get -o {path} http://{whole}/"), b"");
    assert_eq!(fs::read(&path).unwrap(), b"new");
    let empty = serve_bytes(with_length(b""));
    is_fine(&run!("get -o {path} http://{empty}/"), b"");
    assert_eq!(fs::read(&path).unwrap(), b"");
    assert_eq!(folder.names(), ["file"]);
    let nowhere = folder.path("no/file");
    run!("get -o {nowhere} http://{whole}/").fails(1, "no/file: opening it to write");
}

#[test]
fn another_user_cannot_prepare_the_growing_file() {
    let folder = Folder::new();
    let (path, victim) = (folder.path("file"), folder.file("victim", "precious"));
    symlink(&victim, folder.path("file.part")).unwrap();
    let server = serve_bytes(with_length(b"new"));
    is_fine(&run!("get -o {path} http://{server}/"), b"");
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert_eq!(folder.names(), ["file", "file.part", "victim"]);
    // A link of our own is followed, and stays.
    let link = folder.path("link");
    symlink("victim", &link).unwrap();
    is_fine(&run!("get -o {link} http://{server}/"), b"");
    assert_eq!(fs::read(&victim).unwrap(), b"new");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn two_fetches_of_one_name_do_not_mix() {
    let (folder, path) = Folder::with("file");
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let (tell, message) = mpsc::channel();
    let slow = serve(move |client| {
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst");
        tell.send(()).unwrap();
        gone.lock().unwrap().recv().unwrap();
        client.send("FIRST");
    });
    let first = start!("get -o {path} http://{slow}/");
    message.recv().unwrap();
    let quick = serve_bytes(with_length(b"another body"));
    is_fine(&run!("get -o {path} http://{quick}/"), b"");
    assert_eq!(fs::read(&path).unwrap(), b"another body");
    go.send(()).unwrap();
    first.wait_with_output().unwrap().succeeds();
    assert_eq!(fs::read(&path).unwrap(), b"firstFIRST");
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn a_kill_leaves_no_files() {
    let (folder, path) = Folder::with("file");
    let server = serve_and_wait("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
    for signal in ["-KILL", "-INT"] {
        let mut child = start!("get -q -o {path} http://{server}/");
        // Once it has opened a file there, it has begun to write, and listens to signals.
        let descriptors = format!("/proc/{}/fd", child.id());
        let is_there = |entry: fs::DirEntry| {
            fs::read_link(entry.path()).is_ok_and(|to| to.starts_with(folder.path("")))
        };
        wait_until(|| fs::read_dir(&descriptors).unwrap().flatten().any(is_there));
        interrupt(&child, signal);
        assert!(!child.wait().unwrap().success());
        assert_eq!(folder.names(), [""; 0], "{signal}");
    }
}

#[test]
fn a_new_file_has_the_permissions_of_the_umask_and_a_replaced_one_keeps_its_own() {
    let (_folder, path) = Folder::with("file");
    let server = serve_bytes(with_length(b"new"));
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    let script = format!("umask 027; exec forebay get -q -o {path} http://{server}/");
    let fetch = || shell(&script).output().unwrap();
    is_fine(&fetch(), b"");
    assert_eq!(mode(), 0o640);
    set_mode(&path, 0o4604);
    is_fine(&fetch(), b"");
    assert_eq!(mode(), 0o604);
    // Each of several files has its own.
    let folder = Folder::new();
    for (name, mode) in [("a", 0o644), ("b", 0o600)] {
        set_mode(folder.file(name, "old"), mode);
    }
    let urls = format!("http://{server}/a http://{server}/b http://{server}/new");
    let script = format!("umask 077; exec forebay get -q -O {urls}");
    let ran = shell(&script).current_dir(&*folder).output().unwrap();
    is_fine(&ran, b"");
    for (name, mode) in [("a", 0o644), ("b", 0o600), ("new", 0o600)] {
        let found = fs::metadata(folder.path(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(found & 0o7777, mode, "{name}");
        assert_eq!(fs::read(folder.path(name)).unwrap(), b"new");
    }
}

#[test]
fn the_file_is_durable_before_it_has_its_name_and_the_name_at_the_end() {
    if !has("strace") {
        return;
    }
    let folder = Folder::new();
    let (log, path) = (folder.path("log"), folder.path("file"));
    let server = serve_bytes(with_length(b"new"));
    let line = format!("get -q -o {path} http://{server}/");
    let fetch = |tampering: &str| {
        let options = format!("-e trace=fsync,rename,close {tampering}");
        strace(&options, &log, &line).output().unwrap()
    };
    is_fine(&fetch(""), b"");
    let calls = fs::read_to_string(&log).unwrap();
    let calls = calls.lines().filter_map(|line| {
        let call = line.split_whitespace().nth(1)?.split('(').next()?;
        ["fsync", "rename"].contains(&call).then_some(call)
    });
    assert_eq!(calls.collect::<Vec<_>>(), ["fsync", "rename", "fsync"]);
    // The disk refuses: the file is as it was.
    fs::write(&path, "old").unwrap();
    let ran = fetch("-e inject=fsync:error=EIO");
    ran.fails(1, "file: making it durable: input/output error");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(folder.names(), ["file", "log"]);
}

#[test]
fn what_another_user_put_into_a_shared_folder_is_not_written_to() {
    let Some(shared) = shared_folder() else {
        return;
    };
    let server = serve_bytes(with_length(b"secret"));
    for name in ["fifo", "link"] {
        let path = shared.path(name);
        run!("get -o {path} http://{server}/").fails(1, "another user (number 65534)");
    }
    assert_eq!(fs::read(shared.path("victim")).unwrap(), b"precious");
}

#[test]
fn a_full_disk_is_an_error_that_counts() {
    let server = serve_bytes(with_length(&noise(3_000_000)));
    let expected = "no space left on device (os error 28). 0 bytes of 3000000 were written";
    run!("get -o /dev/full http://{server}/").fails(1, expected);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = forebay!("get http://{server}/");
    command.stdout(full).output().unwrap().fails(1, expected);
}

#[test]
fn a_reader_that_leaves_early_is_not_an_error() {
    let server = serve_bytes(with_length(&noise(20_000_000)));
    let mut child = start!("get http://{server}/");
    let mut begin = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut begin).unwrap();
    let ran = child.wait_with_output().unwrap();
    assert_eq!((ran.status.code(), ran.log()), (Some(0), ""));
    assert_eq!(begin.as_slice(), noise(10));
    // But a checksum that was not compared is one.
    let mut child = start!("get --sha256 {} http://{server}/", "0".repeat(64));
    child.stdout.take().unwrap().read_exact(&mut begin).unwrap();
    let ran = child.wait_with_output().unwrap();
    ran.fails(1, "so its SHA-256 was not compared");
}

/// Reads the first bytes of its output: once these are here, it listens to signals.
fn begins(child: &mut Child) {
    let stdout = child.stdout.as_mut().unwrap();
    stdout.read_exact(&mut [0; 5]).unwrap();
}

#[test]
fn a_signal_ends_it_and_the_bytes_are_counted() {
    let server = serve_and_wait("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
    for name in ["-INT", "-TERM"] {
        let mut child = start!("get http://{server}/");
        begins(&mut child);
        interrupt(&child, name);
        let ran = child.wait_with_output().unwrap();
        ran.fails(1, "was stopped. 5 bytes of 9 were written");
    }
}

#[test]
fn a_second_signal_ends_it_although_its_output_is_not_read() {
    let server = serve_bytes(with_length(&noise(20_000_000)));
    let mut child = start!("get http://{server}/");
    begins(&mut child);
    interrupt(&child, "-INT");
    interrupt(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn several_urls_go_to_files_with_their_last_names_and_a_failed_one_stops_no_other() {
    let folder = Folder::new();
    let server = serve(|client| match client.path() {
        "/x/a.bin?b=/c" => client.send(with_length(b"first")),
        "/b.bin" => client.send(with_length(b"second")),
        _ => client.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
    });
    let get = |line: &str| {
        let mut command = forebay!("get {line}");
        command.current_dir(&*folder).output().unwrap()
    };
    // A name before a port is a host, also without http://.
    let ran = get(&format!(
        "-O '{server}/x/a.bin?b=/c' localhost:{0}/none {server}/b.bin",
        server.port()
    ));
    ran.fails(1, "404 Not Found");
    assert_eq!(folder.names(), ["a.bin", "b.bin"]);
    assert_eq!(std::fs::read(folder.path("a.bin")).unwrap(), b"first");
    is_fine(
        &get(&format!("-q {server}/b.bin {server}/b.bin")),
        b"secondsecond",
    );
    for (line, expected) in [
        ("-O http://h/", "ends with no name of a file"),
        ("-O http://h/a http://h/b/a", "the same last name, a"),
        ("-o x http://h/a http://h/b", "Use -O"),
        ("--sha256 00 http://h/a", "is not a SHA-256"),
        ("ftp:/x", "unsupported scheme 'ftp'"),
    ] {
        get(line).fails(2, expected);
    }
}

#[test]
fn a_file_with_another_sum_than_wanted_gets_no_name() {
    let (folder, path) = Folder::with("file");
    let server = serve_bytes(with_length(b"hello"));
    let right = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let wrong = right.replace("2cf2", "2cf3");
    let refused = format!("its SHA-256 is {right}, and not {wrong}");
    run!("get -o {path} --sha256 {wrong} http://{server}/").fails(1, &refused);
    assert!(folder.names().is_empty());
    run!("get --sha256 {wrong} http://{server}/").fails(1, &refused);
    run!("get -o {path} --sha256 {right} http://{server}/").succeeds();
    assert_eq!(std::fs::read(&path).unwrap(), b"hello");
}
