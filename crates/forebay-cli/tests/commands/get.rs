//! `forebay get` as users run it, with servers that the test starts on loopback: correct, slow and lying ones.

use crate::server::{Client, is_fine, serve, serve_and_wait, serve_bytes, serve_on, with_length};
use crate::support::*;
use std::{
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener},
    process::{Command, Stdio},
};

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
    let answers = [
        (with_length(&body), false),
        (chunked(&body, 70_001), false),
        (close, true),
    ];
    for (answer, has_no_end) in answers {
        let ran = run!("get http://{}/", serve_bytes(answer));
        is_fine(&ran, &body);
        assert!(ran.log().starts_with("forebay: 5000000 bytes, "));
        assert_eq!(ran.log().contains("sent no length"), has_no_end);
    }
}

#[test]
fn bodies_that_arrive_byte_by_byte_are_whole() {
    let body = noise(300);
    for answer in [with_length(&body), chunked(&body, 7)] {
        let server = serve(move |client| answer.iter().for_each(|&byte| client.send([byte])));
        is_fine(&run!("get -q http://{server}/"), &body);
    }
}

#[test]
fn a_server_that_keeps_the_connection_is_not_waited_for() {
    for answer in [with_length(b"hello"), chunked(b"hello", 2)] {
        is_fine(&run!("get http://{}/", serve_and_wait(answer)), b"hello");
    }
}

/// A server whose answer is that head, and which keeps the connection.
fn serve_status(status: &str) -> SocketAddr {
    serve_and_wait(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))
}

#[test]
fn an_answer_without_content_is_empty_and_makes_no_file() {
    let (_folder, path) = Folder::with("file");
    let server = serve_status("204 No Content");
    is_fine(&run!("get http://{server}/"), b"");
    run!("get -o {path} http://{server}/").fails(1, "no content (status 204): no file was written");
    for (status, expected) in [
        (
            "205 Reset Content",
            "the server sends no content (status 205)",
        ),
        ("304 Not Modified", "nothing has changed (status 304)"),
    ] {
        let server = serve_status(status);
        run!("get http://{server}/").fails(1, expected);
        run!("get -o {path} http://{server}/").fails(1, expected);
        let raw = run!("get --raw http://{server}/");
        contains(raw.succeeds().text(), status);
    }
    assert!(!std::fs::exists(&path).unwrap());
}

#[test]
fn only_text_is_written_to_a_terminal_except_on_request() {
    if !has("script") {
        return;
    }
    let shown = |flags: &str, body: &[u8]| {
        let server = serve_bytes(with_length(body));
        let command = format!("{FOREBAY} get -q {flags} http://{server}/");
        let output = foreign(format!("script -qec '{command}' /dev/null")).unwrap();
        let log = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), log)
    };
    let text = "Gr\u{fc}\u{df}e\tand\nlines\n";
    let (code, log) = shown("", text.as_bytes());
    assert_eq!((code, log.replace('\r', "").as_str()), (Some(0), text));
    for binary in [&b"a\0b"[..], b"\x1b]0;title\x07", b"\x7fELF"] {
        let (code, log) = shown("", binary);
        assert_eq!(code, Some(1), "{log:?}");
        lacks(&log, "\x1b");
        let words: Vec<_> = log.split_whitespace().collect();
        let log = words.join(" ");
        contains(&log, "it is not text, and standard output is a terminal");
        contains(&log, "0 bytes");
    }
    let (code, log) = shown("-o -", b"a\x1b[0mb");
    assert_eq!((code, log.as_str()), (Some(0), "a\x1b[0mb"));
}

#[test]
fn interim_answers_are_passed_over() {
    let hints = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    let server = serve_bytes([hints.as_slice(), &with_length(b"hello")].concat());
    is_fine(&run!("get http://{server}/"), b"hello");
}

#[test]
fn the_request_has_the_needed_fields_and_no_more() {
    let server = serve(|client| {
        let request = client.request.clone();
        client.send(with_length(request.as_bytes()));
    });
    let ran = run!("get 'http://{server}/a b/../c?d=e#f'");
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
    is_fine(&run!("get http://{server}/"), b"six");
}

#[test]
fn the_head_and_the_raw_bytes_are_shown_on_request() {
    let answer = chunked(b"hello", 3);
    let server = serve_bytes(answer.clone());
    is_fine(&run!("get --raw http://{server}/"), &answer);
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let with_head = run!("get -i http://{server}/");
    is_fine(&with_head, format!("{head}hello").as_bytes());
    let sent_on =
        "HTTP/1.1 100 x\r\n\r\nHTTP/1.1 302 y\r\nLocation: /\r\nContent-Length: 2\r\n\r\nno";
    let server = serve_bytes(sent_on);
    is_fine(&run!("get --raw http://{server}/"), sent_on.as_bytes());
    assert_eq!(run!("get --raw -i http://x/").status.code(), Some(2));
}

#[test]
fn an_answer_that_ends_early_is_an_error_that_counts() {
    let ok = "HTTP/1.1 200 OK\r\n";
    let chunked = "Transfer-Encoding: chunked";
    let cases = [
        (
            format!("{ok}Content-Length: 9\r\n\r\nhello"),
            "5 of 9 bytes arrived",
            "hello",
        ),
        (
            format!("{ok}{chunked}\r\n\r\n5\r\nhello\r\n"),
            "5 bytes arrived, but not the last chunk",
            "hello",
        ),
        (
            format!("{ok}{chunked}\r\n\r\n9\r\nhello"),
            "5 bytes arrived",
            "hello",
        ),
        (
            format!("{ok}Content-Len"),
            "within its head, after 28 bytes",
            "",
        ),
        (String::new(), "without a response", ""),
    ];
    for (answer, expected, came) in cases {
        let ran = run!("get http://{}/", serve_bytes(answer));
        ran.fails(1, expected);
        assert_eq!(ran.text(), came);
        contains(ran.log(), format!("{} bytes", came.len()));
    }
}

#[test]
fn silence_has_a_limit_in_the_head_and_in_the_body() {
    let body = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello";
    for answer in ["", "HTTP/1.1 200", body] {
        let ran = run!("get --silence 200ms http://{}/", serve_and_wait(answer));
        ran.fails(1, "no data was transferred for 0.2 s");
    }
}

#[test]
fn answers_that_make_no_sense_are_refused() {
    let (long, many) = (format!("A: {}", "x".repeat(70_000)), "A: b\r\n".repeat(200));
    let heads = [
        ("SSH-2.0-x", "not an HTTP/1 response"),
        (
            &format!("HTTP/1.1 200 OK\r\n{long}"),
            "does not end within 65536 bytes",
        ),
        (
            &format!("HTTP/1.1 200 OK\r\n{many}"),
            "more than 128 fields",
        ),
        (
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\n\r\nx",
            "sends a part",
        ),
        ("HTTP/1.1 101 Switching\r\n", "switches protocols"),
    ];
    let fields = [
        ("Content-Length: -5\r\n\r\nhello", "not one number: \"-5\""),
        (
            "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
            "\"5, 6\"",
        ),
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            "both Content-Length and Transfer-Encoding",
        ),
        ("Transfer-Encoding: gzip\r\n", "Transfer-Encoding is not"),
        (
            "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff",
            "size of a chunk is malformed",
        ),
    ];
    let with_head = |(text, expected)| (format!("HTTP/1.1 200 OK\r\n{text}"), expected);
    let heads = heads.map(|(text, expected)| (text.to_owned(), expected));
    for (answer, expected) in heads.into_iter().chain(fields.map(with_head)) {
        let ran = run!("get http://{}/", serve_bytes(answer + "\r\n"));
        ran.fails(1, expected);
        assert_eq!(ran.text(), "");
    }
}

#[test]
fn a_head_without_end_is_not_read_without_end() {
    let server = serve(|client| {
        client.send("HTTP/1.1 200 OK\r\n");
        // Until the client leaves.
        while client.try_send("A: b\r\n") {}
    });
    run!("get http://{server}/").fails(1, "does not end within 65536 bytes");
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
    let ran = run!("get http://{server}/a/b");
    is_fine(&ran, b"here");
    let message = format!("forebay: 302 Found, on to http://{server}/d?e\n");
    contains(ran.log(), message);
    run!("get -q --max-redirects 2 http://{server}/a/b").fails(1, "after 2 redirects");
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
        let ran = run!("get http://{server}{path}");
        ran.fails(1, expected);
        lacks(ran.log(), "secret");
    }
    let endless = serve(|client| {
        let answer = format!("HTTP/1.1 307 x\r\nLocation: {}x\r\n\r\n", client.path());
        client.send(answer);
    });
    run!("get http://{endless}/").fails(1, "after 10 redirects");
}

#[test]
fn requests_that_make_no_sense_are_refused_before_anything_is_sent() {
    let cases = "
        /path                          | such as http://host/path
        ftp://host/                    | unsupported scheme 'ftp'
        http://me:secret@host/         | user name or password
        http://host/ --silence 0       | '0' for '--silence <TIME>': '0' is not a time. Use a value such as 10 or 500ms
        http://host/ --connect soon    | 'soon' for '--connect <TIME>': 'soon' is not a time
                                       | required
    ";
    for [arguments, expected] in rows(cases) {
        let ran = run!("get {arguments}");
        ran.fails(2, expected);
        lacks(ran.log(), "secret");
    }
}

#[test]
fn an_unreachable_server_is_reported_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let ran = run!("get http://{address}/");
    let expected = format!(
        "forebay: error: http://{address}/: connecting to {address}: connection refused (os error 111)\n"
    );
    assert_eq!((ran.status.code(), ran.log()), (Some(1), expected.as_str()));
}

#[test]
fn pythons_server_is_understood() {
    if !has("python3") {
        return;
    }
    let (folder, body) = (Folder::new(), noise(3_000_000));
    folder.file("a b", &body);
    let mut python = Command::new("python3");
    python.args(words("-u -m http.server 0 --bind 127.0.0.1 --directory"));
    python
        .arg(folder.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = Mortal(python.spawn().unwrap());
    let mut line = String::new();
    let mut lines = BufReader::new(server.0.stdout.take().unwrap());
    lines.read_line(&mut line).unwrap();
    // Serving HTTP on 127.0.0.1 port 45678 (http://127.0.0.1:45678/) ...
    let port = line.split(' ').nth(5).unwrap();
    is_fine(&run!("get 'http://127.0.0.1:{port}/a b'"), &body);
    run!("get http://127.0.0.1:{port}/none").fails(1, "404 File not found");
}
