//! `forebay get` as users run it, with servers that the test starts on loopback: correct, slow and lying ones.

use fetch::{fails, get, http, is_fine, with_length};
use server::{Client, serve, serve_bytes, serve_on};
use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Command, Stdio},
};
use support::{Folder, dice::noise, has, text};

#[path = "support/fetch.rs"]
mod fetch;
#[path = "support/server.rs"]
mod server;
mod support;

fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks(size) {
        bytes.extend(format!("{:x};a=b\r\n", chunk.len()).bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\nTrailer: x\r\n\r\n");
    bytes
}

#[test]
fn bodies_are_whole_with_every_kind_of_framing() {
    // More than the stream holds at once.
    let body = noise(5_000_000);
    let close = [b"HTTP/1.0 200 OK\r\n\r\n", body.as_slice()].concat();
    for answer in [with_length(&body), chunked(&body, 70_001), close] {
        let ran = get(&[&http(serve_bytes(answer), "/")]);
        is_fine(&ran, &body);
        assert!(text(&ran.stderr).starts_with("forebay: 5000000 bytes, "));
    }
}

#[test]
fn bodies_that_arrive_byte_by_byte_are_whole() {
    let body = noise(300);
    for answer in [with_length(&body), chunked(&body, 7)] {
        let server = serve(move |client| answer.iter().for_each(|&byte| client.send([byte])));
        is_fine(&get(&["-q", &http(server, "/")]), &body);
    }
}

#[test]
fn a_server_that_keeps_the_connection_is_not_waited_for() {
    for answer in [with_length(b"hello"), chunked(b"hello", 2)] {
        let server = serve(move |client| {
            client.send(&answer);
            client.wait();
        });
        is_fine(&get(&[&http(server, "/")]), b"hello");
    }
}

/// A server whose answer is that head, and which keeps the connection.
fn serve_status(status: &'static str) -> std::net::SocketAddr {
    serve(move |client| {
        client.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
        client.wait();
    })
}

#[test]
fn an_answer_without_content_is_empty_and_makes_no_file() {
    let folder = support::Folder::new();
    let path = folder.path("file");
    let server = serve_status("204 No Content");
    is_fine(&get(&[&http(server, "/")]), b"");
    let ran = get(&["-o", &path, &http(server, "/")]);
    fails(&ran, 1, "no content (status 204): no file was written");
    for (status, expected) in [
        (
            "205 Reset Content",
            "the server sends no content (status 205)",
        ),
        ("304 Not Modified", "nothing has changed (status 304)"),
    ] {
        let server = serve_status(status);
        fails(&get(&[&http(server, "/")]), 1, expected);
        fails(&get(&["-o", &path, &http(server, "/")]), 1, expected);
        let raw = get(&["--raw", &http(server, "/")]);
        assert_eq!(raw.status.code(), Some(0));
        assert!(support::text(&raw.stdout).contains(status));
    }
    assert!(!std::fs::exists(&path).unwrap());
}

#[test]
fn only_text_is_written_to_a_terminal_except_on_request() {
    if !support::has("script") {
        return;
    }
    let shown = |flags: &str, body: &[u8]| {
        let url = http(serve_bytes(with_length(body)), "/");
        let command = format!("{} get -q {flags} {url}", env!("CARGO_BIN_EXE_forebay"));
        let output = std::process::Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), log)
    };
    let text = "Gr\u{fc}\u{df}e\tand\nlines\n";
    let (code, log) = shown("", text.as_bytes());
    assert_eq!((code, log.replace('\r', "").as_str()), (Some(0), text));
    for binary in [&b"a\0b"[..], b"\x1b]0;title\x07", b"\x7fELF"] {
        let (code, log) = shown("", binary);
        assert_eq!(code, Some(1), "{log:?}");
        assert!(log.contains("it is not text, and standard output is a terminal"));
        assert!(log.contains("0 bytes") && !log.contains('\x1b'), "{log:?}");
    }
    let (code, log) = shown("-o -", b"a\x1b[0mb");
    assert_eq!((code, log.as_str()), (Some(0), "a\x1b[0mb"));
}

#[test]
fn interim_answers_are_passed_over() {
    let hints = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    let server = serve_bytes([hints.as_slice(), &with_length(b"hello")].concat());
    is_fine(&get(&[&http(server, "/")]), b"hello");
}

#[test]
fn the_request_has_the_needed_fields_and_no_more() {
    let server = serve(|client| {
        let request = client.request.clone();
        client.send(with_length(request.as_bytes()));
    });
    let ran = get(&[&http(server, "/a b/../c?d=e#f")]);
    let expected = format!(
        "GET /c?d=e HTTP/1.1\r\nHost: {server}\r\nUser-Agent: forebay/{}\r\nAccept: */*\r\n\
         Accept-Encoding: identity\r\nConnection: close\r\n\r\n",
        env!("CARGO_PKG_VERSION")
    );
    is_fine(&ran, expected.as_bytes());
}

#[test]
fn ipv6_addresses_are_understood() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        println!("skipped: needs IPv6 on loopback");
        return;
    };
    let server = serve_on(listener, |client: &mut Client| {
        assert!(client.request.contains("\r\nHost: [::1]:"));
        client.send(with_length(b"six"));
    });
    is_fine(&get(&[&http(server, "/")]), b"six");
}

#[test]
fn the_head_and_the_raw_bytes_are_shown_on_request() {
    let answer = chunked(b"hello", 3);
    let server = serve_bytes(answer.clone());
    is_fine(&get(&["--raw", &http(server, "/")]), &answer);
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    is_fine(
        &get(&["-i", &http(server, "/")]),
        format!("{head}hello").as_bytes(),
    );
    let sent_on =
        "HTTP/1.1 100 x\r\n\r\nHTTP/1.1 302 y\r\nLocation: /\r\nContent-Length: 2\r\n\r\nno";
    let server = serve_bytes(sent_on);
    is_fine(&get(&["--raw", &http(server, "/")]), sent_on.as_bytes());
    assert_eq!(get(&["--raw", "-i", "http://x/"]).status.code(), Some(2));
}

#[test]
fn an_answer_that_ends_early_is_an_error_that_counts() {
    let cases = [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
            "5 of 9 bytes arrived",
            "hello",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "5 bytes arrived, but not the last chunk",
            "hello",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
            "5 bytes arrived",
            "hello",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Len",
            "within its head, after 28 bytes",
            "",
        ),
        ("", "without a response", ""),
    ];
    for (answer, expected, came) in cases {
        let ran = get(&[&http(serve_bytes(answer), "/")]);
        fails(&ran, 1, expected);
        assert_eq!(text(&ran.stdout), came);
        assert!(text(&ran.stderr).contains(&format!("{} bytes", came.len())));
    }
}

#[test]
fn silence_has_a_limit_in_the_head_and_in_the_body() {
    for answer in [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
    ] {
        let server = serve(move |client| {
            client.send(answer);
            client.wait();
        });
        let ran = get(&["--silence", "200ms", &http(server, "/")]);
        fails(&ran, 1, "no data was transferred for 0.2 s");
    }
}

#[test]
fn answers_that_make_no_sense_are_refused() {
    let ok = "HTTP/1.1 200 OK\r\n";
    let cases = [
        ("SSH-2.0-x\r\n".to_owned(), "not an HTTP/1 response"),
        (
            format!("{ok}A: {}", "x".repeat(70_000)),
            "does not end within 65536 bytes",
        ),
        (
            format!("{ok}{}\r\n", "A: b\r\n".repeat(200)),
            "more than 128 fields",
        ),
        (
            format!("{ok}Content-Length: -5\r\n\r\nhello"),
            "not one number: \"-5\"",
        ),
        (
            format!("{ok}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
            "\"5, 6\"",
        ),
        (
            format!("{ok}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            "both Content-Length and Transfer-Encoding",
        ),
        (
            format!("{ok}Transfer-Encoding: gzip\r\n\r\n"),
            "Transfer-Encoding is not",
        ),
        (
            format!("{ok}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"),
            "size of a chunk is malformed",
        ),
        (
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\n\r\nx".into(),
            "sends a part",
        ),
        (
            "HTTP/1.1 101 Switching\r\n\r\n".into(),
            "switches protocols",
        ),
    ];
    for (answer, expected) in cases {
        let ran = get(&[&http(serve_bytes(answer), "/")]);
        fails(&ran, 1, expected);
        assert_eq!(text(&ran.stdout), "");
    }
}

#[test]
fn a_head_without_end_is_not_read_without_end() {
    let server = serve(|client| {
        client.send("HTTP/1.1 200 OK\r\n");
        // Until the client leaves.
        while client.try_send("A: b\r\n") {}
    });
    fails(
        &get(&[&http(server, "/")]),
        1,
        "does not end within 65536 bytes",
    );
}

#[test]
fn redirects_are_followed_and_reported() {
    let server = serve(|client| {
        let location = match client.path() {
            "/a/b" => "c",
            "/a/c" => "/d?e",
            "/d?e" => &format!("http://{}/f#g", client.socket.local_addr().unwrap()),
            _ => return client.send(with_length(b"here")),
        };
        client.send(format!(
            "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 2\r\n\r\nno"
        ));
    });
    let ran = get(&[&http(server, "/a/b")]);
    is_fine(&ran, b"here");
    let message = format!("forebay: 302 Found, on to http://{server}/d?e\n");
    assert!(
        text(&ran.stderr).contains(&message),
        "{}",
        text(&ran.stderr)
    );
    let ran = get(&["-q", "--max-redirects", "2", &http(server, "/a/b")]);
    fails(&ran, 1, "after 2 redirects");
}

#[test]
fn redirects_that_lead_nowhere_are_refused() {
    let server = serve(|client| {
        let location = match client.path() {
            "/c" => "Location: /c\r\n",
            "/f" => "Location: file:///etc/passwd\r\n",
            "/u" => "Location: http://me:secret@host/\r\n",
            _ => "",
        };
        client.send(format!(
            "HTTP/1.1 301 Moved\r\n{location}Content-Length: 0\r\n\r\n"
        ));
    });
    for (path, expected) in [
        ("/c", "in a loop"),
        ("/f", "unsupported scheme 'file'"),
        ("/u", "a user name or password"),
        ("/0", "without exactly one Location"),
    ] {
        let ran = get(&[&http(server, path)]);
        fails(&ran, 1, expected);
        assert!(!text(&ran.stderr).contains("secret"));
    }
    let endless = serve(|client| {
        let answer = format!("HTTP/1.1 307 x\r\nLocation: {}x\r\n\r\n", client.path());
        client.send(answer);
    });
    fails(&get(&[&http(endless, "/")]), 1, "after 10 redirects");
}

#[test]
fn requests_that_make_no_sense_are_refused_before_anything_is_sent() {
    for (args, expected) in [
        (vec!["host/path"], "such as http://host/path"),
        (vec!["ftp://host/"], "unsupported scheme 'ftp'"),
        (vec!["http://me:secret@host/"], "user name or password"),
        (
            vec!["http://host/", "--silence", "0"],
            "'0' for '--silence <TIME>': '0' is not a time. Use a value such as 10 or 500ms",
        ),
        (
            vec!["http://host/", "--connect", "soon"],
            "'soon' for '--connect <TIME>': 'soon' is not a time",
        ),
        (vec![], "required"),
    ] {
        let ran = get(&args);
        fails(&ran, 2, expected);
        assert!(!text(&ran.stderr).contains("secret"));
    }
}

#[test]
fn an_unreachable_server_is_reported_once() {
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let ran = get(&[&http(address, "/")]);
    let expected = format!(
        "forebay: error: http://{address}/: connecting to {address}: connection refused (os error 111)\n"
    );
    assert_eq!(
        (ran.status.code(), text(&ran.stderr)),
        (Some(1), expected.as_str())
    );
}

#[test]
fn pythons_server_is_understood() {
    if !has("python3") {
        return;
    }
    let folder = Folder::new();
    let body = noise(3_000_000);
    fs::write(folder.path("a b"), &body).unwrap();
    let root = folder.path("");
    let mut server = Command::new("python3")
        .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1"])
        .args(["--directory", &root])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    // Serving HTTP on 127.0.0.1 port 45678 (http://127.0.0.1:45678/) ...
    let port = line.split(' ').nth(5).unwrap().to_owned();
    let fetched = get(&[&format!("http://127.0.0.1:{port}/a b")]);
    let missing = get(&[&format!("http://127.0.0.1:{port}/none")]);
    server.kill().unwrap();
    server.wait().unwrap();
    is_fine(&fetched, &body);
    fails(&missing, 1, "404 File not found");
}
